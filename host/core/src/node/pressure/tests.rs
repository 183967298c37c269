//! What a node does with what was sampled.

use serde_json::json;

use super::*;
use crate::config::{Config, Quantity, Threshold};
use crate::event::{Event, RuntimeState};
use crate::observed::Listing;
use crate::pod::Source;
use crate::question::eviction::Starved;
use crate::sample::{PodUsage, Reading};
use crate::testing;
use crate::time::Wall;

fn at(seconds: u64) -> Now {
    Now { wall: Wall(1_000_000 + seconds * 1000), mono: Mono(seconds * 1000) }
}

/// A pod out of a manifest: its volume may hold 100 bytes, and its container 1000 in all.
fn pod(name: &str, priority: i32) -> Arc<Pod> {
    let limits = json!({"ephemeral-storage": "1000"});
    let object = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")},
        "spec": {
            "priority": priority,
            "containers": [{"name": "app", "image": "i", "resources": {"limits": limits}}],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "100"}}],
        },
    });
    Arc::new(Pod::parse(Arc::new(serde_json::from_value(object).unwrap()), Source::File, Wall(1000)).unwrap())
}

fn config(evict_static: bool, local_storage_limits: bool) -> Config {
    let short = Threshold {
        signal: "memory.available".into(),
        starved: Starved::Memory,
        below: Quantity::Amount(100),
        reclaim: Quantity::Amount(0),
        grace: None,
    };
    Config { evict_static, local_storage_limits, sources: vec![Source::File], thresholds: vec![short], ..testing::config() }
}

/// A node on which these pods run.
fn node(config: Config, pods: &[Arc<Pod>]) -> Node {
    let mut node = Node::new(config, Vec::new(), 1, at(0));
    let listed = |effect| match effect {
        Effect::Do { id, act: Act::List } => Some(id),
        _ => None,
    };
    let began = node.step(at(0), Event::Runtime(RuntimeState::Up { runtime: Ok(()), network: Ok(()) }));
    let id = began.into_iter().find_map(listed).expect("the runtime is listed");
    node.step(at(0), Event::Desired { source: Source::File, pods: pods.to_vec() });
    node.step(at(0), Event::Listed { id, result: Ok(Listing::default()) });
    node
}

/// Lets the node take a sample; answers what it says of pressure and evictions, and the signals that it counts.
fn sampled(node: &mut Node, seconds: u64, memory: u64, used: &[(&str, u64, u64)]) -> Vec<String> {
    let due = node.step(at(seconds), Event::Tick);
    let sampling = due.iter().find_map(|effect| match effect {
        Effect::Do { id, act: Act::Sample } => Some(*id),
        _ => None,
    });
    let usage = |volume, logs| PodUsage {
        memory_working_set: Some(1),
        disk_logs: Some(logs),
        empty_dirs: [("v".into(), volume)].into(),
        ..PodUsage::default()
    };
    let sample = Sample {
        at: at(seconds).wall,
        signals: [("memory.available".into(), Reading { available: memory, capacity: 1000 })].into(),
        pods: used.iter().map(|(name, volume, logs)| (format!("uid-{name}").into(), usage(*volume, *logs))).collect(),
        ..Sample::default()
    };
    let id = sampling.expect("a sampling is due");
    let effects = node.step(at(seconds), Event::Sampled { id, result: Ok(Arc::new(sample)) });
    let told = effects.into_iter().filter_map(|effect| match effect {
        Effect::Count(Count::Evicted { signal }) => Some(signal),
        Effect::Say(say) if ["EvictionThresholdMet", "Evicted"].contains(&say.reason) => Some(say.message),
        _ => None,
    });
    told.collect()
}

/// Who is being ended, why, and with how many seconds.
fn stops(node: &Node) -> Vec<(&str, StopCause, u64)> {
    let all = node.workers.iter().filter_map(|(uid, worker)| Some((uid.as_str(), worker.record.stop.as_ref()?)));
    all.map(|(uid, stop)| (uid, stop.cause, stop.grace_seconds)).collect()
}

const LOW: u64 = 50;
const FREE: u64 = 500;

#[test]
fn all_that_exceed_their_limits_go_and_nobody_is_ranked_then() {
    let names = ["a", "b", "c", "d"];
    let pods: Vec<Arc<Pod>> = names.iter().map(|name| pod(name, if *name == "c" { 2_000_000_000 } else { 0 })).collect();
    let mut node = node(config(true, true), &pods);
    let used = [("a", 101, 0), ("b", 100, 1001), ("c", 101, 1001), ("d", 100, 1000)];
    assert_eq!(
        sampled(&mut node, 10, LOW, &used),
        [
            "emptydirfs.limit",
            "Usage of EmptyDir volume \"v\" exceeds the limit \"100\". ",
            "ephemeralpodfs.limit",
            "Pod ephemeral local storage usage exceeds the total limit of containers 1k. ",
        ]
    );
    // One of a critical priority stays, whatever it has.
    let gone = [("uid-a", StopCause::OverLimit, 1), ("uid-b", StopCause::OverLimit, 1)];
    assert_eq!(stops(&node), gone);
    assert!(node.shared.node.memory_pressure, "conditions are told all the same");
    assert_eq!(node.workers[&PodUid::from("uid-a")].record.end.as_ref().and_then(|end| end.reason.as_deref()), Some("Evicted"));

    // Nobody goes twice; what they give back is waited for before somebody is ranked.
    assert_eq!(sampled(&mut node, 20, LOW, &used), [""; 0]);
    let told = sampled(&mut node, 41, LOW, &used);
    assert_eq!(told[..2], ["Attempting to reclaim memory", "memory.available"], "{told:?}");
    assert_eq!(stops(&node)[2..], [("uid-d", StopCause::Evicted, 1)]);
}

#[test]
fn nobody_goes_who_keeps_to_it_or_is_static_or_where_limits_are_switched_off() {
    let pods = [pod("a", 0)];
    for (evict_static, limits, volume) in [(true, true, 100), (false, true, 101), (true, false, 101)] {
        let mut node = node(config(evict_static, limits), &pods);
        assert_eq!(sampled(&mut node, 10, FREE, &[("a", volume, 1000)]), [""; 0], "{evict_static} {limits} {volume}");
        assert_eq!(stops(&node), []);
        // A measurement that comes later counts as soon as it is there.
        let later = sampled(&mut node, 20, FREE, &[("a", 102, 0)]);
        assert_eq!(!later.is_empty(), evict_static && limits, "{later:?}");
    }
}
