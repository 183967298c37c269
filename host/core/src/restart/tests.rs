use serde_json::{Value, json};

use super::*;
use crate::testing::pod;

const BOUNDS: Bounds = Bounds::crash_up_to(300_000);

/// What is decided for exit codes 0, 1 and 42, and without one: a letter each (No, Yes, All).
#[track_caller]
fn check(pod_policy: &str, list: &str, fields: Value, expected: &str) {
    let mut c = json!({"name": "c", "image": "i"});
    c.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let mut spec = json!({"restartPolicy": pod_policy, "containers": []});
    spec[list] = json!([c]);
    let pod = pod(spec);
    let letter = |code| match should_restart(&pod, &pod.containers[0], code) {
        RestartDecision::No => 'N',
        RestartDecision::Yes => 'Y',
        RestartDecision::AllContainers => 'A',
    };
    let found: String = [Some(0), Some(1), Some(42), None].map(letter).iter().collect();
    assert_eq!(found, expected, "{pod_policy} {list} {fields}");
}

#[test]
fn the_spec_decides_whether() {
    for (policy, expected) in [("Always", "YYYY"), ("OnFailure", "NYYY"), ("Never", "NNNN")] {
        check(policy, "containers", json!({}), expected);
        check(policy, "initContainers", json!({}), expected);
        check(policy, "ephemeralContainers", json!({}), "NNNN");
        check(policy, "initContainers", json!({"restartPolicy": "Always"}), "YYYY");
        check(policy, "containers", json!({"restartPolicy": "OnFailure"}), "NYYY");
    }
    let rule = |operator, action| json!([{"action": action, "exitCodes": {"operator": operator, "values": [42]}}]);
    let with = |policy: Option<&str>, rules: Value| json!({"restartPolicy": policy, "restartPolicyRules": rules});
    let check = |fields, expected| check("Always", "containers", fields, expected);
    check(with(Some("Never"), rule("In", "Restart")), "NNYN");
    check(with(Some("Never"), rule("NotIn", "Restart")), "YYNN");
    check(with(Some("OnFailure"), rule("In", "RestartAllContainers")), "NYAY");
    // Without an own policy the rules are not looked at.
    check(with(None, rule("In", "RestartAllContainers")), "YYYY");
    // The first match decides.
    let both = json!([
        {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1, 42]}},
        {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": []}},
    ]);
    check(with(Some("Never"), both), "YAAN");
}

#[test]
fn a_crash_loop_doubles_up_to_the_maximum() {
    let (mut entry, mut now, mut waits) = (None, Wall(0), Vec::new());
    for _ in 0..8 {
        let finished = now + Duration::from_secs(1);
        let wait = default_delay(entry.as_ref(), "k", finished, &BOUNDS);
        waits.push(wait.as_secs());
        now = finished + wait;
        entry = Some(advance(entry.as_ref(), "k", finished, now, &BOUNDS));
    }
    assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
}

#[test]
fn an_entry_is_forgotten_under_another_key_and_after_a_long_run() {
    let entry = Backoff { key: "k".into(), delay: 160_000, updated: Wall(1_000_000) };
    let delay = |key, finished| default_delay(Some(&entry), key, Wall(finished), &BOUNDS).as_secs();
    assert_eq!(delay("k", 1_440_000), 160);
    assert_eq!(delay("k", 1_500_000), 100);
    assert_eq!(delay("k", 1_600_001), 0);
    assert_eq!(delay("other", 1_000_001), 0);
    // The clock was set back: still recent.
    assert_eq!(delay("k", 5), 160);
    assert_eq!(advance(Some(&entry), "other", Wall(1), Wall(2), &BOUNDS).delay, 10_000);
    // The operator lowered the maximum meanwhile.
    let lower = Bounds { maximum: 60_000, ..BOUNDS };
    assert_eq!(default_delay(Some(&entry), "k", Wall(1_000_001), &lower).as_secs(), 60);
    assert_eq!(advance(Some(&entry), "k", Wall(1_000_001), Wall(1_000_002), &lower).delay, 60_000);
}

#[test]
fn the_key_changes_with_image_and_resources_only() {
    let key = |image: &str, memory: &str, args: Value| {
        let c = json!({"name": "c", "image": image, "args": args, "resources": {"limits": {"memory": memory}}});
        backoff_key(&pod(json!({"containers": [c]})).containers[0])
    };
    assert_eq!(key("a", "1Gi", json!([])), "a:latest cpu -/- memory -/1073741824 storage -/-");
    assert_eq!(key("a", "1Gi", json!(["x"])), key("a", "1024Mi", json!([])));
    assert_ne!(key("a", "1Gi", json!([])), key("b", "1Gi", json!([])));
    assert_ne!(key("a", "1Gi", json!([])), key("a", "2Gi", json!([])));
}

#[test]
fn durations_are_printed_as_go_does() {
    for (ms, expected) in [
        (0, "0s"),
        (250, "250ms"),
        (1000, "1s"),
        (1500, "1.5s"),
        (1005, "1.005s"),
        (10_000, "10s"),
        (160_000, "2m40s"),
        (300_000, "5m0s"),
        (3_600_000, "1h0m0s"),
        (3_661_250, "1h1m1.25s"),
    ] {
        assert_eq!(go_duration(Duration::from_millis(ms)), expected);
    }
}
