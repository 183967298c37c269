//! The administration socket: HTTP/1.1 and JSON over a Unix socket that only root can open. What a container prints comes as it is;
//! a command in one has the connection for itself ([`exec`](crate::exec)).

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path as UrlPath, Query as UrlQuery, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use polylet_core::question::Hook;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use crate::connection;
use crate::exec::{self, Session};

/// A client must have sent its request by then.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);
/// Trailer of a log that could not be read to its end: the last line of the body says why.
pub(crate) const CUT_SHORT: HeaderName = HeaderName::from_static("polylet-cut-short");
/// Decisions shown where nothing is said.
const LIMIT: usize = 100;

/// A boxed future.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What the socket asks the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// Versions.
    Version,
    /// The node.
    Node,
    /// Every pod.
    Pods,
    /// One pod, as it was declared and as it is, with its events.
    Pod {
        /// `metadata.namespace`
        namespace: String,
        /// `metadata.name`, with or without the node's name behind it; or its UID.
        name: String,
    },
    /// Events, the newest last: of every object, or of one pod.
    Events(Option<(String, String)>),
    /// Every declared pod as a `v1.PodList`.
    PodList,
    /// Ladders.
    Policies,
    /// Read the policy directory now; answered with what is wrong in it.
    Reload {
        /// The hook whose binding is waited for while it is compiled; None: those of all.
        hook: Option<Hook>,
    },
}

/// Which decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionQuery {
    /// The newest so many.
    pub limit: usize,
    /// Of one hook.
    pub hook: Option<Hook>,
    /// Go on with those to come.
    pub follow: bool,
}

/// What of a container's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// `metadata.namespace`
    pub namespace: String,
    /// As in [`Query::Pod`].
    pub name: String,
    /// Which part.
    pub part: LogPart,
}

/// Which part of a container's log: upstream's options, under its names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LogPart {
    /// The container.
    pub container: String,
    /// Of the attempt before.
    pub previous: bool,
    /// Go on with what is to come, until the container ends.
    pub follow: bool,
    /// Put its time before each line.
    pub timestamps: bool,
    /// The last so many lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail_lines: Option<u64>,
    /// Of the last so many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_seconds: Option<u64>,
    /// Since this instant, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_time: Option<String>,
    /// At most so many bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
}

/// A command to run in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExecQuery {
    /// `metadata.namespace`
    pub namespace: String,
    /// As in [`Query::Pod`].
    pub name: String,
    /// The container.
    pub container: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// It has a standard input.
    pub stdin: bool,
    /// It has a terminal.
    pub tty: bool,
}

/// What a container printed, in pieces; an error is the last.
pub type Pieces = mpsc::Receiver<io::Result<Vec<u8>>>;

/// A question that is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AdminError {
    /// HTTP status.
    pub status: u16,
    /// Why, for people.
    pub message: String,
}

/// Who answers the socket.
pub trait Admin: Send + Sync + 'static {
    /// A value.
    fn get(&self, what: Query) -> BoxFuture<Result<Value, AdminError>>;

    /// Decision records as lines of JSON; the channel closes at the end.
    ///
    /// # Errors
    /// They cannot be read.
    fn decisions(&self, query: DecisionQuery) -> Result<mpsc::Receiver<String>, AdminError>;

    /// What a container printed; the channel closes at the end.
    fn log(&self, query: LogQuery) -> BoxFuture<Result<Pieces, AdminError>>;

    /// Runs a command in a container.
    fn exec(&self, query: ExecQuery) -> BoxFuture<Result<Session, AdminError>>;
}

/// The socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody answers there.
    #[error("another agent answers at {}", path.display())]
    Alive {
        /// The socket.
        path: PathBuf,
    },
    /// Something else stands there.
    #[error("{} is not a socket: move it away", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("{operation} {}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
}

/// Opens the socket, mode 0600. One left behind by an agent that died is replaced.
///
/// # Errors
/// [`BindError`].
pub fn bind_admin(path: &Path) -> Result<UnixListener, BindError> {
    let failed = |operation| move |cause| BindError::Io { operation, path: path.to_owned(), cause };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed("create the directory of"))?;
    }
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(BindError::NotASocket { path: path.to_owned() }),
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            return Err(BindError::Alive { path: path.to_owned() });
        }
        Ok(_) => fs::remove_file(path).map_err(failed("remove the stale socket"))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed("look at")(error)),
    }
    let listener = UnixListener::bind(path).map_err(failed("listen at"))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed("change the mode of"))?;
    Ok(listener)
}

/// How often the socket is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Serves the socket until told to stop, and opens it again at `path` where somebody has removed it.
pub async fn serve_admin<A: Admin>(mut listener: UnixListener, path: PathBuf, admin: Arc<A>, stop: CancellationToken) {
    let admin: Arc<dyn Admin> = admin;
    let app = Router::new()
        .route("/v1/version", get(|State(a): State<Arc<dyn Admin>>| value(a, Query::Version)))
        .route("/v1/node", get(|State(a): State<Arc<dyn Admin>>| value(a, Query::Node)))
        .route("/v1/pods", get(|State(a): State<Arc<dyn Admin>>| value(a, Query::Pods)))
        .route("/v1/pods/{namespace}/{name}", get(pod))
        .route("/v1/pods/{namespace}/{name}/log", get(log))
        .route("/v1/pods/{namespace}/{name}/events", get(pod_events))
        .route("/v1/events", get(|State(a): State<Arc<dyn Admin>>| value(a, Query::Events(None))))
        .route("/v1/exec", post(run))
        .route("/v1/policies", get(|State(a): State<Arc<dyn Admin>>| value(a, Query::Policies)))
        .route("/v1/policies/reload", post(reload))
        .route("/v1/decisions", get(decisions))
        .fallback(|| async {
            refuse(404, "no such path; see /v1/pods, /v1/events, /v1/node, /v1/policies, /v1/decisions, /v1/version")
        })
        .with_state(admin);
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => return,
            _ = look.tick() => {
                if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                    match bind_admin(&path) {
                        Ok(new) => {
                            tracing::warn!(socket = %path.display(), "the administration socket had been removed; it is there again");
                            listener = new;
                        }
                        Err(error) => tracing::warn!(socket = %path.display(), %error, "the administration socket is gone"),
                    }
                }
                continue;
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "administration socket");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let app =
            if may_ask(&stream) { app.clone() } else { Router::new().fallback(|| async { refuse(403, "only root may ask") }) };
        tokio::spawn(connection::serve(stream, app, HEADERS_WITHIN, stop.clone(), "administration socket"));
    }
}

fn may_ask(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == 0 || peer.uid() == rustix::process::geteuid().as_raw())
}

async fn value(admin: Arc<dyn Admin>, what: Query) -> Response {
    match admin.get(what).await {
        Ok(value) => Json(value).into_response(),
        Err(error) => refuse(error.status, &error.message),
    }
}

async fn pod(State(admin): State<Arc<dyn Admin>>, UrlPath((namespace, name)): UrlPath<(String, String)>) -> Response {
    value(admin, Query::Pod { namespace, name }).await
}

async fn pod_events(State(admin): State<Arc<dyn Admin>>, UrlPath((namespace, name)): UrlPath<(String, String)>) -> Response {
    value(admin, Query::Events(Some((namespace, name)))).await
}

async fn log(
    State(admin): State<Arc<dyn Admin>>,
    UrlPath((namespace, name)): UrlPath<(String, String)>,
    part: Result<UrlQuery<LogPart>, QueryRejection>,
) -> Response {
    let part = match part {
        Ok(UrlQuery(part)) => part,
        Err(error) => return refuse(400, &error.body_text()),
    };
    match admin.log(LogQuery { namespace, name, part }).await {
        Ok(pieces) => {
            let kind = HeaderValue::from_static("application/octet-stream");
            let headers = [(header::CONTENT_TYPE, kind), (header::TRAILER, HeaderValue::from(CUT_SHORT))];
            (headers, log_body(pieces)).into_response()
        }
        Err(error) => refuse(error.status, &error.message),
    }
}

/// What was printed, and a line of its own that says why there is no more of it.
fn log_body(pieces: Pieces) -> Body {
    let cut_short = Arc::new(AtomicBool::new(false));
    let (fails, mut line_is_open) = (cut_short.clone(), false);
    let bytes = ReceiverStream::new(pieces).map(move |piece| {
        let bytes = piece.unwrap_or_else(|error| {
            fails.store(true, Ordering::Relaxed);
            format!("{}{error}\n", if line_is_open { "\n" } else { "" }).into_bytes()
        });
        line_is_open = bytes.last().map_or(line_is_open, |last| *last != b'\n');
        Ok::<_, std::convert::Infallible>(bytes)
    });
    let trailers = async move {
        let trailer = || HeaderMap::from_iter([(CUT_SHORT, HeaderValue::from_static("true"))]);
        cut_short.load(Ordering::Relaxed).then(|| Ok(trailer()))
    };
    Body::new(Body::from_stream(bytes).with_trailers(trailers))
}

/// What is to be run comes once the connection has changed hands, and so does what is wrong with it.
async fn run(State(admin): State<Arc<dyn Admin>>, mut request: Request) -> Response {
    if request.headers().get(header::UPGRADE).is_none_or(|to| to != exec::PROTOCOL) {
        return refuse(426, &format!("a command is run with `Upgrade: {}`", exec::PROTOCOL));
    }
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        match upgrade.await {
            Ok(stream) => exec::answer(TokioIo::new(stream), admin).await,
            Err(error) => tracing::debug!(%error, "administration socket"),
        }
    });
    let headers = [(header::CONNECTION, "upgrade"), (header::UPGRADE, exec::PROTOCOL)];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReloadParams {
    hook: Option<Hook>,
}

async fn reload(
    State(admin): State<Arc<dyn Admin>>,
    params: Result<UrlQuery<ReloadParams>, axum::extract::rejection::QueryRejection>,
) -> Response {
    match params {
        Ok(UrlQuery(ReloadParams { hook })) => value(admin, Query::Reload { hook }).await,
        Err(error) => refuse(400, &error.body_text()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionParams {
    limit: Option<usize>,
    hook: Option<Hook>,
    follow: Option<bool>,
}

async fn decisions(State(admin): State<Arc<dyn Admin>>, params: Result<UrlQuery<DecisionParams>, QueryRejection>) -> Response {
    let params = match params {
        Ok(UrlQuery(params)) => params,
        Err(error) => return refuse(400, &error.body_text()),
    };
    let query = DecisionQuery { limit: params.limit.unwrap_or(LIMIT), hook: params.hook, follow: params.follow.unwrap_or(false) };
    match admin.decisions(query) {
        Ok(lines) => {
            let lines = ReceiverStream::new(lines).map(|line| Ok::<_, std::convert::Infallible>(line + "\n"));
            ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
        }
        Err(error) => refuse(error.status, &error.message),
    }
}

fn refuse(status: u16, message: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Json(json!({ "error": message }))).into_response()
}

#[cfg(test)]
mod tests;
