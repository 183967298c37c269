//! GET of manifests from a URL: one connection each time, no redirects, certificates that the machine trusts.
//!
//! **Invariant:** neither the headers nor what stands in a URL beside host and path is ever shown.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, TRAILER, TRANSFER_ENCODING, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderName, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use crate::document::MAX_BYTES;

/// For one fetch, from the connection to the last byte.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where Linux distributions keep the certificates that they trust.
const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// `staticPodURL` and `staticPodURLHeader`, checked.
#[derive(Clone, PartialEq, Eq)]
pub struct ManifestUrl {
    text: String,
    uri: Uri,
    headers: HeaderMap,
}

impl fmt::Debug for ManifestUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManifestUrl").field(&self.shown()).finish()
    }
}

impl ManifestUrl {
    /// An `http` or `https` URL, without headers.
    ///
    /// # Errors
    /// What would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let uri: Uri =
            text.parse::<Uri>().map_err(|error| format!("must be a URL such as http://10.0.0.1:8080/pods.yaml: {error}"))?;
        if !uri.scheme().is_some_and(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS) {
            return Err("must begin with http:// or https://".to_owned());
        }
        if uri.authority().is_none_or(|authority| authority.host().is_empty() || authority.as_str().contains('@')) {
            return Err("must name a host, and no user before it: what authenticates stands in staticPodURLHeader".to_owned());
        }
        Ok(Self { text: text.to_owned(), uri, headers: HeaderMap::new() })
    }

    /// With these headers, by name.
    ///
    /// # Errors
    /// Name and place of a header that cannot be sent, and what would be right; never its value.
    pub fn with_headers(mut self, headers: &BTreeMap<String, Vec<String>>) -> Result<Self, (String, Option<usize>, String)> {
        for (name, values) in headers {
            let wrong = |at, detail: &str| (name.clone(), at, detail.to_owned());
            let parsed = HeaderName::try_from(name.as_str()).map_err(|_| wrong(None, "must be the name of an HTTP header"))?;
            if [HOST, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER].contains(&parsed) {
                return Err(wrong(None, "must be left out: the agent makes this header itself"));
            }
            for (i, value) in values.iter().enumerate() {
                let detail = "must be what an HTTP header can hold: no line breaks, no control characters";
                let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| wrong(Some(i), detail))?;
                value.set_sensitive(true);
                self.headers.append(parsed.clone(), value);
            }
        }
        Ok(self)
    }

    /// The URL as it was written: part of the UIDs of its pods.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// For people: without the query, which may hold secrets.
    pub fn shown(&self) -> String {
        shown(&self.text)
    }
}

/// A URL that may be none, for people: without user and query.
pub fn shown(text: &str) -> String {
    let place = text.split(['?', '#']).next().unwrap_or_default();
    if place.contains('@') { "(not shown)".to_owned() } else { place.to_owned() }
}

/// Why there are no bytes.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// It took too long.
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// Nobody takes the connection.
    #[error("connect to {address}")]
    Connect {
        /// Host and port.
        address: String,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The peer is not who it should be, or does not speak TLS.
    #[error("TLS with {host}")]
    Tls {
        /// Name or address.
        host: String,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// There is nothing to know a peer by.
    #[error(
        "no certificates are trusted: none of {} can be read; SSL_CERT_FILE names another",
        .files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    NoRoots {
        /// What was tried.
        files: Vec<PathBuf>,
    },
    /// The peer does not speak HTTP, or ended the connection.
    #[error("HTTP")]
    Exchange(#[source] hyper::Error),
    /// Another answer than a document.
    #[error(
        "the answer's status is {}, not 200{}", .status.as_u16(),
        if status.is_redirection() { "; redirects are not followed" } else { "" }
    )]
    Status {
        /// The status.
        status: StatusCode,
    },
    /// More than is read.
    #[error("larger than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
}

/// Fetches what a URL holds.
#[derive(Debug)]
pub struct Fetcher {
    url: ManifestUrl,
    roots: Vec<PathBuf>,
}

impl Fetcher {
    /// Trusts the certificates in `SSL_CERT_FILE`, else those of the distribution.
    pub fn new(url: ManifestUrl) -> Self {
        let own = std::env::var_os("SSL_CERT_FILE").filter(|file| !file.is_empty()).map(PathBuf::from);
        let roots = own.map_or_else(|| BUNDLES.iter().map(PathBuf::from).collect(), |file| vec![file]);
        Self { url, roots }
    }

    /// The body of the answer, which may be empty.
    ///
    /// # Errors
    /// Any status but 200 is one.
    pub async fn fetch(&self) -> Result<Vec<u8>, FetchError> {
        tokio::time::timeout(TIMEOUT, self.get()).await.unwrap_or(Err(FetchError::Timeout))
    }

    async fn get(&self) -> Result<Vec<u8>, FetchError> {
        let uri = &self.url.uri;
        let tls = uri.scheme() == Some(&Scheme::HTTPS);
        // An IPv6 address stands in brackets.
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let connected = TcpStream::connect((host, port)).await;
        let stream = connected.map_err(|cause| FetchError::Connect { address: format!("{host}:{port}"), cause })?;
        if !tls {
            return self.exchange(stream).await;
        }
        let failed = |cause| FetchError::Tls { host: host.to_owned(), cause };
        let config = self.trusting().await?.map_err(|error| failed(io::Error::other(error)))?;
        let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(io::Error::other(error)))?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(failed)?;
        self.exchange(stream).await
    }

    async fn exchange(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Vec<u8>, FetchError> {
        let uri = &self.url.uri;
        let mut request = Request::new(Empty::<Bytes>::new());
        if let Some(path) = uri.path_and_query() {
            *request.uri_mut() = Uri::from(path.clone());
        }
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static("polylet"));
        for (name, value) in &self.url.headers {
            // What was given wins over what was there.
            if *name == USER_AGENT {
                headers.insert(name, value.clone());
            } else {
                headers.append(name, value.clone());
            }
        }
        if let Some(host) = uri.authority().and_then(|authority| HeaderValue::try_from(authority.as_str()).ok()) {
            headers.insert(HOST, host);
        }
        headers.insert(CONNECTION, HeaderValue::from_static("close"));

        let mut builder = hyper::client::conn::http1::Builder::new();
        builder.title_case_headers(true);
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(FetchError::Exchange)?;
        // Ends with this, whatever the peer does; what becomes of it shows in the answer.
        let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
        let mut response = sender.send_request(request).await.map_err(FetchError::Exchange)?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status { status: response.status() });
        }
        let mut bytes = Vec::new();
        while let Some(frame) = response.body_mut().frame().await {
            if let Some(data) = frame.map_err(FetchError::Exchange)?.data_ref() {
                if bytes.len() + data.len() > MAX_BYTES {
                    return Err(FetchError::TooLarge);
                }
                bytes.extend_from_slice(data);
            }
        }
        Ok(bytes)
    }

    /// What is trusted now: certificates are replaced while the agent runs.
    async fn trusting(&self) -> Result<Result<ClientConfig, rustls::Error>, FetchError> {
        let files = self.roots.clone();
        let read = tokio::task::spawn_blocking(move || {
            let mut roots = RootCertStore::empty();
            for bytes in files.iter().filter_map(|file| std::fs::read(file).ok()) {
                roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&bytes).filter_map(Result::ok));
                if !roots.is_empty() {
                    return Ok(roots);
                }
            }
            Err(FetchError::NoRoots { files })
        });
        let roots = read.await.unwrap_or_else(|_| Err(FetchError::NoRoots { files: self.roots.clone() }))?;
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        Ok(builder.map(|builder| {
            let mut config = builder.with_root_certificates(roots).with_no_client_auth();
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            config
        }))
    }
}

#[cfg(test)]
mod tests;
