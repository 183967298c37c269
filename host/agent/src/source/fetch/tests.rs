//! Servers on loopback that answer one request each.

use std::sync::Mutex;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

/// Serves one connection, with TLS where there is a configuration for it; the port, and the request that came.
async fn serve(answer: Vec<u8>, tls: Option<Arc<rustls::ServerConfig>>) -> (u16, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(String::new()));
    let seen = asked.clone();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        match tls {
            None => speak(stream, &answer, &seen).await,
            // A client that does not trust us goes away.
            Some(config) => {
                if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                    speak(stream, &answer, &seen).await;
                }
            }
        }
    });
    (port, asked)
}

async fn speak(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &[u8], seen: &Mutex<String>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.unwrap());
    }
    *seen.lock().unwrap() = String::from_utf8(request).unwrap();
    // One that has read enough goes away.
    let _ = stream.write_all(answer).await;
    let _ = stream.shutdown().await;
}

fn url(port: u16) -> ManifestUrl {
    ManifestUrl::parse(&format!("http://127.0.0.1:{port}/pods?a=b")).unwrap()
}

fn headers(given: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
    let own = |(name, values): &(&str, &[&str])| ((*name).to_owned(), values.iter().map(|v| (*v).to_owned()).collect());
    given.iter().map(own).collect()
}

#[tokio::test]
async fn a_document_is_fetched_with_its_headers() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello".to_vec();
    let (port, asked) = serve(answer, None).await;
    let given = headers(&[("x-one", &["1", "2"]), ("Authorization", &["Bearer secret"]), ("user-agent", &["mine"])]);
    let url = url(port).with_headers(&given).unwrap();
    assert!(!format!("{url:?}").contains("secret") && !url.shown().contains("a=b"), "{url:?}");
    assert_eq!(Fetcher::new(url).fetch().await.unwrap(), b"hello");
    let asked = asked.lock().unwrap().clone();
    let (first, rest) = asked.split_once("\r\n").unwrap();
    assert_eq!(first, "GET /pods?a=b HTTP/1.1");
    let mut lines: Vec<&str> = rest.trim_end().split("\r\n").collect();
    lines.sort_unstable();
    let host = format!("Host: 127.0.0.1:{port}");
    let expected = ["Authorization: Bearer secret", "Connection: close", &host, "User-Agent: mine", "X-One: 1", "X-One: 2"];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn what_is_no_document_says_why() {
    for (answer, told) in [
        (b"HTTP/1.1 404 Not Found\r\n\r\nno".to_vec(), "the answer's status is 404, not 200"),
        (
            b"HTTP/1.1 302 Found\r\nlocation: /other\r\n\r\n".to_vec(),
            "the answer's status is 302, not 200; redirects are not followed",
        ),
        ([&b"HTTP/1.1 200 OK\r\n\r\n"[..], &vec![b' '; MAX_BYTES + 1]].concat(), "larger than 10 MiB"),
        (b"hello".to_vec(), "HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello".to_vec(), "HTTP"),
    ] {
        let (port, _) = serve(answer, None).await;
        assert_eq!(Fetcher::new(url(port)).fetch().await.unwrap_err().to_string(), told);
    }
    let (port, _) = serve([&b"HTTP/1.1 200 OK\r\n\r\n"[..], &vec![b' '; MAX_BYTES]].concat(), None).await;
    assert_eq!(Fetcher::new(url(port)).fetch().await.unwrap().len(), MAX_BYTES);
    // Nobody listens there.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    assert_eq!(Fetcher::new(url(free)).fetch().await.unwrap_err().to_string(), format!("connect to 127.0.0.1:{free}"));
}

#[tokio::test]
async fn only_whom_the_machine_trusts_is_listened_to() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let dir = tempfile::tempdir().unwrap();
    // As rcgen would write it, without its feature for that.
    let (trusted, absent) = (dir.path().join("trusted.pem"), dir.path().join("absent.pem"));
    std::fs::write(&trusted, pem(made.cert.der())).unwrap();
    let fetch = async |roots: &[&PathBuf]| {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec();
        let (port, _) = serve(answer, Some(config.clone())).await;
        let url = ManifestUrl::parse(&format!("https://127.0.0.1:{port}/")).unwrap();
        let roots = roots.iter().map(|path| (*path).clone()).collect();
        Fetcher { url, roots }.fetch().await.map_err(|error| crate::perform::chain(&error))
    };
    assert_eq!(fetch(&[&absent, &trusted]).await, Ok(b"ok".to_vec()));
    let told = fetch(&[&absent]).await.unwrap_err();
    assert!(told.starts_with("no certificates are trusted: none of ") && told.contains("absent.pem"), "{told}");
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&trusted, pem(other.cert.der())).unwrap();
    let told = fetch(&[&trusted]).await.unwrap_err();
    assert!(told.starts_with("TLS with 127.0.0.1: "), "{told}");
}

fn pem(der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in der.chunks(3) {
        let bits = three.iter().chain(&[0, 0]).take(3).fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= three.len() { char::from(digit) } else { '=' });
        }
    }
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

#[test]
fn urls_and_headers_are_checked() {
    for (text, told) in [
        ("ftp://host/x", "must begin with http:// or https://"),
        ("/pods.yaml", "must begin with http:// or https://"),
        ("http://user:word@host/", "must name a host, and no user before it: what authenticates stands in staticPodURLHeader"),
        ("http://a b/", "must be a URL such as http://10.0.0.1:8080/pods.yaml: invalid uri character"),
    ] {
        assert_eq!(ManifestUrl::parse(text).unwrap_err(), told, "{text}");
    }
    assert_eq!(shown("http://user:word@host/x"), "(not shown)");
    assert_eq!(shown("https://host/x?token=1"), "https://host/x");
    let ipv6 = ManifestUrl::parse("http://[fd00::1]:81/x").unwrap();
    assert_eq!((ipv6.uri.host(), ipv6.uri.port_u16()), (Some("[fd00::1]"), Some(81)));
    let wrong = |given: &[(&str, &[&str])]| {
        let (name, at, detail) = ManifestUrl::parse("http://h/").unwrap().with_headers(&headers(given)).unwrap_err();
        (name, at, detail.split(':').next().unwrap_or_default().to_owned())
    };
    assert_eq!(wrong(&[("a b", &["1"])]), ("a b".into(), None, "must be the name of an HTTP header".into()));
    assert_eq!(wrong(&[("HOST", &["h"])]), ("HOST".into(), None, "must be left out".into()));
    assert_eq!(wrong(&[("a", &["1", "2\r\nb: 3"])]), ("a".into(), Some(1), "must be what an HTTP header can hold".into()));
}
