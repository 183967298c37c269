//! The phase, and its reason and message.

use k8s_openapi::api::core::v1;

use crate::observed::ContainerState;
use crate::pod::{Container, ContainerKind};
use crate::restart::{RestartDecision, should_restart};

use super::Cx;
use super::containers::Lists;
use super::state;

/// `status.phase`. There is no `Unknown`: a node that cannot tell says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase {
    /// As the API writes it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    pub(super) fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

    fn of(status: &v1::PodStatus) -> Option<Self> {
        [Self::Pending, Self::Running, Self::Succeeded, Self::Failed]
            .into_iter()
            .find(|phase| status.phase.as_deref() == Some(phase.as_str()))
    }
}

/// A phase with what is said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) phase: Phase,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
}

/// The phase that the pod has come to. A terminal one is never left: first the record's counts, then what was shown, here or by
/// the API, then the containers' states.
pub(super) fn decide(cx: &Cx<'_>, lists: &Lists) -> Verdict {
    if let Some(end) = &cx.inputs.record.end {
        let phase = if end.succeeded { Phase::Succeeded } else { Phase::Failed };
        return Verdict { phase, reason: end.reason.clone(), message: end.message.clone() };
    }
    let shown = [cx.before, cx.inputs.pod.object.status.as_ref()].into_iter().flatten();
    let terminal = shown.filter_map(Phase::of).find(|phase| phase.is_terminal());
    let phase = terminal.unwrap_or_else(|| match of_containers(cx, lists) {
        phase if phase.is_terminal() || !cx.inputs.stopped => phase,
        // All is over, and neither well nor badly: of a static pod that says nothing, of another one that it failed.
        phase if cx.inputs.pod.is_static() => cx.before.and_then(Phase::of).unwrap_or(phase),
        _ => Phase::Failed,
    });
    // What was said about a phase stays with it.
    let said = |part: fn(&v1::PodStatus) -> Option<&String>| {
        let shown = [cx.before, cx.inputs.pod.object.status.as_ref()].into_iter().flatten();
        shown.filter(|status| Phase::of(status) == Some(phase)).find_map(part).filter(|text| !text.is_empty()).cloned()
    };
    Verdict { phase, reason: said(|s| s.reason.as_ref()), message: said(|s| s.message.as_ref()) }
}

/// The phase that may be told: while something may still run, a pod does not become terminal.
pub(super) fn show(cx: &Cx<'_>, decided: &Verdict) -> Verdict {
    let before = cx.before.and_then(Phase::of);
    // What the API has been told, whoever told it, is not taken back.
    let told = [cx.before, cx.inputs.pod.object.status.as_ref()].into_iter().flatten().filter_map(Phase::of);
    if !decided.phase.is_terminal() || told.into_iter().any(Phase::is_terminal) || !cx.may_run() {
        return decided.clone();
    }
    Verdict {
        phase: before.unwrap_or(Phase::Running),
        reason: cx.before.and_then(|b| b.reason.clone()),
        message: cx.before.and_then(|b| b.message.clone()),
    }
}

/// What the states of the containers come to.
fn of_containers(cx: &Cx<'_>, lists: &Lists) -> Phase {
    let mut n = Tally::default();
    for container in &cx.inputs.pod.containers {
        let Some(status) = lists.get(container) else { continue };
        match container.kind {
            ContainerKind::Init => n.init(cx, container, status),
            ContainerKind::Sidecar => n.sidecar(status),
            ContainerKind::App => n.app(cx, container, status),
            ContainerKind::Ephemeral => {}
        }
    }
    let over = n.running == 0 && n.stopped > 0 && n.unknown == 0;
    let all_succeeded = n.stopped == n.succeeded;
    if n.failed_init > 0 {
        Phase::Failed
    } else if n.pending_init > 0 || (n.pending_sidecars > 0 && !cx.is_initialized()) || n.waiting > 0 {
        Phase::Pending
    } else if n.running > 0 && n.unknown == 0 {
        Phase::Running
    } else if over {
        let ended_for_good = cx.inputs.stopped && !cx.inputs.pod.is_static();
        match (ended_for_good || n.final_stops == n.stopped, all_succeeded) {
            (false, _) => Phase::Running,
            (true, true) => Phase::Succeeded,
            (true, false) => Phase::Failed,
        }
    } else {
        Phase::Pending
    }
}

#[derive(Debug, Default)]
struct Tally {
    /// Init containers that failed for good.
    failed_init: usize,
    /// Init containers that have not come to an end yet.
    pending_init: usize,
    /// Sidecars that have not come up yet.
    pending_sidecars: usize,
    unknown: usize,
    running: usize,
    waiting: usize,
    /// App containers that ended…
    stopped: usize,
    /// … for good …
    final_stops: usize,
    /// … and well.
    succeeded: usize,
}

impl Tally {
    fn init(&mut self, cx: &Cx<'_>, container: &Container, status: &v1::ContainerStatus) {
        let end = state::ended(status).or(state::last(status).filter(|_| state::is_waiting(status)));
        match end {
            Some(end) if end.exit_code != 0 => self.failed_init += usize::from(!restarts(cx, container, end)),
            Some(_) => {}
            None => self.pending_init += 1,
        }
    }

    /// An ended sidecar does not count.
    fn sidecar(&mut self, status: &v1::ContainerStatus) {
        if state::is_running(status) {
            self.running += 1;
            self.pending_sidecars += usize::from(status.started != Some(true));
        } else if state::is_waiting(status) {
            let fresh = usize::from(state::last(status).is_none());
            self.pending_sidecars += fresh;
            self.waiting += fresh;
        } else if state::ended(status).is_none() {
            self.pending_sidecars += 1;
            self.unknown += 1;
        }
    }

    fn app(&mut self, cx: &Cx<'_>, container: &Container, status: &v1::ContainerStatus) {
        if state::is_running(status) {
            self.running += 1;
        } else if let Some(end) = state::ended(status) {
            self.stopped += 1;
            self.succeeded += usize::from(end.exit_code == 0);
            self.final_stops += usize::from(!restarts(cx, container, end));
        } else if let Some(end) = state::last(status).filter(|_| state::is_waiting(status)) {
            // What waits and was removed is made anew, however it ended.
            let removed = cx.inputs.observed.is_some_and(|have| have.newest(container.name.as_str()).is_none());
            let coming = removed && !cx.is_ending();
            self.stopped += 1;
            self.final_stops += usize::from(!coming && !restarts(cx, container, end));
        } else if state::is_waiting(status) {
            self.waiting += 1;
        } else {
            self.unknown += 1;
        }
    }
}

/// Another attempt follows this end: it is made already, the spec says so, or the node ended it in order to start it anew.
fn restarts(cx: &Cx<'_>, container: &Container, end: &v1::ContainerStateTerminated) -> bool {
    let newest = cx.inputs.observed.and_then(|have| have.newest(container.name.as_str()));
    let owed = cx.inputs.record.containers.get(&container.name).and_then(|record| record.owed.as_ref());
    let is_owed = owed.is_some_and(|owed| end.container_id.as_deref().is_some_and(|whole| whole.ends_with(owed.id.as_str())));
    is_owed
        || newest.is_some_and(|attempt| attempt.state == ContainerState::Created)
        || end.reason.as_deref() == Some(state::RESTARTING_ALL)
        || should_restart(cx.inputs.pod, container, Some(end.exit_code)) != RestartDecision::No
}
