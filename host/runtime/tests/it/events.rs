//! Hints and capabilities, from runtimes that have events of either kind or of none.

use std::time::Duration;

use crate::fake::{EventsBy, Lab, endpoint};
use polylet_core::event::{Hint, RuntimeState};
use polylet_proto::containerd::{Envelope, task};
use polylet_proto::cri;
use polylet_runtime::{Capabilities, CgroupDriver, Client, Config, Hints, Operation, Way, hints};
use prost::Message;

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn by_the_cri() {
    let lab = lab(EventsBy::Cri { silent: false });
    let mut hints = hints(lab.client.clone());
    assert_eq!(next(&mut hints).await, Hint::Everything);
    assert_eq!(*hints.way.borrow(), Way::Cri);

    tell_cri(&lab, "c1", Some("uid-1"));
    assert_eq!(next(&mut hints).await, Hint::Pod("uid-1".into()));
    tell_cri(&lab, "c2", None);
    assert_eq!(next(&mut hints).await, Hint::Id("c2".into()));
}

/// A runtime written in Go does not answer before it has something to say: that must not count as "not reached".
#[tokio::test]
async fn by_the_cri_of_a_runtime_that_is_silent() {
    let lab = lab(EventsBy::Cri { silent: true });
    let mut hints = hints(lab.client.clone());
    assert_eq!(next(&mut hints).await, Hint::Everything);
    assert_eq!(*hints.way.borrow(), Way::Cri);

    tell_cri(&lab, "c1", Some("uid-1"));
    assert_eq!(next(&mut hints).await, Hint::Pod("uid-1".into()), "the event that ended the silence is not lost");
}

#[tokio::test]
async fn by_containerd_where_the_cri_has_none() {
    let lab = lab(EventsBy::Containerd { silent: true });
    let mut hints = hints(lab.client.clone());
    assert_eq!(next(&mut hints).await, Hint::Everything);
    let Way::Containerd { because } = hints.way.borrow().clone() else { panic!("{:?}", hints.way.borrow()) };
    assert!(because.contains("GetContainerEvents: unknown method"), "{because}");
    let filter = r#"topic=="/tasks/delete",namespace=="k8s.io""#;
    assert!(lab.fake.world().filters.iter().any(|told| told == filter), "{:?}", lab.fake.world().filters);

    tell_containerd(&lab, "containerd.events.TaskDelete", &end_of("c1", "probe-1"));
    tell_containerd(&lab, "containerd.events.TaskDelete", &end_of("c1", "c1"));
    tell_containerd(&lab, "containerd.events.TaskOOM", &task::TaskOom { container_id: "c2".into() });
    // In any order: an end is looked into before it is passed on.
    let heard = [next(&mut hints).await, next(&mut hints).await];
    for id in ["c1", "c2"] {
        assert!(heard.contains(&Hint::Id(id.into())), "{heard:?}: the end of an exec is no hint");
    }
    assert_eq!(lab.fake.world().count(Operation::ListContainers), 1);
}

#[tokio::test]
async fn by_nobody() {
    let lab = lab(EventsBy::Nobody);
    let mut hints = hints(lab.client.clone());
    hints.way.wait_for(|way| *way != Way::Undecided).await.unwrap();
    let Way::None { because } = hints.way.borrow().clone() else { panic!("{:?}", hints.way.borrow()) };
    assert!(because.contains("GetContainerEvents") && because.contains("containerd's event service"), "{because}");

    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(lab.fake.world().count(Operation::GetContainerEvents), 1, "a refusal is not tried again at once");
}

#[tokio::test]
async fn a_runtime_that_comes_back_is_looked_at_anew() {
    let mut lab = lab(EventsBy::Containerd { silent: false });
    let mut hints = hints(lab.client.clone());
    assert_eq!(next(&mut hints).await, Hint::Everything);
    assert!(matches!(*hints.way.borrow(), Way::Containerd { .. }));

    lab.stop();
    lab.fake.world().events_by = EventsBy::Cri { silent: false };
    tokio::time::sleep(Duration::from_millis(300)).await;
    lab.start();
    assert_eq!(next(&mut hints).await, Hint::Everything);
    assert_eq!(*hints.way.borrow(), Way::Cri, "it was replaced by one that has events");
    tell_cri(&lab, "c1", Some("uid-1"));
    assert_eq!(next(&mut hints).await, Hint::Pod("uid-1".into()));
}

/// No hint comes for now; `why` not.
async fn nothing_yet(hints: &mut Hints, why: &str) {
    let early = tokio::time::timeout(Duration::from_millis(50), hints.hints.recv()).await;
    assert!(early.is_err(), "{why}: {early:?}");
}

/// containerd's CRI plugin shows an end a little later than its event: to look at once would be to look too early.
#[tokio::test]
async fn an_end_told_by_containerd_is_passed_on_when_the_list_shows_it() {
    let lab = lab(EventsBy::Containerd { silent: false });
    let state = cri::ContainerState::ContainerRunning.into();
    let running = cri::ContainerStatus { id: "c1".into(), state, ..Default::default() };
    lab.fake.world().containers.insert("c1".into(), (running, Default::default(), String::new()));
    let mut hints = hints(lab.client.clone());
    assert_eq!(next(&mut hints).await, Hint::Everything);

    tell_containerd(&lab, "containerd.events.TaskDelete", &end_of("c1", "c1"));
    nothing_yet(&mut hints, "the list still says that it runs").await;
    lab.fake.world().containers.get_mut("c1").unwrap().0.state = cri::ContainerState::ContainerExited.into();
    assert_eq!(next(&mut hints).await, Hint::Id("c1".into()));

    lab.fake.world().containers.get_mut("c1").unwrap().0.state = cri::ContainerState::ContainerRunning.into();
    tell_containerd(&lab, "containerd.events.TaskDelete", &end_of("c1", "c1"));
    let passed_on = tokio::time::timeout(Duration::from_secs(15) + SOON, hints.hints.recv()).await;
    assert_eq!(passed_on, Ok(Some(Hint::Id("c1".into()))), "one that never shows is passed on in the end");
}

/// The event service names both alike, and the errors of calls are counted: an operator who watches them must see none of ours.
#[tokio::test]
async fn the_end_of_a_sandbox_is_waited_for_too_and_asked_for_without_an_error() {
    let lab = lab(EventsBy::Containerd { silent: false });
    let status =
        cri::PodSandboxStatus { id: "s1".into(), state: cri::PodSandboxState::SandboxReady.into(), ..Default::default() };
    lab.fake.world().sandboxes.insert("s1".into(), (status, Default::default()));
    let mut hints = hints(lab.client.clone());
    assert_eq!(next(&mut hints).await, Hint::Everything);

    tell_containerd(&lab, "containerd.events.TaskDelete", &end_of("s1", "s1"));
    nothing_yet(&mut hints, "the list still says that it is ready").await;
    lab.fake.world().sandboxes.get_mut("s1").unwrap().0.state = cri::PodSandboxState::SandboxNotready.into();
    assert_eq!(next(&mut hints).await, Hint::Id("s1".into()));
    tell_containerd(&lab, "containerd.events.TaskDelete", &end_of("gone", "gone"));
    assert_eq!(next(&mut hints).await, Hint::Id("gone".into()));
    let world = lab.fake.world();
    assert_eq!((world.count(Operation::ContainerStatus), world.count(Operation::PodSandboxStatus)), (0, 0));
}

/// A peer that accepts and hangs up, again and again.
#[tokio::test]
async fn a_peer_that_hangs_up_is_not_stormed() {
    let folder = tempfile::tempdir().unwrap();
    let listener = tokio::net::UnixListener::bind(folder.path().join("s")).unwrap();
    let hints = hints(Client::new(Config::new(endpoint(&folder.path().join("s")))));
    let mut connections = 0;
    let count = async {
        while let Ok((peer, _)) = listener.accept().await {
            drop(peer);
            connections += 1;
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(1500), count).await;
    assert!((1..=8).contains(&connections), "{connections} connections in 1.5 s, with waits of 0.1, 0.2, 0.4, 0.8 s");
    assert_eq!(*hints.way.borrow(), Way::Undecided);
}

#[tokio::test]
async fn what_is_lost_while_nobody_takes_hints_becomes_one_hint_about_everything() {
    let lab = lab(EventsBy::Cri { silent: false });
    let mut hints = hints(lab.client.clone());
    assert_eq!(next(&mut hints).await, Hint::Everything);
    for n in 0..600 {
        tell_cri(&lab, "c", Some(&format!("uid-{n}")));
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut got = Vec::new();
    while let Ok(Some(hint)) = tokio::time::timeout(Duration::from_millis(300), hints.hints.recv()).await {
        got.push(hint);
    }
    assert!(got.contains(&Hint::Everything) && got.len() < 600, "{} hints", got.len());
}

#[tokio::test]
async fn whoever_drops_the_hints_ends_the_subscription() {
    let lab = lab(EventsBy::Cri { silent: false });
    let mut hints = hints(lab.client.clone());
    assert_eq!(next(&mut hints).await, Hint::Everything);
    drop(hints);
    for _ in 0..50 {
        tell_cri(&lab, "c", None);
        tokio::time::sleep(Duration::from_millis(20)).await;
        if lab.fake.world().cri_events.receiver_count() == 0 {
            return;
        }
    }
    panic!("the stream is still open");
}

#[tokio::test]
async fn capabilities_of_an_old_runtime_are_named_with_reasons() {
    let lab = lab(EventsBy::Containerd { silent: true });
    {
        let mut world = lab.fake.world();
        world.cgroup_driver = None;
        world.status.status =
            Some(conditions(&[("RuntimeReady", true, ""), ("NetworkReady", false, "cni plugin not initialized")]));
    }
    let mut hints = hints(lab.client.clone());
    let found = Capabilities::ask(&lab.client, &mut hints.way).await.unwrap();
    assert_eq!((found.runtime_name.as_str(), found.runtime_version.as_str()), ("hollow", "1.2.3"));
    assert_eq!(found.cgroup_driver, None);
    assert!(!found.handler("").user_namespaces);
    let network = "container runtime network not ready: NetworkReady=false reason:Why message:cni plugin not initialized";
    assert_eq!(found.state, RuntimeState::Up { runtime: Ok(()), network: Err(network.into()) });
    let whats: Vec<_> = found.degraded.iter().map(|degraded| degraded.what).collect();
    assert_eq!(whats, ["cgroup driver by runtime", "runtime handler features", "container events"]);
    assert!(found.degraded.iter().all(|degraded| !degraded.because.is_empty()), "{:?}", found.degraded);
}

#[tokio::test]
async fn capabilities_of_a_current_runtime() {
    let lab = lab(EventsBy::Cri { silent: true });
    {
        let mut world = lab.fake.world();
        world.cgroup_driver = Some(cri::CgroupDriver::Systemd);
        world.status.status = Some(conditions(&[("RuntimeReady", true, ""), ("NetworkReady", true, "")]));
        world.status.features = Some(cri::RuntimeFeatures { supplemental_groups_policy: true, ..Default::default() });
        let features = cri::RuntimeHandlerFeatures { recursive_read_only_mounts: true, user_namespaces: true };
        world.status.runtime_handlers = vec![cri::RuntimeHandler { name: "".into(), features: Some(features) }];
    }
    let mut hints = hints(lab.client.clone());
    let found = Capabilities::ask(&lab.client, &mut hints.way).await.unwrap();
    assert_eq!(found.cgroup_driver, Some(CgroupDriver::Systemd));
    assert!(found.handler("").user_namespaces && found.supplemental_groups_policy);
    assert_eq!(found.state, RuntimeState::Up { runtime: Ok(()), network: Ok(()) });
    assert_eq!((found.events, found.degraded), (Way::Cri, vec![]));
}

#[tokio::test]
async fn a_runtime_that_was_replaced_is_asked_anew() {
    let lab = lab(EventsBy::Cri { silent: true });
    let be = |lab: &Lab, version: &str| {
        let mut world = lab.fake.world();
        (world.version.runtime_name, world.version.runtime_version) = ("containerd".into(), version.into());
    };
    be(&lab, "1.7.24");
    let mut hints = hints(lab.client.clone());
    let old = Capabilities::ask(&lab.client, &mut hints.way).await.unwrap();
    let holds =
        async |found: &Capabilities| found.hold(&lab.client.version().await.unwrap(), &lab.client.status(false).await.unwrap());
    assert!(holds(&old).await);
    assert!(old.image_mounts.is_err() && old.image_parts.is_err());
    assert_eq!(old.degraded.iter().filter(|degraded| degraded.what.contains("images")).count(), 1, "{:?}", old.degraded);

    be(&lab, "2.1.9");
    assert!(!holds(&old).await, "of another version");
    let newer = Capabilities::ask(&lab.client, &mut hints.way).await.unwrap();
    assert!(newer.image_mounts.is_ok() && newer.image_parts.is_err() && holds(&newer).await);
    let what = "parts of images as volumes";
    assert!(newer.degraded.iter().any(|degraded| degraded.what == what), "{:?}", newer.degraded);

    // The same version on other legs: what a handler can do depends on the OCI runtime, too.
    let features = cri::RuntimeHandlerFeatures { recursive_read_only_mounts: true, user_namespaces: true };
    lab.fake.world().status.runtime_handlers = vec![cri::RuntimeHandler { name: "".into(), features: Some(features) }];
    assert!(!holds(&newer).await, "with other handlers");
    lab.fake.world().status.runtime_handlers = Vec::new();
    lab.fake.world().status.features = Some(cri::RuntimeFeatures { supplemental_groups_policy: true, ..Default::default() });
    assert!(!holds(&newer).await, "with other features");
}

fn lab(by: EventsBy) -> Lab {
    let lab = Lab::new();
    lab.fake.world().events_by = by;
    lab
}

async fn next(hints: &mut Hints) -> Hint {
    tokio::time::timeout(SOON, hints.hints.recv()).await.expect("a hint comes soon").expect("the subscription lives")
}

fn tell_cri(lab: &Lab, id: &str, uid: Option<&str>) {
    let metadata = uid.map(|uid| cri::PodSandboxMetadata { uid: uid.into(), ..Default::default() });
    let event = cri::ContainerEventResponse {
        container_id: id.into(),
        container_event_type: cri::ContainerEventType::ContainerStoppedEvent.into(),
        pod_sandbox_status: metadata.map(|m| cri::PodSandboxStatus { metadata: Some(m), ..Default::default() }),
        ..Default::default()
    };
    let _ = lab.fake.world().cri_events.send(event);
}

fn tell_containerd(lab: &Lab, type_url: &str, event: &impl Message) {
    let event = prost_types::Any { type_url: type_url.into(), value: event.encode_to_vec() };
    let _ = lab.fake.world().containerd_events.send(Envelope { event: Some(event), ..Default::default() });
}

fn end_of(container: &str, id: &str) -> task::TaskDelete {
    task::TaskDelete { container_id: container.into(), id: id.into(), ..Default::default() }
}

fn conditions(conditions: &[(&str, bool, &str)]) -> cri::RuntimeStatus {
    let condition = |(name, status, message): &(&str, bool, &str)| cri::RuntimeCondition {
        r#type: (*name).into(),
        status: *status,
        reason: "Why".into(),
        message: (*message).into(),
    };
    cri::RuntimeStatus { conditions: conditions.iter().map(condition).collect() }
}
