//! One probe attempt.

use std::time::Duration;

use polylet_core::pod::Handler;
use polylet_core::question::probe::{Failure, Outcome};
use polylet_core::time::LONGEST;
use tokio::time::{Instant, timeout_at};

use crate::headers::Headers;
use crate::http::{self, Answer};
use crate::target::Target;
use crate::trouble::Trouble;
use crate::{grpc, socket};

/// Who probes, as every workload sees it.
pub(crate) const USER_AGENT: &str = "kube-probe/1.36";
/// As much of an answer is shown to policies.
const START: usize = 1 << 10;

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// What the workload did.
    pub outcome: Outcome,
    /// Upstream's text for a failure or warning, empty for a success.
    pub text: String,
    /// How long it took.
    pub latency: Duration,
}

/// Makes one attempt by HTTP, TCP or gRPC. It ends by `timeout`, whatever the workload does.
///
/// `ips` are the pod's, primary first; they stand in where the handler names no host. A command or a pause is not for this crate and
/// comes back as `Internal`.
pub async fn probe(handler: &Handler, ips: &[String], timeout: Duration) -> Attempt {
    let began = Instant::now();
    let deadline = end_of(began, timeout);
    let done = match handler {
        Handler::HttpGet { host, port, path, tls, headers } => match host_of(host, ips) {
            Ok(host) => by_http(&Target::new(*tls, host, *port, path), headers, deadline).await,
            Err(trouble) => Err(trouble),
        },
        Handler::TcpSocket { host, port } => match host_of(host, ips) {
            Ok(host) => by_tcp(host, *port, deadline).await,
            Err(trouble) => Err(trouble),
        },
        Handler::Grpc { port, service } => match host_of(&None, ips) {
            Ok(host) => grpc::check(host, *port, service, timeout, deadline).await,
            Err(trouble) => Err(trouble),
        },
        Handler::Exec { .. } | Handler::Sleep { .. } => {
            Err(Trouble::new(Failure::Internal, "missing probe handler: neither http, tcp nor grpc"))
        }
    };
    let (outcome, text) = done.unwrap_or_else(|trouble| (Outcome::Failed(trouble.failure), trouble.text));
    Attempt { outcome, text, latency: began.elapsed() }
}

/// The end of a time that begins at `began`; after a century at the latest.
pub(crate) fn end_of(began: Instant, time: Duration) -> Instant {
    began + time.min(LONGEST)
}

/// The handler's host, or else the pod's primary address.
pub(crate) fn host_of<'a>(host: &'a Option<String>, ips: &'a [String]) -> Result<&'a str, Trouble> {
    let host = host.as_ref().filter(|host| !host.is_empty()).or(ips.first());
    host.map(String::as_str).ok_or_else(|| Trouble::new(Failure::Internal, "the pod has no IP address yet"))
}

/// The first bytes of what a workload said, as text.
pub(crate) fn start_of(bytes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(START)]).into_owned();
    // What is no text may have grown in being replaced.
    let mut end = text.len().min(START);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

async fn by_http(target: &Target, headers: &[(String, String)], deadline: Instant) -> Result<(Outcome, String), Trouble> {
    let headers = Headers::new(headers, USER_AGENT).map_err(|trouble| trouble.within(&format!("Get \"{target}\"")))?;
    let exchange = http::get(target, &headers, Some(deadline)).await?;
    let Answer { status, retry_after, redirected_off_host, body } = exchange.read(Some(deadline)).await?;
    let text = match status {
        200..=299 => String::new(),
        300..=399 => format!("Probe terminated redirects, Response body: {}", String::from_utf8_lossy(&body)),
        status => format!("HTTP probe failed with statuscode: {status}"),
    };
    Ok((Outcome::Http { status, retry_after, redirected_off_host, body_start: start_of(&body) }, text))
}

async fn by_tcp(host: &str, port: u16, deadline: Instant) -> Result<(Outcome, String), Trouble> {
    match timeout_at(deadline, socket::connect(host, port)).await {
        Ok(connected) => connected.map(|_| (Outcome::TcpOpen, String::new())),
        Err(_) => Err(socket::dial_timeout(host, port)),
    }
}
