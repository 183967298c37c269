//! One probe of one running attempt of a container: when it is due, how results are counted, what is published.
//!
//! ```text
//!           due ──► begin ──► (the attempt, then the policy) ──► finish ──► due one period after begin
//!            ▲                                                     │ │
//!            └───────── unknown: at once, three in all ────────────┘ └──► held: liveness has failed, startup has been decided
//! ```
//!
//! **Invariant:** a result is published only once as many attempts in a row agree as its threshold wants; an attempt that taught
//! nothing changes no count. A new attempt of the container gets a new worker.

use std::time::Duration;

use crate::id::EffectId;
use crate::pod::{Probe, ProbeKind};
use crate::question::probe::Meaning;
use crate::time::{Mono, millis};

/// The state of one probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeWorker {
    kind: ProbeKind,
    period: Duration,
    success_threshold: u32,
    failure_threshold: u32,
    passed: Option<bool>,
    /// Results in a row: positive for successes, negative for failures.
    streak: i32,
    due: Mono,
    flight: Option<Flight>,
    /// Attempts in a row that taught nothing.
    errors: u32,
    /// Nothing more is to be learnt of this attempt of the container.
    held: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flight {
    id: EffectId,
    begun: Mono,
}

/// What one attempt changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The published result, where it is another one now.
    pub published: Option<bool>,
    /// A liveness or startup probe has failed for good: the container is to be ended, and started anew where its spec allows it.
    pub restart: bool,
    /// A Warning event for the container: upstream's reason and message.
    pub say: Option<(&'static str, String)>,
}

/// Attempts in all where one teaches nothing.
const ATTEMPTS: u32 = 3;

impl ProbeWorker {
    /// A worker whose published result is `passed` at first: [`initial`], or what was remembered of this very attempt of the
    /// container. See [`next_due`].
    pub fn new(kind: ProbeKind, spec: &Probe, passed: Option<bool>, first_due: Mono) -> Self {
        Self {
            kind,
            period: spec.period,
            success_threshold: spec.success_threshold,
            failure_threshold: spec.failure_threshold,
            passed,
            streak: 0,
            due: first_due,
            flight: None,
            errors: 0,
            // A startup probe that has succeeded is never looked at again.
            held: kind == ProbeKind::Startup && passed == Some(true),
        }
    }

    /// The published result; None while a startup probe has none.
    pub fn passed(&self) -> Option<bool> {
        self.passed
    }

    /// How many attempts in a row agreed so far: positive for successes, negative for failures.
    pub fn streak(&self) -> i32 {
        self.streak
    }

    /// When the next attempt is due; None while one is under way, or none is wanted. The startup probe is asked until the
    /// container has `started`, the other two from then on.
    pub fn due(&self, started: bool) -> Option<Mono> {
        let wanted = !self.held && self.flight.is_none() && started == (self.kind != ProbeKind::Startup);
        wanted.then_some(self.due)
    }

    /// No attempt is due before `until`.
    pub fn put_off(&mut self, until: Mono) {
        self.due = self.due.max(until);
    }

    /// An attempt begins as the effect `id`.
    pub fn begin(&mut self, now: Mono, id: EffectId) {
        self.flight = Some(Flight { id, begun: now });
    }

    /// The attempt under way, until it is finished.
    pub fn in_flight(&self) -> Option<EffectId> {
        self.flight.map(|flight| flight.id)
    }

    /// Gives up the attempt under way, as if it had not been made: the next one is due a period after it began.
    pub fn cancel(&mut self) -> Option<EffectId> {
        let flight = self.flight.take()?;
        self.due = flight.begun + self.period;
        Some(flight.id)
    }

    /// Counts the attempt under way. `next_in` is the policy's wish for the next look; `text` is what came with the outcome, for
    /// events.
    pub fn finish(&mut self, now: Mono, meaning: Meaning, next_in: Option<Duration>, text: &str) -> Change {
        let Some(flight) = self.flight.take() else { return Change::default() };
        self.due = next_in.map_or_else(|| (flight.begun + self.period).max(now), |wait| now + wait);
        let kind = self.kind.as_str();
        match meaning {
            Meaning::Success => self.count(true),
            Meaning::Warning => {
                Change { say: Some(("ProbeWarning", format!("{kind} probe warning: {text}"))), ..self.count(true) }
            }
            Meaning::Failure => Change { say: Some(("Unhealthy", format!("{kind} probe failed: {text}"))), ..self.count(false) },
            Meaning::Unknown => {
                self.errors += 1;
                if self.errors < ATTEMPTS {
                    self.due = next_in.map_or(now, |wait| now + wait);
                    return Change::default();
                }
                self.errors = 0;
                let message = format!("{kind} probe errored and resulted in unknown state: {text}");
                Change { say: Some(("Unhealthy", message)), ..Change::default() }
            }
        }
    }

    fn count(&mut self, passed: bool) -> Change {
        self.errors = 0;
        let step = if passed { 1 } else { -1 };
        self.streak = if self.streak.signum() == step { self.streak.saturating_add(step) } else { step };
        let threshold = if passed { self.success_threshold } else { self.failure_threshold };
        if self.streak.unsigned_abs() < threshold {
            return Change::default();
        }
        let kills = !passed && self.kind != ProbeKind::Readiness;
        if kills || self.kind == ProbeKind::Startup {
            self.held = true;
            self.streak = 0;
        }
        let published = (self.passed != Some(passed)).then_some(passed);
        self.passed = Some(passed);
        Change { published, restart: kills, say: None }
    }
}

/// What is published of a container just started: alive, not in service, not known to have started.
pub fn initial(kind: ProbeKind) -> Option<bool> {
    match kind {
        ProbeKind::Liveness => Some(true),
        ProbeKind::Readiness => Some(false),
        ProbeKind::Startup => None,
    }
}

/// When a probe of a pod that is first seen `now` begins to tick, once a period, whether or not its container runs: at once; but where
/// the agent is younger than a period, after a share of the period by `random`, so that an agent that comes back does not probe all at
/// once.
pub fn first_tick(now: Mono, spec: &Probe, agent_uptime: Duration, random: u64) -> Mono {
    let young = agent_uptime < spec.period;
    let jitter = if young { random.checked_rem(millis(spec.period)).unwrap_or(0) } else { 0 };
    now + Duration::from_millis(jitter)
}

/// When the next attempt is due of a container that has run for so long, of a probe that ticks since `first`: at the first tick after
/// the initial delay. Readiness is not kept waiting for a tick.
pub fn next_due(now: Mono, kind: ProbeKind, spec: &Probe, running_for: Duration, first: Mono) -> Mono {
    let earliest = now + spec.initial_delay.saturating_sub(running_for);
    if kind == ProbeKind::Readiness || earliest <= first {
        return earliest.max(first);
    }
    let period = millis(spec.period).max(1);
    let ticks = millis(earliest.since(first)).div_ceil(period);
    first + Duration::from_millis(ticks.saturating_mul(period))
}

#[cfg(test)]
mod tests;
