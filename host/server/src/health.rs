//! Health and metrics over plain HTTP, by default on loopback: what upstream serves at the same address.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::connection::{self, ANYBODY, Limits};
use crate::metrics::{Format, Metrics};

/// After a failure to listen.
const RETRY: Duration = Duration::from_secs(5);

/// The heartbeat of the agent's loop.
#[derive(Debug)]
pub struct Pulse {
    begun: Instant,
    last_ms: AtomicU64,
    max_age: Duration,
}

impl Pulse {
    /// A loop that counts as stalled when it has not beaten for `max_age`.
    pub fn new(max_age: Duration) -> Self {
        Self { begun: Instant::now(), last_ms: AtomicU64::new(0), max_age }
    }

    /// The loop has turned.
    pub fn beat(&self) {
        let ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(ms, Ordering::Relaxed);
    }

    /// How long ago the loop turned; Err when that is too long ago.
    fn check(&self) -> Result<(), String> {
        let age = self.begun.elapsed().saturating_sub(Duration::from_millis(self.last_ms.load(Ordering::Relaxed)));
        if age <= self.max_age { Ok(()) } else { Err(format!("the loop last turned {age:.1?} ago")) }
    }
}

/// Serves `/healthz` and `/metrics` until told to stop. A port that is taken is tried again every five seconds.
pub async fn serve_health(address: SocketAddr, metrics: Arc<Metrics>, pulse: Arc<Pulse>, stop: CancellationToken) {
    let ok = || async { plain(StatusCode::OK, "ok") };
    let app = Router::new()
        // A ping alone would call an agent healthy that does nothing any more.
        .route("/healthz", any(syncloop))
        .route("/healthz/ping", any(ok))
        .route("/healthz/syncloop", any(syncloop))
        .with_state(pulse)
        .route("/metrics", any(move |headers| rendered(metrics.clone(), headers)));
    serve(address, app, ANYBODY, stop).await;
}

async fn serve(address: SocketAddr, app: Router, limits: Limits, stop: CancellationToken) {
    loop {
        let failed = match TcpListener::bind(address).await {
            Ok(listener) => return connection::listen(listener, app, limits, stop, "health and metrics").await,
            Err(error) => error,
        };
        tracing::error!(%address, error = %failed, "health and metrics are not served: tried again in 5 s");
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn syncloop(State(pulse): State<Arc<Pulse>>) -> Response {
    checked(&pulse)
}

/// Whether the loop turns.
pub(crate) fn checked(pulse: &Pulse) -> Response {
    match pulse.check() {
        Ok(()) => plain(StatusCode::OK, "ok"),
        Err(why) => plain(StatusCode::INTERNAL_SERVER_ERROR, &why),
    }
}

/// Metrics in the format that whoever asks accepts.
pub(crate) async fn rendered(metrics: Arc<Metrics>, headers: HeaderMap) -> Response {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = Format::accepted(&accepts.collect::<Vec<_>>().join(","));
    ([(header::CONTENT_TYPE, format.content_type()), (header::VARY, "Accept")], metrics.render(format)).into_response()
}

pub(crate) fn plain(status: StatusCode, text: &str) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (status, headers, text.to_owned()).into_response()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn the_only_place_is_not_left_to_who_asks_nothing() {
        let free = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = free.local_addr().expect("its address");
        let limits = Limits { connections: 1, patience: Duration::from_millis(400), life: Duration::from_secs(60) };
        let (app, stop) = (Router::new().fallback(|| async { plain(StatusCode::OK, "ok") }), CancellationToken::new());
        drop(free);
        let served = tokio::spawn(serve(address, app, limits, stop.clone()));
        let answered = async {
            let connect = async || loop {
                match TcpStream::connect(address).await {
                    Ok(stream) => return stream,
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            };
            let _silent = connect().await;
            let mut stream = connect().await;
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.map(|_| answer)
        };
        let answer = tokio::time::timeout(Duration::from_secs(30), answered).await.expect("in time").expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok"), "{answer}");
        stop.cancel();
        served.await.expect("no panic");
    }

    #[test]
    fn a_loop_that_does_not_turn_is_noticed() {
        let pulse = Pulse::new(Duration::from_millis(20));
        assert_eq!(pulse.check(), Ok(()));
        std::thread::sleep(Duration::from_millis(40));
        assert!(pulse.check().is_err());
        pulse.beat();
        assert_eq!(pulse.check(), Ok(()));
    }
}
