//! Cores that lack one of the rules: what stands between the node and its world here breaks it, and a world must notice.
//!
//! They are made at the core's only two doors, the events that go in and the effects that come out, so that no feature of the core itself
//! can break it.

use std::sync::Arc;
use std::time::Duration;

use polylet_core::effect::{Act, Effect};
use polylet_core::event::{Event, Outcome};
use polylet_core::id::EffectId;
use polylet_core::observed::{ContainerState, SandboxState};
use polylet_core::question::probe;

/// One rule that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Acts before its sources have been heard: silence counts as "nothing is wanted".
    SilenceIsEmpty,
    /// Decides on looks that began before the last action ended.
    OldLooksCount,
    /// Forgets with every restart what it had stored.
    NoMemory,
    /// Gives containers more grace than the pod has.
    NoGraceLimit,
    /// Takes every init container that ended for one that succeeded.
    InitAlwaysSucceeds,
    /// Takes every sandbox for a ready one.
    SandboxAlwaysReady,
    /// Takes every probe for failed.
    ProbesAlwaysFail,
    /// Never lists: what no hint tells is never noticed.
    NoRelist,
    /// Removes nothing.
    NoSweep,
    /// Takes a container for started as soon as it was made.
    CreatedIsStarted,
    /// Finds no directory or cgroup of a pod that nobody knows any more.
    NoLeftovers,
    /// Takes every sample for one of a shortage.
    AlwaysShort,
}

impl Broken {
    /// All of them.
    pub const ALL: [Broken; 12] = [
        Self::SilenceIsEmpty,
        Self::OldLooksCount,
        Self::NoMemory,
        Self::NoGraceLimit,
        Self::InitAlwaysSucceeds,
        Self::SandboxAlwaysReady,
        Self::ProbesAlwaysFail,
        Self::NoRelist,
        Self::NoSweep,
        Self::CreatedIsStarted,
        Self::NoLeftovers,
        Self::AlwaysShort,
    ];

    /// What the broken core makes of an event. `turn` grows with each call. None: it does not notice.
    pub(super) fn event(self, mut event: Event, turn: u64) -> Option<Event> {
        match (self, &mut event) {
            (Self::OldLooksCount, Event::Observed { id, result: Ok(_), .. } | Event::Listed { id, result: Ok(_) }) => {
                *id = EffectId(1_000_000_000 + turn);
            }
            (Self::NoRelist, Event::Listed { result: Ok(listing), .. }) if turn > 20 => listing.pods.clear(),
            (Self::InitAlwaysSucceeds, Event::Observed { result: Ok(have), .. }) => {
                for c in have.containers.iter_mut().filter(|c| c.name.as_str().starts_with('i')) {
                    if c.state == ContainerState::Exited {
                        c.exit_code = 0;
                        c.reason = "Completed".into();
                    }
                }
            }
            (Self::SandboxAlwaysReady, Event::Observed { result: Ok(have), .. }) => {
                for s in &mut have.sandboxes {
                    s.state = SandboxState::Ready;
                }
            }
            (Self::CreatedIsStarted, Event::Observed { result: Ok(have), .. }) => {
                for c in have.containers.iter_mut().filter(|c| c.state == ContainerState::Created) {
                    c.state = ContainerState::Running;
                }
            }
            (Self::NoLeftovers, Event::Done { result: Ok(Outcome::Leftovers(found)), .. }) => found.clear(),
            (Self::AlwaysShort, Event::Sampled { result: Ok(sample), .. }) => {
                Arc::make_mut(sample).signals.values_mut().for_each(|reading| reading.available = 0);
            }
            (Self::ProbesAlwaysFail, Event::Done { result: Ok(Outcome::Probed { outcome, .. }), .. }) => {
                *outcome = probe::Outcome::Failed(probe::Failure::Refused);
            }
            _ => {}
        }
        Some(event)
    }

    /// What becomes of an effect. None: it is not carried out.
    pub(super) fn effect(self, mut effect: Effect) -> Option<Effect> {
        match (self, &mut effect) {
            (Self::NoGraceLimit, Effect::Do { act: Act::StopContainer { timeout, .. }, .. }) => {
                *timeout += Duration::from_secs(60)
            }
            (Self::NoMemory, Effect::Remember(_)) => return None,
            (Self::NoSweep, Effect::Do { act: Act::RemoveContainer { .. } | Act::RemoveSandbox { .. }, .. }) => return None,
            _ => {}
        }
        Some(effect)
    }
}
