//! A door to a runtime that tells nothing unasked: all calls pass but those that subscribe to events, which are not implemented here.

use std::path::{Path, PathBuf};

use http::{HeaderValue, Request, Response, header};
use http_body_util::{Either, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

/// The calls that are refused.
const REFUSED: &[&str] = &["/runtime.v1.RuntimeService/GetContainerEvents", "/containerd.services.events.v1.Events/Subscribe"];
/// gRPC's UNIMPLEMENTED.
const UNIMPLEMENTED: HeaderValue = HeaderValue::from_static("12");

/// Listens at `socket` and passes calls on to `runtime`, until it is aborted.
pub(crate) fn serve(socket: &Path, runtime: PathBuf) -> anyhow::Result<JoinHandle<()>> {
    let listener = UnixListener::bind(socket)?;
    Ok(tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let runtime = runtime.clone();
            tokio::spawn(async move {
                if let Err(error) = connection(client, &runtime).await {
                    eprintln!("bench: the deaf door: {error:#}");
                }
            });
        }
    }))
}

async fn connection(client: UnixStream, runtime: &Path) -> anyhow::Result<()> {
    let peer = TokioIo::new(UnixStream::connect(runtime).await?);
    let (send, drive) = hyper::client::conn::http2::handshake(TokioExecutor::new(), peer).await?;
    tokio::spawn(drive);
    let answer = service_fn(move |request| pass(send.clone(), request));
    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new()).http2_only();
    // How the agent goes is its own affair.
    let _ = server.serve_connection(TokioIo::new(client), answer).await;
    Ok(())
}

type Sender = hyper::client::conn::http2::SendRequest<Incoming>;
type Answer = Response<Either<Incoming, Empty<Bytes>>>;

async fn pass(mut send: Sender, request: Request<Incoming>) -> hyper::Result<Answer> {
    if REFUSED.contains(&request.uri().path()) {
        let mut refusal = Response::new(Either::Right(Empty::new()));
        let headers = refusal.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-status", UNIMPLEMENTED);
        return Ok(refusal);
    }
    Ok(send.send_request(request).await?.map(Either::Left))
}
