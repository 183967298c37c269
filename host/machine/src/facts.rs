//! What the machine says of itself: memory, processors, boot, clocks.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use polylet_core::time::{Mono, Now, Wall};
use rustix::time::{ClockId, clock_gettime};

/// What does not change while the machine is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// Bytes: all memory (`MemTotal`).
    pub memory: u64,
    /// Bytes: all swap.
    pub swap: u64,
    /// Logical processors that are online.
    pub cpus: u64,
    /// Bytes of a page.
    pub page_size: u64,
    /// Names this boot; another one after the next.
    pub boot_id: String,
    /// Process numbers that the kernel has to give: the lesser of `pid_max` and `threads-max`.
    pub max_pids: u64,
    /// Bytes of huge pages set aside, by the size of a page in bytes; sizes that the kernel knows and has none of are there too.
    pub huge_pages: BTreeMap<u64, u64>,
    /// AppArmor is in use.
    pub apparmor: bool,
}

/// A file that could not be read, or not understood.
#[derive(Debug, thiserror::Error)]
#[error("read machine facts from {path}")]
pub struct FactsError {
    /// Which file.
    pub path: String,
    /// Why.
    #[source]
    pub cause: io::Error,
}

impl MachineFacts {
    /// Reads them.
    pub fn read() -> Result<Self, FactsError> {
        let meminfo = read("/proc/meminfo")?;
        let number = |path| {
            let text = read(path)?;
            text.trim().parse::<u64>().map_err(|error| bad(path, error.to_string()))
        };
        Ok(Self {
            memory: kilobytes(&meminfo, "MemTotal").ok_or_else(|| bad("/proc/meminfo", "no MemTotal"))?,
            swap: kilobytes(&meminfo, "SwapTotal").unwrap_or(0),
            cpus: cpus()?,
            page_size: rustix::param::page_size() as u64,
            boot_id: read("/proc/sys/kernel/random/boot_id")?.trim().to_owned(),
            max_pids: number("/proc/sys/kernel/pid_max")?.min(number("/proc/sys/kernel/threads-max")?),
            huge_pages: huge_pages(),
            apparmor: fs::read_to_string("/sys/module/apparmor/parameters/enabled").is_ok_and(|text| text.trim() == "Y"),
        })
    }
}

/// The kernel can bound how much swap a container uses.
pub fn has_swap_controller() -> bool {
    let hierarchy = Path::new("/sys/fs/cgroup");
    if !hierarchy.join("cgroup.controllers").exists() {
        return hierarchy.join("memory/memory.memsw.limit_in_bytes").exists();
    }
    // The root of the unified hierarchy has no limits; what lies below it does.
    let below = fs::read_dir(hierarchy).into_iter().flatten().flatten();
    below.map(|entry| entry.path()).any(|dir| dir.join("memory.swap.max").exists())
}

/// Both clocks: the wall's, and milliseconds since boot, suspended time included.
pub fn now() -> Now {
    Now { wall: Wall(clock(ClockId::Realtime)), mono: Mono(clock(ClockId::Boottime)) }
}

fn clock(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000)
}

/// Logical processors that are online.
pub(crate) fn cpus() -> Result<u64, FactsError> {
    let path = "/sys/devices/system/cpu/online";
    online(&read(path)?).ok_or_else(|| bad(path, "not a list of processors"))
}

/// Bytes of huge pages set aside, by the size of a page in bytes; none where the kernel has none.
pub(crate) fn huge_pages() -> BTreeMap<u64, u64> {
    let Ok(entries) = fs::read_dir("/sys/kernel/mm/hugepages") else { return BTreeMap::new() };
    let pages = |entry: fs::DirEntry| {
        let size = entry.file_name().to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()? << 10;
        let count: u64 = fs::read_to_string(entry.path().join("nr_hugepages")).ok()?.trim().parse().ok()?;
        Some((size, count.saturating_mul(size)))
    };
    entries.flatten().filter_map(pages).collect()
}

/// Bytes of the file system that a path lies on.
///
/// # Errors
/// The path is not there.
pub fn storage(path: &Path) -> Result<u64, FactsError> {
    let failed = |errno: rustix::io::Errno| FactsError { path: path.display().to_string(), cause: errno.into() };
    let stat = rustix::fs::statvfs(path).map_err(failed)?;
    Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
}

/// A line of meminfo (`MemTotal:  24105 kB`), in bytes.
pub(crate) fn kilobytes(meminfo: &str, key: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// How many processors a list such as `0-3,7` names.
fn online(list: &str) -> Option<u64> {
    list.trim().split(',').try_fold(0u64, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
        Some(count + (last.checked_sub(first)? + 1))
    })
}

fn read(path: &str) -> Result<String, FactsError> {
    fs::read_to_string(Path::new(path)).map_err(|cause| FactsError { path: path.to_owned(), cause })
}

fn bad(path: &str, what: impl Into<String>) -> FactsError {
    FactsError { path: path.to_owned(), cause: io::Error::new(io::ErrorKind::InvalidData, what.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_read() {
        let facts = MachineFacts::read().expect("read this machine");
        assert!(facts.memory > 1 << 20 && facts.cpus >= 1 && facts.max_pids > 100, "{facts:?}");
        assert_eq!(facts.boot_id.len(), 36);
        let (before, after) = (now(), now());
        assert!(before.mono.0 > 0 && after.mono >= before.mono && before.wall.0 > 1_600_000_000_000);
    }

    #[test]
    fn lists_of_processors() {
        for (list, count) in [("0\n", Some(1)), ("0-3", Some(4)), ("0-1,4,6-7", Some(5)), ("3-1", None), ("x", None)] {
            assert_eq!(online(list), count, "{list}");
        }
    }
}
