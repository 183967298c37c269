use polylet_core::stream::{FromCommand, ToCommand};

use super::*;
use crate::client::{AdminClient, ClientError, escaped};

struct Fake;

impl Admin for Fake {
    fn get(&self, what: Query) -> BoxFuture<Result<Value, AdminError>> {
        Box::pin(async move {
            match what {
                Query::Pod { name, .. } if name != "web" => Err(AdminError { status: 404, message: format!("no pod {name}") }),
                other => Ok(json!({ "asked": format!("{other:?}") })),
            }
        })
    }

    fn decisions(&self, query: DecisionQuery) -> Result<mpsc::Receiver<String>, AdminError> {
        let (out, lines) = mpsc::channel(8);
        for n in 0..query.limit.min(3) {
            out.try_send(format!("{{\"n\":{n},\"hook\":{:?}}}", query.hook.map(Hook::as_str))).expect("room");
        }
        Ok(lines)
    }

    fn log(&self, query: LogQuery) -> BoxFuture<Result<Pieces, AdminError>> {
        Box::pin(async move {
            let (out, pieces) = mpsc::channel(8);
            if query.name != "web" {
                return Err(AdminError { status: 400, message: format!("container in pod {} is not available", query.name) });
            }
            out.try_send(Ok(format!("{:?}", query.part).into_bytes())).expect("room");
            out.try_send(Ok(vec![0xff, b'\n', 0])).expect("room");
            if query.part.container == "broken" {
                out.try_send(Err(io::Error::other("the disk is gone"))).expect("room");
            }
            Ok(pieces)
        })
    }

    /// Says what it was asked for, then every input back, and ends with the number of inputs.
    fn exec(&self, query: ExecQuery) -> BoxFuture<Result<Session, AdminError>> {
        Box::pin(async move {
            if query.name != "web" {
                return Err(AdminError { status: 404, message: format!("no pod {}", query.name) });
            }
            let (input, mut to) = mpsc::channel(8);
            let (from, output) = mpsc::channel(8);
            tokio::spawn(async move {
                let mut count = 0;
                from.send(FromCommand::Stderr(query.command.join(" ").into_bytes())).await?;
                while let Some(message) = to.recv().await {
                    count += 1;
                    match message {
                        ToCommand::Stdin(bytes) => from.send(FromCommand::Stdout(bytes)).await?,
                        ToCommand::Resize { width, height } => {
                            from.send(FromCommand::Stdout(format!("{width}x{height}").into_bytes())).await?;
                        }
                        ToCommand::StdinEnd => break,
                    }
                }
                from.send(FromCommand::Ended(Ok(count))).await
            });
            Ok(Session { input, output })
        })
    }
}

fn socket() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("admin.sock");
    (dir, path)
}

#[tokio::test]
async fn a_socket_that_was_removed_comes_back() {
    let (_dir, path) = socket();
    let listener = bind_admin(&path).expect("it opens");
    let stop = CancellationToken::new();
    tokio::spawn(serve_admin(listener, path.clone(), Arc::new(Fake), stop.clone()));
    fs::remove_file(&path).expect("remove the socket");
    let client = AdminClient::new(&path);
    let answer = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            match client.get("/v1/pods").await {
                Ok(answer) => return answer,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    });
    assert_eq!(answer.await.expect("in time"), json!({"asked": "Pods"}));
    stop.cancel();
}

#[tokio::test]
async fn values_errors_and_streams_arrive() {
    let (_dir, path) = socket();
    let listener = bind_admin(&path).expect("it opens");
    assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
    let stop = CancellationToken::new();
    tokio::spawn(serve_admin(listener, path.clone(), Arc::new(Fake), stop.clone()));
    let client = AdminClient::new(&path);
    assert_eq!(client.get("/v1/pods").await.expect("an answer"), json!({"asked": "Pods"}));
    for (path, asked) in [("", "Reload { hook: None }"), ("?hook=qos", "Reload { hook: Some(Qos) }")] {
        let answer = client.post(&format!("/v1/policies/reload{path}")).await.expect("an answer");
        assert_eq!(answer, json!({"asked": asked}));
    }
    let missing = client.get("/v1/pods/default/nope").await.expect_err("no such pod");
    assert!(matches!(&missing, ClientError::Refused { status: 404, message } if message == "no pod nope"), "{missing}");
    let bad = client.get("/v1/decisions?hook=nonsense").await.expect_err("no such hook");
    assert!(matches!(&bad, ClientError::Refused { status: 400, .. }), "{bad}");
    let mut lines = client.lines("/v1/decisions?limit=2&hook=probe").await.expect("a stream");
    let mut seen = Vec::new();
    while let Some(line) = lines.recv().await {
        seen.push(line.expect("a line"));
    }
    assert_eq!(seen, ["{\"n\":0,\"hook\":Some(\"probe\")}", "{\"n\":1,\"hook\":Some(\"probe\")}"]);
    stop.cancel();
}

#[tokio::test]
async fn a_stale_socket_is_replaced_a_live_one_refused() {
    let (_dir, path) = socket();
    let first = bind_admin(&path).expect("it opens");
    assert!(matches!(bind_admin(&path), Err(BindError::Alive { .. })));
    drop(first);
    bind_admin(&path).expect("a stale one is replaced");
    fs::remove_file(&path).expect("removed");
    fs::write(&path, "something").expect("written");
    assert!(matches!(bind_admin(&path), Err(BindError::NotASocket { .. })));
}

#[tokio::test]
async fn nobody_there_is_said_plainly() {
    let (_dir, path) = socket();
    let error = AdminClient::new(&path).get("/v1/pods").await.expect_err("nobody is there");
    assert_eq!(error.to_string(), format!("no agent answers at {}: is `polylet run` running?", path.display()));
}

/// A socket that the fake answers.
fn served() -> (tempfile::TempDir, AdminClient, CancellationToken) {
    let (dir, path) = socket();
    let listener = bind_admin(&path).expect("it opens");
    let stop = CancellationToken::new();
    tokio::spawn(serve_admin(listener, path.clone(), Arc::new(Fake), stop.clone()));
    (dir, AdminClient::new(&path), stop)
}

#[tokio::test]
async fn what_a_container_printed_comes_as_it_is() {
    let (_dir, client, stop) = served();
    let all = async |path: &str| {
        let mut pieces = client.pieces(path).await?;
        let mut all = Vec::new();
        while let Some(piece) = pieces.recv().await {
            all.extend(piece?);
        }
        Ok::<Vec<u8>, ClientError>(all)
    };
    let path = "/v1/pods/default/web/log?container=a&follow=true&tailLines=3&sinceTime=2026-03-01T12%3A00%3A00%2B02%3A00";
    let part = LogPart {
        container: "a".into(),
        follow: true,
        tail_lines: Some(3),
        since_time: Some("2026-03-01T12:00:00+02:00".into()),
        ..LogPart::default()
    };
    assert_eq!(all(path).await.expect("a log"), [format!("{part:?}").as_bytes(), &[0xff, b'\n', 0]].concat());
    // It is cut short, and the last line says why.
    let mut pieces = client.pieces("/v1/pods/default/web/log?container=broken").await.expect("a log");
    let mut said = Vec::new();
    let end = loop {
        match pieces.recv().await {
            Some(Ok(piece)) => said.extend(piece),
            other => break other,
        }
    };
    assert!(matches!(end, Some(Err(ClientError::CutShort))), "{end:?}");
    assert!(said.ends_with(b"\xff\n\0\nthe disk is gone\n"), "{said:?}");
    for (path, expected) in [
        ("/v1/pods/default/web/log?tail=3", "unknown field `tail`"),
        ("/v1/pods/default/web/log?tailLines=-3", "tailLines: invalid digit"),
        ("/v1/pods/default/other/log?container=a", "container in pod other is not available"),
    ] {
        let refused = all(path).await.expect_err("a bad request");
        let ClientError::Refused { status: 400, message } = &refused else { panic!("{path}: {refused}") };
        assert!(message.contains(expected), "{path}: {message}");
    }
    let odd = "a b/ü?&";
    let missing = client.get(&format!("/v1/pods/default/{}", escaped(odd))).await.expect_err("no such pod");
    assert_eq!(missing.to_string(), format!("no pod {odd}"));
    stop.cancel();
}

#[tokio::test]
async fn a_command_is_run_and_spoken_to() {
    let (_dir, client, stop) = served();
    let query = ExecQuery { name: "web".into(), command: vec!["cat".into(), "-".into()], ..ExecQuery::default() };
    let Session { input, mut output } = client.exec(&query).await.expect("it runs");
    let long = vec![b'x'; 3 << 20];
    let sent = long.clone();
    tokio::spawn(async move {
        input.send(ToCommand::Resize { width: 300, height: 2 }).await?;
        input.send(ToCommand::Stdin(sent)).await
    });
    let (mut out, mut err, mut ended) = (Vec::new(), Vec::new(), None);
    while let Some(message) = output.recv().await {
        match message {
            FromCommand::Stdout(bytes) => out.extend(bytes),
            FromCommand::Stderr(bytes) => err.extend(bytes),
            FromCommand::Ended(how) => ended = Some(how),
        }
    }
    assert_eq!(err, b"cat -");
    assert_eq!(out, [b"300x2".as_slice(), &long].concat());
    // A size, three frames of input, and its end with the sender.
    assert_eq!(ended, Some(Ok(5)));

    let nobody = ExecQuery { name: "other".into(), ..query.clone() };
    let mut refused = client.exec(&nobody).await.expect("an answer").output;
    assert_eq!(refused.recv().await, Some(FromCommand::Ended(Err("no pod other".into()))));
    let huge = ExecQuery { command: vec!["x".repeat(2 << 20)], ..query };
    assert!(client.exec(&huge).await.is_err());
    let plain = client.post("/v1/exec").await.expect_err("no upgrade");
    assert!(matches!(&plain, ClientError::Refused { status: 426, .. }), "{plain}");
    stop.cancel();
}
