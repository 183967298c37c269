//! Observation, and verbs that may be repeated, against the fake.

use std::sync::Arc;
use std::time::Duration;

use polylet_core::event::CallErrorKind;
use polylet_core::id::{PodUid, SandboxId};
use polylet_core::observed::{ContainerState, SandboxState};
use polylet_proto::cri;
use polylet_runtime::{Kind, Observer, Operation, list, observe, verbs};
use tonic::Status;

use crate::fake::{Fault, Lab};

const UID: &str = "uid-1";

#[tokio::test]
async fn a_sandbox_is_made_once() {
    let lab = short();
    let made = run(&lab, 0).await.unwrap();
    assert_eq!(run(&lab, 0).await.unwrap(), made, "the one that is there is found");
    assert_ne!(run(&lab, 1).await.unwrap(), made, "another attempt is another sandbox");
    assert_eq!(lab.fake.world().sandboxes.len(), 2);
}

#[tokio::test]
async fn a_sandbox_whose_making_was_not_answered_is_found() {
    let lab = short();
    lab.fake.fault(Operation::RunPodSandbox, Fault::DoAndHang);
    assert_eq!(run(&lab, 0).await.unwrap_err().kind, CallErrorKind::DeadlineExceeded);
    lab.fake.heal();
    let found = run(&lab, 0).await.unwrap();
    assert_eq!(lab.fake.world().sandboxes.keys().collect::<Vec<_>>(), [found.as_str()]);
}

#[tokio::test]
async fn a_sandbox_that_is_no_longer_ready_is_no_answer() {
    let lab = short();
    let made = run(&lab, 0).await.unwrap();
    verbs::stop_sandbox(&lab.client, &made).await.unwrap();
    assert_eq!(run(&lab, 0).await.unwrap_err().kind, CallErrorKind::AlreadyExists);
}

#[tokio::test]
async fn a_failing_sandbox_is_told_as_upstream_tells_it() {
    let lab = short();
    lab.fake.fault(Operation::RunPodSandbox, Fault::Fail(Status::unknown("failed to setup network")));
    assert_eq!(run(&lab, 0).await.unwrap_err().message, "rpc error: code = Unknown desc = failed to setup network");
}

#[tokio::test]
async fn a_container_is_made_once_and_a_created_twin_is_used() {
    let lab = short();
    let sandbox = run(&lab, 0).await.unwrap();
    lab.fake.fault(Operation::CreateContainer, Fault::DoAndHang);
    assert_eq!(create(&lab, &sandbox, 0).await.unwrap_err().kind, CallErrorKind::DeadlineExceeded);
    lab.fake.heal();
    let found = create(&lab, &sandbox, 0).await.unwrap();
    assert_eq!(create(&lab, &sandbox, 0).await.unwrap(), found);
    assert_eq!(lab.fake.world().containers.len(), 1);

    verbs::start_container(&lab.client, &found).await.unwrap();
    let again = create(&lab, &sandbox, 0).await.unwrap_err();
    assert_eq!(again.kind, CallErrorKind::AlreadyExists, "one that has run is not made anew");
    assert_ne!(create(&lab, &sandbox, 1).await.unwrap(), found);
}

#[tokio::test]
async fn a_twin_in_another_sandbox_is_of_no_use() {
    let lab = short();
    let old = run(&lab, 0).await.unwrap();
    create(&lab, &old, 0).await.unwrap();
    let new = run(&lab, 1).await.unwrap();
    assert_eq!(create(&lab, &new, 0).await.unwrap_err().kind, CallErrorKind::AlreadyExists);
}

#[tokio::test]
async fn the_attempt_of_a_sandbox_is_the_one_that_it_was_made_as() {
    let lab = short();
    for attempt in [0, 3] {
        let sandbox = run(&lab, attempt).await.unwrap();
        assert_eq!(verbs::sandbox_attempt(&lab.client, &sandbox).await.unwrap(), attempt);
    }
    assert_eq!(verbs::sandbox_attempt(&lab.client, &"none".into()).await.unwrap_err().kind, CallErrorKind::NotFound);
}

#[tokio::test]
async fn a_stop_signal_that_the_runtime_passes_over_is_noticed() {
    let lab = short();
    let sandbox = run(&lab, 0).await.unwrap();
    let id = create(&lab, &sandbox, 0).await.unwrap();
    let look = async |wanted: cri::Signal| verbs::stop_signal_not_taken(&lab.client, &id, wanted.into()).await;
    let answer = |signal: cri::Signal| lab.fake.world().containers.get_mut(id.as_str()).unwrap().0.set_stop_signal(signal);

    assert_eq!(look(cri::Signal::RuntimeDefault).await, None, "none was asked for");
    assert_eq!(lab.fake.world().count(Operation::ContainerStatus), 0, "nor was the runtime");
    let found = look(cri::Signal::Sigrtminplus3).await.unwrap();
    assert_eq!((found.wanted.as_str(), &found.instead), ("SIGRTMIN+3", &None));
    let text = "lifecycle.stopSignal: SIGRTMIN+3: the runtime does not take it, and will send the image's STOPSIGNAL, or SIGTERM where it \
                has none: use a runtime that knows the field, or an image whose STOPSIGNAL it is";
    assert_eq!(found.to_string(), text);
    answer(cri::Signal::Sigquit);
    assert_eq!(look(cri::Signal::Sigusr1).await.unwrap().instead.as_deref(), Some("SIGQUIT"));
    answer(cri::Signal::Sigusr1);
    assert_eq!(look(cri::Signal::Sigusr1).await, None, "it takes it");

    answer(cri::Signal::Sigquit);
    lab.fake.fault(Operation::ContainerStatus, Fault::Fail(Status::internal("boom")));
    assert_eq!(look(cri::Signal::Sigusr1).await, None, "not known is not known to be another");
}

#[tokio::test]
async fn what_is_gone_counts_as_stopped_and_removed() {
    let lab = short();
    let sandbox = run(&lab, 0).await.unwrap();
    let container = create(&lab, &sandbox, 0).await.unwrap();
    verbs::start_container(&lab.client, &container).await.unwrap();
    for _ in 0..2 {
        verbs::stop_container(&lab.client, &container, Duration::ZERO).await.unwrap();
    }
    for _ in 0..2 {
        verbs::remove_container(&lab.client, &container).await.unwrap();
    }
    verbs::stop_container(&lab.client, &container, Duration::ZERO).await.unwrap();
    for _ in 0..2 {
        verbs::stop_sandbox(&lab.client, &sandbox).await.unwrap();
    }
    for _ in 0..2 {
        verbs::remove_sandbox(&lab.client, &sandbox).await.unwrap();
    }
    verbs::stop_sandbox(&lab.client, &sandbox).await.unwrap();
    assert!(list(&lab.client).await.unwrap().pods.is_empty());
}

#[tokio::test]
async fn a_pod_is_listed_and_looked_at() {
    let lab = short();
    let old = run(&lab, 0).await.unwrap();
    verbs::stop_sandbox(&lab.client, &old).await.unwrap();
    let sandbox = run(&lab, 1).await.unwrap();
    let first = create(&lab, &sandbox, 0).await.unwrap();
    verbs::start_container(&lab.client, &first).await.unwrap();
    verbs::stop_container(&lab.client, &first, Duration::ZERO).await.unwrap();
    let second = create(&lab, &sandbox, 1).await.unwrap();
    verbs::start_container(&lab.client, &second).await.unwrap();
    strangers(&lab);

    let listing = list(&lab.client).await.unwrap();
    assert_eq!(listing.pods.len(), 1, "what carries no pod's labels is not ours");
    let summary = &listing.pods[UID];
    assert_eq!((summary.sandboxes[&old], summary.sandboxes[&sandbox]), (SandboxState::NotReady, SandboxState::Ready));
    assert_eq!((summary.containers[&first], summary.containers[&second]), (ContainerState::Exited, ContainerState::Running));

    let seen = observe(&lab.client, &PodUid::from(UID)).await.unwrap();
    assert_eq!(seen.summary(), *summary);
    assert_eq!((seen.name.as_str(), seen.namespace.as_str()), ("web", "shop"));
    assert_eq!(seen.sandbox().map(|s| (&s.id, s.attempt, s.has_network)), Some((&sandbox, 1, true)));
    assert_eq!(seen.sandbox().map(|s| s.ips.len()), Some(1));
    let attempts: Vec<_> = seen.of("app").map(|c| (c.attempt, c.state)).collect();
    assert_eq!(attempts, [(1, ContainerState::Running), (0, ContainerState::Exited)]);
    let ended = seen.of("app").last().unwrap();
    assert_eq!((ended.exit_code, ended.reason.as_str(), ended.hash.as_str()), (137, "Error", "8e45cbd0"));
    assert!(ended.created < ended.started.unwrap() && ended.started < ended.finished);
    assert_eq!(seen.newest("app").unwrap().finished, None);

    assert!(observe(&lab.client, &PodUid::from("unknown")).await.unwrap().is_empty());
}

/// Its start, or else its creation: instants that stay.
#[tokio::test]
async fn an_end_that_the_runtime_does_not_tell() {
    let lab = short();
    let sandbox = run(&lab, 0).await.unwrap();
    let id = create(&lab, &sandbox, 0).await.unwrap();
    verbs::start_container(&lab.client, &id).await.unwrap();
    let look = async || observe(&lab.client, &PodUid::from(UID)).await.unwrap().newest("app").unwrap().clone();
    assert_eq!(look().await.finished, None, "it runs");
    verbs::stop_container(&lab.client, &id, Duration::ZERO).await.unwrap();
    let change = |change: fn(&mut cri::ContainerStatus)| {
        change(&mut lab.fake.world().containers.get_mut(id.as_str()).unwrap().0);
    };
    let told = look().await;
    assert!(told.finished > told.started && told.started > Some(told.created), "{told:?}");
    change(|status| status.finished_at = 0);
    assert_eq!(look().await.finished, told.started);
    change(|status| status.started_at = 0);
    let seen = look().await;
    assert_eq!((seen.started, seen.finished), (None, Some(told.created)));
}

/// What cannot be seen must not look like what is not there.
#[tokio::test]
async fn a_status_that_cannot_be_had_is_not_an_absence() {
    let lab = short();
    let sandbox = run(&lab, 0).await.unwrap();
    create(&lab, &sandbox, 0).await.unwrap();
    let uid = PodUid::from(UID);

    lab.fake.fault(Operation::PodSandboxStatus, Fault::Fail(Status::internal("boom")));
    let seen = observe(&lab.client, &uid).await.unwrap();
    assert_eq!(seen.sandboxes.iter().map(|s| s.state).collect::<Vec<_>>(), [SandboxState::Unknown]);

    lab.fake.fault(Operation::ContainerStatus, Fault::Fail(Status::internal("boom")));
    assert!(observe(&lab.client, &uid).await.is_err());

    lab.fake.heal();
    for (operation, left) in [(Operation::PodSandboxStatus, (0, 1)), (Operation::ContainerStatus, (1, 0))] {
        lab.fake.fault(operation, Fault::Fail(Status::not_found("gone meanwhile")));
        let seen = observe(&lab.client, &uid).await.unwrap();
        assert_eq!((seen.sandboxes.len(), seen.containers.len()), left, "{operation}");
        lab.fake.heal();
    }

    lab.fake.fault(Operation::ListContainers, Fault::Hang);
    assert_eq!(list(&lab.client).await.unwrap_err().kind, CallErrorKind::DeadlineExceeded);
    assert_eq!(observe(&lab.client, &uid).await.unwrap_err().kind, CallErrorKind::DeadlineExceeded);
}

#[tokio::test]
async fn a_look_that_panics_is_an_error() {
    struct Panics;
    impl Observer for Panics {
        fn called(&self, operation: Operation, _: Duration, _: Result<(), Kind>) {
            assert_ne!(operation, Operation::ContainerStatus, "as the test wants it");
        }
    }
    let lab = Lab::with(|config| config.observer = Arc::new(Panics));
    let sandbox = run(&lab, 0).await.unwrap();
    create(&lab, &sandbox, 0).await.unwrap();
    let error = observe(&lab.client, &PodUid::from(UID)).await.unwrap_err();
    assert_eq!((error.kind, error.object.as_str()), (CallErrorKind::Other, UID));
    assert!(error.message.contains("as the test wants it"), "{error}");
}

#[tokio::test]
async fn images() {
    let lab = short();
    assert_eq!(verbs::inspect_image(&lab.client, "app:1").await.unwrap(), None);
    let pulled = verbs::pull_image(&lab.client, "app:1", Vec::new(), Some(sandbox_config(0))).await.unwrap();
    assert!(pulled.id.starts_with("sha256:") && pulled.reference.starts_with("app@sha256:"), "{pulled:?}");
    assert_eq!(verbs::inspect_image(&lab.client, "app:1").await.unwrap(), Some(pulled));

    for (text, kind) in [
        ("RegistryUnavailable: dial tcp: connection refused", CallErrorKind::RegistryUnavailable),
        ("SignatureValidationFailed: no signature", CallErrorKind::SignatureInvalid),
        ("failed to pull and unpack image: not found", CallErrorKind::Other),
    ] {
        lab.fake.fault(Operation::PullImage, Fault::Fail(Status::unknown(text)));
        let error = verbs::pull_image(&lab.client, "app:2", Vec::new(), Some(sandbox_config(0))).await.unwrap_err();
        assert_eq!(error.kind, kind, "{text}");
        assert_eq!(error.message, format!("rpc error: code = Unknown desc = {text}"));
    }

    lab.fake.heal();
    let of = |users: &[&str]| {
        users.iter().map(|user| cri::AuthConfig { username: (*user).to_owned(), ..Default::default() }).collect()
    };
    let pull = async |users: &[&str]| verbs::pull_image(&lab.client, "app:3", of(users), None).await;
    let one = |user: &str| format!("rpc error: code = Unauthenticated desc = {user} is refused");
    pull(&["nobody", "ann", "ben"]).await.unwrap();
    assert_eq!(pull(&["nobody"]).await.unwrap_err().message, one("nobody"));
    let error = pull(&["nobody", "nobody", "none"]).await.unwrap_err();
    assert_eq!(error.message, format!("[{}, {}]", one("nobody"), one("none")));
}

#[tokio::test]
async fn commands() {
    let lab = short();
    let exec = async |words: &[&str]| {
        let command = words.iter().map(|word| (*word).to_owned()).collect();
        verbs::exec(&lab.client, &"c1".into(), command, Duration::from_millis(100)).await
    };
    let ran = exec(&["true", "it"]).await.unwrap();
    assert_eq!((ran.exit_code, ran.output.as_str()), (Some(0), "true it"));
    assert_eq!(exec(&["false"]).await.unwrap().exit_code, Some(1));
    let long = "x".repeat(20_000);
    assert_eq!(exec(&[&long]).await.unwrap().output.len(), verbs::OUTPUT_MAX);

    lab.fake.fault(Operation::ExecSync, Fault::Hang);
    assert_eq!(exec(&["sleep"]).await.unwrap().exit_code, None, "it did not end in time");
    lab.fake.fault(Operation::ExecSync, Fault::Fail(Status::unknown("no such file")));
    assert_eq!(exec(&["none"]).await.unwrap_err().kind, CallErrorKind::Other);
}

/// A lab whose calls give up soon, yet not because the machine is busy.
fn short() -> Lab {
    Lab::with(|config| config.request_timeout = Duration::from_secs(1))
}

async fn run(lab: &Lab, attempt: u32) -> Result<SandboxId, polylet_core::event::CallError> {
    verbs::run_sandbox(&lab.client, sandbox_config(attempt), "").await
}

async fn create(
    lab: &Lab,
    sandbox: &SandboxId,
    attempt: u32,
) -> Result<polylet_core::id::ContainerId, polylet_core::event::CallError> {
    let config = cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: "app".into(), attempt }),
        labels: labels(&[("io.kubernetes.container.name", "app")]),
        annotations: labels(&[
            ("io.kubernetes.container.hash", "8e45cbd0"),
            ("io.kubernetes.container.restartCount", &attempt.to_string()),
        ]),
        ..Default::default()
    };
    verbs::create_container(&lab.client, &PodUid::from(UID), sandbox, config, sandbox_config(0)).await
}

fn sandbox_config(attempt: u32) -> cri::PodSandboxConfig {
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata { name: "web".into(), uid: UID.into(), namespace: "shop".into(), attempt }),
        labels: labels(&[]),
        ..Default::default()
    }
}

fn labels(more: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    let owner = [("io.kubernetes.pod.name", "web"), ("io.kubernetes.pod.namespace", "shop"), ("io.kubernetes.pod.uid", UID)];
    owner.iter().chain(more).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Made by somebody else, without a pod's labels.
fn strangers(lab: &Lab) {
    let mut world = lab.fake.world();
    world.sandboxes.insert("foreign".into(), Default::default());
    world.containers.insert("foreign".into(), Default::default());
}
