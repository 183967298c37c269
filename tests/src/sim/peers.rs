//! The peers: what becomes of a request that has arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use polylet_core::effect::Act;
use polylet_core::event::{CallError, CallErrorKind, Event, Hint, Outcome};
use polylet_core::id::{ContainerId, EffectId};
use polylet_core::observed::{ContainerState, SandboxState};
use polylet_core::pod::{Pod, ProbeKind};
use polylet_core::question::{Answer, probe};
use polylet_core::sample::{PodUsage, Reading, Sample};
use polylet_core::time::Wall;

use super::manifest::Program;
use super::runtime::error;
use super::world::{Todo, World};
use super::{policy, settings};

impl World {
    fn sample(&self, at: Wall) -> Sample {
        let (available, capacity) =
            (if self.memory_short { settings::LEAST_MEMORY / 2 } else { settings::LEAST_MEMORY * 4 }, 8 << 30);
        let running = self.rt.containers.iter().filter(|c| c.seen.state == ContainerState::Running);
        let used = |n: usize| PodUsage { memory_working_set: Some((n as u64 % 3) << 24), ..PodUsage::default() };
        Sample {
            at,
            signals: BTreeMap::from([("memory.available".to_owned(), Reading { available, capacity })]),
            pods: running.enumerate().map(|(n, c)| (c.uid.clone(), used(n))).collect(),
            ..Sample::default()
        }
    }

    /// A request arrives at its peer: it is carried out even when its sender has died.
    pub(super) fn apply(&mut self, life: u32, id: EffectId, act: Act, reply: Option<u64>) {
        let (wall, calm) = (self.clock().wall, self.calm());
        let event = match &act {
            Act::List => Event::Listed { id, result: Ok(self.rt.listing()) },
            Act::Observe(uid) => Event::Observed { id, pod: uid.clone(), result: Ok(self.rt.observe(uid)) },
            Act::Sample => Event::Sampled { id, result: Ok(Arc::new(self.sample(wall))) },
            Act::Ask { rung, question } => {
                let verdict = policy::answer(&mut self.rng, rung, question, calm);
                self.check.shortage_told |= matches!(&verdict.answer, Ok(Some(Answer::Assess(told))) if !told.is_empty());
                Event::Done { id, result: Ok(Outcome::Verdict(verdict)) }
            }
            Act::Probe { pod, container, id: container_id, kind, .. } => {
                let outcome = self.probe(pod, container.as_str(), container_id, *kind);
                let text = "simulated".to_owned();
                Event::Done { id, result: Ok(Outcome::Probed { outcome, text, latency: Duration::from_millis(1) }) }
            }
            Act::Hook { container, budget, .. } => {
                let fails = !self.calm() && self.rng.chance(20);
                if fails && budget.is_none() {
                    self.check.hook_failed.insert(container.clone());
                }
                let result = if fails { Err(error("hook", container.as_str(), CallErrorKind::Other)) } else { Ok(Outcome::Unit) };
                // Some take their time, a preStop hook never more than it has.
                if let Some(back) = reply.filter(|_| self.rng.chance(20)) {
                    let most = budget.map_or(8_000, |budget| u64::try_from(budget.as_millis()).unwrap_or(u64::MAX));
                    let at = self.now + back + self.rng.below(most);
                    return self.at(at, Todo::Deliver { life, event: Event::Done { id, result } });
                }
                Event::Done { id, result }
            }
            Act::StartContainer { pod, id: container, .. } => {
                let started = self.start(pod, container);
                Event::Done { id, result: started }
            }
            Act::StopContainer { id: container, timeout, .. } => {
                let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
                let term = self.rng.below(3_000);
                let (code, after) = if term <= ms { (if self.rng.chance(50) { 0 } else { 143 }, term) } else { (137, ms) };
                let runs = self.rt.find(container).is_some_and(|c| c.seen.state == ContainerState::Running);
                if !runs {
                    // That it has ended already, a stop finds out.
                    self.rt.unknown.remove(container);
                }
                if runs {
                    let reply = reply.map(|_| (life, id));
                    let id = container.clone();
                    return self.at(self.now + after, Todo::Exit { id, code, reply });
                }
                Event::Done { id, result: Ok(Outcome::Unit) }
            }
            // The signature is not there yet.
            Act::PullImage { image, .. } if !calm && self.rng.chance(10) => {
                Event::Done { id, result: Err(error("PullImage", image, CallErrorKind::SignatureInvalid)) }
            }
            Act::PullImage { image, .. } if self.registry_away => {
                Event::Done { id, result: Err(error("PullImage", image, CallErrorKind::RegistryUnavailable)) }
            }
            Act::RemoveContainer { id: container, keep_log } => {
                if *keep_log {
                    self.check.starts_over(&self.rt, container);
                } else if !self.calm() && self.rng.chance(3) {
                    self.rt.ghosts.insert(container.clone());
                }
                Event::Done { id, result: self.rt.carry_out(&act, wall) }
            }
            _ => Event::Done { id, result: self.rt.carry_out(&act, wall) },
        };
        self.say(|| format!("   == {act:?}"));
        if let Some(back) = reply {
            self.at(self.now + back, Todo::Deliver { life, event });
        }
        if matches!(act, Act::StopSandbox { .. }) {
            self.hint_all();
        }
    }

    fn start(&mut self, pod: &Pod, id: &ContainerId) -> Result<Outcome, CallError> {
        let wall = self.clock().wall;
        let attempts = self.runs.clone();
        let ready: BTreeSet<_> =
            self.rt.sandboxes.iter().filter(|(_, _, s)| s.state == SandboxState::Ready).map(|(_, _, s)| s.id.clone()).collect();
        let Some(live) = self.rt.find(id) else { return Err(error("StartContainer", id.as_str(), CallErrorKind::NotFound)) };
        if live.seen.state != ContainerState::Created || !ready.contains(&live.seen.sandbox) {
            return Err(error("StartContainer", id.as_str(), CallErrorKind::Other));
        }
        let (uid, name) = (live.uid.clone(), live.seen.name.as_str().to_owned());
        live.seen.state = ContainerState::Running;
        live.seen.started = Some(wall);
        let n = attempts.get(&(uid.clone(), name.clone())).copied().unwrap_or(0);
        *self.runs.entry((uid.clone(), name.clone())).or_default() += 1;
        let program = self.ever.get(&uid).and_then(|p| p.programs.get(&name)).copied().unwrap_or(Program::Serves);
        let end = match program {
            Program::Serves => None,
            Program::Ends { after, code } => Some((after, code)),
            Program::FailsFirst { times, code, .. } if n < times => Some((self.rng.below(2_000), code)),
            Program::FailsFirst { then_serves: true, .. } => None,
            Program::FailsFirst { .. } => Some((self.rng.below(2_000), 0)),
        };
        if let Some((after, code)) = end {
            self.at(self.now + after, Todo::Exit { id: id.clone(), code, reply: None });
        }
        let kept = self.check.starts(&self.rt, pod, id);
        self.keep(kept);
        self.check.graces.starts(&uid, &name);
        self.hint(id);
        Ok(Outcome::Unit)
    }

    pub(super) fn exit(&mut self, id: &ContainerId, code: i32, reply: Option<(u32, EffectId)>) {
        let wall = self.clock().wall;
        if let Some(live) = self.rt.find(id)
            && live.seen.state == ContainerState::Running
        {
            live.end(wall, code);
            let (sandbox, name) = (live.seen.sandbox.clone(), live.seen.name.as_str().to_owned());
            self.check.ended(&sandbox, &name, code);
            self.hint(id);
        }
        if let Some((life, effect)) = reply {
            // Now and then the runtime stays in doubt of what it has stopped.
            if self.rng.chance(70) {
                self.rt.unknown.remove(id);
            }
            let event = Event::Done { id: effect, result: Ok(Outcome::Unit) };
            let at = self.now + 1 + self.rng.below(20);
            self.at(at, Todo::Deliver { life, event });
        }
    }

    fn probe(&mut self, pod: &Pod, container: &str, id: &ContainerId, kind: ProbeKind) -> probe::Outcome {
        let runs = self.rt.find(id).is_some_and(|c| c.seen.state == ContainerState::Running);
        let attempt = self.rt.find(id).map_or(0, |c| c.seen.attempt);
        let sick = self.ever.get(&pod.uid).and_then(|p| p.sick.get(container)).copied().unwrap_or(0);
        let fails = !runs || (kind == ProbeKind::Liveness && attempt < sick) || (!self.calm() && self.rng.chance(10));
        if fails {
            self.check.unwell.insert((id.clone(), kind));
            return probe::Outcome::Failed(probe::Failure::Refused);
        }
        probe::Outcome::TcpOpen
    }

    /// A hint may be lost, doubled or late.
    fn hint(&mut self, id: &ContainerId) {
        let copies = if self.calm() { 1 } else { self.rng.below(3) };
        for _ in 0..copies {
            let at = self.now + 1 + self.rng.below(if self.calm() { 20 } else { 3_000 });
            let event = Event::Hint(Hint::Id(id.as_str().to_owned()));
            self.at(at, Todo::Deliver { life: self.life, event });
        }
    }

    fn hint_all(&mut self) {
        if self.rng.chance(50) {
            let event = Event::Hint(Hint::Everything);
            self.at(self.now + 5, Todo::Deliver { life: self.life, event });
        }
    }
}
