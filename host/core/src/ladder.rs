//! Which policy answers: the ladder of trust and its breaker.
//!
//! active policy → last good policy → embedded default component → the same code linked natively.
//!
//! **Invariant:** the native rung is never out; a failure of the host itself is not held against a policy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::effect::Rung;
use crate::question::{FailureKind, Hook};
use crate::time::Mono;

/// What is bound now. Made by the policy host from the policy directory; a new value replaces the old one at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bindings {
    /// Grows with each change of the directory.
    pub generation: u64,
    /// Rungs above the native one, best first, per hook: the active policy, the last good one, the default component.
    pub rungs: BTreeMap<Hook, Vec<Rung>>,
}

/// Consecutive failures after which a rung is left out.
pub const FAILURES_TO_OPEN: u32 = 3;
/// How long it is left out the first time; doubled each time that the trial call after it fails.
pub const FIRST_REST: Duration = Duration::from_secs(10);
/// The longest rest.
pub const LONGEST_REST: Duration = Duration::from_secs(300);

/// Bindings with the state of each rung's breaker.
#[derive(Debug, Default)]
pub struct Ladder {
    bindings: Arc<Bindings>,
    breakers: BTreeMap<String, Breaker>,
}

/// Failures of one rung.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Breaker {
    /// Consecutive failures.
    pub failures: u32,
    /// Rests so far without a success between.
    pub rests: u32,
    /// Left out until then.
    pub until: Option<Mono>,
}

impl Ladder {
    /// Takes new bindings; returns the hooks whose rungs changed. Breakers of rungs that stay are kept.
    pub fn bind(&mut self, bindings: Arc<Bindings>) -> Vec<Hook> {
        let rungs = |b: &Bindings, h: Hook| b.rungs.get(&h).cloned().unwrap_or_default();
        let changed = Hook::ALL.into_iter().filter(|h| rungs(&self.bindings, *h) != rungs(&bindings, *h)).collect();
        let bound: Vec<String> = bindings.rungs.iter().flat_map(|(h, rs)| rs.iter().map(|r| key(*h, r))).collect();
        self.breakers.retain(|k, _| bound.contains(k));
        self.bindings = bindings;
        changed
    }

    /// The bindings in force.
    pub fn bindings(&self) -> &Arc<Bindings> {
        &self.bindings
    }

    /// The first rung at or after `from` that is not resting; [`Rung::Native`] when none is left. With its place, to go on from.
    pub fn rung(&self, hook: Hook, from: usize, now: Mono) -> (usize, Rung) {
        let rungs = self.bindings.rungs.get(&hook).map(Vec::as_slice).unwrap_or_default();
        let rested = |rung: &Rung| self.breakers.get(&key(hook, rung)).and_then(|b| b.until).is_none_or(|until| until <= now);
        rungs
            .iter()
            .enumerate()
            .skip(from)
            .find(|(_, rung)| rested(rung))
            .map_or((rungs.len(), Rung::Native), |(i, rung)| (i, rung.clone()))
    }

    /// Whether the rung is still bound for the hook: the answer of one that is not is stale.
    pub fn is_bound(&self, hook: Hook, rung: &Rung) -> bool {
        *rung == Rung::Native || self.bindings.rungs.get(&hook).is_some_and(|rungs| rungs.contains(rung))
    }

    /// Notes a usable answer.
    pub fn succeeded(&mut self, hook: Hook, rung: &Rung) {
        self.breakers.remove(&key(hook, rung));
    }

    /// Notes a failure; returns how long the rung will rest, when this one opens its breaker.
    pub fn failed(&mut self, hook: Hook, rung: &Rung, kind: FailureKind, now: Mono) -> Option<Duration> {
        if kind == FailureKind::Host {
            return None;
        }
        let breaker = self.breakers.entry(key(hook, rung)).or_default();
        breaker.failures += 1;
        if breaker.failures < FAILURES_TO_OPEN && breaker.rests == 0 {
            return None;
        }
        let rest = FIRST_REST.saturating_mul(1 << breaker.rests.min(10)).min(LONGEST_REST);
        breaker.rests += 1;
        breaker.failures = 0;
        breaker.until = Some(now + rest);
        Some(rest)
    }

    /// The breaker of a rung, for showing.
    pub fn breaker(&self, hook: Hook, rung: &Rung) -> Breaker {
        self.breakers.get(&key(hook, rung)).copied().unwrap_or_default()
    }
}

fn key(hook: Hook, rung: &Rung) -> String {
    match rung {
        Rung::Bound { name, digest, config } => format!("{}/{name}/{digest}/{config}", hook.as_str()),
        Rung::Default => format!("{}/default", hook.as_str()),
        Rung::Native => format!("{}/native", hook.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(name: &str) -> Rung {
        Rung::Bound { name: name.into(), digest: "sha256:a".into(), config: "sha256:b".into() }
    }

    fn ladder(rungs: Vec<Rung>) -> Ladder {
        let mut ladder = Ladder::default();
        ladder.bind(Arc::new(Bindings { generation: 1, rungs: BTreeMap::from([(Hook::Restart, rungs)]) }));
        ladder
    }

    #[test]
    fn an_empty_ladder_is_native() {
        assert_eq!(Ladder::default().rung(Hook::Qos, 0, Mono(0)), (0, Rung::Native));
    }

    #[test]
    fn three_failures_open_the_breaker_and_each_failed_trial_doubles_the_rest() {
        let mut l = ladder(vec![bound("a"), Rung::Default]);
        let fail = |l: &mut Ladder, at| l.failed(Hook::Restart, &bound("a"), FailureKind::Trap, Mono(at));
        assert_eq!(fail(&mut l, 0), None);
        assert_eq!(fail(&mut l, 0), None);
        assert_eq!(fail(&mut l, 0), Some(FIRST_REST));
        assert_eq!(l.rung(Hook::Restart, 0, Mono(9_999)), (1, Rung::Default));
        assert_eq!(l.rung(Hook::Restart, 0, Mono(10_000)), (0, bound("a")));
        assert_eq!(fail(&mut l, 10_000), Some(FIRST_REST * 2));
        assert_eq!(l.rung(Hook::Restart, 0, Mono(29_999)), (1, Rung::Default));
        l.succeeded(Hook::Restart, &bound("a"));
        assert_eq!(fail(&mut l, 30_000), None);
    }

    #[test]
    fn the_hosts_own_failures_do_not_count() {
        let mut l = ladder(vec![bound("a")]);
        for _ in 0..10 {
            assert_eq!(l.failed(Hook::Restart, &bound("a"), FailureKind::Host, Mono(0)), None);
        }
        assert_eq!(l.rung(Hook::Restart, 0, Mono(0)), (0, bound("a")));
    }

    #[test]
    fn binding_tells_which_hooks_changed_and_keeps_breakers_of_what_stays() {
        let mut l = ladder(vec![bound("a")]);
        for _ in 0..3 {
            l.failed(Hook::Restart, &bound("a"), FailureKind::Fuel, Mono(0));
        }
        let next = Bindings { generation: 2, rungs: BTreeMap::from([(Hook::Restart, vec![bound("b"), bound("a")])]) };
        assert_eq!(l.bind(Arc::new(next)), vec![Hook::Restart]);
        assert_eq!(l.rung(Hook::Restart, 1, Mono(1)), (2, Rung::Native));
    }
}
