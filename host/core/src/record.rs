//! What must survive the agent, per pod. Kernel and runtime state is never copied here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::effect::StopCause;
use crate::id::{ContainerId, ContainerName, PodUid};
use crate::pod::Claim;
use crate::question::{qos::Placement, restart::Termination};
use crate::time::Wall;

/// One pod's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRecord {
    /// The pod.
    pub uid: PodUid,
    /// For people, and for cleaning up after a pod that no source declares.
    pub namespace: String,
    /// Likewise.
    pub name: String,
    /// `status.startTime`.
    pub started: Wall,
    /// Set once the pod is being ended; only ever shortened.
    #[serde(default)]
    pub stop: Option<Stop>,
    /// Set once the phase is terminal; sticky.
    #[serde(default)]
    pub end: Option<End>,
    /// Nothing of it runs any more, and nothing will: a terminal phase may be told.
    #[serde(default)]
    pub over: bool,
    /// The place given at admission, fixed for the life of the pod.
    #[serde(default)]
    pub placement: Option<Placement>,
    /// By container.
    #[serde(default)]
    pub containers: BTreeMap<ContainerName, ContainerRecord>,
    /// What it holds of the node since it was let in.
    #[serde(default)]
    pub claim: Option<Claim>,
    /// The resources that it was let in with: see `pod::allocated`.
    #[serde(default)]
    pub allocated: Option<k8s_openapi::serde_json::Value>,
}

impl PodRecord {
    /// Of a pod of which nothing is known yet but that it began at `started`.
    pub fn new(uid: PodUid, namespace: &str, name: &str, started: Wall) -> Self {
        Self {
            uid,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            started,
            stop: None,
            end: None,
            over: false,
            placement: None,
            containers: BTreeMap::new(),
            claim: None,
            allocated: None,
        }
    }

    /// Whether the pod was turned away.
    pub(crate) fn was_refused(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.cause == StopCause::Rejected)
    }
}

/// How a pod is being ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stop {
    /// Why.
    pub cause: StopCause,
    /// Seconds between TERM and KILL for all its containers.
    pub grace_seconds: u64,
    /// When it began.
    pub since: Wall,
}

/// A terminal phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// True for `Succeeded`, false for `Failed`.
    pub succeeded: bool,
    /// `status.reason`.
    #[serde(default)]
    pub reason: Option<String>,
    /// `status.message`.
    #[serde(default)]
    pub message: Option<String>,
}

/// One container's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerRecord {
    /// Newest attempt made, which is also its restart count; None before the first. Never falls.
    pub attempt: Option<u32>,
    /// Highest restart count published: it may run ahead of the attempts, when one is gone and the next is not yet made.
    pub told: u32,
    /// An attempt that the node ended in order to start the container anew, whatever its exit code.
    pub owed: Option<Owed>,
    /// Crash backoff.
    pub backoff: Option<Backoff>,
    /// Newest last, at most 32.
    pub history: Vec<Termination>,
    /// Probe results of the running attempt.
    pub probes: Option<ProbeRecord>,
    /// How the newest attempt that ended did so, kept when the runtime has forgotten it.
    pub last: Option<Ended>,
    /// How the one before it ended.
    pub before: Option<Ended>,
}

impl ContainerRecord {
    /// Whether this attempt was ended in order to start the container anew.
    pub(crate) fn owes(&self, id: &ContainerId) -> bool {
        self.owed.as_ref().is_some_and(|owed| owed.id == *id)
    }

    /// The end before the newest one, in the history.
    pub(crate) fn end_before(&self) -> Option<&Termination> {
        self.history.iter().nth_back(1)
    }
}

/// An attempt that is to be followed by another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owed {
    /// Which.
    pub id: ContainerId,
    /// Why it was ended.
    pub cause: StopCause,
}

/// A backoff entry: how long the next wait is, and when the entry last moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backoff {
    /// Image and resources that it belongs to: another image begins anew.
    pub key: String,
    /// Milliseconds.
    pub delay: u64,
    /// When it last moved.
    pub updated: Wall,
}

/// What probes had found of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeRecord {
    /// The attempt spoken of.
    pub id: ContainerId,
    /// The startup probe has succeeded (or there is none).
    pub started: bool,
    /// The readiness probe's published result; None without one.
    pub ready: Option<bool>,
}

/// An ended attempt, as a status shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// The attempt; None for a container that could not be located.
    pub id: Option<ContainerId>,
    /// Exit code.
    pub exit_code: i32,
    /// `Completed`, `Error`, `OOMKilled`, …
    pub reason: String,
    /// Termination message.
    pub message: String,
    /// Start instant.
    pub started: Option<Wall>,
    /// End instant.
    pub finished: Option<Wall>,
}
