//! What the node stands on goes away, or falls silent: it says so, does what can be done, and goes on when it is back.

use std::path::Path;

use polylet_e2e::{Cgroup, Node, policy_file};

const STEADY: &str = "
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sleep, '1000']";

/// Whether the node says that it is not ready for this reason, given by a part of it.
fn says(node: &Node, reason: &str) -> bool {
    let view = node.node();
    view["ready"] == false
        && view["reasons"]
            .as_array()
            .is_some_and(|all| all.iter().any(|why| why.as_str().is_some_and(|why| why.contains(reason))))
}

pub(crate) fn no_network_is_configured() {
    let node = Node::without_agent();
    let configuration = Path::new(node.env("CNI_CONF_DIR")).join("10-polylet.conflist");
    let kept = std::fs::read(&configuration).expect("the node's network");
    std::fs::remove_file(&configuration).expect("remove the node's network");
    node.spawn_agent();
    node.until_true("it says so, in the runtime's words and the configuration's", || {
        says(&node, "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:")
            && says(&node, &format!("(CNI configuration: no networks found in {}", node.env("CNI_CONF_DIR")))
    });
    let waits = node.pod("waits", STEADY);
    let host = node.pod("host", &format!("  hostNetwork: true{STEADY}"));
    host.until_runs("main");
    waits.until_said("network is not ready: container runtime network not ready: NetworkReady=false");
    assert!(node.sandboxes_of(waits.until("it is known", |_| true).uid()).is_empty(), "no sandbox without a network");
    std::fs::write(&configuration, kept).expect("put the network back");
    waits.until_ready();
    node.until_ready();
}

pub(crate) fn the_runtime_is_silent() {
    let node = Node::up();
    let pod = node.pod("steady", STEADY);
    let before = pod.until_ready();
    node.freeze_containerd();
    // It answers nothing, which takes half a minute to tell from being slow.
    node.until_true("it is taken for down", || says(&node, "container runtime is down"));
    node.thaw_containerd();
    node.until_ready();
    let view = pod.until_ready();
    assert_eq!((view.id("main"), view.restarts("main")), (before.id("main"), 0));
}

pub(crate) fn what_is_removed_comes_back() {
    let node = Node::up();
    let steady = node.pod("steady", STEADY);
    let before = steady.until_ready();
    let removed = |name: &str| {
        std::fs::remove_dir_all(node.dir().join(name)).expect("remove a directory");
        node.dir().join(name)
    };
    let (ring, cache) = (removed("state/decisions"), removed("policy-cache"));
    // Nobody is in it, and so it can be removed.
    let tier = Cgroup::at(&format!("{}/kubepods/burstable", node.env("CGROUP_ROOT")));
    assert!(tier.remove(), "the cgroup of the Burstable tier is removed");
    let comes = node.pod("comes", &format!("{STEADY}\n    resources: {{requests: {{cpu: 100m}}}}"));
    let view = comes.until_ready();
    assert!(tier.exists() && node.pod_cgroup("burstable", view.uid()).exists(), "tier and pod have their cgroups");
    node.load("restart", "gentle", &policy_file("gentle-restart"), "{}");
    assert!(node.rung("restart", "gentle").is_some());
    node.until_true("decisions are kept again", || {
        node.cli_ok(&["policy", "log", "--hook", "qos"])
            .lines()
            .any(|line| line.contains(view.uid()) || line.contains("comes-e2e"))
    });
    assert!(ring.is_dir() && cache.is_dir());
    assert_eq!(steady.until_ready().id("main"), before.id("main"));
}
