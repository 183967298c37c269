//! What the tests of several topics begin with.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1;
use polylet_core::paths::Paths;
use polylet_core::pod::{Pod, Source};
use polylet_core::time::Wall;
use serde_json::{Value, json};

use super::{Allocatable, Node, ResolvConf};
use crate::capabilities::HandlerFeatures;

/// A pod `web_shop(u1)` of the API with this spec.
pub(super) fn pod(spec: Value) -> Pod {
    pod_of(json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": spec}))
}

/// A pod with one container `app` and these further fields of it.
pub(super) fn pod_with(container: Value) -> Pod {
    let mut app = json!({"name": "app", "image": "app"});
    if let (Some(app), Value::Object(more)) = (app.as_object_mut(), container) {
        app.extend(more);
    }
    pod(json!({"containers": [app]}))
}

/// A pod of the API from a whole object.
pub(super) fn pod_of(object: Value) -> Pod {
    Pod::parse(Arc::new(serde_json::from_value(object).unwrap()), Source::Api, Wall(1000)).unwrap()
}

/// The container in the API's object.
pub(super) fn spec(pod: &Pod, name: &str) -> v1::Container {
    super::spec_of(pod, name).unwrap()
}

/// Upstream's defaults, on a node of 4 cores and 16 GiB with cgroup v2.
pub(super) fn node() -> Node {
    Node {
        paths: Paths {
            root: "/var/lib/kubelet".into(),
            pod_logs: "/var/log/pods".into(),
            container_logs: "/var/log/containers".into(),
        },
        name: "node-1".into(),
        ips: vec!["192.0.2.1".into(), "2001:db8::1".into()],
        cluster_domain: "cluster.local".into(),
        cluster_dns: vec!["10.96.0.10".into()],
        resolv_conf: Some(ResolvConf::parse("nameserver 192.0.2.53\nsearch example.com\noptions timeout:1\n")),
        cpu_quota: true,
        cpu_period_us: 100_000,
        seccomp_default: false,
        single_process_oom_kill: true,
        cgroup_v2: true,
        swap: None,
        allocatable: Allocatable { cpu: 3900, memory: 15 << 30, storage: 90 << 30 },
        memory_capacity: 16 << 30,
        huge_page_sizes: vec![2 << 20, 1 << 30],
        masked_paths: vec![],
        selinux: false,
        handlers: [(String::new(), HandlerFeatures { recursive_read_only_mounts: true, user_namespaces: true })].into(),
    }
}

pub(super) fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(super) fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
