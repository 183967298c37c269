//! A cgroup as the kernel has it, under v1 and v2.

use std::path::PathBuf;

/// A cgroup by its path below the mounts of the hierarchies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup(String);

impl Cgroup {
    /// By path.
    pub fn at(path: &str) -> Self {
        Self(path.to_owned())
    }

    /// The one that a process is in: of v1's, the memory controller's.
    ///
    /// # Panics
    /// When the process has ended.
    pub fn of(pid: u32) -> Self {
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("a process that lives");
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.splitn(3, ':').collect()).collect();
        let of = |wanted: &str| lines.iter().find(|l| l[1].split(',').any(|controller| controller == wanted)).map(|l| l[2]);
        Self(of("memory").or_else(|| of("")).expect("a cgroup").to_owned())
    }

    /// Its path.
    pub fn path(&self) -> &str {
        &self.0
    }

    /// Whether any hierarchy has it.
    pub fn exists(&self) -> bool {
        !self.directories().is_empty()
    }

    /// Removes it from every hierarchy that has it; false where it is in use.
    pub fn remove(&self) -> bool {
        let below = |dir: &PathBuf| std::fs::remove_dir(dir).is_ok();
        self.directories().iter().all(below)
    }

    /// Bytes of memory that its processes may use.
    pub fn memory_limit(&self) -> Option<u64> {
        self.read("memory.max").or_else(|| self.read("memory.limit_in_bytes"))?.parse().ok()
    }

    /// Millicores that its processes may use.
    pub fn cpu_limit(&self) -> Option<u64> {
        let (quota, period) = match self.read("cpu.max") {
            Some(both) => both.split_once(' ').map(|(quota, period)| (quota.to_owned(), period.to_owned()))?,
            None => (self.read("cpu.cfs_quota_us")?, self.read("cpu.cfs_period_us")?),
        };
        Some(quota.parse::<u64>().ok()? * 1000 / period.parse::<u64>().ok()?)
    }

    /// Whether its share beside its siblings is this one: v1's count of it, which v2 keeps as a weight.
    pub fn has_shares(&self, shares: u64) -> bool {
        self.has_shares_or_weight(shares, &[linear_weight(shares)])
    }

    /// The same of a container, whose weight is what its runtime makes of the shares: one of two.
    pub fn has_shares_by_runtime(&self, shares: u64) -> bool {
        self.has_shares_or_weight(shares, &[linear_weight(shares), curved_weight(shares)])
    }

    fn has_shares_or_weight(&self, shares: u64, weights: &[u64]) -> bool {
        match self.read("cpu.shares") {
            Some(found) => found == shares.to_string(),
            None => self.read("cpu.weight").is_some_and(|found| weights.iter().any(|weight| found == weight.to_string())),
        }
    }

    fn read(&self, file: &str) -> Option<String> {
        let text = self.directories().into_iter().find_map(|dir| std::fs::read_to_string(dir.join(file)).ok())?;
        Some(text.trim().to_owned())
    }

    fn directories(&self) -> Vec<PathBuf> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("the mounts");
        let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<&str>>());
        let hierarchies = fields.filter(|f| f[2] == "cgroup" || f[2] == "cgroup2");
        hierarchies.map(|f| PathBuf::from(format!("{}{}", f[1], self.0))).filter(|path| path.is_dir()).collect()
    }
}

/// The kubelet's, and older runtimes': 2 to 262,144 on a line onto 1 to 10,000.
fn linear_weight(shares: u64) -> u64 {
    1 + (shares - 2) * 9_999 / 262_142
}

/// That of newer runtimes: a curve on which the default of both, 1,024 and 100, lies too.
fn curved_weight(shares: u64) -> u64 {
    let log = (shares as f64).log2();
    10_f64.powf((log * log + 125.0 * log) / 612.0 - 7.0 / 34.0).ceil() as u64
}
