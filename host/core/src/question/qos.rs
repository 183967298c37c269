//! Where a pod stands among the others: asked when it is admitted.

use serde::{Deserialize, Serialize};

use super::{ContainerFacts, NodeFacts, PodFacts};
use crate::pod::{QosClass, Resources};

/// One container's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerPlacement {
    /// `oom_score_adj`, held inside the class's band.
    pub oom_score: i32,
    /// Bytes at which the kernel begins to throttle.
    #[serde(default)]
    pub memory_high: Option<u64>,
}

/// The pod's place. What is None is left to the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// The tier that the pod's cgroup stands in, fixed for the life of the sandbox.
    pub tier: QosClass,
    /// cgroup v2 weight, 1 to 10000.
    #[serde(default)]
    pub cpu_weight: Option<u32>,
    /// Bytes never reclaimed.
    #[serde(default)]
    pub memory_min: Option<u64>,
    /// Bytes reclaimed last.
    #[serde(default)]
    pub memory_low: Option<u64>,
    /// Bytes at which throttling begins.
    #[serde(default)]
    pub memory_high: Option<u64>,
    /// One per container, in the question's order.
    pub containers: Vec<ContainerPlacement>,
}

/// The question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// The pod.
    pub pod: PodFacts,
    /// Its containers in the order of [`crate::pod::Pod::containers`], ephemeral ones left out.
    pub containers: Vec<ContainerFacts>,
    /// Pod-level resources, where declared.
    pub pod_level: Option<Resources>,
    /// The node.
    pub node: NodeFacts,
    /// What the default policy answers.
    pub default_placement: Placement,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The place.
    pub placement: Placement,
    /// Why, for people.
    #[serde(default)]
    pub reason: String,
}
