//! How a pod ends: its containers, then its sandboxes, then what it holds; at last what is left of it, where no source declares it.

use std::time::Duration;

use crate::effect::{Act, StopCause};
use crate::id::ContainerId;
use crate::observed::{ContainerState, SandboxState};
use crate::pod::{Pod, ProbeKind};
use crate::record::{End, Stop};

use super::cx::{Cx, What};
use super::lane::LATER;
use super::life::After;
use super::worker::{Life, Worker};

/// An eviction may take so long at least before that is told.
const EVICTION_MAY_TAKE: Duration = Duration::from_secs(10);

impl Worker {
    /// Begins to end the pod, or shortens the grace of an end under way. The grace can only shrink.
    pub(super) fn end(&mut self, cx: &mut Cx<'_>, cause: StopCause, grace: Duration) {
        let seconds = grace.as_secs().max(1);
        let shortened = match &mut self.record.stop {
            Some(stop) if stop.grace_seconds <= seconds => {
                if is_removal(cause) && !is_removal(stop.cause) {
                    stop.cause = cause;
                }
                false
            }
            Some(stop) => {
                // Counted from now: a whole one, as upstream gives it.
                (stop.grace_seconds, stop.since) = (seconds, cx.now.wall);
                if is_removal(cause) {
                    stop.cause = cause;
                }
                true
            }
            None => {
                self.record.stop = Some(Stop { cause, grace_seconds: seconds, since: cx.now.wall });
                true
            }
        };
        if self.life < Life::Stopping {
            self.life = Life::Stopping;
            self.status_due = true;
            self.drop_pulls(cx);
            self.cancel_lane(cx);
            self.restarts.clear();
            self.post_start.clear();
            self.hold = None;
            let ended: Vec<_> = self.probes.keys().filter(|(_, kind)| *kind != ProbeKind::Readiness).cloned().collect();
            for key in ended {
                self.drop_probe(cx, &key);
            }
        }
        if shortened && let Some(have) = self.last_seen().cloned() {
            let grace = self.grace_left(cx);
            for attempt in have.containers.iter().filter(|c| Self::runs(c)) {
                if self.stops.contains_key(&attempt.id) {
                    self.stop(cx, attempt, cause, String::new(), grace);
                }
            }
        }
    }

    /// What is left of the grace of the pod's end.
    fn grace_left(&self, cx: &Cx<'_>) -> Duration {
        let Some(stop) = &self.record.stop else { return Duration::ZERO };
        let whole = Duration::from_secs(stop.grace_seconds);
        // A clock that jumped lengthens nothing.
        whole.saturating_sub(cx.now.wall.since(stop.since)).min(whole)
    }

    /// All containers, then all sandboxes, then the lane must have come to rest.
    pub(super) fn wind_down(&mut self, cx: &mut Cx<'_>) {
        self.cancel_lane(cx);
        if let Some(pod) = self.pod.clone() {
            self.tend_probes(cx, &pod);
        }
        let Some(have) = self.fresh().cloned() else { return };
        self.note_exits(&have);
        let cause = self.record.stop.as_ref().map_or(StopCause::Removed, |s| s.cause);
        // Told to go, it may still come to its deadline.
        if let Some(pod) = self.pod.clone().filter(|_| cause == StopCause::Deleted && self.record.end.is_none()) {
            self.past_deadline(cx, &pod);
        }
        let grace = self.grace_left(cx);
        if !self.quiet(cx, &have, cause, grace) {
            return self.say_that_it_takes_long(cx);
        }
        let keys: Vec<_> = self.probes.keys().cloned().collect();
        for key in keys {
            self.drop_probe(cx, &key);
        }
        self.waiting.clear();
        self.record.over = true;
        self.life = if self.record.stop.as_ref().is_some_and(|s| is_removal(s.cause)) { Life::Removing } else { Life::Cleaning };
        self.status_due = true;
        self.live(cx);
    }

    /// An eviction that the runtime does not carry out in time is told, once.
    fn say_that_it_takes_long(&mut self, cx: &mut Cx<'_>) {
        let Some(stop) = self.record.stop.as_ref().filter(|stop| !self.told_slow && !self.record.over && is_eviction(stop.cause))
        else {
            return;
        };
        let patience = Duration::from_millis(stop.grace_seconds.saturating_mul(1_500)).max(EVICTION_MAY_TAKE);
        let late = stop.since + patience;
        if cx.now.wall < late {
            let at = cx.now.mono_at(late);
            return cx.wake_at(at);
        }
        self.told_slow = true;
        let text = "Container runtime did not kill the pod within specified grace period.";
        self.say(cx, None, true, "ExceededGracePeriod", text);
    }

    /// Records the end, then gives back volumes and cgroup.
    pub(super) fn clean(&mut self, cx: &mut Cx<'_>) {
        if self.record.end.is_none()
            && let Some(status) = self.compute_status(cx)
        {
            self.record.end = Some(End {
                succeeded: status.phase.as_deref() == Some("Succeeded"),
                reason: status.reason.clone(),
                message: status.message.clone(),
            });
        }
        self.clean_up(cx, false);
    }

    fn clean_up(&mut self, cx: &mut Cx<'_>, gone: bool) {
        if self.lane.is_some() || self.hold.is_some_and(|until| !cx.reached(until)) {
            return;
        }
        let (namespace, name) = (self.record.namespace.clone(), self.record.name.clone());
        let act = Act::CleanUp { pod: self.uid.clone(), namespace, name, gone };
        let id = cx.act(Some(&self.uid), What::CleanUp { gone }, act);
        self.lane = Some(super::worker::Lane { id, cancellable: false, cancelled: false, hook_of: None });
    }

    /// CleanUp returned.
    pub(super) fn cleaned(&mut self, cx: &mut Cx<'_>, gone: bool, failed: Option<String>) {
        match failed {
            None if !gone && self.life == Life::Cleaning => self.life = Life::Finished,
            None => self.gone = gone,
            Some(text) => {
                self.say(cx, None, true, "FailedKillPod", format!("error killing pod: {text}"));
                self.hold = Some(cx.now.mono + LATER);
            }
        }
        self.status_due = true;
    }

    /// Finished: nothing runs. Should something be found running after all, it is stopped.
    pub(super) fn rest(&mut self, cx: &mut Cx<'_>) {
        let Some(have) = self.fresh().cloned() else { return };
        if have.containers.iter().any(Self::runs) || have.sandboxes.iter().any(|s| s.state == SandboxState::Ready) {
            self.stopped_sandboxes.clear();
            self.life = Life::Stopping;
            return self.wind_down(cx);
        }
        let never_started: Vec<ContainerId> =
            have.containers.iter().filter(|c| c.state == ContainerState::Created).map(|c| c.id.clone()).collect();
        self.remove(cx, &never_started, false);
        if self.record.stop.as_ref().is_some_and(|stop| is_eviction(stop.cause)) {
            // What its containers have written may be what the node was short of.
            let dead: Vec<ContainerId> =
                have.containers.iter().filter(|c| c.state == ContainerState::Exited).map(|c| c.id.clone()).collect();
            self.remove(cx, &dead, false);
        }
        self.sweep(cx, &have);
    }

    /// Removing: containers, sandboxes, then directories, cgroup and logs; then the pod is forgotten.
    pub(super) fn vanish(&mut self, cx: &mut Cx<'_>) -> After {
        let Some(have) = self.fresh().cloned() else { return After::Keep };
        if have.containers.iter().any(Self::runs) || have.sandboxes.iter().any(|s| s.state == SandboxState::Ready) {
            self.stopped_sandboxes.clear();
            self.life = Life::Stopping;
            self.wind_down(cx);
            return After::Keep;
        }
        if !self.remove_all(cx, &have) {
            return After::Keep;
        }
        if self.gone {
            return After::Forget;
        }
        self.clean_up(cx, true);
        After::Keep
    }

    /// The active deadline has passed.
    pub(super) fn past_deadline(&mut self, cx: &mut Cx<'_>, pod: &Pod) -> bool {
        let Some(deadline) = pod.active_deadline else { return false };
        let at = self.record.started + deadline;
        if cx.now.wall < at {
            let mono = cx.now.mono_at(at);
            cx.wake_at(mono);
            return false;
        }
        let text = "Pod was active on the node longer than the specified deadline";
        self.say(cx, None, false, "DeadlineExceeded", text);
        self.status_due = true;
        self.record.end = Some(End { succeeded: false, reason: Some("DeadlineExceeded".into()), message: Some(text.into()) });
        true
    }
}

/// The pod is to leave nothing behind.
pub(super) fn is_removal(cause: StopCause) -> bool {
    matches!(cause, StopCause::Removed | StopCause::Orphan)
}

fn is_eviction(cause: StopCause) -> bool {
    matches!(cause, StopCause::Evicted | StopCause::OverLimit)
}
