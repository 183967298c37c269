//! What this node would do with a pod, without doing it: defaults, class, cgroup values, the messages to the runtime.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1;
use polylet_core::ask;
use polylet_core::id::ContainerName;
use polylet_core::observed::Image;
use polylet_core::pod::{Container, Pod, Source};
use polylet_core::question::qos::Placement;
use polylet_core::question::{Answer, NodeFacts};
use polylet_core::record::PodRecord;
use polylet_core::volume::EnvFiles;
use polylet_machine::cgroup::{Hierarchies, LimitOptions, Version, pod_limits};
use polylet_machine::facts::{self, MachineFacts};
use polylet_machine::volume;
use polylet_runtime::cri::{ContainerConfig, PodSandboxConfig};
use polylet_runtime::{
    ContainerInputs, HandlerFeatures, TranslateError, Translated, container_config, message_json, sandbox_config, spec_container,
};
use serde_json::{Value, json};

use crate::config::Loaded;
use crate::context::{RuntimeFeatures, node_context, storage_of_root};
use crate::document::MAX_BYTES;
use crate::perform::{cgroup_parent, chain};
use crate::resolv_conf;
use crate::settings::{Found, Settings};
use crate::source::limits::StorageLimits;
use crate::source::{Origin, load};

/// Stands for the image's own user where only root would be refused: no image has been looked at.
const SOME_USER: i64 = 65_534;

/// What is shown without having been asked for.
const NOTES: &[&str] = &[
    "placement and cgroup are the default policy's answer: a policy that is bound to qos may give another",
    "no runtime was asked: it is taken to have user namespaces, images as volumes, recursive read-only mounts and strict supplemental \
     groups",
    "whether the node would admit the pod beside those that it runs was not asked",
    "the image's own user, addresses and files of the pod are not known yet, and left out",
];

/// A pod as this node would run it. The image's own user, addresses and files are not known yet: they are left out.
pub struct Plan {
    /// With its defaults.
    pub object: Arc<v1::Pod>,
    /// Parsed.
    pub pod: Pod,
    /// By the native policy.
    pub placement: Placement,
    /// The cgroup below which its containers get theirs: the pod's own, or `cgroupRoot` with `cgroupsPerQOS: false`. Below the root of all
    /// cgroups.
    pub cgroup_parent: String,
    /// Names of files of the pod's own cgroup, and what this machine would write into them; None where it has none of its own.
    pub cgroup: Option<BTreeMap<String, String>>,
    /// The message that would make its sandbox.
    pub sandbox: Translated<PodSandboxConfig>,
    /// Those that would make its containers, in order.
    pub containers: Vec<(ContainerName, ContainerConfig)>,
    /// What the node would say about it.
    pub warnings: Vec<String>,
}

/// What this node would do with the pod of a manifest.
///
/// # Errors
/// What is wrong with the manifest, all of it.
pub fn plan(manifest: &Path, settings: &Settings) -> anyhow::Result<Plan> {
    let found = std::fs::metadata(manifest).with_context(|| format!("read {}", manifest.display()))?;
    if !found.is_file() || found.len() > MAX_BYTES as u64 {
        bail!("{} is not a regular file of at most {MAX_BYTES} bytes", manifest.display());
    }
    let bytes = std::fs::read(manifest).with_context(|| format!("read {}", manifest.display()))?;
    let place = place_on_node(manifest, settings).to_string_lossy().into_owned();
    let origin = Origin {
        source: Source::File,
        place: &place,
        node_name: &settings.node_name,
        seen: jiff::Timestamp::now(),
        sysctls: &settings.unsafe_sysctls,
    };
    let object = match load(&bytes, &origin) {
        Ok(object) => Arc::new(object),
        Err(error) => bail!("{}", chain(&error)),
    };
    let now = facts::now().wall;
    let pod = Pod::parse(object.clone(), Source::File, now).with_context(|| place.clone())?;
    let machine = MachineFacts::read()?;
    let found = Found {
        memory: machine.memory,
        cpus: machine.cpus,
        storage: storage_of_root(settings)?,
        huge_pages: machine.huge_pages.clone(),
        apparmor: machine.apparmor,
        supplemental_groups_policy: true,
        node_ips: vec![],
        runtime_name: "containerd".into(),
    };
    let core = settings.core(&found);

    let record = PodRecord::new(pod.uid.clone(), &pod.namespace, &pod.name, now);
    let question = ask::qos_question(&pod, &record, NodeFacts::default(), &core);
    let Answer::Qos(answer) = ask::native(&question) else { bail!("the native policy answers another question") };
    let placement = answer.placement;
    let options =
        LimitOptions { cpu_quota: settings.cpu_quota, cpu_period_us: settings.cpu_period_us, pids: settings.pids_limit };
    // A machine without any runs no node: what one of today would write, then.
    let cgroups = Hierarchies::find().map_or(Version::V2, |found| found.version());
    let page_sizes: Vec<u64> = machine.huge_pages.keys().copied().collect();
    let cgroup = settings.cgroups_per_qos.then(|| pod_limits(&pod, &placement, &options).files(cgroups, &page_sizes));
    let parent = cgroup_parent(&settings.cgroup_root, settings.cgroups_per_qos, &pod, placement.tier);

    let (dns, unread) = match resolv_conf::read(&settings.resolv_conf) {
        Ok(dns) => (dns, None),
        Err(error) => (None, Some(chain(&error))),
    };
    let handlers = [(String::new(), HandlerFeatures { recursive_read_only_mounts: true, user_namespaces: true })].into();
    let runtime = RuntimeFeatures { handlers, image_mounts: Ok(()) };
    let node = node_context(settings, &machine, &found, &core, Some(cgroups), runtime);
    // Which ids the pod will get is known when it runs.
    let users = None;
    let sandbox = sandbox_config(&node, &pod, 0, &parent, users, dns.as_ref())
        .map_err(|error| located(error, origin.place, &object, None))?;
    let mut warnings: Vec<String> = unread.into_iter().chain(sandbox.warnings.iter().map(said)).collect();
    warnings.extend(StorageLimits::of(settings).not_enforced(&pod).iter().map(ToString::to_string));
    let mut containers = Vec::new();
    for (place, container) in pod.init_containers().chain(pod.app_containers()).enumerate() {
        let image =
            Image { id: container.image.clone(), reference: container.image.clone(), uid: Some(SOME_USER), ..Image::default() };
        let named = |image: &str| Image { id: image.to_owned(), ..Image::default() };
        let mounted = container.image_volumes.iter().map(|v| (v.volume.clone(), named(&v.image))).collect();
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
            mounted_images: &mounted,
            env_files: &EnvFiles::new(),
            user_namespace: users,
            target: None,
        };
        let mut config = container_config(&node, &inputs)
            .map_err(|error| located(error, origin.place, &object, Some(container.name.as_str())))?;
        if !names_a_user(&pod, container)
            && let Some(security) = config.message.linux.as_mut().and_then(|linux| linux.security_context.as_mut())
        {
            security.run_as_user = None;
        }
        warnings.extend(config.warnings.iter().map(said));
        containers.push((container.name.clone(), config.message));
    }
    Ok(Plan { object, placement, cgroup_parent: parent, cgroup, sandbox, containers, warnings, pod })
}

/// The error with the file, and the field where that is known. `container` is the one that cannot be had; None: the sandbox cannot.
fn located(error: TranslateError, file: &str, object: &v1::Pod, container: Option<&str>) -> anyhow::Error {
    let field = match (&error, container) {
        (TranslateError::MissingValues { names }, Some(container)) => expression_of(object, container, names)
            .map(|(field, value)| format!("{field}: Invalid value: {value:?}: names what the container's env does not hold")),
        (TranslateError::HostnameTooLong { .. }, _) => Some("spec.setHostnameAsFQDN: Invalid value: true".to_owned()),
        _ => None,
    };
    let whose = || container.map_or_else(|| "sandbox".to_owned(), |container| format!("container {container}"));
    let place = field.unwrap_or_else(whose);
    anyhow::Error::new(error).context(format!("{file}: {place}"))
}

/// Field and value of the `subPathExpr` that names one of these variables.
fn expression_of(object: &v1::Pod, container: &str, names: &[String]) -> Option<(String, String)> {
    let spec = object.spec.as_ref()?;
    let lists = [("initContainers", spec.init_containers.as_deref().unwrap_or_default()), ("containers", &spec.containers)];
    let all = lists.into_iter().flat_map(|(list, all)| all.iter().enumerate().map(move |(i, one)| (list, i, one)));
    let (list, i, found) = all.into_iter().find(|(_, _, one)| one.name == container)?;
    found.volume_mounts.iter().flatten().enumerate().find_map(|(j, mount)| {
        let value = mount.sub_path_expr.clone().filter(|text| names.iter().any(|name| text.contains(&format!("$({name})"))))?;
        Some((format!("spec.{list}[{i}].volumeMounts[{j}].subPathExpr"), value))
    })
}

/// The path by which the node would know the manifest, which goes into the pod's UID: in its directory of manifests as the
/// configuration names that; elsewhere, as if that other directory were configured.
fn place_on_node(manifest: &Path, settings: &Settings) -> PathBuf {
    let absolute: PathBuf = std::path::absolute(manifest).unwrap_or_else(|_| manifest.to_owned()).components().collect();
    let (Some(directory), Some(name)) = (absolute.parent(), absolute.file_name()) else { return absolute };
    let Ok(real) = directory.canonicalize() else { return absolute };
    match &settings.static_pod_path {
        Some(source) if source.canonicalize().is_ok_and(|source| source == real) => source.join(name),
        Some(source) if source.canonicalize().is_ok_and(|source| source == real.join(name)) => source.clone(),
        _ => real.join(name),
    }
    .components()
    .collect()
}

/// The same as a JSON object, for people and tools.
///
/// # Errors
/// As [`plan`].
pub fn explain(manifest: &Path, configuration: &Loaded) -> anyhow::Result<Value> {
    let Plan { object, pod, placement, cgroup_parent, cgroup, sandbox, containers, warnings } =
        plan(manifest, &configuration.settings)?;
    let warnings: Vec<String> = configuration.warnings.iter().map(ToString::to_string).chain(warnings).collect();
    let mut shown = json!({ "parent": cgroup_parent });
    for (file, value) in cgroup.into_iter().flatten() {
        shown[file] = value.into();
    }
    let containers = containers.iter().map(|(_, message)| message_json("runtime.v1.ContainerConfig", message));
    Ok(json!({
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid.as_str(),
        "class": pod.qos.as_str(),
        "placement": placement,
        "cgroup": shown,
        "notes": NOTES,
        "warnings": warnings,
        "object": &*object,
        "sandbox": message_json("runtime.v1.PodSandboxConfig", &sandbox.message)?,
        "containers": containers.collect::<Result<Vec<_>, _>>()?,
    }))
}

fn said((reason, text): &(&'static str, String)) -> String {
    format!("{reason}: {text}")
}

/// Whether the manifest says who the container runs as; else the image does.
fn names_a_user(pod: &Pod, container: &Container) -> bool {
    let of_pod = pod.object.spec.as_ref().and_then(|spec| spec.security_context.as_ref()?.run_as_user);
    let own = spec_container(pod, container).and_then(|spec| spec.security_context.as_ref()?.run_as_user);
    own.or(of_pod).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Layer, Problem};
    use crate::settings::Settings;

    fn explained(spec: &str) -> Value {
        explained_with(spec, |_| {})
    }

    fn explained_with(spec: &str, change: impl FnOnce(&mut Settings)) -> Value {
        let directory = tempfile::tempdir().unwrap();
        let manifest = directory.path().join("web.yaml");
        std::fs::write(&manifest, format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec: {spec}\n")).unwrap();
        let mut settings = Settings::below(directory.path(), "node-1");
        settings.cluster_domain = "cluster.local".into();
        change(&mut settings);
        let warnings = vec![Problem { layer: Layer::Merged, what: "port: has no effect".into() }];
        explain(&manifest, &Loaded { settings, warnings }).unwrap()
    }

    #[test]
    fn messages_are_objects_with_the_names_of_their_contract() {
        let shown = explained(
            "{containers: [{name: a, image: i, env: [{name: K, value: v}], resources: {limits: {memory: 64Mi}}}], \
             initContainers: [{name: first, image: j}]}",
        );
        assert_eq!(shown["sandbox"]["metadata"]["name"], "web-node-1");
        assert_eq!(shown["containers"][0]["metadata"], json!({"name": "first"}));
        let container = &shown["containers"][1];
        assert_eq!(container["linux"]["resources"]["memoryLimitInBytes"], 64 << 20);
        assert!(container["envs"].as_array().unwrap().contains(&json!({"key": "K", "value": "v"})), "{container:#}");
    }

    /// Names of files differ between the versions of cgroups; what is in them is the machine crate's to test.
    #[test]
    fn the_cgroup_is_shown_as_this_machine_would_write_it() {
        let spec = "{containers: [{name: a, image: i, resources: {requests: {cpu: 500m}, limits: {cpu: '1', memory: 64Mi}}}]}";
        let shown = explained_with(spec, |settings| {
            (settings.cgroup_root, settings.pids_limit) = ("/node".into(), Some(100));
        });
        let cgroup = &shown["cgroup"];
        assert_eq!(cgroup["parent"], format!("/node/kubepods/burstable/pod{}", shown["uid"].as_str().unwrap()));
        assert_eq!(cgroup["pids.max"], "100");
        let values = match polylet_machine::cgroup::Hierarchies::find().unwrap().version() {
            Version::V1 => [
                ("cpu.shares", "512"),
                ("cpu.cfs_quota_us", "100000"),
                ("cpu.cfs_period_us", "100000"),
                ("memory.limit_in_bytes", "67108864"),
            ]
            .as_slice(),
            Version::V2 => [("cpu.weight", "20"), ("cpu.max", "100000 100000"), ("memory.max", "67108864")].as_slice(),
        };
        for (file, value) in values {
            assert_eq!(cgroup[file], *value, "{file} of {cgroup:#}");
        }
        let pages = cgroup.as_object().unwrap().keys().filter(|file| file.starts_with("hugetlb.")).count();
        assert_eq!(pages, MachineFacts::read().unwrap().huge_pages.len(), "{cgroup:#}");
    }

    #[test]
    fn a_pod_without_a_cgroup_of_its_own_is_shown_below_the_configured_root() {
        let shown = explained_with("{containers: [{name: a, image: i}]}", |settings| {
            (settings.cgroup_root, settings.cgroups_per_qos, settings.pids_limit) = ("/node".into(), false, Some(100));
        });
        assert_eq!(shown["cgroup"], json!({"parent": "/node"}));
        assert_eq!(shown["sandbox"]["linux"]["cgroupParent"], "/node");
    }

    #[test]
    fn what_a_container_may_store_by_default_is_measured_where_the_node_measures_it() {
        let root = tempfile::tempdir_in("/dev/shm").unwrap();
        let field = "{name: S, valueFrom: {resourceFieldRef: {resource: limits.ephemeral-storage}}}";
        let shown = explained_with(&format!("{{containers: [{{name: a, image: i, env: [{field}]}}]}}"), |settings| {
            settings.paths.root = root.path().join("to be made/kubelet");
        });
        let envs = shown["containers"][0]["envs"].as_array().unwrap();
        let value = envs.iter().find(|env| env["key"] == "S").unwrap()["value"].as_str().unwrap();
        assert_eq!(value, facts::storage(root.path()).unwrap().to_string());
        assert_ne!(value, facts::storage(Path::new("/")).unwrap().to_string(), "both are of one size: this shows nothing here");
    }

    #[test]
    fn what_is_wrong_with_a_container_is_told_with_file_and_field() {
        let directory = tempfile::tempdir().unwrap();
        let manifest = directory.path().join("web.yaml");
        let spec = "{volumes: [{name: d, emptyDir: {}}], initContainers: [{name: a, image: i}], containers: [{name: b, image: i, \
                    env: [{name: IS, value: v}], volumeMounts: [{name: d, mountPath: /d, subPathExpr: $(IS)}, \
                    {name: d, mountPath: /e, subPathExpr: $(IS)/$(NO)}]}]}";
        std::fs::write(&manifest, format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec: {spec}\n")).unwrap();
        let error = plan(&manifest, &Settings::below(directory.path(), "node-1")).err().unwrap();
        let place = directory.path().canonicalize().unwrap().join("web.yaml");
        let told = "spec.containers[0].volumeMounts[1].subPathExpr: Invalid value: \"$(IS)/$(NO)\": names what the container's env \
                    does not hold: missing value for NO";
        assert_eq!(format!("{error:#}"), format!("{}: {told}", place.display()));
    }

    #[test]
    fn what_is_wrong_with_the_sandbox_is_told_with_file_and_field() {
        let directory = tempfile::tempdir().unwrap();
        let manifest = directory.path().join("web.yaml");
        let host = "h".repeat(60);
        let spec = format!("{{hostname: {host}, subdomain: s, setHostnameAsFQDN: true, containers: [{{name: a, image: i}}]}}");
        std::fs::write(&manifest, format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec: {spec}\n")).unwrap();
        let mut settings = Settings::below(directory.path(), "node-1");
        settings.cluster_domain = "cluster.local".into();
        let error = plan(&manifest, &settings).err().unwrap();
        let place = directory.path().canonicalize().unwrap().join("web.yaml");
        let told = format!(
            "spec.setHostnameAsFQDN: Invalid value: true: failed to construct FQDN from pod hostname and cluster domain, FQDN \
             {host}.s.default.svc.cluster.local is too long (64 characters is the max, 88 characters requested)"
        );
        assert_eq!(format!("{error:#}"), format!("{}: {told}", place.display()));
    }

    /// The node's source reads files by their absolute paths.
    #[test]
    fn a_manifest_has_the_uid_that_the_node_gives_it_whatever_path_leads_there() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap().join("real");
        std::fs::create_dir_all(real.join("inner")).unwrap();
        std::fs::write(
            real.join("web.yaml"),
            "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: a, image: i}]}}",
        )
        .unwrap();
        let linked = directory.path().join("linked");
        std::os::unix::fs::symlink(&real, &linked).unwrap();
        let here = std::env::current_dir().unwrap();
        let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
        let relative = up.join(real.strip_prefix("/").unwrap()).join("web.yaml");
        let mut settings = Settings::below(directory.path(), "node-1");
        for source in [None, Some(real.clone()), Some(linked.clone()), Some(linked.join("web.yaml"))] {
            settings.static_pod_path = source.clone();
            let known = source.unwrap_or_else(|| real.clone());
            let mut node = crate::source::directory::Directory::new(&known, "node-1");
            let pods = node.refresh(&crate::source::directory::Scope::All, jiff::Timestamp::now()).unwrap().pods.unwrap();
            for path in [&relative, &real.join("inner/../web.yaml"), &linked.join("web.yaml"), &real.join("./web.yaml")] {
                assert_eq!(plan(path, &settings).unwrap().pod.uid, pods[0].uid, "{} of {}", path.display(), known.display());
            }
        }
    }

    #[test]
    fn every_warning_is_told() {
        let shown = explained(
            "{dnsPolicy: ClusterFirst, containers: [{name: a, image: i, resources: {limits: {ephemeral-storage: 1Gi}}}]}",
        );
        let warnings: Vec<&str> = shown["warnings"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(warnings[0], "configuration: port: has no effect");
        let limit =
            "spec.containers[0].resources.limits[ephemeral-storage]: \"1Gi\" has no effect: it is not enforced on static pods";
        for told in ["MissingClusterDNS: ", limit] {
            assert!(warnings.iter().any(|warning| warning.starts_with(told)), "{warnings:?}");
        }
    }

    #[test]
    fn nothing_is_refused_or_shown_for_a_runtime_and_an_image_that_were_not_looked_at() {
        let shown = explained(
            "{volumes: [{name: d, emptyDir: {}}], containers: [{name: a, image: i, securityContext: {runAsNonRoot: true}, \
             volumeMounts: [{name: d, mountPath: /d, readOnly: true, recursiveReadOnly: Enabled}]}]}",
        );
        let container = &shown["containers"][0];
        let mount = container["mounts"].as_array().unwrap().iter().find(|mount| mount["containerPath"] == "/d").unwrap();
        assert_eq!(mount["recursiveReadOnly"], true);
        assert_eq!(container["linux"]["securityContext"]["runAsUser"], Value::Null);

        let shown = explained("{securityContext: {runAsUser: 7}, containers: [{name: a, image: i}]}");
        assert_eq!(shown["containers"][0]["linux"]["securityContext"]["runAsUser"], json!({"value": 7}));
    }
}
