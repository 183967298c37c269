//! One pod's state: its life, its lanes, what was seen of it, what is remembered of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1;

use crate::decide::Health;
use crate::effect::StopCause;
use crate::event::{CallError, CallErrorKind};
use crate::id::{ContainerId, ContainerName, EffectId, PodUid, SandboxId};
use crate::observed::{Container, ContainerState, Image, Observed, Summary};
use crate::pod::{ContainerKind, Pod, ProbeKind};
use crate::probe::ProbeWorker;
use crate::question::qos::Placement;
use crate::record::{Backoff, ContainerRecord, PodRecord};
use crate::say::{About, Say};
use crate::status::{ProbeView, Waiting};
use crate::time::{Mono, Wall};

use super::cx::{Cx, ImageKey};
use super::stops::Stopping;

/// The life of a pod on this node. It only goes forward, but for one edge: a finished pod of which something is found running is stopped again.
///
/// ```text
/// Queued ──► Running ──► Stopping ──► Cleaning ──► Finished ──► Removing ──► (forgotten)
///    └──────────────────────────────────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Life {
    /// Not admitted yet: waits for its turn behind a pod of the same name.
    Queued,
    /// Kept as the spec wants it.
    Running,
    /// Its containers and sandboxes are being stopped.
    Stopping,
    /// All is stopped; volumes and cgroup are being given back.
    Cleaning,
    /// Nothing is left but dead containers and logs, kept while a source declares the pod.
    Finished,
    /// No source declares it: dead containers, sandboxes and logs go too.
    Removing,
}

/// The lifecycle lane: one step at a time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lane {
    pub(super) id: EffectId,
    /// May be cancelled when the pod is to end.
    pub(super) cancellable: bool,
    pub(super) cancelled: bool,
    /// The attempt whose postStart hook this is.
    pub(super) hook_of: Option<ContainerId>,
}

/// Where the pod stands among the others.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Unknown,
    Asking,
    Given(Arc<Placement>),
}

/// The image lane of one image of one container.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Pull {
    Inspecting(EffectId),
    Queued {
        since: Mono,
    },
    Pulling {
        id: EffectId,
        since: Mono,
    },
    Ready(Image),
    /// The policy is being asked when to try again.
    Asking(PullFailure),
    /// Waits. `after` is why, where it is a pull that failed.
    Backoff {
        until: Mono,
        after: Option<PullFailure>,
    },
}

/// Why an image could not be pulled: the reason that a status shows, and the runtime's words.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PullFailure {
    pub(super) reason: &'static str,
    pub(super) error: String,
}

impl Pull {
    /// Being worked on: the containers behind it wait.
    pub(super) fn in_progress(&self) -> bool {
        matches!(self, Self::Inspecting(_) | Self::Queued { .. } | Self::Pulling { .. })
    }
}

/// When a container that ended, or failed to start, is tried again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Restart {
    /// The attempt that ended; None for a failure before there was one.
    pub(super) of: Option<ContainerId>,
    pub(super) state: RestartState,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum RestartState {
    /// By the number of the question.
    Asking(u64),
    Due {
        at: Mono,
        wall: Wall,
        delay: Duration,
        reason: String,
    },
    GivenUp {
        reason: String,
    },
}

/// One probe of one running attempt.
#[derive(Debug)]
pub(super) struct Probing {
    pub(super) id: ContainerId,
    pub(super) worker: ProbeWorker,
    /// Published result.
    pub(super) passed: Option<bool>,
    /// The policy is being asked what an attempt means.
    pub(super) asking: bool,
    pub(super) first_failure: Option<Mono>,
    /// Grace that a policy gave to the end that this probe asks for.
    pub(super) grace: Option<Duration>,
    /// Attempts that returned, of this attempt of the container.
    pub(super) attempts: u64,
    /// Newest last, at most 32: at, meaning, latency, status.
    pub(super) history: Vec<crate::ask::ProbeAttempt>,
}

/// One pod on this node.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) uid: PodUid,
    /// As it runs: as declared, or as last declared; None for a pod that only the runtime knows.
    pub(super) pod: Option<Arc<Pod>>,
    /// As a source declared it last: other resources than those that the pod runs with, it is not given.
    pub(super) declared: Option<Arc<Pod>>,
    pub(super) life: Life,
    pub(super) record: PodRecord,
    pub(super) stored: Option<PodRecord>,

    /// The newest observation, with the effect that brought it.
    pub(super) seen: Option<(EffectId, Observed)>,
    /// States as last listed or observed.
    pub(super) summary: Summary,
    /// Observations begun up to this effect are too old to decide on.
    pub(super) stale_up_to: EffectId,
    pub(super) look: Option<EffectId>,
    /// Something may have changed since the last look began.
    pub(super) hinted: bool,
    pub(super) look_not_before: Mono,
    /// Why the state of a sandbox could not be had, as it was last said.
    pub(super) trouble: Option<String>,

    pub(super) lane: Option<Lane>,
    pub(super) prepared: bool,
    /// Files that show fields of the pod may be out of date.
    pub(super) files_due: bool,
    /// After a failure of the lifecycle lane: not before.
    pub(super) hold: Option<Mono>,
    pub(super) place: Place,
    /// Replacement of this many sandboxes has been told.
    pub(super) told_changed: Option<SandboxId>,
    pub(super) told_network: bool,
    /// Why it could not be looked at, as told.
    pub(super) told_unseen: Option<String>,
    /// That its end takes longer than it may has been told.
    pub(super) told_slow: bool,

    pub(super) stops: BTreeMap<ContainerId, Stopping>,
    pub(super) removing: BTreeMap<ContainerId, EffectId>,
    pub(super) stopping_sandboxes: BTreeMap<SandboxId, EffectId>,
    pub(super) stopped_sandboxes: BTreeSet<SandboxId>,
    pub(super) removing_sandboxes: BTreeMap<SandboxId, EffectId>,
    /// After a failed stop or removal: not before.
    pub(super) retry: Option<Mono>,

    pub(super) pulls: BTreeMap<ImageKey, Pull>,
    pub(super) pull_backoff: BTreeMap<String, Backoff>,
    /// Questions about restarts so far.
    pub(super) questions: u64,
    pub(super) restarts: BTreeMap<ContainerName, Restart>,
    /// Started containers whose postStart hook has not run yet.
    pub(super) post_start: BTreeSet<ContainerId>,
    /// Containers that were created and could not be started: how each ended tells when it is tried again.
    pub(super) unstarted: BTreeMap<ContainerName, ContainerId>,
    pub(super) probes: BTreeMap<(ContainerName, ProbeKind), Probing>,
    /// Since when each declared probe ticks.
    pub(super) ticks: BTreeMap<(ContainerName, ProbeKind), Mono>,
    pub(super) waiting: BTreeMap<ContainerName, Waiting>,
    pub(super) status: Option<Arc<v1::PodStatus>>,
    pub(super) status_due: bool,
    /// Directories, cgroup and logs are removed.
    pub(super) gone: bool,
    /// Causes of stops that have ended, until their exits are written down.
    pub(super) ended: BTreeMap<ContainerId, StopCause>,
    pub(super) timer: Option<Mono>,
}

impl Worker {
    /// A pod just heard of: from a source, from the store or from the runtime.
    pub(super) fn new(uid: PodUid, mut record: PodRecord, stored: bool, last_id: u64) -> Self {
        let before = record.clone();
        // A pod that was turned away is let in, or turned away, by each life of the agent anew.
        let refused = record.was_refused();
        if refused {
            (record.stop, record.end, record.over) = (None, None, false);
        }
        let life = match (&record.stop, stored) {
            (Some(_), _) => Life::Stopping,
            (None, true) if record.end.is_none() && !refused => Life::Running,
            _ => Life::Queued,
        };
        let place = record.placement.clone().map_or(Place::Unknown, |p| Place::Given(Arc::new(p)));
        Self {
            uid,
            pod: None,
            declared: None,
            life,
            stored: stored.then_some(before),
            record,
            seen: None,
            summary: Summary::default(),
            stale_up_to: EffectId(last_id),
            look: None,
            hinted: true,
            look_not_before: Mono(0),
            trouble: None,
            lane: None,
            prepared: false,
            files_due: false,
            hold: None,
            place,
            told_changed: None,
            told_network: false,
            told_unseen: None,
            told_slow: false,
            stops: BTreeMap::new(),
            removing: BTreeMap::new(),
            stopping_sandboxes: BTreeMap::new(),
            stopped_sandboxes: BTreeSet::new(),
            removing_sandboxes: BTreeMap::new(),
            retry: None,
            pulls: BTreeMap::new(),
            pull_backoff: BTreeMap::new(),
            questions: 0,
            restarts: BTreeMap::new(),
            post_start: BTreeSet::new(),
            unstarted: BTreeMap::new(),
            probes: BTreeMap::new(),
            ticks: BTreeMap::new(),
            waiting: BTreeMap::new(),
            status: None,
            status_due: true,
            gone: false,
            ended: BTreeMap::new(),
            timer: None,
        }
    }

    /// An observation that a decision may rest on: begun after the last action ended.
    pub(super) fn fresh(&self) -> Option<&Observed> {
        self.seen.as_ref().filter(|(id, _)| *id > self.stale_up_to).map(|(_, have)| have)
    }

    /// The newest observation, however old: for what is shown.
    pub(super) fn last_seen(&self) -> Option<&Observed> {
        self.seen.as_ref().map(|(_, have)| have)
    }

    /// An action ended: whatever was seen before is old.
    pub(super) fn acted(&mut self, last_id: u64) {
        self.stale_up_to = EffectId(last_id);
        self.hinted = true;
    }

    /// Takes an observation unless a newer one is there.
    pub(super) fn observe(&mut self, id: EffectId, have: Observed) {
        if self.seen.as_ref().is_none_or(|(old, _)| *old < id) {
            if self.record.name.is_empty() {
                self.record.name.clone_from(&have.name);
                self.record.namespace.clone_from(&have.namespace);
            }
            self.summary = have.summary();
            self.told_unseen = None;
            self.seen = Some((id, have));
            self.status_due = true;
        }
    }

    /// The record of one container, made when there is none.
    pub(super) fn remembered(&mut self, name: &ContainerName) -> &mut ContainerRecord {
        self.record.containers.entry(name.clone()).or_default()
    }

    /// What probes have found of an attempt, and whether the node owes it another one.
    pub(super) fn health(&self, id: &ContainerId) -> Health {
        let of = |kind: ProbeKind| self.probes.iter().find(|((_, k), p)| *k == kind && p.id == *id).map(|(_, p)| p.passed);
        let owed = self.record.containers.values().any(|c| c.owes(id));
        let startup = of(ProbeKind::Startup);
        Health {
            unhealthy: of(ProbeKind::Liveness) == Some(Some(false)),
            not_started: startup == Some(Some(false)),
            started: match startup {
                // It is being ended, and another one follows: nobody may take it for one to go on from.
                _ if self.stops.get(id).is_some_and(|stop| stop.cause == StopCause::HookFailed) => false,
                Some(result) => result == Some(true),
                // Without a worker: not declared, not looked at yet, or not asked any more since it ends.
                None => {
                    let known = self.record.containers.values().filter_map(|c| c.probes.as_ref());
                    !self.declares_startup(id) || known.into_iter().any(|p| p.id == *id && p.started)
                }
            },
            owed,
        }
    }

    fn declares_startup(&self, id: &ContainerId) -> bool {
        let name = self.last_seen().and_then(|have| have.containers.iter().find(|c| c.id == *id)).map(|c| c.name.clone());
        self.pod
            .as_ref()
            .zip(name)
            .and_then(|(pod, name)| pod.container(name.as_str()).map(|c| c.probes.startup.is_some()))
            .unwrap_or(false)
    }

    /// What the status shows of probes.
    pub(super) fn probe_views(&self) -> BTreeMap<ContainerName, ProbeView> {
        let Some((pod, have)) = self.pod.as_ref().zip(self.last_seen()) else { return BTreeMap::new() };
        pod.containers
            .iter()
            .filter_map(|c| {
                let attempt = have.newest(c.name.as_str()).filter(|a| a.state == ContainerState::Running)?;
                let started = self.health(&attempt.id).started;
                let ready = match (&c.probes.readiness, self.probes.get(&(c.name.clone(), ProbeKind::Readiness))) {
                    (None, _) => started,
                    (Some(_), Some(p)) if p.id == attempt.id => started && p.passed == Some(true),
                    _ => false,
                };
                Some((c.name.clone(), ProbeView { started, ready }))
            })
            .collect()
    }

    /// The pod of the record. A source that declares another name under the same UID means another pod.
    pub(super) fn is_of(&self, pod: &Pod) -> bool {
        self.record.name.is_empty() || (self.record.name == pod.name && self.record.namespace == pod.namespace)
    }

    /// A look failed: told once, until one succeeds or fails for another reason.
    pub(super) fn say_that_a_look_failed(&mut self, cx: &mut Cx<'_>, error: &CallError) {
        let known = self.told_unseen.as_ref() == Some(&error.message);
        if self.pod.is_some() && error.kind != CallErrorKind::Cancelled && !known {
            self.told_unseen = Some(error.message.clone());
            self.say(cx, None, true, "FailedSync", format!("error determining status: {}", error.message));
        }
    }

    /// Says something about the pod, or about one of its containers.
    pub(super) fn say(
        &self,
        cx: &mut Cx<'_>,
        container: Option<&ContainerName>,
        warning: bool,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let container = container.map(|name| {
            let kind = self.pod.as_ref().and_then(|p| p.container(name.as_str())).map_or(ContainerKind::App, |c| c.kind);
            (kind, name.clone())
        });
        let about = About::Pod {
            uid: self.uid.clone(),
            namespace: self.record.namespace.clone(),
            name: self.record.name.clone(),
            container,
        };
        cx.out.push(crate::effect::Effect::Say(Say { about, warning, reason, message: message.into() }));
    }

    /// Running, or in a state that may hide a running process.
    pub(super) fn runs(container: &Container) -> bool {
        matches!(container.state, ContainerState::Running | ContainerState::Unknown)
    }

    /// IPs of the pod, primary first; the node's own for a pod on the host's network.
    pub(super) fn ips(&self, cx: &Cx<'_>) -> Vec<String> {
        if self.pod.as_ref().is_some_and(|p| p.host_network) {
            return cx.config().node_ips.clone();
        }
        self.last_seen().and_then(Observed::sandbox).map(|s| s.ips.clone()).unwrap_or_default()
    }

    pub(super) fn describe(&self) -> String {
        format!("{}_{}({})", self.record.name, self.record.namespace, self.uid)
    }
}
