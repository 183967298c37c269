//! Questions for native tests, plain ones: a test changes what it is about, by `..`.

use crate::types::{
    Conditions, ContainerFacts, ContainerKind, NodeFacts, PodFacts, PodTraits, QosClass, Resources, RestartPolicy,
};
use crate::{eviction, probe, qos, restart};

/// The instant of all samples: 2026-01-01T00:00:00Z, in milliseconds since the epoch.
pub const NOW: u64 = 1_767_225_600_000;

const GI: u64 = 1 << 30;

/// A Burstable pod, an hour old.
#[must_use]
pub fn pod() -> PodFacts {
    PodFacts {
        pod: 0,
        namespace: 0,
        controller: None,
        priority: 0,
        class: QosClass::Burstable,
        traits: PodTraits::empty(),
        created: NOW - 3_600_000,
        started: Some(NOW - 3_600_000),
    }
}

/// An app container that asks for 100 millicores and 64 MiB.
#[must_use]
pub fn container() -> ContainerFacts {
    ContainerFacts {
        kind: ContainerKind::App,
        restart_policy: RestartPolicy::Always,
        restarts: 0,
        resources: Resources { cpu_request: Some(100), cpu_limit: None, memory_request: Some(64 << 20), memory_limit: None },
    }
}

/// A node of 4 CPUs and 16 GiB, under no pressure.
#[must_use]
pub fn node() -> NodeFacts {
    NodeFacts {
        now: NOW,
        conditions: Conditions::empty(),
        running_pods: 10,
        cpu_capacity: 4000,
        cpu_allocatable: 3800,
        memory_capacity: 16 * GI,
        memory_allocatable: 15 * GI,
        memory_available: Some(8 * GI),
        cpu_stall: Some(0),
        memory_stall: Some(0),
        io_stall: Some(0),
    }
}

/// The container has just exited with code 1 after a minute; by default it is started again at once.
#[must_use]
pub fn restart() -> restart::Question {
    restart::Question {
        pod: pod(),
        container: Some(container()),
        node: node(),
        last: restart::Termination {
            at: NOW,
            ran_for: 60_000,
            exit_code: Some(1),
            signal: None,
            out_of_memory: false,
            cause: restart::Cause::Exited,
        },
        bounds: restart::Bounds { initial: 10_000, maximum: 300_000, reset_after: 600_000 },
        default_delay: 0,
    }
}

/// A readiness probe got 200 over HTTP, as it did ten times before.
#[must_use]
pub fn probe() -> probe::Question {
    probe::Question {
        pod: pod(),
        container: container(),
        node: node(),
        kind: probe::Kind::Readiness,
        spec: probe::Spec { initial_delay: 0, period: 10_000, timeout: 1000, success_threshold: 1, failure_threshold: 3 },
        outcome: probe::Outcome::Http(probe::HttpAnswer { status: 200, retry_after: None, redirected_off_host: false }),
        latency: 5,
        running_for: 100_000,
        streak: 10,
        default_verdict: probe::Verdict::Success,
    }
}

/// A pod of one container is admitted.
#[must_use]
pub fn qos() -> qos::Question {
    qos::Question {
        pod: pod(),
        containers: vec![container()],
        pod_level: None,
        node: node(),
        default_placement: qos::Placement {
            tier: QosClass::Burstable,
            cpu_weight: None,
            memory_min: None,
            memory_low: None,
            memory_high: None,
            containers: vec![qos::ContainerPlacement { oom_score: 997, memory_high: None }],
        },
    }
}

/// Memory is short by 100 MiB, and hard.
#[must_use]
pub fn shortage() -> eviction::Shortage {
    eviction::Shortage { starved: eviction::StarvedResource::Memory, hard: true, reclaim: 100 << 20, reason: String::new() }
}

/// A Burstable pod that uses 128 MiB of memory where it asked for 64.
#[must_use]
pub fn candidate(pod: u32) -> eviction::Candidate {
    eviction::Candidate {
        pod,
        namespace: 0,
        controller: None,
        priority: 0,
        class: QosClass::Burstable,
        traits: PodTraits::empty(),
        started: NOW - 3_600_000,
        memory_usage: Some(128 << 20),
        memory_request: 64 << 20,
        disk_usage: Some(0),
        disk_request: 0,
        default_place: pod,
    }
}
