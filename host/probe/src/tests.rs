//! Attempts against servers on loopback, most of them hostile.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use polylet_core::pod::Handler;
use polylet_core::question::probe::{Failure, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

mod grpc;
mod http;
mod tls;

/// Long enough for a busy machine, where the attempt should not time out.
const AMPLE: Duration = Duration::from_secs(20);
/// Where it should.
const SHORT: Duration = Duration::from_millis(300);

fn here() -> Vec<String> {
    vec!["127.0.0.1".to_owned()]
}

/// A server that treats each connection in this way; its port.
async fn serve<F>(treat: impl Fn(TcpStream) -> F + Send + 'static) -> u16
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(treat(stream));
        }
    });
    port
}

/// The head of a request.
async fn head(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// A server that answers every request with these bytes and closes; its port and the heads that it saw.
async fn answer(reply: impl Into<Vec<u8>>) -> (u16, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let (seen, reply) = (Arc::clone(&heads), Arc::new(reply.into()));
    let port = serve(move |mut stream| {
        let (seen, reply) = (Arc::clone(&seen), Arc::clone(&reply));
        async move {
            let head = head(&mut stream).await?;
            seen.lock().expect("lock").push(head);
            stream.write_all(&reply).await?;
            stream.shutdown().await
        }
    })
    .await;
    (port, heads)
}

/// A port that nothing listens on.
async fn closed_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("bind");
    listener.local_addr().expect("address").port()
}

fn http_get(port: u16, path: &str) -> Handler {
    Handler::HttpGet { host: None, port, path: path.to_owned(), tls: false, headers: Vec::new() }
}

fn failed(failure: Failure) -> Outcome {
    Outcome::Failed(failure)
}

#[tokio::test]
async fn tcp_opens_or_is_refused() {
    let port = serve(|stream| async move {
        drop(stream);
        Ok(())
    })
    .await;
    let attempt = probe(&Handler::TcpSocket { host: None, port }, &here(), AMPLE).await;
    assert_eq!((attempt.outcome, attempt.text.as_str()), (Outcome::TcpOpen, ""));
    let port = closed_port().await;
    let attempt = probe(&Handler::TcpSocket { host: Some("127.0.0.1".into()), port }, &[], AMPLE).await;
    let text = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!((attempt.outcome, attempt.text), (failed(Failure::Refused), text));
}

#[tokio::test]
async fn tcp_that_is_not_accepted_times_out() {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).expect("socket");
    rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("bind");
    rustix::net::listen(&socket, 0).expect("listen");
    let address = SocketAddr::try_from(rustix::net::getsockname(&socket).expect("address")).expect("an IP address");
    // Fill the queue, until the kernel answers no more.
    let mut held = Vec::new();
    while let Ok(connected) = tokio::time::timeout(SHORT, TcpStream::connect(address)).await {
        held.push(connected.expect("connect"));
        assert!(held.len() < 10, "the queue never fills");
    }
    let began = Instant::now();
    let attempt = probe(&Handler::TcpSocket { host: None, port: address.port() }, &here(), SHORT).await;
    assert_eq!((attempt.outcome, attempt.text), (failed(Failure::Timeout), format!("dial tcp {address}: i/o timeout")));
    assert!(attempt.latency >= SHORT && began.elapsed() < AMPLE);
}

#[tokio::test]
async fn what_cannot_be_attempted_is_our_own_failure() {
    let attempt = probe(&Handler::TcpSocket { host: None, port: 1 }, &[], AMPLE).await;
    assert_eq!((attempt.outcome, attempt.text.as_str()), (failed(Failure::Internal), "the pod has no IP address yet"));
    let attempt = probe(&Handler::Exec { command: vec!["true".into()] }, &here(), AMPLE).await;
    assert_eq!(attempt.outcome, failed(Failure::Internal));
}

#[tokio::test]
async fn names_that_do_not_exist() {
    let attempt = probe(&Handler::TcpSocket { host: Some("a..b".into()), port: 1 }, &here(), AMPLE).await;
    let text = "dial tcp: lookup a..b: no such host";
    assert_eq!((attempt.outcome, attempt.text.as_str()), (failed(Failure::NameResolution), text));
}

#[tokio::test]
async fn hooks_take_any_answer() {
    let (port, heads) = answer("HTTP/1.1 500 No\r\nContent-Length: 1000\r\n\r\ncut").await;
    let done = hook_http(&http_get(port, "/stop"), &here(), Some(AMPLE)).await;
    assert_eq!(done, Ok(HookDone { fallback: None }));
    assert!(heads.lock().expect("lock")[0].contains("User-Agent: kube-lifecycle/1.36\r\n"));

    let port = closed_port().await;
    let error = hook_http(&http_get(port, "/stop"), &here(), None).await.expect_err("refused");
    let text = format!("Get \"http://127.0.0.1:{port}/stop\": dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!((error.failure, error.text), (Failure::Refused, text));

    let port = serve(|stream| async move {
        tokio::time::sleep(AMPLE).await;
        drop(stream);
        Ok(())
    })
    .await;
    let error = hook_http(&http_get(port, "/"), &here(), Some(SHORT)).await.expect_err("the budget runs out");
    assert_eq!(error.failure, Failure::Timeout);
    let error = hook_http(&Handler::TcpSocket { host: None, port: 1 }, &here(), None).await.expect_err("not for hooks");
    assert_eq!(error.text, "invalid handler");
}

/// `terminationGracePeriodSeconds` and time-outs are valid up to the last number there is.
#[tokio::test]
async fn more_time_than_clocks_have() {
    let (port, _) = answer("HTTP/1.1 200 OK\r\n\r\n").await;
    for time in [Duration::MAX, Duration::from_secs(i64::MAX.unsigned_abs()), Duration::from_millis(u64::MAX)] {
        let done = hook_http(&http_get(port, "/stop"), &here(), Some(time)).await;
        assert_eq!(done, Ok(HookDone { fallback: None }), "{time:?}");
        let attempt = probe(&http_get(port, "/"), &here(), time).await;
        assert!(matches!(attempt.outcome, Outcome::Http { status: 200, .. }), "{time:?}: {attempt:?}");
        let attempt = probe(&Handler::TcpSocket { host: None, port }, &here(), time).await;
        assert_eq!(attempt.outcome, Outcome::TcpOpen, "{time:?}");
    }
}

#[tokio::test]
async fn hooks_fall_back_from_https_to_http_without_credentials() {
    // A server of plain HTTP that answers whatever comes, as Go's does a TLS handshake.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let port = serve(move |mut stream| {
        let record = Arc::clone(&record);
        async move {
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).await?;
            record.lock().expect("lock").push(String::from_utf8_lossy(&buffer[..read]).into_owned());
            stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTPS request to an HTTP server.\n").await?;
            stream.shutdown().await
        }
    })
    .await;
    let headers = vec![("Authorization".to_owned(), "secret".to_owned()), ("X-Other".to_owned(), "kept".to_owned())];
    let handler = Handler::HttpGet { host: None, port, path: "/stop".into(), tls: true, headers };
    let done = hook_http(&handler, &here(), Some(AMPLE)).await.expect("the second request");
    let event = format!("request to HTTPS lifecycle hook 127.0.0.1:{port} got HTTP response, retry with HTTP succeeded");
    assert_eq!(done.fallback, Some(event));
    let seen = seen.lock().expect("lock");
    assert!(seen[1].starts_with("GET /stop HTTP/1.1\r\n") && seen[1].contains("X-Other: kept"), "{seen:?}");
    assert!(!seen[1].to_lowercase().contains("authorization"), "{seen:?}");
}
