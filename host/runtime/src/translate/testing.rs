//! What the tests of several topics begin with.

use std::collections::BTreeMap;
use std::sync::Arc;

use polylet_core::observed::Image;
use polylet_core::paths::Paths;
use polylet_core::pod::{Pod, Source};
use polylet_core::time::Wall;
use polylet_core::volume::EnvFiles;
use serde_json::{Value, json};

use super::{ContainerInputs, NodeContext};
use crate::capabilities::HandlerFeatures;

/// A pod `web_shop(u1)` of the API with this spec.
pub(super) fn pod(spec: Value) -> Pod {
    pod_of(json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": spec}))
}

/// A pod with one container `app` and these further fields of it. An annotation `ref` holds a reference to a variable.
pub(super) fn pod_with(container: Value) -> Pod {
    let mut app = json!({"name": "app", "image": "app"});
    if let (Some(app), Value::Object(more)) = (app.as_object_mut(), container) {
        app.extend(more);
    }
    let metadata = json!({"name": "web", "namespace": "shop", "uid": "u1", "annotations": {"ref": "$(A)"}});
    pod_of(json!({"metadata": metadata, "spec": {"containers": [app]}}))
}

/// A pod of the API from a whole object.
pub(super) fn pod_of(object: Value) -> Pod {
    Pod::parse(Arc::new(serde_json::from_value(object).unwrap()), Source::Api, Wall(1000)).unwrap()
}

/// What a test gets of this container: the first attempt, an image of user 0, score 938; no addresses, files and volumes.
pub(super) fn with_inputs<A>(pod: &Pod, container: &str, test: impl FnOnce(&ContainerInputs<'_>) -> A) -> A {
    test(&ContainerInputs {
        pod,
        container: pod.container(container).unwrap(),
        attempt: 0,
        image: &Image { id: "sha256:feed".into(), ..Default::default() },
        ips: &[],
        oom_score_adj: 938,
        memory_high: None,
        hosts_file: None,
        termination_log: None,
        volumes: &|_| None,
        mounted_images: &BTreeMap::new(),
        env_files: &EnvFiles::new(),
        user_namespace: None,
        target: None,
    })
}

/// Upstream's defaults, on a node of 4 cores and 16 GiB with cgroup v2.
pub(super) fn node() -> NodeContext {
    NodeContext {
        paths: Paths {
            root: "/var/lib/kubelet".into(),
            pod_logs: "/var/log/pods".into(),
            container_logs: "/var/log/containers".into(),
        },
        node_name: "node-1".into(),
        node_ips: vec!["192.0.2.1".into(), "2001:db8::1".into()],
        cluster_domain: "cluster.local".into(),
        cluster_dns: vec!["10.96.0.10".into()],
        cpu_cfs_quota: true,
        cpu_cfs_period_us: 100_000,
        seccomp_default: false,
        single_process_oom_kill: true,
        cgroup_v2: true,
        swap: None,
        memory_capacity: 16 << 30,
        memory_allocatable: 15 << 30,
        cpu_allocatable_milli: 3900,
        storage_allocatable: 90 << 30,
        huge_page_sizes: strings(&["2MB", "1GB"]),
        masked_paths: vec![],
        selinux: false,
        image_mounts: Ok(()),
        image_parts: Ok(()),
        runtime_handlers: [(String::new(), HandlerFeatures { recursive_read_only_mounts: true, user_namespaces: true })].into(),
    }
}

pub(super) fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(super) fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
