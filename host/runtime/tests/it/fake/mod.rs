//! A runtime without containers, on a Unix socket: it keeps the books that a real one keeps, and fails as told.

#![allow(dead_code)] // Each test uses a part of it.

mod images;
mod runtime;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use polylet_proto::containerd::events_server::{Events, EventsServer};
use polylet_proto::containerd::{Envelope, SubscribeRequest};
use polylet_proto::cri::*;
use polylet_runtime::{Client, Config, Endpoint, Operation};
use tokio::net::UnixListener;
use tokio::sync::broadcast;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

pub(crate) use image_service_server::ImageServiceServer;
pub(crate) use runtime_service_server::RuntimeServiceServer;

pub(crate) type Stream<A> = std::pin::Pin<Box<dyn tokio_stream::Stream<Item = Result<A, Status>> + Send>>;

/// What a call does instead of its work.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Never answers.
    Hang,
    /// Does its work, but never says so.
    DoAndHang,
    /// Fails.
    Fail(Status),
}

/// How events are served.
#[derive(Clone, Debug, Default)]
pub(crate) enum EventsBy {
    #[default]
    Nobody,
    /// `GetContainerEvents`. A runtime in Go is silent until it has a first event.
    Cri {
        silent: bool,
    },
    Containerd {
        silent: bool,
    },
}

/// The books.
pub(crate) struct World {
    pub(crate) version: VersionResponse,
    pub(crate) status: StatusResponse,
    pub(crate) cgroup_driver: Option<CgroupDriver>,
    pub(crate) sandboxes: BTreeMap<String, (PodSandboxStatus, PodSandboxConfig)>,
    pub(crate) containers: BTreeMap<String, (ContainerStatus, ContainerConfig, String)>,
    pub(crate) images: BTreeMap<String, Image>,
    /// By call; stays until taken out.
    pub(crate) faults: HashMap<Operation, Fault>,
    /// Each call with its object and its `grpc-timeout`.
    pub(crate) calls: Vec<(Operation, String, Option<String>)>,
    pub(crate) events_by: EventsBy,
    pub(crate) cri_events: broadcast::Sender<ContainerEventResponse>,
    pub(crate) containerd_events: broadcast::Sender<Envelope>,
    /// The filters of the last subscriber to containerd's events.
    pub(crate) filters: Vec<String>,
    next: u64,
}

impl World {
    pub(crate) fn count(&self, operation: Operation) -> usize {
        self.calls.iter().filter(|(op, ..)| *op == operation).count()
    }

    /// Ids and timestamps: grows.
    pub(crate) fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Shared by all services of one runtime.
#[derive(Clone)]
pub(crate) struct Fake(Arc<Mutex<World>>);

impl Default for Fake {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(World {
            version: VersionResponse {
                version: "0.1.0".into(),
                runtime_name: "hollow".into(),
                runtime_version: "1.2.3".into(),
                runtime_api_version: "v1".into(),
            },
            status: StatusResponse::default(),
            cgroup_driver: Some(CgroupDriver::Cgroupfs),
            sandboxes: BTreeMap::new(),
            containers: BTreeMap::new(),
            images: BTreeMap::new(),
            faults: HashMap::new(),
            calls: Vec::new(),
            events_by: EventsBy::default(),
            cri_events: broadcast::Sender::new(1024),
            containerd_events: broadcast::Sender::new(1024),
            filters: Vec::new(),
            next: 0,
        })))
    }
}

impl Fake {
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no test panicked while holding the world")
    }

    pub(crate) fn fault(&self, operation: Operation, fault: Fault) {
        self.world().faults.insert(operation, fault);
    }

    pub(crate) fn heal(&self) {
        self.world().faults.clear();
    }

    /// Books the call, then does `work` unless the call is to fail.
    async fn serve<Q, A>(
        &self,
        operation: Operation,
        request: Request<Q>,
        object: impl FnOnce(&Q) -> String,
        work: impl FnOnce(&mut World, Q) -> Result<A, Status>,
    ) -> Result<Response<A>, Status> {
        let deadline = request.metadata().get("grpc-timeout").and_then(|v| v.to_str().ok()).map(str::to_owned);
        let message = request.into_inner();
        let fault = {
            let mut world = self.world();
            world.calls.push((operation, object(&message), deadline));
            world.faults.get(&operation).cloned()
        };
        match fault {
            None => work(&mut self.world(), message).map(Response::new),
            Some(Fault::Fail(status)) => Err(status),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::DoAndHang) => {
                drop(work(&mut self.world(), message));
                std::future::pending().await
            }
        }
    }
}

#[tonic::async_trait]
impl Events for Fake {
    async fn subscribe(&self, request: Request<SubscribeRequest>) -> Result<Response<Stream<Envelope>>, Status> {
        let (by, events) = {
            let mut world = self.world();
            world.filters = request.into_inner().filters;
            (world.events_by.clone(), world.containerd_events.subscribe())
        };
        match by {
            EventsBy::Containerd { silent } => stream(events, silent).await,
            _ => Err(Status::unimplemented("unknown service containerd.services.events.v1.Events")),
        }
    }
}

/// What is broadcast, as an answer; `silent` until there is a first message.
async fn stream<A: Clone + Send + 'static>(
    mut events: broadcast::Receiver<A>,
    silent: bool,
) -> Result<Response<Stream<A>>, Status> {
    let first = match silent {
        true => Some(events.recv().await.map_err(|e| Status::internal(e.to_string()))?),
        false => None,
    };
    let (out, messages) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        let mut next = first;
        loop {
            if let Some(event) = next.take()
                && out.send(Ok(event)).await.is_err()
            {
                return;
            }
            match events.recv().await {
                Ok(event) => next = Some(event),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return,
            }
        }
    });
    Ok(Response::new(Box::pin(tokio_stream::wrappers::ReceiverStream::new(messages))))
}

/// The fake, listening. To drop it cuts every connection at once, as the death of a runtime does.
pub(crate) struct Server {
    socket: PathBuf,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Server {
    pub(crate) fn start(fake: &Fake, socket: &Path) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime starts");
        let _ = std::fs::remove_file(socket);
        let listener = {
            let _context = runtime.enter();
            UnixListener::bind(socket).expect("the socket can be made")
        };
        let fake = fake.clone();
        runtime.spawn(async move {
            let limit = usize::MAX;
            tonic::transport::Server::builder()
                .add_service(RuntimeServiceServer::new(fake.clone()).max_encoding_message_size(limit))
                .add_service(ImageServiceServer::new(fake.clone()))
                .add_service(EventsServer::new(fake))
                .serve_with_incoming(UnixListenerStream::new(listener))
                .await
        });
        Self { socket: socket.to_owned(), runtime: Some(runtime) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// A fake, its server, and a client of it.
pub(crate) struct Lab {
    pub(crate) fake: Fake,
    pub(crate) client: Client,
    pub(crate) server: Option<Server>,
    folder: tempfile::TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// `configure` has a say in the client's configuration.
    pub(crate) fn with(configure: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let mut config = Config::new(endpoint(&folder.path().join("runtime.sock")));
        configure(&mut config);
        let mut lab = Self { fake: Fake::default(), client: Client::new(config), server: None, folder };
        lab.start();
        lab
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("runtime.sock")
    }

    pub(crate) fn start(&mut self) {
        self.server = Some(Server::start(&self.fake, &self.socket()));
    }

    /// The runtime dies.
    pub(crate) fn stop(&mut self) {
        self.server = None;
    }
}

pub(crate) fn endpoint(socket: &Path) -> Endpoint {
    format!("unix://{}", socket.display()).parse().expect("an absolute path is an endpoint")
}
