//! When something is short: which thresholds are crossed and for how long, what the node says of itself, what is to be ended first.
//!
//! ```text
//! sample ──► thresholds met (or not yet won back) ──► observed since ──► grace over ──► one shortage, memory first
//!                          │
//!                          └──► pressure conditions: at once true, false only after the transition period
//! ```
//!
//! Who goes is a ranking ([`crate::ask::rank_question`]) over [`candidates`]; one pod goes for each sampling at most. Before that, every
//! pod goes that has more in local storage than its own limits allow ([`over_limit`]), whether anything is short or not.
//!
//! **Invariant:** the same sampling never leads to two shortages; a threshold that had to be acted on stays met until its minimum
//! reclaim is won back too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::ask::Contender;
use crate::config::{Config, Threshold};
use crate::effect::StopCause;
use crate::guard;
use crate::id::PodUid;
use crate::pod::Pod;
use crate::question::eviction::{Shortage, Signal, Starved};
use crate::record::PodRecord;
use crate::sample::{Reading, Sample};
use crate::time::{Mono, Now, Wall};

mod limits;
mod text;

pub use limits::{OverLimit, over_limit};
pub use text::{message, resource, used};

/// What is remembered from one sampling to the next.
#[derive(Clone, Debug, Default)]
pub struct Evictor {
    /// By place among the configured thresholds: since when it has been met.
    since: BTreeMap<usize, Now>,
    /// Met for longer than their grace when last looked at.
    active: BTreeSet<usize>,
    /// When a condition last held.
    observed: BTreeMap<Condition, Mono>,
    /// The sampling last acted on.
    last: Option<Wall>,
    /// Working sets over the last minute, oldest first.
    memory: BTreeMap<PodUid, VecDeque<(Wall, u64)>>,
}

/// A pressure condition of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// `MemoryPressure`
    Memory,
    /// `DiskPressure`
    Disk,
    /// `PIDPressure`
    Pids,
}

impl Condition {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "MemoryPressure",
            Self::Disk => "DiskPressure",
            Self::Pids => "PIDPressure",
        }
    }

    /// The condition that a shortage stands for.
    pub fn of(starved: Starved) -> Self {
        match starved {
            Starved::Memory => Self::Memory,
            Starved::Pids => Self::Pids,
            _ => Self::Disk,
        }
    }
}

/// What one sampling led to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assessment {
    /// Pressure conditions that hold.
    pub conditions: BTreeSet<Condition>,
    /// What is to be ended by evicting one pod; None while nothing is short, or nothing new was sampled.
    pub shortage: Option<Short>,
}

/// A shortage with the threshold behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Short {
    /// As a ranking is asked about it.
    pub shortage: Shortage,
    /// Threshold and what was available; None for a shortage that only a policy sees.
    pub crossed: Option<Crossed>,
}

/// A crossed threshold, in the unit of its signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossed {
    /// Upstream's signal name, for metrics.
    pub signal: String,
    /// Less than this was available.
    pub threshold: u64,
    /// This much.
    pub available: u64,
}

impl Evictor {
    /// Takes a sampling. `extra` is what the `assess` policy sees beyond the thresholds, guarded.
    pub fn sampled(&mut self, now: Now, sample: &Sample, config: &Config, extra: Vec<Shortage>) -> Assessment {
        self.note_memory(sample);
        let met: BTreeSet<usize> = (0..config.thresholds.len()).filter(|i| self.is_met(*i, sample, config)).collect();
        self.since.retain(|i, _| met.contains(i));
        for i in &met {
            self.since.entry(*i).or_insert(now);
        }
        for i in &met {
            self.observed.insert(Condition::of(config.thresholds[*i].starved), now.mono);
        }
        let conditions = self.conditions(now, config);

        let over = |i: &usize| now.mono.since(self.since[i].mono) >= config.thresholds[*i].grace.unwrap_or_default();
        self.active = met.into_iter().filter(over).collect();
        let fresh = self.last.replace(sample.at) != Some(sample.at);
        let shortage = fresh.then(|| self.first_shortage(sample, config, extra)).flatten();
        Assessment { conditions, shortage }
    }

    /// Pressure conditions that hold now: each for the transition period after it was last observed.
    pub fn conditions(&self, now: Now, config: &Config) -> BTreeSet<Condition> {
        let holds = |at: Mono| now.mono == at || now.mono.since(at) < config.pressure_transition;
        self.observed.iter().filter(|(_, at)| holds(**at)).map(|(condition, _)| *condition).collect()
    }

    /// The signals of a sampling, for the `assess` policy: one row for each threshold, and one for a signal without any.
    pub fn signals(&self, now: Now, sample: &Sample, config: &Config) -> Vec<Signal> {
        let row = |name: &str, starved, reading: &Reading| Signal {
            name: name.to_owned(),
            starved,
            available: reading.available,
            capacity: reading.capacity,
            sampled: sample.at.0,
            threshold: None,
            hard: false,
            crossed_since: None,
        };
        let mut rows = Vec::new();
        for (name, reading) in &sample.signals {
            let with = config.thresholds.iter().enumerate().filter(|(_, t)| t.signal == *name);
            let before = rows.len();
            for (i, t) in with {
                let since = self.since.get(&i).unwrap_or(&now).wall.0;
                rows.push(Signal {
                    threshold: Some(t.below.of(reading.capacity)),
                    hard: is_hard(t),
                    crossed_since: self.is_met(i, sample, config).then_some(since),
                    ..row(name, t.starved, reading)
                });
            }
            if rows.len() == before {
                rows.extend(starved_by(name).map(|starved| row(name, starved, reading)));
            }
        }
        rows
    }

    /// Mean growth of a pod's working set over the last minute, in bytes a second.
    pub fn growth(&self, pod: &PodUid) -> Option<i64> {
        let samples = self.memory.get(pod)?;
        let ((from, before), (to, after)) = (samples.front()?, samples.back()?);
        let ms = i64::try_from(to.since(*from).as_millis()).ok().filter(|ms| *ms > 0)?;
        let grown = i64::try_from(*after).ok()?.checked_sub(i64::try_from(*before).ok()?)?;
        Some((i128::from(grown) * 1000 / i128::from(ms)) as i64)
    }

    fn is_met(&self, i: usize, sample: &Sample, config: &Config) -> bool {
        let t = &config.thresholds[i];
        let Some(reading) = sample.signals.get(&t.signal) else { return false };
        let reclaim = if self.active.contains(&i) { t.reclaim.of(reading.capacity) } else { 0 };
        t.below.of(reading.capacity).saturating_add(reclaim) > reading.available
    }

    /// Memory before all else, hard thresholds before soft ones, these before what only a policy sees; then as configured.
    fn first_shortage(&self, sample: &Sample, config: &Config, extra: Vec<Shortage>) -> Option<Short> {
        let crossed = self.active.iter().filter_map(|i| {
            let t = &config.thresholds[*i];
            let reading = sample.signals.get(&t.signal)?;
            let threshold = t.below.of(reading.capacity);
            let wanted = threshold.saturating_add(t.reclaim.of(reading.capacity));
            Some(Short {
                shortage: Shortage {
                    starved: t.starved,
                    hard: is_hard(t),
                    reclaim: wanted.saturating_sub(reading.available),
                    reason: String::new(),
                },
                crossed: Some(Crossed { signal: t.signal.clone(), threshold, available: reading.available }),
            })
        });
        let seen = extra.into_iter().map(|shortage| Short { shortage, crossed: None });
        // The first of equals: min_by_key keeps the order in which they come.
        crossed.chain(seen).min_by_key(|s| (s.shortage.starved != Starved::Memory, s.crossed.is_none(), !s.shortage.hard))
    }

    fn note_memory(&mut self, sample: &Sample) {
        self.memory.retain(|uid, _| sample.pods.contains_key(uid));
        for (uid, usage) in &sample.pods {
            let Some(bytes) = usage.memory_working_set else { continue };
            let samples = self.memory.entry(uid.clone()).or_default();
            // A clock set back begins a new minute.
            if samples.back().is_some_and(|(at, _)| *at > sample.at) {
                samples.clear();
            }
            if samples.back().is_none_or(|(at, _)| *at < sample.at) {
                samples.push_back((sample.at, bytes));
            }
            while samples.front().is_some_and(|(at, _)| sample.at.since(*at) > MINUTE) {
                samples.pop_front();
            }
        }
    }
}

const MINUTE: Duration = Duration::from_secs(60);

/// Who can be ranked: every pod that has not ended and is not being evicted already, in the order of the UIDs.
pub fn candidates<'a>(
    pods: impl IntoIterator<Item = (&'a Pod, &'a PodRecord)>,
    sample: &'a Sample,
    evictor: &Evictor,
) -> Vec<Contender<'a>> {
    let goes = |record: &PodRecord| {
        record.stop.as_ref().is_some_and(|stop| matches!(stop.cause, StopCause::Evicted | StopCause::OverLimit))
    };
    let mut contenders: Vec<Contender<'a>> = pods
        .into_iter()
        .filter(|(_, record)| record.end.is_none() && !goes(record))
        .map(|(pod, record)| Contender { pod, record, usage: sample.pods.get(&pod.uid), growth: evictor.growth(&pod.uid) })
        .collect();
    contenders.sort_by(|a, b| a.pod.uid.cmp(&b.pod.uid));
    contenders
}

/// Grace of a victim: one second where the shortage is hard; else what the policy says, or the node's maximum for evictions, but
/// never more than the pod's own.
pub fn grace(shortage: &Shortage, pod: &Pod, said: Option<Duration>, config: &Config) -> Duration {
    if shortage.hard {
        return HARD_GRACE.min(said.unwrap_or(HARD_GRACE));
    }
    said.unwrap_or(config.eviction_max_grace).min(pod.grace)
}

/// What a victim of a hard shortage has left, and one that exceeds its own limits.
pub(crate) const HARD_GRACE: Duration = Duration::from_millis(guard::HARD_GRACE);

/// A soft threshold without a grace is a hard one.
fn is_hard(threshold: &Threshold) -> bool {
    threshold.grace.is_none_or(|grace| grace.is_zero())
}

/// What a signal speaks of; None for one that upstream does not have.
pub fn starved_by(signal: &str) -> Option<Starved> {
    Some(match signal {
        "memory.available" | "allocatableMemory.available" => Starved::Memory,
        "nodefs.available" => Starved::Disk,
        "nodefs.inodesFree" => Starved::Inodes,
        "imagefs.available" => Starved::ImageDisk,
        "imagefs.inodesFree" => Starved::ImageInodes,
        "containerfs.available" => Starved::ContainerDisk,
        "containerfs.inodesFree" => Starved::ContainerInodes,
        "pid.available" => Starved::Pids,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
