//! Making cgroups and writing their values.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cgroups_rs::fs::cpu::CpuController;
use cgroups_rs::fs::cpuset::CpuSetController;
use cgroups_rs::fs::error::Error;
use cgroups_rs::fs::hugetlb::HugeTlbController;
use cgroups_rs::fs::memory::{MemController, SetMemory};
use cgroups_rs::fs::pid::PidController;
use cgroups_rs::fs::{Controller, MaxValue};
use polylet_upstream::cpu;

use super::{CgroupError, CgroupName, CgroupTree, Version};

/// Values of one cgroup; what is None is left as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    /// In v1's measure.
    pub(super) shares: Option<u64>,
    /// In v2's measure, where it is not what the shares come to.
    pub(super) weight: Option<u64>,
    /// Quota and period in microseconds.
    pub(super) quota: Option<(i64, u64)>,
    pub(super) memory_limit: Option<u64>,
    pub(super) memory_min: Option<u64>,
    pub(super) memory_low: Option<u64>,
    pub(super) memory_high: Option<u64>,
    pub(super) pids_limit: Option<u64>,
    /// Bytes by size of page.
    pub(super) huge_pages: BTreeMap<u64, u64>,
}

impl Values {
    /// The files that [`CgroupTree::create_with`] writes where every controller is there, and what it writes into each.
    pub(super) fn files(&self, version: Version) -> BTreeMap<String, String> {
        let v2 = version == Version::V2;
        let weight = self.weight.or(self.shares.map(cpu::weight));
        let named = |v1: &'static str, unified: &'static str| if v2 { unified } else { v1 };
        let text = |amount: Option<u64>| amount.map(|amount| signed(amount).to_string());
        let quota = self.quota.map(|(quota, period)| match v2 {
            true if quota > 0 => format!("{quota} {period}"),
            true => format!("max {period}"),
            false => quota.to_string(),
        });
        let in_both = [
            (named("cpu.shares", "cpu.weight"), if v2 { text(weight) } else { text(self.shares) }),
            (named("cpu.cfs_quota_us", "cpu.max"), quota),
            (named("memory.limit_in_bytes", "memory.max"), text(self.memory_limit)),
            ("pids.max", text(self.pids_limit)),
        ];
        let in_one = match version {
            Version::V1 => vec![("cpu.cfs_period_us", self.quota.map(|(_, period)| period.to_string()))],
            Version::V2 => vec![
                ("memory.min", text(self.memory_min)),
                ("memory.low", text(self.memory_low)),
                ("memory.high", text(self.memory_high)),
            ],
        };
        let files = in_both.into_iter().chain(in_one).filter_map(|(file, text)| Some((file.to_owned(), text?)));
        let limit = named("limit_in_bytes", "max");
        let pages =
            self.huge_pages.iter().map(|(size, most)| (format!("hugetlb.{}.{limit}", page_size_name(*size)), most.to_string()));
        files.chain(pages).collect()
    }
}

/// v2 controllers that the node hands down, where the machine offers them.
const HANDED_DOWN: [&str; 6] = ["cpu", "cpuset", "hugetlb", "io", "memory", "pids"];
/// v2 controllers without which a cgroup does not count as made.
const COUNTED: [&str; 5] = ["cpu", "cpuset", "hugetlb", "memory", "pids"];

impl CgroupTree {
    /// Makes a cgroup in every hierarchy.
    pub(super) fn create(&self, name: &CgroupName) -> Result<(), CgroupError> {
        self.create_with(name, &Values::default())
    }

    /// Makes a cgroup in every hierarchy and writes its values.
    ///
    /// **Invariant:** [`CgroupTree::is_complete`] holds only once every value is written, wherever this was cut off.
    pub(super) fn create_with(&self, name: &CgroupName, values: &Values) -> Result<(), CgroupError> {
        for mount in &self.hierarchies.mounts {
            let dir = self.dir_in(&mount.point, name);
            match self.version() {
                Version::V1 => {
                    make_v1(&mount.point, &dir, mount.has("cpuset"))?;
                    write_v1(&dir, |controller| mount.has(controller), values)?;
                }
                Version::V2 => {
                    self.make_v2(&dir)?;
                    write_v2(&dir, values)?;
                    enable(&dir, &HANDED_DOWN)?;
                }
            }
        }
        Ok(())
    }

    /// Writes values of a cgroup that is there.
    pub(super) fn write(&self, name: &CgroupName, values: &Values) -> Result<(), CgroupError> {
        self.hierarchies.mounts.iter().try_for_each(|mount| {
            let dir = self.dir_in(&mount.point, name);
            match self.version() {
                Version::V1 => write_v1(&dir, |controller| mount.has(controller), values),
                Version::V2 => write_v2(&dir, values),
            }
        })
    }

    /// Whether a cgroup stands in every hierarchy (v1), or has every controller and hands it down (v2).
    pub(super) fn is_complete(&self, name: &CgroupName) -> bool {
        self.hierarchies.mounts.iter().all(|mount| {
            let dir = self.dir_in(&mount.point, name);
            match self.version() {
                Version::V1 => dir.is_dir(),
                Version::V2 => {
                    let offered = controllers(&mount.point, "cgroup.controllers");
                    let wanted = || COUNTED.into_iter().filter(|controller| offered.iter().any(|have| have == controller));
                    ["cgroup.controllers", "cgroup.subtree_control"].into_iter().all(|file| {
                        let have = controllers(&dir, file);
                        dir.is_dir() && wanted().all(|controller| have.iter().any(|it| it == controller))
                    })
                }
            }
        })
    }

    /// Makes a v2 directory, handing the controllers down from the root of the hierarchy.
    fn make_v2(&self, dir: &Path) -> Result<(), CgroupError> {
        let point = &self.hierarchies.mounts[0].point;
        let mut at = point.clone();
        for part in dir.strip_prefix(point).unwrap_or(dir) {
            enable(&at, &HANDED_DOWN)?;
            at.push(part);
            make(&at)?;
        }
        Ok(())
    }
}

fn make_v1(point: &Path, dir: &Path, cpuset: bool) -> Result<(), CgroupError> {
    if !cpuset {
        return fs::create_dir_all(dir).map_err(|cause| CgroupError::Create { path: dir.to_owned(), cause });
    }
    // A new cpuset has no processors. cgroups-rs copies the parent's, from wherever up the path there are some.
    let controller = CpuSetController::new(dir.to_owned(), point.to_owned(), false);
    controller.create().map_err(|cause| CgroupError::Write { what: "cpuset", path: dir.to_owned(), cause })
}

fn make(dir: &Path) -> Result<(), CgroupError> {
    match fs::create_dir(dir) {
        Err(cause) if !dir.is_dir() => Err(CgroupError::Create { path: dir.to_owned(), cause }),
        _ => Ok(()),
    }
}

/// Hands controllers down to the children of a v2 cgroup, as far as it has them itself.
fn enable(dir: &Path, wanted: &[&str]) -> Result<(), CgroupError> {
    let offered = controllers(dir, "cgroup.controllers");
    let enabled = controllers(dir, "cgroup.subtree_control");
    let missing =
        wanted.iter().filter(|name| offered.iter().any(|have| have == *name) && !enabled.iter().any(|have| have == *name));
    let words: Vec<String> = missing.map(|name| format!("+{name}")).collect();
    if words.is_empty() {
        return Ok(());
    }
    let words = words.join(" ");
    fs::write(dir.join("cgroup.subtree_control"), &words).map_err(|cause| CgroupError::Enable {
        controllers: words,
        path: dir.to_owned(),
        cause,
    })
}

/// Words of a file, none where it cannot be read.
fn controllers(dir: &Path, file: &str) -> Vec<String> {
    let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
    // A fake tree in tests keeps what was written, plus signs and all.
    text.split_whitespace().map(|word| word.trim_start_matches('+').to_owned()).collect()
}

fn write_v1(dir: &Path, has: impl Fn(&str) -> bool, values: &Values) -> Result<(), CgroupError> {
    if has("cpu") {
        write_cpu(dir, false, values.shares, values.quota)?;
    }
    if has("memory") {
        let memory = MemController::new(dir.to_owned(), PathBuf::new(), false);
        put(dir, "memory.limit_in_bytes", values.memory_limit, |limit| memory.set_limit(signed(limit)))?;
    }
    if has("pids") {
        write_pids(dir, values.pids_limit)?;
    }
    if has("hugetlb") {
        write_huge_pages(dir, false, &values.huge_pages)?;
    }
    Ok(())
}

fn write_v2(dir: &Path, values: &Values) -> Result<(), CgroupError> {
    let have = controllers(dir, "cgroup.controllers");
    let has = |controller: &str| have.iter().any(|it| it == controller);
    if has("cpu") {
        write_cpu(dir, true, values.weight.or(values.shares.map(cpu::weight)), values.quota)?;
    }
    if has("memory") {
        let memory = MemController::new(dir.to_owned(), PathBuf::new(), true);
        let value = |bytes: Option<u64>| bytes.map(|bytes| MaxValue::Value(signed(bytes)));
        let set = SetMemory {
            low: value(values.memory_low),
            high: value(values.memory_high),
            min: value(values.memory_min),
            max: value(values.memory_limit),
        };
        put(dir, "memory.max, memory.high, memory.low, memory.min", Some(set), |set| memory.set_mem(set))?;
    }
    if has("pids") {
        write_pids(dir, values.pids_limit)?;
    }
    if has("hugetlb") {
        write_huge_pages(dir, true, &values.huge_pages)?;
    }
    Ok(())
}

fn write_cpu(dir: &Path, v2: bool, shares: Option<u64>, quota: Option<(i64, u64)>) -> Result<(), CgroupError> {
    let controller = CpuController::new(dir.to_owned(), PathBuf::new(), v2);
    put(dir, if v2 { "cpu.weight" } else { "cpu.shares" }, shares, |shares| controller.set_shares(shares))?;
    put(dir, if v2 { "cpu.max" } else { "cpu.cfs_quota_us" }, quota, |(quota, period)| {
        // The period first where both are files of their own: a quota longer than the old period's parent allows is refused.
        if !v2 {
            controller.set_cfs_period(period)?;
            return controller.set_cfs_quota(quota);
        }
        controller.set_cfs_quota_and_period(Some(quota), Some(period))
    })
}

fn write_pids(dir: &Path, limit: Option<u64>) -> Result<(), CgroupError> {
    let controller = PidController::new(dir.to_owned(), PathBuf::new(), false);
    put(dir, "pids.max", limit, |limit| controller.set_pid_max(MaxValue::Value(signed(limit))))
}

fn write_huge_pages(dir: &Path, v2: bool, pages: &BTreeMap<u64, u64>) -> Result<(), CgroupError> {
    let controller = HugeTlbController::new(dir.to_owned(), PathBuf::new(), v2);
    pages.iter().try_for_each(|(size, limit)| {
        put(dir, "hugetlb", Some(*limit), |limit| controller.set_limit_in_bytes(&page_size_name(*size), limit))
    })
}

fn put<T>(
    dir: &Path,
    what: &'static str,
    value: Option<T>,
    write: impl FnOnce(T) -> Result<(), Error>,
) -> Result<(), CgroupError> {
    match value {
        Some(value) => write(value).map_err(|cause| CgroupError::Write { what, path: dir.to_owned(), cause }),
        None => Ok(()),
    }
}

/// A page size as hugetlb's file names have it: `64KB`, `2MB`, `1GB`. The kernel rounds, and has only sizes where that changes nothing; a
/// manifest may name any, and must not have that of another one written.
fn page_size_name(size: u64) -> String {
    let units = [("GB", 30), ("MB", 20), ("KB", 10)];
    let fitting = units.into_iter().find(|(_, shift)| size >> shift > 0 && size.trailing_zeros() >= *shift);
    fitting.map_or_else(|| format!("{size}B"), |(unit, shift)| format!("{}{unit}", size >> shift))
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_size_of_pages_has_the_name_of_another() {
        for (size, name) in [
            (64 << 10, "64KB"),
            (2 << 20, "2MB"),
            (512 << 20, "512MB"),
            (1 << 30, "1GB"),
            (16 << 30, "16GB"),
            ((1 << 30) + (512 << 20), "1536MB"),
            ((2 << 20) + (4 << 10), "2052KB"),
            (1000, "1000B"),
        ] {
            assert_eq!(page_size_name(size), name);
        }
    }
}
