//! Whose pod goes first when something is short.
//!
//! The kubelet has one ranking for each starved resource. It sees no shortage beyond the configured thresholds, so there is
//! nothing here for `assess`: the default answers with an empty list.

/// What is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starved {
    /// Memory of the node, or of all pods together.
    Memory,
    /// Bytes of a file system.
    Disk(FileSystem),
    /// Inodes of a file system.
    Inodes(FileSystem),
    /// Process numbers.
    Pids,
}

/// The file systems that thresholds speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// `nodefs`: of the agent's root directory, where logs and local volumes lie.
    Node,
    /// `imagefs`: of the images.
    Image,
    /// `containerfs`: of the writable layers.
    Container,
}

/// Which of the three are one and the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All three.
    Single,
    /// Images and writable layers lie together on one of their own.
    Dedicated,
    /// Only images lie on one of their own.
    Split,
}

/// What a pod uses of local file systems, by part; in bytes or in inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Writable layers of its containers.
    pub rootfs: u64,
    /// Logs.
    pub logs: u64,
    /// Local volumes: emptyDir on disk and configMap; hostPath has no statistics.
    pub volumes: u64,
}

/// A pod as a ranking sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Of the starved resource: bytes of working set, bytes or inodes by [`usage_of`], processes. `None` if there are no
    /// statistics of the pod at all; of what statistics do not tell, zero is used.
    pub usage: Option<u64>,
    /// Bytes: of memory if that is short, else of ephemeral storage; of the whole pod with its overhead.
    pub request: u64,
    /// Higher is more important; 0 where the pod has none.
    pub priority: i32,
}

/// The part of a pod's usage that lies on the file system that is short. On a split image file system, nothing of a pod does.
#[must_use]
pub const fn usage_of(file_system: FileSystem, layout: Layout, parts: Parts) -> u64 {
    let all = parts.rootfs.saturating_add(parts.logs).saturating_add(parts.volumes);
    match (layout, file_system) {
        (Layout::Single, _) | (Layout::Split, FileSystem::Node | FileSystem::Container) => all,
        (Layout::Dedicated, FileSystem::Node) => parts.logs.saturating_add(parts.volumes),
        (Layout::Dedicated, FileSystem::Image | FileSystem::Container) => parts.rootfs,
        (Layout::Split, FileSystem::Image) => 0,
    }
}

/// The rows' indices, whoever is to go first in front.
///
/// Memory, disk and inodes: who uses more than requested, then the lower priority, then the larger excess. Process numbers: the
/// lower priority, then the more processes. A pod without statistics counts as the worst in whatever compares usages.
///
/// For inodes, any use at all is more than requested, yet the excess is inodes less *bytes* of requested storage: upstream's
/// quirk, kept. Where upstream leaves ties to chance, the order of the rows decides here.
#[must_use]
pub fn rank(starved: Starved, rows: &[Row]) -> Vec<u32> {
    let mut keys: Vec<Key> = rows.iter().zip(0..).map(|(row, index)| Key::of(starved, row, index)).collect();
    // No two keys are equal, since each holds its index.
    keys.sort_unstable();
    keys.into_iter().map(|key| key.index).collect()
}

/// What a row is sorted by, smallest first. Two integers instead of a chain of comparisons: this is the hot path of a ranking.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// Who exceeds the request, above the priority.
    importance: u64,
    /// The excess, largest first.
    restraint: u64,
    index: u32,
}

impl Key {
    fn of(starved: Starved, row: &Row, index: u32) -> Self {
        let (compared_request, subtracted_request) = match starved {
            Starved::Memory | Starved::Disk(_) => (row.request, row.request),
            Starved::Inodes(_) => (0, row.request),
            Starved::Pids => (0, 0),
        };
        let group = match row.usage {
            _ if starved == Starved::Pids => 0,
            None => 0,
            Some(usage) if usage > compared_request => 1,
            Some(_) => 2,
        };
        let restraint = match row.usage {
            None => 0,
            Some(usage) => descending(signed(usage) - signed(subtracted_request)).max(1),
        };
        Self { importance: (group << 32) | u64::from(ascending(row.priority)), restraint, index }
    }
}

/// Maps smaller to smaller.
fn ascending(priority: i32) -> u32 {
    priority.cast_unsigned() ^ (1 << 31)
}

/// Maps larger to smaller.
fn descending(excess: i64) -> u64 {
    !(excess.cast_unsigned() ^ (1 << 63))
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
