//! What the runtime had, at one moment. Adapters make these values; nothing here is trusted longer than one decision.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::id::{ContainerId, ContainerName, PodUid, SandboxId};
use crate::time::Wall;

/// The generic relist: every pod of ours that the runtime knows, with states only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// By pod UID (label `io.kubernetes.pod.uid`).
    pub pods: BTreeMap<PodUid, Summary>,
}

/// One pod in a [`Listing`]: enough to see that something changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Name from the runtime's labels; empty where they have none.
    pub name: String,
    /// `metadata.namespace`, likewise.
    pub namespace: String,
    /// Sandboxes by id.
    pub sandboxes: BTreeMap<SandboxId, SandboxState>,
    /// Containers by id.
    pub containers: BTreeMap<ContainerId, ContainerState>,
}

/// One pod in full.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Name and namespace from the runtime's labels: all that is known of a pod that no source declares.
    pub name: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// Newest attempt first.
    pub sandboxes: Vec<Sandbox>,
    /// All attempts of all containers; of one name, the newest attempt first.
    pub containers: Vec<Container>,
}

impl Observed {
    /// The newest attempt of the container of this name.
    pub fn newest(&self, name: &str) -> Option<&Container> {
        self.of(name).next()
    }

    /// All attempts of the container of this name, newest first.
    pub fn of(&self, name: &str) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(move |c| c.name.as_str() == name)
    }

    /// The newest sandbox, in whatever state.
    pub fn sandbox(&self) -> Option<&Sandbox> {
        self.sandboxes.first()
    }

    /// Nothing of the pod is left in the runtime.
    pub fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }

    /// States only, as a relist would give them.
    pub fn summary(&self) -> Summary {
        Summary {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            sandboxes: self.sandboxes.iter().map(|s| (s.id.clone(), s.state)).collect(),
            containers: self.containers.iter().map(|c| (c.id.clone(), c.state)).collect(),
        }
    }
}

/// State of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SandboxState {
    /// Its processes and namespaces are there.
    Ready,
    /// Stopped, or broken.
    NotReady,
    /// Listed, but its status could not be had: to be looked at again, not condemned.
    Unknown,
}

/// One pod sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// The runtime's identifier.
    pub id: SandboxId,
    /// `metadata.attempt`.
    pub attempt: u32,
    /// State.
    pub state: SandboxState,
    /// Creation instant.
    pub created: Wall,
    /// Primary IP first; empty when none was reported.
    pub ips: Vec<String>,
    /// Whether the runtime reported a network block at all (it has none for the host's network).
    pub has_network: bool,
    /// Shares the node's network namespace.
    pub host_network: bool,
    /// `runtime_handler`.
    pub runtime_handler: String,
    /// Why its state is unknown, where the runtime said that.
    pub trouble: Option<String>,
}

/// State of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ContainerState {
    /// Made, not yet started.
    Created,
    /// Its process runs.
    Running,
    /// Its process ended.
    Exited,
    /// The runtime cannot tell.
    Unknown,
}

/// One attempt of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The runtime's identifier.
    pub id: ContainerId,
    /// Name in the spec.
    pub name: ContainerName,
    /// The sandbox it lives in.
    pub sandbox: SandboxId,
    /// `metadata.attempt`, which is also the restart count (annotation `io.kubernetes.container.restartCount`).
    pub attempt: u32,
    /// State.
    pub state: ContainerState,
    /// Creation instant.
    pub created: Wall,
    /// Start instant; None before the start.
    pub started: Option<Wall>,
    /// End instant; None before the end.
    pub finished: Option<Wall>,
    /// Meaningful when exited.
    pub exit_code: i32,
    /// The runtime's reason (`Completed`, `Error`, `OOMKilled`, `StartError`, …).
    pub reason: String,
    /// The runtime's message, with the termination message appended by the adapter.
    pub message: String,
    /// The runtime's image string.
    pub image: String,
    /// `image_ref`: the image's digest reference.
    pub image_ref: String,
    /// Annotation `io.kubernetes.container.hash`.
    pub hash: String,
    /// Annotations that outlive the spec (`io.kubernetes.container.*`, `io.kubernetes.pod.*`).
    pub annotations: BTreeMap<String, String>,
    /// preStop handler out of the annotation, for pods that no source declares any more.
    pub pre_stop: Option<crate::pod::Handler>,
    /// uid, gid and supplementary groups where the runtime reports them.
    pub user: Option<(i64, i64, Vec<i64>)>,
    /// What ends it at first, in the API's spelling (`SIGTERM`), where the runtime reports it.
    pub stop_signal: Option<String>,
    /// Paths in the container that are read-only with all that is mounted below them.
    pub recursively_read_only: BTreeSet<String>,
}

/// What is known of an image that is present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The runtime's id (`sha256:…`), used to create containers.
    pub id: String,
    /// A digest reference where there is one, else the id: what a status shows.
    pub reference: String,
    /// Bytes.
    pub size: u64,
    /// Numeric user of the image's config.
    pub uid: Option<i64>,
    /// Non-numeric user of the image's config.
    pub username: String,
}
