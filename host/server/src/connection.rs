//! One connection, whatever it came over: HTTP/1.1, as many requests as the client has.

use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// Answers until the client is done, keeps its next request back for `patience`, or `stop` comes. A client that goes away in the
/// middle harms only itself: that is logged with `name`, the listener's, for whoever looks closely.
pub(crate) async fn serve<S>(stream: S, app: Router, patience: Duration, stop: CancellationToken, name: &'static str)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut server = Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(patience);
    tokio::select! {
        served = server.serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(app)) => {
            if let Err(error) = served {
                tracing::debug!(listener = name, %error, "a connection ended early");
            }
        }
        () = stop.cancelled() => {}
    }
}
