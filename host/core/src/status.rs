//! The status of a pod: what the API is told, as a pure function of the spec, an observation, probes and what is remembered.
//!
//! Reading order: `containers.rs` makes one status per container (`missing.rs` where the runtime has none, `state.rs` the API's
//! values), `phase.rs` draws the phase from them, `conditions.rs` the conditions, `ips.rs` the addresses; `compare.rs` tells whether
//! a status differs enough to be sent. Rules and texts are upstream's.
//!
//! **Invariant:** without a change in the inputs a second status equals the first, so that nothing is sent twice.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;

use crate::config::Config;
use crate::decide::restart_all;
use crate::effect::StopCause;
use crate::id::{ContainerId, ContainerName};
use crate::observed::{ContainerState, Observed, SandboxState};
use crate::pod::Pod;
use crate::record::{End, PodRecord};
use crate::time::Wall;

mod compare;
mod conditions;
mod containers;
mod ips;
mod missing;
mod phase;
mod state;

pub use compare::unchanged;

/// Why a container waits: the last failure to start it, or its backoff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// `CrashLoopBackOff`, `ImagePullBackOff`, `CreateContainerError`, …
    pub reason: String,
    /// For people.
    pub message: String,
}

/// What probes have found of a running attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeView {
    /// The startup probe has succeeded, or there is none.
    pub started: bool,
    /// The readiness probe's published result; true without one.
    pub ready: bool,
}

/// All that a status is drawn from.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// The spec acted upon. Its object's status is what the API showed when the pod was read.
    pub pod: &'a Pod,
    /// The last look at the runtime; None before the first, when what was shown is kept.
    pub observed: Option<&'a Observed>,
    /// What survives the agent.
    pub record: &'a PodRecord,
    /// Why containers wait.
    pub waiting: &'a BTreeMap<ContainerName, Waiting>,
    /// Of running attempts. A container without an entry counts as its spec's missing probes say.
    pub probes: &'a BTreeMap<ContainerName, ProbeView>,
    /// The last status made here; None at first, when the API's takes its place.
    pub previous: Option<&'a v1::PodStatus>,
    /// Addresses of the node, name of the runtime.
    pub config: &'a Config,
    /// No new sandbox is needed.
    pub sandbox_ready: bool,
    /// Every container of the pod has ended for good.
    pub stopped: bool,
    /// The resources that the spec has come to name are not given, and why.
    pub not_given: Option<&'static str>,
    /// For conditions that change.
    pub now: Wall,
}

/// The end of a pod that was never let in: nothing of it has run here, so there is nothing else to tell.
fn turned_away<'a>(inputs: &Inputs<'a>) -> Option<&'a End> {
    let empty = inputs.observed.is_none_or(|have| have.containers.is_empty());
    inputs.record.end.as_ref().filter(|_| inputs.record.was_refused() && empty)
}

/// The pod's status.
///
/// A terminal phase is shown only once nothing of the pod can run any more: what the pod holds is given away on its account.
/// Conditions follow the phase that was decided, so that such a pod is unready at once.
pub fn status(inputs: &Inputs<'_>) -> v1::PodStatus {
    let owed = |id: &ContainerId| inputs.record.containers.values().any(|c| c.owes(id));
    let begun = inputs.observed.map(|have| restart_all(inputs.pod, have, &owed));
    let cx = Cx { inputs, before: inputs.previous.or(inputs.pod.object.status.as_ref()), restart_all: begun };
    if let Some(end) = turned_away(inputs) {
        return v1::PodStatus {
            phase: Some("Failed".to_owned()),
            reason: end.reason.clone(),
            message: end.message.clone(),
            start_time: Some(state::time(inputs.record.started)),
            qos_class: Some(inputs.pod.qos.as_str().to_owned()),
            observed_generation: inputs.pod.generation,
            ..v1::PodStatus::default()
        };
    }
    let mut lists = containers::lists(&cx);
    let decided = phase::decide(&cx, &lists);
    let shown = phase::show(&cx, &decided);
    if inputs.stopped {
        containers::terminate(&mut lists);
    }
    let addresses = ips::addresses(&cx);
    let conditions = conditions::list(&cx, &lists, decided.phase, shown.phase);
    let (spec, api) = (inputs.pod.object.spec.as_ref(), inputs.pod.object.status.as_ref());
    let pod_level = spec.and_then(|spec| spec.resources.as_ref());
    v1::PodStatus {
        phase: Some(shown.phase.as_str().to_owned()),
        reason: shown.reason,
        message: shown.message,
        conditions: Some(conditions),
        init_container_statuses: some(lists.init),
        container_statuses: some(lists.app),
        ephemeral_container_statuses: some(lists.ephemeral),
        host_ip: addresses.host.first().cloned(),
        host_ips: some(addresses.host.into_iter().map(|ip| v1::HostIP { ip }).collect()),
        pod_ip: addresses.pod.first().cloned(),
        pod_ips: some(addresses.pod.into_iter().map(|ip| v1::PodIP { ip }).collect()),
        start_time: Some(state::time(inputs.record.started)),
        qos_class: Some(inputs.pod.qos.as_str().to_owned()),
        observed_generation: inputs.pod.generation.max(cx.before.and_then(|before| before.observed_generation)),
        resources: pod_level.cloned(),
        allocated_resources: pod_level.and_then(|own| own.requests.clone()),
        // Other writers' fields.
        resource_claim_statuses: api.and_then(|api| api.resource_claim_statuses.clone()),
        extended_resource_claim_status: api.and_then(|api| api.extended_resource_claim_status.clone()),
        node_allocatable_resource_claim_statuses: api.and_then(|api| api.node_allocatable_resource_claim_statuses.clone()),
        ..v1::PodStatus::default()
    }
}

/// The inputs and what was shown before.
#[derive(Clone, Copy)]
struct Cx<'a> {
    inputs: &'a Inputs<'a>,
    before: Option<&'a v1::PodStatus>,
    /// A container that ended asks for all to be started over; None where nothing has been seen of the pod.
    restart_all: Option<bool>,
}

/// The pod came to its end by itself.
fn ran_out(cause: StopCause) -> bool {
    matches!(cause, StopCause::Completed | StopCause::InitFailed)
}

impl Cx<'_> {
    /// The pod is being ended, or has ended: nothing of it is started any more.
    fn is_ending(&self) -> bool {
        let Inputs { pod, record, stopped, .. } = self.inputs;
        *stopped || pod.deletion.is_some() || record.stop.is_some() || record.end.is_some()
    }

    /// Something of the pod may still run.
    fn may_run(&self) -> bool {
        match self.inputs.observed {
            _ if self.inputs.stopped || self.inputs.record.over => false,
            // What was being made when the node decided on the end may not have been seen yet.
            _ if self.inputs.record.stop.as_ref().is_some_and(|stop| !ran_out(stop.cause)) => true,
            Some(have) => {
                have.containers.iter().any(|c| c.state != ContainerState::Exited)
                    || have.sandboxes.iter().any(|s| s.state != SandboxState::NotReady)
            }
            None => {
                let lists =
                    self.before.map(|b| [&b.init_container_statuses, &b.container_statuses, &b.ephemeral_container_statuses]);
                lists.into_iter().flatten().flatten().flatten().any(state::is_running)
            }
        }
    }

    /// An app container was made in the sandbox that serves now, whatever became of it.
    fn is_initialized(&self) -> bool {
        let pod = self.inputs.pod;
        match self.inputs.observed {
            Some(have) => have.sandbox().is_some_and(|sandbox| {
                pod.app_containers().any(|c| have.of(c.name.as_str()).any(|attempt| attempt.sandbox == sandbox.id))
            }),
            None => {
                let shown = self.before.and_then(|b| b.container_statuses.as_ref());
                shown.is_some_and(|list| list.iter().any(state::has_run))
            }
        }
    }
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

#[cfg(test)]
mod tests;
