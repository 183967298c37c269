//! Processes and what they use of the cpu.

use std::fs;
use std::io;
use std::path::Path;

use super::{StatsError, read};
use crate::cgroup::Version;

/// The controller that counts what is used of the cpu (v2 has all in one place).
pub(super) const CPU: &str = "cpuacct";

/// Processes and threads that there are and that there may be, and the load average of one minute in hundredths.
pub(super) fn of_machine() -> Result<(u64, u64, u64), StatsError> {
    let number = |path: &str| {
        let text = read(path.as_ref())?;
        text.trim().parse::<u64>().map_err(|error| bad(path, error.to_string()))
    };
    let path = "/proc/loadavg";
    let loadavg = read(path.as_ref())?;
    let (running, load) = parse_loadavg(&loadavg).ok_or_else(|| bad(path, "not load averages".to_owned()))?;
    Ok((running, number("/proc/sys/kernel/pid_max")?.min(number("/proc/sys/kernel/threads-max")?), load))
}

/// Processes in a cgroup and below it. None where it is not there.
pub(super) fn of_cgroup(dir: &Path) -> Option<u64> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).ok()?;
    let below = fs::read_dir(dir).ok()?.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Some(text.lines().count() as u64 + below.filter_map(|entry| of_cgroup(&entry.path())).sum::<u64>())
}

/// Nanoseconds of cpu that a cgroup with all below it has used since it was made.
pub(super) fn cpu_nanos(version: Version, dir: &Path) -> Option<u64> {
    match version {
        Version::V1 => fs::read_to_string(dir.join("cpuacct.usage")).ok()?.trim().parse().ok(),
        Version::V2 => {
            let stat = fs::read_to_string(dir.join("cpu.stat")).ok()?;
            let line = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
            line.trim().parse::<u64>().ok()?.checked_mul(1000)
        }
    }
}

/// `0.52 0.58 0.59 2/345 6789`: tasks that there are, and the first average in hundredths.
fn parse_loadavg(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split_whitespace();
    let load: f64 = fields.next()?.parse().ok()?;
    let tasks = fields.nth(2)?.split_once('/')?.1.parse().ok()?;
    Some((tasks, (load * 100.0).round() as u64))
}

fn bad(path: &str, what: String) -> StatsError {
    StatsError { path: path.into(), cause: io::Error::new(io::ErrorKind::InvalidData, what) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_averages() {
        assert_eq!(parse_loadavg("0.52 0.58 0.59 2/345 6789\n"), Some((345, 52)));
        for text in ["", "0.52", "0.52 0.58 0.59 2 6789", "x 0 0 1/2 3"] {
            assert_eq!(parse_loadavg(text), None, "{text}");
        }
    }
}
