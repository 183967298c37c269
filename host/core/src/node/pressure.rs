//! Sampling the node, and ending pods: each that exceeds its own limits, else, when something is short, at most one for each sampling.
//!
//! ```text
//! Sample ──► assess (policy) ──► thresholds and conditions ──► limits of local storage ──► rank (policy) ──► the first victim that may go
//! ```

use std::sync::Arc;
use std::time::Duration;

use crate::ask::{assess_question, rank_question};
use crate::effect::{Act, Count, Effect, StopCause};
use crate::event::CallError;
use crate::evict::{self, Evictor, OverLimit, Short};
use crate::id::{EffectId, PodUid};
use crate::pod::Pod;
use crate::question::eviction::{Shortage, Victim};
use crate::question::{Answer, Question};
use crate::record::End;
use crate::sample::Sample;
use crate::say::{About, Say};
use crate::time::{Mono, Now};

use super::Node;
use super::asks::{self, Settled, Target};
use super::cx::What;
use super::worker::{Life, Worker};

/// What the node knows of its own state.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    /// None before the pods that run already have been seen to: a sample without them would rank at random.
    next: Option<Mono>,
    flight: Option<EffectId>,
    last: Option<Arc<Sample>>,
    evictor: Evictor,
    conditions: Vec<String>,
    /// Who was evicted last, and when, while it is being ended.
    victim: Option<(PodUid, Mono)>,
}

/// How a pod is evicted: why, under which signal that is counted, what is said of it, and how much time it has.
struct Eviction {
    cause: StopCause,
    signal: String,
    message: String,
    grace: Duration,
}

/// So long nobody else goes while a victim is being ended: what it gives back may be enough.
const VICTIM_MAY_TAKE: Duration = Duration::from_secs(30);

impl Pressure {
    pub(super) fn next(&self) -> Option<Mono> {
        self.next.filter(|_| self.flight.is_none())
    }

    pub(super) fn conditions(&self) -> Vec<String> {
        self.conditions.clone()
    }
}

impl Node {
    /// The newest sampling.
    pub fn last_sample(&self) -> Option<&Arc<Sample>> {
        self.pressure.last.as_ref()
    }

    pub(super) fn sample_if_due(&mut self, now: Now, out: &mut Vec<Effect>) {
        if !self.ready_to_sample() || self.pressure.flight.is_some() {
            return;
        }
        let period = self.shared.config.sampling;
        // What a victim has given back is seen at once.
        if self.pressure.victim.as_ref().is_some_and(|(uid, _)| !self.is_being_ended(uid)) {
            self.pressure.victim = None;
            self.pressure.next = Some(now.mono);
        }
        if *self.pressure.next.get_or_insert(now.mono + period) > now.mono {
            return;
        }
        self.pressure.next = Some(now.mono + period);
        self.pressure.flight = Some(self.with_cx(now, out, |cx| cx.act(None, What::Sample, Act::Sample)));
    }

    pub(super) fn ready_to_sample(&self) -> bool {
        self.shared.runtime_up && self.shared.heard
    }

    /// Readings arrived: a policy is asked whether it sees a shortage beyond the thresholds.
    pub(super) fn sampled(&mut self, now: Now, result: Result<Arc<Sample>, CallError>, out: &mut Vec<Effect>) {
        self.pressure.flight = None;
        let Ok(sample) = result else { return };
        let node = &mut self.shared.node;
        [node.cpu_stall, node.memory_stall, node.io_stall] = sample.stalls;
        node.memory_available = sample.signals.get("memory.available").map(|r| r.available);
        let signals = self.pressure.evictor.signals(now, &sample, &self.shared.config);
        self.shared.sample = sample.clone();
        self.pressure.last = Some(sample.clone());
        let question = assess_question(self.node_facts(now), signals, sample.facts.clone());
        self.put_node_question(now, question, Target::Assess, out);
    }

    /// An answer to a question about the node.
    pub(super) fn pressure_settled(&mut self, now: Now, settled: Settled, out: &mut Vec<Effect>) {
        match (settled.answer, settled.target) {
            (Answer::Assess(extra), _) => self.assess(now, extra, out),
            (Answer::Rank(victims), Target::Rank(short)) => self.evict_first(now, &short, &victims, &settled.question, out),
            _ => {}
        }
    }

    fn assess(&mut self, now: Now, extra: Vec<Shortage>, out: &mut Vec<Effect>) {
        let Some(sample) = self.pressure.last.clone() else { return };
        let found = self.pressure.evictor.sampled(now, &sample, &self.shared.config, extra);
        self.pressure.conditions = found.conditions.iter().map(|c| c.as_str().to_owned()).collect();
        let holds = |c: evict::Condition| found.conditions.contains(&c);
        self.shared.node.memory_pressure = holds(evict::Condition::Memory);
        self.shared.node.disk_pressure = holds(evict::Condition::Disk);
        self.shared.node.pid_pressure = holds(evict::Condition::Pids);
        // Who is evicted for its own limits gives something back: what is short then, the next sampling shows.
        if self.evict_over_limits(now, &sample, out) {
            return;
        }
        let Some(short) = found.shortage else { return };
        if self.pressure.victim.as_ref().is_some_and(|(_, since)| now.mono.since(*since) < VICTIM_MAY_TAKE) {
            return;
        }
        let message = format!("Attempting to reclaim {}", evict::resource(short.shortage.starved));
        out.push(Effect::Say(Say { about: About::Node, warning: true, reason: "EvictionThresholdMet", message }));
        let active = self.workers.values().filter(|w| w.life == Life::Running);
        let pods = active.filter_map(|w| w.pod.as_deref().map(|pod| (pod, &w.record)));
        let mut contenders = evict::candidates(pods, &sample, &self.pressure.evictor);
        // The guard would keep them from any answer: nobody is asked about them.
        contenders.retain(|c| c.pod.may_be_evicted(self.shared.config.evict_static));
        if contenders.is_empty() {
            return;
        }
        let question = rank_question(self.node_facts(now), short.shortage.clone(), &contenders, sample.facts.clone());
        self.put_node_question(now, question, Target::Rank(Box::new(short)), out);
    }

    /// Every pod that has more in local storage than its own limits allow, and may go, goes. Answers whether any did.
    fn evict_over_limits(&mut self, now: Now, sample: &Sample, out: &mut Vec<Effect>) -> bool {
        let config = &self.shared.config;
        if !config.local_storage_limits {
            return false;
        }
        let layout = sample.facts.get("node.disk.layout").copied();
        let over = |worker: &Worker| {
            let pod = worker.pod.as_deref().filter(|pod| worker.goes(pod, config.evict_static))?;
            evict::over_limit(pod, sample.pods.get(&pod.uid)?, worker.last_seen(), layout)
        };
        let over: Vec<(PodUid, OverLimit)> =
            self.workers.iter().filter_map(|(uid, worker)| Some((uid.clone(), over(worker)?))).collect();
        let any = !over.is_empty();
        for (uid, OverLimit { signal, message }) in over {
            let (cause, signal) = (StopCause::OverLimit, signal.to_owned());
            self.evict(now, &uid, Eviction { cause, signal, message, grace: evict::HARD_GRACE }, out);
        }
        any
    }

    /// The first victim that is still there goes.
    fn evict_first(&mut self, now: Now, short: &Short, victims: &[Victim], question: &Question, out: &mut Vec<Effect>) {
        let sample = self.pressure.last.clone().unwrap_or_default();
        for victim in victims {
            let Some(words) = question.words.pods.get(victim.pod as usize) else { continue };
            let uid = PodUid::from(words.uid.as_str());
            let Some(worker) = self.workers.get(&uid) else { continue };
            let evict_static = self.shared.config.evict_static;
            let Some(pod) = worker.pod.clone().filter(|pod| worker.goes(pod, evict_static)) else { continue };
            let usage = sample.pods.get(&uid);
            let containers = evict::used(short.shortage.starved, usage, worker.last_seen());
            let message = evict::message(short, &pod, usage, &containers);
            let said = victim.grace.map(Duration::from_millis);
            let grace = evict::grace(&short.shortage, &pod, said, &self.shared.config);
            let signal = short.crossed.as_ref().map_or("policy", |crossed| &crossed.signal).to_owned();
            return self.evict(now, &uid, Eviction { cause: StopCause::Evicted, signal, message, grace }, out);
        }
    }

    /// Ends a pod, which has failed by it.
    fn evict(&mut self, now: Now, uid: &PodUid, eviction: Eviction, out: &mut Vec<Effect>) {
        let Eviction { cause, signal, message, grace } = eviction;
        let Some(mut worker) = self.workers.remove(uid) else { return };
        worker.record.end = Some(End { succeeded: false, reason: Some("Evicted".into()), message: Some(message.clone()) });
        self.with_cx(now, out, |cx| {
            let begun = cx.out.len();
            cx.out.push(Effect::Count(Count::Evicted { signal }));
            worker.say(cx, None, true, "Evicted", message);
            worker.end(cx, cause, grace);
            worker.remember(cx, begun);
        });
        self.workers.insert(uid.clone(), worker);
        self.dirty.insert(uid.clone());
        self.pressure.victim = Some((uid.clone(), now.mono));
    }

    fn is_being_ended(&self, uid: &PodUid) -> bool {
        self.workers.get(uid).is_some_and(|worker| worker.life < Life::Finished)
    }

    fn node_facts(&self, now: Now) -> crate::question::NodeFacts {
        crate::question::NodeFacts {
            now: now.wall.0,
            network_not_ready: self.shared.network.is_err(),
            ..self.shared.node.clone()
        }
    }

    fn put_node_question(&mut self, now: Now, question: Question, target: Target, out: &mut Vec<Effect>) {
        let settled = self.with_cx(now, out, |cx| asks::ask(cx, question, target, None, String::new(), String::new()));
        if let Some(settled) = settled {
            self.pressure_settled(now, settled, out);
        }
    }
}

impl Worker {
    /// An eviction may take it now.
    fn goes(&self, pod: &Pod, evict_static: bool) -> bool {
        self.life == Life::Running && pod.may_be_evicted(evict_static)
    }
}

#[cfg(test)]
mod tests;
