//! The lifecycle lane: prepare, sandbox, then containers one step at a time, each decided on a look that began after the last step ended.

use std::sync::Arc;
use std::time::Duration;

use crate::decide::{From, Run, Start};
use crate::effect::{Act, StopCause};
use crate::event::{CallError, CallErrorKind, Outcome};
use crate::id::{ContainerId, ContainerName, EffectId};
use crate::observed::{Container as Attempt, ContainerState, Observed};
use crate::pod::{Container, ContainerKind, Pod};
use crate::question::qos::Placement;
use crate::question::restart::Cause;
use crate::restart::{advance, backoff_key};
use crate::time::Wall;

use super::cx::{Cx, What};
use super::worker::{Lane, Life, Place, Restart, RestartState, Worker};

/// The pod error backoff.
pub(super) const LATER: Duration = Duration::from_secs(10);

impl Worker {
    /// Occupies the lane with an act.
    fn begin(&mut self, cx: &mut Cx<'_>, what: What, act: Act, cancellable: bool) {
        let hook_of = match &what {
            What::PostStart(_, attempt) => Some(attempt.clone()),
            _ => None,
        };
        let id = cx.act(Some(&self.uid), what, act);
        self.lane = Some(Lane { id, cancellable, cancelled: false, hook_of });
    }

    /// Frees the lane, if it was this effect that held it.
    pub(super) fn free_lane(&mut self, id: EffectId) {
        if self.lane.as_ref().is_some_and(|lane| lane.id == id) {
            self.lane = None;
        }
    }

    /// Lets the act in the lane go, where that does no harm; its end is still awaited.
    pub(super) fn cancel_lane(&mut self, cx: &mut Cx<'_>) {
        if let Some(lane) = self.lane.as_mut().filter(|l| l.cancellable && !l.cancelled) {
            lane.cancelled = true;
            cx.out.push(crate::effect::Effect::Cancel(lane.id));
        }
    }

    /// A hook speaks to one attempt: once that has ended, nothing waits for the hook.
    pub(super) fn cancel_hook_of_ended(&mut self, cx: &mut Cx<'_>, have: &Observed) {
        let hook_of = self.lane.as_ref().and_then(|lane| lane.hook_of.as_ref());
        if hook_of.is_some_and(|id| !have.containers.iter().any(|c| c.id == *id && Self::runs(c))) {
            self.cancel_lane(cx);
        }
    }

    /// Makes the pod's sandbox, its directories and cgroup first. Images of what comes first are fetched meanwhile.
    pub(super) fn make_sandbox(&mut self, cx: &mut Cx<'_>, pod: &Arc<Pod>, attempt: u32) {
        self.fetch_first_images(cx, pod);
        let Place::Given(placement) = &self.place else { return };
        let placement = placement.clone();
        if !pod.host_network
            && let Err(why) = &cx.shared.network
        {
            if !self.told_network {
                self.told_network = true;
                let text = format!("network is not ready: {why}");
                self.say(cx, None, true, "NetworkNotReady", text);
            }
            return;
        }
        self.told_network = false;
        if !self.may_begin(cx) {
            return;
        }
        if self.prepared {
            self.begin(cx, What::Sandbox, Act::RunSandbox { pod: pod.clone(), attempt, placement }, true);
        } else {
            self.prepare(cx, pod, placement);
        }
    }

    fn prepare(&mut self, cx: &mut Cx<'_>, pod: &Arc<Pod>, placement: Arc<Placement>) {
        self.files_due = false;
        self.begin(cx, What::Prepare, Act::Prepare { pod: pod.clone(), placement }, true);
    }

    /// Volumes that show labels or annotations are made ready once more where these have changed, or may have while we were away.
    pub(super) fn renew_files(&mut self, cx: &mut Cx<'_>, pod: &Arc<Pod>) {
        let Place::Given(placement) = &self.place else { return };
        let placement = placement.clone();
        if self.files_due && pod.shows_fields_in_files() && self.may_begin(cx) {
            self.prepare(cx, pod, placement);
        }
    }

    /// Nothing is under way in the lane, and the wait after a failure is over.
    fn may_begin(&self, cx: &mut Cx<'_>) -> bool {
        self.lane.is_none() && self.hold.is_none_or(|until| cx.reached(until))
    }

    /// What will be started first needs its image: begun beside the sandbox. What has run before may have to wait, or not run again.
    fn fetch_first_images(&mut self, cx: &mut Cx<'_>, pod: &Arc<Pod>) {
        let first: Vec<Container> = match pod.init_containers().next() {
            Some(init) => vec![init.clone()],
            None => pod.app_containers().cloned().collect(),
        };
        let ran =
            |container: &Container| self.record.containers.get(&container.name).is_some_and(|known| known.attempt.is_some());
        for container in first.into_iter().filter(|container| !ran(container)).collect::<Vec<_>>() {
            self.image(cx, &container);
            self.mounted_images(cx, &container);
        }
    }

    /// Prepare returned.
    pub(super) fn prepare_done(&mut self, cx: &mut Cx<'_>, result: Result<Outcome, CallError>) {
        match result {
            Ok(outcome) => {
                self.prepared = true;
                // An attempt that neither the runtime nor the store remembers, but whose log lies there: counted on from.
                if let Outcome::Prepared { logged } = outcome {
                    for (name, attempt) in logged {
                        self.remembered(&name).attempt.get_or_insert(attempt);
                    }
                }
            }
            Err(error) if error.kind == CallErrorKind::Cancelled => self.files_due = true,
            Err(error) => {
                self.files_due = true;
                let (reason, text) = match error.operation.as_str() {
                    "cgroup" => ("FailedCreatePodContainer", format!("unable to ensure pod container exists: {}", error.message)),
                    "directories" => ("Failed", format!("error making pod data directories: {}", error.message)),
                    _ => ("FailedMount", error.message.clone()),
                };
                self.say(cx, None, true, reason, text);
                self.hold = Some(cx.now.mono + LATER);
            }
        }
    }

    /// RunPodSandbox returned.
    pub(super) fn sandbox_done(&mut self, cx: &mut Cx<'_>, result: Result<Outcome, CallError>) {
        match result {
            Ok(_) => self.sandbox_made(),
            Err(error) if error.kind == CallErrorKind::Cancelled => {}
            Err(error) => {
                if self.life == Life::Running {
                    let text = format!("Failed to create pod sandbox: {}", error.message);
                    self.say(cx, None, true, "FailedCreatePodSandBox", text);
                }
                self.hold = Some(cx.now.mono + LATER);
                let container = self.pod.as_ref().and_then(|p| p.init_containers().chain(p.app_containers()).next()).cloned();
                if let Some(container) = container {
                    self.ask_after_failure(cx, &container, Cause::SandboxFailed);
                }
            }
        }
    }

    /// Takes the first step that can be taken now.
    pub(super) fn start_next(&mut self, cx: &mut Cx<'_>, pod: &Arc<Pod>, run: &Run) {
        if self.lane.is_some() || self.run_post_start(cx, pod) {
            return;
        }
        // A pod that an earlier life of the agent began is prepared anew: its cgroup and directories are seen to, and it counts
        // among those that are measured and that share the node.
        if !self.prepared {
            if let Place::Given(placement) = &self.place
                && self.may_begin(cx)
            {
                self.prepare(cx, pod, placement.clone());
            }
            return;
        }
        for start in &run.start {
            let Some(container) = pod.container(start.name.as_str()) else { continue };
            if !self.is_due(cx, container, start) {
                continue;
            }
            if let From::Created(id) = &start.from {
                // The wait that led here is over: what follows is judged by itself.
                self.restarts.remove(&container.name);
                let act = Act::StartContainer { pod: pod.clone(), container: container.name.clone(), id: id.clone() };
                self.begin(cx, What::Start(container.name.clone(), id.clone()), act, false);
                return;
            }
            let (image, mounted) = (self.image(cx, container), self.mounted_images(cx, container));
            let (Some(image), Some(mounted_images)) = (image, mounted) else {
                // The spec's order holds while there is hope of this one; one in backoff holds nobody up.
                let hopeful = self.is_getting_images(&container.name);
                if hopeful && start.from == From::Nothing && container.kind != ContainerKind::Ephemeral {
                    return;
                }
                continue;
            };
            let (Some(sandbox), Place::Given(placement)) = (run.sandbox.clone(), &self.place) else { return };
            let (placement, attempt, ips) = (placement.clone(), self.next_attempt(&container.name), self.ips(cx));
            let runs = |attempt: &&Attempt| attempt.state == ContainerState::Running;
            let target = pod.target_of(container).and_then(|name| self.last_seen()?.of(name).find(runs)).map(|c| c.id.clone());
            self.step_backoff(cx, container, start);
            self.forget_images(&container.name);
            let act = Act::CreateContainer {
                pod: pod.clone(),
                container: container.name.clone(),
                attempt,
                sandbox,
                image,
                mounted_images,
                ips,
                placement,
                target,
            };
            self.begin(cx, What::Create(container.name.clone()), act, false);
            return;
        }
    }

    /// The number of the next attempt: one beyond the newest that the runtime or the record knows.
    fn next_attempt(&self, name: &ContainerName) -> u32 {
        let seen = self.last_seen().and_then(|have| have.of(name.as_str()).map(|c| c.attempt).max());
        let remembered = self.record.containers.get(name).and_then(|c| c.attempt);
        seen.max(remembered).map_or(0, |n| n.saturating_add(1))
    }

    /// Whether a start may happen now: an ended attempt waits out what the policy says.
    fn is_due(&mut self, cx: &mut Cx<'_>, container: &Container, start: &Start) -> bool {
        let of = match &start.from {
            From::Exited(id) => Some(id.clone()),
            From::Nothing | From::Created(_) => None,
        };
        match self.restarts.get(&container.name) {
            // After a failure to make it there is nothing that ended: its wait holds whatever ended before.
            Some(Restart { of: asked, state }) if asked.is_none() || *asked == of => match state {
                RestartState::Asking(_) | RestartState::GivenUp { .. } => false,
                RestartState::Due { at, .. } => {
                    let at = *at;
                    cx.reached(at)
                }
            },
            _ if of.is_some() => {
                self.ask_after_exit(cx, container, of.as_ref());
                // Answered at once where the judgement is native.
                matches!(&self.restarts.get(&container.name).map(|r| &r.state), Some(RestartState::Due { at, .. }) if *at <= cx.now.mono)
            }
            // It could not be started, and the runtime left it as it was.
            _ if matches!(&start.from, From::Created(id) if self.unstarted.get(&container.name) == Some(id)) => {
                self.ask_after_failure(cx, container, Cause::StartFailed);
                false
            }
            _ => true,
        }
    }

    /// A start is decided: the backoff moves on.
    fn step_backoff(&mut self, cx: &mut Cx<'_>, container: &Container, start: &Start) {
        let bounds = cx.config().restart;
        let now = cx.now.wall;
        self.restarts.remove(&container.name);
        let From::Exited(id) = &start.from else { return };
        let ended = self.last_seen().and_then(|have| have.containers.iter().find(|c| c.id == *id)).and_then(|c| c.finished);
        let finished = match self.health(id).owed {
            // As it was asked: the end before counts. See `waits_for`.
            true => self.record.containers.get(&container.name).and_then(|c| c.end_before()).map(|end| Wall(end.at)),
            false => ended,
        };
        let key = backoff_key(container);
        let record = self.remembered(&container.name);
        // One step for one end, however many tries it takes to make the next attempt.
        let stepped =
            record.backoff.as_ref().is_some_and(|entry| entry.key == key && ended.is_some_and(|at| entry.updated >= at));
        if let Some(finished) = finished.filter(|_| !stepped) {
            record.backoff = Some(advance(record.backoff.as_ref(), &key, finished, now, &bounds));
        }
    }

    /// CreateContainer returned.
    pub(super) fn create_done(&mut self, cx: &mut Cx<'_>, name: &ContainerName, result: Result<Outcome, CallError>) {
        match result {
            Ok(_) => self.say(cx, Some(name), false, "Created", "Container created"),
            Err(error) => {
                let reason =
                    if error.kind == CallErrorKind::Config { "CreateContainerConfigError" } else { "CreateContainerError" };
                self.could_not_start(cx, name, reason, &error);
                // What it stands on may be gone: the next attempt makes all of it ready anew.
                self.prepared = false;
                if let Some(container) = self.pod.as_ref().and_then(|p| p.container(name.as_str())).cloned() {
                    self.ask_after_failure(cx, &container, Cause::StartFailed);
                }
            }
        }
    }

    /// StartContainer returned.
    pub(super) fn start_done(
        &mut self,
        cx: &mut Cx<'_>,
        name: &ContainerName,
        id: &ContainerId,
        result: Result<Outcome, CallError>,
    ) {
        match result {
            Ok(_) => {
                self.say(cx, Some(name), false, "Started", "Container started");
                self.waiting.remove(name);
                self.unstarted.remove(name);
                if self.pod.as_ref().and_then(|p| p.container(name.as_str())).is_some_and(|c| c.post_start.is_some()) {
                    self.post_start.insert(id.clone());
                }
            }
            Err(error) => {
                self.could_not_start(cx, name, "RunContainerError", &error);
                // What the runtime has made of it, the next look shows: then it is asked about, once.
                self.restarts.remove(name);
                self.unstarted.insert(name.clone(), id.clone());
            }
        }
    }

    fn could_not_start(&mut self, cx: &mut Cx<'_>, name: &ContainerName, reason: &'static str, error: &CallError) {
        self.say(cx, Some(name), true, "Failed", format!("Error: {}", error.message));
        self.not_started(cx, name, reason, error.message.clone());
    }

    /// Runs the postStart hook of a container that has just been started. True while there is one: nothing else starts before it ends.
    fn run_post_start(&mut self, cx: &mut Cx<'_>, pod: &Arc<Pod>) -> bool {
        let Some(have) = self.fresh() else { return false };
        let running: Vec<(ContainerId, ContainerName)> = have
            .containers
            .iter()
            .filter(|c| c.state == ContainerState::Running)
            .map(|c| (c.id.clone(), c.name.clone()))
            .collect();
        let live: Vec<&ContainerId> = running.iter().map(|(id, _)| id).collect();
        self.post_start.retain(|id| live.contains(&id));
        let due = running.iter().find(|(id, _)| self.post_start.contains(id));
        let Some((id, name)) = due else { return false };
        let Some(handler) = pod.container(name.as_str()).and_then(|c| c.post_start.clone()) else { return false };
        self.post_start.remove(id);
        let act = Act::Hook { pod: self.uid.clone(), container: id.clone(), handler, ips: self.ips(cx), budget: None };
        self.begin(cx, What::PostStart(name.clone(), id.clone()), act, true);
        true
    }

    /// A postStart hook returned; a failure ends the container.
    pub(super) fn post_start_done(
        &mut self,
        cx: &mut Cx<'_>,
        name: &ContainerName,
        id: &ContainerId,
        result: Result<Outcome, CallError>,
    ) {
        let Err(error) = result else { return };
        // One that was let go has not failed.
        if self.life != Life::Running || error.kind == CallErrorKind::Cancelled {
            return;
        }
        self.say(cx, Some(name), true, "FailedPostStartHook", "PostStartHook failed");
        self.not_started(cx, name, "PostStartHookError", error.message);
        let attempt = self.last_seen().and_then(|have| have.containers.iter().find(|c| c.id == *id)).cloned();
        if let Some((attempt, pod)) = attempt.zip(self.pod.clone()) {
            self.stop(cx, &attempt, StopCause::HookFailed, "FailedPostStartHook".into(), pod.grace);
        }
    }
}
