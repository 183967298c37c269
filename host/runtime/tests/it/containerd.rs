//! Against a real containerd, where CONTAINERD_SOCK names its socket (`tests/lab/node.sh exec DIR …` sets it): the calls that a
//! pod's life is made of, and how soon its end is heard of. Needs the lab's images.

use std::time::{Duration, Instant};

use polylet_core::event::Hint;
use polylet_core::id::PodUid;
use polylet_core::observed::{ContainerState, SandboxState};
use polylet_proto::cri;
use polylet_runtime::{Capabilities, Client, Config, Hints, Kind, hints, list, observe, runtime_state, verbs};

const BUSYBOX: &str = "polylet.local/busybox:1";
const UID: &str = "5b2f9c1e-7d6a-4c43-9a58-1f0e6f2d7c11";

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_lives_and_dies() {
    let Ok(socket) = std::env::var("CONTAINERD_SOCK") else {
        println!("skipped: CONTAINERD_SOCK is not set");
        return;
    };
    let client = Client::new(Config::new(socket.parse().unwrap()));
    let mut hints = hints(client.clone());
    let found = Capabilities::ask(&client, &mut hints.way).await.unwrap();
    println!("{} {}: events by {:?}", found.runtime_name, found.runtime_version, found.events);
    found.degraded.iter().for_each(|degraded| println!("degraded: {degraded}"));
    println!("{:?}", runtime_state(&client.status(false).await.unwrap()));

    let result = tokio::spawn(live_and_die(client.clone(), hints)).await;
    clean(&client).await;
    result.unwrap();
}

async fn live_and_die(client: Client, mut hints: Hints) {
    let image = verbs::inspect_image(&client, BUSYBOX).await.unwrap().expect("the lab's images were imported");
    let uid = PodUid::from(UID);

    let begun = Instant::now();
    let sandbox = verbs::run_sandbox(&client, sandbox_config(), "").await.unwrap();
    let sandbox_took = begun.elapsed();
    assert_eq!(verbs::run_sandbox(&client, sandbox_config(), "").await.unwrap(), sandbox, "the one that is there is found");

    let create = async |attempt: u32, script: &str| {
        let config = container_config(&image.id, attempt, script);
        verbs::create_container(&client, &uid, &sandbox, config, sandbox_config()).await
    };
    let begun = Instant::now();
    let container = create(0, "trap 'exit 7' TERM; while :; do sleep 0.02; done").await.unwrap();
    let create_took = begun.elapsed();
    assert_eq!(create(0, "anything").await.unwrap(), container, "a created twin is used");
    let begun = Instant::now();
    verbs::start_container(&client, &container).await.unwrap();
    println!("sandbox {sandbox_took:?}, create {create_took:?}, start {:?}", begun.elapsed());
    assert!(create(0, "anything").await.is_err(), "one that runs is not made anew");

    let ran = verbs::exec(&client, &container, words(&["sh", "-c", "echo out; echo err >&2; exit 3"]), SECOND).await.unwrap();
    assert_eq!((ran.exit_code, ran.output.as_str()), (Some(3), "out\nerr\n"));
    let slow = verbs::exec(&client, &container, words(&["sleep", "9"]), SECOND).await.unwrap();
    assert_eq!(slow.exit_code, None, "it did not end in time");

    let seen = observe(&client, &uid).await.unwrap();
    assert_eq!(seen.sandbox().map(|s| (s.state, s.ips.is_empty())), Some((SandboxState::Ready, false)));
    assert_eq!(seen.newest("app").map(|c| c.state), Some(ContainerState::Running));
    assert_eq!(list(&client).await.unwrap().pods[UID], seen.summary());

    verbs::stop_container(&client, &container, SECOND * 5).await.unwrap();
    let ended = observe(&client, &uid).await.unwrap();
    assert_eq!(ended.newest("app").map(|c| (c.state, c.exit_code)), Some((ContainerState::Exited, 7)));

    let mut by_hint = Vec::new();
    for attempt in 1..=10 {
        let container = create(attempt, "sleep 0.3").await.unwrap();
        verbs::start_container(&client, &container).await.unwrap();
        drain(&mut hints).await;
        let shown = tokio::spawn(shown_after(client.clone(), container.as_str().to_owned()));
        // Other hints about it may come, too; the last one must not come too early.
        loop {
            heard_of(&mut hints, container.as_str()).await;
            let heard = Instant::now();
            let status = client.container_status(container.as_str(), false).await.unwrap().status.unwrap();
            if status.state() == cri::ContainerState::ContainerExited {
                let shown = shown.await.unwrap();
                by_hint.push(heard.saturating_duration_since(shown));
                break;
            }
        }
    }
    by_hint.sort();
    println!("hint after the CRI shows the end: {:?} (median), {:?} (worst of {})", by_hint[4], by_hint[9], by_hint.len());

    let gone = client.container_status("none", false).await.unwrap_err();
    assert_eq!(gone.kind, Kind::NotFound, "{gone}");
    let nothing = verbs::exec(&client, &container, words(&["true"]), SECOND).await;
    assert!(nothing.is_err(), "it has ended");
}

const SECOND: Duration = Duration::from_secs(1);

/// Until a hint says to look where the container is.
async fn heard_of(hints: &mut Hints, id: &str) {
    let hint = async {
        loop {
            match hints.hints.recv().await.expect("the subscription lives") {
                Hint::Id(heard) if heard == id => return,
                Hint::Pod(heard) if heard.as_str() == UID => return,
                _ => {}
            }
        }
    };
    tokio::time::timeout(SECOND * 10, hint).await.expect("the end is heard of");
}

/// When somebody who asks all the time sees the end.
async fn shown_after(client: Client, id: String) -> Instant {
    loop {
        let status = client.container_status(&id, false).await.unwrap().status.unwrap();
        if status.state() == cri::ContainerState::ContainerExited {
            return Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// What was said before is of no interest.
async fn drain(hints: &mut Hints) {
    while tokio::time::timeout(Duration::from_millis(100), hints.hints.recv()).await.is_ok() {}
}

async fn clean(client: &Client) {
    let Ok(seen) = observe(client, &PodUid::from(UID)).await else { return };
    for sandbox in &seen.sandboxes {
        let _ = verbs::stop_sandbox(client, &sandbox.id).await;
        let _ = verbs::remove_sandbox(client, &sandbox.id).await;
    }
}

fn sandbox_config() -> cri::PodSandboxConfig {
    let parent = std::env::var("CGROUP_ROOT").unwrap_or_default();
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: "smoke".into(),
            uid: UID.into(),
            namespace: "default".into(),
            attempt: 0,
        }),
        hostname: "smoke".into(),
        labels: labels(&[]),
        linux: Some(cri::LinuxPodSandboxConfig { cgroup_parent: parent, ..Default::default() }),
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
    let owner = [("io.kubernetes.pod.name", "smoke"), ("io.kubernetes.pod.namespace", "default"), ("io.kubernetes.pod.uid", UID)];
    owner.iter().chain(more).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
