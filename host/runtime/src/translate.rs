//! From a pod to the messages of the CRI: pure functions of the pod, the node's settings and what was made ready for it.
//!
//! [`sandbox_config`] and [`container_config`] put the messages together; each topic has a file of its own. Whatever needs the
//! machine (paths of volumes, the image's user, addresses) comes in as a value. What the node cannot do is refused by the name of
//! its field, never left out.

mod container;
mod dns;
mod env;
mod env_file;
mod error;
mod expand;
mod field_ref;
mod files;
mod hostname;
mod metadata;
mod mounts;
mod namespaces;
mod ports;
mod resources;
mod sandbox;
mod security;
#[cfg(test)]
mod testing;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1;
use polylet_core::observed::Image;
use polylet_core::paths::Paths;
use polylet_core::pod::{Container, ContainerKind, Pod};
use polylet_core::userns::IdRange;
use polylet_core::volume::EnvFiles;

use crate::capabilities::HandlerFeatures;

pub use container::container_config;
pub use dns::ResolvConf;
pub use env::env_files;
pub use error::TranslateError;
pub use expand::exec_probe_command;
pub use files::volume_files;
pub use hostname::hostname;
pub use mounts::sub_paths;
pub use namespaces::has_own_users;
pub use resources::page_size_name;
pub use sandbox::sandbox_config;

/// What every pod of this node shares. While the agent runs, nothing of it changes but what the runtime can do.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeContext {
    /// Where things lie.
    pub paths: Paths,
    /// Name of the node.
    pub node_name: String,
    /// The node's addresses, primary first; at most one of each family.
    pub node_ips: Vec<String>,
    /// `clusterDNS`.
    pub cluster_dns: Vec<String>,
    /// `clusterDomain`, possibly empty.
    pub cluster_domain: String,
    /// `cpuCFSQuota`: whether CPU limits are enforced.
    pub cpu_cfs_quota: bool,
    /// `cpuCFSQuotaPeriod`, in microseconds.
    pub cpu_cfs_period_us: i64,
    /// `seccompDefault`: who asks for no profile gets the runtime's, rather than none.
    pub seccomp_default: bool,
    /// `singleProcessOOMKill`: the kernel kills one process of a container rather than all. Always so on cgroup v1.
    pub single_process_oom_kill: bool,
    /// The unified cgroup hierarchy.
    pub cgroup_v2: bool,
    /// None: the kernel has no swap controller.
    pub swap: Option<Swap>,
    /// Bytes of memory of the machine.
    pub memory_capacity: u64,
    /// Bytes of memory that pods may use; like the next two, what a container without a limit reads as its limit.
    pub memory_allocatable: u64,
    /// Millicores that pods may use.
    pub cpu_allocatable_milli: u64,
    /// Bytes of ephemeral storage that pods may use.
    pub storage_allocatable: u64,
    /// Sizes of huge pages that the machine has, as runtimes spell them: `2MB`, `1GB`, `64KB`.
    pub huge_page_sizes: Vec<String>,
    /// Paths beyond upstream's constant list that containers must not read: the directories
    /// `/sys/devices/system/cpu/cpu<N>/thermal_throttle` that are there.
    pub masked_paths: Vec<String>,
    /// SELinux is in use on this machine.
    pub selinux: bool,
    /// Images can be mounted as volumes. Else: why not.
    pub image_mounts: Result<(), String>,
    /// Parts of images can be mounted, too (`subPath`). Else: why not.
    pub image_parts: Result<(), String>,
    /// What each runtime handler can do, see [`Capabilities`](crate::Capabilities); the default one has the empty name.
    pub runtime_handlers: BTreeMap<String, HandlerFeatures>,
}

/// How containers may use swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swap {
    /// `memorySwap.swapBehavior: LimitedSwap`; else they may not.
    pub limited: bool,
    /// Bytes of swap of the machine.
    pub capacity: u64,
}

/// What was decided and made ready for one container.
#[derive(Clone, Copy)]
pub struct ContainerInputs<'a> {
    /// Its pod.
    pub pod: &'a Pod,
    /// Which container of the pod.
    pub container: &'a Container,
    /// Counts the containers of this name: the restart count.
    pub attempt: u32,
    /// The image, as the runtime has it.
    pub image: &'a Image,
    /// The pod's addresses, primary first.
    pub ips: &'a [String],
    /// `oom_score_adj`, out of the placement.
    pub oom_score_adj: i64,
    /// Bytes at which the kernel begins to throttle (cgroup v2), out of the placement.
    pub memory_high: Option<u64>,
    /// The pod's hosts file. It is mounted once the addresses are known, and not over a mount of the container's own.
    pub hosts_file: Option<&'a Path>,
    /// The file that takes the termination message.
    pub termination_log: Option<&'a Path>,
    /// From a volume's name to where its files lie on the node.
    pub volumes: &'a dyn Fn(&str) -> Option<PathBuf>,
    /// Images that it mounts, by name of the volume.
    pub mounted_images: &'a BTreeMap<String, Image>,
    /// Contents of [`env_files`].
    pub env_files: &'a EnvFiles,
    /// The ids of the pod's user namespace; None: the pod has none of its own.
    pub user_namespace: Option<IdRange>,
    /// The runtime's id of the container whose processes an ephemeral container is to see; None where it does not run.
    pub target: Option<&'a str>,
}

/// A message, and what should be said about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Translated<T> {
    /// For the runtime.
    pub message: T,
    /// Warnings about the pod: an event's reason and text.
    pub warnings: Warnings,
}

/// An event's reason (`DNSConfigForming`, `MissingClusterDNS`) and its text.
type Warnings = Vec<(&'static str, String)>;

/// A container as the API's object has it. An ephemeral one is given the form of the others. None: the object has changed since it
/// was parsed, which it must not.
pub fn spec_container<'a>(pod: &'a Pod, container: &Container) -> Option<Cow<'a, v1::Container>> {
    let spec = pod.object.spec.as_ref()?;
    let of = |list: &'a Vec<v1::Container>| list.get(container.index).map(Cow::Borrowed);
    let found = match container.kind {
        ContainerKind::Init | ContainerKind::Sidecar => of(spec.init_containers.as_ref()?),
        ContainerKind::App => of(&spec.containers),
        ContainerKind::Ephemeral => spec.ephemeral_containers.as_ref()?.get(container.index).map(|c| Cow::Owned(plain(c))),
    };
    found.filter(|found| found.name == container.name.as_str())
}

fn plain(c: &v1::EphemeralContainer) -> v1::Container {
    let c = c.clone();
    v1::Container {
        args: c.args,
        command: c.command,
        env: c.env,
        env_from: c.env_from,
        image: c.image,
        image_pull_policy: c.image_pull_policy,
        lifecycle: c.lifecycle,
        liveness_probe: c.liveness_probe,
        name: c.name,
        ports: c.ports,
        readiness_probe: c.readiness_probe,
        resize_policy: c.resize_policy,
        resources: c.resources,
        restart_policy: c.restart_policy,
        restart_policy_rules: c.restart_policy_rules,
        security_context: c.security_context,
        startup_probe: c.startup_probe,
        stdin: c.stdin,
        stdin_once: c.stdin_once,
        termination_message_path: c.termination_message_path,
        termination_message_policy: c.termination_message_policy,
        tty: c.tty,
        volume_devices: c.volume_devices,
        volume_mounts: c.volume_mounts,
        working_dir: c.working_dir,
    }
}
