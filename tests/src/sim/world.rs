//! One world: virtual time, a queue of what is to happen, the node, and everything around it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use polylet_core::config::Config;
use polylet_core::effect::Act;
use polylet_core::event::{CallErrorKind, Event, RuntimeState};
use polylet_core::id::{ContainerId, EffectId, PodUid, SandboxId};
use polylet_core::node::Node;
use polylet_core::pod::{Pod, Source};
use polylet_core::record::PodRecord;
use polylet_core::time::{Mono, Now, Wall};

use super::broken::{Broken, Door};
use super::check::Check;
use super::manifest::{self, SimPod};
use super::next::PRESENT;
use super::progress::Progress;
use super::rule::{Breach, Failure, Kept};
use super::runtime::{Runtime, error};
use super::{CALM, END, Rng, settings};

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
pub fn run(seed: u64) -> Result<Report, Failure> {
    World::new(seed, Telling::Nothing).play()
}

/// Likewise, with everything printed.
pub fn run_traced(seed: u64) -> Result<Report, Failure> {
    World::new(seed, Telling::Print).play()
}

/// Likewise, with a fingerprint: two runs of a seed agree.
pub fn run_hashed(seed: u64) -> Result<Report, Failure> {
    World::new(seed, Telling::Hash).play()
}

/// Plays one world around a core that lacks a rule.
pub fn run_broken(seed: u64, broken: Broken) -> Result<Report, Failure> {
    let mut world = World::new(seed, Telling::Nothing);
    world.door = Some(Door::new(broken));
    world.begins_deaf();
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
    Network {
        life: u32,
        up: bool,
    },
    /// What state it is in, the runtime can tell again.
    Known(ContainerId),
    /// What has become of a sandbox, the runtime can tell again.
    Found(SandboxId),
    /// The API has let a pod go that it had marked for deletion.
    Gone(PodUid),
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
    /// The runtime's network is not ready for a time.
    NetworkAway,
    /// The runtime cannot tell the state of a container for a time.
    UnknownContainer,
    /// The runtime lists a sandbox and does not give its status, for a time.
    UnknownSandbox,
    DiskFull(bool),
    RegistryAway(bool),
    MemoryShort(bool),
}

/// What becomes of what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
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
    /// The operator's settings.
    pub(super) config: Config,
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
    pub(super) cursed: Option<PodUid>,
    pub(super) hung: Option<PodUid>,
    pub(super) generation: u64,
    pub(super) check: Check,
    pub(super) progress: Progress,
    pub(super) report: Report,
    pub(super) recent: Vec<u64>,
    pub(super) next_pod: u64,
    pub(super) telling: Telling,
    pub(super) broken: Option<Breach>,
    pub(super) door: Option<Door>,
}

impl World {
    fn new(seed: u64, telling: Telling) -> Self {
        let mut rng = Rng::new(seed);
        let config = settings::draw(&mut rng);
        let mut world = Self {
            seed,
            now: 0,
            booted: 0,
            jump: 0,
            rt: Runtime::default(),
            declared: BTreeMap::new(),
            ever: BTreeMap::new(),
            told: None,
            node: Node::new(config.clone(), Vec::new(), seed, Now::default()),
            config,
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
            progress: Progress::default(),
            report: Report::default(),
            recent: Vec::new(),
            next_pod: 0,
            telling,
            broken: None,
            door: None,
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
        world.rt.images.extend(PRESENT.map(|image| (image.to_owned(), 0)));
        let faults = [
            (Fault::KillContainer, 6),
            (Fault::KillSandbox, 2),
            (Fault::Crash, 3),
            (Fault::Reboot, 1),
            (Fault::ClockJump, 1),
            (Fault::Edit, 4),
            (Fault::Swap, 3),
            (Fault::RuntimeAway, 1),
            (Fault::NetworkAway, 1),
            (Fault::UnknownContainer, 2),
            (Fault::UnknownSandbox, 1),
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

    fn play(mut self) -> Result<Report, Failure> {
        while let Some(((at, _), todo)) = self.queue.pop_first() {
            if at > END {
                break;
            }
            self.now = at;
            self.happen(todo);
            if let Some(breach) = self.broken.take() {
                return Err(Failure { seed: self.seed, at: self.now, breach });
            }
        }
        self.now = END;
        match self.converged() {
            Ok(()) => Ok(self.report),
            Err(breach) => Err(Failure { seed: self.seed, at: END, breach }),
        }
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

    pub(super) fn keep(&mut self, kept: Kept) {
        if let Err(breach) = kept {
            self.broken.get_or_insert(breach);
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
        // Now and then a name comes back under another UID.
        let name = if n > 3 && self.rng.chance(30) { "p1".to_owned() } else { format!("p{n}") };
        let api = self.rng.chance(50);
        let pod = manifest::draw(&mut self.rng, &format!("u{n}"), &name, api);
        if self.declared.values().any(|p| p.pod.name == name) {
            return;
        }
        self.ever.insert(pod.pod.uid.clone(), pod.clone());
        self.declared.insert(pod.pod.uid.clone(), pod);
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
            Todo::Network { life, up } => {
                if life == self.life {
                    let network = if up { Ok(()) } else { Err("no plugin".into()) };
                    self.step(Event::Runtime(RuntimeState::Up { runtime: Ok(()), network }));
                }
            }
            Todo::Known(id) => drop(self.rt.unknown.remove(&id)),
            Todo::Found(id) => drop(self.rt.hidden.remove(&id)),
            Todo::Gone(uid) => {
                if self.declared.get(&uid).is_some_and(|p| p.pod.deletion.is_some()) {
                    self.declared.remove(&uid);
                    let life = self.life;
                    self.at(self.now, Todo::Sync { life });
                }
            }
            Todo::Fault(fault) => self.fault(fault),
        }
    }
}

fn brief(text: &str) -> String {
    let text: String = text.chars().take(360).collect();
    text.replace('\n', " ")
}
