use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::ask::{native, rank_question};
use crate::config::Quantity;
use crate::observed::Observed;
use crate::pod::{Resources, Source};
use crate::question::{Answer, Body, NodeFacts};
use crate::record::End;
use crate::sample::{ContainerUsage, PodUsage};
use crate::testing;

fn at(seconds: u64) -> Now {
    // The two clocks have nothing to do with each other.
    Now { wall: Wall(1_000_000 + seconds * 1000), mono: Mono(seconds * 1000) }
}

fn hard(signal: &str, below: u64) -> Threshold {
    let (below, reclaim) = (Quantity::Amount(below), Quantity::Amount(0));
    Threshold { signal: signal.into(), starved: starved_by(signal).unwrap(), below, reclaim, grace: None }
}

fn soft(signal: &str, below: u64, grace: u64) -> Threshold {
    Threshold { grace: Some(Duration::from_secs(grace)), ..hard(signal, below) }
}

fn config(thresholds: Vec<Threshold>) -> Config {
    Config { thresholds, ..testing::config() }
}

fn sample(seconds: u64, readings: &[(&str, u64)]) -> Sample {
    let signals =
        readings.iter().map(|(name, available)| ((*name).to_owned(), Reading { available: *available, capacity: 1000 }));
    Sample { at: at(seconds).wall, signals: signals.collect(), ..Sample::default() }
}

/// Second, readings, and what is expected of them.
type Sampling<'a> = (u64, &'a [(&'a str, u64)], &'a str);

/// Feeds samplings and draws for each: the conditions' first letters, then what is to be ended.
#[track_caller]
fn check(thresholds: Vec<Threshold>, samplings: &[Sampling<'_>]) {
    let (config, mut evictor) = (config(thresholds), Evictor::default());
    for (seconds, readings, expected) in samplings {
        let found = evictor.sampled(at(*seconds), &sample(*seconds, readings), &config, Vec::new());
        let letters: String = found.conditions.iter().map(|c| &c.as_str()[..1]).collect();
        let short = found.shortage.map(|short| {
            let Shortage { starved, hard, reclaim, .. } = short.shortage;
            format!(" {starved:?}{} {reclaim}", if hard { "!" } else { "" })
        });
        assert_eq!(format!("{letters}{}", short.unwrap_or_default()), *expected, "at {seconds} s");
    }
}

#[test]
fn a_hard_threshold_is_acted_on_at_once_and_its_condition_lasts() {
    check(
        vec![hard("memory.available", 100)],
        &[
            (0, &[("memory.available", 100)], ""),
            (10, &[("memory.available", 99)], "M Memory! 1"),
            (20, &[("memory.available", 101)], "M"),
            (309, &[("memory.available", 101)], "M"),
            (310, &[("memory.available", 101)], ""),
        ],
    );
}

#[test]
fn a_soft_threshold_waits_for_its_grace_without_a_break() {
    check(
        vec![soft("memory.available", 100, 30)],
        &[
            (0, &[("memory.available", 50)], "M"),
            (20, &[("memory.available", 50)], "M"),
            (25, &[("memory.available", 200)], "M"),
            (30, &[("memory.available", 50)], "M"),
            (59, &[("memory.available", 50)], "M"),
            (60, &[("memory.available", 50)], "M Memory 50"),
        ],
    );
    // Without a grace it is a hard one.
    check(vec![soft("pid.available", 100, 0)], &[(0, &[("pid.available", 1)], "P Pids! 99")]);
}

#[test]
fn what_was_acted_on_is_short_until_the_minimum_reclaim_is_won_back() {
    let threshold = Threshold { reclaim: Quantity::Percent(10.0), ..hard("nodefs.available", 100) };
    check(
        vec![threshold],
        &[
            (0, &[("nodefs.available", 150)], ""),
            (10, &[("nodefs.available", 90)], "D Disk! 110"),
            (20, &[("nodefs.available", 150)], "D Disk! 50"),
            (30, &[("nodefs.available", 200)], "D"),
            (40, &[("nodefs.available", 150)], "D"),
        ],
    );
}

#[test]
fn one_sampling_leads_to_one_shortage() {
    let (config, mut evictor) = (config(vec![hard("memory.available", 100)]), Evictor::default());
    let sample = sample(0, &[("memory.available", 1)]);
    assert!(evictor.sampled(at(0), &sample, &config, Vec::new()).shortage.is_some());
    assert_eq!(evictor.sampled(at(5), &sample, &config, Vec::new()).shortage, None);
}

#[test]
fn memory_comes_first_then_what_is_hard() {
    let all: &[(&str, u64)] = &[("imagefs.inodesFree", 1), ("memory.available", 1), ("nodefs.available", 1)];
    let thresholds = || vec![soft("imagefs.inodesFree", 10, 5), hard("nodefs.available", 10), soft("memory.available", 10, 5)];
    check(thresholds(), &[(0, all, "MD Disk! 9"), (5, all, "MD Memory 9"), (6, &all[..1], "MD ImageInodes 9"), (7, &[], "MD")]);
}

#[test]
fn a_share_of_the_capacity_is_truncated() {
    let threshold = Threshold { below: Quantity::Percent(0.15), ..hard("memory.available", 0) };
    check(vec![threshold], &[(0, &[("memory.available", 0)], "M Memory! 1"), (1, &[("memory.available", 1)], "M")]);
}

#[test]
fn a_policy_may_see_more() {
    let (config, mut evictor) = (config(vec![hard("nodefs.available", 10)]), Evictor::default());
    let extra = |starved| Shortage { starved, hard: false, reclaim: 7, reason: "it stalls".into() };
    let mut short = |seconds, readings: &[(&str, u64)], starved| {
        let found = evictor.sampled(at(seconds), &sample(seconds, readings), &config, vec![extra(starved)]);
        (found.conditions.len(), found.shortage.map(|s| (s.shortage.starved, s.crossed.is_some())))
    };
    // It makes no condition of the node, and comes after a threshold unless it is about memory.
    assert_eq!(short(0, &[], Starved::Pids), (0, Some((Starved::Pids, false))));
    assert_eq!(short(1, &[("nodefs.available", 1)], Starved::Pids), (1, Some((Starved::Disk, true))));
    assert_eq!(short(2, &[("nodefs.available", 1)], Starved::Memory), (1, Some((Starved::Memory, false))));
}

#[test]
fn signals_are_told_with_their_thresholds() {
    let config = config(vec![hard("memory.available", 100), soft("memory.available", 300, 60)]);
    let mut evictor = Evictor::default();
    let rows = |evictor: &Evictor, seconds, readings: &[(&str, u64)]| -> Vec<String> {
        let row = |s: Signal| format!("{} {:?} {:?} {} {:?}", s.name, s.starved, s.threshold, s.hard, s.crossed_since);
        evictor.signals(at(seconds), &sample(seconds, readings), &config).into_iter().map(row).collect()
    };
    let readings: &[(&str, u64)] = &[("memory.available", 200), ("pid.available", 5), ("unheard.of", 1)];
    let expected = [
        "memory.available Memory Some(100) true None",
        "memory.available Memory Some(300) false Some(1000000)",
        "pid.available Pids None false None",
    ];
    assert_eq!(rows(&evictor, 0, readings), expected);
    evictor.sampled(at(0), &sample(0, readings), &config, Vec::new());
    assert_eq!(rows(&evictor, 10, readings), expected);
}

#[test]
fn growth_is_the_mean_of_a_minute() {
    let (config, mut evictor, uid) = (config(Vec::new()), Evictor::default(), PodUid::from("u1"));
    let mut feed = |seconds, bytes: Option<u64>| {
        let usage = PodUsage { memory_working_set: bytes, ..PodUsage::default() };
        let sample = Sample { pods: BTreeMap::from([(uid.clone(), usage)]), ..sample(seconds, &[]) };
        evictor.sampled(at(seconds), &sample, &config, Vec::new());
        evictor.growth(&uid)
    };
    assert_eq!(feed(0, Some(1000)), None);
    assert_eq!(feed(10, Some(2000)), Some(100));
    assert_eq!(feed(20, None), Some(100));
    assert_eq!(feed(60, Some(400)), Some(-10));
    assert_eq!(feed(70, Some(2000)), Some(0));
    assert_eq!(evictor.growth(&"other".into()), None);
}

/// A pod of the vectors: uid and name in one letter, priority, requests of memory and storage, and what it uses.
struct Row {
    pod: Pod,
    usage: Option<PodUsage>,
}

fn row(uid: &str, priority: i32, memory: u64, storage: u64, usage: PodUsage) -> Row {
    let mut pod = testing::pod_of(json!({
        "metadata": {"name": uid, "namespace": "ns", "uid": uid},
        "spec": {"priority": priority, "containers": [{"name": "c", "image": "i"}]},
    }));
    pod.containers[0].resources =
        Resources { memory_request: Some(memory), storage_request: Some(storage), ..Resources::default() };
    Row { pod, usage: Some(usage) }
}

fn memory(uid: &str, request: u64, used: u64, priority: i32) -> Row {
    row(uid, priority, request, 0, PodUsage { memory_working_set: Some(used), ..PodUsage::default() })
}

fn processes(uid: &str, count: u64, priority: i32) -> Row {
    // Whatever has statistics has those of its disk.
    row(uid, priority, 0, 0, PodUsage { processes: Some(count), disk_logs: Some(0), ..PodUsage::default() })
}

fn disk(uid: &str, request: u64, [rootfs, logs, volumes]: [u64; 3], priority: i32) -> Row {
    let (disk_rootfs, disk_logs, disk_volumes) = (Some(rootfs), Some(logs), Some(volumes));
    row(uid, priority, 0, request, PodUsage { disk_rootfs, disk_logs, disk_volumes, ..PodUsage::default() })
}

/// The ranking of upstream's vectors, by number: through the question, the native rung and the guard.
#[track_caller]
fn ranks(number: u32, starved: Starved, layout: i64, rows: &[Row], ranked: &str, victims: &str) {
    let pods = rows.iter().filter_map(|r| Some((r.pod.uid.clone(), r.usage.clone()?))).collect();
    let sample = Sample { pods, ..Sample::default() };
    let records: Vec<PodRecord> = rows.iter().map(|r| testing::record(&r.pod)).collect();
    let contenders = candidates(rows.iter().map(|r| &r.pod).zip(&records), &sample, &Evictor::default());
    let shortage = Shortage { starved, hard: true, reclaim: 1, reason: String::new() };
    let facts = BTreeMap::from([("node.disk.layout".to_owned(), layout)]);
    let question = rank_question(NodeFacts::default(), shortage, &contenders, facts);
    let answer = native(&question);
    let (Body::Rank(asked), Answer::Rank(order)) = (&question.body, answer) else { panic!("another question") };
    let names = |order: &[crate::question::eviction::Victim]| {
        order.iter().map(|v| question.words.pods[v.pod as usize].name.as_str()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&order), ranked, "row {number}");
    let mut by_place: Vec<_> = asked.candidates.iter().map(|c| (c.default_place, c.pod)).collect();
    by_place.sort_unstable();
    assert!(by_place.iter().map(|(_, pod)| *pod).eq(order.iter().map(|v| v.pod)), "row {number}: the default's places");
    assert_eq!(names(&guard::rank(asked, order, false).unwrap().answer), victims, "row {number}: after the guard");
}

#[test]
fn upstreams_vectors() {
    let all = |number, starved, layout, rows: &[Row], expected| ranks(number, starved, layout, rows, expected, expected);
    let mem = |number, rows: &[(u64, u64, i32)], expected| {
        let named = ["A", "B", "C"].iter().zip(rows);
        let rows: Vec<Row> = named.map(|(uid, (request, used, priority))| memory(uid, *request, *used, *priority)).collect();
        all(number, Starved::Memory, 0, &rows, expected);
    };
    mem(1, &[(0, 100, 0), (0, 300, 0), (0, 200, 0)], "B C A");
    mem(2, &[(400, 300, 0), (100, 150, 0), (1000, 900, 0)], "B A C");
    mem(3, &[(100, 900, 1000), (100, 110, 0), (500, 100, -10)], "B A C");
    mem(4, &[(500, 400, -5), (500, 499, 0), (500, 501, 2000)], "C A B");
    mem(5, &[(256, 256, 0), (256, 257, 0), (0, 1, 0)], "B C A");
    mem(7, &[(200, 700, 10), (0, 500, 10), (600, 1101, 10)], "C A B");
    mem(8, &[(1000, 200, 0), (300, 100, 0), (500, 500, 0)], "C B A");
    mem(9, &[(0, 50, 100), (0, 50, 0), (0, 50, 50)], "B C A");

    let unmeasured = Row { usage: None, ..memory("A", 0, 0, 0) };
    all(6, Starved::Memory, 0, &[unmeasured, memory("B", 0, 5000, -100), memory("C", 100, 100, 0)], "A B C");

    let mut of_the_node = memory("A", 0, 900, 0);
    of_the_node.pod.source = Source::File;
    ranks(10, Starved::Memory, 0, &[of_the_node, memory("B", 100, 50, 0)], "A B", "B");

    all(11, Starved::Pids, 0, &[processes("A", 10, 0), processes("B", 900, 0), processes("C", 20, 0)], "B C A");
    all(12, Starved::Pids, 0, &[processes("A", 5000, 100), processes("B", 3, 0), processes("C", 50, 0)], "C B A");

    let single = [disk("A", 0, [10, 0, 0], 0), disk("B", 500, [300, 60, 40], 0), disk("C", 0, [0, 0, 200], 0)];
    all(13, Starved::Disk, 0, &single, "C A B");
    let dedicated = [disk("A", 0, [900, 1, 0], 0), disk("B", 0, [0, 5, 50], 0)];
    all(14, Starved::Disk, 1, &dedicated, "B A");
    all(15, Starved::ImageDisk, 1, &dedicated, "A B");
    let split = [disk("A", 100, [7, 7, 7], 0), disk("B", 0, [1, 1, 1], 0), disk("C", 0, [0, 0, 0], -5)];
    all(16, Starved::ImageDisk, 2, &split, "C B A");

    let inodes = |uid, request, count| {
        row(uid, 0, 0, request, PodUsage { inodes_volumes: Some(count), disk_logs: Some(0), ..PodUsage::default() })
    };
    all(17, Starved::Inodes, 0, &[inodes("A", 1 << 30, 1000), inodes("B", 0, 10)], "B A");

    let mut own = memory("A", 0, 250, 0);
    own.pod.resources = Some(Resources { memory_request: Some(300), ..Resources::default() });
    all(18, Starved::Memory, 0, &[own, memory("B", 0, 10, 0)], "B A");
}

#[test]
fn who_has_ended_or_goes_already_is_no_candidate() {
    let (pod, sample) = (testing::pod(json!({"containers": []})), Sample::default());
    let count = |record: &PodRecord| candidates([(&pod, record)], &sample, &Evictor::default()).len();
    let stopped = |cause| {
        let stop = crate::record::Stop { cause, grace_seconds: 1, since: Wall(0) };
        PodRecord { stop: Some(stop), ..testing::record(&pod) }
    };
    assert_eq!(count(&testing::record(&pod)), 1);
    assert_eq!(count(&stopped(StopCause::Deleted)), 1);
    assert_eq!(count(&stopped(StopCause::Evicted)), 0);
    let end = Some(End { succeeded: true, reason: None, message: None });
    assert_eq!(count(&PodRecord { end, ..testing::record(&pod) }), 0);
}

#[test]
fn the_grace_of_a_victim() {
    let pod = testing::pod(json!({"containers": [], "terminationGracePeriodSeconds": 20}));
    let grace = |hard, said: Option<u64>, most| {
        let config = Config { eviction_max_grace: Duration::from_secs(most), ..testing::config() };
        let shortage = Shortage { starved: Starved::Memory, hard, reclaim: 0, reason: String::new() };
        grace(&shortage, &pod, said.map(Duration::from_millis), &config).as_millis()
    };
    for (hard, said, most, expected) in [
        (true, None, 90, 1000),
        (true, Some(5000), 90, 1000),
        (true, Some(500), 90, 500),
        (false, None, 0, 0),
        (false, None, 15, 15_000),
        (false, None, 90, 20_000),
        (false, Some(5000), 0, 5000),
        (false, Some(50_000), 0, 20_000),
    ] {
        assert_eq!(grace(hard, said, most), expected, "{hard} {said:?} {most}");
    }
}

#[test]
fn messages_are_upstreams() {
    let pod = Arc::new(testing::pod(json!({"containers": [
        {"name": "app", "image": "i", "resources": {"requests": {"memory": "64Mi"}}},
        {"name": "side", "image": "i"},
    ]})));
    let check = |starved, crossed: Option<(u64, u64)>, pod: &Pod, containers: &[(&str, u64)], expected: &str| {
        let crossed = crossed.map(|(threshold, available)| Crossed { signal: String::new(), threshold, available });
        let shortage = Shortage { starved, hard: true, reclaim: 0, reason: "tasks stall".into() };
        let usage = PodUsage { memory_working_set: Some(200 << 20), ..PodUsage::default() };
        assert_eq!(message(&Short { shortage, crossed }, pod, Some(&usage), containers), expected);
    };
    let (mib, low) = (1 << 20, "The node was low on resource");
    check(
        Starved::Memory,
        Some((100 << 20, (90 << 20) + 4096)),
        &pod,
        &[("app", 65 * mib), ("side", 1000)],
        &format!(
            "{low}: memory. Threshold quantity: 100Mi, available: 92164Ki. \
             Container app was using 65Mi, request is 64Mi, has larger consumption of memory. \
             Container side was using 1k, request is 0, has larger consumption of memory. "
        ),
    );
    check(
        Starved::Memory,
        Some((1, 0)),
        &pod,
        &[("app", 64 * mib)],
        &format!("{low}: memory. Threshold quantity: 1, available: 0. "),
    );
    check(
        Starved::Inodes,
        Some((50_000, 12_000)),
        &pod,
        &[("app", 99)],
        &format!("{low}: inodes. Threshold quantity: 50000, available: 12k. "),
    );
    check(Starved::ImageDisk, None, &pod, &[], &format!("{low}: ephemeral-storage. tasks stall. "));
    let asks = json!({"containers": [
        {"name": "app", "image": "i", "resources": {"requests": {"ephemeral-storage": "1Gi"}}},
        {"name": "side", "image": "i"},
    ]});
    check(
        Starved::Disk,
        Some((10 << 30, 5 << 30)),
        &testing::pod(asks),
        &[("app", 1 << 30), ("side", 20 << 20)],
        &format!(
            "{low}: ephemeral-storage. Threshold quantity: 10Gi, available: 5Gi. \
             Container side was using 20Mi, request is 0, has larger consumption of ephemeral-storage. "
        ),
    );
    let mut own = (*pod).clone();
    own.resources = Some(Resources { memory_request: Some(128 << 20), ..Resources::default() });
    check(
        Starved::Memory,
        None,
        &own,
        &[],
        &format!("{low}: memory. tasks stall. Pod web was using 200Mi, request is 128Mi, has larger consumption of memory. "),
    );
}

#[test]
fn containers_are_told_by_what_they_use_of_what_is_short() {
    let own = |memory, rootfs| ContainerUsage { memory_working_set: memory, disk_rootfs: rootfs, ..ContainerUsage::default() };
    let usage = PodUsage {
        containers: [
            ("app-1".into(), own(Some(30), Some(500))),
            ("app-0".into(), own(None, Some(9000))),
            ("side-0".into(), own(Some(40), Some(600))),
            ("new-0".into(), own(None, None)),
        ]
        .into(),
        logs: [("app".into(), 7), ("new".into(), 1)].into(),
        ..PodUsage::default()
    };
    let attempts = [("app", 1), ("app", 0), ("side", 0), ("new", 0)];
    let containers = attempts.into_iter().map(|(name, attempt)| testing::attempt(&format!("{name}#{attempt}=run"))).collect();
    let seen = Observed { containers, ..Observed::default() };
    for (starved, expected) in [
        (Starved::Memory, &[("app", 30), ("side", 40)][..]),
        // Layers and logs, of which both have to be known.
        (Starved::Disk, &[("app", 507)]),
        (Starved::ImageDisk, &[("app", 507)]),
        (Starved::Inodes, &[]),
        (Starved::Pids, &[]),
    ] {
        assert_eq!(used(starved, Some(&usage), Some(&seen)), expected, "{starved:?}");
    }
    assert_eq!(used(Starved::Disk, None, Some(&seen)), []);
}
