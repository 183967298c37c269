//! One question for each function of the contract.

use std::collections::BTreeMap;
use std::sync::Arc;

use polylet_core::pod::{ContainerKind, ProbeKind, QosClass, RestartPolicy};
use polylet_core::question::eviction::{Assess, Candidate, Rank, Shortage, Signal, Starved};
use polylet_core::question::probe::{Meaning, Outcome};
use polylet_core::question::qos::{ContainerPlacement, Placement};
use polylet_core::question::restart::{Bounds, Cause, Termination};
use polylet_core::question::{Body, ContainerFacts, Facts, NodeFacts, PodFacts, PodTraits, PodWords, Question, Words};
use polylet_core::question::{probe, qos, restart};

const NOW: u64 = 1_790_000_000_000;

pub(crate) fn all() -> Vec<Arc<Question>> {
    vec![restart(), probe(), qos(), assess(), rank(3)]
}

pub(crate) fn restart() -> Arc<Question> {
    let last = Termination { at: NOW, ran_for: 1_000, exit_code: 1, signal: None, out_of_memory: false, cause: Cause::Exited };
    let mut question = question(Body::Restart(restart::Question {
        pod: pod(),
        container: container(),
        node: node(),
        last,
        bounds: Bounds { initial: 10_000, maximum: 300_000, reset_after: 600_000 },
        default_delay: 10_000,
    }));
    let facts = [("backoff.current", 10_000), ("backoff.updated", NOW as i64 - 5_000), ("backoff.reset-after", 600_000)];
    question.facts.numbers.extend(facts.map(|(name, value)| (name.to_owned(), value)));
    question.words.texts.insert("failure.reason".into(), "Error".into());
    Arc::new(question)
}

pub(crate) fn probe() -> Arc<Question> {
    Arc::new(question(Body::Probe(probe::Question {
        pod: pod(),
        container: container(),
        node: node(),
        kind: ProbeKind::Liveness,
        spec: probe::Spec { initial_delay: 0, period: 10_000, timeout: 1_000, success_threshold: 1, failure_threshold: 3 },
        outcome: Outcome::Http {
            status: 503,
            retry_after: Some(2_000),
            redirected_off_host: false,
            body_start: "overloaded".into(),
        },
        latency: 12,
        running_for: 60_000,
        streak: 4,
        default_verdict: Meaning::Failure,
    })))
}

pub(crate) fn qos() -> Arc<Question> {
    let placed = ContainerPlacement { oom_score: 999, memory_high: None };
    let mut question = question(Body::Qos(qos::Question {
        pod: pod(),
        containers: vec![container(), container()],
        pod_level: None,
        node: node(),
        default_placement: Placement {
            tier: QosClass::Burstable,
            cpu_weight: None,
            memory_min: None,
            memory_low: None,
            memory_high: None,
            containers: vec![placed.clone(), placed],
        },
    }));
    question.words.containers = vec!["web".into(), "log".into()];
    Arc::new(question)
}

pub(crate) fn assess() -> Arc<Question> {
    let signal = Signal {
        name: "memory.available".into(),
        starved: Starved::Memory,
        available: 200 << 20,
        capacity: 8 << 30,
        sampled: NOW,
        threshold: Some(100 << 20),
        hard: true,
        crossed_since: None,
    };
    Arc::new(question(Body::Assess(Assess { node: node(), signals: vec![signal] })))
}

/// A shortage of memory among so many pods, whose numbers are scattered but the same each time.
pub(crate) fn rank(pods: u32) -> Arc<Question> {
    let candidate = |pod: u32| {
        let scatter = u64::from(pod).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        Candidate {
            pod,
            namespace: pod % 7,
            controller: (!pod.is_multiple_of(5)).then_some(pod / 3),
            priority: [0, 0, 0, 1_000, -10][pod as usize % 5],
            class: [QosClass::BestEffort, QosClass::Burstable, QosClass::Guaranteed][pod as usize % 3],
            traits: PodTraits { daemon: pod.is_multiple_of(11), ..PodTraits::default() },
            started: NOW - scatter,
            memory_usage: (!pod.is_multiple_of(97)).then_some(scatter),
            memory_request: (scatter * 3) % (4 << 30),
            disk_usage: Some(scatter / 2),
            disk_request: 0,
            default_place: pod,
        }
    };
    let mut question = question(Body::Rank(Rank {
        node: NodeFacts { memory_pressure: true, ..node() },
        shortage: Shortage { starved: Starved::Memory, hard: true, reclaim: 1 << 30, reason: "memory.available".into() },
        candidates: (0..pods).map(candidate).collect(),
    }));
    let column = |step: i64| (0..i64::from(pods)).map(|row| row * step).collect::<Vec<_>>();
    let columns = [("memory.growth", column(7)), ("processes", column(1)), ("restarts", column(0))];
    let columns = BTreeMap::from(columns.map(|(name, values)| (name.to_owned(), values)));
    question.facts.tables.insert("candidates".into(), columns);
    question.words.namespaces = (0..7).map(|n| format!("tenant-{n}")).collect();
    question.words.controllers = (0..=pods / 3).map(|n| ("ReplicaSet".into(), format!("web-{n}"))).collect();
    question.words.pods = (0..pods).map(words).collect();
    Arc::new(question)
}

fn question(body: Body) -> Question {
    let facts = Facts { numbers: BTreeMap::from([("pod.containers".into(), 2)]), tables: BTreeMap::new() };
    let words = Words {
        pods: vec![words(0)],
        namespaces: vec!["default".into()],
        controllers: vec![("ReplicaSet".into(), "web-6d4f".into())],
        container: Some("web".into()),
        ..Words::default()
    };
    Question { body, facts, words }
}

fn words(pod: u32) -> PodWords {
    PodWords {
        uid: format!("6f1c8a52-0000-4000-8000-{pod:012}"),
        name: format!("web-{pod}"),
        labels: Arc::new(BTreeMap::from([("app".into(), "web".into())])),
        annotations: Arc::default(),
    }
}

fn pod() -> PodFacts {
    PodFacts {
        pod: 0,
        namespace: 0,
        controller: Some(0),
        priority: 0,
        class: QosClass::Burstable,
        traits: PodTraits::default(),
        created: NOW - 90_000,
        started: Some(NOW - 80_000),
    }
}

fn container() -> ContainerFacts {
    ContainerFacts {
        kind: ContainerKind::App,
        restart_policy: RestartPolicy::Always,
        restarts: 3,
        cpu_request: Some(100),
        cpu_limit: None,
        memory_request: Some(64 << 20),
        memory_limit: Some(128 << 20),
    }
}

fn node() -> NodeFacts {
    NodeFacts {
        now: NOW,
        running_pods: 12,
        cpu_capacity: 4_000,
        cpu_allocatable: 3_800,
        memory_capacity: 8 << 30,
        memory_allocatable: 7 << 30,
        memory_available: Some(3 << 30),
        ..NodeFacts::default()
    }
}
