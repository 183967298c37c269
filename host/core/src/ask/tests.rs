use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::pod::{ContainerKind, QosClass};
use crate::question::eviction::Starved;
use crate::record::{ContainerRecord, Ended};
use crate::restart::{backoff_key, default_delay};
use crate::testing::{self, config};

/// A pod with one container `app`, given by its fields, and probes to ask about.
fn pod(fields: Value) -> Pod {
    let mut c = json!({"name": "app", "image": "app:1", "livenessProbe": {"tcpSocket": {"port": 80}}});
    c.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    testing::pod(json!({"containers": [c], "priorityClassName": "high"}))
}

fn termination(at: u64, cause: Cause) -> Termination {
    Termination { at, ran_for: 5, exit_code: 3, signal: None, out_of_memory: false, cause }
}

fn restart(backoff: Option<&Backoff>, at: u64) -> Question {
    let pod = pod(json!({}));
    let mut record = testing::record(&pod);
    record.containers.insert("app".into(), ContainerRecord { attempt: Some(4), ..ContainerRecord::default() });
    restart_question(&Restart {
        pod: &pod,
        container: &pod.containers[0],
        record: &record,
        node: NodeFacts { now: at, ..NodeFacts::default() },
        last: termination(at, Cause::Exited),
        history: &[termination(1, Cause::ImagePullFailed), termination(at, Cause::Exited)],
        backoff,
        bounds: config().restart,
    })
}

fn probe(kind: ProbeKind, outcome: Outcome) -> Question {
    let pod = pod(json!({"livenessProbe": {"tcpSocket": {"port": 80}, "terminationGracePeriodSeconds": 7}}));
    probe_question(&Probe {
        pod: &pod,
        container: &pod.containers[0],
        record: &testing::record(&pod),
        node: NodeFacts { now: 9_000, ..NodeFacts::default() },
        kind,
        spec: pod.containers[0].probes.liveness.as_ref().unwrap(),
        latency: 12,
        text: "secret text",
        started: Some(Wall(4_000)),
        ready: false,
        streak: -2,
        attempts: 2,
        history: &[ProbeAttempt::new(Wall(8_000), Meaning::Failure, 3, &Outcome::Failed(Failure::Refused))],
        outcome,
    })
}

fn rank(pods: &[Pod]) -> Question {
    let usage = PodUsage { memory_working_set: Some(100), disk_rootfs: Some(1), ..PodUsage::default() };
    let records: Vec<PodRecord> = pods.iter().map(testing::record).collect();
    let contenders: Vec<Contender<'_>> = pods
        .iter()
        .zip(&records)
        .enumerate()
        .map(|(i, (pod, record))| Contender { pod, record, usage: (i > 0).then_some(&usage), growth: Some(-5) })
        .collect();
    let shortage = Shortage { starved: Starved::Memory, hard: true, reclaim: 1, reason: String::new() };
    rank_question(NodeFacts::default(), shortage, &contenders, BTreeMap::from([("node.disk.layout".into(), 0)]))
}

fn pods() -> Vec<Pod> {
    let pod = |uid: &str, namespace: &str, owner: &str| {
        testing::pod_of(json!({
            "metadata": {"name": uid, "namespace": namespace, "uid": uid, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": owner, "uid": "o", "controller": true},
            ]},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }))
    };
    vec![pod("a", "one", "x"), pod("b", "two", "x"), pod("c", "one", "y")]
}

fn one_of_each() -> Vec<Question> {
    vec![
        restart(Some(&Backoff { key: "k".into(), delay: 40_000, updated: Wall(1) }), 5_000),
        probe(ProbeKind::Liveness, Outcome::TcpOpen),
        qos_question(&pod(json!({})), &testing::record(&pod(json!({}))), NodeFacts::default(), &config()),
        assess_question(NodeFacts::default(), Vec::new(), BTreeMap::new()),
        rank(&pods()),
    ]
}

#[test]
fn the_default_in_a_question_is_the_native_answer_even_of_a_redacted_one() {
    for question in one_of_each() {
        let default = match &question.body {
            Body::Restart(q) => Answer::Restart(restart::Answer { delay: q.default_delay, give_up: false, reason: "".into() }),
            Body::Probe(q) => {
                Answer::Probe(probe::Answer { verdict: q.default_verdict, next_in: None, grace: None, reason: "".into() })
            }
            Body::Qos(q) => Answer::Qos(qos::Answer { placement: q.default_placement.clone(), reason: "".into() }),
            Body::Assess(_) => Answer::Assess(Vec::new()),
            Body::Rank(q) => {
                let mut places: Vec<_> = q.candidates.iter().map(|c| (c.default_place, c.pod)).collect();
                places.sort_unstable();
                let victim = |(_, pod)| crate::question::eviction::Victim { pod, grace: None, reason: "".into() };
                Answer::Rank(places.into_iter().map(victim).collect())
            }
        };
        assert_eq!(native(&question), default);
        assert_eq!(native(&redact(&question).0), default);
        // It survives the form in which it is recorded.
        let text = serde_json::to_string(&question).unwrap();
        assert_eq!(serde_json::from_str::<Question>(&text).unwrap(), question);
    }
}

/// Every name on offer is in the contract's table, for this hook.
#[test]
fn facts_have_the_names_of_the_contract() {
    let table = include_str!("../../../../wit/facts.tsv");
    let listed: BTreeSet<(String, &str, bool)> = table
        .lines()
        .skip(1)
        .filter_map(|line| line.split('\t').collect::<Vec<_>>().try_into().ok())
        .flat_map(|[name, scope, unit, hooks, _]: [&str; 5]| {
            let name = scope.strip_prefix("table ").map_or(name.to_owned(), |table| format!("{table}/{name}"));
            let hooks = if hooks == "all" { "restart probe qos eviction" } else { hooks };
            hooks.split(' ').map(move |hook| (name.clone(), hook, unit == "text")).collect::<Vec<_>>()
        })
        .collect();
    for question in one_of_each() {
        let hook = question.body.hook().as_str();
        let tables = question.facts.tables.iter();
        let columns = tables.flat_map(|(table, columns)| columns.keys().map(move |name| format!("{table}/{name}")));
        for name in question.facts.numbers.keys().cloned().chain(columns) {
            assert!(listed.contains(&(name.clone(), hook, false)), "{hook}: {name}");
        }
        for name in question.words.texts.keys() {
            assert!(listed.contains(&(name.clone(), hook, true)), "{hook}: text {name}");
        }
    }
}

#[test]
fn every_column_has_a_value_for_every_row() {
    for question in one_of_each() {
        let rows = match &question.body {
            Body::Restart(_) => 2,
            Body::Probe(_) | Body::Qos(_) => 1,
            Body::Assess(_) => 0,
            Body::Rank(q) => q.candidates.len(),
        };
        for (table, columns) in &question.facts.tables {
            for (name, values) in columns {
                assert_eq!(values.len(), rows, "{table}/{name}");
            }
        }
    }
}

#[test]
fn the_default_delay_is_the_backoffs() {
    let key = backoff_key(&pod(json!({})).containers[0]);
    let entry = |delay, updated| Some(Backoff { key: key.clone(), delay, updated: Wall(updated) });
    for (entry, at) in
        [(None, 5_000), (entry(10_000, 1_000), 5_000), (entry(160_000, 1_000), 601_000), (entry(160_000, 1_000), 601_001)]
    {
        let question = restart(entry.as_ref(), at);
        let Body::Restart(asked) = &question.body else { panic!() };
        let expected = default_delay(entry.as_ref(), &key, Wall(at), &config().restart);
        assert_eq!(Duration::from_millis(asked.default_delay), expected, "{entry:?} {at}");
        assert_eq!((asked.container.restarts, asked.pod.started), (4, Some(2000)));
    }
    let history = &restart(None, 5_000).facts.tables["history"];
    assert_eq!(history["at"], [1, 5_000]);
    assert_eq!((&history["exit-code"], &history["cause"]), (&vec![UNKNOWN, 3], &vec![5, 0]));
}

#[test]
fn the_default_verdicts() {
    let http = |status| Outcome::Http { status, retry_after: None, redirected_off_host: false, body_start: String::new() };
    let exec = |exit_code| Outcome::Exec { exit_code, output_start: String::new() };
    for (outcome, expected) in [
        (http(200), Meaning::Success),
        (http(302), Meaning::Warning),
        (http(503), Meaning::Failure),
        (Outcome::TcpOpen, Meaning::Success),
        (Outcome::Grpc(1), Meaning::Success),
        (Outcome::Grpc(2), Meaning::Failure),
        (exec(0), Meaning::Success),
        (exec(1), Meaning::Failure),
        (Outcome::Failed(Failure::Timeout), Meaning::Failure),
        (Outcome::Failed(Failure::Refused), Meaning::Failure),
        (Outcome::Failed(Failure::Exec), Meaning::Unknown),
        (Outcome::Failed(Failure::Internal), Meaning::Unknown),
    ] {
        let question = probe(ProbeKind::Readiness, outcome.clone());
        let Body::Probe(asked) = &question.body else { panic!() };
        assert_eq!(asked.default_verdict, expected, "{outcome:?}");
        assert_eq!((asked.running_for, asked.streak, asked.spec.period), (5_000, -2, 10_000));
    }
    let history = &probe(ProbeKind::Liveness, Outcome::TcpOpen).facts.tables["history"];
    assert_eq!((&history["failure"], &history["status"], &history["verdict"]), (&vec![1], &vec![UNKNOWN], &vec![2]));
}

#[test]
fn a_record_holds_no_bodies() {
    let http = Outcome::Http { status: 200, retry_after: None, redirected_off_host: false, body_start: "secret body".into() };
    let exec = Outcome::Exec { exit_code: 0, output_start: "secret output".into() };
    let check = |outcome, expected: &[&str]| {
        let question = probe(ProbeKind::Liveness, outcome);
        assert!(serde_json::to_string(&question).unwrap().contains("secret"));
        let (kept, withheld) = redact(&question);
        assert!(!serde_json::to_string(&kept).unwrap().contains("secret"));
        assert_eq!(withheld, expected);
    };
    check(http, &["probe.output", "body-start"]);
    check(exec, &["probe.output", "output-start"]);
    check(Outcome::TcpOpen, &["probe.output"]);
}

/// The oom scores of a pod on a machine of 16 GiB, in the order of its containers.
#[track_caller]
fn scores(spec: Value, class: QosClass, expected: &[i32]) {
    let pod = testing::pod(spec);
    let question = qos_question(&pod, &testing::record(&pod), NodeFacts::default(), &config());
    let Body::Qos(asked) = &question.body else { panic!() };
    let found: Vec<i32> = asked.default_placement.containers.iter().map(|c| c.oom_score).collect();
    assert_eq!((asked.default_placement.tier, asked.pod.class, found.as_slice()), (class, class, expected));
    assert_eq!(question.words.containers.len(), asked.containers.len());
}

#[test]
fn the_default_placement_has_upstreams_oom_scores() {
    let c = |memory: &str| json!({"name": "c", "image": "i", "resources": {"requests": {"memory": memory, "cpu": "1m"}}});
    for (memory, score) in [("0", 999), ("16Mi", 999), ("17Mi", 999), ("512Mi", 969), ("1Gi", 938), ("8Gi", 500), ("16Gi", 3)] {
        scores(json!({"containers": [c(memory)]}), QosClass::Burstable, &[score]);
    }
    scores(json!({"containers": [{"name": "c", "image": "i"}]}), QosClass::BestEffort, &[1000]);
    let full = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
    scores(json!({"containers": [{"name": "c", "image": "i", "resources": full}]}), QosClass::Guaranteed, &[-997]);
    let two = json!({"containers": [c("1Gi"), c("1Gi")], "resources": {"requests": {"memory": "4Gi"}}});
    scores(two, QosClass::Burstable, &[875, 875]);
    let mut sidecar = c("64Mi");
    sidecar["restartPolicy"] = json!("Always");
    scores(json!({"initContainers": [sidecar], "containers": [c("2Gi")]}), QosClass::Burstable, &[875, 875]);
    // An ephemeral container has no place of its own.
    scores(json!({"containers": [c("1Gi")], "ephemeralContainers": [{"name": "d", "image": "i"}]}), QosClass::Burstable, &[938]);
}

#[test]
fn node_critical_pods_keep_their_score() {
    let spec = json!({
        "priority": 2_000_001_000, "priorityClassName": "system-node-critical", "containers": [{"name": "c", "image": "i"}],
    });
    scores(spec, QosClass::BestEffort, &[-997]);
}

#[test]
fn a_reported_class_is_trusted() {
    let pod = testing::pod_of(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"qosClass": "Guaranteed"},
    }));
    let question = qos_question(&pod, &testing::record(&pod), NodeFacts::default(), &config());
    let Body::Qos(asked) = &question.body else { panic!() };
    assert_eq!((asked.pod.class, asked.default_placement.tier), (QosClass::Guaranteed, QosClass::Guaranteed));
    assert_eq!(asked.containers[0].kind, ContainerKind::App);
}

#[test]
fn words_are_shared_among_candidates() {
    let question = rank(&pods());
    let Body::Rank(asked) = &question.body else { panic!() };
    assert_eq!(question.words.namespaces, ["one", "two"]);
    let owner = |name: &str| ("DaemonSet".to_owned(), name.to_owned());
    assert_eq!(question.words.controllers, [owner("x"), owner("y")]);
    let rows: Vec<_> = asked.candidates.iter().map(|c| (c.pod, c.namespace, c.controller, c.memory_usage)).collect();
    assert_eq!(rows, [(0, 0, Some(0), None), (1, 1, Some(0), Some(100)), (2, 0, Some(1), Some(100))]);
    assert!(asked.candidates.iter().all(|c| c.traits.daemon));
    let columns = &question.facts.tables["candidates"];
    assert_eq!((&columns["disk.rootfs"], &columns["memory.growth"]), (&vec![UNKNOWN, 1, 1], &vec![-5, -5, -5]));
}

/// Each hook's questions carry every fact that the table promises them, when all is known. What is measured of the node is the
/// machine's to name, and the node's name and the agent's age are added where it is asked.
#[test]
fn every_fact_of_the_table_can_be_told() {
    let told = questions_with_everything_known();
    for line in include_str!("../../../../wit/facts.tsv").lines().skip(1) {
        let [name, scope, _, hooks, ..] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        if scope == "node" {
            continue;
        }
        for hook in hooks.split(' ') {
            let question = told.iter().find(|q| {
                format!("{:?}", q.body).to_lowercase().starts_with(match hook {
                    "eviction" => "rank",
                    hook => hook,
                })
            });
            let question = question.unwrap_or_else(|| panic!("no question of {hook}"));
            let known = match scope.strip_prefix("table ") {
                Some(table) => {
                    question.facts.tables[table].get(name).is_some_and(|column| !column.is_empty() && !column.contains(&UNKNOWN))
                }
                None => question.facts.numbers.contains_key(name) || question.words.texts.contains_key(name),
            };
            assert!(known, "{scope}: {name} is not in the question of {hook}: {:?}", question.facts);
        }
    }
}

fn questions_with_everything_known() -> Vec<Question> {
    let all = Some(1);
    let own = ContainerUsage { cpu: all, memory_working_set: all, memory_rss: all, memory_swap: all, disk_rootfs: all };
    let usage = PodUsage {
        memory_working_set: all,
        memory_rss: all,
        memory_swap: all,
        cpu: all,
        processes: all,
        disk_rootfs: all,
        disk_logs: all,
        disk_volumes: all,
        disk_hosts: all,
        inodes_rootfs: all,
        inodes_logs: all,
        inodes_volumes: all,
        cpu_stall: Some(1),
        memory_stall: Some(1),
        io_stall: Some(1),
        containers: BTreeMap::from([("id".into(), own)]),
        logs: BTreeMap::from([("c".into(), 1)]),
        empty_dirs: BTreeMap::from([("v".into(), 1)]),
    };
    let limits = json!({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"});
    let pod = testing::pod_of(json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "spec": {"priorityClassName": "high", "runtimeClassName": "kata", "containers": [{
            "name": "c", "image": "i", "resources": {"requests": limits.clone(), "limits": limits},
            "livenessProbe": {"tcpSocket": {"port": 80}, "terminationGracePeriodSeconds": 7},
        }]},
        "status": {"qosClass": "Guaranteed"},
    }));
    let container = &pod.containers[0];
    let mut record = testing::record(&pod);
    let placed = ContainerPlacement { oom_score: -997, memory_high: None };
    let Body::Qos(q) = qos_question(&pod, &record, NodeFacts::default(), &config()).body else { panic!("not of qos") };
    record.placement = Some(Placement { containers: vec![placed], ..q.default_placement });
    let end = Ended {
        id: None,
        exit_code: 3,
        reason: "Error".into(),
        message: String::new(),
        started: Some(Wall(1)),
        finished: Some(Wall(2)),
    };
    record.containers.insert(container.name.clone(), ContainerRecord { last: Some(end), ..ContainerRecord::default() });
    let signalled = Termination { signal: Some(9), ..termination(2, Cause::Exited) };
    let attempt = ProbeAttempt {
        failure: Some(Failure::Refused),
        status: Some(500),
        ..ProbeAttempt::new(Wall(8), Meaning::Failure, 3, &Outcome::TcpOpen)
    };
    let mut questions = vec![
        restart_question(&Restart {
            pod: &pod,
            container,
            record: &record,
            node: NodeFacts::default(),
            last: signalled.clone(),
            history: &[signalled],
            backoff: Some(&Backoff { key: "k".into(), delay: 40_000, updated: Wall(1) }),
            bounds: config().restart,
        }),
        probe_question(&Probe {
            pod: &pod,
            container,
            record: &record,
            node: NodeFacts::default(),
            kind: ProbeKind::Liveness,
            spec: container.probes.liveness.as_ref().expect("declared"),
            latency: 12,
            text: "refused",
            started: Some(Wall(4)),
            ready: true,
            streak: -2,
            attempts: 2,
            history: &[attempt],
            outcome: Outcome::TcpOpen,
        }),
        qos_question(&pod, &record, NodeFacts::default(), &config()),
        rank_question(
            NodeFacts::default(),
            Shortage { starved: Starved::Memory, hard: true, reclaim: 1, reason: String::new() },
            &[Contender { pod: &pod, record: &record, usage: Some(&usage), growth: Some(-5) }],
            BTreeMap::new(),
        ),
    ];
    let id = ContainerId::from("id");
    for question in &mut questions {
        add_measured(question, Now::default(), &Sample::default(), Some(&usage), |_| Some(&id));
        add_failure(question, "Error", "it failed");
    }
    questions
}
