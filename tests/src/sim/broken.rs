//! Cores that lack one of the rules: what stands between the node and its world here breaks it, and a world must notice.
//!
//! They are made at the core's only two doors, the events that go in and the effects that come out, so that no feature of the core itself
//! can break it. Some drop, hold or change what the core does. The others change what it is told, and stand for a core that misreads
//! it: each of these says so.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use polylet_core::effect::{Act, Effect};
use polylet_core::event::{Event, Outcome};
use polylet_core::id::{EffectId, PodUid};
use polylet_core::observed::{ContainerState, Observed, SandboxState};
use polylet_core::question::{Answer, probe};

use super::rule::Rule;

/// One rule that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Acts before its sources have been heard: takes silence for "nothing is wanted" (a misreading).
    SilenceIsEmpty,
    /// Decides on looks that began before the last action ended: takes them for newer than they are (a misreading).
    OldLooksCount,
    /// Forgets with every restart what it had stored.
    NoMemory,
    /// Gives containers more grace than the pod has.
    NoGraceLimit,
    /// Gives containers no more than the least that the runtime is given.
    NoGrace,
    /// Takes every init container that ended for one that succeeded (a misreading).
    InitAlwaysSucceeds,
    /// Takes every sandbox for a ready one (a misreading).
    SandboxAlwaysReady,
    /// Takes every probe for failed (a misreading).
    ProbesAlwaysFail,
    /// Lists no more after a while: what no hint tells is never noticed.
    NoRelist,
    /// Removes nothing.
    NoSweep,
    /// Takes a container for started as soon as it was made (a misreading).
    CreatedIsStarted,
    /// Finds no directory or cgroup of a pod that nobody knows any more (a misreading).
    NoLeftovers,
    /// Takes every sample for one of a shortage (a misreading).
    AlwaysShort,
    /// Takes a container whose state cannot be told for a running one (a misreading).
    UnknownIsRunning,
    /// Takes a container whose state cannot be told for one that has ended (a misreading).
    UnknownIsGone,
    /// Takes a sandbox whose status cannot be had for one that is broken (a misreading).
    UnknownIsBroken,
    /// Waits less long before it tries again than it has recorded as decided.
    TooSoon,
    /// Waits longer before it tries again than it has recorded as decided.
    TooLate,
    /// Reads no deadline (a misreading).
    NoDeadline,
    /// Takes every deadline for one of a second (a misreading).
    EarlyDeadline,
    /// One pod at a time: prepares, makes and starts nothing while such a call for another pod is under way.
    OneAtATime,
}

impl Broken {
    /// All of them.
    pub const ALL: [Broken; 21] = [
        Self::SilenceIsEmpty,
        Self::OldLooksCount,
        Self::NoMemory,
        Self::NoGraceLimit,
        Self::NoGrace,
        Self::InitAlwaysSucceeds,
        Self::SandboxAlwaysReady,
        Self::ProbesAlwaysFail,
        Self::NoRelist,
        Self::NoSweep,
        Self::CreatedIsStarted,
        Self::NoLeftovers,
        Self::AlwaysShort,
        Self::UnknownIsRunning,
        Self::UnknownIsGone,
        Self::UnknownIsBroken,
        Self::TooSoon,
        Self::TooLate,
        Self::NoDeadline,
        Self::EarlyDeadline,
        Self::OneAtATime,
    ];

    /// The rule that catches it.
    pub fn breaks(self) -> Rule {
        match self {
            Self::SilenceIsEmpty => Rule::Heard,
            Self::OldLooksCount => Rule::Fresh,
            Self::NoMemory => Rule::Forward,
            Self::NoGraceLimit => Rule::MostGrace,
            Self::NoGrace => Rule::LeastGrace,
            Self::InitAlwaysSucceeds => Rule::Order,
            Self::SandboxAlwaysReady => Rule::Converged,
            Self::ProbesAlwaysFail => Rule::Cause,
            Self::NoRelist => Rule::Converged,
            Self::NoSweep | Self::NoLeftovers => Rule::Left,
            Self::CreatedIsStarted => Rule::Converged,
            Self::AlwaysShort | Self::UnknownIsBroken | Self::EarlyDeadline => Rule::Cause,
            Self::UnknownIsRunning | Self::UnknownIsGone => Rule::Unknown,
            Self::TooSoon => Rule::Delay,
            Self::TooLate => Rule::Late,
            Self::NoDeadline => Rule::Deadline,
            Self::OneAtATime => Rule::Idle,
        }
    }
}

/// What stands in the doors of a broken core.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) broken: Broken,
    events: u64,
    /// The call under way that all others wait for.
    turn: Option<(EffectId, PodUid)>,
    held: VecDeque<Effect>,
}

impl Door {
    pub(super) fn new(broken: Broken) -> Self {
        Self { broken, events: 0, turn: None, held: VecDeque::new() }
    }

    /// The agent dies.
    pub(super) fn dies(&mut self) {
        *self = Self { events: self.events, ..Self::new(self.broken) };
    }

    /// What the broken core makes of an event.
    pub(super) fn event(&mut self, mut event: Event) -> Vec<Event> {
        use Broken::*;
        self.events += 1;
        if let Event::Done { id, .. } = &event
            && self.turn.as_ref().is_some_and(|(turn, _)| turn == id)
        {
            self.turn = None;
        }
        match (self.broken, &mut event) {
            (OldLooksCount, Event::Observed { pod, result: Ok(have), .. }) => {
                let id = EffectId(1_000_000_000 + self.events);
                return vec![Event::Observed { id, pod: pod.clone(), result: Ok(have.clone()) }, event];
            }
            (NoDeadline | EarlyDeadline, Event::Desired { pods, .. }) => {
                let early = (self.broken == EarlyDeadline).then_some(Duration::from_secs(1));
                for pod in pods.iter_mut().filter(|pod| pod.active_deadline.is_some()) {
                    Arc::make_mut(pod).active_deadline = early;
                }
            }
            (NoRelist, Event::Listed { .. }) if self.events > 20 => return Vec::new(),
            (_, Event::Observed { result: Ok(have), .. }) => self.misread(have),
            (NoLeftovers, Event::Done { result: Ok(Outcome::Leftovers(found)), .. }) => found.clear(),
            (AlwaysShort, Event::Sampled { result: Ok(sample), .. }) => {
                Arc::make_mut(sample).signals.values_mut().for_each(|reading| reading.available = 0);
            }
            (ProbesAlwaysFail, Event::Done { result: Ok(Outcome::Probed { outcome, .. }), .. }) => {
                *outcome = probe::Outcome::Failed(probe::Failure::Refused);
            }
            _ => {}
        }
        vec![event]
    }

    fn misread(&self, have: &mut Observed) {
        for c in &mut have.containers {
            match (self.broken, c.state) {
                (Broken::InitAlwaysSucceeds, ContainerState::Exited) if c.name.as_str().starts_with('i') => {
                    c.exit_code = 0;
                    c.reason = "Completed".into();
                }
                (Broken::CreatedIsStarted, ContainerState::Created) | (Broken::UnknownIsRunning, ContainerState::Unknown) => {
                    c.state = ContainerState::Running;
                }
                (Broken::UnknownIsGone, ContainerState::Unknown) => {
                    c.state = ContainerState::Exited;
                    c.finished = Some(c.created);
                    c.exit_code = 255;
                }
                _ => {}
            }
        }
        for s in &mut have.sandboxes {
            match (self.broken, s.state) {
                (Broken::SandboxAlwaysReady, _) => s.state = SandboxState::Ready,
                (Broken::UnknownIsBroken, SandboxState::Unknown) => s.state = SandboxState::NotReady,
                _ => {}
            }
        }
    }

    /// What becomes of the effects of a step.
    pub(super) fn effects(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        let held = std::mem::take(&mut self.held);
        held.into_iter().chain(effects).filter_map(|effect| self.effect(effect)).collect()
    }

    fn effect(&mut self, mut effect: Effect) -> Option<Effect> {
        use Broken::*;
        match (self.broken, &mut effect) {
            (NoGraceLimit, Effect::Do { act: Act::StopContainer { timeout, .. }, .. }) => *timeout += Duration::from_secs(60),
            (NoGrace, Effect::Do { act: Act::StopContainer { timeout, .. }, .. }) => *timeout = Duration::from_secs(2),
            (NoMemory, Effect::Remember(_)) => return None,
            (NoSweep, Effect::Do { act: Act::RemoveContainer { .. } | Act::RemoveSandbox { .. }, .. }) => return None,
            (TooSoon, Effect::Decided(record)) => {
                if let Answer::Restart(answer) = &mut Arc::make_mut(record).answer {
                    answer.delay *= 2;
                }
            }
            (TooLate, Effect::Decided(record)) => {
                if let Answer::Restart(answer) = &mut Arc::make_mut(record).answer {
                    answer.delay /= 2;
                }
            }
            (OneAtATime, Effect::Do { id, act }) => {
                let pod = match act {
                    Act::Prepare { pod, .. }
                    | Act::RunSandbox { pod, .. }
                    | Act::CreateContainer { pod, .. }
                    | Act::StartContainer { pod, .. } => &pod.uid,
                    _ => return Some(effect),
                };
                if self.turn.as_ref().is_some_and(|(_, turn)| turn != pod) {
                    self.held.push_back(effect);
                    return None;
                }
                self.turn = Some((*id, pod.clone()));
            }
            _ => {}
        }
        Some(effect)
    }
}
