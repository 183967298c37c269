//! What this node would do with a pod, without doing it: defaults, class, cgroup values, the messages to the runtime.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1;
use polylet_core::ask;
use polylet_core::id::ContainerName;
use polylet_core::observed::Image;
use polylet_core::pod::{Pod, Source};
use polylet_core::question::qos::Placement;
use polylet_core::question::{Answer, NodeFacts};
use polylet_core::record::PodRecord;
use polylet_machine::cgroup::{CgroupName, Driver, LimitOptions, PodLimits, pod_limits};
use polylet_machine::facts::{self, MachineFacts};
use polylet_machine::volume;
use polylet_runtime::cri::{ContainerConfig, PodSandboxConfig};
use polylet_runtime::{ContainerInputs, NodeContext, ResolvConf, Translated, container_config, sandbox_config};
use serde_json::{Value, json};

use crate::settings::{Found, Settings};
use crate::source::{Origin, load};

/// A pod as this node would run it. The image's own user, addresses and files are not known yet: they are left out.
pub struct Plan {
    /// With its defaults.
    pub object: Arc<v1::Pod>,
    /// Parsed.
    pub pod: Pod,
    /// By the native policy.
    pub placement: Placement,
    /// The pod's cgroup, below the root of all cgroups.
    pub cgroup_parent: String,
    /// Of that cgroup.
    pub limits: PodLimits,
    /// The message that would make its sandbox.
    pub sandbox: Translated<PodSandboxConfig>,
    /// Those that would make its containers, in order.
    pub containers: Vec<(ContainerName, ContainerConfig)>,
}

/// What this node would do with the pod of a manifest.
///
/// # Errors
/// What is wrong with the manifest, all of it.
pub fn plan(manifest: &Path, settings: &Settings) -> anyhow::Result<Plan> {
    let bytes = std::fs::read(manifest).with_context(|| format!("read {}", manifest.display()))?;
    let place = manifest.to_string_lossy().into_owned();
    let origin = Origin { source: Source::File, place: &place, node_name: &settings.node_name, seen: jiff::Timestamp::now() };
    let object = match load(&bytes, &origin) {
        Ok(object) => Arc::new(object),
        Err(error) => bail!("{}", crate::perform::chain(&error)),
    };
    let now = facts::now().wall;
    let pod = Pod::parse(object.clone(), Source::File, now).with_context(|| place.clone())?;
    let machine = MachineFacts::read()?;
    let found = Found {
        memory: machine.memory,
        cpus: machine.cpus,
        storage: facts::storage(Path::new("/"))?,
        huge_pages: machine.huge_pages.clone(),
        apparmor: machine.apparmor,
        node_ips: vec![],
        runtime_name: "containerd".into(),
    };
    let core = settings.core(&found);

    let record = PodRecord {
        uid: pod.uid.clone(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        started: now,
        stop: None,
        end: None,
        over: false,
        placement: None,
        containers: std::collections::BTreeMap::new(),
    };
    let question = ask::qos_question(&pod, &record, NodeFacts::default(), &core);
    let Answer::Qos(answer) = ask::native(&question) else { bail!("the native policy answers another question") };
    let placement = answer.placement;
    let options =
        LimitOptions { cpu_quota: settings.cpu_quota, cpu_period_us: settings.cpu_period_us, pids: settings.pids_limit };
    let limits = pod_limits(&pod, &placement, &options);
    let root = CgroupName::from_cgroupfs(&settings.cgroup_root);
    let parent = CgroupName::pod(&root, pod.uid.as_str(), placement.tier).path(Driver::Cgroupfs);

    let text = std::fs::read_to_string(&settings.resolv_conf).ok();
    let node = NodeContext {
        paths: settings.paths.clone(),
        node_name: settings.node_name.clone(),
        node_ips: vec![],
        cluster_dns: settings.cluster_dns.clone(),
        cluster_domain: settings.cluster_domain.clone(),
        resolv_conf: text.as_deref().map(ResolvConf::parse),
        cpu_cfs_quota: settings.cpu_quota,
        cpu_cfs_period_us: i64::try_from(settings.cpu_period_us).unwrap_or(100_000),
        seccomp_default: settings.seccomp_default,
        single_process_oom_kill: true,
        cgroup_v2: Path::new("/sys/fs/cgroup/cgroup.controllers").exists(),
        swap: None,
        memory_capacity: machine.memory,
        memory_allocatable: core.memory_allocatable,
        cpu_allocatable_milli: core.cpu_allocatable,
        storage_allocatable: 0,
        huge_page_sizes: vec![],
        masked_paths: vec![],
        selinux: false,
        runtime_handlers: std::collections::BTreeMap::new(),
    };
    let sandbox = sandbox_config(&node, &pod, 0, &parent)?;
    let mut containers = Vec::new();
    for (place, container) in pod.init_containers().chain(pod.app_containers()).enumerate() {
        let image = Image { id: container.image.clone(), reference: container.image.clone(), uid: Some(0), ..Image::default() };
        let inputs = ContainerInputs {
            pod: &pod,
            container,
            attempt: 0,
            image: &image,
            ips: &[],
            oom_score_adj: placement.containers.get(place).map_or(1000, |c| i64::from(c.oom_score)),
            memory_high: None,
            hosts_file: None,
            termination_log: None,
            volumes: &|name| volume::volume_path(&node.paths, &pod, name),
            target: None,
        };
        let config = container_config(&node, &inputs).with_context(|| format!("container {}", container.name))?;
        containers.push((container.name.clone(), config.message));
    }
    Ok(Plan { object, placement, cgroup_parent: parent, limits, sandbox, containers, pod })
}

/// The same, for people and tools.
///
/// # Errors
/// As [`plan`].
pub fn explain(manifest: &Path, settings: &Settings) -> anyhow::Result<Value> {
    let Plan { object, pod, placement, cgroup_parent, limits, sandbox, containers } = plan(manifest, settings)?;
    let containers: Vec<Value> =
        containers.iter().map(|(name, message)| json!({"name": name.as_str(), "message": format!("{message:#?}")})).collect();
    Ok(json!({
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid.as_str(),
        "class": pod.qos.as_str(),
        "placement": placement,
        "cgroup": {
            "parent": cgroup_parent,
            "cpu.shares": limits.cpu_shares,
            "cpu.quota (us)": limits.cpu_quota_us,
            "cpu.period (us)": limits.cpu_period_us,
            "memory.limit (bytes)": limits.memory,
            "pids.limit": limits.pids,
        },
        "warnings": sandbox.warnings.iter().map(|(reason, text)| format!("{reason}: {text}")).collect::<Vec<_>>(),
        "object": &*object,
        "sandbox": format!("{:#?}", sandbox.message),
        "containers": containers,
    }))
}
