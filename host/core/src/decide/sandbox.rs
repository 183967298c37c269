//! Is the sandbox the right one?
//!
//! One difference from upstream: two ready sandboxes do not condemn the pod. The one with running containers stays, the other, the late
//! twin of a call that timed out and was carried out after all, is stopped.

use crate::id::{ContainerId, ContainerName, SandboxId};
use crate::observed::{ContainerState, Observed, Sandbox, SandboxState};
use crate::pod::{Container, Pod, RestartPolicy};
use crate::restart::effective_policy;

use super::{Health, again};

/// Whether the pod needs a sandbox made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// A sandbox was listed whose state could not be had.
    Look,
    /// This one serves; the others that are ready are twins.
    Keep {
        /// The one to live in.
        sandbox: SandboxId,
        /// To be stopped.
        twins: Vec<SandboxId>,
    },
    /// None serves.
    New {
        /// Number of the next attempt.
        attempt: u32,
        /// There is an old one.
        replace: bool,
    },
}

pub(super) fn need(pod: &Pod, have: &Observed) -> Need {
    let Some(newest) = have.sandboxes.iter().map(|s| s.attempt).max() else {
        return Need::New { attempt: 0, replace: false };
    };
    if have.sandboxes.iter().any(|s| s.state == SandboxState::Unknown && s.attempt == newest) {
        return Need::Look;
    }
    let ready: Vec<&Sandbox> = have.sandboxes.iter().filter(|s| s.state == SandboxState::Ready).collect();
    let Some(best) = ready.iter().max_by_key(|s| (runs_something(have, &s.id), s.attempt, s.created)) else {
        return Need::New { attempt: newest + 1, replace: true };
    };
    let wrong_network = best.host_network != pod.host_network;
    let lost_address = !pod.host_network && best.has_network && best.ips.is_empty();
    if wrong_network || lost_address {
        return Need::New { attempt: newest + 1, replace: true };
    }
    let twins = ready.iter().filter(|s| s.id != best.id).map(|s| s.id.clone()).collect();
    Need::Keep { sandbox: best.id.clone(), twins }
}

/// Whether a new sandbox would have anything to run: a pod that has run to its end gets none, nor does one that has begun and restarts
/// nothing.
pub(super) fn worth(pod: &Pod, have: &Observed, health: &dyn Fn(&ContainerId) -> Health) -> bool {
    if pod.restart_policy == RestartPolicy::Never && !have.containers.is_empty() {
        return false;
    }
    let mut ever = false;
    for container in pod.app_containers() {
        match have.newest(container.name.as_str()) {
            Some(attempt) if attempt.state == ContainerState::Exited => {
                ever = true;
                if again(pod, container, attempt, health) {
                    return true;
                }
            }
            // Still there, or never made: it will have to be started in the new sandbox.
            Some(attempt) => {
                ever = true;
                let never = effective_policy(pod, container) == RestartPolicy::Never;
                if !(never && attempt.started.is_some()) {
                    return true;
                }
            }
            None => {
                let failed_for_good = pod.init_containers().any(|init| {
                    have.newest(init.name.as_str())
                        .is_some_and(|a| a.state == ContainerState::Exited && a.exit_code != 0 && !again(pod, init, a, health))
                });
                if !failed_for_good {
                    return true;
                }
            }
        }
    }
    // Init containers that failed for good end the pod through the same door.
    !ever && pod.app_containers().next().is_none()
}

/// Without a sandbox for good, it has come to its end by itself: nothing runs, and nothing was still to come.
pub(super) fn ran_out(pod: &Pod, have: &Observed) -> bool {
    let is = |name: &ContainerName, state| have.newest(name.as_str()).is_some_and(|attempt| attempt.state == state);
    let exited = |container: &Container| is(&container.name, ContainerState::Exited);
    let init_failed = pod
        .init_containers()
        .any(|init| have.newest(init.name.as_str()).is_some_and(|a| a.state == ContainerState::Exited && a.exit_code != 0));
    !have.containers.iter().any(|c| c.state == ContainerState::Running) && (init_failed || pod.app_containers().all(exited))
}

fn runs_something(have: &Observed, sandbox: &SandboxId) -> bool {
    have.containers.iter().any(|c| c.sandbox == *sandbox && c.state == ContainerState::Running)
}
