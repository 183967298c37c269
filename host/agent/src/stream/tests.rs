//! Which attempt's log is shown, and following one.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::*;

fn choice(container: &Value, previous: bool) -> Result<String, String> {
    let status: v1::PodStatus = serde_json::from_value(json!({"containerStatuses": [container]})).unwrap();
    choose(Some(&status), "web-n1", "a", previous)
}

fn container(state: &Value, last: &Value) -> Value {
    json!({
        "name": "a", "containerID": "containerd://now", "image": "i", "imageID": "", "ready": false, "restartCount": 1,
        "state": state, "lastState": last,
    })
}

#[test]
fn which_attempt_is_shown() {
    let ended = |id: &str| json!({"terminated": {"exitCode": 1, "containerID": id}});
    let waits = |reason: &str| json!({"waiting": {"reason": reason}});
    let (running, none) = (json!({"running": {}}), json!({}));
    let who = "container \"a\" in pod \"web-n1\"";
    let check = |state: &Value, last: &Value, previous: bool, expected: Result<&str, String>| {
        assert_eq!(choice(&container(state, last), previous), expected.map(str::to_owned), "{state} {last} {previous}");
    };
    check(&running, &none, false, Ok("containerd://now"));
    check(&running, &ended("containerd://old"), false, Ok("containerd://now"));
    check(&running, &ended("containerd://old"), true, Ok("containerd://old"));
    check(&running, &none, true, Err(format!("previous terminated {who} not found")));
    check(&running, &ended(""), true, Err(format!("previous terminated {who} not found")));
    check(&ended("containerd://now"), &ended("containerd://old"), false, Ok("containerd://now"));
    check(&ended(""), &ended("containerd://old"), false, Ok("containerd://old"));
    check(&ended(""), &none, false, Err(format!("{who} is terminated")));
    check(&waits("CrashLoopBackOff"), &ended("containerd://old"), false, Ok("containerd://old"));
    check(&waits("ErrImagePull"), &none, false, Err(format!("{who} is waiting to start: image can't be pulled")));
    check(&waits("ImagePullBackOff"), &none, false, Err(format!("{who} is waiting to start: trying and failing to pull image")));
    check(&waits("ContainerCreating"), &none, false, Err(format!("{who} is waiting to start: ContainerCreating")));
    check(&none, &none, false, Err(format!("{who} is waiting to start - no logs yet")));
    assert_eq!(choose(None, "web-n1", "a", false), Err(format!("{who} is not available")));
    assert_eq!(choose(Some(&v1::PodStatus::default()), "web-n1", "a", true), Err(format!("{who} is not available")));
}

#[test]
fn options_have_upstreams_bounds() {
    let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let since = |part: LogPart| wanted(&part, now).map(|wanted| wanted.since.map(|since| since.to_string()));
    assert_eq!(since(LogPart::default()), Ok(None));
    assert_eq!(since(LogPart { since_seconds: Some(90), ..LogPart::default() }), Ok(Some("2026-03-01T11:58:30Z".into())));
    assert_eq!(since(LogPart { since_seconds: Some(u64::MAX), ..LogPart::default() }), Ok(Some(Timestamp::MIN.to_string())));
    let time = |text: &str| LogPart { since_time: Some(text.into()), ..LogPart::default() };
    assert_eq!(since(time("2026-03-01T12:00:00+02:00")), Ok(Some("2026-03-01T10:00:00Z".into())));
    for (part, expected) in [
        (time("yesterday"), "sinceTime: Invalid value: \"yesterday\": must be a time such as "),
        (LogPart { since_seconds: Some(1), ..time("2026-03-01T12:00:00Z") }, "at most one of `sinceTime` or `sinceSeconds`"),
        (LogPart { since_seconds: Some(0), ..LogPart::default() }, "sinceSeconds: Invalid value: 0"),
        (LogPart { limit_bytes: Some(0), ..LogPart::default() }, "limitBytes: Invalid value: 0"),
    ] {
        let error = wanted(&part, now).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn a_log_is_followed_until_its_container_has_ended_and_all_of_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("0.log");
    let line = |text: &str| format!("2026-03-01T12:00:00Z stdout F {text}\n");
    std::fs::write(&path, line("one")).unwrap();
    let (out, mut pieces) = mpsc::channel(QUEUE);
    let running = Arc::new(AtomicBool::new(true));
    let (still, log) = (running.clone(), path.clone());
    let follower = std::thread::spawn(move || {
        let mut reader = LogReader::open(&log, &Wanted { follow: true, ..Wanted::default() }).unwrap();
        let mut to = BufWriter::with_capacity(PIECE, Out(out));
        let inotify = watch(&log);
        assert!(inotify.is_some());
        follow(&mut reader, &mut to, || still.load(Ordering::SeqCst), inotify)
    });
    let mut next = || String::from_utf8(pieces.blocking_recv().unwrap().unwrap()).unwrap();
    assert_eq!(next(), "one\n");
    let began = Instant::now();
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(line("two").as_bytes()).unwrap();
    assert_eq!(next(), "two\n");
    assert!(began.elapsed() < Duration::from_secs(30));
    std::fs::rename(&path, dir.path().join("0.log.20260301-120000")).unwrap();
    std::fs::write(&path, line("three")).unwrap();
    assert_eq!(next(), "three\n");
    running.store(false, Ordering::SeqCst);
    follower.join().unwrap().unwrap();
    assert!(pieces.blocking_recv().is_none());
}

#[test]
fn following_ends_when_nobody_listens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("0.log");
    std::fs::write(&path, "").unwrap();
    let (out, pieces) = mpsc::channel(QUEUE);
    drop(pieces);
    let mut reader = LogReader::open(&path, &Wanted { follow: true, ..Wanted::default() }).unwrap();
    // Without a watch: it is looked at every second.
    follow(&mut reader, &mut BufWriter::new(Out(out)), || true, None).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_log_is_told_with_its_file_as_the_last_piece() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("0.log");
    std::fs::write(&path, "no-log-at-all\n").unwrap();
    let endpoint = format!("unix://{}", dir.path().join("nobody.sock").display()).parse().unwrap();
    let streams = Streams::new(Client::new(polylet_runtime::Config::new(endpoint)));
    let permit = streams.readers.clone().try_acquire_owned().unwrap();
    let mut pieces = streams.read(path.clone(), Wanted::default(), "id".into(), permit).await.unwrap();
    let told = pieces.recv().await.unwrap().unwrap_err().to_string();
    let expected = format!(
        "the log is not read on: unsupported log format in {}: the first line begins with \"no-log-at-all\"",
        path.display()
    );
    assert_eq!(told, expected);
    assert!(pieces.recv().await.is_none());
}
