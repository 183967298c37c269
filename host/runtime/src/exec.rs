//! Runs a command in a container with its streams connected: the runtime hands out a URL, and serves there what upstream's kubelet speaks
//! too, SPDY/3.1 with the subprotocol `v4.channel.k8s.io`.
//!
//! Runtimes speak WebSocket there as well. Its fourth version, which all of them have, cannot tell a command that its input has ended, and
//! its fifth, which can, containerd refuses; a stream of SPDY can be closed by itself.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use http::{HeaderValue, Request, StatusCode, Uri, header};
use hyper::body::{Body, Incoming};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use polylet_core::stream::{FromCommand, ToCommand};
use polylet_proto::cri::ExecRequest;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::client::Client;
use crate::error::CallError;

mod spdy;

use spdy::{Frame, Reader, Writer};

/// What is agreed on within the connection.
const SUBPROTOCOL: &str = "v4.channel.k8s.io";
const SUBPROTOCOL_HEADER: &str = "x-stream-protocol-version";
/// The runtime is on this machine: it answers by then.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Messages that may wait, in each direction: of at most [`spdy::PIECE`] bytes each.
const QUEUE: usize = 16;
/// The most that is read of what the runtime says of how a command ended, or of why it refuses.
const STATUS_MAX: usize = 64 << 10;

/// A command that runs.
#[derive(Debug)]
pub struct Command {
    /// To it. Dropped, its standard input ends.
    pub input: mpsc::Sender<ToCommand>,
    /// From it; closed without [`FromCommand::Ended`] where the runtime goes away. Dropped, the connection ends.
    pub output: mpsc::Receiver<FromCommand>,
}

/// A command that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The runtime does not prepare it.
    #[error(transparent)]
    Call(#[from] CallError),
    /// What it answers is no place that a stream may go to.
    #[error("the runtime wants its stream at {url:?}: {why}")]
    Url {
        /// As the runtime gave it.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The place does not answer, or breaks off.
    #[error("connect to the runtime's stream at {address}")]
    Connect {
        /// The place.
        address: SocketAddr,
        /// Why not.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The place answers with something else than a stream.
    #[error("the runtime's stream at {address} answers {status}: {text}")]
    Refused {
        /// The place.
        address: SocketAddr,
        /// HTTP status.
        status: StatusCode,
        /// What it says.
        text: String,
    },
}

/// Begins a command in a container. With `tty` it has a terminal, and no standard error of its own.
///
/// # Errors
/// [`ExecError`]. That the command itself cannot be begun is told by [`FromCommand::Ended`].
pub async fn exec(client: &Client, id: &str, command: Vec<String>, stdin: bool, tty: bool) -> Result<Command, ExecError> {
    let request = ExecRequest { container_id: id.to_owned(), cmd: command, tty, stdin, stdout: true, stderr: !tty };
    let url = client.exec(request).await?;
    let (address, uri) = place(&url)?;
    let connection = tokio::time::timeout(ANSWER_WITHIN, connect(address, &uri)).await;
    let connection = connection.unwrap_or_else(|_| {
        let cause = format!("no answer within {} s", ANSWER_WITHIN.as_secs()).into();
        Err(ExecError::Connect { address, cause })
    })?;
    let (input, to) = mpsc::channel(QUEUE);
    let (from, output) = mpsc::channel(QUEUE);
    tokio::spawn(relay(connection, stdin, tty, to, from));
    Ok(Command { input, output })
}

/// Where the URL leads: to this machine, or nowhere. A stream has the powers of root on the node.
fn place(url: &str) -> Result<(SocketAddr, Uri), ExecError> {
    let bad = |why: &str| ExecError::Url { url: url.to_owned(), why: why.to_owned() };
    let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| bad(&error.to_string()))?;
    if uri.scheme_str() != Some("http") {
        return Err(bad("only http:// is spoken (containerd: enable_tls_streaming = false)"));
    }
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let ip = match host {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => host.parse().map_err(|_| bad("its host is no address"))?,
    };
    if !is_own(ip) {
        return Err(bad("its address is not one of this machine"));
    }
    Ok((SocketAddr::new(ip, uri.port_u16().unwrap_or(80)), uri))
}

/// The kernel knows its addresses: it lets nobody listen at others.
fn is_own(ip: IpAddr) -> bool {
    ip.is_loopback() || TcpListener::bind((ip, 0)).is_ok()
}

async fn connect(address: SocketAddr, uri: &Uri) -> Result<TokioIo<Upgraded>, ExecError> {
    let failed = |cause: Box<dyn std::error::Error + Send + Sync>| ExecError::Connect { address, cause };
    let stream = TcpStream::connect(address).await.map_err(|error| failed(error.into()))?;
    // Keystrokes are small, and somebody waits for each.
    stream.set_nodelay(true).map_err(|error| failed(error.into()))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| failed(error.into()))?;
    tokio::spawn(connection.with_upgrades());
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map_or("localhost", |authority| authority.as_str());
    let request = Request::post(path)
        .header(header::HOST, authority)
        .header(header::CONNECTION, HeaderValue::from_static("Upgrade"))
        .header(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"))
        .header(SUBPROTOCOL_HEADER, HeaderValue::from_static(SUBPROTOCOL))
        .body(String::new())
        .map_err(|error| failed(error.into()))?;
    let answer = sender.send_request(request).await.map_err(|error| failed(error.into()))?;
    let status = answer.status();
    if status != StatusCode::SWITCHING_PROTOCOLS {
        return Err(ExecError::Refused { address, status, text: beginning(answer.into_body()).await });
    }
    if answer.headers().get(SUBPROTOCOL_HEADER).is_none_or(|agreed| agreed != SUBPROTOCOL) {
        let text = format!("{:?} instead of {SUBPROTOCOL}", answer.headers().get(SUBPROTOCOL_HEADER));
        return Err(ExecError::Refused { address, status, text });
    }
    let upgraded = hyper::upgrade::on(answer).await.map_err(|error| failed(error.into()))?;
    Ok(TokioIo::new(upgraded))
}

/// What a body begins with, as text.
async fn beginning(body: Incoming) -> String {
    let mut text = Vec::new();
    let mut body = std::pin::pin!(body);
    while text.len() < STATUS_MAX
        && let Some(Ok(frame)) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await
    {
        text.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    text.truncate(STATUS_MAX);
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// The streams of one command, by what the runtime calls them; each is known by its place in [`Streams::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Error,
    Stdin,
    Stdout,
    Stderr,
    Resize,
}

impl Channel {
    const ALL: [Self; 5] = [Self::Error, Self::Stdin, Self::Stdout, Self::Stderr, Self::Resize];

    fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Stdin => "stdin",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Resize => "resize",
        }
    }

    /// Streams that the client opens have odd numbers.
    fn id(self) -> u32 {
        2 * (self as u32) + 1
    }

    fn is_wanted(self, stdin: bool, tty: bool) -> bool {
        match self {
            Self::Error | Self::Stdout => true,
            Self::Stdin => stdin,
            Self::Stderr => !tty,
            Self::Resize => tty,
        }
    }
}

/// Passes everything on until the command has ended or nobody listens any more.
async fn relay(
    connection: impl AsyncRead + AsyncWrite,
    stdin: bool,
    tty: bool,
    to: mpsc::Receiver<ToCommand>,
    from: mpsc::Sender<FromCommand>,
) {
    let (read, write) = tokio::io::split(connection);
    let (pong, pongs) = mpsc::channel(1);
    // Cancel-safe: whichever ends first, the connection goes.
    tokio::select! {
        ended = incoming(Reader::new(read), &from, pong) => {
            if let Some(ended) = ended {
                // Whoever asked may have gone.
                drop(from.send(FromCommand::Ended(ended)).await);
            }
        }
        () = outgoing(Writer::new(write), stdin, tty, to, pongs) => {}
        () = from.closed() => {}
    }
}

/// What the runtime sends; how the command ended, or None where nobody listens any more.
async fn incoming(
    mut reader: Reader<impl AsyncRead + Unpin>,
    from: &mpsc::Sender<FromCommand>,
    pong: mpsc::Sender<u32>,
) -> Option<Result<i32, String>> {
    let mut status = Vec::new();
    let mut output_ended = false;
    loop {
        let frame = match reader.next().await {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            Err(error) if status.is_empty() => return Some(Err(format!("the runtime's stream broke: {error}"))),
            Err(_) => break,
        };
        match frame {
            Frame::Data { stream, bytes, last } => {
                let channel = Channel::ALL.into_iter().find(|channel| channel.id() == stream);
                let message = match channel {
                    Some(Channel::Stdout) => Some(FromCommand::Stdout(bytes)),
                    Some(Channel::Stderr) => Some(FromCommand::Stderr(bytes)),
                    Some(Channel::Error) => {
                        let room = STATUS_MAX.saturating_sub(status.len());
                        status.extend_from_slice(&bytes[..bytes.len().min(room)]);
                        None
                    }
                    Some(Channel::Stdin | Channel::Resize) | None => None,
                };
                let empty = matches!(&message, Some(FromCommand::Stdout(b) | FromCommand::Stderr(b)) if b.is_empty());
                if let Some(message) = message.filter(|_| !empty)
                    && from.send(message).await.is_err()
                {
                    return None;
                }
                output_ended |= last && channel == Some(Channel::Stdout);
                // All output comes before the status; what may still come is the end of the connection.
                if channel == Some(Channel::Error) && (last || (output_ended && parse(&status).is_some())) {
                    break;
                }
            }
            Frame::Reset { stream } if stream == Channel::Error.id() => break,
            Frame::GoAway => break,
            Frame::Ping { id } => {
                // One that comes before the last was answered is not answered.
                let _ = pong.try_send(id);
            }
            Frame::Reset { .. } | Frame::Other => {}
        }
    }
    Some(parse(&status).unwrap_or_else(|| match String::from_utf8_lossy(&status).trim() {
        "" => Err("the runtime closed the stream without saying how the command ended".to_owned()),
        said => Err(said.to_owned()),
    }))
}

/// What the client sends. Where the connection takes nothing more, what it brings still counts: this does not end.
async fn outgoing(
    mut writer: Writer<impl AsyncWrite + Unpin>,
    stdin: bool,
    tty: bool,
    mut to: mpsc::Receiver<ToCommand>,
    mut pongs: mpsc::Receiver<u32>,
) {
    let sent = async {
        for channel in Channel::ALL.into_iter().filter(|channel| channel.is_wanted(stdin, tty)) {
            writer.open(channel.id(), channel.name()).await?;
        }
        let mut open = stdin;
        let mut listening = true;
        loop {
            let message = tokio::select! {
                Some(id) = pongs.recv() => {
                    writer.ping(id).await?;
                    continue;
                }
                message = to.recv(), if listening => message,
                else => return Ok::<(), std::io::Error>(()),
            };
            listening = message.is_some();
            match message.unwrap_or(ToCommand::StdinEnd) {
                ToCommand::Stdin(bytes) if open => writer.data(Channel::Stdin.id(), &bytes).await?,
                ToCommand::StdinEnd if open => {
                    writer.end(Channel::Stdin.id()).await?;
                    open = false;
                }
                ToCommand::Resize { width, height } if tty => {
                    let size = format!("{{\"Width\":{width},\"Height\":{height}}}\n");
                    writer.data(Channel::Resize.id(), size.as_bytes()).await?;
                }
                ToCommand::Stdin(_) | ToCommand::StdinEnd | ToCommand::Resize { .. } => {}
            }
        }
    };
    if let Err(error) = sent.await {
        tracing::debug!(%error, "the runtime's stream takes nothing more");
    }
    std::future::pending().await
}

/// The API's `Status`, as far as it is needed.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    status: String,
    message: String,
    reason: String,
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    causes: Vec<Cause>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
    message: String,
}

/// How a command ended; None of what is no such word.
fn parse(status: &[u8]) -> Option<Result<i32, String>> {
    let Status { status, message, reason, details } = serde_json::from_slice(status).ok()?;
    match (status.as_str(), reason.as_str()) {
        ("Success", _) => Some(Ok(0)),
        ("Failure", "NonZeroExitCode") => {
            let causes = details.unwrap_or_default().causes;
            let code = causes.iter().find(|cause| cause.reason == "ExitCode").and_then(|cause| cause.message.parse().ok());
            Some(code.ok_or(message))
        }
        ("Failure", _) => Some(Err(if message.is_empty() { reason } else { message })),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
