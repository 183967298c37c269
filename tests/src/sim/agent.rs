//! The agent: its lives, what it is told, what becomes of what it asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use polylet_core::effect::{Act, Effect};
use polylet_core::event::{CallErrorKind, Event};
use polylet_core::id::{EffectId, PodUid};
use polylet_core::node::Node;
use polylet_core::pod::{Pod, Source};
use polylet_core::question::{Answer, Body};
use polylet_core::say::About;
use polylet_core::time::Mono;

use super::broken::Broken;
use super::calls::{changes, pod_of, refusal};
use super::policy;
use super::progress::Progress;
use super::rule::Rule;
use super::runtime::error;
use super::world::{Todo, World};

impl World {
    pub(super) fn begin_life(&mut self) {
        self.life += 1;
        let life = self.life;
        self.told = None;
        self.check.unknown.clone_from(&self.check.dropped);
        self.wake = (u64::MAX, 0);
        let records = self.store.values().cloned().collect();
        self.progress = Progress::default();
        if let Some(door) = &mut self.door {
            door.dies();
        }
        self.node = Node::new(self.config.clone(), records, self.seed ^ u64::from(life), self.clock());
        let at = self.now + 1 + self.rng.below(2_000);
        self.at(at, Todo::Sync { life });
        let at = self.now + 1 + self.rng.below(500);
        self.at(at, Todo::Runtime { life, up: true });
        self.generation += 1;
        let calm = self.calm();
        let bindings = policy::draw(&mut self.rng, self.generation, calm);
        self.at(self.now, Todo::Deliver { life, event: Event::Policies(bindings) });
        self.begins_deaf();
    }

    /// The core that takes silence for an answer.
    pub(super) fn begins_deaf(&mut self) {
        if self.door.as_ref().is_some_and(|door| door.broken == Broken::SilenceIsEmpty) {
            let life = self.life;
            for source in [Source::File, Source::Api] {
                let event = Event::Desired { source, pods: Vec::new() };
                self.at(self.now, Todo::Deliver { life, event });
            }
        }
    }

    pub(super) fn sync(&mut self) {
        let first = self.told.is_none();
        self.told.get_or_insert_default();
        // One source may be heard long before the other.
        if first {
            let (at, life) = (self.now + self.rng.below(3_000), self.life);
            self.at(at, Todo::SyncSource { life, source: Source::Api });
        } else {
            self.sync_source(Source::Api);
        }
        self.sync_source(Source::File);
    }

    pub(super) fn sync_source(&mut self, source: Source) {
        let pods: Vec<Arc<Pod>> = self.declared.values().filter(|p| p.pod.source == source).map(|p| p.pod.clone()).collect();
        let told = self.told.get_or_insert_default();
        let gone: Vec<PodUid> =
            told.values().filter(|p| p.source == source && !pods.iter().any(|q| q.uid == p.uid)).map(|p| p.uid.clone()).collect();
        for uid in gone {
            told.remove(&uid);
            self.check.dropped.insert(uid);
        }
        told.extend(pods.iter().map(|p| (p.uid.clone(), p.clone())));
        pods.iter().for_each(|pod| self.check.hears_of(&pod.uid, self.now));
        self.step(Event::Desired { source, pods });
    }

    pub(super) fn step(&mut self, event: Event) {
        self.say(|| format!("-> {event:?}"));
        self.report.steps += 1;
        let nothing = BTreeMap::new();
        let kept = self.progress.tells(&event, self.told.as_ref().unwrap_or(&nothing), &self.node, self.now);
        self.keep(kept);
        let events = match &mut self.door {
            Some(door) => door.event(event),
            None => vec![event],
        };
        let now = self.clock();
        let mut effects: Vec<Effect> = events.into_iter().flat_map(|event| self.node.step(now, event)).collect();
        if let Some(door) = &mut self.door {
            effects = door.effects(effects);
        }
        let mut survivors = usize::MAX;
        // The agent may die between two effects of one step.
        if !self.calm() && self.rng.below(4_000) == 0 {
            survivors = self.rng.below(effects.len() as u64 + 1) as usize;
        }
        for effect in effects.into_iter().take(survivors) {
            self.perform(effect);
        }
        if survivors != usize::MAX {
            return self.crash();
        }
        let kept = self.check.stepped(&self.rt);
        self.keep(kept);
        self.keep_going();
        if let Some(Mono(at)) = self.node.next_wakeup() {
            let at = (at + self.booted).max(self.now + 1);
            if at < self.wake.0 || self.wake.0 <= self.now {
                self.turn += 1;
                self.wake = (at, self.turn);
                let (life, turn) = (self.life, self.turn);
                self.at(at, Todo::Wake { life, turn });
            }
        }
    }

    /// Whatever can be begun, is.
    fn keep_going(&mut self) {
        let told = self.told.iter().flatten().map(|(_, pod)| &**pod);
        let free = told.filter(|pod| {
            let uid = Some(&pod.uid);
            let ended = matches!(self.check.phase(&pod.uid), Some("Succeeded" | "Failed"));
            let ending = self.check.graces.of(&pod.uid).is_some() || self.check.dropped.contains(&pod.uid);
            let same = |other: &PodUid| self.ever.get(other).is_some_and(|p| p.pod.name == pod.name);
            let queued = self.node.pods().any(|other| *other != pod.uid && same(other));
            // The wait for an image that the spec no longer names is waited out.
            let edited = self.check.edited.contains(&pod.uid);
            // It may be owed another attempt, however it ended.
            let lost = self.check.lost_an_init(&self.rt, pod);
            !edited && !lost && uid != self.hung.as_ref() && uid != self.cursed.as_ref() && !ended && !ending && !queued
        });
        let kept = self.progress.stepped(free, self.now);
        self.keep(kept);
    }

    fn perform(&mut self, effect: Effect) {
        self.say(|| format!("   <- {effect:?}"));
        match effect {
            Effect::Remember(record) => {
                let pod = self.ever.get(&record.uid).map(|p| &*p.pod);
                let kept = self.check.graces.remembers(&record, pod, self.now);
                self.keep(kept);
                if !self.disk_full {
                    self.store.insert(record.uid.clone(), (*record).clone());
                }
            }
            Effect::Forget(uid) => {
                self.store.remove(&uid);
                self.check.forgotten(&uid, self.now);
                self.progress.forgets(&uid);
            }
            Effect::Publish { pod, status } => {
                let spec = self.ever.get(&pod).map(|p| &*p.pod);
                let kept = self.check.status(&pod, spec, &status, self.now);
                self.keep(kept);
            }
            Effect::Cancel(id) => {
                self.check.cancelled.push(id);
                let at = self.now + self.rng.below(20);
                let event = Event::Done { id, result: Err(error("call", "cancelled", CallErrorKind::Cancelled)) };
                self.at(at, Todo::Deliver { life: self.life, event });
            }
            Effect::Say(say) => {
                if let (About::Pod { uid, container: Some((_, name)), .. }, "Killing") = (&say.about, say.reason) {
                    self.check.graces.begins(uid, name.as_str(), self.now);
                }
            }
            Effect::Decided(record) => self.decided(&record.question.body, &record.answer, &record.pod, &record.container),
            Effect::Count(_) => {}
            Effect::Do { id, act } => self.send(id, act),
        }
    }

    /// A decision was made; `pod` is `<name>_<namespace>(<uid>)`.
    fn decided(&mut self, question: &Body, answer: &Answer, pod: &str, container: &str) {
        let Some((_, uid)) = pod.trim_end_matches(')').split_once('(') else { return };
        let uid = PodUid::from(uid);
        match (question, answer) {
            (Body::Restart(question), Answer::Restart(answer)) => {
                let wall = self.clock().wall.0;
                let told = self.told.as_ref().and_then(|told| told.get(&uid)).cloned();
                if let Some(pod) = told {
                    self.progress.decides(&pod, container, &question.last, answer, self.now, wall);
                }
            }
            (Body::Probe(question), Answer::Probe(answer)) => {
                if let Some(grace) = answer.grace {
                    self.check.graces.is_said(&uid, container, question.kind, grace);
                }
            }
            _ => {}
        }
    }

    /// A request leaves the agent.
    fn send(&mut self, id: EffectId, act: Act) {
        self.report.acts += 1;
        if changes(&act) {
            self.recent.push(self.now);
            self.recent.retain(|t| t + 10_000 > self.now);
            if self.recent.len() > 600 {
                let kept = Rule::Pace.broken(format!("{} acts in ten seconds", self.recent.len()));
                self.keep(kept);
            }
        }
        if let Act::StopContainer { id, timeout, cause } = &act {
            let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            let owner = pod_of(&self.rt, &act).and_then(|uid| self.ever.get(&uid)).map(|p| &*p.pod);
            let kept = self.check.stop(&self.rt, self.told.as_ref(), owner, (id, *cause, ms), self.now);
            self.keep(kept);
        }
        let kept = self.check.begins(id, &act, self.now);
        self.keep(kept);
        let kept = self.progress.begins(&self.rt, id, &act, self.now, self.jump == 0);
        self.keep(kept);
        let life = self.life;
        let calm = self.calm();
        let quick = matches!(act, Act::Ask { .. } | Act::Prepare { .. } | Act::CleanUp { .. });
        let most = if calm {
            30
        } else if quick {
            50
        } else {
            800
        };
        let there = self.now + 1 + self.rng.below(most);
        let back = 1 + self.rng.below(most);
        let waits = !matches!(act, Act::Observe(_) | Act::Probe { .. } | Act::Ask { .. });
        let hung = waits && !calm && self.hung.is_some() && pod_of(&self.rt, &act) == self.hung && self.rng.chance(60);
        if hung {
            let later = there + 20_000 + self.rng.below(20_000);
            return self.at(later, Todo::Apply { life, id, act, reply: Some(back) });
        }
        if !calm && matches!(act, Act::PullImage { .. }) && self.rng.chance(20) {
            // A big image.
            let later = there + self.rng.below(30_000);
            return self.at(later, Todo::Apply { life, id, act, reply: Some(back) });
        }
        if let Act::CreateContainer { pod, attempt: 1.., .. } = &act
            && !calm
            && self.cursed.as_ref() == Some(&pod.uid)
        {
            let kept = self.check.not_created(&pod.uid, self.now);
            self.keep(kept);
            let event = refusal(id, &act, CallErrorKind::Other);
            return self.at(there + back, Todo::Deliver { life, event });
        }
        if !calm && !quick && self.rng.chance(6) {
            let kind = if self.rng.chance(50) { CallErrorKind::Other } else { CallErrorKind::DeadlineExceeded };
            if kind == CallErrorKind::DeadlineExceeded && self.rng.chance(50) {
                // Too late for the agent, and carried out all the same.
                let later = there + 500 + self.rng.below(8_000);
                self.at(later, Todo::Apply { life, id, act: act.clone(), reply: None });
            }
            if let Act::Hook { container, budget: None, .. } = &act {
                self.check.hook_failed.insert(container.clone());
            }
            let event = refusal(id, &act, kind);
            return self.at(there + back, Todo::Deliver { life, event });
        }
        self.at(there, Todo::Apply { life, id, act, reply: Some(back) });
    }
}
