//! What pods have left on the machine: cgroups, directories and logs of pods that no source declares and that the runtime does not know.
//!
//! **Invariant:** nothing is taken for a leftover before every source and the runtime have been heard.

use std::time::Duration;

use crate::effect::{Act, Effect};
use crate::event::{CallError, Outcome};
use crate::id::EffectId;
use crate::time::{Mono, Now};

use super::Node;
use super::cx::What;
use super::worker::Life;

/// Between two searches.
const EVERY: Duration = Duration::from_secs(2);

/// When to search again.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    next: Mono,
    flight: Option<EffectId>,
}

impl Leftovers {
    pub(super) fn next(&self) -> Option<Mono> {
        self.flight.is_none().then_some(self.next)
    }
}

impl Node {
    /// Every pod that may be here is known.
    pub(super) fn knows_all(&self) -> bool {
        self.shared.heard && self.shared.runtime_up && self.shared.listed
    }

    pub(super) fn find_leftovers_if_due(&mut self, now: Now, out: &mut Vec<Effect>) {
        if !self.knows_all() || self.leftovers.flight.is_some() || self.leftovers.next > now.mono {
            return;
        }
        self.leftovers.next = now.mono + EVERY;
        self.leftovers.flight = Some(self.with_cx(now, out, |cx| cx.act(None, What::Leftovers, Act::FindLeftovers)));
    }

    /// Pods nobody knows are taken for such as are being removed: what is left of them goes the way of every pod.
    pub(super) fn found_leftovers(&mut self, now: Now, result: Result<Outcome, CallError>) {
        self.leftovers.flight = None;
        // Searched again after the usual time.
        let Ok(Outcome::Leftovers(found)) = result else { return };
        for (uid, leftover) in found {
            if self.workers.contains_key(&uid) {
                continue;
            }
            let worker = self.worker_for(&uid, now, Some((&leftover.namespace, &leftover.name)));
            worker.life = Life::Removing;
            self.dirty.insert(uid);
        }
    }
}
