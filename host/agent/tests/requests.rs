//! What the runtime is asked for: each manifest in `requests/` with the messages that it comes to, beside it as JSON. Nothing of the machine
//! is read: the node is the one below, changed by the words of a line `# node: …`; further lines give an image's user (`# image: uid=1000`,
//! `# image: user=web`), files that containers have written (`# env-file: VOLUME PATH CONTENT`, `\n` being a newline), a container for
//! debugging, which only the API can bring (`# ephemeral: JSON`; its target, where it has one, runs as `id-of-target`), how many
//! sandboxes and containers were there before (`# attempt: 3`), that it is no static pod (`# source: api`), and where a policy has the
//! kernel throttle (`# memory-high: BYTES`).
//!
//! `UPDATE=1 cargo test -p polylet --test requests` writes the messages anew: to be read before they are kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use polylet_agent::settings::{Found, Settings};
use polylet_agent::source::{Origin, load};
use polylet_core::ask;
use polylet_core::observed::Image;
use polylet_core::paths::Paths;
use polylet_core::pod::{ContainerKind, Pod, Source};
use polylet_core::question::{Answer, NodeFacts, qos::Placement};
use polylet_core::record::PodRecord;
use polylet_core::time::Wall;
use polylet_core::userns::IdRange;
use polylet_core::volume::EnvFiles;
use polylet_machine::cgroup::{CgroupName, Driver};
use polylet_machine::volume;
use polylet_runtime::{
    ContainerInputs, HandlerFeatures, NodeContext, ResolvConf, Swap, container_config, has_own_users, message_json,
    sandbox_config,
};
use serde_json::{Value, json};

const GI: u64 = 1 << 30;

/// What pods inherit of the node's own resolver.
fn host_dns(words: &str) -> Option<ResolvConf> {
    let none = words.split_whitespace().any(|word| word == "no-resolv-conf");
    (!none).then(|| ResolvConf::parse("nameserver 192.0.2.53\nsearch example.com\noptions timeout:1 attempts:2\n"))
}

/// Upstream's defaults, on a node of 4 cores and 16 GiB with cgroup v2 and a runtime that can do all.
fn node(words: &str) -> NodeContext {
    let can = HandlerFeatures { recursive_read_only_mounts: true, user_namespaces: true };
    let mut node = NodeContext {
        paths: Paths {
            root: "/var/lib/kubelet".into(),
            pod_logs: "/var/log/pods".into(),
            container_logs: "/var/log/containers".into(),
        },
        node_name: "n1".into(),
        node_ips: vec!["192.0.2.1".into(), "2001:db8::1".into()],
        cluster_domain: "cluster.local".into(),
        cluster_dns: vec!["10.96.0.10".into()],
        cpu_cfs_quota: true,
        cpu_cfs_period_us: 100_000,
        seccomp_default: false,
        single_process_oom_kill: false,
        cgroup_v2: true,
        swap: None,
        memory_capacity: 16 * GI,
        memory_allocatable: 15 * GI,
        cpu_allocatable_milli: 3900,
        storage_allocatable: 90 * GI,
        huge_page_sizes: vec!["2MB".into(), "1GB".into()],
        masked_paths: vec!["/sys/devices/system/cpu/cpu0/thermal_throttle".into()],
        selinux: false,
        image_mounts: Ok(()),
        image_parts: Ok(()),
        runtime_handlers: BTreeMap::from([(String::new(), can)]),
    };
    for word in words.split_whitespace() {
        match word {
            "cgroup-v1" => (node.cgroup_v2, node.single_process_oom_kill) = (false, true),
            "no-cluster-dns" => node.cluster_dns.clear(),
            "no-cluster-domain" => node.cluster_domain.clear(),
            "no-quota" => node.cpu_cfs_quota = false,
            // See `host_dns`.
            "no-resolv-conf" => {}
            "old-runtime" => {
                node.runtime_handlers.clear();
                node.image_mounts = Err("this one is old".to_owned());
            }
            "seccomp-default" => node.seccomp_default = true,
            "swap" => node.swap = Some(Swap { limited: true, capacity: 8 * GI }),
            "swap-for-nobody" => node.swap = Some(Swap { limited: false, capacity: 8 * GI }),
            "selinux" => node.selinux = true,
            other => panic!("there is no node {other:?}"),
        }
    }
    node
}

/// What the lines of a header say after `# <word>: `.
fn header<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let start = format!("# {word}: ");
    text.lines().filter_map(|line| line.strip_prefix(&start)).collect()
}

fn image(text: &str) -> Image {
    let mut image = Image { id: "sha256:feed".into(), uid: Some(0), ..Image::default() };
    for line in header(text, "image") {
        match line.split_once('=') {
            Some(("uid", id)) => image.uid = Some(id.parse().unwrap()),
            Some(("user", name)) => (image.uid, image.username) = (None, name.to_owned()),
            _ => panic!("image: {line:?}"),
        }
    }
    image
}

fn env_files(text: &str) -> EnvFiles {
    let lines = header(text, "env-file").into_iter();
    let file = |line: &str| {
        let [volume, path, content] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("env-file: {line:?}") };
        ((volume.to_owned(), path.to_owned()), Ok(content.replace("\\n", "\n").into_bytes()))
    };
    lines.map(file).collect()
}

/// Where the pod stands, as the node judges with no policy bound.
fn placement(pod: &Pod) -> Placement {
    let found = Found {
        memory: 16 * GI,
        cpus: 4,
        storage: 100 * GI,
        huge_pages: BTreeMap::new(),
        apparmor: true,
        supplemental_groups_policy: true,
        node_ips: vec![],
        runtime_name: "containerd".into(),
    };
    let record = PodRecord::new(pod.uid.clone(), &pod.namespace, &pod.name, Wall(0));
    let question = ask::qos_question(pod, &record, NodeFacts::default(), &Settings::below("/var/lib/kubelet", "n1").core(&found));
    match ask::native(&question) {
        Answer::Qos(answer) => answer.placement,
        other => panic!("{other:?}"),
    }
}

/// The messages of a manifest, or why there are none.
fn requests(path: &Path, text: &str) -> Value {
    let place = path.file_name().unwrap().to_string_lossy().into_owned();
    let sysctls = ["kernel.msg*".to_owned()];
    let origin = Origin { source: Source::File, place: &place, node_name: "n1", seen: Timestamp::UNIX_EPOCH, sysctls: &sysctls };
    let mut object = load(text.as_bytes(), &origin).unwrap_or_else(|error| panic!("{error}"));
    let ephemeral = header(text, "ephemeral").into_iter().map(|json| serde_json::from_str(json).unwrap()).collect::<Vec<_>>();
    object.spec.as_mut().unwrap().ephemeral_containers = (!ephemeral.is_empty()).then_some(ephemeral);
    let source = if header(text, "source").contains(&"api") { Source::Api } else { Source::File };
    let pod = Pod::parse(Arc::new(object), source, Wall(0)).unwrap();
    let words = header(text, "node").first().copied().unwrap_or_default();
    let (node, image, env_files) = (node(words), image(text), env_files(text));
    let (placement, uid) = (placement(&pod), pod.uid.as_str());
    let number = |word: &str| header(text, word).first().map(|number| number.parse::<u32>().unwrap());
    let attempt = number("attempt").unwrap_or(0);
    let users = has_own_users(&pod).then_some(IdRange { first: 131_072, length: 65_536 });
    let ips = if pod.host_network { node.node_ips.clone() } else { vec!["10.244.0.7".to_owned(), "fd00:10:244::7".to_owned()] };
    let parent = CgroupName::pod(&CgroupName::from_cgroupfs("/"), uid, placement.tier).path(Driver::Cgroupfs);

    let sandbox = match sandbox_config(&node, &pod, attempt, &parent, users, host_dns(words).as_ref()) {
        Ok(sandbox) => sandbox,
        Err(error) => return json!({"error": error.to_string()}),
    };
    let mut out = json!({"sandbox": message_json("runtime.v1.PodSandboxConfig", &sandbox.message).unwrap()});
    if !sandbox.warnings.is_empty() {
        let texts = sandbox.warnings.iter().map(|(reason, text)| format!("{reason}: {text}"));
        out["warnings"] = texts.collect();
    }
    let ephemeral = pod.of_kind(ContainerKind::Ephemeral);
    for (at, container) in pod.init_containers().chain(pod.app_containers()).chain(ephemeral).enumerate() {
        let name = container.name.as_str();
        let (log, hosts) = (node.paths.container(uid, name).join("0badcafe"), node.paths.etc_hosts(uid));
        let of_volume = |name: &str| Image { id: format!("sha256:{name}"), ..Image::default() };
        let mounted = container.image_volumes.iter().map(|v| (v.volume.clone(), of_volume(&v.volume))).collect();
        let inputs = ContainerInputs {
            pod: &pod,
            container,
            attempt,
            image: &image,
            ips: &ips,
            oom_score_adj: placement.containers.get(at).map_or(1000, |c| i64::from(c.oom_score)),
            memory_high: number("memory-high").map(u64::from),
            hosts_file: Some(&hosts),
            termination_log: Some(&log),
            volumes: &|name| volume::volume_path(&node.paths, &pod, name),
            mounted_images: &mounted,
            env_files: &env_files,
            user_namespace: users,
            target: pod.target_of(container).map(|_| "id-of-target"),
        };
        out["containers"][name] = match container_config(&node, &inputs) {
            Ok(config) => message_json("runtime.v1.ContainerConfig", &config.message).unwrap(),
            Err(error) => json!({"error": error.to_string()}),
        };
    }
    out
}

#[test]
fn manifests_come_to_these_messages() {
    // As cargo says now: a binary that was built for another tree must not write into that.
    let krate = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let dir = krate.join("tests/requests");
    let entries = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
    cases.sort();
    assert!(cases.len() >= 70, "{}", cases.len());
    let update = std::env::var_os("UPDATE").is_some();
    let mut failures = Vec::new();
    for path in &cases {
        let found = requests(path, &fs::read_to_string(path).unwrap());
        let text = serde_json::to_string_pretty(&found).unwrap() + "\n";
        let golden = path.with_extension("json");
        if update {
            fs::write(&golden, text).unwrap();
        } else if serde_json::from_str::<Value>(&fs::read_to_string(&golden).unwrap_or_default()).ok() != Some(found) {
            failures.push(format!("{}: other messages than in {}:\n{text}", path.display(), golden.display()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
