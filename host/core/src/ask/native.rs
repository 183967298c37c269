//! The last rung: every question answered natively by `policies/upstream`, from the question alone.

use polylet_upstream::eviction::{FileSystem, Layout, Parts, Row, Starved as UpStarved, rank, usage_of};
use polylet_upstream::{probe as up_probe, qos as up_qos, restart as up_restart};

use crate::pod::{ContainerKind, QosClass, Resources};
use crate::question::eviction::{Rank, Starved, Victim};
use crate::question::probe::{Failure, Meaning, Outcome};
use crate::question::qos::{ContainerPlacement, Placement};
use crate::question::{Answer, Body, ContainerFacts, Facts, Question, probe, qos, restart};

use super::UNKNOWN;

/// What the kubelet would do.
pub fn native(question: &Question) -> Answer {
    let facts = &question.facts;
    match &question.body {
        Body::Restart(q) => Answer::Restart(restart_answer(q, facts)),
        Body::Probe(q) => {
            Answer::Probe(probe::Answer { verdict: meaning(&q.outcome), next_in: None, grace: None, reason: String::new() })
        }
        Body::Qos(q) => Answer::Qos(qos::Answer { placement: placement(q, facts), reason: String::new() }),
        Body::Assess(_) => Answer::Assess(Vec::new()),
        Body::Rank(q) => Answer::Rank(order(q, facts)),
    }
}

fn restart_answer(q: &restart::Question, facts: &Facts) -> restart::Answer {
    let number = |name: &str| facts.numbers.get(name).and_then(|n| u64::try_from(*n).ok());
    let entry = number("backoff.current")
        .zip(number("backoff.updated"))
        .map(|(backoff_ms, updated_ms)| up_restart::Entry { backoff_ms, updated_ms });
    let bounds =
        up_restart::Bounds { initial_ms: q.bounds.initial, maximum_ms: q.bounds.maximum, reset_after_ms: q.bounds.reset_after };
    restart::Answer { delay: up_restart::delay(entry, q.last.at, bounds), give_up: false, reason: String::new() }
}

fn meaning(outcome: &Outcome) -> Meaning {
    let outcome = match outcome {
        Outcome::Http { status, .. } => up_probe::Outcome::Http(*status),
        Outcome::TcpOpen => up_probe::Outcome::TcpOpen,
        Outcome::Grpc(status) => up_probe::Outcome::Grpc(*status),
        Outcome::Exec { exit_code, .. } => up_probe::Outcome::Exec(*exit_code),
        Outcome::Failed(failure) => up_probe::Outcome::Failed(match failure {
            Failure::Timeout => up_probe::Failure::Timeout,
            Failure::Refused => up_probe::Failure::Refused,
            Failure::Reset => up_probe::Failure::Reset,
            Failure::Unreachable => up_probe::Failure::Unreachable,
            Failure::NameResolution => up_probe::Failure::NameResolution,
            Failure::Tls => up_probe::Failure::Tls,
            Failure::Protocol => up_probe::Failure::Protocol,
            Failure::Exec => up_probe::Failure::Exec,
            Failure::Internal => up_probe::Failure::Internal,
        }),
    };
    match up_probe::interpret(outcome) {
        up_probe::Verdict::Success => Meaning::Success,
        up_probe::Verdict::Warning => Meaning::Warning,
        up_probe::Verdict::Failure => Meaning::Failure,
        up_probe::Verdict::Unknown => Meaning::Unknown,
    }
}

fn placement(q: &qos::Question, facts: &Facts) -> Placement {
    let containers: Vec<up_qos::Container> = q.containers.iter().map(container).collect();
    let reported = match facts.numbers.get("pod.class.reported") {
        Some(0) => Some(up_qos::QosClass::BestEffort),
        Some(1) => Some(up_qos::QosClass::Burstable),
        Some(2) => Some(up_qos::QosClass::Guaranteed),
        _ => None,
    };
    let pod = up_qos::Pod {
        reported,
        node_critical: q.pod.traits.node_critical,
        containers: &containers,
        pod_level: q.pod_level.map(resources),
    };
    let placed = up_qos::place(&pod, q.node.memory_capacity);
    Placement {
        tier: match placed.tier {
            up_qos::QosClass::BestEffort => QosClass::BestEffort,
            up_qos::QosClass::Burstable => QosClass::Burstable,
            up_qos::QosClass::Guaranteed => QosClass::Guaranteed,
        },
        cpu_weight: None,
        memory_min: None,
        memory_low: None,
        memory_high: None,
        containers: placed.oom_scores.into_iter().map(|oom_score| ContainerPlacement { oom_score, memory_high: None }).collect(),
    }
}

fn container(c: &ContainerFacts) -> up_qos::Container {
    let kind = match c.kind {
        ContainerKind::App => up_qos::Kind::App,
        ContainerKind::Init => up_qos::Kind::Init,
        ContainerKind::Sidecar => up_qos::Kind::Sidecar,
        ContainerKind::Ephemeral => up_qos::Kind::Ephemeral,
    };
    let resources = up_qos::Resources {
        cpu_request: c.cpu_request,
        cpu_limit: c.cpu_limit,
        memory_request: c.memory_request,
        memory_limit: c.memory_limit,
    };
    up_qos::Container { kind, resources }
}

fn resources(r: Resources) -> up_qos::Resources {
    up_qos::Resources {
        cpu_request: r.cpu_request,
        cpu_limit: r.cpu_limit,
        memory_request: r.memory_request,
        memory_limit: r.memory_limit,
    }
}

fn order(q: &Rank, facts: &Facts) -> Vec<Victim> {
    let starved = match q.shortage.starved {
        Starved::Memory => UpStarved::Memory,
        Starved::Disk => UpStarved::Disk(FileSystem::Node),
        Starved::Inodes => UpStarved::Inodes(FileSystem::Node),
        Starved::ImageDisk => UpStarved::Disk(FileSystem::Image),
        Starved::ImageInodes => UpStarved::Inodes(FileSystem::Image),
        Starved::ContainerDisk => UpStarved::Disk(FileSystem::Container),
        Starved::ContainerInodes => UpStarved::Inodes(FileSystem::Container),
        Starved::Pids => UpStarved::Pids,
    };
    let layout = match facts.numbers.get("node.disk.layout") {
        Some(1) => Layout::Dedicated,
        Some(2) => Layout::Split,
        _ => Layout::Single,
    };
    let table = facts.tables.get("candidates");
    let at = |column: &str, row: usize| -> u64 {
        let value = table.and_then(|t| t.get(column)).and_then(|c| c.get(row)).copied().unwrap_or(UNKNOWN);
        u64::try_from(value).unwrap_or(0)
    };
    let parts = |kind: &str, row: usize| Parts {
        rootfs: at(&format!("{kind}.rootfs"), row),
        logs: at(&format!("{kind}.logs"), row),
        volumes: at(&format!("{kind}.volumes"), row),
    };
    let rows: Vec<Row> = q
        .candidates
        .iter()
        .enumerate()
        .map(|(i, c)| {
            // A pod without disk usage has no statistics at all.
            let some = |usage: u64| c.disk_usage.map(|_| usage);
            let (usage, request) = match starved {
                UpStarved::Memory => (c.memory_usage, c.memory_request),
                UpStarved::Pids => (some(at("processes", i)), c.disk_request),
                UpStarved::Disk(fs) => (some(usage_of(fs, layout, parts("disk", i))), c.disk_request),
                UpStarved::Inodes(fs) => (some(usage_of(fs, layout, parts("inodes", i))), c.disk_request),
            };
            Row { usage, request, priority: c.priority }
        })
        .collect();
    let victim = |i: u32| Victim { pod: q.candidates[i as usize].pod, grace: None, reason: String::new() };
    rank(starved, &rows).into_iter().map(victim).collect()
}
