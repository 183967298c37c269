//! Kubernetes events as data: recorded and logged by the agent, later sent to the API.

use crate::id::{ContainerName, PodUid};
use crate::pod::ContainerKind;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Say {
    /// What it is about.
    pub about: About,
    /// `Warning` rather than `Normal`.
    pub warning: bool,
    /// Upstream's reason (`Pulling`, `BackOff`, …).
    pub reason: &'static str,
    /// Upstream's message.
    pub message: String,
}

/// The involved object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// The node itself.
    Node,
    /// A pod, or one of its containers.
    Pod {
        /// The pod.
        uid: PodUid,
        /// `metadata.namespace`.
        namespace: String,
        /// `metadata.name`.
        name: String,
        /// For the field path `spec.containers{name}` and its siblings.
        container: Option<(ContainerKind, ContainerName)>,
    },
}

impl About {
    /// `involvedObject.fieldPath`, empty for a pod or node as a whole.
    pub fn field_path(&self) -> String {
        match self {
            Self::Pod { container: Some((kind, name)), .. } => {
                let list = match kind {
                    ContainerKind::Init | ContainerKind::Sidecar => "initContainers",
                    ContainerKind::App => "containers",
                    ContainerKind::Ephemeral => "ephemeralContainers",
                };
                format!("spec.{list}{{{name}}}")
            }
            _ => String::new(),
        }
    }
}
