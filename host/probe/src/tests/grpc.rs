//! gRPC probes.

use polylet_proto::health::health_server::{Health, HealthServer};
use polylet_proto::health::{HealthCheckRequest, HealthCheckResponse};
use tonic::{Request, Response, Status};

use super::*;

/// Answers by the service asked for.
#[derive(Default)]
struct Server {
    agents: Arc<Mutex<Vec<String>>>,
}

#[tonic::async_trait]
impl Health for Server {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let agent = request.metadata().get("user-agent").and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        self.agents.lock().expect("lock").push(agent.to_owned());
        let status = match request.get_ref().service.as_str() {
            "" | "up" => 1,
            "down" => 2,
            "odd" => 77,
            "slow" => {
                tokio::time::sleep(AMPLE).await;
                1
            }
            "broken" => return Err(Status::internal("disk on fire")),
            _ => return Err(Status::not_found("unknown service")),
        };
        Ok(Response::new(HealthCheckResponse { status }))
    }
}

async fn start(server: Option<Server>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let mut builder = tonic::transport::Server::builder();
    let router = builder.add_optional_service(server.map(HealthServer::new));
    tokio::spawn(router.serve_with_incoming(incoming));
    port
}

async fn ask(port: u16, service: &str, timeout: Duration) -> (Outcome, String) {
    let attempt = probe(&Handler::Grpc { port, service: service.to_owned() }, &here(), timeout).await;
    (attempt.outcome, attempt.text)
}

#[tokio::test]
async fn more_time_than_clocks_have() {
    let port = start(Some(Server::default())).await;
    for timeout in [Duration::MAX, Duration::from_secs(i64::MAX.unsigned_abs())] {
        assert_eq!(ask(port, "up", timeout).await, (Outcome::Grpc(1), String::new()), "{timeout:?}");
    }
}

#[tokio::test]
async fn statuses() {
    let server = Server::default();
    let agents = Arc::clone(&server.agents);
    let port = start(Some(server)).await;
    for (service, outcome, text) in [
        ("", Outcome::Grpc(1), ""),
        ("up", Outcome::Grpc(1), ""),
        ("down", Outcome::Grpc(2), "service unhealthy (responded with \"NOT_SERVING\")"),
        ("odd", Outcome::Grpc(77), "service unhealthy (responded with \"77\")"),
        ("nobody", Outcome::Grpc(3), "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"),
        ("broken", failed(Failure::Protocol), "error: health rpc probe failed: rpc error: code = Internal desc = disk on fire"),
    ] {
        assert_eq!(ask(port, service, AMPLE).await, (outcome, text.to_owned()), "{service}");
    }
    assert!(agents.lock().expect("lock").iter().all(|agent| agent.starts_with("kube-probe/1.36")));
    let late = "timeout: health rpc did not complete within 300ms";
    assert_eq!(ask(port, "slow", SHORT).await, (failed(Failure::Timeout), late.to_owned()));
}

#[tokio::test]
async fn servers_without_the_health_protocol() {
    let port = start(None).await;
    let (outcome, text) = ask(port, "", AMPLE).await;
    let start = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ";
    assert_eq!(outcome, failed(Failure::Protocol));
    assert!(text.starts_with(start), "{text}");
}

#[tokio::test]
async fn peers_that_do_not_speak_grpc() {
    let port = closed_port().await;
    let text = format!(
        "error: failed to connect service at \"127.0.0.1:{port}\": dial tcp 127.0.0.1:{port}: connect: connection refused"
    );
    assert_eq!(ask(port, "", AMPLE).await, (failed(Failure::Refused), text));

    let http1 = serve(|mut stream| async move {
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer).await?;
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await?;
        tokio::time::sleep(AMPLE).await;
        Ok(())
    })
    .await;
    let (outcome, text) = ask(http1, "", AMPLE).await;
    assert_eq!(outcome, failed(Failure::Protocol), "{text}");

    let closes = serve(|stream| async move {
        drop(stream);
        Ok(())
    })
    .await;
    let (outcome, text) = ask(closes, "", AMPLE).await;
    assert_eq!(outcome, failed(Failure::Reset), "{text}");

    let silent = serve(|stream| async move {
        tokio::time::sleep(AMPLE).await;
        drop(stream);
        Ok(())
    })
    .await;
    let late = "timeout: health rpc did not complete within 300ms";
    assert_eq!(ask(silent, "", SHORT).await, (failed(Failure::Timeout), late.to_owned()));
}
