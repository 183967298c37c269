//! One world: virtual time, a queue of what is to happen, the node, and everything around it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use polylet_core::effect::{Act, Effect};
use polylet_core::event::{CallErrorKind, Event, Hint, Outcome, RuntimeState};
use polylet_core::id::{ContainerId, EffectId, PodUid};
use polylet_core::node::Node;
use polylet_core::observed::{ContainerState, SandboxState};
use polylet_core::pod::{Pod, ProbeKind, Source};
use polylet_core::question::{Answer, probe};
use polylet_core::record::PodRecord;
use polylet_core::sample::{PodUsage, Reading, Sample};
use polylet_core::time::{Mono, Now, Wall};

use super::broken::Broken;
use super::calls::{pod_of, refusal};
use super::check::Check;
use super::manifest::{self, Program, SimPod};
use super::policy;
use super::runtime::{Runtime, error};
use super::settings::{self, config};
use super::{CALM, END, Rng};

/// Wall clock at the beginning: some day in 2026.
const EPOCH: u64 = 1_780_000_000_000;

/// What one run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Events given to the node.
    pub steps: u64,
    /// Acts that the node asked for.
    pub acts: u64,
    /// Hash over everything that went in and out, where it is asked for.
    pub fingerprint: u64,
}

/// Plays one world. Err: the invariant that broke, and when.
pub fn run(seed: u64) -> Result<Report, String> {
    World::new(seed, Telling::Nothing).play()
}

/// Likewise, with everything printed.
pub fn run_traced(seed: u64) -> Result<Report, String> {
    World::new(seed, Telling::Print).play()
}

/// Likewise, with a fingerprint: two runs of a seed agree.
pub fn run_hashed(seed: u64) -> Result<Report, String> {
    World::new(seed, Telling::Hash).play()
}

/// Plays one world around a core that lacks a rule.
pub fn run_broken(seed: u64, broken: Broken) -> Result<Report, String> {
    let mut world = World::new(seed, Telling::Nothing);
    world.lacks = Some(broken);
    world.play()
}

#[derive(Debug)]
pub(super) enum Todo {
    Wake {
        life: u32,
        turn: u64,
    },
    Deliver {
        life: u32,
        event: Event,
    },
    /// A request arrives at its peer.
    Apply {
        life: u32,
        id: EffectId,
        act: Act,
        reply: Option<u64>,
    },
    /// A process ends by itself or by TERM.
    Exit {
        id: ContainerId,
        code: i32,
        reply: Option<(u32, EffectId)>,
    },
    /// The sources as they are now; a watch is one ordered stream.
    Sync {
        life: u32,
    },
    SyncSource {
        life: u32,
        source: Source,
    },
    Runtime {
        life: u32,
        up: bool,
    },
    Fault(Fault),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    KillContainer,
    KillSandbox,
    Crash,
    Reboot,
    ClockJump,
    Edit,
    Swap,
    RuntimeAway,
    DiskFull(bool),
    RegistryAway(bool),
    MemoryShort(bool),
}

/// What becomes of what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Telling {
    Nothing,
    Print,
    Hash,
}

pub(super) struct World {
    pub(super) seed: u64,
    pub(super) rng: Rng,
    pub(super) now: u64,
    pub(super) booted: u64,
    pub(super) jump: i64,
    pub(super) rt: Runtime,
    pub(super) declared: BTreeMap<PodUid, SimPod>,
    pub(super) ever: BTreeMap<PodUid, SimPod>,
    /// What this life of the node has been told.
    pub(super) told: Option<BTreeMap<PodUid, Arc<Pod>>>,
    pub(super) node: Node,
    pub(super) life: u32,
    pub(super) store: BTreeMap<PodUid, PodRecord>,
    pub(super) disk_full: bool,
    pub(super) registry_away: bool,
    /// The node has less memory left than it must keep.
    pub(super) memory_short: bool,
    pub(super) queue: BTreeMap<(u64, u64), Todo>,
    pub(super) turn: u64,
    pub(super) wake: (u64, u64),
    pub(super) runs: BTreeMap<(PodUid, String), u32>,
    /// A pod whose containers cannot be made a second time.
    cursed: Option<PodUid>,
    pub(super) hung: Option<PodUid>,
    pub(super) generation: u64,
    pub(super) check: Check,
    pub(super) report: Report,
    pub(super) recent: Vec<u64>,
    pub(super) next_pod: u64,
    telling: Telling,
    pub(super) broken: Option<String>,
    pub(super) lacks: Option<Broken>,
}

impl World {
    fn new(seed: u64, telling: Telling) -> Self {
        let mut rng = Rng::new(seed);
        let mut world = Self {
            seed,
            now: 0,
            booted: 0,
            jump: 0,
            rt: Runtime::default(),
            declared: BTreeMap::new(),
            ever: BTreeMap::new(),
            told: None,
            node: Node::new(config(), Vec::new(), seed, Now::default()),
            life: 0,
            store: BTreeMap::new(),
            disk_full: false,
            registry_away: false,
            memory_short: false,
            queue: BTreeMap::new(),
            turn: 0,
            wake: (u64::MAX, 0),
            runs: BTreeMap::new(),
            hung: None,
            cursed: None,
            generation: 0,
            check: Check::default(),
            report: Report::default(),
            recent: Vec::new(),
            next_pod: 0,
            telling,
            broken: None,
            lacks: None,
            rng: rng.clone(),
        };
        for _ in 0..2 + rng.below(3) {
            world.add_pod();
        }
        if rng.chance(30) {
            world.hung = world.declared.keys().next().cloned();
        }
        if rng.chance(20) {
            world.cursed = world.declared.keys().last().cloned();
        }
        for image in 0..2 {
            world.rt.images.insert(format!("img{image}:1"), 0);
        }
        let faults = [
            (Fault::KillContainer, 6),
            (Fault::KillSandbox, 2),
            (Fault::Crash, 3),
            (Fault::Reboot, 1),
            (Fault::ClockJump, 1),
            (Fault::Edit, 4),
            (Fault::Swap, 3),
            (Fault::RuntimeAway, 1),
        ];
        for (fault, most) in faults {
            for _ in 0..world.rng.below(most + 1) {
                let at = world.rng.below(CALM);
                world.at(at, Todo::Fault(fault));
            }
        }
        if world.rng.chance(15) {
            let at = world.rng.below(CALM / 2);
            world.at(at, Todo::Fault(Fault::DiskFull(true)));
            world.at(at + CALM / 2, Todo::Fault(Fault::DiskFull(false)));
        }
        if world.rng.chance(25) {
            let at = world.rng.below(CALM / 2);
            world.at(at, Todo::Fault(Fault::RegistryAway(true)));
            let back = at + world.rng.below(CALM / 2);
            world.at(back, Todo::Fault(Fault::RegistryAway(false)));
        }
        if world.rng.chance(20) {
            let at = world.rng.below(CALM);
            world.at(at, Todo::Fault(Fault::MemoryShort(true)));
            let over = (at + world.rng.below(30_000)).min(CALM);
            world.at(over, Todo::Fault(Fault::MemoryShort(false)));
        }
        world.at(CALM, Todo::Fault(Fault::Swap));
        world.begin_life();
        world
    }

    fn play(mut self) -> Result<Report, String> {
        while let Some(((at, _), todo)) = self.queue.pop_first() {
            if at > END {
                break;
            }
            self.now = at;
            self.happen(todo);
            if let Some(what) = self.broken.take() {
                return Err(format!(
                    "seed {}: at {} ms: {what}\nreplay: SEED={} cargo test -p polylet-tests --test sim -- --nocapture replay",
                    self.seed, self.now, self.seed
                ));
            }
        }
        self.now = END;
        self.converged().map_err(|what| {
            format!(
                "seed {}: at the end: {what}\nreplay: SEED={} cargo test -p polylet-tests --test sim -- --nocapture replay",
                self.seed, self.seed
            )
        })?;
        Ok(self.report)
    }

    pub(super) fn calm(&self) -> bool {
        self.now >= CALM
    }

    pub(super) fn clock(&self) -> Now {
        // The clocks do not tick together.
        let wall = EPOCH.saturating_add_signed(self.jump) + self.now + u64::from(self.now % 7 < 3);
        Now { wall: Wall(wall), mono: Mono(self.now - self.booted) }
    }

    pub(super) fn at(&mut self, at: u64, todo: Todo) {
        self.turn += 1;
        self.queue.insert((at.max(self.now), self.turn), todo);
    }

    fn fail(&mut self, what: Result<(), String>) {
        if let Err(what) = what {
            self.broken.get_or_insert(what);
        }
    }

    pub(super) fn say(&mut self, what: impl FnOnce() -> String) {
        match self.telling {
            Telling::Nothing => {}
            Telling::Print => println!("{:>8} {}", self.now, brief(&what())),
            Telling::Hash => {
                let mut hasher = DefaultHasher::new();
                (self.report.fingerprint, self.now, what()).hash(&mut hasher);
                self.report.fingerprint = hasher.finish();
            }
        }
    }

    pub(super) fn add_pod(&mut self) {
        self.next_pod += 1;
        let n = self.next_pod;
        // Now and then a name comes back under another UID, or a UID comes back.
        let name = if n > 3 && self.rng.chance(30) { "p1".to_owned() } else { format!("p{n}") };
        let api = self.rng.chance(50);
        let pod = manifest::draw(&mut self.rng, &format!("u{n}"), &name, api);
        if self.declared.values().any(|p| p.pod.name == name) {
            return;
        }
        self.ever.insert(pod.pod.uid.clone(), pod.clone());
        self.declared.insert(pod.pod.uid.clone(), pod);
    }

    pub(super) fn begin_life(&mut self) {
        self.life += 1;
        let life = self.life;
        self.told = None;
        self.check.unknown.clone_from(&self.check.dropped);
        self.wake = (u64::MAX, 0);
        let records = self.store.values().cloned().collect();
        self.node = Node::new(config(), records, self.seed ^ u64::from(life), self.clock());
        let at = self.now + 1 + self.rng.below(2_000);
        self.at(at, Todo::Sync { life });
        let at = self.now + 1 + self.rng.below(500);
        self.at(at, Todo::Runtime { life, up: true });
        self.generation += 1;
        let calm = self.calm();
        let bindings = policy::draw(&mut self.rng, self.generation, calm);
        self.at(self.now, Todo::Deliver { life, event: Event::Policies(bindings) });
        if self.lacks == Some(Broken::SilenceIsEmpty) {
            for source in [Source::File, Source::Api] {
                let event = Event::Desired { source, pods: Vec::new() };
                self.at(self.now, Todo::Deliver { life, event });
            }
        }
    }

    fn happen(&mut self, todo: Todo) {
        match todo {
            Todo::Wake { life, turn } => {
                if life == self.life && turn == self.wake.1 {
                    self.wake = (u64::MAX, 0);
                    self.step(Event::Tick);
                }
            }
            Todo::Deliver { life, event } => {
                if life == self.life {
                    self.step(event);
                }
            }
            Todo::Apply { life, id, act, reply } => self.apply(life, id, act, reply),
            Todo::Exit { id, code, reply } => self.exit(&id, code, reply),
            Todo::Sync { life } => {
                if life == self.life {
                    self.sync();
                }
            }
            Todo::SyncSource { life, source } => {
                if life == self.life {
                    self.sync_source(source);
                }
            }
            Todo::Runtime { life, up } => {
                if life == self.life {
                    let state = if up {
                        RuntimeState::Up { runtime: Ok(()), network: Ok(()) }
                    } else {
                        RuntimeState::Down(error("Status", "runtime", CallErrorKind::Unavailable))
                    };
                    self.step(Event::Runtime(state));
                }
            }
            Todo::Fault(fault) => self.fault(fault),
        }
    }

    fn sync(&mut self) {
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

    fn sync_source(&mut self, source: Source) {
        let pods: Vec<Arc<Pod>> = self.declared.values().filter(|p| p.pod.source == source).map(|p| p.pod.clone()).collect();
        let told = self.told.get_or_insert_default();
        let gone: Vec<PodUid> =
            told.values().filter(|p| p.source == source && !pods.iter().any(|q| q.uid == p.uid)).map(|p| p.uid.clone()).collect();
        for uid in gone {
            told.remove(&uid);
            self.check.dropped.insert(uid);
        }
        told.extend(pods.iter().map(|p| (p.uid.clone(), p.clone())));
        self.step(Event::Desired { source, pods });
    }

    pub(super) fn step(&mut self, event: Event) {
        self.say(|| format!("-> {event:?}"));
        self.report.steps += 1;
        let event = match self.lacks {
            Some(broken) => match broken.event(event, self.report.steps) {
                Some(event) => event,
                None => return,
            },
            None => event,
        };
        let effects = self.node.step(self.clock(), event);
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
        let ok = self.check.stepped();
        self.fail(ok);
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

    fn perform(&mut self, effect: Effect) {
        let effect = match self.lacks {
            Some(broken) => match broken.effect(effect) {
                Some(effect) => effect,
                None => return,
            },
            None => effect,
        };
        self.say(|| format!("   <- {effect:?}"));
        match effect {
            Effect::Remember(record) => {
                self.check.remembers(&record);
                if !self.disk_full {
                    self.store.insert(record.uid.clone(), (*record).clone());
                }
            }
            Effect::Forget(uid) => {
                self.store.remove(&uid);
                self.check.forgotten(&uid);
            }
            Effect::Publish { pod, status } => {
                let ok = self.check.status(&pod, &status);
                self.fail(ok);
            }
            Effect::Cancel(id) => {
                self.check.cancelled.push(id);
                let at = self.now + self.rng.below(20);
                let event = Event::Done { id, result: Err(error("call", "cancelled", CallErrorKind::Cancelled)) };
                self.at(at, Todo::Deliver { life: self.life, event });
            }
            Effect::Say(_) | Effect::Count(_) | Effect::Decided(_) => {}
            Effect::Do { id, act } => self.send(id, act),
        }
    }

    /// A request leaves the agent.
    fn send(&mut self, id: EffectId, act: Act) {
        self.report.acts += 1;
        let looks = matches!(act, Act::List | Act::Observe(_) | Act::Sample | Act::FindLeftovers);
        let changes = !(looks || matches!(act, Act::Probe { .. } | Act::Ask { .. }));
        if changes {
            self.recent.push(self.now);
            self.recent.retain(|t| t + 10_000 > self.now);
            if self.recent.len() > 600 {
                self.fail(Err(format!("{} acts in ten seconds", self.recent.len())));
            }
        }
        if let Act::StopContainer { id, timeout, cause } = &act {
            let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            let ok = self.check.stop(&self.rt, self.told.as_ref(), id, *cause, ms);
            self.fail(ok);
        }
        self.check.begins(id, &act);
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
        let hung = !calm && self.hung.is_some() && pod_of(&act) == self.hung && self.rng.chance(60);
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
            let ok = self.check.not_created(&pod.uid, self.now);
            self.fail(ok);
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
    fn apply(&mut self, life: u32, id: EffectId, act: Act, reply: Option<u64>) {
        let wall = self.clock().wall;
        let event = match &act {
            Act::List => Event::Listed { id, result: Ok(self.rt.listing()) },
            Act::Observe(uid) => Event::Observed { id, pod: uid.clone(), result: Ok(self.rt.observe(uid)) },
            Act::Sample => Event::Sampled { id, result: Ok(Arc::new(self.sample(wall))) },
            Act::Ask { rung, question } => {
                let verdict = policy::answer(&mut self.rng, rung, question, now_calm(self.now));
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
                if runs {
                    let reply = reply.map(|_| (life, id));
                    let id = container.clone();
                    return self.at(self.now + after, Todo::Exit { id, code, reply });
                }
                Event::Done { id, result: Ok(Outcome::Unit) }
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

    fn start(&mut self, pod: &Pod, id: &ContainerId) -> Result<Outcome, polylet_core::event::CallError> {
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
        let ok = self.check.starts(&self.rt, pod, id);
        self.fail(ok);
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

fn now_calm(now: u64) -> bool {
    now >= CALM
}

fn brief(text: &str) -> String {
    let text: String = text.chars().take(360).collect();
    text.replace('\n', " ")
}
