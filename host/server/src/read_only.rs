//! `readOnlyPort`: what upstream serves there without asking who it is, as far as this node has it: pods, health, metrics.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::admin::{Admin, Query};
use crate::connection::{self, ANYBODY};
use crate::health::{Pulse, checked, plain, rendered};
use crate::metrics::Metrics;

/// Paths that upstream has only where it asks who it is.
const DEBUG: &[&str] =
    &["/run/", "/exec/", "/attach/", "/portForward/", "/containerLogs/", "/runningpods/", "/debug/pprof/", "/logs/"];

/// Serves until told to stop.
pub async fn serve_read_only<A: Admin>(
    listener: TcpListener,
    admin: Arc<A>,
    metrics: Arc<Metrics>,
    pulse: Arc<Pulse>,
    stop: CancellationToken,
) {
    connection::listen(listener, app(admin, metrics, pulse), ANYBODY, stop, "readOnlyPort").await;
}

fn app<A: Admin>(admin: Arc<A>, metrics: Arc<Metrics>, pulse: Arc<Pulse>) -> Router {
    let ok = || async { plain(StatusCode::OK, "ok") };
    let health = move || {
        let pulse = pulse.clone();
        async move { checked(&pulse) }
    };
    Router::new()
        .route("/pods", get(move || pods(admin.clone())))
        .route("/healthz", any(health.clone()))
        .route("/healthz/ping", any(ok))
        .route("/healthz/log", any(ok))
        .route("/healthz/syncloop", any(health))
        .route("/metrics", any(move |headers| rendered(metrics.clone(), headers)))
        .fallback(nothing)
}

async fn pods<A: Admin>(admin: Arc<A>) -> Response {
    match admin.get(Query::PodList).await {
        Ok(list) => ([(header::CONTENT_TYPE, "application/json")], Json(list)).into_response(),
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, &error.message),
    }
}

async fn nothing(request: Request) -> Response {
    let path = request.uri().path();
    if DEBUG.iter().any(|prefix| path.starts_with(prefix)) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "Debug endpoints are disabled.");
    }
    plain(StatusCode::NOT_FOUND, "404: Page Not Found")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::admin::{AdminError, BoxFuture, DecisionQuery, ExecQuery, LogQuery, Pieces};
    use crate::exec::Session;

    struct Fake;

    fn no<T>() -> Result<T, AdminError> {
        Err(AdminError { status: 500, message: "not asked for".into() })
    }

    impl Admin for Fake {
        fn get(&self, what: Query) -> BoxFuture<Result<Value, AdminError>> {
            Box::pin(async move { if what == Query::PodList { Ok(json!({"kind": "PodList"})) } else { no() } })
        }

        fn decisions(&self, _: DecisionQuery) -> Result<tokio::sync::mpsc::Receiver<String>, AdminError> {
            no()
        }

        fn log(&self, _: LogQuery) -> BoxFuture<Result<Pieces, AdminError>> {
            Box::pin(async { no() })
        }

        fn exec(&self, _: ExecQuery) -> BoxFuture<Result<Session, AdminError>> {
            Box::pin(async { no() })
        }
    }

    /// The first line of an answer, its headers and its body.
    async fn ask(address: std::net::SocketAddr, method: &str, path: &str) -> (String, String, String) {
        ask_for(address, method, path, "").await
    }

    /// The same with more headers.
    async fn ask_for(address: std::net::SocketAddr, method: &str, path: &str, more: &str) -> (String, String, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: n\r\n{more}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let (first, headers) = head.split_once("\r\n").unwrap();
        (first.to_owned(), headers.to_owned(), body.to_owned())
    }

    #[tokio::test]
    async fn pods_health_and_metrics_are_served_and_nothing_else() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let pulse = Arc::new(Pulse::new(Duration::from_secs(60)));
        let served = tokio::spawn(serve_read_only(listener, Arc::new(Fake), Arc::new(Metrics::new("n1")), pulse, stop.clone()));
        let (first, headers, body) = ask(address, "GET", "/pods").await;
        assert_eq!((first.as_str(), body.as_str()), ("HTTP/1.1 200 OK", r#"{"kind":"PodList"}"#));
        assert!(headers.contains("content-type: application/json"), "{headers}");
        for (accept, kind, ends) in [
            ("", "text/plain; version=0.0.4; charset=utf-8", false),
            ("Accept: */*\r\n", "text/plain; version=0.0.4; charset=utf-8", false),
            (
                "Accept: text/plain;q=0.5\r\nAccept: application/openmetrics-text\r\n",
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                true,
            ),
        ] {
            let (_, headers, body) = ask_for(address, "GET", "/metrics", accept).await;
            assert!(headers.contains(&format!("content-type: {kind}\r\n")), "{accept}: {headers}");
            assert!(body.contains("kubelet_node_name{node=\"n1\"} 1") && body.contains("# EOF") == ends, "{accept}: {body}");
        }
        for (method, path, expected) in [
            ("GET", "/healthz", "200 OK"),
            ("POST", "/healthz", "200 OK"),
            ("GET", "/healthz/ping", "200 OK"),
            ("GET", "/healthz/log", "200 OK"),
            ("GET", "/healthz/syncloop", "200 OK"),
            ("GET", "/healthz/other", "404 Not Found"),
            ("POST", "/pods", "405 Method Not Allowed"),
            ("GET", "/", "404 Not Found"),
            ("GET", "/configz", "404 Not Found"),
            ("GET", "/v1/pods", "404 Not Found"),
            ("POST", "/run/default/web/c", "405 Method Not Allowed"),
            ("GET", "/exec/default/web/c", "405 Method Not Allowed"),
            ("GET", "/containerLogs/default/web/c", "405 Method Not Allowed"),
            ("GET", "/logs/", "405 Method Not Allowed"),
            ("GET", "/debug/pprof/profile", "405 Method Not Allowed"),
        ] {
            assert_eq!(ask(address, method, path).await.0, format!("HTTP/1.1 {expected}"), "{method} {path}");
        }
        stop.cancel();
        served.await.unwrap();
    }
}
