//! Calls that leave the agent.

use polylet_core::effect::Act;
use polylet_core::event::{CallErrorKind, Event};
use polylet_core::id::{EffectId, PodUid};

use super::runtime::error;

/// The answer to a call that fails.
pub(super) fn refusal(id: EffectId, act: &Act, kind: CallErrorKind) -> Event {
    let error = error("call", "refused", kind);
    match act {
        Act::List => Event::Listed { id, result: Err(error) },
        Act::Observe(uid) => Event::Observed { id, pod: uid.clone(), result: Err(error) },
        Act::Sample => Event::Sampled { id, result: Err(error) },
        _ => Event::Done { id, result: Err(error) },
    }
}

/// Whose call it is.
pub(super) fn pod_of(act: &Act) -> Option<PodUid> {
    match act {
        Act::PullImage { pod, .. }
        | Act::Prepare { pod, .. }
        | Act::RunSandbox { pod, .. }
        | Act::CreateContainer { pod, .. }
        | Act::StartContainer { pod, .. } => Some(pod.uid.clone()),
        Act::Hook { pod, .. } => Some(pod.clone()),
        _ => None,
    }
}
