use super::*;
use crate::client::{AdminClient, ClientError};

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
