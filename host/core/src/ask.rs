//! Builds questions from what the node knows. The names of facts are those of `wit/facts.tsv`.
//!
//! **Invariant:** a question carries the default's answer, and everything from which the default can work it out again.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::id::ContainerId;
use crate::pod::{Container, Pod, Probe as ProbeSpec, ProbeKind};
use crate::question::eviction::{Assess, Candidate, Rank, Shortage, Signal};
use crate::question::probe::{Failure, Meaning, Outcome, Spec};
use crate::question::qos::{ContainerPlacement, Placement};
use crate::question::restart::{Bounds, Cause, Termination};
use crate::question::{
    Answer, Body, ContainerFacts, Facts, NodeFacts, PodFacts, PodTraits, PodWords, Question, Words, probe, qos, restart,
};
use crate::record::{Backoff, PodRecord};
use crate::sample::{ContainerUsage, PodUsage, Sample};
use crate::time::{Now, Wall, millis};

mod native;

pub use native::native;

/// "Not known", in a column.
pub const UNKNOWN: i64 = i64::MIN;

/// What a restart question is made of.
#[derive(Clone, Debug)]
pub struct Restart<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The container.
    pub container: &'a Container,
    /// What is remembered of the pod.
    pub record: &'a PodRecord,
    /// The node.
    pub node: NodeFacts,
    /// What ended or failed.
    pub last: Termination,
    /// Earlier ends of the container, oldest first.
    pub history: &'a [Termination],
    /// The default's entry.
    pub backoff: Option<&'a Backoff>,
    /// The operator's bounds.
    pub bounds: Bounds,
}

/// When to try again?
pub fn restart_question(from: &Restart<'_>) -> Question {
    let mut facts = pod_facts_by_name(from.pod, from.record);
    if let Some(entry) = from.backoff {
        facts.numbers.insert("backoff.current".into(), signed(entry.delay));
        facts.numbers.insert("backoff.updated".into(), signed(entry.updated.0));
    }
    // What has ended or not begun is not ready.
    facts.numbers.insert("container.ready".into(), 0);
    let end = from.record.containers.get(&from.container.name).and_then(|record| record.last.as_ref());
    if let Some(started) = end.and_then(|end| end.started) {
        facts.numbers.insert("container.started".into(), signed(started.0));
    }
    facts.numbers.insert("backoff.reset-after".into(), signed(from.bounds.reset_after));
    let rows = from.history;
    let column = |f: &dyn Fn(&Termination) -> i64| rows.iter().map(f).collect::<Vec<i64>>();
    facts.tables.insert(
        "history".into(),
        BTreeMap::from([
            ("at".into(), column(&|t| signed(t.at))),
            ("ran-for".into(), column(&|t| signed(t.ran_for))),
            ("exit-code".into(), column(&|t| if ran(t.cause) { i64::from(t.exit_code) } else { UNKNOWN })),
            ("signal".into(), column(&|t| t.signal.map_or(UNKNOWN, i64::from))),
            ("out-of-memory".into(), column(&|t| i64::from(t.out_of_memory))),
            ("cause".into(), column(&|t| cause_code(t.cause))),
        ]),
    );
    let body = restart::Question {
        pod: pod_facts(from.pod, from.record),
        container: container_facts(from.pod, from.container, from.record),
        node: from.node.clone(),
        last: from.last.clone(),
        bounds: from.bounds,
        default_delay: 0,
    };
    finish(Question { body: Body::Restart(body), facts, words: words(from.pod, Some(from.container)) })
}

/// One earlier attempt of a probe, for the table `history`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeAttempt {
    /// When it returned.
    pub at: Wall,
    /// What was made of it.
    pub meaning: Meaning,
    /// Milliseconds.
    pub latency: u64,
    /// HTTP status, gRPC serving status or exit code.
    pub status: Option<i64>,
    /// Why there was no answer.
    pub failure: Option<Failure>,
}

impl ProbeAttempt {
    /// An attempt as it returned.
    pub fn new(at: Wall, meaning: Meaning, latency: u64, outcome: &Outcome) -> Self {
        let (status, failure) = match outcome {
            Outcome::Http { status, .. } => (Some(i64::from(*status)), None),
            Outcome::Grpc(status) => (Some(i64::from(*status)), None),
            Outcome::Exec { exit_code, .. } => (Some(i64::from(*exit_code)), None),
            Outcome::TcpOpen => (None, None),
            Outcome::Failed(failure) => (None, Some(*failure)),
        };
        Self { at, meaning, latency, status, failure }
    }
}

/// What a probe question is made of.
#[derive(Clone, Debug)]
pub struct Probe<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The container.
    pub container: &'a Container,
    /// What is remembered of the pod.
    pub record: &'a PodRecord,
    /// The node.
    pub node: NodeFacts,
    /// Which probe.
    pub kind: ProbeKind,
    /// As the spec declares it.
    pub spec: &'a ProbeSpec,
    /// What happened.
    pub outcome: Outcome,
    /// Upstream's text for it.
    pub text: &'a str,
    /// Milliseconds that the attempt took.
    pub latency: u64,
    /// When the container started.
    pub started: Option<Wall>,
    /// It is ready so far.
    pub ready: bool,
    /// Consecutive results of one kind, negative for failures.
    pub streak: i32,
    /// Attempts since the container was started, this one included.
    pub attempts: u64,
    /// Earlier attempts, oldest first.
    pub history: &'a [ProbeAttempt],
}

/// What does the attempt mean?
pub fn probe_question(from: &Probe<'_>) -> Question {
    let mut facts = pod_facts_by_name(from.pod, from.record);
    if let Some(started) = from.started {
        facts.numbers.insert("container.started".into(), signed(started.0));
    }
    facts.numbers.insert("container.ready".into(), i64::from(from.ready));
    facts.numbers.insert("probe.attempts".into(), signed(from.attempts));
    if let Some(grace) = from.spec.grace {
        facts.numbers.insert("probe.grace".into(), signed(millis(grace)));
    }
    let mut words = words(from.pod, Some(from.container));
    words.texts.insert("probe.output".into(), from.text.chars().take(1024).collect());
    let rows = from.history;
    let column = |f: &dyn Fn(&ProbeAttempt) -> i64| rows.iter().map(f).collect::<Vec<i64>>();
    facts.tables.insert(
        "history".into(),
        BTreeMap::from([
            ("at".into(), column(&|a| signed(a.at.0))),
            ("verdict".into(), column(&|a| a.meaning as i64)),
            ("latency".into(), column(&|a| signed(a.latency))),
            ("status".into(), column(&|a| a.status.unwrap_or(UNKNOWN))),
            ("failure".into(), column(&|a| a.failure.map_or(UNKNOWN, |f| f as i64))),
        ]),
    );
    let body = probe::Question {
        pod: pod_facts(from.pod, from.record),
        container: container_facts(from.pod, from.container, from.record),
        running_for: from.started.map_or(0, |s| from.node.now.saturating_sub(s.0)),
        node: from.node.clone(),
        kind: from.kind,
        spec: Spec {
            initial_delay: millis(from.spec.initial_delay),
            period: millis(from.spec.period),
            timeout: millis(from.spec.timeout),
            success_threshold: from.spec.success_threshold,
            failure_threshold: from.spec.failure_threshold,
        },
        outcome: from.outcome.clone(),
        latency: from.latency,
        streak: from.streak,
        default_verdict: Meaning::Unknown,
    };
    finish(Question { body: Body::Probe(body), facts, words })
}

/// Where does the pod stand?
pub fn qos_question(pod: &Pod, record: &PodRecord, node: NodeFacts, config: &Config) -> Question {
    let mut facts = pod_facts_by_name(pod, record);
    if let Some(class) = pod.object.status.as_ref().and_then(|s| s.qos_class.as_deref()) {
        let code = match class {
            "BestEffort" => Some(0),
            "Burstable" => Some(1),
            "Guaranteed" => Some(2),
            _ => None,
        };
        facts.numbers.extend(code.map(|c| ("pod.class.reported".to_owned(), c)));
    }
    let listed: Vec<&Container> = pod.init_containers().chain(pod.app_containers()).collect();
    let column =
        |f: &dyn Fn(&Container) -> Option<u64>| listed.iter().map(|c| f(c).map_or(UNKNOWN, signed)).collect::<Vec<i64>>();
    // What was answered the last time is what they run with.
    let placed = |at: usize| record.placement.as_ref()?.containers.get(at).map(|placed| i64::from(placed.oom_score));
    let scores = (0..listed.len()).map(|at| placed(at).unwrap_or(UNKNOWN)).collect();
    facts.tables.insert(
        "containers".into(),
        BTreeMap::from([
            ("disk.request".into(), column(&|c| c.resources.storage_request)),
            ("disk.limit".into(), column(&|c| c.resources.storage_limit)),
            ("oom-score.current".into(), scores),
        ]),
    );
    let node = NodeFacts { memory_capacity: config.memory_capacity, ..node };
    let body = qos::Question {
        pod: pod_facts(pod, record),
        containers: listed.iter().map(|c| container_facts(pod, c, record)).collect(),
        pod_level: pod.resources,
        node,
        default_placement: Placement {
            tier: pod.qos,
            cpu_weight: None,
            memory_min: None,
            memory_low: None,
            memory_high: None,
            containers: listed.iter().map(|_| ContainerPlacement { oom_score: 0, memory_high: None }).collect(),
        },
    };
    let mut words = words(pod, None);
    words.containers = listed.iter().map(|c| c.name.as_str().to_owned()).collect();
    finish(Question { body: Body::Qos(body), facts, words })
}

/// Does a policy see a shortage beyond the thresholds?
pub fn assess_question(node: NodeFacts, signals: Vec<Signal>, facts: BTreeMap<String, i64>) -> Question {
    let facts = Facts { numbers: facts, ..Facts::default() };
    Question { body: Body::Assess(Assess { node, signals }), facts, words: Words::default() }
}

/// One pod that could be a victim.
#[derive(Clone, Debug)]
pub struct Contender<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// What is remembered of it.
    pub record: &'a PodRecord,
    /// What it uses, where that could be measured.
    pub usage: Option<&'a PodUsage>,
    /// Bytes a second that its working set grew by over the last minute.
    pub growth: Option<i64>,
}

/// Who goes first?
pub fn rank_question(
    node: NodeFacts,
    shortage: Shortage,
    contenders: &[Contender<'_>],
    numbers: BTreeMap<String, i64>,
) -> Question {
    let mut words = Words::default();
    let mut candidates = Vec::with_capacity(contenders.len());
    for (index, c) in contenders.iter().enumerate() {
        let namespace = intern(&mut words.namespaces, &c.pod.namespace);
        let controller = c.pod.controller.as_ref().map(|owner| intern(&mut words.controllers, owner));
        words.pods.push(pod_words(c.pod));
        let facts = pod_facts(c.pod, c.record);
        candidates.push(Candidate {
            pod: index as u32,
            namespace,
            controller,
            priority: facts.priority,
            class: facts.class,
            traits: facts.traits,
            started: facts.started.unwrap_or(0),
            memory_usage: c.usage.and_then(|u| u.memory_working_set),
            memory_request: c.pod.memory_request(),
            disk_usage: c.usage.and_then(PodUsage::disk),
            disk_request: c.pod.storage_request(),
            default_place: 0,
        });
    }
    let usage = |f: fn(&PodUsage) -> Option<u64>| -> Vec<i64> {
        contenders.iter().map(|c| c.usage.and_then(f).map_or(UNKNOWN, signed)).collect()
    };
    let own =
        |f: &dyn Fn(&Contender<'_>) -> Option<i64>| -> Vec<i64> { contenders.iter().map(|c| f(c).unwrap_or(UNKNOWN)).collect() };
    let columns: BTreeMap<String, Vec<i64>> = BTreeMap::from([
        ("cpu.usage".into(), usage(|u| u.cpu)),
        ("cpu.request".into(), own(&|c| Some(signed(c.pod.cpu_request())))),
        ("cpu.stall".into(), usage(|u| u.cpu_stall.map(u64::from))),
        ("memory.working-set".into(), usage(|u| u.memory_working_set)),
        ("memory.rss".into(), usage(|u| u.memory_rss)),
        ("memory.swap".into(), usage(|u| u.memory_swap)),
        ("memory.growth".into(), own(&|c| c.growth)),
        ("memory.limit".into(), own(&|c| c.pod.total().memory_limit.map(signed))),
        ("memory.stall".into(), usage(|u| u.memory_stall.map(u64::from))),
        ("io.stall".into(), usage(|u| u.io_stall.map(u64::from))),
        ("disk.usage".into(), candidates.iter().map(|c| c.disk_usage.map_or(UNKNOWN, signed)).collect()),
        ("disk.request".into(), own(&|c| Some(signed(c.pod.storage_request())))),
        ("disk.limit".into(), own(&|c| c.pod.total().storage_limit.map(signed))),
        ("disk.rootfs".into(), usage(|u| u.disk_rootfs)),
        ("disk.logs".into(), usage(|u| u.disk_logs)),
        ("disk.volumes".into(), usage(|u| u.disk_volumes)),
        ("inodes".into(), usage(PodUsage::inodes)),
        ("inodes.rootfs".into(), usage(|u| u.inodes_rootfs)),
        ("inodes.logs".into(), usage(|u| u.inodes_logs)),
        ("inodes.volumes".into(), usage(|u| u.inodes_volumes)),
        ("processes".into(), usage(|u| u.processes)),
        ("restarts".into(), own(&|c| Some(restarts(c.record)))),
        ("containers".into(), own(&|c| Some(c.pod.containers.len() as i64))),
        ("grace".into(), own(&|c| Some(signed(millis(c.pod.grace))))),
    ]);
    let mut facts = Facts { numbers, ..Facts::default() };
    facts.tables.insert("candidates".into(), columns);
    finish(Question { body: Body::Rank(Rank { node, shortage, candidates }), facts, words })
}

/// What was measured, for questions that do not carry it already: the node, and the pod spoken of; of its containers those that
/// `id` finds by name.
pub fn add_measured<'a>(
    question: &mut Question,
    now: Now,
    sample: &Sample,
    usage: Option<&PodUsage>,
    id: impl Fn(&str) -> Option<&'a ContainerId>,
) {
    let numbers = &mut question.facts.numbers;
    for (name, value) in &sample.facts {
        numbers.entry(name.clone()).or_insert(*value);
    }
    numbers.insert("node.uptime".into(), signed(now.mono.0));
    let Some(usage) = usage else { return };
    let own = |name: &str| usage.containers.get(id(name)?);
    let container = question.words.container.as_deref().and_then(own).copied().unwrap_or_default();
    for (name, value) in [
        ("container.cpu.usage", container.cpu),
        ("container.memory.working-set", container.memory_working_set),
        ("container.memory.rss", container.memory_rss),
        ("container.memory.swap", container.memory_swap),
        ("pod.cpu.usage", usage.cpu),
        ("pod.cpu.stall", usage.cpu_stall.map(u64::from)),
        ("pod.memory.working-set", usage.memory_working_set),
        ("pod.memory.rss", usage.memory_rss),
        ("pod.memory.swap", usage.memory_swap),
        ("pod.memory.stall", usage.memory_stall.map(u64::from)),
        ("pod.io.stall", usage.io_stall.map(u64::from)),
        ("pod.processes", usage.processes),
    ] {
        if let Some(value) = value {
            numbers.insert(name.into(), signed(value));
        }
    }
    let Some(table) = question.facts.tables.get_mut("containers") else { return };
    let names = &question.words.containers;
    let column = |of: fn(&ContainerUsage) -> Option<u64>| -> Vec<i64> {
        names.iter().map(|name| own(name).and_then(of).map_or(UNKNOWN, signed)).collect()
    };
    table.insert("cpu.usage".into(), column(|c| c.cpu));
    table.insert("memory.working-set".into(), column(|c| c.memory_working_set));
    table.insert("memory.rss".into(), column(|c| c.memory_rss));
}

/// Why a container ended or could not be started, in the words of its status.
pub fn add_failure(question: &mut Question, reason: &str, message: &str) {
    for (name, text) in [("failure.reason", reason), ("failure.message", message)] {
        if !text.is_empty() {
            question.words.texts.insert(name.into(), text.chars().take(1024).collect());
        }
    }
}

/// What may stand in a record: no probe bodies, no outputs of commands, which may hold anything. The names of what is kept back come
/// with it. (What a container left as its termination message stands in its status for all to read, and stays.)
pub fn redact(question: &Question) -> (Question, Vec<String>) {
    let mut question = question.clone();
    let mut withheld = Vec::new();
    if question.words.texts.remove("probe.output").is_some_and(|text| !text.is_empty()) {
        withheld.push("probe.output".to_owned());
    }
    if let Body::Probe(q) = &mut question.body {
        let (name, start) = match &mut q.outcome {
            Outcome::Http { body_start, .. } => ("body-start", body_start),
            Outcome::Exec { output_start, .. } => ("output-start", output_start),
            Outcome::TcpOpen | Outcome::Grpc(_) | Outcome::Failed(_) => return (question, withheld),
        };
        if !std::mem::take(start).is_empty() {
            withheld.push(name.to_owned());
        }
    }
    (question, withheld)
}

/// Fills in the default's answer.
fn finish(mut question: Question) -> Question {
    let answer = native(&question);
    match (&mut question.body, answer) {
        (Body::Restart(q), Answer::Restart(a)) => q.default_delay = a.delay,
        (Body::Probe(q), Answer::Probe(a)) => q.default_verdict = a.verdict,
        (Body::Qos(q), Answer::Qos(a)) => q.default_placement = a.placement,
        (Body::Rank(q), Answer::Rank(order)) => {
            for (place, victim) in order.iter().enumerate() {
                if let Some(candidate) = q.candidates.get_mut(victim.pod as usize) {
                    candidate.default_place = place as u32;
                }
            }
        }
        _ => {}
    }
    question
}

fn pod_facts(pod: &Pod, record: &PodRecord) -> PodFacts {
    let class = |name: &str| pod.priority_class.as_deref() == Some(name);
    PodFacts {
        pod: 0,
        namespace: 0,
        controller: pod.controller.as_ref().map(|_| 0),
        priority: pod.priority,
        class: pod.qos,
        traits: PodTraits {
            static_pod: pod.is_static() || pod.is_mirror(),
            cluster_critical: class("system-cluster-critical"),
            node_critical: class("system-node-critical") && pod.is_critical(),
            daemon: pod.controller.as_ref().is_some_and(|(kind, _)| kind == "DaemonSet"),
            host_network: pod.host_network,
            terminating: record.stop.is_some(),
        },
        created: pod.created.0,
        started: Some(record.started.0),
    }
}

fn container_facts(pod: &Pod, container: &Container, record: &PodRecord) -> ContainerFacts {
    ContainerFacts {
        kind: container.kind,
        restart_policy: container.restart_policy.unwrap_or(pod.restart_policy),
        restarts: record.containers.get(&container.name).and_then(|c| c.attempt).unwrap_or(0),
        cpu_request: container.resources.cpu_request,
        cpu_limit: container.resources.cpu_limit,
        memory_request: container.resources.memory_request,
        memory_limit: container.resources.memory_limit,
    }
}

fn pod_facts_by_name(pod: &Pod, record: &PodRecord) -> Facts {
    let mut facts = Facts::default();
    facts.numbers.insert("pod.grace".into(), signed(millis(pod.grace)));
    facts.numbers.insert("pod.containers".into(), pod.containers.len() as i64);
    facts.numbers.insert("pod.restarts".into(), restarts(record));
    facts.numbers.insert("pod.memory.request".into(), signed(pod.memory_request()));
    facts.numbers.insert("pod.cpu.overhead".into(), signed(pod.overhead("cpu")));
    facts.numbers.insert("pod.memory.overhead".into(), signed(pod.overhead("memory")));
    if let Some(limit) = pod.total().memory_limit {
        facts.numbers.insert("pod.memory.limit".into(), signed(limit));
    }
    facts
}

fn words(pod: &Pod, container: Option<&Container>) -> Words {
    let mut texts = BTreeMap::new();
    if let Some(class) = &pod.priority_class {
        texts.insert("pod.priority-class".into(), class.clone());
    }
    if let Some(class) = pod.object.spec.as_ref().and_then(|spec| spec.runtime_class_name.as_ref()) {
        texts.insert("pod.runtime-class".into(), class.clone());
    }
    if let Some(container) = container {
        texts.insert("container.image".into(), container.image.clone());
    }
    Words {
        texts,
        pods: vec![pod_words(pod)],
        namespaces: vec![pod.namespace.clone()],
        controllers: pod.controller.iter().cloned().collect(),
        container: container.map(|c| c.name.as_str().to_owned()),
        ..Words::default()
    }
}

fn pod_words(pod: &Pod) -> PodWords {
    PodWords {
        uid: pod.uid.as_str().to_owned(),
        name: pod.name.clone(),
        labels: pod.labels.clone(),
        annotations: pod.annotations.clone(),
    }
}

fn intern<T: Clone + PartialEq>(known: &mut Vec<T>, item: &T) -> u32 {
    let place = known.iter().position(|k| k == item).unwrap_or_else(|| {
        known.push(item.clone());
        known.len() - 1
    });
    place as u32
}

fn restarts(record: &PodRecord) -> i64 {
    record.containers.values().filter_map(|c| c.attempt).map(i64::from).sum()
}

fn ran(cause: Cause) -> bool {
    matches!(cause, Cause::Exited | Cause::Unhealthy | Cause::HookFailed)
}

fn cause_code(cause: Cause) -> i64 {
    match cause {
        Cause::Exited => 0,
        Cause::Unhealthy => 1,
        Cause::Lost => 2,
        Cause::StartFailed => 3,
        Cause::HookFailed => 4,
        Cause::ImagePullFailed => 5,
        Cause::SandboxFailed => 6,
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
