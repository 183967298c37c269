//! Everything the core can be told: a closed enum.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::id::{ContainerId, ContainerName, EffectId, PodUid, SandboxId};
use crate::ladder::Bindings;
use crate::observed::{Image, Listing, Observed};
use crate::pod::{Pod, Source};
use crate::question::{Verdict, probe};
use crate::sample::Sample;

/// One event.
#[derive(Clone, Debug)]
pub enum Event {
    /// Every pod that a source declares: a full set, never a delta. The first one of a source makes it heard.
    Desired {
        /// Which source.
        source: Source,
        /// All its pods.
        pods: Vec<Arc<Pod>>,
    },
    /// Answer to `Act::List`.
    Listed {
        /// The effect answered.
        id: EffectId,
        /// What the runtime had.
        result: Result<Listing, CallError>,
    },
    /// Answer to `Act::Observe`.
    Observed {
        /// The effect answered.
        id: EffectId,
        /// The pod looked at.
        pod: PodUid,
        /// What the runtime had.
        result: Result<Observed, CallError>,
    },
    /// Something may have changed: a hint, never data.
    Hint(Hint),
    /// Answer to every other act.
    Done {
        /// The effect answered.
        id: EffectId,
        /// What came of it.
        result: Result<Outcome, CallError>,
    },
    /// The policies now bound, in full.
    Policies(Arc<Bindings>),
    /// What the runtime says of itself.
    Runtime(RuntimeState),
    /// Answer to `Act::Sample`.
    Sampled {
        /// The effect answered.
        id: EffectId,
        /// The readings.
        result: Result<Arc<Sample>, CallError>,
    },
    /// Time has passed: `Node::next_wakeup` was reached.
    Tick,
}

/// What an act brought.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is done.
    Unit,
    /// Directories, volumes and cgroup are there.
    Prepared {
        /// The highest attempt of each container that has left a log.
        logged: BTreeMap<ContainerName, u32>,
    },
    /// The sandbox made, or found made.
    Sandbox(SandboxId),
    /// The container made, or found made.
    Container(ContainerId),
    /// The image, where it is present.
    Image(Option<Image>),
    /// The image pulled, and how long the transfer took.
    Pulled {
        /// What is there now.
        image: Image,
        /// Time spent pulling.
        took: Duration,
    },
    /// A probe attempt returned.
    Probed {
        /// What the workload did.
        outcome: probe::Outcome,
        /// Upstream's text for a failure or warning, shown in events.
        text: String,
        /// How long it took.
        latency: Duration,
    },
    /// A policy answered, or failed to.
    Verdict(Verdict),
    /// Every pod that has a cgroup, a directory or logs, whoever made them.
    Leftovers(BTreeMap<PodUid, Leftover>),
}

/// What a pod's remains tell of it: empty where they bear no name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftover {
    /// `metadata.namespace`
    pub namespace: String,
    /// `metadata.name`
    pub name: String,
}

/// Where to look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// At this pod.
    Pod(PodUid),
    /// At the pod that this container or sandbox belongs to.
    Id(String),
    /// Everywhere: hints may have been lost.
    Everything,
}

/// What the runtime says of itself (CRI `Status`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeState {
    /// It answers.
    Up {
        /// Err: reason and message as upstream's condition shows them.
        runtime: Result<(), String>,
        /// Err: reason and message as upstream's condition shows them.
        network: Result<(), String>,
    },
    /// It did not answer.
    Down(CallError),
}

/// A call to an adapter that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation} {object}: {message}")]
pub struct CallError {
    /// What was tried, in the peer's words (`RunPodSandbox`, `mount`).
    pub operation: String,
    /// On what: an id, a name, a path.
    pub object: String,
    /// What the core tells apart.
    pub kind: CallErrorKind,
    /// The peer's text.
    pub message: String,
}

/// Kinds of [`CallError`] that lead to different decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallErrorKind {
    /// The peer cannot do this.
    Unimplemented,
    /// The object is not there.
    NotFound,
    /// It is there already.
    AlreadyExists,
    /// The peer could not be reached.
    Unavailable,
    /// No answer in time; it may have been carried out all the same.
    DeadlineExceeded,
    /// The configuration is wrong (`CreateContainerConfigError`): trying again unchanged will not help.
    Config,
    /// A registry could not be reached (`RegistryUnavailable`).
    RegistryUnavailable,
    /// A signature did not verify (`SignatureValidationFailed`).
    SignatureInvalid,
    /// The image name cannot be parsed (`InvalidImageName`).
    InvalidImageName,
    /// The effect was cancelled.
    Cancelled,
    /// Anything else.
    Other,
}
