//! Readings of the node and its pods, as eviction and statistics need them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::PodUid;
use crate::time::Wall;

/// One sampling.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Sample {
    /// When it was taken.
    pub at: Wall,
    /// By upstream's signal name (`memory.available`, `nodefs.available`, …).
    pub signals: BTreeMap<String, Reading>,
    /// By pod.
    pub pods: BTreeMap<PodUid, PodUsage>,
    /// Further facts of the node by name (`psi.cpu.some.60`, `memory.swap.used`, …), in the contract's units.
    pub facts: BTreeMap<String, i64>,
    /// PSI "some" over ten seconds, hundredths of a percent: cpu, memory, io.
    pub stalls: [Option<u32>; 3],
}

/// One signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reading {
    /// Bytes, inodes or processes left.
    pub available: u64,
    /// Of this many.
    pub capacity: u64,
}

/// One pod's use. None where it could not be measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodUsage {
    /// Bytes.
    pub memory_working_set: Option<u64>,
    /// Bytes.
    pub memory_rss: Option<u64>,
    /// Bytes.
    pub memory_swap: Option<u64>,
    /// Millicores, the mean since the sampling before.
    pub cpu: Option<u64>,
    /// Processes.
    pub processes: Option<u64>,
    /// Bytes of writable layers.
    pub disk_rootfs: Option<u64>,
    /// Bytes of logs.
    pub disk_logs: Option<u64>,
    /// Bytes of local volumes.
    pub disk_volumes: Option<u64>,
    /// Inodes of all three.
    pub inodes: Option<u64>,
    /// PSI "some" of memory over ten seconds, hundredths of a percent.
    pub memory_stall: Option<u32>,
}
