use polylet_sdk::eviction::{Candidate, Eviction, Shortage, StarvedResource, Victim};
use polylet_sdk::harness::Harness;
use polylet_sdk::samples;
use polylet_sdk::types::PodTraits;

use crate::TenantEviction;

const MI: u64 = 1 << 20;

/// A pod of a namespace that uses `usage` MiB of memory (and half of that of disk) where it asked for `request` MiB.
fn pod(index: u32, namespace: u32, request: u64, usage: u64) -> Candidate {
    Candidate {
        namespace,
        memory_request: request * MI,
        memory_usage: Some(usage * MI),
        disk_request: request * MI,
        disk_usage: Some(usage * MI / 2),
        ..samples::candidate(index)
    }
}

fn victims(node: &Harness, starved: StarvedResource, candidates: &[Candidate]) -> Option<Vec<Victim>> {
    let policy: TenantEviction = node.policy().unwrap();
    let shortage = Shortage { starved, ..samples::shortage() };
    policy.rank(&node.ask(), &samples::node(), &shortage, candidates)
}

fn order(node: &Harness, candidates: &[Candidate]) -> Vec<u32> {
    victims(node, StarvedResource::Memory, candidates).unwrap().into_iter().map(|victim| victim.pod).collect()
}

#[test]
fn the_larger_excess_in_proportion_goes_first() {
    // 900 MiB over a request of 1000 are less than 90 over one of 30.
    let candidates = [pod(0, 0, 1000, 1900), pod(1, 0, 30, 120), pod(2, 0, 100, 50)];
    assert_eq!(order(&Harness::new(), &candidates), [1, 0, 2]);
    let reasons: Vec<_> = victims(&Harness::new(), StarvedResource::Memory, &candidates).unwrap();
    assert_eq!(reasons[0].reason, "uses 4.000 times its weighted request");
    assert_eq!(reasons[2].reason, "uses 0.500 times its weighted request");
}

#[test]
fn a_heavier_tenant_may_exceed_further() {
    let node = |config: &str| Harness::new().config(config).namespace(7, "gold").namespace(8, "batch");
    let candidates = [pod(0, 7, 100, 300), pod(1, 8, 100, 200)];
    assert_eq!(order(&node("{}"), &candidates), [0, 1]);
    assert_eq!(order(&node(r#"{"weights": {"gold": 200}}"#), &candidates), [1, 0]);
    assert_eq!(order(&node(r#"{"weights": {"batch": 50}}"#), &candidates), [1, 0]);
    assert_eq!(order(&node(r#"{"weights": {"batch": 100}, "defaultWeight": 200}"#), &candidates), [1, 0]);
}

#[test]
fn tenants_can_be_told_by_label() {
    let node = Harness::new()
        .config(r#"{"tenantLabel": "tenant", "weights": {"gold": 500}}"#)
        .label(0, "tenant", "gold")
        .label(1, "tenant", "other");
    assert_eq!(order(&node, &[pod(0, 0, 100, 300), pod(1, 0, 100, 200), pod(2, 0, 100, 90)]), [1, 2, 0]);
}

#[test]
fn equals_keep_the_defaults_order() {
    let placed = |index, default_place| Candidate { default_place, ..pod(index, 0, 100, 200) };
    assert_eq!(order(&Harness::new(), &[placed(0, 2), placed(1, 0), placed(2, 1)]), [1, 2, 0]);
}

#[test]
fn critical_pods_come_last_and_unmeasured_ones_first() {
    let critical = Candidate { traits: PodTraits::CRITICAL, ..pod(0, 0, 1, 5000) };
    let unmeasured = Candidate { memory_usage: None, ..pod(1, 0, 100, 0) };
    assert_eq!(order(&Harness::new(), &[critical, pod(2, 0, 100, 900), unmeasured]), [1, 2, 0]);
}

#[test]
fn no_request_counts_as_a_small_one() {
    assert_eq!(order(&Harness::new(), &[pod(0, 0, 0, 10), pod(1, 0, 0, 20), pod(2, 0, 100, 1500)]), [1, 2, 0]);
    let absurd = Candidate { memory_usage: Some(u64::MAX), ..pod(3, 0, 0, 0) };
    assert_eq!(order(&Harness::new(), &[pod(0, 0, 0, 10), absurd]), [3, 0]);
}

#[test]
fn what_is_not_requested_is_left_to_the_default() {
    let candidates = [pod(0, 0, 100, 300), pod(1, 0, 100, 200)];
    for starved in [StarvedResource::Inodes, StarvedResource::ContainerInodes, StarvedResource::Pids] {
        assert_eq!(victims(&Harness::new(), starved, &candidates), None);
    }
    assert_eq!(victims(&Harness::new(), StarvedResource::Disk, &candidates).map(|victims| victims.len()), Some(2));
}

#[test]
fn bad_configurations_are_told_what_would_be_right() {
    let table = [
        (r#"{"weight": {}}"#, "unknown field `weight`; the fields are: tenantLabel, weights, defaultWeight"),
        (r#"{"weights": {"gold": 0}}"#, "field `weights.gold`: expected a whole number from 1 to 10000, found 0"),
        (r#"{"weights": {"gold": null}}"#, "field `weights.gold`: expected a weight in percent, found null"),
        (r#"{"weights": [1]}"#, "field `weights`: expected an object, found a list"),
        (r#"{"weights": {"a": 1, "a": 2}}"#, "field `a` is given twice at line 1, column 25"),
        (r#"{"tenantLabel": ""}"#, r#"field `tenantLabel`: expected the key of a label, found """#),
        (r#"{"tenantLabel": 3}"#, "field `tenantLabel`: expected a text, found 3"),
        (r#"{"defaultWeight": "1"}"#, r#"field `defaultWeight`: expected a whole number from 1 to 10000, found "1""#),
    ];
    for (config, message) in table {
        assert_eq!(Harness::new().config(config).policy::<TenantEviction>(), Err(message.to_owned()), "{config}");
    }
}
