//! What every pod's worker shares with the node: the clock's reading, the settings, the ids, the effects going out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::config::Config;
use crate::effect::{Act, Effect};
use crate::id::{ContainerId, ContainerName, EffectId, PodUid, SandboxId};
use crate::ladder::Ladder;
use crate::pod::ProbeKind;
use crate::question::NodeFacts;
use crate::sample::Sample;
use crate::time::{Mono, Now};

use super::asks::Asked;
use super::rate::Bucket;

/// What an effect in flight was for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    List,
    Observe,
    Sample,
    Leftovers,
    Prepare,
    Sandbox,
    Create(ContainerName),
    Start(ContainerName, ContainerId),
    PostStart(ContainerName, ContainerId),
    PreStop(ContainerId),
    Stop(ContainerId),
    Remove(ContainerId),
    StopSandbox(SandboxId),
    RemoveSandbox(SandboxId),
    CleanUp { gone: bool },
    Inspect(ImageKey),
    Pull(ImageKey),
    Probe(ContainerName, ProbeKind),
    Ask(Box<Asked>),
}

/// An effect in flight.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flight {
    /// None for the node's own.
    pub(super) pod: Option<PodUid>,
    pub(super) what: What,
}

/// What an image is wanted for: a container's own, or one that it mounts as a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ImageKey {
    pub(super) container: ContainerName,
    /// Name of the volume.
    pub(super) volume: Option<String>,
}

/// Image pulls of the whole node: first come, first served, at most so many at once.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    pub(super) running: BTreeSet<EffectId>,
    pub(super) queue: VecDeque<(PodUid, ImageKey)>,
    pub(super) bucket: Bucket,
}

/// Random numbers for jitter, from a seed passed in.
#[derive(Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `n`; zero for zero.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        if n == 0 { 0 } else { self.0 % n }
    }
}

/// State of the node that workers read or move on.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) last_id: u64,
    pub(super) flights: BTreeMap<EffectId, Flight>,
    pub(super) ladder: Ladder,
    pub(super) pulls: Pulls,
    pub(super) rng: Rng,
    pub(super) decisions: u64,
    pub(super) node: NodeFacts,
    /// The newest sampling.
    pub(super) sample: Arc<Sample>,
    /// Every source has been heard.
    pub(super) heard: bool,
    /// The runtime has listed its pods once.
    pub(super) listed: bool,
    /// The runtime answers and says that it is ready.
    pub(super) runtime_up: bool,
    /// Err: why pods that need the network must wait.
    pub(super) network: Result<(), String>,
    /// What the runtime has said to be removed, until it lists it no more.
    pub(super) removed: BTreeMap<String, Removed>,
    /// When this life of the agent began.
    pub(super) born: Now,
}

/// A container or sandbox that the runtime has said to be removed.
#[derive(Debug)]
pub(super) struct Removed {
    pub(super) pod: PodUid,
    /// The last effect begun before that: a listing begun later must not show it.
    pub(super) last_id: u64,
    /// That one shows it all the same has been told.
    pub(super) told: bool,
}

/// One step's context.
pub(super) struct Cx<'a> {
    pub(super) now: Now,
    pub(super) shared: &'a mut Shared,
    pub(super) out: &'a mut Vec<Effect>,
    /// The earliest instant at which the worker at hand wants to be looked at again.
    pub(super) wake: Option<Mono>,
    /// Pods that must be looked at because of what this one did.
    pub(super) touched: &'a mut BTreeSet<PodUid>,
}

impl Cx<'_> {
    /// Begins an effect; its answer will come under the id returned.
    pub(super) fn act(&mut self, pod: Option<&PodUid>, what: What, act: Act) -> EffectId {
        let id = self.shared.next_id();
        self.shared.flights.insert(id, Flight { pod: pod.cloned(), what });
        self.out.push(Effect::Do { id, act });
        id
    }

    /// Lets an effect go: its answer, if it still comes, is of interest only as the end of an action.
    pub(super) fn cancel(&mut self, id: EffectId) {
        self.out.push(Effect::Cancel(id));
    }

    /// Asks to be looked at again at `at`.
    pub(super) fn wake_at(&mut self, at: Mono) {
        self.wake = Some(self.wake.map_or(at, |w| w.min(at)));
    }

    /// The runtime says that this is removed. Whatever it lists later, it counts as gone: one that can be listed and not be found
    /// would be removed for ever.
    pub(super) fn gone(&mut self, pod: &PodUid, id: &str) {
        let removed = Removed { pod: pod.clone(), last_id: self.shared.last_id, told: false };
        self.shared.removed.insert(id.to_owned(), removed);
    }

    /// Whether `at` has come; asks to be woken when it has not.
    pub(super) fn reached(&mut self, at: Mono) -> bool {
        if at <= self.now.mono {
            return true;
        }
        self.wake_at(at);
        false
    }

    pub(super) fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The node as questions see it, at this moment.
    pub(super) fn node_facts(&self) -> NodeFacts {
        NodeFacts { now: self.now.wall.0, network_not_ready: self.shared.network.is_err(), ..self.shared.node.clone() }
    }
}

impl Shared {
    pub(super) fn next_id(&mut self) -> EffectId {
        self.last_id += 1;
        EffectId(self.last_id)
    }
}

/// A record shared with the performer, only when it differs from what was stored last.
pub(super) fn changed<T: Clone + PartialEq>(stored: &mut Option<T>, now: &T) -> Option<Arc<T>> {
    if stored.as_ref() == Some(now) {
        return None;
    }
    *stored = Some(now.clone());
    Some(Arc::new(now.clone()))
}
