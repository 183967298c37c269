//! How much time a container is given to end, by the cause of its end.
//!
//! The grace begins when its end begins: hooks, and the wait of a sidecar for those that need it, use it up. The runtime is given two
//! seconds at least. A wall clock that jumps may use up the grace of a pod's end, which outlives the agent.

use std::collections::BTreeMap;
use std::time::Duration;

use polylet_core::effect::StopCause;
use polylet_core::id::PodUid;
use polylet_core::pod::{Pod, ProbeKind};
use polylet_core::record::PodRecord;

use super::next::starts_over;
use super::rule::{Kept, Rule};

/// What the runtime is given at least, in milliseconds.
const LEAST: u64 = 2_000;
/// The clocks of a world do not tick together.
const SLACK: u64 = 5;

#[derive(Debug, Default)]
pub(super) struct Graces {
    ending: BTreeMap<PodUid, Ending>,
    /// When the newest end of a container of that name began.
    begun: BTreeMap<(PodUid, String), u64>,
    /// The shortest grace that a policy gave to the end of the running attempt.
    said: BTreeMap<(PodUid, String, ProbeKind), u64>,
    /// When the wall clock last jumped.
    jumped: Option<u64>,
}

/// The end of a whole pod.
#[derive(Clone, Copy, Debug)]
struct Ending {
    seconds: u64,
    since: u64,
}

impl Graces {
    /// The node remembers something of a pod, whose spec is `pod` where one was ever declared.
    pub(super) fn remembers(&mut self, record: &PodRecord, pod: Option<&Pod>, now: u64) -> Kept {
        let Some(stop) = &record.stop else {
            self.ending.remove(&record.uid);
            return Ok(());
        };
        let new = !self.ending.contains_key(&record.uid);
        let ending = self.ending.entry(record.uid.clone()).or_insert(Ending { seconds: stop.grace_seconds, since: now });
        ending.seconds = stop.grace_seconds;
        let Some(pod) = pod.filter(|_| new) else { return Ok(()) };
        let promised = match stop.cause {
            StopCause::Evicted | StopCause::Orphan | StopCause::Rejected => Duration::ZERO,
            StopCause::Deleted => pod.deletion.and_then(|d| d.grace).unwrap_or(pod.grace),
            _ => pod.grace,
        };
        if stop.grace_seconds < promised.as_secs() {
            let (uid, cause, seconds) = (&record.uid, stop.cause, stop.grace_seconds);
            return Rule::LeastGrace.broken(format!("{uid} ends for {cause:?} within {seconds} s, {promised:?} being promised"));
        }
        Ok(())
    }

    pub(super) fn forgotten(&mut self, uid: &PodUid) {
        self.ending.remove(uid);
        self.begun.retain(|(u, _), _| u != uid);
        self.said.retain(|(u, _, _), _| u != uid);
    }

    /// The pod is being ended, with so many seconds of grace.
    pub(super) fn of(&self, uid: &PodUid) -> Option<u64> {
        self.ending.get(uid).map(|e| e.seconds)
    }

    /// The node begins to end a container.
    pub(super) fn begins(&mut self, uid: &PodUid, name: &str, now: u64) {
        self.begun.insert((uid.clone(), name.to_owned()), now);
    }

    /// A policy has said how long the end that this probe asks for may take.
    pub(super) fn is_said(&mut self, uid: &PodUid, name: &str, kind: ProbeKind, grace: u64) {
        let least = self.said.entry((uid.clone(), name.to_owned(), kind)).or_insert(grace);
        *least = grace.min(*least);
    }

    /// Another attempt begins: what was said of the last one counts no more.
    pub(super) fn starts(&mut self, uid: &PodUid, name: &str) {
        self.said.retain(|(u, n, _), _| u != uid || n != name);
    }

    pub(super) fn jumps(&mut self, now: u64) {
        self.jumped = Some(now);
    }

    /// The wall clock has jumped: what rests on it comes at another time.
    pub(super) fn clock_has_jumped(&self) -> bool {
        self.jumped.is_some()
    }

    /// A preStop hook may take so long.
    pub(super) fn hook(&self, uid: &PodUid, budget: Duration, now: u64) -> Kept {
        let Some(left) = self.left(uid, now) else { return Ok(()) };
        if millis(budget) + SLACK < left {
            return Rule::LeastGrace
                .broken(format!("a preStop hook of {uid} may take {budget:?}, {left} ms of grace being left"));
        }
        Ok(())
    }

    /// What is left of the grace of the pod's end: None where it is not being ended, nothing where the wall clock has jumped since.
    fn left(&self, uid: &PodUid, now: u64) -> Option<u64> {
        let ending = self.ending.get(uid)?;
        let jumped = self.jumped.is_some_and(|at| at >= ending.since);
        Some(if jumped { 0 } else { (ending.since + ending.seconds * 1_000).saturating_sub(now) })
    }

    /// A container is to be stopped within `timeout` milliseconds. `alone`: no other attempt of its name lives.
    pub(super) fn stop(&self, pod: &Pod, name: &str, cause: StopCause, timeout: u64, alone: bool, now: u64) -> Kept {
        let uid = &pod.uid;
        let declared = |kind: ProbeKind| {
            let own = pod.container(name).and_then(|c| c.probes.get(kind)).and_then(|p| p.grace);
            millis(own.unwrap_or(pod.grace))
        };
        let own = |kind: ProbeKind| {
            let said = self.said.get(&(uid.clone(), name.to_owned(), kind)).copied();
            said.map_or(declared(kind), |said| said.min(declared(kind)))
        };
        let grace = match cause {
            StopCause::Unhealthy => Some(own(ProbeKind::Liveness)),
            StopCause::NotStarted => Some(own(ProbeKind::Startup)),
            StopCause::HookFailed
            | StopCause::DefinitionChanged
            | StopCause::UnknownState
            | StopCause::Duplicate
            | StopCause::SandboxChanged => Some(millis(pod.grace)),
            StopCause::RestartAll => Some(0),
            _ => None,
        };
        // A restart of all containers leaves none to an end under way.
        let begun = self.begun.get(&(uid.clone(), name.to_owned())).filter(|_| alone && !starts_over(pod));
        let by_cause = grace.map(|grace| begun.map_or(0, |begun| (begun + grace).saturating_sub(now)));
        let least = [by_cause, self.left(uid, now)].into_iter().flatten().min().unwrap_or(0).max(LEAST);
        if timeout + SLACK < least {
            let text = format!("{name} of {uid}, stopped for {cause:?}, is given {timeout} ms, {least} ms being promised");
            return Rule::LeastGrace.broken(text);
        }
        let most = match cause {
            StopCause::Unhealthy => declared(ProbeKind::Liveness),
            StopCause::NotStarted => declared(ProbeKind::Startup),
            _ => millis(pod.grace),
        };
        let most = most.max(LEAST);
        if timeout > most {
            return Rule::MostGrace.broken(format!("{name} of {uid} is given {timeout} ms, {most} ms being its grace"));
        }
        Ok(())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
