//! The API's values for states of a container.

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use crate::observed::Container as Attempt;
use crate::record::Ended;
use crate::time::Wall;

/// An end that nobody saw.
pub(super) const UNKNOWN: &str = "ContainerStatusUnknown";
/// Everything is started over.
pub(super) const RESTARTING_ALL: &str = "RestartingAllContainers";
/// Exit code of an end that nobody saw.
const LOST_EXIT_CODE: i32 = 137;

/// The API counts whole seconds.
pub(super) fn time(at: Wall) -> Time {
    let seconds = i64::try_from(at.0 / 1000).unwrap_or(i64::MAX);
    Time(Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX))
}

/// `<runtime>://<id>`.
pub(super) fn container_id(runtime: &str, id: &str) -> String {
    format!("{runtime}://{id}")
}

pub(super) fn running(attempt: &Attempt) -> v1::ContainerState {
    let started_at = attempt.started.map(time);
    v1::ContainerState { running: Some(v1::ContainerStateRunning { started_at }), ..Default::default() }
}

pub(super) fn waiting(reason: &str, message: &str) -> v1::ContainerState {
    let waiting = v1::ContainerStateWaiting { reason: text(reason), message: text(message) };
    v1::ContainerState { waiting: Some(waiting), ..Default::default() }
}

pub(super) fn terminated(of: v1::ContainerStateTerminated) -> v1::ContainerState {
    v1::ContainerState { terminated: Some(of), ..Default::default() }
}

/// The end of an attempt, as the runtime tells it.
pub(super) fn exited(attempt: &Attempt, runtime: &str) -> v1::ContainerStateTerminated {
    v1::ContainerStateTerminated {
        container_id: Some(container_id(runtime, attempt.id.as_str())),
        exit_code: attempt.exit_code,
        reason: text(&attempt.reason),
        message: text(&attempt.message),
        started_at: attempt.started.map(time),
        finished_at: attempt.finished.map(time),
        signal: None,
    }
}

/// The end of an attempt, as it is remembered.
pub(super) fn remembered(ended: &Ended, runtime: &str) -> v1::ContainerStateTerminated {
    v1::ContainerStateTerminated {
        container_id: ended.id.as_ref().map(|id| container_id(runtime, id.as_str())),
        exit_code: ended.exit_code,
        reason: text(&ended.reason),
        message: text(&ended.message),
        started_at: ended.started.map(time),
        finished_at: ended.finished.map(time),
        signal: None,
    }
}

/// An end that nobody saw.
pub(super) fn lost(reason: &str, message: &str) -> v1::ContainerStateTerminated {
    v1::ContainerStateTerminated { exit_code: LOST_EXIT_CODE, reason: text(reason), message: text(message), ..Default::default() }
}

pub(super) fn is_running(status: &v1::ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

/// It runs or has run: it does not wait for its first start.
pub(super) fn has_run(status: &v1::ContainerStatus) -> bool {
    is_running(status) || ended(status).is_some()
}

/// The present state, where that is an end.
pub(super) fn ended(status: &v1::ContainerStatus) -> Option<&v1::ContainerStateTerminated> {
    status.state.as_ref()?.terminated.as_ref()
}

/// The end before the present state.
pub(super) fn last(status: &v1::ContainerStatus) -> Option<&v1::ContainerStateTerminated> {
    status.last_state.as_ref()?.terminated.as_ref()
}

pub(super) fn is_waiting(status: &v1::ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.waiting.is_some())
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
