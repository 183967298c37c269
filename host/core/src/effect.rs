//! Everything the core can ask the world for: a closed enum, performed by the agent in the order given.
//!
//! **Invariant:** an effect that must survive the agent ([`Effect::Remember`]) precedes the act that depends on it, and the
//! performer finishes it before it begins the act.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1;
use serde::{Deserialize, Serialize};

use crate::decision::DecisionRecord;
use crate::id::{ContainerId, ContainerName, EffectId, PodUid, PolicyDigest, SandboxId};
use crate::observed::Image;
use crate::pod::{ContainerKind, Handler, Pod, ProbeKind};
use crate::question::{Question, qos::Placement};
use crate::record::PodRecord;
use crate::say::Say;

/// One effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Store this, replacing what was stored under its UID.
    Remember(Arc<PodRecord>),
    /// Drop what was stored under this UID.
    Forget(PodUid),
    /// An event for people: recorded, logged, later sent to the API.
    Say(Say),
    /// Something for the metrics, which no event tells whole.
    Count(Count),
    /// The status of a pod changed.
    Publish {
        /// The pod.
        pod: PodUid,
        /// The whole new status.
        status: Arc<v1::PodStatus>,
    },
    /// A policy decision was made: for the ring.
    Decided(Arc<DecisionRecord>),
    /// Something that takes time and is answered by `Event::Done` with the same id (`Event::Listed` and `Event::Observed` for the two looks).
    Do {
        /// Grows; names the answer.
        id: EffectId,
        /// What to do.
        act: Act,
    },
    /// The answer to this effect is no longer wanted: stop it if that is possible without harm (pulls, hooks, probes). `Done` still comes.
    Cancel(EffectId),
}

/// What is counted, under upstream's labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// A container could not be started.
    NotStarted {
        /// Which kind.
        kind: ContainerKind,
        /// Upstream's reason, such as `CreateContainerError` or `ImagePullBackOff`.
        code: &'static str,
    },
    /// A pod was evicted.
    Evicted {
        /// Upstream's signal, such as `memory.available` or `emptydirfs.limit`; `policy` for a shortage that only a policy sees.
        signal: String,
    },
}

/// What takes time.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// List every pod of the runtime; answered by `Event::Listed`.
    List,
    /// Look at one pod in full; answered by `Event::Observed`.
    Observe(PodUid),
    /// Is this image there? Answer `Outcome::Image`.
    InspectImage {
        /// Image as the spec names it, with a tag.
        image: String,
    },
    /// Pull it. Answer `Outcome::Pulled`.
    PullImage {
        /// For whom (credentials, sandbox configuration).
        pod: Arc<Pod>,
        /// Image as the spec names it, with a tag.
        image: String,
    },
    /// Make the pod's directories, volumes and cgroup. Idempotent. Answer `Outcome::Prepared`.
    Prepare {
        /// The pod.
        pod: Arc<Pod>,
        /// Where its cgroup stands, with which weights.
        placement: Arc<Placement>,
    },
    /// Make and start a sandbox. Answer `Outcome::Sandbox`. Repeating it with the same attempt finds the one made before.
    RunSandbox {
        /// The pod.
        pod: Arc<Pod>,
        /// `metadata.attempt`.
        attempt: u32,
        /// For the cgroup parent.
        placement: Arc<Placement>,
    },
    /// Make a container. Answer `Outcome::Container`. Repeating it with the same attempt finds the one made before.
    CreateContainer {
        /// The pod.
        pod: Arc<Pod>,
        /// Which container.
        container: ContainerName,
        /// `metadata.attempt`, also the restart count.
        attempt: u32,
        /// The sandbox to live in.
        sandbox: SandboxId,
        /// The image that was found or pulled.
        image: Image,
        /// Images that it mounts, by name of the volume.
        mounted_images: BTreeMap<String, Image>,
        /// The pod's IPs, primary first.
        ips: Vec<String>,
        /// For oom scores and `memory.high`.
        placement: Arc<Placement>,
        /// The container whose processes it is to see (`targetContainerName`); None also where that does not run.
        target: Option<ContainerId>,
    },
    /// Start a made container. Answer `Outcome::Unit`.
    StartContainer {
        /// The pod.
        pod: Arc<Pod>,
        /// Which container.
        container: ContainerName,
        /// The runtime's identifier.
        id: ContainerId,
    },
    /// Run a lifecycle hook. Answer `Outcome::Unit`; a failing hook is a `CallError`.
    Hook {
        /// The pod.
        pod: PodUid,
        /// Container it belongs to.
        container: ContainerId,
        /// What to do.
        handler: Handler,
        /// The pod's IPs, primary first.
        ips: Vec<String>,
        /// Give up after this long; None is without limit.
        budget: Option<Duration>,
    },
    /// Stop a container. Answer `Outcome::Unit`; one that is gone counts as stopped.
    StopContainer {
        /// The runtime's identifier.
        id: ContainerId,
        /// TERM, then KILL after this long.
        timeout: Duration,
        /// Why: recorded.
        cause: StopCause,
    },
    /// Remove a stopped container. Answer `Outcome::Unit`; one that is gone counts as removed.
    RemoveContainer {
        /// The runtime's identifier.
        id: ContainerId,
        /// Keep its log file (restart of all containers).
        keep_log: bool,
    },
    /// Stop a sandbox: ends what still runs in it. Answer `Outcome::Unit`; one that is gone counts as stopped.
    StopSandbox {
        /// The runtime's identifier.
        id: SandboxId,
    },
    /// Remove a stopped sandbox. Answer `Outcome::Unit`; one that is gone counts as removed.
    RemoveSandbox {
        /// The runtime's identifier.
        id: SandboxId,
    },
    /// Unmount the pod's volumes, remove its cgroup and directories. Idempotent. Answer `Outcome::Unit`.
    CleanUp {
        /// The pod.
        pod: PodUid,
        /// For the log directory.
        namespace: String,
        /// For the log directory.
        name: String,
        /// Nothing of the pod is wanted any more: its logs go too.
        gone: bool,
    },
    /// One probe attempt. Answer `Outcome::Probed`.
    Probe {
        /// The pod.
        pod: Arc<Pod>,
        /// Which container.
        container: ContainerName,
        /// The runtime's identifier.
        id: ContainerId,
        /// Which probe.
        kind: ProbeKind,
        /// The pod's IPs, primary first.
        ips: Vec<String>,
    },
    /// Ask a policy component. Answer `Outcome::Verdict`.
    Ask {
        /// Which rung of the ladder.
        rung: Rung,
        /// The question.
        question: Arc<Question>,
    },
    /// Sample the node and its pods. Answered by `Event::Sampled`.
    Sample,
    /// Which pods have cgroups, directories or logs on this machine? Answer `Outcome::Leftovers`.
    FindLeftovers,
}

/// A rung of the ladder of trust that is answered by Wasm. The native rung needs no effect: the core answers it itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Rung {
    /// A bound policy, by name of its binding and digest of its component.
    #[serde(rename_all = "camelCase")]
    Bound {
        /// Name of the binding.
        name: String,
        /// Digest of the component.
        digest: PolicyDigest,
        /// Digest of its configuration.
        config: PolicyDigest,
    },
    /// The default component, embedded in the binary.
    Default,
    /// `policies/upstream`, linked natively.
    Native,
}

/// Why something is stopped: a closed list, recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopCause {
    /// No source declares the pod any more.
    Removed,
    /// The API marked it for deletion.
    Deleted,
    /// It was evicted, something being short.
    Evicted,
    /// It was evicted, having more in local storage than its own limits allow.
    OverLimit,
    /// Its active deadline passed.
    DeadlineExceeded,
    /// The pod has run to its end (natural completion).
    Completed,
    /// An init container failed for good.
    InitFailed,
    /// Name or image in the spec changed.
    DefinitionChanged,
    /// A liveness probe failed.
    Unhealthy,
    /// A startup probe failed.
    NotStarted,
    /// Its postStart hook failed.
    HookFailed,
    /// The sandbox is to be replaced.
    SandboxChanged,
    /// A rule asks for a restart of all containers.
    RestartAll,
    /// A second copy of the same attempt, or one that should not exist.
    Duplicate,
    /// The runtime could not tell its state.
    UnknownState,
    /// Not in the spec and in no source: left by somebody before us.
    Orphan,
    /// Admission turned it away before anything of it ran.
    Rejected,
}
