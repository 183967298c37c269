//! What a node's translation of pods needs to know of it: one place for the agent, which acts upon it, and for `explain`, which shows it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use polylet_core::config::Config;
use polylet_machine::cgroup::Version;
use polylet_machine::facts::{self, FactsError, MachineFacts};
use polylet_runtime::cri::{StatusResponse, VersionResponse};
use polylet_runtime::{CallError, Capabilities, CgroupDriver, Client, HandlerFeatures, NodeContext, Swap, Way, page_size_name};
use tokio::sync::watch;

use crate::perform::locked;
use crate::settings::{Found, Settings};

/// The node as it is now. What the runtime can do changes with the runtime, which is upgraded while the agent runs; all else stays.
pub struct Current(Mutex<Known>);

struct Known {
    node: Arc<NodeContext>,
    /// As it was asked last.
    runtime: Capabilities,
}

/// Longest wait for a runtime that is asked anew.
const PATIENCE: Duration = Duration::from_secs(30);

impl Current {
    /// A node with this runtime.
    pub fn new(node: NodeContext, runtime: Capabilities) -> Self {
        Self(Mutex::new(Known { node: Arc::new(with(node, &runtime)), runtime }))
    }

    /// What stays the same for as long as it is held: an act takes it once.
    pub fn now(&self) -> Arc<NodeContext> {
        locked(&self.0).node.clone()
    }

    /// Asks the runtime anew what it can do where it was away or says something else of itself than before, `status` among it, and tells
    /// what has changed. False: it could not be asked, so that the next look has to try again.
    pub async fn renew(&self, client: &Client, status: &StatusResponse, way: &mut watch::Receiver<Way>, was_away: bool) -> bool {
        match tokio::time::timeout(PATIENCE, self.ask(client, status, way, was_away)).await {
            Ok(Ok(None)) => true,
            Ok(Ok(Some(runtime))) => {
                let changes = self.adopt(runtime);
                if !changes.is_empty() {
                    tracing::warn!("what the runtime can do has changed: {}", changes.join("; "));
                }
                true
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "the runtime does not say what it can do now");
                false
            }
            Err(_) => {
                tracing::debug!(seconds = PATIENCE.as_secs(), "the runtime does not say in time what it can do now");
                false
            }
        }
    }

    /// None: nothing points to another runtime than the one that was asked.
    async fn ask(
        &self,
        client: &Client,
        status: &StatusResponse,
        way: &mut watch::Receiver<Way>,
        was_away: bool,
    ) -> Result<Option<Capabilities>, CallError> {
        let version = client.version().await?;
        if !was_away && self.is_known(&version, status) {
            return Ok(None);
        }
        Capabilities::ask(client, way).await.map(Some)
    }

    fn is_known(&self, version: &VersionResponse, status: &StatusResponse) -> bool {
        locked(&self.0).runtime.hold(version, status)
    }

    /// From here on acts begin with what this runtime can do. Returns what has changed, in words.
    fn adopt(&self, runtime: Capabilities) -> Vec<String> {
        let mut known = locked(&self.0);
        let mut changes = Vec::new();
        for ((what, before), (_, now)) in abilities(&known.runtime).into_iter().zip(abilities(&runtime)) {
            if before != now {
                changes.push(format!("{what}: {before} before, {now} now"));
            }
        }
        if known.runtime.supplemental_groups_policy != runtime.supplemental_groups_policy {
            changes.push("pods are let in by the supplementalGroupsPolicy of before until the agent is started again".to_owned());
        }
        let is_systemd = |runtime: &Capabilities| runtime.cgroup_driver == Some(CgroupDriver::Systemd);
        if is_systemd(&runtime) && !is_systemd(&known.runtime) {
            let wanted = "pods are only placed by cgroupfs: configure the runtime for that (containerd: SystemdCgroup = false)";
            changes.push(wanted.to_owned());
        }
        let node = Arc::new(with(NodeContext::clone(&known.node), &runtime));
        *known = Known { node, runtime };
        changes
    }
}

fn with(node: NodeContext, runtime: &Capabilities) -> NodeContext {
    NodeContext {
        image_mounts: runtime.image_mounts.clone(),
        image_parts: runtime.image_parts.clone(),
        runtime_handlers: runtime.handlers.clone(),
        ..node
    }
}

/// What an operator should hear of when it changes. Of the handlers it is the default one: no pod has another.
fn abilities(runtime: &Capabilities) -> [(&'static str, String); 7] {
    let can = |can: bool| if can { "yes" } else { "no" }.to_owned();
    let driver = match runtime.cgroup_driver {
        Some(CgroupDriver::Systemd) => "systemd",
        Some(CgroupDriver::Cgroupfs) => "cgroupfs",
        None => "not told",
    };
    let handler = runtime.handler("");
    [
        ("runtime", format!("{} {}", runtime.runtime_name, runtime.runtime_version)),
        ("cgroup driver", driver.to_owned()),
        ("images as volumes", can(runtime.image_mounts.is_ok())),
        ("parts of images as volumes", can(runtime.image_parts.is_ok())),
        ("user namespaces", can(handler.user_namespaces)),
        ("recursive read-only mounts", can(handler.recursive_read_only_mounts)),
        ("supplementalGroupsPolicy: Strict", can(runtime.supplemental_groups_policy)),
    ]
}

/// What the runtime can do, as far as translation asks.
pub struct RuntimeFeatures {
    /// Of its handlers, by name.
    pub handlers: BTreeMap<String, HandlerFeatures>,
    /// Images can be mounted as volumes. Else: why not.
    pub image_mounts: Result<(), String>,
}

/// `cgroups`: the version of the hierarchy, where there is one.
pub fn node_context(
    settings: &Settings,
    machine: &MachineFacts,
    found: &Found,
    core: &Config,
    cgroups: Option<Version>,
    runtime: RuntimeFeatures,
) -> NodeContext {
    // `memorySwap.swapBehavior` is NoSwap: nothing else is accepted.
    let swap = facts::has_swap_controller().then_some(Swap { limited: false, capacity: machine.swap });
    NodeContext {
        paths: settings.paths.clone(),
        node_name: settings.node_name.clone(),
        node_ips: found.node_ips.clone(),
        cluster_dns: settings.cluster_dns.clone(),
        cluster_domain: settings.cluster_domain.clone(),
        cpu_cfs_quota: settings.cpu_quota,
        cpu_cfs_period_us: i64::try_from(settings.cpu_period_us).unwrap_or(100_000),
        seccomp_default: settings.seccomp_default,
        // Version 1 kills nothing but single processes.
        single_process_oom_kill: cgroups != Some(Version::V2) || settings.single_process_oom_kill == Some(true),
        cgroup_v2: cgroups == Some(Version::V2),
        swap,
        memory_capacity: machine.memory,
        memory_allocatable: core.memory_allocatable,
        cpu_allocatable_milli: core.cpu_allocatable,
        storage_allocatable: core.storage_allocatable,
        huge_page_sizes: machine.huge_pages.keys().map(|size| page_size_name(*size)).collect(),
        masked_paths: thermal_paths(machine.cpus),
        selinux: Path::new("/sys/fs/selinux/enforce").exists(),
        image_mounts: runtime.image_mounts,
        // Until a runtime has been asked.
        image_parts: Ok(()),
        runtime_handlers: runtime.handlers,
    }
}

/// Bytes of the file system that the root directory lies on, or will lie on: it may have to be made yet.
///
/// # Errors
/// The system does not tell.
pub fn storage_of_root(settings: &Settings) -> Result<u64, FactsError> {
    let root = &settings.paths.root;
    facts::storage(root.ancestors().find(|path| path.exists()).unwrap_or(root))
}

/// Directories of the processors that containers must not read.
fn thermal_paths(cpus: u64) -> Vec<String> {
    (0..cpus)
        .map(|n| format!("/sys/devices/system/cpu/cpu{n}/thermal_throttle"))
        .filter(|path| Path::new(path).exists())
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use polylet_core::event::RuntimeState;

    use super::*;

    fn machine() -> MachineFacts {
        MachineFacts {
            memory: 8 << 30,
            swap: 1 << 30,
            cpus: 1,
            page_size: 4096,
            boot_id: String::new(),
            max_pids: 1000,
            huge_pages: [(2 << 20, 64 << 20), (1 << 30, 0)].into(),
            apparmor: false,
        }
    }

    /// A node with the legacy flags' defaults, whose runtime has these features.
    pub(crate) fn node(features: HandlerFeatures) -> NodeContext {
        let settings = Settings::below(Path::new("/var/lib/kubelet"), "n1");
        let found = Found::default();
        let core = settings.core(&found);
        let runtime = RuntimeFeatures { handlers: [(String::new(), features)].into(), image_mounts: Ok(()) };
        node_context(&settings, &machine(), &found, &core, Some(Version::V2), runtime)
    }

    fn old() -> Capabilities {
        Capabilities {
            runtime_name: "containerd".into(),
            runtime_version: "1.6.20".into(),
            cgroup_driver: None,
            handlers: BTreeMap::new(),
            supplemental_groups_policy: false,
            image_mounts: Err("1.6.20 has none".into()),
            image_parts: Err("1.6.20 has none".into()),
            events: Way::Undecided,
            state: RuntimeState::Up { runtime: Ok(()), network: Ok(()) },
            degraded: Vec::new(),
        }
    }

    fn current() -> Capabilities {
        let all = HandlerFeatures { recursive_read_only_mounts: true, user_namespaces: true };
        Capabilities {
            runtime_version: "2.2.0".into(),
            cgroup_driver: Some(CgroupDriver::Systemd),
            handlers: [(String::new(), all)].into(),
            supplemental_groups_policy: true,
            image_mounts: Ok(()),
            image_parts: Ok(()),
            ..old()
        }
    }

    #[test]
    fn a_runtime_that_was_upgraded_can_do_more_from_the_next_act_on() {
        let node = Current::new(node(HandlerFeatures::default()), old());
        let before = node.now();
        assert_eq!((&before.image_mounts, &before.image_parts), (&old().image_mounts, &old().image_parts));
        assert_eq!(before.runtime_handlers, BTreeMap::new(), "what was taken to be there is not");

        assert_eq!(
            node.adopt(current()),
            [
                "runtime: containerd 1.6.20 before, containerd 2.2.0 now",
                "cgroup driver: not told before, systemd now",
                "images as volumes: no before, yes now",
                "parts of images as volumes: no before, yes now",
                "user namespaces: no before, yes now",
                "recursive read-only mounts: no before, yes now",
                "supplementalGroupsPolicy: Strict: no before, yes now",
                "pods are let in by the supplementalGroupsPolicy of before until the agent is started again",
                "pods are only placed by cgroupfs: configure the runtime for that (containerd: SystemdCgroup = false)",
            ]
        );
        let now = node.now();
        assert_eq!((&now.image_mounts, &now.image_parts), (&Ok(()), &Ok(())));
        assert_eq!(now.runtime_handlers, current().handlers);
        assert_eq!(now.node_name, before.node_name, "the rest stays");
        assert!(before.image_mounts.is_err(), "an act that has begun goes on with what it began with");

        assert_eq!(node.adopt(current()), Vec::<String>::new());
        assert_eq!(node.adopt(Capabilities { image_parts: old().image_parts, ..current() }).len(), 1, "and back");
        assert!(node.now().image_parts.is_err() && node.now().image_mounts.is_ok());
    }

    #[test]
    fn a_runtime_is_known_by_what_it_says_of_itself() {
        let node = Current::new(node(HandlerFeatures::default()), old());
        let version = |version: &str| VersionResponse {
            runtime_name: "containerd".into(),
            runtime_version: version.into(),
            ..VersionResponse::default()
        };
        let status = StatusResponse::default();
        assert!(node.is_known(&version("1.6.20"), &status));
        assert!(!node.is_known(&version("2.2.0"), &status));
        node.adopt(Capabilities { runtime_version: "2.2.0".into(), ..old() });
        assert!(node.is_known(&version("2.2.0"), &status));
    }

    #[tokio::test]
    async fn a_runtime_that_cannot_be_asked_counts_as_the_one_of_before() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("runtime.sock");
        let client = Client::new(polylet_runtime::Config::new(format!("unix://{}", socket.display()).parse().unwrap()));
        let node = Current::new(node(HandlerFeatures::default()), current());
        let (_decided, mut way) = watch::channel(Way::Cri);
        for was_away in [false, true] {
            assert!(!node.renew(&client, &StatusResponse::default(), &mut way, was_away).await, "{was_away}");
        }
        assert_eq!(node.now().runtime_handlers, current().handlers);
    }

    #[test]
    fn sizes_of_huge_pages_are_told_as_runtimes_spell_them_and_pods_get_no_swap() {
        let machine = machine();
        let settings = Settings::below(Path::new("/var/lib/kubelet"), "n1");
        let found = Found { memory: machine.memory, cpus: 1, huge_pages: machine.huge_pages.clone(), ..Found::default() };
        let core = settings.core(&found);
        let runtime = RuntimeFeatures { handlers: BTreeMap::new(), image_mounts: Ok(()) };
        let node = node_context(&settings, &machine, &found, &core, Some(Version::V1), runtime);
        assert_eq!(node.huge_page_sizes, ["2MB", "1GB"]);
        assert!(node.single_process_oom_kill);
        assert_eq!(core.huge_pages, machine.huge_pages, "admission counts the same");
        // Where the kernel counts swap, pods are bounded to none of it.
        assert_eq!(node.swap, facts::has_swap_controller().then_some(Swap { limited: false, capacity: 1 << 30 }));
        for (set, expected) in [(None, false), (Some(false), false), (Some(true), true)] {
            let settings = Settings { single_process_oom_kill: set, ..settings.clone() };
            let runtime = RuntimeFeatures { handlers: BTreeMap::new(), image_mounts: Ok(()) };
            let node = node_context(&settings, &machine, &found, &core, Some(Version::V2), runtime);
            assert_eq!(node.single_process_oom_kill, expected, "{set:?}");
        }
    }
}
