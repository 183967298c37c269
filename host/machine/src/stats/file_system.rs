//! Space of a file system.

use std::path::Path;

use polylet_core::sample::Reading;

use super::StatsError;

/// What is left of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space {
    /// Free to users other than root.
    pub(super) bytes: Reading,
    /// Of capacity zero where the file system does not count them.
    pub(super) inodes: Reading,
    pub(super) device: u64,
}

impl Space {
    /// The file system that a path lies on.
    pub(super) fn of(path: &Path) -> Result<Self, StatsError> {
        let failed = |errno: rustix::io::Errno| StatsError { path: path.to_owned(), cause: errno.into() };
        let stat = rustix::fs::statvfs(path).map_err(failed)?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(Self {
            bytes: Reading { available: bytes(stat.f_bavail), capacity: bytes(stat.f_blocks) },
            inodes: Reading { available: stat.f_ffree, capacity: stat.f_files },
            device: rustix::fs::stat(path).map_err(failed)?.st_dev,
        })
    }
}
