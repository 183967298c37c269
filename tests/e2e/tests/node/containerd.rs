//! containerd dies and comes back: containers run on, the node says so.

use std::collections::BTreeMap;

use polylet_e2e::{Node, cri};

const STEADY: &str = "
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sleep, '1000']
    readinessProbe: {exec: {command: ['true']}, periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 100}";

pub(crate) fn killed_and_started_again() {
    let node = Node::up();
    let pods = ["one", "two", "three"].map(|name| node.pod(name, STEADY));
    let leaves = node.pod("leaves", STEADY);
    let before = pods.each_ref().map(|pod| pod.until_ready());
    let left = leaves.until_ready();
    let processes = || -> BTreeMap<String, u32> {
        let running = node.containers().into_iter().filter(|c| c.state() == cri::ContainerState::ContainerRunning);
        running.map(|c| (c.id.clone(), node.process(&c.id).pid)).collect()
    };
    let ran = processes();
    assert_eq!(ran.len(), 4);

    node.kill_containerd();
    node.until_true("the node is not ready, and says why as upstream does", || {
        let view = node.node();
        view["ready"] == false
            && view["reasons"].as_array().is_some_and(|r| r.iter().any(|why| why == "container runtime is down"))
    });
    for (pod, before) in pods.iter().zip(&before) {
        assert_eq!(pod.now().map(|view| view.picture()), Some(before.picture()), "it is shown as it was last seen");
    }
    for pid in ran.values() {
        assert!(std::path::Path::new(&format!("/proc/{pid}")).exists(), "process {pid} went with containerd");
    }
    // What is wanted meanwhile is done afterwards.
    let comes = node.pod("comes", STEADY);
    leaves.remove();

    node.start_containerd();
    node.until_ready();
    comes.until_ready();
    leaves.until_gone();
    let mut expected = ran.clone();
    expected.remove(left.id("main"));
    for (pod, before) in pods.iter().zip(&before) {
        let view = pod.until_ready();
        assert_eq!((view.id("main"), view.restarts("main"), view.uid()), (before.id("main"), 0, before.uid()));
    }
    let mut runs = processes();
    runs.remove(comes.until_ready().id("main"));
    assert_eq!(runs, expected, "the same processes");
}
