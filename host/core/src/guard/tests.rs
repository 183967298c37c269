use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::ask::{self, Contender};
use crate::pod::{CRITICAL_PRIORITY, Pod, Source};
use crate::question::eviction::{Shortage, Signal, Starved, Victim};
use crate::question::qos::ContainerPlacement;
use crate::question::restart::{Cause, Termination};
use crate::question::{Body, NodeFacts};
use crate::record::PodRecord;
use crate::testing;

fn asked(default_delay: u64) -> restart::Question {
    let pod = testing::pod(json!({"containers": [{"name": "c", "image": "i"}]}));
    let last = Termination { at: 1, ran_for: 1, exit_code: 1, signal: None, out_of_memory: false, cause: Cause::Exited };
    let question = ask::restart_question(&ask::Restart {
        pod: &pod,
        container: &pod.containers[0],
        record: &testing::record(&pod),
        node: NodeFacts::default(),
        last,
        history: &[],
        backoff: None,
        bounds: testing::config().restart,
    });
    let Body::Restart(asked) = question.body else { panic!() };
    restart::Question { default_delay, ..asked }
}

#[test]
fn a_restart_answer_is_held_within_the_operators_bounds() {
    let check = |(delay, give_up), allow_give_up, expected, clamps| {
        let config = Config { allow_give_up, ..testing::config() };
        let answer = restart::Answer { delay, give_up, reason: String::new() };
        let guarded = restart(&asked(40_000), answer, &config);
        assert_eq!((guarded.answer.delay, guarded.answer.give_up), expected);
        assert_eq!(guarded.clamped.len(), clamps, "{:?}", guarded.clamped);
    };
    check((0, false), false, (0, false), 0);
    check((300_000, false), false, (300_000, false), 0);
    check((300_001, false), false, (300_000, false), 1);
    check((u64::MAX, false), true, (300_000, false), 1);
    check((5, true), true, (5, true), 0);
    // Where giving up is not allowed the default's answer holds.
    check((5, true), false, (40_000, false), 1);
}

#[test]
fn reasons_are_one_line_of_plain_text() {
    let answer = restart::Answer { delay: 0, give_up: false, reason: "\u{1b}[31mred\0 and\nmore é".into() };
    let guarded = restart(&asked(0), answer, &testing::config());
    assert_eq!(guarded.answer.reason, " [31mred  and more é");
    assert_eq!(guarded.clamped, ["control characters of the reason became blanks"]);
}

#[test]
fn long_reasons_are_cut() {
    let answer = restart::Answer { delay: 0, give_up: false, reason: "é".repeat(1000) };
    let guarded = restart(&asked(0), answer, &testing::config());
    assert_eq!((guarded.answer.reason.chars().count(), guarded.clamped.len()), (256, 1));
}

fn probe_question(kind: ProbeKind, default_verdict: Meaning) -> probe::Question {
    let pod = testing::pod(json!({"containers": [{"name": "c", "image": "i", "livenessProbe": {"tcpSocket": {"port": 80}}}]}));
    let question = ask::probe_question(&ask::Probe {
        pod: &pod,
        container: &pod.containers[0],
        record: &testing::record(&pod),
        node: NodeFacts::default(),
        kind,
        spec: pod.containers[0].probes.liveness.as_ref().unwrap(),
        outcome: probe::Outcome::TcpOpen,
        text: "",
        latency: 0,
        started: None,
        ready: true,
        streak: 0,
        attempts: 1,
        history: &[],
    });
    let Body::Probe(asked) = question.body else { panic!() };
    probe::Question { default_verdict, ..asked }
}

#[test]
fn mercy_ends() {
    use Meaning::{Failure, Success, Unknown};
    for (kind, default, said, mercy, expected) in [
        (ProbeKind::Liveness, Failure, Success, true, Success),
        (ProbeKind::Liveness, Failure, Success, false, Failure),
        (ProbeKind::Liveness, Failure, Unknown, false, Failure),
        (ProbeKind::Liveness, Failure, Failure, false, Failure),
        (ProbeKind::Startup, Failure, Success, false, Failure),
        // Only what would end a container: a policy is free to keep one in service.
        (ProbeKind::Readiness, Failure, Success, false, Success),
        // It may always be stricter than the default.
        (ProbeKind::Liveness, Success, Failure, false, Failure),
        (ProbeKind::Liveness, Unknown, Success, false, Success),
    ] {
        let answer = probe::Answer { verdict: said, next_in: None, grace: None, reason: String::new() };
        let guarded = probe(&probe_question(kind, default), answer, mercy, 30_000);
        assert_eq!(guarded.answer.verdict, expected, "{kind:?} {default:?} {said:?} {mercy}");
        assert_eq!(guarded.clamped.len(), usize::from(said != expected));
    }
}

#[test]
fn the_next_look_and_the_grace_are_bounded() {
    for (next_in, expected) in [(0, 1_000), (1_000, 1_000), (10_000, 10_000), (100_000, 100_000), (100_001, 100_000)] {
        let answer = probe::Answer { verdict: Meaning::Success, next_in: Some(next_in), grace: None, reason: String::new() };
        let guarded = probe(&probe_question(ProbeKind::Readiness, Meaning::Success), answer, true, 30_000);
        assert_eq!(guarded.answer.next_in, Some(expected));
        assert_eq!(guarded.clamped.len(), usize::from(next_in != expected));
    }
    for (grace, expected) in [(None, None), (Some(5), Some(5)), (Some(30_001), Some(30_000))] {
        let answer = probe::Answer { verdict: Meaning::Failure, next_in: None, grace, reason: String::new() };
        let guarded = probe(&probe_question(ProbeKind::Liveness, Meaning::Failure), answer, true, 30_000);
        assert_eq!(guarded.answer.grace, expected);
        assert_eq!(guarded.clamped.len(), usize::from(grace != expected));
    }
}

/// The question of a pod whose containers are of this class.
fn qos_question(class: QosClass) -> qos::Question {
    let resources = match class {
        QosClass::BestEffort => json!({}),
        QosClass::Burstable => json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}),
        QosClass::Guaranteed => json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}),
    };
    let container = |name: &str| json!({"name": name, "image": "i", "resources": resources});
    let pod = testing::pod(json!({"containers": [container("a"), container("b")]}));
    let question = ask::qos_question(&pod, &testing::record(&pod), NodeFacts::default(), &testing::config());
    let Body::Qos(asked) = question.body else { panic!() };
    asked
}

fn placed(q: &qos::Question, change: impl FnOnce(&mut qos::Placement)) -> qos::Answer {
    let mut placement = q.default_placement.clone();
    change(&mut placement);
    qos::Answer { placement, reason: String::new() }
}

#[test]
fn oom_scores_stay_in_the_band_of_the_class() {
    for (class, said, expected) in [
        (QosClass::Guaranteed, -1000, -997),
        (QosClass::Guaranteed, 0, -997),
        (QosClass::Burstable, -997, 3),
        (QosClass::Burstable, 3, 3),
        (QosClass::Burstable, 999, 999),
        (QosClass::Burstable, 1000, 999),
        (QosClass::BestEffort, 0, 1000),
        (QosClass::BestEffort, i32::MIN, 1000),
    ] {
        let q = qos_question(class);
        let guarded = qos(&q, placed(&q, |p| p.containers[1].oom_score = said), &testing::config()).unwrap();
        assert_eq!(guarded.answer.placement.containers[1].oom_score, expected, "{class:?} {said}");
        assert_eq!(guarded.clamped.len(), usize::from(said != expected));
    }
    // What a node-critical pod has is not to be had by a policy, nor taken.
    let mut q = qos_question(QosClass::BestEffort);
    q.default_placement.containers[0].oom_score = -997;
    let guarded = qos(&q, placed(&q, |p| p.containers[0].oom_score = 1000), &testing::config()).unwrap();
    assert_eq!(guarded.answer.placement.containers[0].oom_score, -997);
}

#[test]
fn tiers_weights_and_memory() {
    let q = qos_question(QosClass::Burstable);
    let check = |allow_tier, change: &dyn Fn(&mut qos::Placement), expected: &dyn Fn(&mut qos::Placement)| {
        let config = Config { allow_tier, ..testing::config() };
        let guarded = qos(&q, placed(&q, change), &config).unwrap();
        let (said, wanted) = (placed(&q, change).placement, placed(&q, expected).placement);
        assert_eq!(guarded.answer.placement, wanted);
        assert_eq!(guarded.clamped.is_empty(), said == wanted, "{:?}", guarded.clamped);
    };
    let none: &dyn Fn(&mut qos::Placement) = &|_| {};
    check(false, none, none);
    let guaranteed: &dyn Fn(&mut qos::Placement) = &|p| p.tier = QosClass::Guaranteed;
    check(false, guaranteed, none);
    check(true, guaranteed, guaranteed);
    check(false, &|p| p.cpu_weight = Some(0), &|p| p.cpu_weight = Some(1));
    check(false, &|p| p.cpu_weight = Some(10_001), &|p| p.cpu_weight = Some(10_000));
    let ordered: &dyn Fn(&mut qos::Placement) = &|p| (p.memory_min, p.memory_low, p.memory_high) = (Some(1), Some(2), Some(3));
    check(false, ordered, ordered);
    check(false, &|p| (p.memory_min, p.memory_high) = (Some(3), Some(2)), none);
    check(false, &|p| (p.memory_low, p.memory_high) = (Some(3), Some(2)), none);
    check(false, &|p| p.memory_min = Some(1 << 40), none);
    check(false, &|p| p.memory_low = Some(1 << 40), none);
    check(false, &|p| p.containers[0].memory_high = Some(3 << 30), none);
    let within: &dyn Fn(&mut qos::Placement) = &|p| p.containers[0].memory_high = Some(2 << 30);
    check(false, within, within);
}

#[test]
fn a_placement_for_other_containers_is_unusable() {
    let q = qos_question(QosClass::Burstable);
    let surplus = ContainerPlacement { oom_score: 999, memory_high: None };
    assert!(qos(&q, placed(&q, |p| p.containers.push(surplus)), &testing::config()).is_err());
    assert!(qos(&q, placed(&q, |p| p.containers.clear()), &testing::config()).is_err());
}

#[test]
fn a_policy_sees_shortages_only_of_what_was_sampled() {
    let signal = |starved| Signal {
        name: String::new(),
        starved,
        available: 5,
        capacity: 100,
        sampled: 0,
        threshold: None,
        hard: false,
        crossed_since: None,
    };
    let q = eviction::Assess { node: NodeFacts::default(), signals: vec![signal(Starved::Memory), signal(Starved::Pids)] };
    let short = |starved, hard, reclaim| Shortage { starved, hard, reclaim, reason: String::new() };
    let said = vec![
        short(Starved::Memory, true, 101),
        short(Starved::Disk, false, 1),
        short(Starved::Memory, false, 2),
        short(Starved::Pids, false, 100),
    ];
    let guarded = assess(&q, said);
    assert_eq!(guarded.answer, [short(Starved::Memory, false, 100), short(Starved::Pids, false, 100)]);
    assert_eq!(guarded.clamped.len(), 4);
}

/// Four candidates: of the API, static, of a critical priority, and of the API again.
fn rank_question(hard: bool) -> eviction::Rank {
    let mut pods: Vec<Pod> = (0..4).map(|_| testing::pod(json!({"containers": []}))).collect();
    pods[1].source = Source::File;
    pods[2].priority = CRITICAL_PRIORITY;
    let records: Vec<PodRecord> = pods.iter().map(testing::record).collect();
    let contender = |(pod, record)| Contender { pod, record, usage: None, growth: None };
    let contenders: Vec<_> = pods.iter().zip(&records).map(contender).collect();
    let shortage = Shortage { starved: Starved::Memory, hard, reclaim: 1, reason: String::new() };
    let question = ask::rank_question(NodeFacts::default(), shortage, &contenders, BTreeMap::new());
    let Body::Rank(asked) = question.body else { panic!() };
    asked
}

#[test]
fn victims_are_real_and_none_is_critical() {
    let victims = |pods: &[u32]| -> Vec<Victim> {
        pods.iter().map(|pod| Victim { pod: *pod, grace: None, reason: String::new() }).collect()
    };
    let check = |hard, said: &[u32], expected: Option<&[u32]>| {
        let found = rank(&rank_question(hard), victims(said), false).ok().map(|g| g.answer);
        assert_eq!(found, expected.map(victims), "{hard} {said:?}");
    };
    for hard in [false, true] {
        check(hard, &[3, 0], Some(&[3, 0]));
        check(hard, &[1, 2, 3], Some(&[3]));
        check(hard, &[0, 4], None);
        check(hard, &[0, u32::MAX], None);
        check(hard, &[0, 3, 0], None);
    }
    // Where the shortage is hard, the default names somebody if the policy does not.
    check(true, &[], None);
    check(true, &[1, 2], None);
    check(false, &[], Some(&[]));
    // With nobody but critical pods there is nobody to name.
    let mut only_critical = rank_question(true);
    only_critical.candidates.retain(|c| is_critical(c, false));
    assert!(rank(&only_critical, Vec::new(), false).is_ok());
    // An operator may let static pods go; a critical priority stays.
    let found = rank(&rank_question(true), victims(&[1, 2, 3]), true).unwrap();
    assert!(found.answer.len() == 2 && found.clamped.len() == 1, "{found:?}");
}

#[test]
fn a_hard_shortage_leaves_a_second() {
    for (hard, grace, expected) in
        [(true, None, None), (true, Some(500), Some(500)), (true, Some(30_000), Some(1_000)), (false, Some(30_000), Some(30_000))]
    {
        let victim = Victim { pod: 0, grace, reason: String::new() };
        assert_eq!(rank(&rank_question(hard), vec![victim], false).unwrap().answer[0].grace, expected);
    }
}

/// A small linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// Any number, the extremes among them.
    fn any(&mut self) -> u64 {
        let few = [0, 1, 999, 1_000, 10_000, 1 << 30, u64::MAX];
        few[self.below(few.len() as u64) as usize].wrapping_add(self.below(3))
    }

    fn maybe(&mut self) -> Option<u64> {
        (self.below(3) > 0).then(|| self.any())
    }
}

#[test]
fn whatever_is_answered_the_invariants_hold_and_guarding_twice_changes_nothing() {
    let mut random = Random(1);
    for round in 0..2_000 {
        let config = Config { allow_give_up: random.below(2) == 0, allow_tier: random.below(2) == 0, ..testing::config() };

        let q = asked(random.any() % 300_001);
        let said = restart::Answer { delay: random.any(), give_up: random.below(2) == 0, reason: String::new() };
        let a = restart(&q, said, &config).answer;
        assert!(a.delay <= q.bounds.maximum && (!a.give_up || config.allow_give_up), "round {round}: {a:?}");
        assert_eq!(restart(&q, a.clone(), &config), Guarded { answer: a, clamped: Vec::new() });

        let classes = [QosClass::BestEffort, QosClass::Burstable, QosClass::Guaranteed];
        let q = qos_question(classes[random.below(3) as usize]);
        let said = placed(&q, |p| {
            p.tier = classes[random.below(3) as usize];
            p.cpu_weight = random.maybe().map(|w| w as u32);
            (p.memory_min, p.memory_low, p.memory_high) = (random.maybe(), random.maybe(), random.maybe());
            for c in &mut p.containers {
                (c.oom_score, c.memory_high) = (random.any() as i32, random.maybe());
            }
        });
        let a = qos(&q, said, &config).unwrap().answer;
        let p = &a.placement;
        let (low, high) = band(q.pod.class);
        assert!(p.containers.iter().all(|c| (low..=high).contains(&c.oom_score)), "round {round}: {p:?}");
        assert!(config.allow_tier || p.tier == q.pod.class);
        assert!(p.cpu_weight.is_none_or(|w| (1..=10_000).contains(&w)));
        let known: Vec<u64> = [p.memory_min, p.memory_low, p.memory_high].into_iter().flatten().collect();
        assert!(known.is_sorted(), "round {round}: {p:?}");
        assert_eq!(qos(&q, a.clone(), &config).unwrap(), Guarded { answer: a, clamped: Vec::new() });

        let q = rank_question(random.below(2) == 0);
        let victim = |random: &mut Random| Victim { pod: random.below(5) as u32, grace: random.maybe(), reason: String::new() };
        let said: Vec<Victim> = (0..random.below(5)).map(|_| victim(&mut random)).collect();
        if let Ok(Guarded { answer, .. }) = rank(&q, said, false) {
            let pods: BTreeSet<u32> = answer.iter().map(|v| v.pod).collect();
            assert!(pods.len() == answer.len() && pods.iter().all(|pod| [0, 3].contains(pod)), "round {round}: {answer:?}");
            assert!(!q.shortage.hard || (!answer.is_empty() && answer.iter().all(|v| v.grace.is_none_or(|g| g <= HARD_GRACE))));
        }
    }
}
