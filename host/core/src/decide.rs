//! What one pod needs next, as data: a pure function of the spec, an observation and the probes' results.
//!
//! `decide` looks at the sandbox first, then at init containers and sidecars, then at app containers (facts of upstream's `computePodActions`).
//! It does not know of time: when a restart is due is asked elsewhere ([`crate::node`]).

use crate::effect::StopCause;
use crate::id::{ContainerId, ContainerName, SandboxId};
use crate::observed::{Container as Attempt, ContainerState, Observed};
use crate::pod::{Container, Pod};
use crate::restart::{RestartDecision, should_restart};

mod containers;
mod sandbox;

pub use sandbox::Need;

/// What probes have found of one running attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The liveness probe has failed.
    pub unhealthy: bool,
    /// The startup probe has failed.
    pub not_started: bool,
    /// The startup probe has succeeded, or there is none.
    pub started: bool,
    /// The node ended it in order to start it anew: whatever its exit code, another attempt follows.
    pub owed: bool,
}

/// What one pod needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The runtime could not tell: decide nothing, look again.
    Look,
    /// Nothing is left to run: end the pod.
    End(StopCause),
    /// A sandbox must be made.
    Sandbox {
        /// Its attempt number.
        attempt: u32,
        /// Everything of the pod is stopped first.
        replace: bool,
    },
    /// Every container is to be ended, removed and started over.
    RestartAll,
    /// The sandbox is there.
    Run(Run),
}

/// What the containers of a pod with a sandbox need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The sandbox that the pod lives in.
    pub sandbox: Option<SandboxId>,
    /// Further sandboxes: twins, to be stopped.
    pub twins: Vec<SandboxId>,
    /// Attempts to be stopped.
    pub kill: Vec<Kill>,
    /// Containers to be started, in order.
    pub start: Vec<Start>,
    /// Attempts to be removed: superseded, or made and never started.
    pub prune: Vec<ContainerId>,
}

/// One attempt to be stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Which attempt.
    pub id: ContainerId,
    /// Of which container.
    pub name: ContainerName,
    /// Why.
    pub cause: StopCause,
    /// Upstream's message for the `Killing` event.
    pub message: String,
}

/// One container to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Which container.
    pub name: ContainerName,
    /// What is there of it.
    pub from: From,
}

/// What is there of a container that is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// Nothing: make it.
    Nothing,
    /// It is made: start it.
    Created(ContainerId),
    /// It ended: wait out the backoff, then make the next attempt.
    Exited(ContainerId),
}

/// What the pod needs. `health` tells what probes have found of a running attempt.
pub fn decide(pod: &Pod, have: &Observed, health: &dyn Fn(&ContainerId) -> Health) -> Plan {
    let (sandbox, twins) = match sandbox::need(pod, have) {
        Need::Look => return Plan::Look,
        Need::New { attempt, replace } => {
            return match sandbox::worth(pod, have, health) {
                true => Plan::Sandbox { attempt, replace },
                false if sandbox::ran_out(pod, have) => Plan::End(StopCause::Completed),
                false => Plan::End(StopCause::SandboxChanged),
            };
        }
        Need::Keep { sandbox, twins } => (sandbox, twins),
    };
    let mut run = Run { sandbox: Some(sandbox.clone()), twins, ..Run::default() };
    if restart_all(pod, have, &|id| health(id).owed) {
        return Plan::RestartAll;
    }
    if containers::ran_out(pod, have, health) {
        return Plan::End(StopCause::Completed);
    }
    containers::duplicates(have, &mut run);
    containers::strays(have, &sandbox, &mut run);
    containers::ephemeral(pod, have, &mut run);
    match containers::init(pod, have, &sandbox, health, &mut run) {
        containers::Init::Failed => return Plan::End(StopCause::InitFailed),
        containers::Init::Wait => {}
        containers::Init::Done => {
            if !containers::apps(pod, have, &sandbox, health, &mut run) {
                return Plan::End(StopCause::Completed);
            }
        }
    }
    // Nothing starts beside a copy of itself that an older sandbox still has.
    run.start.retain(|s| !have.of(s.name.as_str()).any(|a| a.sandbox != sandbox && is_live(a)));
    Plan::Run(run)
}

/// A sandbox is needed, or the one that serves.
pub fn sandbox_need(pod: &Pod, have: &Observed) -> Need {
    sandbox::need(pod, have)
}

/// Whether an ended container asks for the whole pod's containers to be started over. What the node itself ended in order to start it
/// anew (`owed`) asks for nothing: its exit code is none of its own.
pub(crate) fn restart_all(pod: &Pod, have: &Observed, owed: &dyn Fn(&ContainerId) -> bool) -> bool {
    pod.containers.iter().any(|container| {
        have.newest(container.name.as_str()).is_some_and(|attempt| asks_for_all(pod, container, attempt) && !owed(&attempt.id))
    })
}

/// Whether the spec answers the end of this attempt with a restart of all containers.
pub(crate) fn asks_for_all(pod: &Pod, container: &Container, attempt: &Attempt) -> bool {
    let decision = || should_restart(pod, container, Some(attempt.exit_code));
    attempt.state == ContainerState::Exited && decision() == RestartDecision::AllContainers
}

/// Whether an ended attempt is to be followed by another.
fn again(pod: &Pod, container: &Container, ended: &Attempt, health: &dyn Fn(&ContainerId) -> Health) -> bool {
    health(&ended.id).owed || should_restart(pod, container, Some(ended.exit_code)) != RestartDecision::No
}

fn is_live(attempt: &Attempt) -> bool {
    matches!(attempt.state, ContainerState::Created | ContainerState::Running)
}

#[cfg(test)]
mod tests;
