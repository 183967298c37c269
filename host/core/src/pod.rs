//! The parts of a pod that decisions read, checked once at the edge; the API object travels along for the adapters.
//!
//! `parse` (in `pod/parse.rs`) makes a [`Pod`] from a defaulted and validated `v1::Pod`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1;
use serde::{Deserialize, Serialize};

use crate::id::{ContainerName, PodUid};
use crate::time::Wall;

pub(crate) mod allocated;
mod claims;
mod image;
mod parse;
mod resources;

pub use claims::{Claim, HUGE_PAGES, HostPort};
pub use image::{container_hash, is_reference, with_tag};
pub use parse::PodError;
pub use resources::qos_class;

/// Where a pod was declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A manifest file or a directory of them (`staticPodPath`).
    File,
    /// A manifest fetched from `staticPodURL`.
    Http,
    /// The API server.
    Api,
}

/// One pod as decisions see it. Immutable: a changed pod is a new value under the same UID.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Identity over all sources.
    pub uid: PodUid,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name` (of a static pod with the node's name appended).
    pub name: String,
    /// Where it was declared.
    pub source: Source,
    /// `metadata.creationTimestamp`, or when the agent first saw a static pod.
    pub created: Wall,
    /// `spec.restartPolicy`.
    pub restart_policy: RestartPolicy,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace: Duration,
    /// `spec.activeDeadlineSeconds`.
    pub active_deadline: Option<Duration>,
    /// `spec.priority`, zero when absent.
    pub priority: i32,
    /// `spec.priorityClassName`.
    pub priority_class: Option<String>,
    /// `spec.hostNetwork`.
    pub host_network: bool,
    /// The API's QoS class, computed from the spec (or taken from the status when set there).
    pub qos: QosClass,
    /// Init containers and sidecars in the spec's order, then app containers, then ephemeral ones.
    pub containers: Vec<Container>,
    /// Pod-level resources (`spec.resources`), where declared.
    pub resources: Option<Resources>,
    /// `metadata.labels`.
    pub labels: Arc<BTreeMap<String, String>>,
    /// `metadata.annotations`.
    pub annotations: Arc<BTreeMap<String, String>>,
    /// `metadata.ownerReferences` entry with `controller: true`, as (kind, name).
    pub controller: Option<(String, String)>,
    /// Set once the API has marked the pod for deletion.
    pub deletion: Option<Deletion>,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// The API object, defaulted, for translation and status.
    pub object: Arc<v1::Pod>,
}

impl Pod {
    /// `<name>_<namespace>(<uid>)`, upstream's way of naming a pod in messages.
    pub fn desc(&self) -> String {
        format!("{}_{}({})", self.name, self.namespace, self.uid)
    }

    /// `<name>_<namespace>`: what two static pods must not share while both run.
    pub fn full_name(&self) -> String {
        format!("{}_{}", self.name, self.namespace)
    }

    /// Name of the container whose processes an ephemeral one asks to see.
    pub fn target_of(&self, container: &Container) -> Option<&str> {
        if container.kind != ContainerKind::Ephemeral {
            return None;
        }
        let ephemeral = self.object.spec.as_ref()?.ephemeral_containers.as_ref()?.get(container.index)?;
        ephemeral.target_container_name.as_deref().filter(|target| !target.is_empty())
    }

    /// Declared by this node rather than by the API.
    pub fn is_static(&self) -> bool {
        self.source != Source::Api
    }

    /// Static, mirror or of priority two billion and more: never evicted.
    pub fn is_critical(&self) -> bool {
        self.is_static() || self.is_mirror() || self.priority >= CRITICAL_PRIORITY
    }

    /// An eviction may take it: where `evict_static` says so, a static pod too, unless its priority is critical.
    pub fn may_be_evicted(&self, evict_static: bool) -> bool {
        let protected = (self.is_static() && !evict_static) || self.is_mirror();
        !protected && self.priority < CRITICAL_PRIORITY
    }

    /// Stands in the API for a static pod of a node.
    pub fn is_mirror(&self) -> bool {
        self.annotations.contains_key("kubernetes.io/config.mirror")
    }

    /// The container of this name, of whatever kind.
    pub fn container(&self, name: &str) -> Option<&Container> {
        self.containers.iter().find(|c| c.name.as_str() == name)
    }

    /// Containers of one kind, in the spec's order.
    pub fn of_kind(&self, kind: ContainerKind) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(move |c| c.kind == kind)
    }

    /// Init containers and sidecars in the spec's order.
    pub fn init_containers(&self) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(|c| matches!(c.kind, ContainerKind::Init | ContainerKind::Sidecar))
    }

    /// App containers in the spec's order.
    pub fn app_containers(&self) -> impl Iterator<Item = &Container> {
        self.of_kind(ContainerKind::App)
    }

    /// Whether files of its volumes show fields of the pod, so that they must follow where labels or annotations change.
    pub fn shows_fields_in_files(&self) -> bool {
        let volumes = self.object.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        volumes.into_iter().any(|volume| {
            let projected = volume.projected.iter().flat_map(|source| source.sources.iter().flatten());
            volume.downward_api.is_some() || projected.into_iter().any(|source| source.downward_api.is_some())
        })
    }
}

/// Priority from which a pod counts as critical.
pub const CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// The API's deletion mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    /// `metadata.deletionTimestamp`.
    pub at: Wall,
    /// `metadata.deletionGracePeriodSeconds`.
    pub grace: Option<Duration>,
}

/// `Guaranteed`, `Burstable` or `BestEffort`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum QosClass {
    /// Neither requests nor limits.
    BestEffort,
    /// Anything between.
    Burstable,
    /// Every container's requests equal its limits, for cpu and memory.
    Guaranteed,
}

impl QosClass {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BestEffort => "BestEffort",
            Self::Burstable => "Burstable",
            Self::Guaranteed => "Guaranteed",
        }
    }
}

/// Whether an ended container is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RestartPolicy {
    /// After every end.
    Always,
    /// After an end with an exit code other than zero.
    OnFailure,
    /// Not at all.
    Never,
}

/// Which list of the spec a container stands in; a restartable init container is a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContainerKind {
    /// Runs to completion before the next one starts.
    Init,
    /// Init container with restart policy `Always`: stays beside the app containers.
    Sidecar,
    /// A container of `spec.containers`.
    App,
    /// Added while the pod runs; started once, never again.
    Ephemeral,
}

/// An image that a container mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageVolume {
    /// Name of the volume.
    pub volume: String,
    /// `reference` with `:latest` appended where neither tag nor digest is given.
    pub image: String,
    /// `reference` as the spec has it: for people.
    pub image_as_written: String,
    /// `pullPolicy`.
    pub pull_policy: PullPolicy,
}

/// One container of the spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// Unique within the pod.
    pub name: ContainerName,
    /// Which list it stands in.
    pub kind: ContainerKind,
    /// Place in that list of the spec (init containers and sidecars share one list).
    pub index: usize,
    /// `image` with `:latest` appended where neither tag nor digest is given.
    pub image: String,
    /// `image` as the spec has it: for people.
    pub image_as_written: String,
    /// `imagePullPolicy`.
    pub pull_policy: PullPolicy,
    /// Images that it mounts.
    pub image_volumes: Vec<ImageVolume>,
    /// The container's own `restartPolicy`, where set.
    pub restart_policy: Option<RestartPolicy>,
    /// `restartPolicyRules`; consulted before the policies.
    pub restart_rules: Vec<RestartRule>,
    /// Liveness, readiness and startup probes.
    pub probes: Probes,
    /// `lifecycle.postStart`.
    pub post_start: Option<Handler>,
    /// `lifecycle.preStop`.
    pub pre_stop: Option<Handler>,
    /// CPU and memory.
    pub resources: Resources,
    /// `terminationMessagePath`.
    pub termination_message_path: String,
    /// Lower hex of upstream's hash over name and image: what an adopted container must carry.
    pub hash: String,
}

/// The three probes of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probes {
    /// A failure restarts the container.
    pub liveness: Option<Probe>,
    /// A failure takes the container out of service.
    pub readiness: Option<Probe>,
    /// Holds the other two back until it has succeeded once.
    pub startup: Option<Probe>,
}

impl Probes {
    /// The probe of one kind, where declared.
    pub fn get(&self, kind: ProbeKind) -> Option<&Probe> {
        match kind {
            ProbeKind::Liveness => self.liveness.as_ref(),
            ProbeKind::Readiness => self.readiness.as_ref(),
            ProbeKind::Startup => self.startup.as_ref(),
        }
    }
}

/// Which probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeKind {
    /// Restart on failure.
    Liveness,
    /// In service or not.
    Readiness,
    /// Gate for the other two.
    Startup,
}

impl ProbeKind {
    /// All three, in the order in which a worker list is built.
    pub const ALL: [ProbeKind; 3] = [Self::Startup, Self::Readiness, Self::Liveness];

    /// As events write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
            Self::Startup => "Startup",
        }
    }
}

/// One probe of the spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// What is done.
    pub handler: Handler,
    /// `initialDelaySeconds`.
    pub initial_delay: Duration,
    /// `periodSeconds`.
    pub period: Duration,
    /// `timeoutSeconds`.
    pub timeout: Duration,
    /// `successThreshold`.
    pub success_threshold: u32,
    /// `failureThreshold`.
    pub failure_threshold: u32,
    /// The probe's own `terminationGracePeriodSeconds`.
    pub grace: Option<Duration>,
}

/// What a probe or a lifecycle hook does. Named ports are resolved against the container's ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handler {
    /// Runs a command in the container.
    Exec {
        /// Program and arguments.
        command: Vec<String>,
    },
    /// Sends a GET request.
    HttpGet {
        /// Pod IP when absent.
        host: Option<String>,
        /// Already resolved from a name.
        port: u16,
        /// Path, possibly with a query.
        path: String,
        /// `HTTPS` scheme: TLS without verification.
        tls: bool,
        /// In the spec's order; names may repeat.
        headers: Vec<(String, String)>,
    },
    /// Opens a TCP connection.
    TcpSocket {
        /// Pod IP when absent.
        host: Option<String>,
        /// Already resolved from a name.
        port: u16,
    },
    /// Calls `grpc.health.v1.Health/Check`.
    Grpc {
        /// Port at the pod's IP.
        port: u16,
        /// Service named in the request.
        service: String,
    },
    /// Waits (hooks only).
    Sleep {
        /// How long.
        duration: Duration,
    },
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PullPolicy {
    /// Before every start.
    Always,
    /// Only when it is not there.
    IfNotPresent,
    /// Never.
    Never,
}

/// One entry of `restartPolicyRules`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartRule {
    /// True for operator `In`, false for `NotIn`.
    pub exit_code_in: bool,
    /// Exit codes compared with.
    pub exit_codes: Vec<i32>,
    /// What a match means.
    pub action: RestartAction,
}

/// Action of a restart rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartAction {
    /// This container.
    Restart,
    /// The whole pod's containers.
    RestartAllContainers,
}

/// CPU in millicores, memory and storage in bytes; None where not declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// `requests.cpu`.
    pub cpu_request: Option<u64>,
    /// `limits.cpu`.
    pub cpu_limit: Option<u64>,
    /// `requests.memory`.
    pub memory_request: Option<u64>,
    /// `limits.memory`.
    pub memory_limit: Option<u64>,
    /// `requests.ephemeral-storage`.
    pub storage_request: Option<u64>,
    /// `limits.ephemeral-storage`.
    pub storage_limit: Option<u64>,
}
