//! GET requests to workloads: one connection each, redirects within the host, a bounded look at the answer.

use ::http::header::{CONNECTION, DATE, HOST, HeaderValue, LOCATION, REFERER, RETRY_AFTER};
use ::http::{HeaderMap, Request, Response, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use polylet_core::question::probe::Failure;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::headers::Headers;
use crate::socket;
use crate::target::{Target, is_absolute};
use crate::tls;
use crate::trouble::Trouble;

/// As many bytes of a body are read; the rest is left.
pub(crate) const MAX_BODY: usize = 10 << 10;
/// A head larger than this is no answer.
const MAX_HEAD: usize = 256 << 10;
const MAX_HEADERS: usize = 1024;
const MAX_REDIRECTS: usize = 10;

/// The last answer, after redirects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Milliseconds.
    pub(crate) retry_after: Option<u64>,
    pub(crate) redirected_off_host: bool,
    /// At most [`MAX_BODY`] bytes.
    pub(crate) body: Vec<u8>,
}

/// Sends the request and follows redirects within the host, up to the head of the last answer. The error's text is prefixed with
/// what was asked for.
pub(crate) async fn get(target: &Target, headers: &Headers, deadline: Option<Instant>) -> Result<Exchange, Trouble> {
    let first_host = target.host.as_str();
    let mut headers = headers.clone();
    let mut target = target.clone();
    let mut hops = 0;
    loop {
        hops += 1;
        let asked = format!("Get \"{target}\"");
        let exchange = Exchange::begin(&target, &headers);
        let mut exchange = match within(deadline, exchange).await {
            Some(result) => result.map_err(|trouble| trouble.within(&asked))?,
            None => return Err(Trouble::new(Failure::Timeout, format!("{asked}: {AWAITING_HEADERS}"))),
        };
        let next = exchange.location().map(|location| {
            let next = target.resolve(&location);
            (location, next)
        });
        let (location, next) = match next {
            None => return Ok(exchange),
            Some((_, Ok(next))) if next.host != first_host => {
                exchange.redirected_off_host = true;
                return Ok(exchange);
            }
            Some((location, Ok(next))) => (location, next),
            Some((location, Err(why))) => {
                let text = format!("{asked}: failed to parse Location header \"{location}\": {why}");
                return Err(Trouble::new(Failure::Protocol, text));
            }
        };
        if hops >= MAX_REDIRECTS {
            return Err(Trouble::new(Failure::Protocol, format!("Get \"{next}\": stopped after {MAX_REDIRECTS} redirects")));
        }
        // A Host of the spec's own holds for relative redirects only.
        if is_absolute(&location) {
            headers.host = None;
        }
        if (next.tls || !target.tls)
            && let Ok(referer) = HeaderValue::try_from(target.to_string())
        {
            headers.map.insert(REFERER, referer);
        }
        target = next;
    }
}

const AWAITING_HEADERS: &str = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
const READING_BODY: &str = "context deadline exceeded (Client.Timeout or context cancellation while reading body)";

/// A request that has been answered, up to the body.
pub(crate) struct Exchange {
    response: Response<Incoming>,
    redirected_off_host: bool,
    /// Ends the connection when dropped.
    _connection: Connection,
}

impl Exchange {
    async fn begin(target: &Target, headers: &Headers) -> Result<Self, Trouble> {
        let socket = socket::connect(&target.host, target.port).await?;
        if !target.tls {
            return Self::over_http1(socket, target, headers).await;
        }
        let stream = tls::handshake(&target.host, socket).await?;
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => Self::over_http2(stream, target, headers).await,
            _ => Self::over_http1(stream, target, headers).await,
        }
    }

    async fn over_http1<S>(stream: S, target: &Target, headers: &Headers) -> Result<Self, Trouble>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut request = request(&target.path_and_query, headers)?;
        let host = match &headers.host {
            Some(host) => host.clone(),
            None => HeaderValue::try_from(&target.authority).map_err(|error| bad_url(&error))?,
        };
        request.headers_mut().insert(HOST, host);
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        let mut builder = hyper::client::conn::http1::Builder::new();
        builder.title_case_headers(true).max_buf_size(MAX_HEAD).max_headers(MAX_HEADERS);
        let (mut sender, connection) =
            builder.handshake(TokioIo::new(stream)).await.map_err(|error| Trouble::of_exchange(&error))?;
        let connection = Connection(tokio::spawn(async move { drop(connection.await) }));
        let response = sender.send_request(request).await.map_err(|error| Trouble::of_exchange(&error))?;
        Ok(Self { response, redirected_off_host: false, _connection: connection })
    }

    async fn over_http2<S>(stream: S, target: &Target, headers: &Headers) -> Result<Self, Trouble>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let authority = headers.host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or(&target.authority);
        let uri = format!("https://{authority}{}", target.path_and_query);
        let request = request(&uri, headers)?;
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.max_header_list_size(MAX_HEAD as u32);
        let (mut sender, connection) =
            builder.handshake(TokioIo::new(stream)).await.map_err(|error| Trouble::of_exchange(&error))?;
        let connection = Connection(tokio::spawn(async move { drop(connection.await) }));
        let response = sender.send_request(request).await.map_err(|error| Trouble::of_exchange(&error))?;
        Ok(Self { response, redirected_off_host: false, _connection: connection })
    }

    /// Where a redirect leads. Other answers below 400 are final, and so is a redirect that names no place.
    fn location(&self) -> Option<String> {
        if !matches!(self.response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return None;
        }
        let location = self.response.headers().get(LOCATION)?.as_bytes();
        Some(String::from_utf8_lossy(location).into_owned()).filter(|location| !location.is_empty())
    }

    /// Reads the body. One that cannot be read by the deadline, or at all, is the failure `Internal`: upstream learns nothing then.
    pub(crate) async fn read(mut self, deadline: Option<Instant>) -> Result<Answer, Trouble> {
        let mut body = Vec::new();
        while body.len() < MAX_BODY {
            let frame = match within(deadline, self.response.body_mut().frame()).await {
                Some(None) => break,
                Some(Some(Ok(frame))) => frame,
                Some(Some(Err(error))) => return Err(Trouble { failure: Failure::Internal, ..of_body(&error) }),
                None => return Err(Trouble::new(Failure::Internal, READING_BODY)),
            };
            if let Some(data) = frame.data_ref() {
                body.extend_from_slice(&data[..data.len().min(MAX_BODY - body.len())]);
            }
        }
        let status = self.response.status().as_u16();
        let retry_after = retry_after(self.response.headers());
        Ok(Answer { status, retry_after, redirected_off_host: self.redirected_off_host, body })
    }
}

/// The task that moves the bytes of a connection, ended with it.
pub(crate) struct Connection(pub(crate) JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// None once the deadline has passed.
async fn within<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => timeout_at(deadline, work).await.ok(),
        None => Some(work.await),
    }
}

fn request(uri: &str, headers: &Headers) -> Result<Request<Empty<Bytes>>, Trouble> {
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = Uri::try_from(uri).map_err(|error| bad_url(&error))?;
    *request.headers_mut() = headers.map.clone();
    Ok(request)
}

fn bad_url(error: &dyn std::error::Error) -> Trouble {
    Trouble::new(Failure::Protocol, format!("invalid URL: {error}"))
}

fn of_body(error: &hyper::Error) -> Trouble {
    let trouble = Trouble::of_exchange(error);
    if trouble.text == "EOF" { Trouble::new(Failure::Internal, "unexpected EOF") } else { trouble }
}

/// Milliseconds: a number of seconds, or a date compared with the answer's own.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let value = text(RETRY_AFTER)?;
    if let Ok(seconds) = value.parse::<u64>() {
        return seconds.checked_mul(1000);
    }
    let date = |text: &str| jiff::fmt::rfc2822::parse(text).ok().map(|zoned| zoned.timestamp());
    let then = date(value)?;
    let now = text(DATE).and_then(date).unwrap_or_else(jiff::Timestamp::now);
    u64::try_from(then.as_millisecond().saturating_sub(now.as_millisecond())).ok().or(Some(0))
}
