//! The operator's settings as far as decisions need them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::question::eviction::Starved;
use crate::question::restart::Bounds;

/// Settings of a node; they do not change while it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Name of the node, lower case.
    pub node_name: String,
    /// The node's IPs, primary first: what pods on the host network report.
    pub node_ips: Vec<String>,
    /// The sources that must be heard before anything is ended.
    pub sources: Vec<crate::pod::Source>,
    /// Crash backoff and the bounds of a restart policy.
    pub restart: Bounds,
    /// Image pull backoff.
    pub image_backoff: Bounds,
    /// How often the runtime is listed.
    pub relist: Duration,
    /// How often the runtime is listed while events arrive.
    pub relist_with_events: Duration,
    /// How often signals are sampled.
    pub sampling: Duration,
    /// `maxPods`.
    pub max_pods: u32,
    /// At most this many pulls at once; 1 is `serializeImagePulls`.
    pub parallel_pulls: usize,
    /// How often a pull may begin; None: as often as it is wanted.
    pub pull_rate: Option<Rate>,
    /// How many dead containers are kept.
    pub dead: DeadLimits,
    /// A restart policy may give a container up.
    pub allow_give_up: bool,
    /// A qos policy may choose another tier.
    pub allow_tier: bool,
    /// Static pods may be evicted, but for those of a critical priority. The kubelet never does.
    pub evict_static: bool,
    /// `localStorageCapacityIsolation`: pods that exceed their own limits of local storage are evicted.
    pub local_storage_limits: bool,
    /// How long a probe policy may keep a liveness failure from counting.
    pub probe_mercy: Duration,
    /// Bytes of memory of the machine.
    pub memory_capacity: u64,
    /// Bytes that pods may use.
    pub memory_allocatable: u64,
    /// Millicores of the machine.
    pub cpu_capacity: u64,
    /// Millicores that pods may use.
    pub cpu_allocatable: u64,
    /// Bytes of ephemeral storage that pods may use.
    pub storage_allocatable: u64,
    /// Bytes of huge pages that the machine has set aside, by the size of a page in bytes.
    pub huge_pages: BTreeMap<u64, u64>,
    /// AppArmor profiles can be enforced.
    pub apparmor: bool,
    /// The runtime honours `supplementalGroupsPolicy: Strict`.
    pub supplemental_groups_policy: bool,
    /// Eviction thresholds.
    pub thresholds: Vec<Threshold>,
    /// `evictionPressureTransitionPeriod`.
    pub pressure_transition: Duration,
    /// `evictionMaxPodGracePeriod`.
    pub eviction_max_grace: Duration,
    /// Name before `://` in container ids, from CRI `Version`.
    pub runtime_name: String,
}

/// How many dead containers are kept, the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLimits {
    /// Of each container. Zero: none but such as tell whether a container is to run again, from the next count on.
    pub per_container: usize,
    /// Of all pods together, the same excepted. None: without a limit.
    pub total: Option<usize>,
    /// One that was created less long ago is not counted.
    pub least_age: Duration,
}

impl Default for DeadLimits {
    /// The kubelet's.
    fn default() -> Self {
        Self { per_container: 1, total: None, least_age: Duration::ZERO }
    }
}

/// How often something may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// In the long run.
    pub per_second: u32,
    /// At once, after a pause.
    pub burst: u32,
}

/// One eviction threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// Upstream's signal name.
    pub signal: String,
    /// What it speaks of.
    pub starved: Starved,
    /// Evict below this.
    pub below: Quantity,
    /// Win back this much beyond.
    pub reclaim: Quantity,
    /// None for a hard threshold, else how long it must hold.
    pub grace: Option<Duration>,
}

/// An amount, absolute or a share of the capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    /// Bytes, inodes or processes.
    Amount(u64),
    /// Percent of the capacity, truncated.
    Percent(f32),
}

impl Quantity {
    /// The amount for a capacity.
    pub fn of(self, capacity: u64) -> u64 {
        match self {
            Self::Amount(n) => n,
            // In 32 bits, as upstream: 15 % of 100 GiB are 16106128000 bytes.
            Self::Percent(p) => (capacity as f64 * f64::from(p / 100.0)) as u64,
        }
    }
}
