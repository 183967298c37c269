//! Who goes when something is short: `assess` at each sampling, `rank` when a shortage is to be ended.

use serde::{Deserialize, Serialize};

use super::{NodeFacts, PodTraits};
use crate::pod::QosClass;

/// What runs short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Starved {
    /// Memory.
    Memory,
    /// Bytes of the node's file system.
    Disk,
    /// Inodes of it.
    Inodes,
    /// Bytes of the image file system.
    ImageDisk,
    /// Inodes of it.
    ImageInodes,
    /// Bytes of the file system of writable layers.
    ContainerDisk,
    /// Inodes of it.
    ContainerInodes,
    /// Process ids.
    Pids,
}

/// One eviction signal as sampled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signal {
    /// Upstream's name, for example `memory.available`.
    pub name: String,
    /// What it speaks of.
    pub starved: Starved,
    /// Bytes, inodes or processes left.
    pub available: u64,
    /// Of this many.
    pub capacity: u64,
    /// When sampled.
    pub sampled: u64,
    /// The configured threshold, in the same unit.
    pub threshold: Option<u64>,
    /// A hard threshold.
    pub hard: bool,
    /// Since when the threshold has been crossed.
    pub crossed_since: Option<u64>,
}

/// A shortage to be ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shortage {
    /// What is short.
    pub starved: Starved,
    /// Ends pods with a grace of one second.
    pub hard: bool,
    /// How much is to be won back.
    pub reclaim: u64,
    /// Why, for people.
    #[serde(default)]
    pub reason: String,
}

/// Question of `assess`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assess {
    /// The node.
    pub node: NodeFacts,
    /// All signals sampled.
    pub signals: Vec<Signal>,
}

/// One pod that could go. Further numbers are columns of the table `candidates`, in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// Index into [`super::Words::pods`].
    pub pod: u32,
    /// Index into [`super::Words::namespaces`].
    pub namespace: u32,
    /// Index into [`super::Words::controllers`].
    pub controller: Option<u32>,
    /// `spec.priority`.
    pub priority: i32,
    /// The API's class.
    pub class: QosClass,
    /// Flags.
    pub traits: PodTraits,
    /// Start instant, zero when it has not started.
    pub started: u64,
    /// Working set in bytes; None without statistics.
    pub memory_usage: Option<u64>,
    /// Bytes.
    pub memory_request: u64,
    /// Bytes on the starved file system; None without statistics.
    pub disk_usage: Option<u64>,
    /// Bytes.
    pub disk_request: u64,
    /// Place in the default ranking, zero first.
    pub default_place: u32,
}

/// Question of `rank`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rank {
    /// The node.
    pub node: NodeFacts,
    /// What is short.
    pub shortage: Shortage,
    /// Everyone who could go.
    pub candidates: Vec<Candidate>,
}

/// One pod to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Victim {
    /// Index into [`super::Words::pods`].
    pub pod: u32,
    /// Grace in milliseconds; None leaves it to the node. A hard shortage shortens it to one second.
    #[serde(default)]
    pub grace: Option<u64>,
    /// Why, for people.
    #[serde(default)]
    pub reason: String,
}
