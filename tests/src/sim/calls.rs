//! Calls that leave the agent.

use polylet_core::effect::Act;
use polylet_core::event::{CallError, CallErrorKind, Event};
use polylet_core::id::{EffectId, PodUid};
use polylet_core::question::Body;

use super::runtime::{Runtime, error};

/// The answer to a call that fails.
pub(super) fn refusal(id: EffectId, act: &Act, kind: CallErrorKind) -> Event {
    failure(id, act, error("call", "refused", kind))
}

/// The answer to a call that fails with this error: looks have answers of their own.
pub(crate) fn failure(id: EffectId, act: &Act, error: CallError) -> Event {
    match act {
        Act::List => Event::Listed { id, result: Err(error) },
        Act::Observe(uid) => Event::Observed { id, pod: uid.clone(), result: Err(error) },
        Act::Sample => Event::Sampled { id, result: Err(error) },
        _ => Event::Done { id, result: Err(error) },
    }
}

/// Whose call it is; None for the node's own, and for one that speaks of nothing that is there.
pub(super) fn pod_of(rt: &Runtime, act: &Act) -> Option<PodUid> {
    match act {
        Act::PullImage { pod, .. }
        | Act::Prepare { pod, .. }
        | Act::RunSandbox { pod, .. }
        | Act::CreateContainer { pod, .. }
        | Act::StartContainer { pod, .. }
        | Act::Probe { pod, .. } => Some(pod.uid.clone()),
        Act::Hook { pod, .. } | Act::CleanUp { pod, .. } | Act::Observe(pod) => Some(pod.clone()),
        Act::StopContainer { id, .. } | Act::RemoveContainer { id, .. } => {
            rt.containers.iter().find(|c| c.seen.id == *id).map(|c| c.uid.clone())
        }
        Act::StopSandbox { id } | Act::RemoveSandbox { id } => {
            rt.sandboxes.iter().find(|(_, _, s)| s.id == *id).map(|(uid, _, _)| uid.clone())
        }
        Act::Ask { question, .. } => match &question.body {
            Body::Restart(_) | Body::Probe(_) | Body::Qos(_) => question.words.pods.first().map(|p| PodUid::from(p.uid.as_str())),
            Body::Assess(_) | Body::Rank(_) => None,
        },
        Act::InspectImage { .. } | Act::List | Act::Sample | Act::FindLeftovers => None,
    }
}

/// Looks and questions change nothing.
pub(super) fn changes(act: &Act) -> bool {
    !matches!(act, Act::List | Act::Observe(_) | Act::Sample | Act::FindLeftovers | Act::Probe { .. } | Act::Ask { .. })
}

/// Its end makes older looks stale: it may have changed the runtime.
pub(super) fn makes_stale(act: &Act) -> bool {
    changes(act) && !matches!(act, Act::InspectImage { .. } | Act::PullImage { .. } | Act::Prepare { .. })
}
