//! Evictions on a node whose operator lets static pods go: where something is short, who is ranked first goes first; whoever exceeds
//! its own limits of local storage goes in any case.

use polylet_e2e::{Node, policy_file};
use rustix::process::Signal;

/// Holds twenty megabytes, and asked for one.
const BIG: &str = "
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sh, -c, 'head -c 20000000 /dev/zero > /held/file; touch /tmp/held; sleep 1000']
    resources: {requests: {memory: 1Mi}}
    readinessProbe: {exec: {command: [test, -e, /tmp/held]}, periodSeconds: 1, timeoutSeconds: 20}
    volumeMounts: [{name: held, mountPath: /held}]
  volumes:
  - {name: held, emptyDir: {medium: Memory}}";

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

/// Puts so many bytes into its volume and into its writable layer; they may hold 1 MiB and, with all else, 8 MiB.
fn hoarder(volume: u32, layer: u32) -> String {
    format!(
        "
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sh, -c, 'head -c {volume} /dev/zero > /data/file; head -c {layer} /dev/zero > /file; touch /tmp/full; sleep 1000']
    resources: {{limits: {{ephemeral-storage: 8Mi}}}}
    readinessProbe: {{exec: {{command: [test, -e, /tmp/full]}}, periodSeconds: 1, timeoutSeconds: 20}}
    volumeMounts: [{{name: data, mountPath: /data}}]
  volumes:
  - {{name: data, emptyDir: {{sizeLimit: 1024Ki}}}}"
    )
}

pub(crate) fn limits_of_local_storage() {
    let node = Node::without_agent();
    // Loopback of the node's own network.
    node.append("config.yaml", "volumeStatsAggPeriod: 1s\naddress: 127.0.0.1\nreadOnlyPort: 10255\n");
    // Nothing is short, however full this machine's disk is.
    node.append("config.yaml", "evictionHard: {memory.available: 1Mi}\n");
    node.append("polylet.yaml", "policies: {evictStatic: true}\n");
    node.start_agent();
    let modest = node.pod("modest", &hoarder(100_000, 100_000));
    let (volume, layer) = (node.pod("volume", &hoarder(3_000_000, 0)), node.pod("layer", &hoarder(0, 20_000_000)));
    let critical = node.pod("critical", &format!("\n  priority: 2000000000{}", hoarder(3_000_000, 0)));
    for (pod, message) in [
        (&volume, "Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\". "),
        (&layer, "Pod ephemeral local storage usage exceeds the total limit of containers 8Mi. "),
    ] {
        let view = pod.until("it has been evicted", |view| view.phase() == "Failed");
        let status = view.status();
        assert_eq!((&status["reason"], &status["message"]), (&"Evicted".into(), &message.into()), "{}", view.pretty());
        assert!(view.condition("DisruptionTarget").is_null(), "nobody else's doing: {}", view.pretty());
    }
    // What the others have was measured too.
    for (pod, least) in [(&modest, 100_000), (&critical, 3_000_000)] {
        let view = pod.until_ready();
        let used = || node.node()["sample"]["pods"][view.uid()]["emptyDirs"]["data"].as_u64();
        node.until_true("its volume is measured", || used().is_some_and(|bytes| bytes >= least));
        assert_eq!(pod.now().map(|view| view.life().to_owned()).as_deref(), Some("running"), "it stays");
    }
    let metrics = node.network().get(10255, "/metrics").1;
    for signal in ["emptydirfs.limit", "ephemeralpodfs.limit"] {
        let line = format!("kubelet_evictions{{eviction_signal=\"{signal}\"}} 1");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    // Only whom no limit binds is told of.
    let log = node.log();
    let told: Vec<&str> =
        log.lines().filter(|line| line.contains("emptyDir.sizeLimit") && line.contains("has no effect")).collect();
    assert!(!told.is_empty() && told.iter().all(|line| line.contains("critical-e2e")), "{told:?}");
    assert_eq!(node.node()["pressure"].as_array().map(Vec::len), Some(0), "nothing is short");
}
