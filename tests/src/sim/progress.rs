//! What the node has been told, what it has under way, and when it must have begun the next thing.
//!
//! Bounds come from what the core promises: each pod is looked after by itself, and what an answer makes possible is begun in the step
//! that takes the answer. Only pulls wait for one another. So a pod of which a look, begun after the last act on it ended, shows that
//! something is to be done, and which waits for nothing (no call of its own under way, no delay that was decided, no pause after a call
//! that failed), has it begun at once; [`AT_ONCE`] allows for the beat of the world.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use polylet_core::effect::Act;
use polylet_core::event::Event;
use polylet_core::id::{ContainerId, EffectId, PodUid};
use polylet_core::node::Node;
use polylet_core::observed::{Container, ContainerState, Observed, SandboxState};
use polylet_core::pod::{Container as PodContainer, ContainerKind, Pod, Source};
use polylet_core::question::restart::{Answer, Cause, Termination};
use polylet_core::restart::backoff_key;

use super::calls::{changes, makes_stale, pod_of};
use super::next;
use super::rule::{Kept, Rule};
use super::runtime::Runtime;

/// So long after it could have been begun, a thing must have been.
const AT_ONCE: u64 = 2_000;
/// So long after the node has seen that a container's state cannot be told, it must have asked for its end.
const STOPS_UNKNOWN: u64 = 15_000;
/// The pause after a call that failed.
const PAUSE: u64 = 10_000;

/// What the node has been told of its sources last.
type Told = BTreeMap<PodUid, Arc<Pod>>;

/// One life of the agent.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The runtime has said that it answers.
    up: bool,
    /// Its network is ready.
    network: bool,
    heard: BTreeSet<Source>,
    /// The newest effect that the node has asked for.
    last: u64,
    /// The newest look at each pod that the node has been given, with the effect that asked for it.
    looks: BTreeMap<PodUid, (u64, Observed)>,
    /// Looks asked for up to this effect are older than the last act on the pod.
    stale: BTreeMap<PodUid, u64>,
    flights: BTreeMap<EffectId, Flight>,
    /// Nothing more is due of the pod before.
    pauses: BTreeMap<PodUid, u64>,
    /// No sandbox is due before.
    sandboxes: BTreeMap<PodUid, u64>,
    restarts: BTreeMap<(PodUid, String), Decided>,
    /// Since when something has been due of a pod.
    since: BTreeMap<PodUid, u64>,
    /// When the node first saw of a container that its state cannot be told.
    puzzled: BTreeMap<ContainerId, u64>,
}

#[derive(Debug)]
struct Flight {
    pod: Option<PodUid>,
    /// An image that is looked for: whose wish it is, the call does not tell.
    image: Option<String>,
    busies: bool,
    makes_stale: bool,
}

/// When a container is tried again.
#[derive(Clone, Debug)]
struct Decided {
    /// Of which container, as its backoff knows it: another image or other resources begin anew.
    key: Option<String>,
    at: u64,
    /// Of what (wall clock), and whether that was an end.
    of: u64,
    exit: bool,
}

impl Progress {
    /// The node asks for something.
    pub(super) fn begins(&mut self, rt: &Runtime, id: EffectId, act: &Act, now: u64, steady: bool) -> Kept {
        self.last = self.last.max(id.0);
        let pod = pod_of(rt, act);
        let image = if let Act::InspectImage { image } = act { Some(image.clone()) } else { None };
        let busies = changes(act) || matches!(act, Act::Ask { .. });
        self.flights.insert(id, Flight { pod, image, busies, makes_stale: makes_stale(act) });
        match act {
            Act::RunSandbox { pod, .. } => {
                if self.sandboxes.get(&pod.uid).is_some_and(|at| now < *at) {
                    return Rule::Delay.broken(format!("a sandbox of {} is made before it is due", pod.uid));
                }
                self.has_looked(&pod.uid).and_then(|()| self.can_be_told(&pod.uid, None))
            }
            Act::CreateContainer { pod, container, .. } => {
                let kept = self.has_looked(&pod.uid).and_then(|()| self.can_be_told(&pod.uid, Some(container.as_str())));
                kept.and_then(|()| self.tries(rt, pod, container.as_str(), now, steady, false))
            }
            Act::StartContainer { pod, container, .. } => {
                let kept = self.has_looked(&pod.uid).and_then(|()| self.can_be_told(&pod.uid, Some(container.as_str())));
                kept.and_then(|()| self.tries(rt, pod, container.as_str(), now, false, true))
            }
            Act::StopContainer { id, .. } => {
                self.puzzled.insert(id.clone(), u64::MAX);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn has_looked(&self, uid: &PodUid) -> Kept {
        let stale = self.stale.get(uid).copied().unwrap_or(0);
        if self.looks.get(uid).is_none_or(|(look, _)| *look <= stale) {
            return Rule::Fresh.broken(format!("something of {uid} is begun on a look that is older than the last act's end"));
        }
        Ok(())
    }

    /// Nothing is begun of a pod whose sandbox, or in place of a container whose state, the runtime cannot tell.
    fn can_be_told(&self, uid: &PodUid, container: Option<&str>) -> Kept {
        let Some((_, have)) = self.looks.get(uid) else { return Ok(()) };
        if have.sandbox().is_some_and(|s| s.state == SandboxState::Unknown) {
            return Rule::Unknown.broken(format!("something of {uid} is begun, whose sandbox's state cannot be told"));
        }
        let here = |c: &Container| have.sandbox().is_some_and(|s| s.id == c.sandbox);
        match container.filter(|name| have.newest(name).is_some_and(|c| c.state == ContainerState::Unknown && here(c))) {
            Some(name) => Rule::Unknown.broken(format!("{name} of {uid} is begun anew, whose state cannot be told")),
            None => Ok(()),
        }
    }

    /// A container is tried again: not before that is due, and not without somebody having been asked. `asked`: see to the latter too.
    /// `made`: it has been made, and an earlier life of the agent may have waited out the last end.
    fn tries(&mut self, rt: &Runtime, pod: &Pod, name: &str, now: u64, asked: bool, made: bool) -> Kept {
        let decided = self.restarts.remove(&(pod.uid.clone(), name.to_owned()));
        if next::starts_over(pod) {
            return Ok(());
        }
        // In a new sandbox, init containers and sidecars begin at once.
        let sandbox = self.looks.get(&pod.uid).and_then(|(_, have)| have.sandbox()).map(|s| &s.id);
        let anew = self.looks.get(&pod.uid).is_some_and(|(_, have)| have.of(name).all(|c| Some(&c.sandbox) != sandbox));
        let init = pod.container(name).is_some_and(|c| matches!(c.kind, ContainerKind::Init | ContainerKind::Sidecar));
        if anew && init {
            return Ok(());
        }
        let edited = decided.as_ref().is_some_and(|d| d.key != pod.container(name).map(backoff_key));
        if edited {
            return Ok(());
        }
        if let Some(Decided { at, .. }) = decided.as_ref().filter(|d| now < d.at && !(made && d.exit)) {
            return Rule::Delay.broken(format!("{name} of {} starts {} ms before it is due", pod.uid, at - now));
        }
        let Some((_, have)) = self.looks.get(&pod.uid) else { return Ok(()) };
        // What was removed and is listed still has not ended: it is gone.
        let newest = have.of(name).find(|c| !rt.ghosts.contains(&c.id));
        let ended = newest.filter(|c| c.state == ContainerState::Exited && Some(&c.sandbox) == have.sandbox().map(|s| &s.id));
        let Some(finished) = ended.and_then(|c| c.finished).filter(|_| asked) else { return Ok(()) };
        if decided.is_none_or(|d| d.exit && d.of < finished.0) {
            return Rule::Delay.broken(format!("{name} of {} starts again, and nobody has been asked when", pod.uid));
        }
        Ok(())
    }

    /// The node has let go of a pod: what comes under its UID is a new one.
    pub(super) fn forgets(&mut self, uid: &PodUid) {
        self.pauses.remove(uid);
        self.sandboxes.remove(uid);
        self.restarts.retain(|(of, _), _| of != uid);
    }

    /// A policy has said when to try again. `wall` is the node's clock.
    pub(super) fn decides(&mut self, pod: &Pod, name: &str, last: &Termination, answer: &Answer, now: u64, wall: u64) {
        let uid = &pod.uid;
        let left = (last.at + answer.delay).saturating_sub(wall).min(answer.delay);
        match last.cause {
            Cause::ImagePullFailed => {}
            Cause::SandboxFailed => drop(self.sandboxes.insert(uid.clone(), now + left)),
            cause => {
                let key = pod.container(name).map(backoff_key);
                let decided = Decided { key, at: now + left, of: last.at, exit: cause != Cause::StartFailed };
                self.restarts.insert((uid.clone(), name.to_owned()), decided);
            }
        }
    }

    /// The node is told something.
    pub(super) fn tells(&mut self, event: &Event, told: &Told, node: &Node, now: u64) -> Kept {
        use polylet_core::event::RuntimeState;
        match event {
            Event::Runtime(RuntimeState::Up { runtime, network }) => (self.up, self.network) = (runtime.is_ok(), network.is_ok()),
            Event::Runtime(RuntimeState::Down(_)) => self.up = false,
            Event::Desired { source, .. } => drop(self.heard.insert(*source)),
            Event::Listed { id, result } => {
                self.ends(*id, result.is_err(), told, now);
                if let Ok(listing) = result {
                    let gone: Vec<PodUid> = node.pods().filter(|uid| !listing.pods.contains_key(*uid)).cloned().collect();
                    for uid in gone {
                        self.sees(&uid, *id, Observed::default());
                    }
                }
            }
            Event::Observed { id, pod, result } => {
                self.ends(*id, result.is_err(), told, now);
                if let Ok(have) = result {
                    self.sees(pod, *id, have.clone());
                    return self.is_puzzled(pod, told, now);
                }
            }
            Event::Sampled { id, result } => self.ends(*id, result.is_err(), told, now),
            Event::Done { id, result } => self.ends(*id, result.is_err(), told, now),
            Event::Hint(_) | Event::Policies(_) | Event::Tick => {}
        }
        Ok(())
    }

    fn sees(&mut self, uid: &PodUid, id: EffectId, have: Observed) {
        if self.looks.get(uid).is_none_or(|(old, _)| *old < id.0) {
            self.looks.insert(uid.clone(), (id.0, have));
        }
    }

    fn ends(&mut self, id: EffectId, failed: bool, told: &Told, now: u64) {
        let Some(flight) = self.flights.remove(&id) else { return };
        if let Some(uid) = &flight.pod {
            if flight.makes_stale {
                self.stale.insert(uid.clone(), self.last);
            }
            if failed {
                self.pauses.insert(uid.clone(), now + PAUSE);
            }
        }
        if let Some(image) = flight.image.filter(|_| failed) {
            for pod in told.values().filter(|p| needs(p, &image)) {
                self.pauses.insert(pod.uid.clone(), now + PAUSE);
            }
        }
    }

    /// The newest attempt of a container whose state cannot be told is asked to stop before long.
    fn is_puzzled(&mut self, uid: &PodUid, told: &Told, now: u64) -> Kept {
        let Some((_, have)) = self.looks.get(uid) else { return Ok(()) };
        let lost = have.sandbox().is_none_or(|s| s.state != SandboxState::Ready);
        let Some(pod) = told.get(uid).filter(|_| self.up && !lost) else {
            self.puzzled.retain(|id, at| *at == u64::MAX || have.containers.iter().all(|c| c.id != *id));
            return Ok(());
        };
        let up = |c: &PodContainer| have.newest(c.name.as_str()).is_some_and(|a| a.state == ContainerState::Running);
        let sidecars_run = pod.of_kind(ContainerKind::Sidecar).all(up);
        // An init container may be one that the pod is through with; an ephemeral one is never started again.
        for container in pod.containers.iter().filter(|c| matches!(c.kind, ContainerKind::App | ContainerKind::Sidecar)) {
            // Before a sidecar has started, what comes after it is not looked at.
            let waits = next::waits_for_startup(pod) || (container.kind == ContainerKind::App && !sidecars_run);
            let Some(c) = have.newest(container.name.as_str()).filter(|_| !waits) else { continue };
            if c.state != ContainerState::Unknown {
                self.puzzled.remove(&c.id);
            } else if now > self.puzzled.entry(c.id.clone()).or_insert(now).saturating_add(STOPS_UNKNOWN) {
                let text = format!("the state of {} of {uid} cannot be told for long, and it is not stopped", c.name);
                return Rule::Unknown.broken(text);
            }
        }
        Ok(())
    }

    /// All effects of a step are done: whatever has to be begun is begun. `pods` are those whose calls do not hang.
    pub(super) fn stepped<'a>(&mut self, pods: impl Iterator<Item = &'a Pod>, now: u64) -> Kept {
        let mut since = BTreeMap::new();
        let all = self.up && self.network && self.heard.len() == 2;
        for pod in pods.filter(|_| all) {
            let Some((due, what)) = self.due(pod) else { continue };
            let first = self.since.get(&pod.uid).copied().unwrap_or(now);
            if first.max(due) + AT_ONCE < now {
                let rule = if what.ended { Rule::Late } else { Rule::Idle };
                let what = format!("{} of {} could have been begun at {} ms", what.name, pod.uid, first.max(due));
                return rule.broken(what);
            }
            since.insert(pod.uid.clone(), first);
        }
        self.since = since;
        Ok(())
    }

    /// What is to be begun of the pod next, and from when on.
    fn due(&self, pod: &Pod) -> Option<(u64, next::Next)> {
        let (id, have) = self.looks.get(&pod.uid)?;
        let busy = self.flights.values().any(|f| {
            let looks = f.image.as_ref().is_some_and(|image| needs(pod, image));
            f.busies && (f.pod.as_ref() == Some(&pod.uid) || looks)
        });
        if busy || self.stale.get(&pod.uid).is_some_and(|stale| id <= stale) {
            return None;
        }
        let pause = self.pauses.get(&pod.uid).copied().unwrap_or(0);
        let when = |next: &next::Next| match next.kind {
            next::Kind::Sandbox => self.sandboxes.get(&pod.uid).copied().unwrap_or(0),
            next::Kind::Container => self
                .restarts
                .get(&(pod.uid.clone(), next.name.clone()))
                .filter(|d| d.key == pod.container(&next.name).map(backoff_key))
                .map_or(0, |d| d.at),
        };
        next::next(pod, have).into_iter().map(|next| (when(&next).max(pause), next)).min_by_key(|(at, _)| *at)
    }
}

fn needs(pod: &Pod, image: &str) -> bool {
    pod.containers.iter().flat_map(next::images).any(|(needed, _)| needed == image)
}

/// Lives, as far as the runtime can tell.
pub(super) fn is_live(attempt: &Container) -> bool {
    matches!(attempt.state, ContainerState::Created | ContainerState::Running | ContainerState::Unknown)
}
