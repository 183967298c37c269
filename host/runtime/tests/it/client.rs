//! The client against a fake runtime: deadlines, refusals, answers that are too large, connections that break.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::fake::{Fake, Fault, Lab, Server, endpoint};
use polylet_proto::cri;
use polylet_runtime::{Client, Config, Kind, Observer, Operation};
use tonic::Status;

const SHORT: Duration = Duration::from_millis(150);

#[tokio::test]
async fn every_call_is_told_to_the_observer_under_its_name() {
    #[derive(Default)]
    struct Book(Mutex<Vec<(Operation, Result<(), Kind>)>>);
    impl Observer for Book {
        fn called(&self, operation: Operation, _: Duration, outcome: Result<(), Kind>) {
            self.0.lock().unwrap().push((operation, outcome));
        }
    }
    let book = Arc::new(Book::default());
    let lab = Lab::with(|config| config.observer = book.clone());

    call_everything(&lab.client).await;

    let book = book.0.lock().unwrap();
    assert_eq!(book.len(), 43);
    assert_eq!(book.iter().map(|(op, _)| *op).collect::<BTreeSet<_>>(), Operation::ALL.iter().copied().collect());
    // The fake has not heard of this one, and has of that one.
    assert!(book.contains(&(Operation::CheckpointPod, Err(Kind::Unimplemented))));
    assert!(book.contains(&(Operation::Version, Ok(()))));
}

#[tokio::test]
async fn a_call_that_hangs_ends_at_its_deadline() {
    let lab = Lab::with(|config| config.request_timeout = SHORT);
    for operation in Operation::ALL {
        lab.fake.fault(*operation, Fault::Hang);
    }
    let client = &lab.client;
    let second = Duration::from_secs(1);
    expect_deadline("Version", SHORT, client.version()).await;
    expect_deadline("RunPodSandbox takes twice that", SHORT * 2, client.run_pod_sandbox(Default::default(), "")).await;
    expect_deadline("StopContainer adds its grace", SHORT + second, client.stop_container("c", second)).await;
    expect_deadline("ExecSync adds its time-out", SHORT + second, client.exec_sync("c", vec![], second)).await;
    expect_none("ExecSync without a time-out", client.exec_sync("c", vec![], Duration::ZERO)).await;
    expect_none("PullImage", client.pull_image(Default::default(), None, None)).await;
    expect_none("GetContainerEvents", client.get_container_events()).await;

    // The runtime is told as well, so that it can stop working.
    let calls = lab.fake.world().calls.clone();
    let told = |op| calls.iter().find(|(operation, ..)| *operation == op).unwrap().2.clone();
    assert!(told(Operation::Version).is_some());
    assert_eq!(told(Operation::PullImage), None);
}

/// `terminationGracePeriodSeconds: 9223372036854775807` is valid.
#[tokio::test]
async fn any_number_of_seconds_is_a_deadline() {
    let lab = Lab::with(|config| config.request_timeout = Duration::MAX);
    lab.client.version().await.unwrap();
    for seconds in [i64::MAX.unsigned_abs(), u64::MAX] {
        let time = Duration::from_secs(seconds);
        let error = lab.client.stop_container("c", time).await.unwrap_err();
        assert_eq!(error.kind, Kind::NotFound, "{error}");
        lab.client.exec_sync("c", vec!["true".into()], time).await.unwrap();
    }
    let calls = lab.fake.world().calls.clone();
    assert_eq!(calls.len(), 5);
    assert!(calls.iter().all(|(.., told)| told.is_some()), "{calls:?}");
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let lab = Lab::new();
    let cases = [
        (Status::unimplemented("unknown method"), Kind::Unimplemented),
        (Status::unknown("method Version not implemented"), Kind::Unimplemented),
        (Status::not_found("gone"), Kind::NotFound),
        (Status::already_exists("there"), Kind::AlreadyExists),
        (Status::unavailable("starting up"), Kind::Unavailable),
        (Status::deadline_exceeded("exec timed out"), Kind::DeadlineExceeded),
        (Status::internal("boom"), Kind::Unknown),
        (Status::resource_exhausted("no more"), Kind::Unknown),
    ];
    for (status, kind) in cases {
        lab.fake.fault(Operation::RemoveContainer, Fault::Fail(status.clone()));
        let error = lab.client.remove_container("c7").await.unwrap_err();
        assert_eq!(error.kind, kind, "{status}");
        assert!(error.to_string().starts_with("RemoveContainer c7: "), "{error}");
        assert_eq!(error.rpc_text(), format!("rpc error: code = {:?} desc = {}", status.code(), status.message()));
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_says_so() {
    let lab = Lab::new();
    let long = "x".repeat(1 << 20);
    let list = (0..17).map(|n| (format!("c{n}"), container(&long)));
    lab.fake.world().containers.extend(list);

    let error = lab.client.list_containers(None).await.unwrap_err();
    assert_eq!(error.kind, Kind::TooLarge);
    assert!(error.message.contains("larger than 16 MiB"), "{error}");

    // Nothing else suffers, and what just fits arrives.
    lab.client.version().await.unwrap();
    lab.fake.world().containers.retain(|id, _| id.len() == 2);
    assert_eq!(lab.client.list_containers(None).await.unwrap().len(), 10);
}

#[tokio::test]
async fn a_runtime_that_is_not_there_fails_at_once_and_is_found_when_it_comes() {
    let mut lab = Lab::new();
    lab.stop();
    let error = lab.client.version().await.unwrap_err();
    assert_eq!(error.kind, Kind::Unavailable);
    // Said once, by the error or by what it comes from.
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    let said: Vec<String> = causes.map(ToString::to_string).collect();
    assert_eq!(said, ["Version: No such file or directory (os error 2)"]);
    lab.start();
    assert_eq!(lab.client.version().await.unwrap().runtime_name, "hollow");
}

#[tokio::test]
async fn a_runtime_that_dies_fails_its_calls_and_is_found_again() {
    let mut lab = Lab::new();
    lab.fake.fault(Operation::StartContainer, Fault::Hang);
    let hanging = tokio::spawn({
        let client = lab.client.clone();
        async move { client.start_container("c1").await }
    });
    while lab.fake.world().count(Operation::StartContainer) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    lab.stop();
    let error = tokio::time::timeout(Duration::from_secs(5), hanging).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind, Kind::Unavailable, "{error:?}");

    lab.start();
    // One call may find the old connection broken; the next one has a new connection.
    let first = lab.client.version().await;
    assert!(first.is_ok() || lab.client.version().await.is_ok());
}

#[tokio::test]
async fn garbage_instead_of_an_answer_is_an_error() {
    use tokio::io::AsyncWriteExt;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        while let Ok((mut peer, _)) = listener.accept().await {
            let _ = peer.write_all(b"SSH-2.0-OpenSSH_9.2\r\nnot what you want, and more of it\r\n").await;
        }
    });
    let client = Client::new(Config::new(endpoint(&socket)));
    let error = tokio::time::timeout(Duration::from_secs(5), client.version()).await.unwrap().unwrap_err();
    assert_eq!(error.kind, Kind::Unavailable, "{error:?}");
}

#[tokio::test]
async fn images_may_live_elsewhere() {
    let (folder, images) = (tempfile::tempdir().unwrap(), Fake::default());
    let socket = folder.path().join("images.sock");
    let _server = Server::start(&images, &socket);
    let lab = Lab::with(|config| config.images = Some(endpoint(&socket)));

    lab.client.version().await.unwrap();
    lab.client.image_status(cri::ImageSpec { image: "app".into(), ..Default::default() }, false).await.unwrap();

    assert_eq!(lab.fake.world().calls.len(), 1);
    assert_eq!(images.world().calls, [(Operation::ImageStatus, "app".into(), Some("120000m".into()))]);
}

fn container(label: &str) -> (cri::ContainerStatus, cri::ContainerConfig, String) {
    let status = cri::ContainerStatus { labels: [("l".to_owned(), label.to_owned())].into(), ..Default::default() };
    (status, Default::default(), "s".into())
}

async fn expect_deadline<A>(name: &str, deadline: Duration, call: impl Future<Output = Result<A, polylet_runtime::CallError>>) {
    let begun = Instant::now();
    let error = call.await.err().unwrap_or_else(|| panic!("{name}: did not fail"));
    let took = begun.elapsed();
    assert_eq!(error.kind, Kind::DeadlineExceeded, "{name}: {error}");
    assert!(took >= deadline && took < deadline + Duration::from_secs(3), "{name}: {took:?}, deadline {deadline:?}");
}

async fn expect_none<A>(name: &str, call: impl Future<Output = Result<A, polylet_runtime::CallError>>) {
    let ended = tokio::time::timeout(SHORT * 4, call).await;
    assert!(ended.is_err(), "{name}: ended");
}

async fn call_everything(c: &Client) {
    let zero = Duration::ZERO;
    let _ = c.version().await;
    let _ = c.status(true).await;
    let _ = c.runtime_config().await;
    let _ = c.update_runtime_config("10.0.0.0/24").await;
    let _ = c.run_pod_sandbox(Default::default(), "").await;
    let _ = c.stop_pod_sandbox("s").await;
    let _ = c.remove_pod_sandbox("s").await;
    let _ = c.pod_sandbox_status("s", false).await;
    let _ = c.list_pod_sandbox(None).await;
    let _ = c.stream_pod_sandboxes(None).await;
    let _ = c.update_pod_sandbox_resources("s", None, None).await;
    let _ = c.create_container("s", Default::default(), Default::default()).await;
    let _ = c.start_container("c").await;
    let _ = c.stop_container("c", zero).await;
    let _ = c.remove_container("c").await;
    let _ = c.container_status("c", false).await;
    let _ = c.list_containers(None).await;
    let _ = c.stream_containers(None).await;
    let _ = c.update_container_resources("c", Default::default()).await;
    let _ = c.reopen_container_log("c").await;
    let _ = c.exec_sync("c", vec![], zero).await;
    let _ = c.exec(Default::default()).await;
    let _ = c.attach(Default::default()).await;
    let _ = c.port_forward("s", vec![80]).await;
    let _ = c.checkpoint_container(Default::default()).await;
    let _ = c.checkpoint_pod(Default::default()).await;
    let _ = c.restore_pod(Default::default()).await;
    let _ = c.container_stats("c").await;
    let _ = c.list_container_stats(None).await;
    let _ = c.stream_container_stats(None).await;
    let _ = c.pod_sandbox_stats("s").await;
    let _ = c.list_pod_sandbox_stats(None).await;
    let _ = c.stream_pod_sandbox_stats(None).await;
    let _ = c.list_metric_descriptors().await;
    let _ = c.list_pod_sandbox_metrics().await;
    let _ = c.stream_pod_sandbox_metrics().await;
    let _ = c.get_container_events().await;
    let _ = c.list_images(None).await;
    let _ = c.stream_images(None).await;
    let _ = c.image_status(Default::default(), false).await;
    let _ = c.image_fs_info().await;
    let _ = c.pull_image(Default::default(), None, None).await;
    let _ = c.remove_image(Default::default()).await;
}
