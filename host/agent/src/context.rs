//! What a node's translation of pods needs to know of it: one place for the agent, which acts upon it, and for `explain`, which shows it.

use std::collections::BTreeMap;
use std::path::Path;

use polylet_core::config::Config;
use polylet_machine::cgroup::Version;
use polylet_machine::facts::{self, FactsError, MachineFacts};
use polylet_runtime::{HandlerFeatures, NodeContext, Swap, page_size_name};

use crate::settings::{Found, Settings};

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
mod tests {
    use super::*;

    #[test]
    fn sizes_of_huge_pages_are_told_as_runtimes_spell_them_and_pods_get_no_swap() {
        let machine = MachineFacts {
            memory: 8 << 30,
            swap: 1 << 30,
            cpus: 1,
            page_size: 4096,
            boot_id: String::new(),
            max_pids: 1000,
            huge_pages: [(2 << 20, 64 << 20), (1 << 30, 0)].into(),
            apparmor: false,
        };
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
