//! The conditions of a pod.

use k8s_openapi::api::core::v1;

use crate::effect::StopCause;
use crate::pod::{ContainerKind, RestartAction};

use super::Cx;
use super::containers::Lists;
use super::phase::Phase;
use super::state;

/// The conditions that a node writes; all others are somebody else's.
pub(super) const OWNED: [&str; 8] = [
    "PodScheduled",
    "PodReadyToStartContainers",
    "Initialized",
    "ContainersReady",
    "Ready",
    RESTARTING,
    "PodResizePending",
    "PodResizeInProgress",
];
/// Written by a node and by others.
pub(super) const SHARED: &str = "DisruptionTarget";
const RESTARTING: &str = "AllContainersRestarting";

/// All conditions: others' as the API has them, then ours. `shown` is the phase that the status will tell.
pub(super) fn list(cx: &Cx<'_>, lists: &Lists, phase: Phase, shown: Phase) -> Vec<v1::PodCondition> {
    let api = cx.inputs.pod.object.status.as_ref().and_then(|status| status.conditions.as_ref());
    let foreign = api.into_iter().flatten().filter(|c| !OWNED.contains(&c.type_.as_str()));
    let mut list: Vec<v1::PodCondition> = foreign.cloned().collect();
    if let Some(disruption) = disruption(cx, shown) {
        list.retain(|condition| condition.type_ != SHARED);
        list.push(disruption);
    }
    list.extend(restarting(cx, phase));
    list.extend(resize_pending(cx, phase));
    list.push(Verdict::of(sandbox_ready(cx)).into_condition(cx, "PodReadyToStartContainers"));
    list.push(initialized(cx, lists, phase).into_condition(cx, "Initialized"));
    let containers = containers_ready(cx, lists, phase);
    let ready = ready(cx, &containers, &list).into_condition(cx, "Ready");
    list.push(ready);
    list.push(containers.into_condition(cx, "ContainersReady"));
    list.push(Verdict::of(true).into_condition(cx, "PodScheduled"));
    list
}

/// Everything is being started over, or was when the status was last told: the last attempt has just been removed.
pub(super) fn restarting_all(cx: &Cx<'_>) -> bool {
    !cx.is_ending() && (restart_all_begun(cx) || was_true(cx, RESTARTING))
}

/// True or false, and why.
#[derive(Clone, Debug, Default)]
struct Verdict {
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Verdict {
    fn of(holds: bool) -> Self {
        Self { holds, ..Self::default() }
    }

    fn no(reason: &'static str) -> Self {
        Self { reason: Some(reason), ..Self::default() }
    }

    fn into_condition(self, cx: &Cx<'_>, type_: &str) -> v1::PodCondition {
        let status = if self.holds { "True" } else { "False" };
        let same = old(cx, type_).filter(|old| old.status == status);
        v1::PodCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: self.reason.map(str::to_owned),
            message: self.message,
            observed_generation: cx.inputs.pod.generation,
            last_transition_time: same
                .and_then(|old| old.last_transition_time.clone())
                .or_else(|| Some(state::time(cx.inputs.now))),
            last_probe_time: None,
        }
    }
}

/// The condition of this type as it was shown.
fn old<'a>(cx: &Cx<'a>, type_: &str) -> Option<&'a v1::PodCondition> {
    cx.before?.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}

fn was_true(cx: &Cx<'_>, type_: &str) -> bool {
    old(cx, type_).is_some_and(|condition| condition.status == "True")
}

/// A sandbox serves; before the first look it does as it did.
fn sandbox_ready(cx: &Cx<'_>) -> bool {
    match cx.inputs.observed {
        Some(_) => cx.inputs.sandbox_ready,
        None => cx.inputs.sandbox_ready || (!cx.is_ending() && was_true(cx, "PodReadyToStartContainers")),
    }
}

fn initialized(cx: &Cx<'_>, lists: &Lists, phase: Phase) -> Verdict {
    let (mut unknown, mut incomplete) = (Vec::new(), Vec::new());
    for container in cx.inputs.pod.init_containers() {
        match lists.get(container) {
            None => unknown.push(container.name.as_str()),
            Some(status) => {
                let done = match container.kind {
                    ContainerKind::Sidecar => status.started == Some(true),
                    _ => status.ready,
                };
                if !done {
                    incomplete.push(container.name.as_str());
                }
            }
        }
    }
    if phase == Phase::Succeeded && unknown.is_empty() {
        return Verdict { reason: Some("PodCompleted"), ..Verdict::of(true) };
    }
    // Once an app container has begun, a sidecar's restart takes nothing back; nor does a restart of everything.
    if lists.app.iter().any(state::has_run) || (restarting_all(cx) && was_true(cx, "Initialized")) {
        return Verdict::of(true);
    }
    match message(&[("unknown", &unknown), ("incomplete", &incomplete)]) {
        None => Verdict::of(true),
        message => Verdict { message, ..Verdict::no("ContainersNotInitialized") },
    }
}

fn containers_ready(cx: &Cx<'_>, lists: &Lists, phase: Phase) -> Verdict {
    let (mut unknown, mut unready) = (Vec::new(), Vec::new());
    for container in &cx.inputs.pod.containers {
        if matches!(container.kind, ContainerKind::Sidecar | ContainerKind::App) {
            match lists.get(container) {
                None => unknown.push(container.name.as_str()),
                Some(status) if !status.ready => unready.push(container.name.as_str()),
                Some(_) => {}
            }
        }
    }
    match phase {
        Phase::Succeeded if unknown.is_empty() => return Verdict::no("PodCompleted"),
        Phase::Failed => return Verdict::no("PodFailed"),
        _ => {}
    }
    match message(&[("unknown", &unknown), ("unready", &unready)]) {
        None => Verdict::of(true),
        message => Verdict { message, ..Verdict::no("ContainersNotReady") },
    }
}

/// In service: the containers are, and everybody who has a say agrees.
fn ready(cx: &Cx<'_>, containers: &Verdict, list: &[v1::PodCondition]) -> Verdict {
    if !containers.holds {
        return containers.clone();
    }
    let gates = cx.inputs.pod.object.spec.as_ref().and_then(|spec| spec.readiness_gates.as_ref());
    let mut closed = Vec::new();
    for gate in gates.into_iter().flatten() {
        let type_ = &gate.condition_type;
        match list.iter().find(|condition| condition.type_ == *type_) {
            None => closed.push(format!("corresponding condition of pod readiness gate {type_:?} does not exist.")),
            Some(condition) if condition.status != "True" => {
                let found = &condition.status;
                closed.push(format!("the status of pod readiness gate {type_:?} is not \"True\", but {found}"));
            }
            Some(_) => {}
        }
    }
    if closed.is_empty() {
        return Verdict::of(true);
    }
    Verdict { message: Some(closed.join(", ")), ..Verdict::no("ReadinessGatesNotReady") }
}

/// Present only where a rule of the spec can ask for it.
fn restarting(cx: &Cx<'_>, phase: Phase) -> Option<v1::PodCondition> {
    let mut rules = cx.inputs.pod.containers.iter().flat_map(|container| &container.restart_rules);
    if !rules.any(|rule| rule.action == RestartAction::RestartAllContainers) {
        return None;
    }
    let verdict = match phase {
        Phase::Succeeded => Verdict::no("PodCompleted"),
        Phase::Failed => Verdict::no("PodFailed"),
        _ if !cx.is_ending() && restart_all_begun(cx) => Verdict {
            holds: true,
            reason: Some("RestartAllContainersStarted"),
            message: Some("container exited with restart policy rule".to_owned()),
        },
        _ => Verdict::of(false),
    };
    // Upstream leaves the generation of this one unset.
    Some(v1::PodCondition { observed_generation: None, ..verdict.into_condition(cx, RESTARTING) })
}

/// Other resources are wanted than those that the pod runs with, which it keeps.
fn resize_pending(cx: &Cx<'_>, phase: Phase) -> Option<v1::PodCondition> {
    let why = cx.inputs.not_given.filter(|_| !phase.is_terminal())?;
    let verdict = Verdict { holds: true, reason: Some("Infeasible"), message: Some(why.to_owned()) };
    Some(verdict.into_condition(cx, "PodResizePending"))
}

fn restart_all_begun(cx: &Cx<'_>) -> bool {
    cx.restart_all.unwrap_or_else(|| was_true(cx, RESTARTING))
}

/// An eviction says so once the pod has ended by it.
fn disruption(cx: &Cx<'_>, shown: Phase) -> Option<v1::PodCondition> {
    let evicted = cx.inputs.record.stop.as_ref().is_some_and(|stop| stop.cause == StopCause::Evicted);
    if !evicted || !shown.is_terminal() {
        return old(cx, SHARED).cloned();
    }
    let message = cx.inputs.record.end.as_ref().and_then(|end| end.message.clone());
    let verdict = Verdict { holds: true, reason: Some("TerminationByKubelet"), message };
    Some(verdict.into_condition(cx, SHARED))
}

/// `containers with <what> status: [a b]`, joined; None where nothing is amiss.
fn message(parts: &[(&str, &[&str])]) -> Option<String> {
    let texts: Vec<String> = parts
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("containers with {what} status: [{}]", names.join(" ")))
        .collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}
