//! The agent dies, is asked to stop, finds another, loses its memory: pods go on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use polylet_e2e::{Cgroup, Node, View, cri};
use redb::{Database, ReadableDatabase, TableDefinition};
use rustix::process::Signal;
use serde_json::Value;

/// Runs, with probes that pass, and are given time on a busy machine.
const STEADY: &str = "
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sleep, '1000']
    startupProbe: {exec: {command: ['true']}, periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 10}
    readinessProbe: {exec: {command: ['true']}, periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 10}
    livenessProbe: {exec: {command: ['true']}, periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 10}";

const CRASHER: &str = "
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: busybox, command: [sh, -c, 'exit 1']}";

/// Ids of the containers that run now.
fn running(node: &Node) -> BTreeSet<String> {
    let all = node.containers().into_iter().filter(|c| c.state() == cri::ContainerState::ContainerRunning);
    all.map(|container| container.id).collect()
}

/// Waits until the agent that has begun anew says of the pod what was said before, and that it never said otherwise.
fn until_as_before(pod: &polylet_e2e::Pod<'_>, before: &View) {
    pod.until("it is what it was", |view| {
        // Nothing is said of a pod before the runtime has been asked.
        let flapped = view.condition("Ready")["status"] == "False" && before.is_ready();
        assert!(!flapped, "it was not ready for a while: {}", view.pretty());
        view.picture() == before.picture()
    });
}

pub(crate) fn killed_while_pods_run_and_one_waits() {
    let node = Node::up();
    let (steady, crasher) = (node.pod("steady", STEADY), node.pod("crasher", CRASHER));
    let ready = steady.until_ready();
    let waits =
        crasher.until("it waits 40 s", |view| view.beside("main")["restartDelay"] == 40_000 && !view.waits("main").is_empty());
    let (containers, restarts) = (running(&node), waits.restarts("main"));
    for round in 0..3 {
        node.end_agent(Signal::KILL);
        node.start_agent();
        until_as_before(&steady, &ready);
        let view = crasher.until("it waits as before", |view| view.waits("main") == "CrashLoopBackOff");
        assert_eq!(view.wait_message("main"), waits.wait_message("main"), "round {round}");
        assert_eq!((view.restarts("main"), view.uid()), (restarts, waits.uid()), "round {round}");
        assert_eq!(running(&node), containers, "round {round}");
    }
    // The wait goes on where it was, and the next is twice as long.
    let view = crasher.until("it waits 80 s", |view| view.beside("main")["restartDelay"] == 80_000);
    assert_eq!(view.restarts("main"), restarts + 1);
    assert_eq!(steady.now().map(|view| view.picture()), Some(ready.picture()));
}

/// Pods of an earlier life of the agent count when tiers share the cpu, and are measured, as any other.
pub(crate) fn killed_and_what_runs_still_counts() {
    let node = Node::up();
    let spec = |millicores: u32| {
        format!(
            "
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sleep, '1000']
    resources: {{requests: {{cpu: {millicores}m}}}}
    readinessProbe: {{exec: {{command: ['true']}}, periodSeconds: 1, timeoutSeconds: 20}}"
        )
    };
    let first = node.pod("first", &spec(100));
    first.until_ready();
    node.end_agent(Signal::KILL);
    node.start_agent();
    let second = node.pod("second", &spec(50));
    second.until_ready();
    let tier = Cgroup::at(&format!("{}/kubepods/burstable", node.env("CGROUP_ROOT")));
    node.until_true("the tier has what both ask for", || tier.has_shares(153));
    let decisions = node.follow();
    node.until_true("what the first uses is known when its probes are judged", || {
        decisions.of("probe").iter().any(|record| {
            let numbers = &record["question"]["facts"]["numbers"];
            let known = |name: &str| numbers[name].as_i64().is_some_and(|value| value > 0);
            record["pod"].as_str().is_some_and(|pod| pod.contains("first"))
                && known("pod.memory.working-set")
                && known("container.memory.working-set")
                && known("container.ready")
        })
    });
    second.remove();
    node.until_true("the tier has what is left", || tier.has_shares(102));
}

/// Told to stop while containers are being made: a runtime whose caller goes away gives those up, for good.
pub(crate) fn told_to_stop_while_pods_start() {
    let node = Node::up();
    let spec = "
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: busybox, command: [sh, -c, 'exit 0']}";
    let pods: Vec<_> = (0..6).map(|n| node.pod(&format!("short-{n}"), spec)).collect();
    node.until_true("some container is there", || !node.containers().is_empty());
    let ended = node.end_agent(Signal::TERM);
    assert!(ended.success(), "{ended}");
    node.start_agent();
    for pod in &pods {
        let view = pod.until("it has ended", |view| matches!(view.phase(), "Succeeded" | "Failed"));
        assert_eq!((view.phase(), view.restarts("main")), ("Succeeded", 0), "{}", view.pretty());
    }
}

pub(crate) fn killed_during_init() {
    let node = Node::up();
    let step = |name: &str, then: &str| {
        let script = format!("echo {name} >>/own/order{then}");
        let mounts = "volumeMounts: [{name: own, mountPath: /own}]";
        format!("\n  - {{name: {name}, image: busybox, command: [sh, -c, '{script}'], {mounts}}}")
    };
    let spec = format!(
        "
  restartPolicy: Never
  volumes: [{{name: own, hostPath: {{path: {}, type: DirectoryOrCreate}}}}]
  initContainers:{}{}{}
  containers:{}",
        node.dir().join("own").display(),
        step("first", ""),
        step("second", "; until [ -e /own/go ]; do sleep 0.1; done"),
        step("third", ""),
        step("main", "")
    );
    let pod = node.pod("init", &spec);
    let before = pod.until_runs("second");
    node.end_agent(Signal::KILL);
    node.start_agent();
    let after = pod.until_runs("second");
    assert_eq!(after.id("second"), before.id("second"));
    // And once more, while what it waited for ends behind its back.
    node.end_agent(Signal::KILL);
    std::fs::write(node.dir().join("own/go"), "").expect("write a file");
    node.until_true("second has ended", || node.container(before.id("second")).state() == cri::ContainerState::ContainerExited);
    node.start_agent();
    let view = pod.until("it has succeeded", |view| view.phase() == "Succeeded");
    let order = std::fs::read_to_string(node.dir().join("own/order")).expect("read the order");
    assert_eq!(order, "first\nsecond\nthird\nmain\n", "each ran once");
    assert!(["first", "second", "third", "main"].iter().all(|name| view.restarts(name) == 0), "{}", view.pretty());
}

pub(crate) fn killed_during_a_graceful_end() {
    let node = Node::up();
    let spec = |grace: u32| {
        format!(
            "
  terminationGracePeriodSeconds: {grace}
  volumes: [{{name: own, hostPath: {{path: {}, type: DirectoryOrCreate}}}}]
  containers:
  - name: main
    image: busybox
    command: [sh, -c]
    args:
    - |
      trap 'echo term >>/own/diary-{grace}' TERM
      echo up >>/own/diary-{grace}
      until [ -e /own/end-{grace} ]; do sleep 0.1; done
      echo end >>/own/diary-{grace}
    volumeMounts: [{{name: own, mountPath: /own}}]",
            node.dir().join("own").display()
        )
    };
    let diary = |grace: u32| {
        let text = std::fs::read_to_string(node.dir().join(format!("own/diary-{grace}"))).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    // One that ends by itself within its grace, after the agent's death, and one that never does.
    let (patient, stubborn) = (node.pod("patient", &spec(100)), node.pod("stubborn", &spec(12)));
    let (one, other) = (patient.until_ready(), stubborn.until_ready());
    node.until_true("both listen for TERM", || diary(100) == ["up"] && diary(12) == ["up"]);
    let began = Instant::now();
    patient.remove();
    stubborn.remove();
    node.until_true("both were told", || [100, 12].iter().all(|grace| diary(*grace).len() > 1));
    node.end_agent(Signal::KILL);
    node.start_agent();
    stubborn.until_gone();
    assert!(began.elapsed() >= Duration::from_secs(11), "its grace was 12 s: {:?}", began.elapsed());
    assert!(patient.now().is_some(), "its grace is 100 s");
    std::fs::write(node.dir().join("own/end-100"), "").expect("write a file");
    patient.until_gone();
    assert_eq!(diary(100).last().map(String::as_str), Some("end"), "{:?}", diary(100));
    assert!(!diary(12).contains(&"end".to_owned()), "{:?}", diary(12));
    for view in [one, other] {
        node.until_true("containers, sandboxes and cgroups are gone", || {
            node.containers_of(view.uid()).is_empty()
                && node.sandboxes_of(view.uid()).is_empty()
                && !node.pod_cgroup("besteffort", view.uid()).exists()
        });
    }
}

pub(crate) fn manifests_that_change_while_no_agent_runs() {
    let node = Node::up();
    let (stays, goes, changes) = (node.pod("stays", STEADY), node.pod("goes", STEADY), node.pod("changes", STEADY));
    let (stayed, gone, changed) = (stays.until_ready(), goes.until_ready(), changes.until_ready());
    assert_eq!(node.end_agent(Signal::TERM).code(), Some(0));
    goes.remove();
    changes.change(&STEADY.replace("1000", "2000"));
    let comes = node.pod("comes", STEADY);
    node.start_agent();
    comes.until_ready();
    goes.until_gone();
    changes.until("another is ready", |view| view.is_ready() && view.uid() != changed.uid());
    until_as_before(&stays, &stayed);
    for view in [gone, changed] {
        node.until_true("nothing is left of what went", || node.containers_of(view.uid()).is_empty());
    }
}

pub(crate) fn told_to_stop() {
    let node = Node::up();
    let pod = node.pod("steady", STEADY);
    let ready = pod.until_ready();
    let containers = running(&node);
    let began = Instant::now();
    assert_eq!(node.end_agent(Signal::TERM).code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(node.log().contains("the agent stops; pods keep running"));
    assert_eq!((running(&node), containers.len()), (containers, 1));
    node.start_agent();
    until_as_before(&pod, &ready);
}

pub(crate) fn a_second_one_is_refused() {
    let node = Node::up();
    let pod = node.pod("steady", STEADY);
    let ready = pod.until_ready();
    let second = node.agent_command().output().expect("start a second agent");
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr);
    let lock = node.dir().join("kubelet/polylet.lock");
    let wanted = format!("another agent (process {}) works on this node: it holds {}", node.agent_pid(), lock.display());
    assert!(said.contains(&wanted), "{said}\nwanted: {wanted}");
    // Elsewhere on the disk, but at the same runtime: it would end the pods of the first.
    let mut elsewhere = node.agent_command();
    elsewhere.arg("--root-dir").arg(node.dir().join("elsewhere"));
    let third = elsewhere.output().expect("start a third agent");
    assert_eq!(third.status.code(), Some(1));
    let said = String::from_utf8_lossy(&third.stderr);
    assert!(said.contains("works on this node: it holds ") && said.contains(".sock.polylet.lock"), "{said}");
    assert!(node.node()["ready"] == true, "the first one goes on");
    assert_eq!(pod.now().map(|view| view.picture()), Some(ready.picture()));
}

pub(crate) fn a_damaged_store_is_set_aside() {
    let (damaged, kept) = (std::cell::RefCell::new(Vec::new()), |path: &Path| std::fs::read(path).expect("read a store"));
    let spoil = |path: &Path| {
        let mut bytes = kept(path);
        let middle = bytes.len() / 2;
        bytes[..64].fill(0xa5);
        bytes[middle..middle + 4096].fill(0x5a);
        std::fs::write(path, &bytes).expect("damage the store");
        damaged.replace(bytes);
    };
    unusable_store("corrupt", spoil, |path| assert!(kept(path) == *damaged.borrow(), "it is as it was found"));
}

pub(crate) fn a_store_of_a_later_agent_is_set_aside() {
    const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    let spoil = |path: &Path| {
        let store = Database::open(path).expect("open the store");
        let write = store.begin_write().expect("begin");
        write.open_table(META).expect("meta").insert("schema", 99).expect("insert");
        write.commit().expect("commit");
    };
    unusable_store("newer", spoil, |path| {
        let store = Database::open(path).expect("it can be opened");
        let read = store.begin_read().expect("begin");
        let schema = read.open_table(META).expect("meta").get("schema").expect("read").map(|version| version.value());
        assert_eq!(schema, Some(99));
        assert!(read.list_tables().expect("list").count() > 1, "its pods are kept");
    });
}

/// `is_kept` looks whether what was set aside is what `spoil` made.
fn unusable_store(kind: &str, spoil: impl FnOnce(&Path), is_kept: impl FnOnce(&Path)) {
    let node = Node::up();
    let (pod, crasher) = (node.pod("steady", STEADY), node.pod("crasher", CRASHER));
    let ready = pod.until_ready();
    let crashed = crasher.until("it waits", |view| view.waits("main") == "CrashLoopBackOff");
    // The other one may be started at once: that it had to wait was only in the store.
    let (containers, store) = (running(&node), node.dir().join("state/polylet.redb"));
    assert_eq!(node.end_agent(Signal::TERM).code(), Some(0));
    spoil(&store);
    node.start_agent();
    let aside: Vec<PathBuf> = std::fs::read_dir(node.dir().join("state")).expect("list").flatten().map(|e| e.path()).collect();
    let aside: Vec<&PathBuf> = aside.iter().filter(|p| p.to_string_lossy().contains(&format!("polylet.redb.{kind}-"))).collect();
    assert_eq!(aside.len(), 1, "{aside:?}");
    is_kept(aside[0]);
    let log = node.log();
    let told = log.lines().any(|line| line.contains("WARN") && line.contains(&*aside[0].to_string_lossy()));
    assert!(told, "the log names {}:\n{log}", aside[0].display());
    // What the runtime knows is enough: the same containers, the same counts.
    let view = pod.until_ready();
    assert_eq!((view.id("main"), view.restarts("main")), (ready.id("main"), 0));
    assert!(running(&node).is_superset(&containers), "{containers:?}");
    let view = crasher.until("its count is known", |view| view.container("main") != &Value::Null);
    assert!(view.restarts("main") >= crashed.restarts("main"), "{}", view.pretty());
    assert!(store.is_file(), "a fresh store is in its place");
    node.end_agent(Signal::KILL);
    node.start_agent();
    assert_eq!(pod.until_ready().id("main"), ready.id("main"));
}
