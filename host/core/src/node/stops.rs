//! Stopping containers: preStop hook, order among sidecars, TERM and KILL; all containers of a pod side by side.

use std::time::Duration;

use crate::effect::{Act, StopCause};
use crate::event::CallError;
use crate::id::{ContainerId, ContainerName, EffectId};
use crate::observed::{Container, ContainerState};
use crate::pod::{ContainerKind, Handler};
use crate::time::Mono;

use super::cx::{Cx, What};
use super::worker::{Life, Worker};

/// The runtime is given at least this long, whatever is left of the grace.
const LEAST: Duration = Duration::from_secs(2);
/// After a failed stop.
const RETRY: Duration = Duration::from_secs(10);

/// One container being stopped.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stopping {
    pub(super) name: ContainerName,
    pub(super) cause: StopCause,
    /// End of the grace.
    deadline: Mono,
    stage: Stage,
}

#[derive(Clone, Debug, PartialEq)]
enum Stage {
    /// The hook runs.
    PreStop(EffectId),
    /// A sidecar waits for those that need it.
    Ordered,
    /// The runtime was told.
    Told(EffectId),
    /// It answered: told again if the container still runs by then.
    Answered { retry: Mono, refused: bool },
}

impl Stopping {
    /// The runtime could not do it.
    pub(super) fn was_refused(&self) -> bool {
        matches!(self.stage, Stage::Answered { refused: true, .. })
    }
}

impl Worker {
    /// Begins to stop an attempt, unless that is under way. A shorter grace shortens one under way.
    pub(super) fn stop(&mut self, cx: &mut Cx<'_>, attempt: &Container, cause: StopCause, message: String, grace: Duration) {
        let deadline = cx.now.mono + grace;
        if let Some(stop) = self.stops.get_mut(&attempt.id) {
            if deadline < stop.deadline {
                stop.deadline = deadline;
                match stop.stage {
                    Stage::PreStop(hook) => cx.cancel(hook),
                    // Told of a longer grace: told again.
                    Stage::Told(_) => tell(cx, &self.uid, &attempt.id, stop),
                    Stage::Ordered | Stage::Answered { .. } => {}
                }
            }
            return;
        }
        self.say(cx, Some(&attempt.name), false, "Killing", message);
        let mut stop = Stopping { name: attempt.name.clone(), cause, deadline, stage: Stage::Ordered };
        let hook = self.pre_stop(attempt).filter(|_| grace > Duration::ZERO && attempt.state == ContainerState::Running);
        if let Some(handler) = hook {
            let ips = self.ips(cx);
            let act = Act::Hook { pod: self.uid.clone(), container: attempt.id.clone(), handler, ips, budget: Some(grace) };
            stop.stage = Stage::PreStop(cx.act(Some(&self.uid), What::PreStop(attempt.id.clone()), act));
        }
        self.stops.insert(attempt.id.clone(), stop);
        self.continue_stops(cx);
    }

    /// What the runtime could not stop for another cause is to end for this one, with the grace of this one. True where that is so.
    pub(super) fn stop_anew_if_refused(&mut self, cx: &Cx<'_>, id: &ContainerId, cause: StopCause, grace: Duration) -> bool {
        let Some(stop) = self.stops.get_mut(id).filter(|stop| stop.was_refused() && stop.cause != cause) else { return false };
        (stop.cause, stop.deadline, stop.stage) = (cause, cx.now.mono + grace, Stage::Ordered);
        true
    }

    /// A preStop hook returned; a failure is told and changes nothing.
    pub(super) fn pre_stop_done(&mut self, cx: &mut Cx<'_>, id: &ContainerId, result: Result<(), CallError>) {
        let Some(stop) = self.stops.get_mut(id) else { return };
        stop.stage = Stage::Ordered;
        let name = stop.name.clone();
        if result.is_err() {
            self.say(cx, Some(&name), true, "FailedPreStopHook", "PreStopHook failed");
        }
    }

    /// The runtime answered a stop. Whether the container ended is for the next look to say.
    pub(super) fn stop_done(&mut self, cx: &mut Cx<'_>, effect: EffectId, id: &ContainerId, result: Result<(), CallError>) {
        let Some(stop) = self.stops.get_mut(id) else { return };
        if stop.stage != Stage::Told(effect) {
            return;
        }
        stop.stage = Stage::Answered { retry: cx.now.mono + RETRY, refused: result.is_err() };
        if let Err(error) = result
            && self.life == Life::Stopping
        {
            self.say(cx, None, true, "FailedKillPod", format!("error killing pod: {error}"));
        }
    }

    /// Drops the stops of attempts that have ended, and moves the others on.
    pub(super) fn continue_stops(&mut self, cx: &mut Cx<'_>) {
        if let Some(have) = self.fresh() {
            let live: Vec<ContainerId> = have.containers.iter().filter(|c| Self::runs(c)).map(|c| c.id.clone()).collect();
            let ended = &mut self.ended;
            self.stops.retain(|id, stop| {
                let keep = live.contains(id) || matches!(stop.stage, Stage::Told(_) | Stage::PreStop(_));
                if !keep {
                    ended.insert(id.clone(), stop.cause);
                }
                keep
            });
        }
        let ids: Vec<ContainerId> = self.stops.keys().cloned().collect();
        for id in ids {
            let blocked = self.must_wait(&id);
            let Some(stop) = self.stops.get_mut(&id) else { continue };
            let due = match stop.stage {
                Stage::Ordered => !blocked || cx.reached(stop.deadline),
                Stage::Answered { retry, .. } => cx.reached(retry),
                Stage::PreStop(_) | Stage::Told(_) => false,
            };
            if due {
                tell(cx, &self.uid, &id, stop);
            }
        }
    }

    /// All of the pod is to end, for good or for a new sandbox, and this is a sidecar that somebody still running may need: an app container, or a sidecar started after it.
    fn must_wait(&self, id: &ContainerId) -> bool {
        let Some((pod, have)) = self.pod.as_ref().zip(self.last_seen()) else { return false };
        let Some(stop) = self.stops.get(id) else { return false };
        let all_end = self.life == Life::Stopping || stop.cause == StopCause::SandboxChanged;
        if !all_end || pod.container(stop.name.as_str()).is_none_or(|c| c.kind != ContainerKind::Sidecar) {
            return false;
        }
        // What is being started, or was just now, is not seen to run yet.
        if self.lane.is_some() || self.fresh().is_none() {
            return true;
        }
        let place = pod.container(stop.name.as_str()).map_or(0, |c| c.index);
        have.containers.iter().filter(|c| Self::runs(c)).any(|other| {
            pod.container(other.name.as_str()).is_some_and(|o| match o.kind {
                ContainerKind::App => true,
                ContainerKind::Sidecar => o.index > place,
                ContainerKind::Init | ContainerKind::Ephemeral => false,
            })
        })
    }

    fn pre_stop(&self, attempt: &Container) -> Option<Handler> {
        match self.pod.as_ref().and_then(|p| p.container(attempt.name.as_str())) {
            Some(container) => container.pre_stop.clone(),
            None => attempt.pre_stop.clone(),
        }
    }

    /// Why the node ended this attempt, or is ending it; None when it did not.
    pub(super) fn ended_for(&self, id: &ContainerId) -> Option<StopCause> {
        self.stops.get(id).map(|s| s.cause).or_else(|| self.ended.get(id).copied())
    }
}

fn tell(cx: &mut Cx<'_>, uid: &crate::id::PodUid, id: &ContainerId, stop: &mut Stopping) {
    let timeout = stop.deadline.since(cx.now.mono).max(LEAST);
    let act = Act::StopContainer { id: id.clone(), timeout, cause: stop.cause };
    stop.stage = Stage::Told(cx.act(Some(uid), What::Stop(id.clone()), act));
}
