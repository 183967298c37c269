//! Servers of the test in the network of the node or of a pod: what probes ask is then in the test's hands.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use polylet_proto::health::health_server::{Health as Checks, HealthServer};
use polylet_proto::health::{HealthCheckRequest, HealthCheckResponse};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::{Request, Response, Status};

use crate::node::{Node, locked};
use crate::pod::Pod;

/// A server that goes away when this is dropped.
#[derive(Debug)]
pub struct Listening(tokio::task::JoinHandle<()>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a gRPC health server answers of each service: 1 is SERVING, 2 NOT_SERVING. Others it does not know.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<BTreeMap<String, i32>>>);

impl Health {
    /// Answers so from now on; the empty name is the server as a whole.
    pub fn set(&self, service: &str, status: i32) {
        locked(&self.0).insert(service.to_owned(), status);
    }
}

#[tonic::async_trait]
impl Checks for Health {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let status = locked(&self.0).get(&request.into_inner().service).copied();
        let answer = status.map(|status| Response::new(HealthCheckResponse { status }));
        answer.ok_or_else(|| Status::not_found("unknown service"))
    }
}

/// What an HTTP server answers every request with, and what it was asked.
#[derive(Clone, Debug, Default)]
pub struct Document(Arc<Mutex<Page>>);

#[derive(Debug, Default)]
struct Page {
    status: u16,
    body: String,
    /// Paths that are answered with the way to another place.
    moved: BTreeMap<String, String>,
    requests: Vec<String>,
}

impl Document {
    /// Answers so from now on.
    pub fn set(&self, status: u16, body: &str) {
        let mut page = locked(&self.0);
        (page.status, page.body) = (status, body.to_owned());
    }

    /// Sends whoever asks for this path elsewhere, from now on.
    pub fn lead(&self, path: &str, to: &str) {
        locked(&self.0).moved.insert(path.to_owned(), to.to_owned());
    }

    /// The heads of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        locked(&self.0).requests.clone()
    }
}

impl Page {
    fn answer(&mut self, request: &str) -> String {
        self.requests.push(request.to_owned());
        let moved = request.split(' ').nth(1).and_then(|path| self.moved.get(path));
        let (status, way) = moved.map_or((self.status, String::new()), |to| (302, format!("location: {to}\r\n")));
        let body = &self.body;
        format!("HTTP/1.1 {status} Whatever\r\n{way}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
    }
}

/// The network of the node, or of a pod.
#[derive(Clone, Debug)]
pub struct Network {
    namespace: String,
    runtime: tokio::runtime::Handle,
}

impl Pod<'_> {
    /// The network of the pod's sandbox.
    pub fn network(&self) -> Network {
        let namespace = format!("/proc/{}/ns/net", self.sandbox().pid);
        Network { namespace, runtime: self.node.runtime.handle().clone() }
    }
}

impl Node {
    /// The node's own network.
    pub fn network(&self) -> Network {
        Network { namespace: self.env("NETNS").to_owned(), runtime: self.runtime.handle().clone() }
    }
}

impl Network {
    /// Takes connections at a port, and says nothing.
    pub fn listen(&self, port: u16) -> Listening {
        self.serve(port, |listener| async move {
            let mut taken = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                taken.push(stream);
            }
        })
    }

    /// Serves gRPC's health protocol at a port; no service is known until it is set.
    ///
    /// # Panics
    /// When the server fails.
    pub fn serve_health(&self, port: u16) -> (Health, Listening) {
        let health = Health::default();
        let service = HealthServer::new(health.clone());
        let listening = self.serve(port, |listener| async move {
            let incoming = tonic::transport::server::TcpIncoming::from(listener);
            tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming).await.expect("serve");
        });
        (health, listening)
    }

    /// Answers every request at a port with an HTTP status, and counts them.
    pub fn serve_http(&self, port: u16, status: u16) -> (Arc<AtomicU64>, Listening) {
        let asked = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&asked);
        let listening = self.serve(port, move |listener| async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let counter = Arc::clone(&counter);
                tokio::spawn(async move {
                    let mut request = [0; 2048];
                    if stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                        counter.fetch_add(1, Ordering::Relaxed);
                        let answer = format!("HTTP/1.1 {status} Whatever\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                        // The prober may have gone.
                        let _ = stream.write_all(answer.as_bytes()).await;
                    }
                });
            }
        });
        (asked, listening)
    }

    /// Answers every request at a port with a document, until it is set with an empty one of status 503.
    pub fn serve_document(&self, port: u16) -> (Document, Listening) {
        let document = Document::default();
        document.set(503, "");
        let served = document.clone();
        let listening = self.serve(port, move |listener| async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let document = served.clone();
                tokio::spawn(async move {
                    let mut request = [0; 2048];
                    let Ok(read @ 1..) = stream.read(&mut request).await else { return };
                    let answer = locked(&document.0).answer(&String::from_utf8_lossy(&request[..read]));
                    // Whoever asked may have gone.
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        (document, listening)
    }

    /// Asks for something at a port of this network's loopback; the first line of the answer, and its body.
    ///
    /// # Panics
    /// When nobody answers there.
    pub fn get(&self, port: u16, path: &str) -> (String, String) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
        let answer = within(self.namespace.clone(), move || {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody who listens");
            stream.write_all(request.as_bytes()).expect("ask");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            answer
        });
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
    }

    pub(crate) fn serve<F: Future<Output = ()> + Send + 'static>(
        &self,
        port: u16,
        server: impl FnOnce(tokio::net::TcpListener) -> F + Send + 'static,
    ) -> Listening {
        let listener = listen(self.namespace.clone(), SocketAddr::from(([0, 0, 0, 0], port)));
        let task = self.runtime.spawn(async move {
            server(tokio::net::TcpListener::from_std(listener).expect("a listener")).await;
        });
        Listening(task)
    }
}

fn listen(network: String, address: SocketAddr) -> TcpListener {
    within(network, move || {
        let listener = TcpListener::bind(address).unwrap_or_else(|error| panic!("listen at {address}: {error}"));
        listener.set_nonblocking(true).expect("set non-blocking");
        listener
    })
}

/// A socket belongs to the network that its thread was in when it was made.
fn within<T: Send + 'static>(network: String, work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = std::thread::spawn(move || {
        let namespace = File::open(&network).unwrap_or_else(|error| panic!("{network}: {error}"));
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("enter the network namespace");
        work()
    });
    done.join().expect("work that is done")
}
