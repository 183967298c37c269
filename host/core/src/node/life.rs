//! One look at one pod: moves its life on, fills its lanes, computes its status.
//!
//! **Invariant:** nothing is begun before the runtime is up, and nothing that no source declares is touched before all have been heard.
//! **Invariant:** the lifecycle lane moves only on an observation begun after the last action ended.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1;

use crate::decide::{Plan, Run, asks_for_all, decide};
use crate::effect::{Act, Effect, StopCause};
use crate::id::{ContainerId, SandboxId};
use crate::observed::{Container, ContainerState, Observed, SandboxState};
use crate::pod::{ContainerKind, Pod, ProbeKind, RestartPolicy, Source, allocated};
use crate::question::restart::{Cause, Termination};
use crate::record::{End, Ended, Owed};
use crate::restart::{backoff_key, effective_policy};
use crate::status::{Inputs, status, unchanged};

use super::cx::{Cx, What, changed};
use super::ending::is_removal;
use super::stops::Stopping;
use super::worker::{Life, Place, Worker};

/// Attempts kept in a container's history.
const HISTORY: usize = 32;
/// When a sandbox is looked at again whose state could not be had.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What the node must do with a worker after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Keep,
    /// Nothing of the pod is left: drop it.
    Forget,
}

impl Worker {
    /// One look. `wanted` is the pod as declared now; None when no source declares it.
    pub(super) fn advance(&mut self, cx: &mut Cx<'_>, wanted: Option<&Arc<Pod>>) -> After {
        let begun = cx.out.len();
        let all_known = cx.shared.heard && cx.shared.listed;
        if !cx.shared.runtime_up || (!all_known && wanted.is_none()) {
            // What nobody declares keeps no place in the queue that others wait in.
            if wanted.is_none() {
                self.drop_pulls(cx);
            }
            // What answers by itself is still asked: who is ready does not hang on the runtime.
            if self.life == Life::Running
                && let Some(pod) = self.pod.clone()
            {
                self.tend_probes(cx, &pod);
            }
            self.look(cx);
            self.publish(cx);
            if self.stored.is_some() {
                self.remember(cx, begun);
            }
            return After::Keep;
        }
        let after = match self.declared(cx, wanted) {
            After::Forget => After::Forget,
            After::Keep => self.live(cx),
        };
        if after == After::Forget {
            self.drop_pulls(cx);
            cx.out.push(Effect::Forget(self.uid.clone()));
            return After::Forget;
        }
        self.look(cx);
        self.publish(cx);
        self.remember(cx, begun);
        After::Keep
    }

    /// What is done and said since `begun` rests on what is remembered: the record goes first. Of a pod that waits to be let in nothing is:
    /// the next life of the agent would take it for one that runs.
    pub(super) fn remember(&mut self, cx: &mut Cx<'_>, begun: usize) {
        if self.life == Life::Queued {
            return;
        }
        if let Some(record) = changed(&mut self.stored, &self.record) {
            cx.out.insert(begun, Effect::Remember(record));
        }
    }

    /// Takes what the sources say of the pod.
    fn declared(&mut self, cx: &mut Cx<'_>, wanted: Option<&Arc<Pod>>) -> After {
        match wanted.filter(|pod| self.is_of(pod)) {
            // Declared again while it is being removed: it must first be gone, then it gets a new life.
            Some(_) if self.record.stop.as_ref().is_some_and(|s| is_removal(s.cause)) => {}
            Some(pod) => {
                if self.declared.as_ref() != Some(pod) {
                    let before = self.declared.replace(pod.clone());
                    self.say_what_is_not_given(cx, before.as_deref(), pod);
                    let pod = self.as_given(pod);
                    // A container may have been added.
                    if let Some(claim) = &mut self.record.claim {
                        *claim = pod.claim();
                    }
                    let fields = |pod: &Arc<Pod>| (pod.labels.clone(), pod.annotations.clone());
                    self.files_due |= self.pod.as_ref().map(fields) != Some(fields(&pod));
                    if let Some(before) = self.pod.replace(pod.clone()) {
                        self.edited(cx, &before, &pod);
                    }
                    self.status_due = true;
                }
                if let Some(deletion) = pod.deletion {
                    let grace = deletion.grace.unwrap_or(pod.grace);
                    self.end(cx, StopCause::Deleted, grace);
                }
                self.end_if_told_so(cx, pod);
            }
            None => match self.life {
                Life::Queued if self.have_nothing() => return After::Forget,
                Life::Queued | Life::Running | Life::Stopping => {
                    let known = self.pod.is_some();
                    let cause = if known { StopCause::Removed } else { StopCause::Orphan };
                    let grace = match (&self.pod, &self.record.stop) {
                        (Some(pod), _) => pod.grace,
                        // An earlier life of the agent was ending it: that goes on, with the grace it was given.
                        (None, Some(stop)) => Duration::from_secs(stop.grace_seconds),
                        // Known neither to a source nor to us: somebody's before us.
                        (None, None) => Duration::from_secs(1),
                    };
                    self.end(cx, cause, grace);
                }
                Life::Finished => self.life = Life::Removing,
                Life::Cleaning | Life::Removing => {}
            },
        }
        After::Keep
    }

    /// The pod as it is to run: with the resources that it was let in with.
    fn as_given(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        let Some(given) = self.record.allocated.as_ref().filter(|given| **given != allocated::resources(pod)) else {
            return pod.clone();
        };
        allocated::with_resources(pod, given).map_or_else(|_| pod.clone(), Arc::new)
    }

    /// Why the pod does not run with the resources that it is declared with, where it does not.
    fn not_given(&self) -> Option<&'static str> {
        let (declared, runs) = (self.declared.as_ref()?, self.pod.as_ref()?);
        allocated::infeasible(declared, runs)
    }

    fn say_what_is_not_given(&self, cx: &mut Cx<'_>, before: Option<&Pod>, pod: &Arc<Pod>) {
        let known = before.is_some_and(|before| allocated::resources(before) == allocated::resources(pod));
        if let Some(why) = allocated::infeasible(pod, &self.as_given(pod)).filter(|_| !known && self.life <= Life::Running) {
            self.say(cx, None, true, "ResizeInfeasible", allocated::message("Infeasible", pod, why));
        }
    }

    /// Waits that belong to another image or to other resources are over: see [`backoff_key`].
    fn edited(&mut self, cx: &mut Cx<'_>, before: &Pod, now: &Pod) {
        self.drop_other_images(cx, before, now);
        for container in &now.containers {
            let same = before.container(container.name.as_str()).is_none_or(|old| backoff_key(old) == backoff_key(container));
            if !same && self.restarts.remove(&container.name).is_some() {
                self.waiting.remove(&container.name);
            }
        }
    }

    /// What the API calls ended is not kept running, and not begun.
    fn end_if_told_so(&mut self, cx: &mut Cx<'_>, pod: &Pod) {
        let Some(told) = pod.object.status.as_ref().filter(|_| pod.source == Source::Api && self.life < Life::Stopping) else {
            return;
        };
        let succeeded = match told.phase.as_deref() {
            Some("Succeeded") => true,
            Some("Failed") => false,
            _ => return,
        };
        let end = End { succeeded, reason: told.reason.clone(), message: told.message.clone() };
        self.record.end.get_or_insert(end);
        self.end(cx, StopCause::Completed, pod.grace);
    }

    fn have_nothing(&self) -> bool {
        self.summary.containers.is_empty()
            && self.summary.sandboxes.is_empty()
            && self.record.stop.is_none()
            && self.stored.is_none()
    }

    pub(super) fn live(&mut self, cx: &mut Cx<'_>) -> After {
        self.continue_stops(cx);
        match self.life {
            Life::Queued => {}
            Life::Running => {
                self.run(cx);
                // What runs to its end is wound down at once.
                if self.life == Life::Stopping {
                    self.wind_down(cx);
                }
            }
            Life::Stopping => self.wind_down(cx),
            Life::Cleaning => self.clean(cx),
            Life::Finished => self.rest(cx),
            Life::Removing => return self.vanish(cx),
        }
        After::Keep
    }

    /// Keeps the pod as its spec wants it.
    fn run(&mut self, cx: &mut Cx<'_>) {
        let Some(pod) = self.pod.clone() else { return };
        if self.past_deadline(cx, &pod) {
            return self.end(cx, StopCause::DeadlineExceeded, pod.grace);
        }
        if matches!(self.place, Place::Unknown) {
            self.ask_for_place(cx, &pod);
        }
        self.tend_probes(cx, &pod);
        self.pull_queued(cx, &pod);
        let Some(have) = self.fresh().cloned() else { return };
        self.note_exits(&have);
        self.cancel_hook_of_ended(cx, &have);
        let plan = decide(&pod, &have, &|id| self.health(id));
        if plan != Plan::RestartAll {
            self.sweep(cx, &have);
        }
        if plan != Plan::Look {
            self.trouble = None;
        }
        match plan {
            Plan::Look => {
                self.say_trouble(cx, &have);
                self.look_not_before = cx.now.mono + LOOK_AGAIN;
                // Decided on once: what comes next rests on another look.
                self.stale_up_to = self.seen.as_ref().map_or(self.stale_up_to, |(id, _)| self.stale_up_to.max(*id));
            }
            Plan::End(cause) => self.end(cx, cause, pod.grace),
            Plan::RestartAll => self.restart_all(cx, &have),
            Plan::Sandbox { attempt, replace } => self.new_sandbox(cx, &pod, &have, attempt, replace),
            Plan::Run(run) => self.serve(cx, &pod, &have, &run),
        }
    }

    /// The state of a sandbox cannot be had: said once, and again when the runtime says something else.
    fn say_trouble(&mut self, cx: &mut Cx<'_>, have: &Observed) {
        let trouble = have.sandboxes.iter().find_map(|sandbox| sandbox.trouble.clone());
        if let Some(text) = trouble.clone().filter(|_| trouble != self.trouble) {
            self.say(cx, None, true, "FailedPodSandBoxStatus", format!("Unable to get pod sandbox status: {text}"));
        }
        self.trouble = trouble;
    }

    /// The sandbox is there: stops what must not run, starts what must.
    fn serve(&mut self, cx: &mut Cx<'_>, pod: &Arc<Pod>, have: &Observed, run: &Run) {
        self.stop_sandboxes(cx, &run.twins);
        for kill in &run.kill {
            let Some(attempt) = have.containers.iter().find(|c| c.id == kill.id) else { continue };
            let grace = self.kill_grace(pod, attempt, kill.cause);
            self.owe(attempt, kill.cause);
            self.stop(cx, attempt, kill.cause, kill.message.clone(), grace);
        }
        self.continue_kills(cx, pod, have);
        // What was made and not started, as far as this look tells, may be just being started.
        let busy = self.lane.is_some();
        let made = |id: &ContainerId| have.containers.iter().any(|c| c.id == *id && c.state == ContainerState::Created);
        let prune: Vec<ContainerId> = run.prune.iter().filter(|id| !(busy && made(id))).cloned().collect();
        self.remove(cx, &prune, false);
        self.renew_files(cx, pod);
        self.start_next(cx, pod, run);
    }

    /// A kill that an earlier life of the agent began: its container may have got its TERM, and runs still.
    fn continue_kills(&mut self, cx: &mut Cx<'_>, pod: &Pod, have: &Observed) {
        for attempt in have.containers.iter().filter(|c| Self::runs(c) && !self.stops.contains_key(&c.id)).collect::<Vec<_>>() {
            let owed = self.record.containers.get(&attempt.name).and_then(|c| c.owed.as_ref());
            if let Some(cause) = owed.filter(|owed| owed.id == attempt.id).map(|owed| owed.cause) {
                let grace = self.kill_grace(pod, attempt, cause);
                self.stop(cx, attempt, cause, format!("Stopping container {}", attempt.name), grace);
            }
        }
    }

    /// What the node ends in order to start it anew is followed by another attempt, whatever its exit code will be.
    fn owe(&mut self, attempt: &Container, cause: StopCause) {
        if self.pod.as_ref().is_some_and(|pod| must_follow(pod, attempt, cause)) {
            self.remembered(&attempt.name).owed = Some(Owed { id: attempt.id.clone(), cause });
        }
    }

    /// Grace of one container's end: a probe may have its own, and a policy may have said.
    fn kill_grace(&self, pod: &Pod, attempt: &Container, cause: StopCause) -> Duration {
        let kind = match cause {
            StopCause::Unhealthy => ProbeKind::Liveness,
            StopCause::NotStarted => ProbeKind::Startup,
            _ => return pod.grace,
        };
        let said = self.probes.get(&(attempt.name.clone(), kind)).and_then(|p| p.grace);
        let own = pod.container(attempt.name.as_str()).and_then(|c| c.probes.get(kind)).and_then(|p| p.grace);
        said.or(own).unwrap_or(pod.grace)
    }

    /// Stops all of the pod, then makes a new sandbox.
    fn new_sandbox(&mut self, cx: &mut Cx<'_>, pod: &Arc<Pod>, have: &Observed, attempt: u32, replace: bool) {
        if replace {
            let newest = have.sandbox().map(|s| s.id.clone());
            let same_network = have.sandbox().is_none_or(|s| s.host_network == pod.host_network);
            if same_network && self.told_changed != newest {
                self.told_changed = newest;
                let text = "Pod sandbox changed, it will be killed and re-created.";
                self.say(cx, None, false, "SandboxChanged", text);
            }
            if !self.quiet(cx, have, StopCause::SandboxChanged, pod.grace) {
                return;
            }
        }
        self.make_sandbox(cx, pod, attempt);
    }

    /// Every container ends at once and is removed; its log stays.
    fn restart_all(&mut self, cx: &mut Cx<'_>, have: &Observed) {
        let Some(pod) = self.pod.clone() else { return };
        // An ephemeral container is started once, and is no part of what is started over.
        let ephemeral = |c: &&Container| pod.container(c.name.as_str()).is_some_and(|c| c.kind == ContainerKind::Ephemeral);
        let all: Vec<&Container> = have.containers.iter().filter(|c| !ephemeral(c)).collect();
        for attempt in all.iter().filter(|c| Self::runs(c)) {
            self.stop(cx, attempt, StopCause::RestartAll, format!("Stopping container {}", attempt.name), Duration::ZERO);
        }
        // One that is just being made would be missed, and then stand for a pod that is through with its init containers.
        self.cancel_lane(cx);
        if self.lane.is_some() || all.iter().any(|c| Self::runs(c)) {
            return;
        }
        // The one that asked for it is removed last, so that the wish is not lost with the agent.
        let asks = |c: &Container| {
            pod.container(c.name.as_str()).is_some_and(|spec| asks_for_all(&pod, spec, c)) && !self.health(&c.id).owed
        };
        let (last, first): (Vec<&Container>, Vec<&Container>) = all.into_iter().partition(|c| asks(c));
        let ids: Vec<ContainerId> = if first.is_empty() { last } else { first }.into_iter().map(|c| c.id.clone()).collect();
        self.remove(cx, &ids, true);
        self.restarts.clear();
        self.post_start.clear();
    }

    /// Stops every container, then every sandbox. True once all is quiet.
    pub(super) fn quiet(&mut self, cx: &mut Cx<'_>, have: &Observed, cause: StopCause, grace: Duration) -> bool {
        for attempt in have.containers.iter().filter(|c| Self::runs(c)) {
            // The end of a grace stays where it was set: a wall clock that moved must not cut a hook off.
            if !self.stops.contains_key(&attempt.id) {
                self.owe(attempt, cause);
                self.stop(cx, attempt, cause, format!("Stopping container {}", attempt.name), grace);
            } else if self.stop_anew_if_refused(cx, &attempt.id, cause, grace) {
                self.owe(attempt, cause);
            }
        }
        self.continue_stops(cx);
        let running = have.containers.iter().any(Self::runs) || !self.stops.is_empty();
        // The runtime ends with a sandbox what it could not end by itself.
        let refused = !self.stops.is_empty() && self.stops.values().all(Stopping::was_refused);
        if running && !refused || self.lane.is_some() {
            return false;
        }
        let sandboxes: Vec<SandboxId> = have.sandboxes.iter().map(|s| s.id.clone()).collect();
        self.stop_sandboxes(cx, &sandboxes);
        !running
            && sandboxes.iter().all(|id| self.stopped_sandboxes.contains(id))
            && have.sandboxes.iter().all(|s| s.state != SandboxState::Ready)
    }

    /// Writes down ends that are new, oldest first.
    pub(super) fn note_exits(&mut self, have: &Observed) {
        for attempt in have.containers.iter().rev() {
            let name = &attempt.name;
            let newest_known = self.record.containers.get(name).and_then(|c| c.attempt);
            if newest_known.is_none_or(|n| n < attempt.attempt) {
                self.remembered(name).attempt = Some(attempt.attempt);
            }
            let unstarted = self.unstarted.get(name) == Some(&attempt.id);
            let Some(finished) = attempt.finished.filter(|_| attempt.state == ContainerState::Exited) else {
                // It runs after all: the call's failure was only the answer's.
                if unstarted && attempt.state == ContainerState::Running {
                    self.unstarted.remove(name);
                }
                continue;
            };
            let record = self.record.containers.get(name);
            if record
                .and_then(|c| c.last.as_ref())
                .is_some_and(|last| last.id.as_ref() == Some(&attempt.id) || last.finished.is_some_and(|f| f > finished))
            {
                continue;
            }
            let cause = match self.ended_for(&attempt.id) {
                Some(StopCause::Unhealthy | StopCause::NotStarted) => Cause::Unhealthy,
                Some(StopCause::HookFailed) => Cause::HookFailed,
                _ if unstarted => Cause::StartFailed,
                _ => Cause::Exited,
            };
            let entry = self.remembered(name);
            entry.history.push(termination(attempt, finished.0, cause));
            let surplus = entry.history.len().saturating_sub(HISTORY);
            entry.history.drain(..surplus);
            entry.before = entry.last.replace(Ended {
                id: Some(attempt.id.clone()),
                exit_code: attempt.exit_code,
                reason: attempt.reason.clone(),
                message: attempt.message.clone(),
                started: attempt.started,
                finished: attempt.finished,
            });
            entry.probes = None;
        }
        for (name, record) in &mut self.record.containers {
            // It has been followed by another attempt.
            record.owed.take_if(|owed| have.newest(name.as_str()).is_none_or(|newest| newest.id != owed.id));
        }
        let to_be_noted = |id: &ContainerId| have.containers.iter().any(|c| c.id == *id && c.state != ContainerState::Exited);
        self.ended.retain(|id, _| to_be_noted(id));
        self.stopped_sandboxes.retain(|id| have.sandboxes.iter().any(|s| s.id == *id));
    }

    /// Begins a look when one is wanted and none is under way.
    fn look(&mut self, cx: &mut Cx<'_>) {
        let wanted = self.hinted || self.fresh().is_none();
        if !wanted || self.look.is_some() {
            return;
        }
        let not_before = self.look_not_before;
        if !cx.reached(not_before) {
            return;
        }
        self.hinted = false;
        self.look = Some(cx.act(Some(&self.uid), What::Observe, Act::Observe(self.uid.clone())));
    }

    /// Computes the status where something it shows has changed, and sends it where it differs.
    fn publish(&mut self, cx: &mut Cx<'_>) {
        // Before the first look there is nothing to show that would not be a step back.
        if !self.status_due || self.seen.is_none() {
            return;
        }
        self.status_due = false;
        let Some(new) = self.compute_status(cx) else { return };
        if self.status.as_ref().is_some_and(|old| unchanged(old, &new)) {
            return;
        }
        let lists = [&new.init_container_statuses, &new.container_statuses, &new.ephemeral_container_statuses];
        for shown in lists.into_iter().flatten().flatten().filter(|shown| shown.restart_count > 0) {
            let record = self.record.containers.entry(shown.name.as_str().into()).or_default();
            record.told = record.told.max(shown.restart_count.unsigned_abs());
        }
        // What has been told stays told, over a restart of the agent too.
        self.record.over |= matches!(new.phase.as_deref(), Some("Succeeded" | "Failed"));
        let new = Arc::new(new);
        self.status = Some(new.clone());
        cx.out.push(Effect::Publish { pod: self.uid.clone(), status: new });
    }

    pub(super) fn compute_status(&self, cx: &Cx<'_>) -> Option<v1::PodStatus> {
        let pod = self.pod.as_ref()?;
        let have = self.last_seen();
        let sandbox_ready = have.is_some_and(|h| matches!(crate::decide::sandbox_need(pod, h), crate::decide::Need::Keep { .. }));
        let probes = self.probe_views();
        let status = status(&Inputs {
            pod,
            observed: have,
            record: &self.record,
            waiting: &self.waiting,
            probes: &probes,
            previous: self.status.as_deref(),
            config: cx.config(),
            sandbox_ready,
            // Told to be over in an earlier life of the agent, and nothing of it was found running in this one.
            stopped: self.life >= Life::Cleaning
                || self.record.over && have.is_some_and(|have| !have.containers.iter().any(Self::runs)),
            not_given: self.not_given(),
            now: cx.now.wall,
        });
        // Its time has not begun.
        let waits = self.life == Life::Queued;
        Some(v1::PodStatus { start_time: status.start_time.clone().filter(|_| !waits), ..status })
    }
}

/// Whether a kill is to be followed by a start whatever the exit code will be.
fn must_follow(pod: &Pod, attempt: &Container, cause: StopCause) -> bool {
    let container = pod.container(attempt.name.as_str());
    let never = container.is_none_or(|c| effective_policy(pod, c) == RestartPolicy::Never);
    match cause {
        StopCause::DefinitionChanged | StopCause::UnknownState => true,
        StopCause::Unhealthy | StopCause::NotStarted => !never,
        // What ran when the node decided on another sandbox runs on there; of an app container's own `Never`, see ARCHITECTURE.md.
        StopCause::SandboxChanged => {
            let for_good = container.is_some_and(|c| c.kind == ContainerKind::App && c.restart_rules.is_empty()) && never;
            pod.restart_policy != RestartPolicy::Never && !for_good
        }
        _ => false,
    }
}

fn termination(attempt: &Container, finished: u64, cause: Cause) -> Termination {
    let code = attempt.exit_code;
    Termination {
        at: finished,
        ran_for: attempt.started.map_or(0, |s| finished.saturating_sub(s.0)),
        exit_code: code,
        signal: u32::try_from(code).ok().filter(|c| (129..=192).contains(c)).map(|c| c - 128),
        out_of_memory: attempt.reason == "OOMKilled",
        cause,
    }
}

/// Ids of a listing or observation, for the index from id to pod.
pub(super) fn ids(have: &Observed) -> BTreeSet<String> {
    let containers = have.containers.iter().map(|c| c.id.as_str().to_owned());
    containers.chain(have.sandboxes.iter().map(|s| s.id.as_str().to_owned())).collect()
}
