//! Node-pressure eviction, on a node whose operator lets static pods go: who is ranked first goes first.

use polylet_e2e::{Node, policy_file};
use rustix::process::Signal;

/// Holds twenty megabytes, and asked for one.
const BIG: &str = "
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sh, -c, 'held=$(head -c 20000000 /dev/zero | tr \"\\\\0\" x); touch /tmp/held; sleep 1000; echo $held']
    resources: {requests: {memory: 1Mi}}
    readinessProbe: {exec: {command: [test, -e, /tmp/held]}, periodSeconds: 1, timeoutSeconds: 20}";

const SMALL: &str = "
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sleep, '1000']
    resources: {requests: {memory: 1Mi}}";

pub(crate) fn a_policy_weighs_tenants() {
    let node = Node::up();
    let (big, small) = (node.pod_of("big", "team: patient", BIG), node.pod_of("small", "team: hasty", SMALL));
    big.until_ready();
    small.until_ready();
    // The kubelet's own ranking would take the big one; here its team may exceed what it asked for ten thousand times as far.
    let config = r#"{"tenantLabel": "team", "weights": {"patient": 10000, "hasty": 1}}"#;
    node.load("eviction", "tenants", &policy_file("tenant-eviction"), config);
    node.end_agent(Signal::TERM);
    node.append("config.yaml", "evictionHard: {memory.available: 99.9%}\n");
    node.append("polylet.yaml", "policies: {evictStatic: true}\n");
    node.start_agent();
    let decisions = node.follow();
    let view = small.until("it has been evicted", |view| view.phase() == "Failed");
    assert_eq!(view.status()["reason"], "Evicted", "{}", view.pretty());
    let message = &view.status()["message"];
    assert!(
        message.as_str().is_some_and(|m| m.starts_with("The node was low on resource: memory. Threshold quantity: ")),
        "{message}"
    );
    node.until_true("the node says what it is short of", || node.node()["pressure"].to_string().contains("MemoryPressure"));
    let ranked = decisions.of("eviction").into_iter().find(|record| record["question"]["body"]["rank"].is_object());
    let ranked = ranked.expect("a record of the ranking");
    assert_eq!(ranked["asked"][0][0]["bound"]["name"], "tenants", "{ranked:#}");
    // Still short, with nobody else left to take.
    big.until("it has been evicted too", |view| view.phase() == "Failed");
    let big_said = big.now().map(|view| view.status()["message"].to_string()).unwrap_or_default();
    assert!(big_said.contains("Container main was using ") && big_said.contains("request is 1Mi"), "{big_said}");
}
