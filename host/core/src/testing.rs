//! Values that tests of several modules begin with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::config::Config;
use crate::observed::{Container, ContainerState};
use crate::pod::{Pod, Source};
use crate::question::restart::Bounds;
use crate::record::PodRecord;
use crate::time::Wall;

/// A pod `web_shop(u1)` of the API with this spec, created at 1 s.
pub(crate) fn pod(spec: Value) -> Pod {
    pod_of(json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": spec}))
}

/// A pod of the API from a whole object, created at 1 s.
pub(crate) fn pod_of(object: Value) -> Pod {
    Pod::parse(Arc::new(serde_json::from_value(object).unwrap()), Source::Api, Wall(1000)).unwrap()
}

/// What is remembered of a pod that began at 2 s and of which nothing else is known.
pub(crate) fn record(pod: &Pod) -> PodRecord {
    PodRecord {
        uid: pod.uid.clone(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        started: Wall(2000),
        stop: None,
        end: None,
        over: false,
        placement: None,
        containers: BTreeMap::new(),
    }
}

/// A running attempt `<name>-<attempt>` of a container of which nothing else is known.
pub(crate) fn attempt(name: &str, attempt: u32) -> Container {
    Container {
        id: format!("{name}-{attempt}").into(),
        name: name.into(),
        sandbox: "sandbox".into(),
        attempt,
        state: ContainerState::Running,
        created: Wall(3000),
        started: Some(Wall(3000)),
        finished: None,
        exit_code: 0,
        reason: String::new(),
        message: String::new(),
        image: String::new(),
        image_ref: String::new(),
        hash: String::new(),
        annotations: BTreeMap::new(),
        pre_stop: None,
        user: None,
        stop_signal: None,
        recursively_read_only: Default::default(),
    }
}

/// Upstream's defaults on a node of 4 cores and 16 GiB, without thresholds.
pub(crate) fn config() -> Config {
    let bounds = Bounds { initial: 10_000, maximum: 300_000, reset_after: 600_000 };
    Config {
        node_name: "node".into(),
        node_ips: vec!["10.0.0.1".into()],
        sources: vec![Source::Api],
        restart: bounds,
        image_backoff: bounds,
        relist: Duration::from_secs(1),
        relist_with_events: Duration::from_secs(300),
        sampling: Duration::from_secs(10),
        max_pods: 110,
        parallel_pulls: 1,
        pull_rate: None,
        dead_per_container: 1,
        allow_give_up: false,
        allow_tier: false,
        evict_static: false,
        local_storage_limits: true,
        probe_mercy: Duration::from_secs(60),
        memory_capacity: 16 << 30,
        memory_allocatable: 15 << 30,
        cpu_capacity: 4000,
        cpu_allocatable: 4000,
        storage_allocatable: 0,
        huge_pages: Default::default(),
        apparmor: false,
        supplemental_groups_policy: false,
        thresholds: Vec::new(),
        pressure_transition: Duration::from_secs(300),
        eviction_max_grace: Duration::ZERO,
        runtime_name: "containerd".into(),
    }
}
