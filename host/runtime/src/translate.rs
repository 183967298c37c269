// DIVISION OF WORK: translate.rs and translate/*: two were writing them. The one with the translate brief (API: NodeContext, sandbox_config,
// container_config) takes over ALL files found there and finishes, wires and commits them. Whoever else wrote there: write no more below translate, stop.
//! From a pod to the messages of the CRI: pure functions of the pod, the node's settings and what was made ready for it.
//!
//! [`sandbox`] and [`container`] put the messages together; each topic has a file of its own. Whatever needs the machine (paths
//! of volumes, the image's user, addresses) comes in as a value, so that `explain` can ask without a node.

mod dns;
mod env;
mod error;
mod hostname;
mod metadata;
mod mounts;
mod namespaces;
mod ports;
mod resources;
mod security;
mod signal;
#[cfg(test)]
mod testing;

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1;
use polylet_core::observed::Image;
use polylet_core::paths::Paths;
use polylet_core::pod::{ContainerKind, Pod};
use polylet_proto::cri;

use crate::capabilities::HandlerFeatures;

pub use dns::ResolvConf;
pub use env::{expand, probe_command};
pub use error::TranslateError;
pub use hostname::{Hostname, hostname};
pub use mounts::{SubPath, sub_paths};
pub use namespaces::IdRange;
pub use resources::{container as container_resources, pod as pod_resources};

/// What every pod of this node shares. It does not change while the agent runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where things lie.
    pub paths: Paths,
    /// Name of the node.
    pub name: String,
    /// The node's addresses, primary first; at most one of each family.
    pub ips: Vec<String>,
    /// `clusterDomain`, possibly empty.
    pub cluster_domain: String,
    /// `clusterDNS`.
    pub cluster_dns: Vec<String>,
    /// What the file `resolvConf` says; None where that setting is empty.
    pub resolv_conf: Option<ResolvConf>,
    /// `cpuCFSQuota`: whether CPU limits are enforced.
    pub cpu_quota: bool,
    /// `cpuCFSQuotaPeriod`, in microseconds.
    pub cpu_period_us: u64,
    /// `seccompDefault`: who asks for no profile gets the runtime's, rather than none.
    pub seccomp_default: bool,
    /// `singleProcessOOMKill`: the kernel kills one process of a container rather than all. Always so on cgroup v1.
    pub single_process_oom_kill: bool,
    /// The unified cgroup hierarchy.
    pub cgroup_v2: bool,
    /// None: the kernel has no swap controller.
    pub swap: Option<Swap>,
    /// What pods may use of the node.
    pub allocatable: Allocatable,
    /// Bytes of memory of the machine.
    pub memory_capacity: u64,
    /// Sizes of huge pages in bytes.
    pub huge_page_sizes: Vec<u64>,
    /// Paths beyond upstream's constant list that containers must not read: the processors' `thermal_throttle` directories.
    pub masked_paths: Vec<String>,
    /// SELinux is enforced or watched on this machine.
    pub selinux: bool,
    /// What each runtime handler can do, see [`Capabilities`](crate::Capabilities).
    pub handlers: BTreeMap<String, HandlerFeatures>,
}

/// How containers may use swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swap {
    /// `memorySwap.swapBehavior: LimitedSwap`; else they may not.
    pub limited: bool,
    /// Bytes of swap of the machine.
    pub capacity: u64,
}

/// What pods may use of the node: the limit of a container that has none, for the downward API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocatable {
    /// Millicores.
    pub cpu: u64,
    /// Bytes.
    pub memory: u64,
    /// Bytes of ephemeral storage.
    pub storage: u64,
}

/// What was decided and made ready for one sandbox.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SandboxInputs {
    /// Counts the sandboxes of this pod.
    pub attempt: u32,
    /// The pod's cgroup, spelt for the cgroup driver.
    pub cgroup_parent: String,
    /// The runtime handler that the pod's RuntimeClass names; empty for the default one.
    pub handler: String,
    /// The user ids given to a pod with `hostUsers: false`.
    pub ids: Option<IdRange>,
    /// Groups that persistent volumes ask for.
    pub volume_groups: Vec<i64>,
}

/// What was decided and made ready for one container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerInputs {
    /// Counts the containers of this name: the restart count.
    pub attempt: u32,
    /// The image, as the runtime has it.
    pub image: Image,
    /// The pod's addresses, primary first.
    pub ips: Vec<String>,
    /// `oom_score_adj`.
    pub oom_score: i32,
    /// Bytes at which the kernel begins to throttle (cgroup v2).
    pub memory_high: Option<u64>,
    /// The pod's volumes by name.
    pub volumes: BTreeMap<String, Volume>,
    /// What [`sub_paths`] asked for, made ready: by index of the mount.
    pub sub_paths: BTreeMap<usize, PathBuf>,
    /// The file that takes the termination message.
    pub termination_log: Option<PathBuf>,
    /// The services that environment variables may speak of.
    pub services: Vec<v1::Service>,
    /// ConfigMaps of the pod's namespace, by name.
    pub config_maps: BTreeMap<String, v1::ConfigMap>,
    /// Secrets of the pod's namespace, by name.
    pub secrets: BTreeMap<String, v1::Secret>,
    /// Files that `fileKeyRef` names, by volume and path.
    pub env_files: BTreeMap<(String, String), String>,
    /// The container whose processes an ephemeral container is to see.
    pub target: Option<String>,
    /// The sandbox's runtime handler; empty for the default one.
    pub handler: String,
    /// The user ids given to a pod with `hostUsers: false`.
    pub ids: Option<IdRange>,
    /// Groups that persistent volumes ask for.
    pub volume_groups: Vec<i64>,
}

/// Where a volume's content is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Volume {
    /// On the node.
    Path {
        /// Where.
        path: PathBuf,
        /// Whatever the mount says.
        read_only: bool,
        /// To be labelled for the container, where SELinux is in use.
        relabel: bool,
    },
    /// In an image that was pulled.
    Image {
        /// The runtime's id of it.
        id: String,
        /// As the spec names it.
        reference: String,
    },
}

/// A sandbox's configuration, and what should be said about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sandbox {
    /// For `RunPodSandbox`, and for `CreateContainer` later.
    pub config: cri::PodSandboxConfig,
    /// Warnings, as upstream's reason and message (`DNSConfigForming`, `MissingClusterDNS`).
    pub warnings: Vec<(&'static str, String)>,
}

/// The configuration of a pod's sandbox.
pub fn sandbox(pod: &Pod, node: &Node, inputs: &SandboxInputs) -> Result<Sandbox, TranslateError> {
    let mut warnings = Vec::new();
    let config = cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: pod.name.clone(),
            uid: pod.uid.as_str().to_owned(),
            namespace: pod.namespace.clone(),
            attempt: inputs.attempt,
        }),
        hostname: if pod.host_network { String::new() } else { hostname(pod, &node.cluster_domain)?.sent() },
        log_directory: node.paths.logs_of_pod(&pod.namespace, &pod.name, pod.uid.as_str()).to_string_lossy().into_owned(),
        dns_config: Some(dns::config(pod, node, &mut warnings)),
        port_mappings: ports::mappings(pod),
        labels: metadata::sandbox_labels(pod),
        annotations: pod.annotations.as_ref().clone(),
        linux: Some(cri::LinuxPodSandboxConfig {
            cgroup_parent: inputs.cgroup_parent.clone(),
            security_context: Some(security::sandbox(pod, node, inputs)?),
            sysctls: security::sysctls(pod),
            overhead: Some(resources::overhead(pod, node)),
            resources: Some(resources::pod(pod, node)),
        }),
        windows: None,
    };
    Ok(Sandbox { config, warnings })
}

/// The configuration of one container of a pod.
pub fn container(
    pod: &Pod,
    name: &str,
    node: &Node,
    inputs: &ContainerInputs,
) -> Result<cri::ContainerConfig, TranslateError> {
    let known = pod.container(name).ok_or_else(|| TranslateError::NoSuchContainer { container: name.to_owned() })?;
    let spec = spec_of(pod, name).ok_or_else(|| TranslateError::NoSuchContainer { container: name.to_owned() })?;
    let envs = env::variables(pod, &spec, node, inputs)?;
    let expanded = |words: &Option<Vec<String>>| -> Vec<String> {
        words.iter().flatten().map(|word| expand(word, |name| envs.get(name).map(str::to_owned))).collect()
    };
    Ok(cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: name.to_owned(), attempt: inputs.attempt }),
        image: Some(cri::ImageSpec {
            image: inputs.image.id.clone(),
            user_specified_image: spec.image.clone().unwrap_or_default(),
            ..Default::default()
        }),
        command: expanded(&spec.command),
        args: expanded(&spec.args),
        working_dir: spec.working_dir.clone().unwrap_or_default(),
        mounts: mounts::mounts(pod, &spec, &envs, node, inputs)?,
        labels: metadata::container_labels(pod, name),
        annotations: metadata::container_annotations(pod, known, &spec, inputs.attempt),
        log_path: Paths::log_name(name, inputs.attempt).to_string_lossy().into_owned(),
        stdin: spec.stdin.unwrap_or(false),
        stdin_once: spec.stdin_once.unwrap_or(false),
        tty: spec.tty.unwrap_or(false),
        linux: Some(cri::LinuxContainerConfig {
            resources: Some(resources::container(pod, known, node, inputs)),
            security_context: Some(security::container(pod, &spec, known.kind, node, inputs)?),
        }),
        stop_signal: signal::stop_signal(&spec).into(),
        envs: envs.into_messages(),
        ..Default::default()
    })
}

/// The container of this name in the API's object. An ephemeral one is given the form of the others.
pub(crate) fn spec_of(pod: &Pod, name: &str) -> Option<v1::Container> {
    let spec = pod.object.spec.as_ref()?;
    let common = spec.init_containers.iter().flatten().chain(&spec.containers).find(|c| c.name == name);
    common.cloned().or_else(|| {
        let c = spec.ephemeral_containers.iter().flatten().find(|c| c.name == name)?.clone();
        Some(v1::Container {
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
        })
    })
}

/// The name of the container whose processes an ephemeral container asks to see: for [`ContainerInputs::target`].
pub fn target_of<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    let ephemeral = pod.object.spec.as_ref()?.ephemeral_containers.as_ref()?;
    let target = ephemeral.iter().find(|c| c.name == name)?.target_container_name.as_deref();
    target.filter(|target| !target.is_empty())
}

/// The score of one container: out of the placement that the pod was given, which has one entry for each container but the
/// ephemeral ones; those get what a container without requests has in the pod's class.
pub fn oom_score(pod: &Pod, name: &str, placement: &polylet_core::question::qos::Placement) -> i32 {
    let mut placed = pod.containers.iter().filter(|c| c.kind != ContainerKind::Ephemeral);
    let index = placed.position(|c| c.name.as_str() == name);
    match index.and_then(|index| placement.containers.get(index)) {
        Some(container) => container.oom_score,
        None => resources::oom_score_without_request(placement.tier),
    }
}
