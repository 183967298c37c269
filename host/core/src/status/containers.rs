//! One status per container of the spec.

use std::cmp::Ordering;

use k8s_openapi::api::core::v1;

use crate::observed::{Container as Attempt, ContainerState, Observed};
use crate::pod::{Container, ContainerKind};
use crate::restart::{RestartDecision, should_restart};

use super::state::{self, UNKNOWN};
use super::{Cx, missing};

/// Bytes of all termination messages of a pod together.
const MESSAGE_BUDGET: usize = 12_288;

/// The statuses by list of the spec: init containers in its order, the others by name.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) init: Vec<v1::ContainerStatus>,
    pub(super) app: Vec<v1::ContainerStatus>,
    pub(super) ephemeral: Vec<v1::ContainerStatus>,
}

impl Lists {
    pub(super) fn get(&self, container: &Container) -> Option<&v1::ContainerStatus> {
        let list = match container.kind {
            ContainerKind::Init | ContainerKind::Sidecar => &self.init,
            ContainerKind::App => &self.app,
            ContainerKind::Ephemeral => &self.ephemeral,
        };
        list.iter().find(|status| status.name == container.name.as_str())
    }
}

/// The statuses of all containers of the spec.
pub(super) fn lists(cx: &Cx<'_>) -> Lists {
    let (pod, mut lists) = (cx.inputs.pod, Lists::default());
    let message_bytes = MESSAGE_BUDGET / pod.containers.len().max(1);
    for container in &pod.containers {
        let mut status = one(cx, container);
        for state in [&mut status.state, &mut status.last_state].into_iter().flatten() {
            if let Some(message) = state.terminated.as_mut().and_then(|end| end.message.as_mut()) {
                message.truncate(message.floor_char_boundary(message_bytes));
            }
        }
        match container.kind {
            ContainerKind::Init | ContainerKind::Sidecar => lists.init.push(status),
            ContainerKind::App => lists.app.push(status),
            ContainerKind::Ephemeral => lists.ephemeral.push(status),
        }
    }
    lists.app.sort_by(|a, b| a.name.cmp(&b.name));
    lists.ephemeral.sort_by(|a, b| a.name.cmp(&b.name));
    lists
}

/// The pod is over: what has no end, though it began, gets one that nobody saw. App containers count as begun once the pod was
/// initialised, init containers up to the last of which there is a trace (the first in any case).
pub(super) fn terminate(lists: &mut Lists) {
    let begun = |status: &v1::ContainerStatus| !state::is_waiting(status) || state::last(status).is_some();
    let succeeded = |status: &v1::ContainerStatus| {
        [state::ended(status), state::last(status)].into_iter().flatten().any(|end| end.exit_code == 0)
            || (state::is_running(status) && status.started == Some(true))
    };
    let initialized = lists.init.last().is_none_or(succeeded) || lists.app.iter().any(begun);
    let traces = lists.init.iter().rposition(begun).unwrap_or(0) + 1;
    let apps = lists.app.iter_mut().filter(|_| initialized);
    for status in lists.init.iter_mut().take(traces).chain(apps) {
        if state::ended(status).is_none() {
            let end = state::lost(UNKNOWN, "The container could not be located when the pod was terminated");
            status.state = Some(state::terminated(end));
            status.started = Some(false);
            status.ready = false;
        }
    }
}

fn one(cx: &Cx<'_>, container: &Container) -> v1::ContainerStatus {
    let old = old(cx, container);
    let mut status = match cx.inputs.observed {
        // Not looked at yet: what was shown is the best that is known.
        None => match old {
            Some(old) => return old.clone(),
            None => missing::fresh(cx, container),
        },
        Some(have) => match have.newest(container.name.as_str()) {
            Some(newest) => seen(cx, container, have, newest, old),
            None => missing::status(cx, container, old),
        },
    };
    hold_back(cx, container, &mut status);
    judge(cx, container, &mut status);
    status
}

fn old<'a>(cx: &Cx<'a>, container: &Container) -> Option<&'a v1::ContainerStatus> {
    let before = cx.before?;
    let list = match container.kind {
        ContainerKind::Init | ContainerKind::Sidecar => &before.init_container_statuses,
        ContainerKind::App => &before.container_statuses,
        ContainerKind::Ephemeral => &before.ephemeral_container_statuses,
    };
    list.iter().flatten().find(|status| status.name == container.name.as_str())
}

/// The end of an attempt. What it left as its message is remembered: the file goes with the pod's directory.
fn ended(cx: &Cx<'_>, container: &Container, attempt: &Attempt) -> v1::ContainerStateTerminated {
    let mut end = state::exited(attempt, &cx.inputs.config.runtime_name);
    let last = cx.inputs.record.containers.get(&container.name).and_then(|record| record.last.as_ref());
    if let Some(last) = last.filter(|last| attempt.message.is_empty() && last.id.as_ref() == Some(&attempt.id)) {
        end.message = Some(last.message.clone()).filter(|message| !message.is_empty());
    }
    end
}

/// The status of a container that the runtime has.
fn seen(
    cx: &Cx<'_>,
    container: &Container,
    have: &Observed,
    newest: &Attempt,
    old: Option<&v1::ContainerStatus>,
) -> v1::ContainerStatus {
    let runtime = &cx.inputs.config.runtime_name;
    let id = state::container_id(runtime, newest.id.as_str());
    let same = old.filter(|old| old.container_id.as_deref() == Some(id.as_str()));
    let mut status = missing::fresh(cx, container);
    status.restart_count = restarts(cx, container, Some(newest.attempt), old);
    status.state = Some(match newest.state {
        ContainerState::Running => state::running(newest),
        ContainerState::Created => state::waiting("", ""),
        ContainerState::Exited => state::terminated(ended(cx, container, newest)),
        ContainerState::Unknown => match (old, same.and_then(state::ended)) {
            (Some(old), _) if state::is_running(old) => {
                status.restart_count = status.restart_count.max(old.restart_count.saturating_add(1));
                state::terminated(state::lost(UNKNOWN, "The container could not be located when the pod was terminated"))
            }
            // It stays as it was said to be until the runtime can tell.
            (_, Some(end)) => state::terminated(end.clone()),
            _ => state::waiting("", ""),
        },
    });
    status.last_state = Some(v1::ContainerState { terminated: last(cx, container, have, newest, old), ..Default::default() });
    status.image = newest.image.clone();
    status.image_id = newest.image_ref.clone();
    status.container_id = Some(id);
    status.volume_mounts = missing::mounts(cx.inputs.pod, container, Some(newest));
    status.stop_signal = newest.stop_signal.clone();
    let resources = missing::spec(cx.inputs.pod, container).resources.cloned().unwrap_or_default();
    status.allocated_resources = resources.requests.clone().filter(|requests| !requests.is_empty());
    status.resources = Some(resources);
    status.user = newest.user.as_ref().map(|(uid, gid, groups)| v1::ContainerUser {
        linux: Some(v1::LinuxContainerUser { uid: *uid, gid: *gid, supplemental_groups: Some(groups.clone()) }),
    });
    status
}

/// The end before the newest attempt: of an older attempt that is still there; else the later one of what was shown and what is
/// remembered. An end that nobody saw has no instant, and counts as later.
fn last(
    cx: &Cx<'_>,
    container: &Container,
    have: &Observed,
    newest: &Attempt,
    old: Option<&v1::ContainerStatus>,
) -> Option<v1::ContainerStateTerminated> {
    let runtime = &cx.inputs.config.runtime_name;
    let older = have.of(container.name.as_str()).skip(1).find(|attempt| attempt.state == ContainerState::Exited);
    if let Some(older) = older {
        return Some(state::exited(older, runtime));
    }
    let id = state::container_id(runtime, newest.id.as_str());
    let is_other = old.is_some_and(|old| old.container_id.as_deref() != Some(id.as_str()));
    let shown = old.and_then(|old| state::ended(old).filter(|_| is_other).or(state::last(old))).cloned();
    let record = cx.inputs.record.containers.get(&container.name);
    let ends = record.into_iter().flat_map(|record| [&record.last, &record.before]).flatten();
    let kept = ends.into_iter().find(|end| end.id.as_ref() != Some(&newest.id)).map(|end| state::remembered(end, runtime));
    match (shown, kept) {
        (Some(shown), Some(kept)) => {
            let order = shown.finished_at.as_ref().map_or(Ordering::Greater, |at| Some(at).cmp(&kept.finished_at.as_ref()));
            Some(if order == Ordering::Less { kept } else { shown })
        }
        (shown, kept) => shown.or(kept),
    }
}

/// The restart count: it never falls.
pub(super) fn restarts(cx: &Cx<'_>, container: &Container, attempt: Option<u32>, old: Option<&v1::ContainerStatus>) -> i32 {
    let record = cx.inputs.record.containers.get(&container.name);
    let (made, told) = (record.and_then(|record| record.attempt), record.map_or(0, |record| record.told));
    let count = i32::try_from(attempt.max(made).unwrap_or(0).max(told)).unwrap_or(i32::MAX);
    count.max(old.map_or(0, |old| old.restart_count))
}

/// A container that is to be started, and could not be or waits for it, waits; its last end moves aside.
fn hold_back(cx: &Cx<'_>, container: &Container, status: &mut v1::ContainerStatus) {
    let Some(why) = cx.inputs.waiting.get(&container.name).filter(|_| !cx.is_ending()) else { return };
    let newest = cx.inputs.observed.and_then(|have| have.newest(container.name.as_str()));
    let record = cx.inputs.record.containers.get(&container.name);
    let owes = |attempt: &Attempt| record.is_some_and(|record| record.owes(&attempt.id));
    let is_due = match (newest.map(|attempt| attempt.state), state::ended(status)) {
        (Some(ContainerState::Running), _) => false,
        (Some(ContainerState::Exited) | None, Some(end)) => {
            let is_done = container.kind == ContainerKind::Init && end.exit_code == 0;
            let again = should_restart(cx.inputs.pod, container, Some(end.exit_code)) != RestartDecision::No;
            newest.is_some_and(owes) || (again && !is_done)
        }
        _ => true,
    };
    if !is_due {
        return;
    }
    let waiting = state::waiting(&why.reason, &why.message);
    match status.state.replace(waiting) {
        Some(ended) if ended.terminated.is_some() => status.last_state = Some(ended),
        _ => {}
    }
}

/// `started` and `ready`.
fn judge(cx: &Cx<'_>, container: &Container, status: &mut v1::ContainerStatus) {
    let running = state::is_running(status);
    let view = cx.inputs.probes.get(&container.name);
    let started = running && view.map_or(container.probes.startup.is_none(), |view| view.started);
    status.started = Some(started);
    status.ready = match container.kind {
        ContainerKind::Init => state::ended(status).is_some_and(|end| end.exit_code == 0),
        ContainerKind::Sidecar | ContainerKind::App => {
            started && view.map_or(container.probes.readiness.is_none(), |view| view.ready)
        }
        ContainerKind::Ephemeral => {
            // Not in service and without probes: nothing is said of either.
            status.started = None;
            false
        }
    };
}
