//! `grpc.health.v1.Health/Check`, in plaintext.

use std::error::Error;
use std::time::Duration;

use ::http::header::{HeaderValue, USER_AGENT};
use ::http::{Request, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use polylet_core::question::probe::{Failure, Outcome};
use polylet_core::restart::go_duration;
use polylet_proto::health::HealthCheckRequest;
use polylet_proto::health::health_client::HealthClient;
use tokio::time::{Instant, timeout_at};
use tonic::body::Body;
use tonic::{Code, Status};

use crate::attempt;
use crate::http::Connection;
use crate::socket::{self, Socket};
use crate::target::join_host_port;
use crate::trouble::Trouble;

/// An answer has one number in it.
const MAX_MESSAGE: usize = 4 << 10;

/// Asks for one service's health; the empty name is the server as a whole.
pub(crate) async fn check(
    host: &str,
    port: u16,
    service: &str,
    timeout: Duration,
    deadline: Instant,
) -> Result<(Outcome, String), Trouble> {
    let address = join_host_port(host, port);
    let shown = go_duration(timeout);
    let socket = match timeout_at(deadline, socket::connect(host, port)).await {
        Ok(Ok(socket)) => socket,
        Ok(Err(trouble)) => return Err(trouble.within(&format!("error: failed to connect service at \"{address}\""))),
        Err(_) => {
            let text = format!("timeout: failed to connect service \"{address}\" within {shown}: context deadline exceeded");
            return Err(Trouble::new(Failure::Timeout, text));
        }
    };
    let late = || Trouble::new(Failure::Timeout, format!("timeout: health rpc did not complete within {shown}"));
    let answer = timeout_at(deadline, call(socket, &address, service, deadline)).await.map_err(|_| late())?;
    match answer {
        Ok(1) => Ok((Outcome::Grpc(1), String::new())),
        Ok(status) => Ok((Outcome::Grpc(status), format!("service unhealthy (responded with \"{}\")", name(status)))),
        Err(status) => match status.code() {
            Code::DeadlineExceeded => Err(late()),
            Code::Unimplemented => {
                let text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)";
                Err(Trouble::new(Failure::Protocol, format!("{text}: {}", status.message())))
            }
            // How the health protocol says that it does not know the service.
            Code::NotFound => Ok((Outcome::Grpc(SERVICE_UNKNOWN), rpc_failed(&status.code(), status.message()))),
            _ => Err(broken(&status)),
        },
    }
}

const SERVICE_UNKNOWN: u32 = 3;

async fn call(socket: Socket, address: &str, service: &str, deadline: Instant) -> Result<u32, Status> {
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let handshake = builder.handshake::<_, Body>(TokioIo::new(socket)).await;
    let (sender, connection) = handshake.map_err(|error| Status::from_error(error.into()))?;
    let _connection = Connection(tokio::spawn(async move { drop(connection.await) }));
    let origin = Uri::try_from(format!("http://{address}")).map_err(|error| Status::internal(error.to_string()))?;
    let transport = tower::service_fn(move |mut request: Request<Body>| {
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(attempt::USER_AGENT));
        let mut sender = sender.clone();
        async move { sender.send_request(request).await }
    });
    let mut client = HealthClient::with_origin(transport, origin).max_decoding_message_size(MAX_MESSAGE);
    let mut request = tonic::Request::new(HealthCheckRequest { service: service.to_owned() });
    request.set_timeout(deadline.saturating_duration_since(Instant::now()));
    let answer = client.check(request).await?.into_inner();
    // A number that this version has no name for is not SERVING, whatever it means.
    Ok(u32::try_from(answer.status).unwrap_or(0))
}

fn name(status: u32) -> String {
    match status {
        0 => "UNKNOWN".to_owned(),
        1 => "SERVING".to_owned(),
        2 => "NOT_SERVING".to_owned(),
        SERVICE_UNKNOWN => "SERVICE_UNKNOWN".to_owned(),
        other => other.to_string(),
    }
}

fn rpc_failed(code: &dyn std::fmt::Debug, message: &str) -> String {
    format!("error: health rpc probe failed: rpc error: code = {code:?} desc = {message}")
}

/// A status that the peer sent is its own; one that the transport made has the cause in it.
fn broken(status: &Status) -> Trouble {
    match status.source().map(Trouble::of_exchange) {
        Some(trouble) => Trouble { text: rpc_failed(&Code::Unavailable, &trouble.text), ..trouble },
        None => Trouble::new(Failure::Protocol, rpc_failed(&status.code(), status.message())),
    }
}
