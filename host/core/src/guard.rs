//! What no policy may do, whatever it answers. A changed answer says what was changed, one line each.
//!
//! **Invariant:** a critical, static or mirror pod is never a victim; a delay is never beyond the operator's bound; an oom score never leaves
//! the band of its class.

use std::collections::BTreeSet;

use crate::config::Config;
use crate::pod::{ProbeKind, QosClass};
use crate::question::probe::Meaning;
use crate::question::restart::Cause;
use crate::question::{eviction, probe, qos, restart};

/// An answer that may be obeyed.
#[derive(Clone, Debug, PartialEq)]
pub struct Guarded<T> {
    /// What is obeyed.
    pub answer: T,
    /// What was changed, for people.
    pub clamped: Vec<String>,
}

impl<T> Guarded<T> {
    /// The same, with the answer wrapped.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Guarded<U> {
        Guarded { answer: f(self.answer), clamped: self.clamped }
    }
}

/// Longest reason kept, in characters.
const REASON: usize = 256;
/// Soonest next look of a probe, in milliseconds.
const SOONEST: u64 = 1_000;
/// A tenfold period is the latest next look.
const LATEST_PERIODS: u64 = 10;

/// Bounds of a restart answer: the delay, and whether giving up is allowed.
pub fn restart(q: &restart::Question, mut a: restart::Answer, config: &Config) -> Guarded<restart::Answer> {
    let mut clamped = Vec::new();
    // The default's own delay may lie beyond a bound lowered since; it is not the policy's to exceed.
    if a.delay > q.bounds.maximum {
        clamped.push(format!("delay {} ms lowered to the bound of {} ms", a.delay, q.bounds.maximum));
        a.delay = q.bounds.maximum;
    }
    if a.give_up && !config.allow_give_up {
        clamped.push("giving up is not allowed here: the container is tried again".into());
        a.give_up = false;
        a.delay = q.default_delay.min(q.bounds.maximum);
    }
    if a.give_up && matches!(q.last.cause, Cause::ImagePullFailed | Cause::SandboxFailed) {
        clamped.push("giving up is for containers, not for their image or sandbox: tried again".into());
        a.give_up = false;
        a.delay = q.default_delay.min(q.bounds.maximum);
    }
    shorten(&mut a.reason, &mut clamped);
    Guarded { answer: a, clamped }
}

/// Bounds of a probe answer. `mercy`: a liveness or startup failure may still be kept from counting.
pub fn probe(q: &probe::Question, mut a: probe::Answer, mercy: bool, longest_grace: u64) -> Guarded<probe::Answer> {
    let mut clamped = Vec::new();
    let kills = q.kind != ProbeKind::Readiness;
    if kills && q.default_verdict == Meaning::Failure && a.verdict != Meaning::Failure && !mercy {
        clamped.push("a failure has been kept from counting for as long as the operator allows: it counts".into());
        a.verdict = Meaning::Failure;
    }
    if let Some(next) = a.next_in {
        let bounded = next.clamp(SOONEST, q.spec.period.max(SOONEST).saturating_mul(LATEST_PERIODS));
        if bounded != next {
            clamped.push(format!("next look in {next} ms moved to {bounded} ms"));
            a.next_in = Some(bounded);
        }
    }
    if let Some(grace) = a.grace.filter(|grace| *grace > longest_grace) {
        clamped.push(format!("grace {grace} ms lowered to the declared {longest_grace} ms"));
        a.grace = Some(longest_grace);
    }
    shorten(&mut a.reason, &mut clamped);
    Guarded { answer: a, clamped }
}

/// Bounds of a placement. Err: it cannot be used at all.
pub fn qos(q: &qos::Question, mut a: qos::Answer, config: &Config) -> Result<Guarded<qos::Answer>, String> {
    let mut clamped = Vec::new();
    let p = &mut a.placement;
    if p.containers.len() != q.containers.len() {
        return Err(format!("{} placements for {} containers", p.containers.len(), q.containers.len()));
    }
    if p.tier != q.default_placement.tier && !config.allow_tier {
        clamped.push(format!("tier {} is not allowed here: {}", p.tier.as_str(), q.default_placement.tier.as_str()));
        p.tier = q.default_placement.tier;
    }
    for (i, (c, default)) in p.containers.iter_mut().zip(&q.default_placement.containers).enumerate() {
        // A node-critical pod keeps the score of its kind.
        let (low, high) = if default.oom_score == -997 { (-997, -997) } else { band(q.pod.class) };
        let bounded = c.oom_score.clamp(low, high);
        if bounded != c.oom_score {
            clamped.push(format!("oom score {} of container {i} moved to {bounded}", c.oom_score));
            c.oom_score = bounded;
        }
        if let Some(limit) = q.containers[i].memory_limit
            && c.memory_high.is_some_and(|high| high > limit)
        {
            clamped.push(format!("memory.high of container {i} lies above its limit: left to the node"));
            c.memory_high = None;
        }
    }
    if let Some(weight) = p.cpu_weight {
        let bounded = weight.clamp(1, 10_000);
        if bounded != weight {
            clamped.push(format!("cpu weight {weight} moved to {bounded}"));
            p.cpu_weight = Some(bounded);
        }
    }
    let ordered = |a: Option<u64>, b: Option<u64>| a.zip(b).is_none_or(|(a, b)| a <= b);
    if !(ordered(p.memory_min, p.memory_low) && ordered(p.memory_low, p.memory_high) && ordered(p.memory_min, p.memory_high)) {
        clamped.push("memory min, low and high are not in order: left to the node".into());
        (p.memory_min, p.memory_low, p.memory_high) = (None, None, None);
    }
    for (name, protected) in [("memory.min", &mut p.memory_min), ("memory.low", &mut p.memory_low)] {
        if protected.is_some_and(|bytes| bytes > config.memory_allocatable) {
            clamped.push(format!("{name} lies above what the node has to give: left to the node"));
            *protected = None;
        }
    }
    shorten(&mut a.reason, &mut clamped);
    Ok(Guarded { answer: a, clamped })
}

/// The oom scores of a class.
fn band(class: QosClass) -> (i32, i32) {
    match class {
        QosClass::Guaranteed => (-997, -997),
        QosClass::Burstable => (3, 999),
        QosClass::BestEffort => (1000, 1000),
    }
}

/// Shortages that a policy sees: only of what was sampled, and never hard ones, which are the thresholds' to declare.
pub fn assess(q: &eviction::Assess, a: Vec<eviction::Shortage>) -> Guarded<Vec<eviction::Shortage>> {
    let mut clamped = Vec::new();
    let mut answer = Vec::new();
    for mut shortage in a {
        let Some(signal) = q.signals.iter().find(|s| s.starved == shortage.starved) else {
            clamped.push(format!("shortage of {:?}, which was not sampled, dropped", shortage.starved));
            continue;
        };
        if answer.iter().any(|s: &eviction::Shortage| s.starved == shortage.starved) {
            clamped.push(format!("second shortage of {:?} dropped", shortage.starved));
            continue;
        }
        if shortage.hard {
            clamped.push(format!("hard shortage of {:?} taken as a soft one", shortage.starved));
            shortage.hard = false;
        }
        if shortage.reclaim > signal.capacity {
            clamped.push(format!("reclaim of {} lowered to the capacity", shortage.reclaim));
            shortage.reclaim = signal.capacity;
        }
        shorten(&mut shortage.reason, &mut clamped);
        answer.push(shortage);
    }
    Guarded { answer, clamped }
}

/// Victims: real candidates, each once, none critical. Err: a hard shortage must have a victim where there is a candidate for it.
pub fn rank(q: &eviction::Rank, a: Vec<eviction::Victim>, evict_static: bool) -> Result<Guarded<Vec<eviction::Victim>>, String> {
    let mut clamped = Vec::new();
    let mut seen = BTreeSet::new();
    let mut answer = Vec::new();
    for mut victim in a {
        // Candidates stand at their own index; a search through them all would be felt with a thousand.
        let Some(candidate) = q.candidates.get(victim.pod as usize).filter(|c| c.pod == victim.pod) else {
            return Err(format!("victim {} is not a candidate", victim.pod));
        };
        if !seen.insert(victim.pod) {
            return Err(format!("victim {} is named twice", victim.pod));
        }
        if is_critical(candidate, evict_static) {
            clamped.push(format!("victim {} is critical and stays", victim.pod));
            continue;
        }
        if q.shortage.hard && victim.grace.is_some_and(|g| g > HARD_GRACE) {
            clamped.push(format!("grace of victim {} shortened to {HARD_GRACE} ms", victim.pod));
            victim.grace = Some(HARD_GRACE);
        }
        shorten(&mut victim.reason, &mut clamped);
        answer.push(victim);
    }
    if q.shortage.hard && answer.is_empty() && q.candidates.iter().any(|c| !is_critical(c, evict_static)) {
        return Err("a hard shortage, and nobody is named".into());
    }
    Ok(Guarded { answer, clamped })
}

/// Grace of a pod evicted for a hard shortage, in milliseconds.
pub const HARD_GRACE: u64 = 1_000;

fn is_critical(candidate: &eviction::Candidate, evict_static: bool) -> bool {
    (candidate.traits.static_pod && !evict_static) || candidate.priority >= crate::pod::CRITICAL_PRIORITY
}

/// A reason is shown on terminals and in logs: one short line of plain text.
fn shorten(reason: &mut String, clamped: &mut Vec<String>) {
    if reason.contains(char::is_control) {
        *reason = reason.replace(char::is_control, " ");
        clamped.push("control characters of the reason became blanks".into());
    }
    if reason.chars().count() > REASON {
        *reason = reason.chars().take(REASON).collect();
        clamped.push(format!("reason cut at {REASON} characters"));
    }
}

#[cfg(test)]
mod tests;
