//! Everything that configuration files and flags come to: what the agent is built from. `config` makes it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use polylet_core::config::{Config, DeadLimits, Rate, Threshold};
use polylet_core::paths::Paths;
use polylet_core::pod::Source;
use polylet_core::question::restart::Bounds;
use polylet_machine::facts::MachineFacts;
use polylet_machine::userns::IDS_PER_POD;

use crate::source::fetch::ManifestUrl;

/// The agent's settings, checked and complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Lower case.
    pub node_name: String,
    /// At most one of each family, the primary first; empty: found on the machine.
    pub node_ips: Vec<IpAddr>,
    /// Root, pod logs and log links.
    pub paths: Paths,
    /// `staticPodPath`, made absolute; None: no static pods.
    pub static_pod_path: Option<PathBuf>,
    /// `fileCheckFrequency`.
    pub file_check: Duration,
    /// `staticPodURL` and its headers; None: no static pods from there.
    pub static_pod_url: Option<ManifestUrl>,
    /// `httpCheckFrequency`.
    pub http_check: Duration,
    /// `containerRuntimeEndpoint`.
    pub runtime_endpoint: String,
    /// `imageServiceEndpoint`, where it is another.
    pub image_endpoint: Option<String>,
    /// `runtimeRequestTimeout`.
    pub runtime_timeout: Duration,
    /// `cgroupRoot`, `/` by default.
    pub cgroup_root: String,
    /// `cgroupsPerQOS`.
    pub cgroups_per_qos: bool,
    /// `enforceNodeAllocatable` holds `pods`.
    pub enforce_pods: bool,
    /// `clusterDNS`.
    pub cluster_dns: Vec<String>,
    /// `clusterDomain`.
    pub cluster_domain: String,
    /// `resolvConf`; empty: none.
    pub resolv_conf: String,
    /// `cpuCFSQuota`.
    pub cpu_quota: bool,
    /// `cpuCFSQuotaPeriod` in microseconds.
    pub cpu_period_us: u64,
    /// `podCIDR`: one range, or one of each family with a comma between them; empty: the runtime knows.
    pub pod_cidr: String,
    /// `podPidsLimit`, where above zero.
    pub pids_limit: Option<u64>,
    /// `seccompDefault`.
    pub seccomp_default: bool,
    /// `singleProcessOOMKill`; None: as the version of the cgroups has it.
    pub single_process_oom_kill: Option<bool>,
    /// `allowedUnsafeSysctls`: names, or the beginnings of names with `*` after them.
    pub unsafe_sysctls: Vec<String>,
    /// `userNamespaces.idsPerPod`.
    pub ids_per_pod: u32,
    /// `failCgroupV1`.
    pub fail_cgroup_v1: bool,
    /// `failSwapOn`.
    pub fail_swap_on: bool,
    /// `protectKernelDefaults`: the kernel must be set as a node needs it, and is not touched.
    pub protect_kernel_defaults: bool,
    /// `kernelTunables`.
    pub kernel_tunables: KernelTunables,
    /// `oomScoreAdj`.
    pub oom_score_adj: i32,
    /// `maxPods`.
    pub max_pods: u32,
    /// The flags `--maximum-dead-containers-per-container`, `--maximum-dead-containers` and `--minimum-container-ttl-duration`.
    pub dead: DeadLimits,
    /// At most this many pulls at once.
    pub parallel_pulls: usize,
    /// `registryPullQPS` and `registryBurst`: how often a pull may begin; None: without a limit.
    pub pull_rate: Option<Rate>,
    /// Longest delay of the crash backoff (`crashLoopBackOff.maxContainerRestartPeriod`), 300 s by default.
    pub crash_backoff_max: Duration,
    /// Millicores kept from pods: `kubeReserved` and `systemReserved` together.
    pub reserved_cpu: u64,
    /// Bytes, likewise.
    pub reserved_memory: u64,
    /// Process numbers, likewise.
    pub reserved_pids: u64,
    /// Bytes of ephemeral storage, likewise.
    pub reserved_storage: u64,
    /// Hard and soft, in the file's order.
    pub thresholds: Vec<Threshold>,
    /// `localStorageCapacityIsolation`: limits of local storage are enforced, and there is ephemeral storage to ask for.
    pub local_storage_limits: bool,
    /// `volumeStatsAggPeriod`: how often volumes are measured; None where a negative one switches that off.
    pub volume_stats: Option<Duration>,
    /// `evictionPressureTransitionPeriod`.
    pub pressure_transition: Duration,
    /// `evictionMaxPodGracePeriod`.
    pub eviction_max_grace: Duration,
    /// `healthzBindAddress` and `healthzPort`; None: port 0.
    pub health: Option<SocketAddr>,
    /// `address` and `readOnlyPort`; None: port 0.
    pub read_only: Option<SocketAddr>,
    /// `logging.format: json`.
    pub log_json: bool,
    /// `containerLog…`; None where a negative `containerLogMaxSize` switches it off.
    pub log_rotation: Option<LogRotation>,
    /// `-v`: 0 is info, from 4 on debug, from 8 on trace.
    pub verbosity: u8,
    /// Directory of policy bindings.
    pub policy_dir: PathBuf,
    /// Directory of compiled policies.
    pub policy_cache: PathBuf,
    /// Directory of the store and of decisions.
    pub state_dir: PathBuf,
    /// The administration socket.
    pub admin_socket: PathBuf,
    /// Bounds that policies live in.
    pub policy_bounds: PolicyBounds,
    /// The CNI configuration that this node writes; None: it writes none.
    pub network: Option<NetworkTemplate>,
}

/// What becomes of settings of the kernel that are not as a node needs them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelTunables {
    /// They are left as they are.
    Leave,
    /// They are set, as upstream does it.
    #[default]
    Set,
}

/// A CNI configuration, and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkTemplate {
    /// `network.template`: the file of the template.
    pub template: PathBuf,
    /// `network.file`: where the configuration is written; None: into the runtime's directory, as
    /// [`NetworkTemplate::DEFAULT_NAME`].
    pub file: Option<PathBuf>,
}

impl NetworkTemplate {
    /// Name of the file where none is given.
    pub const DEFAULT_NAME: &str = "10-polylet.conflist";
}

/// When the logs of containers are rotated, and what is kept of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRotation {
    /// `containerLogMaxSize`: a log of so many bytes is rotated.
    pub max_size: u64,
    /// `containerLogMaxFiles` of one container's attempt, the one that is written to among them.
    pub max_files: usize,
    /// `containerLogMaxWorkers`: so many logs are rotated at once.
    pub workers: usize,
    /// `containerLogMonitorInterval`.
    pub interval: Duration,
}

impl Default for LogRotation {
    fn default() -> Self {
        Self { max_size: 10 << 20, max_files: 5, workers: 1, interval: Duration::from_secs(10) }
    }
}

/// What the operator allows policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyBounds {
    /// A restart policy may give a container up.
    pub allow_give_up: bool,
    /// A qos policy may choose another tier.
    pub allow_tier: bool,
    /// Static pods may be evicted too, but for those of a critical priority.
    pub evict_static: bool,
    /// How long a probe policy may keep a failure from counting.
    pub probe_mercy: Duration,
}

impl Default for PolicyBounds {
    fn default() -> Self {
        Self { allow_give_up: false, allow_tier: false, evict_static: false, probe_mercy: Duration::from_secs(60) }
    }
}

/// What the machine and the runtime add to the settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Bytes.
    pub memory: u64,
    /// Logical processors.
    pub cpus: u64,
    /// Bytes of the file system that the root directory lies on.
    pub storage: u64,
    /// Bytes of huge pages set aside, by the size of a page in bytes.
    pub huge_pages: BTreeMap<u64, u64>,
    /// AppArmor is in use.
    pub apparmor: bool,
    /// The runtime honours `supplementalGroupsPolicy: Strict`.
    pub supplemental_groups_policy: bool,
    /// Primary first.
    pub node_ips: Vec<String>,
    /// `runtime_name` of CRI `Version`.
    pub runtime_name: String,
}

/// More is reserved than there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "kubeReserved.{resource} and systemReserved.{resource} together are {reserved}, and this machine has {capacity}: reserve less{}",
    if *resource == "cpu" { " (in thousandths of a processor)" } else { "" }
)]
pub struct ReservedError {
    /// As the configuration names it.
    pub resource: &'static str,
    /// Together.
    pub reserved: u64,
    /// Of the machine.
    pub capacity: u64,
}

impl Settings {
    /// Defaults below a root directory, for a node of this name: the legacy flags' defaults, without any file.
    pub fn below(root: impl Into<PathBuf>, node_name: &str) -> Self {
        let root = root.into();
        Self {
            node_name: node_name.to_lowercase(),
            node_ips: Vec::new(),
            paths: Paths { pod_logs: "/var/log/pods".into(), container_logs: "/var/log/containers".into(), root: root.clone() },
            static_pod_path: None,
            file_check: Duration::from_secs(20),
            static_pod_url: None,
            http_check: Duration::from_secs(20),
            runtime_endpoint: "unix:///run/containerd/containerd.sock".into(),
            image_endpoint: None,
            runtime_timeout: Duration::from_secs(120),
            cgroup_root: "/".into(),
            cgroups_per_qos: true,
            enforce_pods: true,
            cluster_dns: Vec::new(),
            cluster_domain: String::new(),
            resolv_conf: "/etc/resolv.conf".into(),
            cpu_quota: true,
            cpu_period_us: 100_000,
            pod_cidr: String::new(),
            pids_limit: None,
            seccomp_default: false,
            single_process_oom_kill: None,
            unsafe_sysctls: Vec::new(),
            ids_per_pod: IDS_PER_POD,
            fail_cgroup_v1: true,
            fail_swap_on: true,
            protect_kernel_defaults: false,
            kernel_tunables: KernelTunables::default(),
            oom_score_adj: -999,
            max_pods: 110,
            dead: DeadLimits::default(),
            parallel_pulls: 1,
            pull_rate: Some(Rate { per_second: 5, burst: 10 }),
            crash_backoff_max: Duration::from_secs(300),
            reserved_cpu: 0,
            reserved_memory: 0,
            reserved_pids: 0,
            reserved_storage: 0,
            thresholds: Vec::new(),
            local_storage_limits: true,
            volume_stats: Some(Duration::from_secs(60)),
            pressure_transition: Duration::from_secs(300),
            eviction_max_grace: Duration::ZERO,
            health: Some(SocketAddr::from(([127, 0, 0, 1], 10248))),
            read_only: None,
            log_json: false,
            log_rotation: Some(LogRotation::default()),
            verbosity: 0,
            policy_dir: root.join("policies"),
            policy_cache: root.join("policy-cache"),
            state_dir: root.join("polylet"),
            admin_socket: root.join("polylet.sock"),
            policy_bounds: PolicyBounds::default(),
            network: None,
        }
    }

    /// What is reserved must be there.
    ///
    /// # Errors
    /// The first resource of which `kubeReserved` and `systemReserved` together take more than the machine has.
    pub fn check_reserved(&self, machine: &MachineFacts, storage: u64) -> Result<(), ReservedError> {
        let all = [
            ("cpu", self.reserved_cpu, machine.cpus * 1000),
            ("memory", self.reserved_memory, machine.memory),
            // Without isolation it is no resource, and what is kept of it is not looked at, as upstream.
            ("ephemeral-storage", self.reserved_storage, if self.local_storage_limits { storage } else { u64::MAX }),
            ("pid", self.reserved_pids, machine.max_pids),
        ];
        let over = all.into_iter().find(|(_, reserved, capacity)| reserved > capacity);
        over.map_or(Ok(()), |(resource, reserved, capacity)| Err(ReservedError { resource, reserved, capacity }))
    }

    /// The core's settings.
    pub fn core(&self, found: &Found) -> Config {
        let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        // What a hard threshold keeps free is not the pods' to ask for.
        let kept = |signal: &str, capacity: u64| {
            let hard = self.thresholds.iter().find(|t| t.signal == signal && t.grace.is_none());
            hard.map_or(0, |t| t.below.of(capacity))
        };
        // Without isolation the node has none that a pod could ask for.
        let storage = if self.local_storage_limits { found.storage } else { 0 };
        Config {
            node_name: self.node_name.clone(),
            node_ips: found.node_ips.clone(),
            sources: [Some(Source::File), self.static_pod_url.as_ref().map(|_| Source::Http)].into_iter().flatten().collect(),
            restart: Bounds::crash_up_to(ms(self.crash_backoff_max)),
            image_backoff: Bounds::IMAGE_PULL,
            relist: Duration::from_secs(1),
            relist_with_events: Duration::from_secs(10),
            sampling: Duration::from_secs(10),
            max_pods: self.max_pods,
            parallel_pulls: self.parallel_pulls,
            pull_rate: self.pull_rate,
            dead: self.dead,
            allow_give_up: self.policy_bounds.allow_give_up,
            allow_tier: self.policy_bounds.allow_tier,
            evict_static: self.policy_bounds.evict_static,
            probe_mercy: self.policy_bounds.probe_mercy,
            memory_capacity: found.memory,
            memory_allocatable: found
                .memory
                .saturating_sub(self.reserved_memory)
                .saturating_sub(kept("memory.available", found.memory))
                .saturating_sub(found.huge_pages.values().copied().fold(0, u64::saturating_add)),
            cpu_capacity: found.cpus * 1000,
            cpu_allocatable: (found.cpus * 1000).saturating_sub(self.reserved_cpu),
            local_storage_limits: self.local_storage_limits,
            storage_allocatable: storage.saturating_sub(self.reserved_storage).saturating_sub(kept("nodefs.available", storage)),
            huge_pages: found.huge_pages.clone(),
            apparmor: found.apparmor,
            supplemental_groups_policy: found.supplemental_groups_policy,
            thresholds: self.thresholds.clone(),
            pressure_transition: self.pressure_transition,
            eviction_max_grace: self.eviction_max_grace,
            runtime_name: found.runtime_name.clone(),
        }
    }
}
