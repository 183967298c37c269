//! Questions of the core as the contract's types.

use polylet_core::pod::{self, ContainerKind, ProbeKind, QosClass, RestartPolicy};
use polylet_core::question::restart::Cause;
use polylet_core::question::{self as core, probe::Failure, probe::Meaning, probe::Outcome};

use crate::bindings::{eviction, probe, qos, restart, types};

/// Priority from which on the kubelet calls a pod critical.
const CRITICAL: i32 = 2_000_000_000;

pub(crate) fn restart(question: &core::restart::Question) -> restart::Question {
    restart::Question {
        pod: pod_facts(&question.pod),
        // A sandbox belongs to no container.
        container: (question.last.cause != Cause::SandboxFailed).then(|| container(&question.container)),
        node: node(&question.node),
        last: termination(&question.last),
        bounds: restart::Bounds {
            initial: question.bounds.initial,
            maximum: question.bounds.maximum,
            reset_after: question.bounds.reset_after,
        },
        default_delay: question.default_delay,
    }
}

fn termination(last: &core::restart::Termination) -> restart::Termination {
    let ended = matches!(last.cause, Cause::Exited | Cause::Unhealthy | Cause::HookFailed);
    restart::Termination {
        at: last.at,
        ran_for: last.ran_for,
        exit_code: ended.then_some(last.exit_code),
        signal: last.signal,
        out_of_memory: last.out_of_memory,
        cause: match last.cause {
            Cause::Exited => restart::Cause::Exited,
            Cause::Unhealthy => restart::Cause::Unhealthy,
            Cause::Lost => restart::Cause::Lost,
            Cause::StartFailed => restart::Cause::StartFailed,
            Cause::HookFailed => restart::Cause::HookFailed,
            Cause::ImagePullFailed => restart::Cause::ImagePullFailed,
            Cause::SandboxFailed => restart::Cause::SandboxFailed,
        },
    }
}

pub(crate) fn probe(question: &core::probe::Question) -> probe::Question {
    probe::Question {
        pod: pod_facts(&question.pod),
        container: container(&question.container),
        node: node(&question.node),
        kind: match question.kind {
            ProbeKind::Liveness => probe::Kind::Liveness,
            ProbeKind::Readiness => probe::Kind::Readiness,
            ProbeKind::Startup => probe::Kind::Startup,
        },
        spec: probe::Spec {
            initial_delay: question.spec.initial_delay,
            period: question.spec.period,
            timeout: question.spec.timeout,
            success_threshold: question.spec.success_threshold,
            failure_threshold: question.spec.failure_threshold,
        },
        outcome: outcome(&question.outcome),
        latency: question.latency,
        running_for: question.running_for,
        streak: question.streak,
        default_verdict: match question.default_verdict {
            Meaning::Success => probe::Verdict::Success,
            Meaning::Warning => probe::Verdict::Warning,
            Meaning::Failure => probe::Verdict::Failure,
            Meaning::Unknown => probe::Verdict::Unknown,
        },
    }
}

fn outcome(outcome: &Outcome) -> probe::Outcome {
    match outcome {
        Outcome::Http { status, retry_after, redirected_off_host, .. } => probe::Outcome::Http(probe::HttpAnswer {
            status: *status,
            retry_after: *retry_after,
            redirected_off_host: *redirected_off_host,
        }),
        Outcome::TcpOpen => probe::Outcome::TcpOpen,
        Outcome::Grpc(status) => probe::Outcome::Grpc(*status),
        Outcome::Exec { exit_code, .. } => probe::Outcome::Exec(*exit_code),
        Outcome::Failed(failure) => probe::Outcome::Failed(match failure {
            Failure::Timeout => probe::Failure::Timeout,
            Failure::Refused => probe::Failure::Refused,
            Failure::Reset => probe::Failure::Reset,
            Failure::Unreachable => probe::Failure::Unreachable,
            Failure::NameResolution => probe::Failure::NameResolution,
            Failure::Tls => probe::Failure::Tls,
            Failure::Protocol => probe::Failure::Protocol,
            Failure::Exec => probe::Failure::Exec,
            Failure::Internal => probe::Failure::Internal,
        }),
    }
}

pub(crate) fn qos(question: &core::qos::Question) -> qos::Question {
    let placement = &question.default_placement;
    qos::Question {
        pod: pod_facts(&question.pod),
        containers: question.containers.iter().map(container).collect(),
        pod_level: question.pod_level.as_ref().map(resources),
        node: node(&question.node),
        default_placement: qos::Placement {
            tier: class(placement.tier),
            cpu_weight: placement.cpu_weight,
            memory_min: placement.memory_min,
            memory_low: placement.memory_low,
            memory_high: placement.memory_high,
            containers: placement
                .containers
                .iter()
                .map(|c| qos::ContainerPlacement { oom_score: c.oom_score, memory_high: c.memory_high })
                .collect(),
        },
    }
}

pub(crate) fn signals(signals: &[core::eviction::Signal]) -> Vec<eviction::Signal> {
    signals
        .iter()
        .map(|signal| eviction::Signal {
            name: signal.name.clone(),
            starved: starved(signal.starved),
            available: signal.available,
            capacity: signal.capacity,
            sampled: signal.sampled,
            threshold: signal.threshold,
            hard: signal.hard,
            crossed_since: signal.crossed_since,
        })
        .collect()
}

pub(crate) fn shortage(shortage: &core::eviction::Shortage) -> eviction::Shortage {
    eviction::Shortage {
        starved: starved(shortage.starved),
        hard: shortage.hard,
        reclaim: shortage.reclaim,
        reason: shortage.reason.clone(),
    }
}

fn starved(starved: core::eviction::Starved) -> eviction::StarvedResource {
    use core::eviction::Starved;
    match starved {
        Starved::Memory => eviction::StarvedResource::Memory,
        Starved::Disk => eviction::StarvedResource::Disk,
        Starved::Inodes => eviction::StarvedResource::Inodes,
        Starved::ImageDisk => eviction::StarvedResource::ImageDisk,
        Starved::ImageInodes => eviction::StarvedResource::ImageInodes,
        Starved::ContainerDisk => eviction::StarvedResource::ContainerDisk,
        Starved::ContainerInodes => eviction::StarvedResource::ContainerInodes,
        Starved::Pids => eviction::StarvedResource::Pids,
    }
}

pub(crate) fn candidates(candidates: &[core::eviction::Candidate]) -> Vec<eviction::Candidate> {
    candidates
        .iter()
        .map(|candidate| eviction::Candidate {
            pod: candidate.pod,
            namespace: candidate.namespace,
            controller: candidate.controller,
            priority: candidate.priority,
            class: class(candidate.class),
            traits: traits(candidate.traits, candidate.priority),
            started: candidate.started,
            memory_usage: candidate.memory_usage,
            memory_request: candidate.memory_request,
            disk_usage: candidate.disk_usage,
            disk_request: candidate.disk_request,
            default_place: candidate.default_place,
        })
        .collect()
}

fn pod_facts(pod: &core::PodFacts) -> types::PodFacts {
    types::PodFacts {
        pod: pod.pod,
        namespace: pod.namespace,
        controller: pod.controller,
        priority: pod.priority,
        class: class(pod.class),
        traits: traits(pod.traits, pod.priority),
        created: pod.created,
        started: pod.started,
    }
}

pub(crate) fn class(class: QosClass) -> types::QosClass {
    match class {
        QosClass::BestEffort => types::QosClass::BestEffort,
        QosClass::Burstable => types::QosClass::Burstable,
        QosClass::Guaranteed => types::QosClass::Guaranteed,
    }
}

fn traits(traits: core::PodTraits, priority: i32) -> types::PodTraits {
    let critical = traits.static_pod || traits.cluster_critical || traits.node_critical || priority >= CRITICAL;
    [
        (traits.static_pod, types::PodTraits::STATIC_POD),
        (critical, types::PodTraits::CRITICAL),
        (traits.node_critical, types::PodTraits::NODE_CRITICAL),
        (traits.daemon, types::PodTraits::DAEMON),
        (traits.host_network, types::PodTraits::HOST_NETWORK),
        (traits.terminating, types::PodTraits::TERMINATING),
    ]
    .into_iter()
    .filter(|(holds, _)| *holds)
    .fold(types::PodTraits::empty(), |all, (_, flag)| all | flag)
}

fn container(container: &core::ContainerFacts) -> types::ContainerFacts {
    types::ContainerFacts {
        kind: match container.kind {
            ContainerKind::App => types::ContainerKind::App,
            ContainerKind::Init => types::ContainerKind::Init,
            ContainerKind::Sidecar => types::ContainerKind::Sidecar,
            ContainerKind::Ephemeral => types::ContainerKind::Ephemeral,
        },
        restart_policy: match container.restart_policy {
            RestartPolicy::Always => types::RestartPolicy::Always,
            RestartPolicy::OnFailure => types::RestartPolicy::OnFailure,
            RestartPolicy::Never => types::RestartPolicy::Never,
        },
        restarts: container.restarts,
        resources: types::Resources {
            cpu_request: container.cpu_request,
            cpu_limit: container.cpu_limit,
            memory_request: container.memory_request,
            memory_limit: container.memory_limit,
        },
    }
}

fn resources(resources: &pod::Resources) -> types::Resources {
    types::Resources {
        cpu_request: resources.cpu_request,
        cpu_limit: resources.cpu_limit,
        memory_request: resources.memory_request,
        memory_limit: resources.memory_limit,
    }
}

pub(crate) fn node(node: &core::NodeFacts) -> types::NodeFacts {
    let conditions = [
        (node.memory_pressure, types::Conditions::MEMORY_PRESSURE),
        (node.disk_pressure, types::Conditions::DISK_PRESSURE),
        (node.pid_pressure, types::Conditions::PID_PRESSURE),
        (node.network_not_ready, types::Conditions::NETWORK_NOT_READY),
    ];
    types::NodeFacts {
        now: node.now,
        conditions: conditions
            .into_iter()
            .filter(|(holds, _)| *holds)
            .fold(types::Conditions::empty(), |all, (_, flag)| all | flag),
        running_pods: node.running_pods,
        cpu_capacity: node.cpu_capacity,
        cpu_allocatable: node.cpu_allocatable,
        memory_capacity: node.memory_capacity,
        memory_allocatable: node.memory_allocatable,
        memory_available: node.memory_available,
        cpu_stall: node.cpu_stall,
        memory_stall: node.memory_stall,
        io_stall: node.io_stall,
    }
}
