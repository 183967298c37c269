//! Values that tests of several modules begin with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::config::Config;
use crate::observed::{Container, ContainerState, Sandbox, SandboxState};
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
    PodRecord::new(pod.uid.clone(), &pod.namespace, &pod.name, Wall(2000))
}

/// A sandbox of the pods' network, made at 6 s.
pub(crate) fn sandbox(id: &str, ready: bool) -> Sandbox {
    Sandbox {
        id: id.into(),
        attempt: 0,
        state: if ready { SandboxState::Ready } else { SandboxState::NotReady },
        created: Wall(6_000),
        ips: vec!["10.1.0.7".into()],
        has_network: true,
        trouble: None,
        host_network: false,
        runtime_handler: String::new(),
    }
}

/// An attempt of a container in the sandbox `s1`: `a=run`, `a#2=137`, `b=made`, `c=lost`; its id is `a-2`.
pub(crate) fn attempt(word: &str) -> Container {
    let (name, state) = word.split_once('=').unwrap();
    let (name, number) = name.split_once('#').unwrap_or((name, "0"));
    let number: u32 = number.parse().unwrap();
    let code: i32 = state.parse().unwrap_or(0);
    let (state, reason) = match state {
        "run" => (ContainerState::Running, ""),
        "made" => (ContainerState::Created, ""),
        "lost" => (ContainerState::Unknown, ""),
        _ => (ContainerState::Exited, if code == 0 { "Completed" } else { "Error" }),
    };
    let from = Wall(10_250 + u64::from(number) * 10_000);
    Container {
        id: format!("{name}-{number}").as_str().into(),
        name: name.into(),
        sandbox: "s1".into(),
        attempt: number,
        state,
        created: from,
        started: (state != ContainerState::Created).then_some(from),
        finished: (state == ContainerState::Exited).then_some(from + Duration::from_secs(5)),
        exit_code: code,
        reason: reason.into(),
        message: String::new(),
        image: "registry.example/img:1".into(),
        image_ref: "img@sha256:00".into(),
        hash: String::new(),
        annotations: BTreeMap::new(),
        pre_stop: None,
        stop_signal: None,
        recursively_read_only: Default::default(),
        user: None,
    }
}

/// Upstream's defaults on a node of 4 cores and 16 GiB, without thresholds.
pub(crate) fn config() -> Config {
    Config {
        node_name: "node".into(),
        node_ips: vec!["10.0.0.1".into()],
        sources: vec![Source::Api],
        restart: Bounds::crash_up_to(300_000),
        image_backoff: Bounds::IMAGE_PULL,
        relist: Duration::from_secs(1),
        relist_with_events: Duration::from_secs(300),
        sampling: Duration::from_secs(10),
        max_pods: 110,
        parallel_pulls: 1,
        pull_rate: None,
        dead: Default::default(),
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
