//! Memory of a cgroup and of the machine.

use std::fs;
use std::io;
use std::path::Path;

use super::{StatsError, read};
use crate::cgroup::Version;

/// What a cgroup with all below it uses, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// With the page cache.
    pub(super) usage: u64,
    /// Usage less file pages that nobody has touched lately.
    pub(super) working_set: u64,
    /// Anonymous.
    pub(super) rss: u64,
    pub(super) swap: Option<u64>,
    /// None where it is as good as none.
    pub(super) limit: Option<u64>,
}

/// A limit beyond this is no limit.
const NO_LIMIT: u64 = 1 << 62;

pub(super) fn of_cgroup(version: Version, dir: &Path) -> Result<Memory, StatsError> {
    let stat = Stat::read(version, &dir.join("memory.stat"))?;
    let (usage, limit) = match version {
        Version::V1 => ("memory.usage_in_bytes", "memory.limit_in_bytes"),
        Version::V2 => ("memory.current", "memory.max"),
    };
    let limit = number(&dir.join(limit)).ok().filter(|limit| *limit <= NO_LIMIT);
    let usage = number(&dir.join(usage))?;
    let swap = match version {
        Version::V1 => stat.swap,
        Version::V2 => number(&dir.join("memory.swap.current")).ok(),
    };
    Ok(stat.memory(usage, swap, limit))
}

/// The root of the v2 hierarchy does not say what it uses: it is what its statistics add up to.
pub(super) fn of_machine(version: Version, root: &Path) -> Result<Memory, StatsError> {
    let stat = Stat::read(version, &root.join("memory.stat"))?;
    let usage = match version {
        Version::V1 => number(&root.join("memory.usage_in_bytes"))?,
        Version::V2 => stat.rss.saturating_add(stat.file),
    };
    Ok(stat.memory(usage, stat.swap, None))
}

/// The lines of `memory.stat` that are looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Stat {
    rss: u64,
    file: u64,
    inactive_file: u64,
    swap: Option<u64>,
}

impl Stat {
    fn read(version: Version, path: &Path) -> Result<Self, StatsError> {
        let mut stat = Self::default();
        for line in read(path)?.lines() {
            let Some((key, value)) = line.split_once(' ') else { continue };
            let Ok(value) = value.trim().parse() else { continue };
            match (version, key) {
                (Version::V1, "total_rss") | (Version::V2, "anon") => stat.rss = value,
                (Version::V1, "total_cache") | (Version::V2, "file") => stat.file = value,
                (Version::V1, "total_inactive_file") | (Version::V2, "inactive_file") => stat.inactive_file = value,
                (Version::V1, "total_swap") => stat.swap = Some(value),
                _ => {}
            }
        }
        Ok(stat)
    }

    fn memory(&self, usage: u64, swap: Option<u64>, limit: Option<u64>) -> Memory {
        Memory { usage, working_set: usage.saturating_sub(self.inactive_file), rss: self.rss, swap, limit }
    }
}

/// A file with one number in it; `max` is none.
fn number(path: &Path) -> Result<u64, StatsError> {
    let failed = |cause| StatsError { path: path.to_owned(), cause };
    let text = fs::read_to_string(path).map_err(failed)?;
    text.trim().parse().map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))
}
