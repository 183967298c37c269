//! Readings of the node and its pods, as eviction and statistics need them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{ContainerId, ContainerName, PodUid};
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
    /// Bytes of its hosts file, which no ranking counts and its limit does.
    pub disk_hosts: Option<u64>,
    /// Inodes of writable layers.
    pub inodes_rootfs: Option<u64>,
    /// Inodes of logs.
    pub inodes_logs: Option<u64>,
    /// Inodes of local volumes.
    pub inodes_volumes: Option<u64>,
    /// PSI "some" of cpu over ten seconds, hundredths of a percent.
    pub cpu_stall: Option<u32>,
    /// Likewise of memory.
    pub memory_stall: Option<u32>,
    /// Likewise of I/O.
    pub io_stall: Option<u32>,
    /// By container.
    pub containers: BTreeMap<ContainerId, ContainerUsage>,
    /// Bytes of logs of all attempts of a container, rotated ones included.
    pub logs: BTreeMap<ContainerName, u64>,
    /// Bytes of each emptyDir volume, of whatever medium, by name.
    pub empty_dirs: BTreeMap<String, u64>,
}

impl PodUsage {
    /// Bytes of layers, logs and volumes, as far as they could be measured.
    pub fn disk(&self) -> Option<u64> {
        sum([self.disk_rootfs, self.disk_logs, self.disk_volumes])
    }

    /// Likewise inodes.
    pub fn inodes(&self) -> Option<u64> {
        sum([self.inodes_rootfs, self.inodes_logs, self.inodes_volumes])
    }
}

fn sum(parts: [Option<u64>; 3]) -> Option<u64> {
    parts.iter().any(Option::is_some).then(|| parts.into_iter().flatten().fold(0, u64::saturating_add))
}

/// One container's use. None where it could not be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerUsage {
    /// Millicores, the mean since the sampling before.
    pub cpu: Option<u64>,
    /// Bytes.
    pub memory_working_set: Option<u64>,
    /// Bytes.
    pub memory_rss: Option<u64>,
    /// Bytes.
    pub memory_swap: Option<u64>,
    /// Bytes of its writable layer.
    pub disk_rootfs: Option<u64>,
}
