//! A command in a container, over a connection of the administration socket that has changed hands: frames both ways.
//!
//! A frame is a byte that says what it is, the length of what follows (four bytes, the highest first), and that. The first one of the
//! client is an [`ExecQuery`] in JSON; the agent's last one says how the command ended. Not to be relied on by others: the two ends are
//! of one version.

use std::io;
use std::sync::Arc;

use polylet_core::stream::{FromCommand, ToCommand};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use crate::admin::{Admin, ExecQuery};

/// In `Upgrade`.
pub(crate) const PROTOCOL: &str = "polylet-exec";

/// The longest frame, in bytes: a command and its arguments fit.
const FRAME_MAX: usize = 1 << 20;
/// Messages that may wait, in each direction.
const QUEUE: usize = 16;

const REQUEST: u8 = 0;
const STDIN: u8 = 1;
const STDIN_END: u8 = 2;
const RESIZE: u8 = 3;
const STDOUT: u8 = 4;
const STDERR: u8 = 5;
const ENDED: u8 = 6;
const FAILED: u8 = 7;

/// A command that runs.
#[derive(Debug)]
pub struct Session {
    /// To it. Dropped, its standard input ends.
    pub input: mpsc::Sender<ToCommand>,
    /// From it; closed without [`FromCommand::Ended`] where the other end has gone. Dropped, the connection ends.
    pub output: mpsc::Receiver<FromCommand>,
}

/// The agent's end: reads what is to be run, and passes everything on until the command has ended or the client has gone.
pub(crate) async fn answer(stream: impl AsyncRead + AsyncWrite, admin: Arc<dyn Admin>) {
    let (read, mut write) = tokio::io::split(stream);
    let mut read = BufReader::new(read);
    let refused = match query(&mut read).await {
        Ok(Some(query)) => match admin.exec(query).await {
            Ok(session) => return serve(&mut read, &mut write, session).await,
            Err(error) => error.message,
        },
        Ok(None) => return,
        Err(error) => error.to_string(),
    };
    if let Err(error) = say(&mut write, FromCommand::Ended(Err(refused))).await {
        tracing::debug!(%error, "administration socket");
    }
}

async fn query(read: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<ExecQuery>> {
    match next(read).await? {
        Some((REQUEST, payload)) => Ok(Some(serde_json::from_slice(&payload)?)),
        Some((kind, _)) => Err(invalid(format!("a frame of kind {kind} before the request"))),
        None => Ok(None),
    }
}

async fn serve(read: &mut (impl AsyncRead + Unpin), write: &mut (impl AsyncWrite + Unpin), session: Session) {
    let Session { input, mut output } = session;
    let client = async {
        while let Some((kind, payload)) = next(read).await? {
            let message = match (kind, payload.as_slice()) {
                (STDIN, _) => ToCommand::Stdin(payload),
                (STDIN_END, _) => ToCommand::StdinEnd,
                (RESIZE, [a, b, c, d]) => {
                    ToCommand::Resize { width: u16::from_be_bytes([*a, *b]), height: u16::from_be_bytes([*c, *d]) }
                }
                _ => return Err(invalid(format!("a frame of kind {kind} and {} bytes", payload.len()))),
            };
            // A command that takes no more goes on: the client is still to hear how it ends.
            drop(input.send(message).await);
        }
        Ok(())
    };
    let command = async {
        while let Some(message) = output.recv().await {
            say(write, message).await?;
        }
        Ok::<(), io::Error>(())
    };
    // Whichever ends first ends the other: a client that went away, or a command that has ended.
    let done = tokio::select! {
        done = client => done,
        done = command => done,
    };
    if let Err(error) = done {
        tracing::debug!(%error, "administration socket");
    }
}

/// The client's end.
pub(crate) async fn ask(stream: impl AsyncRead + AsyncWrite + Send + 'static, query: &ExecQuery) -> io::Result<Session> {
    let (read, mut write) = tokio::io::split(stream);
    put(&mut write, REQUEST, &serde_json::to_vec(query)?).await?;
    let (input, mut to) = mpsc::channel(QUEUE);
    let (from, output) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let agent = async {
            let mut read = BufReader::new(read);
            while let Ok(Some(frame)) = next(&mut read).await {
                let Some(message) = heard(frame) else { return };
                let last = matches!(message, FromCommand::Ended(_));
                if from.send(message).await.is_err() || last {
                    return;
                }
            }
        };
        let user = async {
            while let Some(message) = to.recv().await {
                if tell(&mut write, message).await.is_err() {
                    break;
                }
            }
            // What comes back still counts.
            drop(put(&mut write, STDIN_END, &[]).await);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = agent => {}
            () = user => {}
            () = from.closed() => {}
        }
    });
    Ok(Session { input, output })
}

async fn tell(write: &mut (impl AsyncWrite + Unpin), message: ToCommand) -> io::Result<()> {
    match message {
        ToCommand::Stdin(bytes) => put_all(write, STDIN, &bytes).await,
        ToCommand::StdinEnd => put(write, STDIN_END, &[]).await,
        ToCommand::Resize { width, height } => {
            let ([a, b], [c, d]) = (width.to_be_bytes(), height.to_be_bytes());
            put(write, RESIZE, &[a, b, c, d]).await
        }
    }
}

async fn say(write: &mut (impl AsyncWrite + Unpin), message: FromCommand) -> io::Result<()> {
    match message {
        FromCommand::Stdout(bytes) => put_all(write, STDOUT, &bytes).await,
        FromCommand::Stderr(bytes) => put_all(write, STDERR, &bytes).await,
        FromCommand::Ended(Ok(code)) => put(write, ENDED, &code.to_be_bytes()).await,
        FromCommand::Ended(Err(text)) => put(write, FAILED, &text.as_bytes()[..text.len().min(FRAME_MAX)]).await,
    }
}

fn heard((kind, payload): (u8, Vec<u8>)) -> Option<FromCommand> {
    match (kind, payload.as_slice()) {
        (STDOUT, _) => Some(FromCommand::Stdout(payload)),
        (STDERR, _) => Some(FromCommand::Stderr(payload)),
        (ENDED, [a, b, c, d]) => Some(FromCommand::Ended(Ok(i32::from_be_bytes([*a, *b, *c, *d])))),
        (FAILED, text) => Some(FromCommand::Ended(Err(String::from_utf8_lossy(text).into_owned()))),
        _ => None,
    }
}

/// The next frame; None where the connection ends between two of them.
async fn next(read: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<(u8, Vec<u8>)>> {
    let mut head = [0; 5];
    match read.read(&mut head[..1]).await {
        Ok(0) => return Ok(None),
        other => other?,
    };
    read.read_exact(&mut head[1..]).await?;
    let [kind, a, b, c, d] = head;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length > FRAME_MAX {
        return Err(invalid(format!("a frame of {length} bytes: {FRAME_MAX} are the most")));
    }
    let mut payload = vec![0; length];
    read.read_exact(&mut payload).await?;
    Ok(Some((kind, payload)))
}

async fn put_all(write: &mut (impl AsyncWrite + Unpin), kind: u8, bytes: &[u8]) -> io::Result<()> {
    for piece in bytes.chunks(FRAME_MAX) {
        put(write, kind, piece).await?;
    }
    Ok(())
}

async fn put(write: &mut (impl AsyncWrite + Unpin), kind: u8, payload: &[u8]) -> io::Result<()> {
    if payload.len() > FRAME_MAX {
        return Err(invalid(format!("a command of {} bytes: {FRAME_MAX} are the most", payload.len())));
    }
    let mut frame = Vec::with_capacity(5 + payload.len());
    frame.push(kind);
    frame.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    frame.extend_from_slice(payload);
    write.write_all(&frame).await?;
    write.flush().await
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
