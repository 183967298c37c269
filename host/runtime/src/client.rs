//! The connection to a runtime: one typed method for each call, with its deadline.
//!
//! The connection is made when the first call needs it and again after it broke; a call never waits for a runtime that is
//! not there, it fails with [`Kind::Unavailable`](crate::Kind::Unavailable).

mod images;
mod runtime;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use polylet_core::time::LONGEST;
use polylet_proto::cri::image_service_client::ImageServiceClient;
use polylet_proto::cri::runtime_service_client::RuntimeServiceClient;
use tokio::net::UnixStream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use crate::endpoint::Endpoint;
use crate::error::{CallError, Kind};
use crate::operation::Operation;

/// The largest answer that is read, in bytes.
pub const MESSAGE_LIMIT: usize = 16 << 20;

/// Upstream's default of `runtimeRequestTimeout`.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Where the runtime listens and how it is spoken to.
#[derive(Clone)]
pub struct Config {
    /// `containerRuntimeEndpoint`.
    pub runtime: Endpoint,
    /// `imageServiceEndpoint`; None: the runtime's.
    pub images: Option<Endpoint>,
    /// `runtimeRequestTimeout`: the base of all deadlines, see [`Operation::deadline`].
    pub request_timeout: Duration,
    /// Told of every call.
    pub observer: Arc<dyn Observer>,
}

impl Config {
    /// The defaults, for one endpoint.
    pub fn new(runtime: Endpoint) -> Self {
        Self { runtime, images: None, request_timeout: REQUEST_TIMEOUT, observer: Arc::new(()) }
    }
}

/// Told of every call when it ends: what `kubelet_runtime_operations_*` are made of.
pub trait Observer: Send + Sync {
    /// `operation` took `duration`; of a stream, this is its opening.
    fn called(&self, operation: Operation, duration: Duration, outcome: Result<(), Kind>);
}

impl Observer for () {
    fn called(&self, _: Operation, _: Duration, _: Result<(), Kind>) {}
}

/// A connection to a runtime. Clones share it.
#[derive(Clone)]
pub struct Client {
    endpoint: Endpoint,
    channel: Channel,
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
    request_timeout: Duration,
    observer: Arc<dyn Observer>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.endpoint).finish()
    }
}

impl Client {
    /// A client that will connect when it is used. Must be called within a Tokio runtime.
    pub fn new(config: Config) -> Self {
        let channel = connect_lazily(&config.runtime);
        let image_channel = config.images.as_ref().map_or_else(|| channel.clone(), connect_lazily);
        Self {
            endpoint: config.runtime,
            runtime: RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(MESSAGE_LIMIT),
            images: ImageServiceClient::new(image_channel).max_decoding_message_size(MESSAGE_LIMIT),
            channel,
            request_timeout: config.request_timeout,
            observer: config.observer,
        }
    }

    /// The runtime's endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The connection to the runtime itself, for the services beside the CRI that some runtimes offer on the same socket.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    async fn runtime_call<Q, A>(
        &self,
        operation: Operation,
        object: &str,
        request: Q,
        call: impl AsyncFnOnce(RuntimeServiceClient<Channel>, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, CallError> {
        self.call(operation, object, operation.deadline(self.request_timeout), request, self.runtime.clone(), call).await
    }

    async fn image_call<Q, A>(
        &self,
        operation: Operation,
        object: &str,
        request: Q,
        call: impl AsyncFnOnce(ImageServiceClient<Channel>, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, CallError> {
        self.call(operation, object, operation.deadline(self.request_timeout), request, self.images.clone(), call).await
    }

    async fn call<C, Q, A>(
        &self,
        operation: Operation,
        object: &str,
        deadline: Option<Duration>,
        message: Q,
        client: C,
        call: impl AsyncFnOnce(C, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, CallError> {
        let mut request = Request::new(message);
        let begun = Instant::now();
        let result = match deadline {
            None => call(client, request).await.map_err(|status| CallError::answered(operation, object, status)),
            Some(deadline) => {
                let deadline = deadline.min(LONGEST);
                // The runtime is told, too, so that it does not work on for nobody.
                request.set_timeout(deadline);
                match tokio::time::timeout(deadline, call(client, request)).await {
                    Ok(result) => result.map_err(|status| CallError::answered(operation, object, status)),
                    Err(_) => Err(CallError::no_answer_within(operation, object, deadline)),
                }
            }
        };
        self.observer.called(operation, begun.elapsed(), result.as_ref().map(drop).map_err(|error| error.kind));
        result.map(Response::into_inner)
    }
}

/// An answer that comes in several messages.
#[derive(Debug)]
pub struct Messages<A> {
    operation: Operation,
    stream: Streaming<A>,
}

impl<A> Messages<A> {
    pub(crate) fn new(operation: Operation, stream: Streaming<A>) -> Self {
        Self { operation, stream }
    }

    /// The next message; None when the peer has ended the stream. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<A>, CallError> {
        self.stream.message().await.map_err(|status| CallError::answered(self.operation, "", status))
    }
}

fn connect_lazily(endpoint: &Endpoint) -> Channel {
    let path = Arc::<std::path::Path>::from(endpoint.path());
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(&path).await.map(TokioIo::new) }
    });
    // The authority is what Go's servers expect of a Unix socket. The windows let a long list through in few round trips.
    tonic::transport::Endpoint::from_static("http://localhost")
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .connect_with_connector_lazy(connector)
}
