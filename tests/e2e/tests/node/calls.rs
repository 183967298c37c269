//! The calls that a pod's life is made of, without an agent: what containerd answers, and how soon its end is heard of.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use polylet_core::event::Hint;
use polylet_core::id::PodUid;
use polylet_core::observed::{ContainerState, SandboxState};
use polylet_e2e::{Node, Process, cri};
use polylet_runtime::{Capabilities, Client, Config, Hints, Kind, Observer, Operation, Way, hints, list, observe, verbs};

const BUSYBOX: &str = "polylet.local/busybox:1";
const UID: &str = "5b2f9c1e-7d6a-4c43-9a58-1f0e6f2d7c11";
const SECOND: Duration = Duration::from_secs(1);

/// Calls that failed: the operator sees them as the runtime's errors.
#[derive(Default)]
struct Failed(Mutex<Vec<Operation>>);

impl Observer for Failed {
    fn called(&self, operation: Operation, _: Duration, outcome: Result<(), Kind>) {
        if outcome.is_err() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(operation);
        }
    }
}

pub(crate) fn a_pod_lives_and_dies() {
    let node = Node::without_agent();
    let failed = Arc::new(Failed::default());
    let mut config = Config::new(format!("unix://{}", node.env("CONTAINERD_SOCK")).parse().expect("an endpoint"));
    config.observer = failed.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { live_and_die(Client::new(config), node.env("CGROUP_ROOT"), &failed).await });
}

async fn live_and_die(client: Client, cgroup: &str, failed: &Failed) {
    let mut hints = hints(client.clone());
    let found = Capabilities::ask(&client, &mut hints.way).await.expect("containerd says what it can do");
    assert!(matches!(found.events, Way::Cri | Way::Containerd { .. }), "{:?}", found.events);
    let image = verbs::inspect_image(&client, BUSYBOX).await.expect("asked").expect("the lab's images were imported");
    let uid = PodUid::from(UID);

    let made = verbs::run_sandbox(&client, sandbox_config(cgroup), "").await;
    let sandbox = made.expect("a sandbox is made");
    let again = verbs::run_sandbox(&client, sandbox_config(cgroup), "").await;
    assert_eq!(again.expect("found"), sandbox, "the one that is there is found");

    let create = async |attempt: u32, script: &str| {
        let config = container_config(&image.id, attempt, script);
        verbs::create_container(&client, &uid, &sandbox, config, sandbox_config(cgroup)).await
    };
    let container = create(0, "trap 'exit 7' TERM; while :; do sleep 0.02; done").await.expect("a container is made");
    assert_eq!(create(0, "anything").await.expect("found"), container, "a created twin is used");
    verbs::start_container(&client, &container).await.expect("started");
    create(0, "anything").await.expect_err("one that runs is not made anew");

    let say = words(&["sh", "-c", "echo out; echo err >&2; exit 3"]);
    let ran = verbs::exec(&client, &container, say, SECOND * 20).await.expect("run");
    assert_eq!((ran.exit_code, ran.output.as_str()), (Some(3), "out\nerr\n"));
    let slow = verbs::exec(&client, &container, words(&["sleep", "99"]), SECOND).await.expect("run");
    assert_eq!(slow.exit_code, None, "it did not end in time");

    let seen = observe(&client, &uid).await.expect("seen");
    assert_eq!(seen.sandbox().map(|s| (s.state, s.ips.is_empty())), Some((SandboxState::Ready, false)));
    assert_eq!(seen.newest("app").map(|c| c.state), Some(ContainerState::Running));
    assert_eq!(list(&client).await.expect("listed").pods[UID], seen.summary());

    verbs::stop_container(&client, &container, SECOND * 20).await.expect("stopped");
    let ended = observe(&client, &uid).await.expect("seen");
    assert_eq!(ended.newest("app").map(|c| (c.state, c.exit_code)), Some((ContainerState::Exited, 7)));

    failed.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    for attempt in 1..=5 {
        let container = create(attempt, "sleep 0.3").await.expect("a container is made");
        verbs::start_container(&client, &container).await.expect("started");
        // Of several hints about it the last must not come too early, or the end goes unnoticed.
        loop {
            heard_of(&mut hints, container.as_str()).await;
            let status = client.container_status(container.as_str(), false).await.expect("asked").status.expect("it is there");
            if status.state() == cri::ContainerState::ContainerExited {
                break;
            }
        }
    }
    verbs::stop_sandbox(&client, &sandbox).await.expect("stopped");
    heard_of(&mut hints, sandbox.as_str()).await;
    verbs::remove_sandbox(&client, &sandbox).await.expect("removed");
    assert_eq!(observe(&client, &uid).await.expect("seen").sandbox(), None);
    let counted = std::mem::take(&mut *failed.0.lock().unwrap_or_else(PoisonError::into_inner));
    assert_eq!(counted, [], "ends are looked into without a call that fails");

    let gone = client.container_status("none", false).await.expect_err("nobody has this id");
    assert_eq!(gone.kind, Kind::NotFound, "{gone}");
    verbs::exec(&client, &container, words(&["true"]), SECOND).await.expect_err("it has ended");
}

/// A container for debugging is among the processes of the one that it is to look at.
pub(crate) fn an_ephemeral_container_sees_its_target() {
    let node = Node::without_agent();
    let cgroup = node.env("CGROUP_ROOT");
    let sandbox = node.run_sandbox(sandbox_config(cgroup));
    let run = |name: &str, script: &str, target: Option<&str>| {
        let mut config = container_config(BUSYBOX, 0, script);
        config.metadata = Some(cri::ContainerMetadata { name: name.into(), attempt: 0 });
        config.labels = labels(&[("io.kubernetes.container.name", name)]);
        let pid = if target.is_some() { cri::NamespaceMode::Target } else { cri::NamespaceMode::Container };
        let target_id = target.unwrap_or_default().to_owned();
        let options = cri::NamespaceOption { pid: pid.into(), target_id, ..Default::default() };
        let context = cri::LinuxContainerSecurityContext { namespace_options: Some(options), ..Default::default() };
        config.linux = Some(cri::LinuxContainerConfig { security_context: Some(context), ..Default::default() });
        node.run_container(&sandbox, config, sandbox_config(cgroup))
    };
    let target = run("app", "exec sleep 1001", None);
    let [target, debugger, stranger] = [
        node.process(&target),
        node.process(&run("debugger", "exec sleep 1002", Some(&target))),
        node.process(&run("stranger", "exec sleep 1003", None)),
    ];
    assert_eq!(debugger.namespace("pid"), target.namespace("pid"));
    assert_ne!(stranger.namespace("pid"), target.namespace("pid"));
    // The first process that each sees in its own /proc, once it is what it was made for.
    let first = |of: &Process| std::fs::read_to_string(format!("/proc/{}/root/proc/1/cmdline", of.pid)).expect("a process");
    node.until_true("the debugger sees the target", || first(&debugger).contains("1001"));
    node.until_true("the stranger sees itself", || first(&stranger).contains("1003"));
}

/// Until a hint says to look where the container, or sandbox, is.
async fn heard_of(hints: &mut Hints, id: &str) {
    let begun = Instant::now();
    let hint = async {
        loop {
            match hints.hints.recv().await.expect("the subscription lives") {
                Hint::Id(heard) if heard == id => return,
                Hint::Pod(heard) if heard.as_str() == UID => return,
                _ => {}
            }
        }
    };
    let heard = tokio::time::timeout(SECOND * 60, hint).await;
    assert!(heard.is_ok(), "nothing was heard of {id} for {:?}", begun.elapsed());
}

fn sandbox_config(cgroup: &str) -> cri::PodSandboxConfig {
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: "calls".into(),
            uid: UID.into(),
            namespace: "default".into(),
            attempt: 0,
        }),
        hostname: "calls".into(),
        labels: labels(&[]),
        linux: Some(cri::LinuxPodSandboxConfig { cgroup_parent: cgroup.into(), ..Default::default() }),
        ..Default::default()
    }
}

fn container_config(image: &str, attempt: u32, script: &str) -> cri::ContainerConfig {
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: "app".into(), attempt }),
        image: Some(cri::ImageSpec { image: image.into(), ..Default::default() }),
        command: words(&["sh", "-c", script]),
        labels: labels(&[("io.kubernetes.container.name", "app")]),
        ..Default::default()
    }
}

fn labels(more: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    let owner = [("io.kubernetes.pod.name", "calls"), ("io.kubernetes.pod.namespace", "default"), ("io.kubernetes.pod.uid", UID)];
    owner.iter().chain(more).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
