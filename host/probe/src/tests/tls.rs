//! HTTPS probes: certificates are made on the spot, signed by nobody.

use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::TlsAcceptor;

use super::*;

fn acceptor(protocols: &[&[u8]]) -> TlsAcceptor {
    let key = rcgen::KeyPair::generate().expect("make a key");
    let certificate = rcgen::CertificateParams::new(["other.example".to_owned()]).expect("parameters").self_signed(&key);
    let certificate = certificate.expect("sign").der().clone();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let mut config = builder.with_no_client_auth().with_single_cert(vec![certificate], key).expect("configuration");
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

fn https(port: u16, host: Option<&str>) -> Handler {
    Handler::HttpGet { host: host.map(str::to_owned), port, path: "/h".into(), tls: true, headers: Vec::new() }
}

fn ok(body: &str) -> Outcome {
    Outcome::Http { status: 200, retry_after: None, redirected_off_host: false, body_start: body.into() }
}

#[tokio::test]
async fn any_certificate_will_do() {
    let acceptor = acceptor(&[]);
    let port = serve(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let mut stream = acceptor.accept(stream).await?;
            let mut text = Vec::new();
            while !text.ends_with(b"\r\n\r\n") {
                text.push(stream.read_u8().await?);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await?;
            stream.shutdown().await
        }
    })
    .await;
    for host in [None, Some("localhost")] {
        let attempt = probe(&https(port, host), &here(), AMPLE).await;
        assert_eq!(attempt.outcome, ok("ok"), "{host:?}: {}", attempt.text);
    }
}

#[tokio::test]
async fn http_2_is_spoken_where_it_is_offered() {
    let acceptor = acceptor(&[b"h2", b"http/1.1"]);
    let port = serve(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let stream = acceptor.accept(stream).await?;
            let service = hyper::service::service_fn(|request: ::http::Request<hyper::body::Incoming>| async move {
                let text = format!("{:?} {} {:?}", request.version(), request.uri(), request.headers().get("user-agent"));
                Ok::<_, std::convert::Infallible>(::http::Response::new(text))
            });
            let io = hyper_util::rt::TokioIo::new(stream);
            let connection = hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new());
            connection.serve_connection(io, service).await.map_err(std::io::Error::other)
        }
    })
    .await;
    let attempt = probe(&https(port, None), &here(), AMPLE).await;
    assert_eq!(
        attempt.outcome,
        ok(&format!("HTTP/2.0 https://127.0.0.1:{port}/h Some(\"kube-probe/1.36\")")),
        "{}",
        attempt.text
    );
}

#[tokio::test]
async fn peers_that_do_not_speak_tls() {
    let plain = serve(|mut stream| async move {
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer).await?;
        stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\nno TLS here\n").await?;
        stream.shutdown().await
    })
    .await;
    let attempt = probe(&https(plain, None), &here(), AMPLE).await;
    let text = format!("Get \"https://127.0.0.1:{plain}/h\": http: server gave HTTP response to HTTPS client");
    assert_eq!((attempt.outcome, attempt.text), (failed(Failure::Tls), text));

    let garbage = serve(|mut stream| async move {
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await?;
        tokio::time::sleep(AMPLE).await;
        Ok(())
    })
    .await;
    let attempt = probe(&https(garbage, None), &here(), AMPLE).await;
    assert_eq!(attempt.outcome, failed(Failure::Tls), "{}", attempt.text);

    let silent = serve(|stream| async move {
        tokio::time::sleep(AMPLE).await;
        drop(stream);
        Ok(())
    })
    .await;
    assert_eq!(probe(&https(silent, None), &here(), SHORT).await.outcome, failed(Failure::Timeout));
}
