//! Connections, whatever they came over: HTTP/1.1, as many requests as the client has.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// What a listener bears.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections at once; who comes later waits.
    pub(crate) connections: usize,
    /// A connection on which nothing is asked for so long is closed: whoever holds all places without asking holds them no longer.
    pub(crate) patience: Duration,
    /// A connection is closed when it is this old: whoever asks and takes no answer holds its place no longer.
    pub(crate) life: Duration,
}

/// Where anybody may connect.
pub(crate) const ANYBODY: Limits = Limits { connections: 256, patience: Duration::from_secs(10), life: Duration::from_secs(60) };

/// Bytes of a request before its body, and of what is read ahead or not yet taken.
const HEAD_MAX: usize = 64 << 10;

/// Serves whoever connects, until told to stop. `name` is the listener's, for the log.
pub(crate) async fn listen(listener: TcpListener, app: Router, limits: Limits, stop: CancellationToken, name: &'static str) {
    let places = Arc::new(Semaphore::new(limits.connections));
    loop {
        // It is never closed.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(listener = name, %error, "a connection is not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (app, stop) = (app.clone(), stop.clone());
        tokio::spawn(async move {
            let served = serve(stream, app, limits.patience, stop, name);
            if tokio::time::timeout(limits.life, served).await.is_err() {
                tracing::debug!(listener = name, "a connection is closed: it is too old");
            }
            drop(place);
        });
    }
}

/// Answers until the client is done, keeps its first request or its next one back for `patience`, or `stop` comes. A client that goes
/// away in the middle harms only itself: that is logged with `name`, the listener's, for whoever looks closely.
///
/// HTTP/2 is not spoken: a server that speaks both first waits, without limit, for enough bytes to tell which it is.
pub(crate) async fn serve<S>(stream: S, app: Router, patience: Duration, stop: CancellationToken, name: &'static str)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(patience).max_buf_size(HEAD_MAX);
    let connection = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app)).with_upgrades();
    tokio::select! {
        served = connection => {
            if let Err(error) = served {
                tracing::debug!(listener = name, %error, "a connection ended early");
            }
        }
        () = stop.cancelled() => {}
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpStream, UnixStream};

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(400);
    /// Far more, for a busy machine; still less than for ever.
    const AMPLE: Duration = Duration::from_secs(20);
    /// What a client may say without ever asking for anything.
    const UNASKED: [&str; 5] = ["", "P", "G", "GET / HT", "GET / HTTP/1.1\r\nHost: n\r\nX"];
    /// How HTTP/2 begins, but for its end.
    const OF_HTTP2: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n";

    fn app() -> Router {
        Router::new().fallback(|| async { "here" })
    }

    /// What comes until the other side closes.
    async fn rest(mut stream: impl AsyncRead + Unpin) -> std::io::Result<String> {
        let mut text = String::new();
        let read = tokio::time::timeout(AMPLE, stream.read_to_string(&mut text)).await;
        read.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())).map(|_| text)
    }

    async fn ask(address: SocketAddr) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n").await?;
        rest(stream).await
    }

    #[tokio::test]
    async fn who_does_not_ask_is_not_waited_for() {
        for said in UNASKED.into_iter().chain([OF_HTTP2]) {
            let (mut client, server) = UnixStream::pair().expect("a pair");
            client.write_all(said.as_bytes()).await.expect("written");
            let served = tokio::spawn(serve(server, app(), PATIENCE, CancellationToken::new(), "test"));
            let answer = rest(&mut client).await.unwrap_or_else(|error| panic!("{said:?}: {error}"));
            assert!(!answer.contains("here"), "{said:?}: {answer}");
            served.await.expect("no panic");
        }
    }

    #[tokio::test]
    async fn a_connection_that_asked_once_is_not_kept_for_ever_either() {
        let (mut client, server) = UnixStream::pair().expect("a pair");
        tokio::spawn(serve(server, app(), PATIENCE, CancellationToken::new(), "test"));
        client.write_all(b"GET / HTTP/1.1\r\nHost: n\r\n\r\n").await.expect("written");
        let answer = rest(&mut client).await.expect("it is closed");
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("here"), "{answer}");
    }

    #[tokio::test]
    async fn the_silent_cannot_hold_all_places() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let stop = CancellationToken::new();
        // Of which it is not even known which HTTP they speak.
        let held = ["", "P"];
        let limits = Limits { connections: held.len(), patience: PATIENCE, life: AMPLE };
        let served = tokio::spawn(listen(listener, app(), limits, stop.clone(), "test"));
        let mut silent = Vec::new();
        for said in held {
            let mut stream = TcpStream::connect(address).await.expect("connected");
            stream.write_all(said.as_bytes()).await.expect("written");
            silent.push(stream);
        }
        let answer = ask(address).await.expect("an answer");
        assert!(answer.ends_with("here"), "{answer}");
        stop.cancel();
        served.await.expect("no panic");
    }

    #[tokio::test]
    async fn who_takes_no_answer_does_not_keep_others_from_theirs() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let stop = CancellationToken::new();
        let limits = Limits { connections: 1, patience: AMPLE, life: PATIENCE };
        // Far more than sockets hold.
        let app = Router::new().fallback(|| async { "here".repeat(16 << 20) });
        let served = tokio::spawn(listen(listener, app, limits, stop.clone(), "test"));
        let mut deaf = TcpStream::connect(address).await.expect("connected");
        deaf.write_all(b"GET / HTTP/1.1\r\nHost: n\r\n\r\n").await.expect("written");
        let mut other = TcpStream::connect(address).await.expect("connected");
        other.write_all(b"GET / HTTP/1.1\r\nHost: n\r\n\r\n").await.expect("written");
        let mut first = [0; 15];
        tokio::time::timeout(AMPLE, other.read_exact(&mut first)).await.expect("in time").expect("an answer");
        assert_eq!(&first, b"HTTP/1.1 200 OK");
        stop.cancel();
        served.await.expect("no panic");
    }
}
