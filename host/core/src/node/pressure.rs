//! Sampling the node, and ending pods when something is short: at most one pod for each sampling.
//!
//! ```text
//! Sample ──► assess (policy) ──► thresholds and conditions ──► rank (policy) ──► the first victim that may go
//! ```

use std::sync::Arc;
use std::time::Duration;

use crate::ask::{assess_question, rank_question};
use crate::effect::{Act, Count, Effect, StopCause};
use crate::event::CallError;
use crate::evict::{self, Evictor, Short};
use crate::id::{EffectId, PodUid};
use crate::observed::Container;
use crate::question::eviction::{Shortage, Starved, Victim};
use crate::question::{Answer, Question};
use crate::record::End;
use crate::sample::Sample;
use crate::say::{About, Say};
use crate::time::{Mono, Now};

use super::Node;
use super::asks::{self, Settled, Target};
use super::cx::What;
use super::worker::Life;

/// What the node knows of its own state.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    /// None before the pods that run already have been seen to: a sample without them would rank at random.
    next: Option<Mono>,
    flight: Option<EffectId>,
    last: Option<Arc<Sample>>,
    evictor: Evictor,
    conditions: Vec<String>,
    /// A ranking is being asked for.
    short: Option<Short>,
    /// Who was evicted last, and when, while it is being ended.
    victim: Option<(PodUid, Mono)>,
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
        match settled.answer {
            Answer::Assess(extra) => self.assess(now, extra, out),
            Answer::Rank(victims) => self.evict_first(now, &victims, &settled.question, out),
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
        self.pressure.short = Some(short);
        self.put_node_question(now, question, Target::Rank, out);
    }

    /// The first victim that is still there goes.
    fn evict_first(&mut self, now: Now, victims: &[Victim], question: &Question, out: &mut Vec<Effect>) {
        let Some(short) = self.pressure.short.take() else { return };
        let sample = self.pressure.last.clone().unwrap_or_default();
        for victim in victims {
            let Some(words) = question.words.pods.get(victim.pod as usize) else { continue };
            let uid = PodUid::from(words.uid.as_str());
            let Some(mut worker) = self.workers.remove(&uid) else { continue };
            let evict_static = self.shared.config.evict_static;
            let goes = worker.life == Life::Running && worker.pod.as_ref().is_some_and(|p| p.may_be_evicted(evict_static));
            if let Some(pod) = worker.pod.clone().filter(|_| goes) {
                let usage = sample.pods.get(&uid);
                // What containers have on disk is not told apart.
                let used = |of: &Container| usage.and_then(|usage| usage.containers.get(&of.id)?.memory_working_set);
                let running = worker.last_seen().into_iter().flat_map(|seen| &seen.containers);
                let containers: Vec<(&str, u64)> = match short.shortage.starved {
                    Starved::Memory => running.filter_map(|of| Some((of.name.as_str(), used(of)?))).collect(),
                    _ => Vec::new(),
                };
                let message = evict::message(&short, &pod, usage, &containers);
                let said = victim.grace.map(Duration::from_millis);
                let grace = evict::grace(&short.shortage, &pod, said, &self.shared.config);
                worker.record.end =
                    Some(End { succeeded: false, reason: Some("Evicted".into()), message: Some(message.clone()) });
                let signal = short.crossed.as_ref().map_or("policy", |crossed| &crossed.signal).to_owned();
                self.with_cx(now, out, |cx| {
                    cx.out.push(Effect::Count(Count::Evicted { signal }));
                    worker.say(cx, None, true, "Evicted", message);
                    worker.end(cx, StopCause::Evicted, grace);
                });
                self.dirty.insert(uid.clone());
                self.pressure.victim = Some((uid.clone(), now.mono));
            }
            self.workers.insert(uid, worker);
            if goes {
                return;
            }
        }
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
