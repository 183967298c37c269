//! The other end of the administration socket, for the command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response, StatusCode, body::Incoming, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::admin::{CUT_SHORT, ExecQuery};
use crate::exec::{self, Session};

/// Asks an agent on this machine.
#[derive(Clone, Debug)]
pub struct AdminClient {
    socket: PathBuf,
    /// How long an answer is waited for, or the beginning of one that goes on.
    answer: Duration,
    /// How long until something is done: a policy that is bound is compiled first, on a busy machine for minutes.
    done: Duration,
}

/// No answer, or not the one wanted.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody is there, or not for us.
    #[error("no agent answers at {}: is `polylet run` running?", socket.display())]
    NotThere {
        /// The socket.
        socket: PathBuf,
        /// Why not.
        #[source]
        cause: std::io::Error,
    },
    /// The connection broke.
    #[error("the agent at {} went away", socket.display())]
    Broken {
        /// The socket.
        socket: PathBuf,
        /// How.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It takes too long: it is stopped, or too busy to be asked.
    #[error("the agent at {} does not answer within {} s", socket.display(), within.as_secs_f64())]
    Silent {
        /// The socket.
        socket: PathBuf,
        /// How long it was waited for.
        within: Duration,
    },
    /// The log could not be read to its end.
    #[error("the log is not complete: its last line says why")]
    CutShort,
    /// The agent says no.
    #[error("{message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Why.
        message: String,
    },
}

impl AdminClient {
    /// For the agent at this socket.
    pub fn new(socket: impl AsRef<Path>) -> Self {
        let (answer, done) = (Duration::from_secs(30), Duration::from_secs(300));
        Self { socket: socket.as_ref().to_owned(), answer, done }
    }

    /// A value.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get(&self, path: &str) -> Result<Value, ClientError> {
        self.value(Method::GET, path, self.answer).await
    }

    /// Asks for something to be done.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn post(&self, path: &str) -> Result<Value, ClientError> {
        self.value(Method::POST, path, self.done).await
    }

    /// Lines as they come, until the agent has no more.
    ///
    /// # Errors
    /// [`ClientError`], before the first line; later ones arrive in its place.
    pub async fn lines(&self, path: &str) -> Result<mpsc::Receiver<Result<String, ClientError>>, ClientError> {
        let mut pieces = self.pieces(path).await?;
        let (out, lines) = mpsc::channel(64);
        tokio::spawn(async move {
            let mut rest: Vec<u8> = Vec::new();
            while let Some(piece) = pieces.recv().await {
                match piece {
                    Ok(bytes) => rest.extend_from_slice(&bytes),
                    Err(error) => {
                        // Whoever read may have gone.
                        drop(out.send(Err(error)).await);
                        return;
                    }
                }
                while let Some(end) = rest.iter().position(|b| *b == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).take(end).collect();
                    if out.send(Ok(String::from_utf8_lossy(&line).into_owned())).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(lines)
    }

    /// Bytes as they come, until the agent has no more.
    ///
    /// # Errors
    /// [`ClientError`], before the first byte; a later one is the last that arrives.
    pub async fn pieces(&self, path: &str) -> Result<mpsc::Receiver<Result<Vec<u8>, ClientError>>, ClientError> {
        let begun = timeout(self.answer, self.send(Method::GET, path)).await.map_err(|_| self.silent(self.answer))?;
        let mut answer = begun?.into_body();
        let (out, pieces) = mpsc::channel(8);
        let socket = self.socket.clone();
        tokio::spawn(async move {
            while let Some(frame) = answer.frame().await {
                let piece = match frame.map(|frame| frame.into_data()) {
                    Ok(Ok(bytes)) => Ok(bytes.to_vec()),
                    Ok(Err(frame)) if frame.trailers_ref().is_some_and(|last| last.contains_key(CUT_SHORT)) => {
                        Err(ClientError::CutShort)
                    }
                    Ok(Err(_)) => continue,
                    Err(error) => Err(ClientError::Broken { socket: socket.clone(), cause: Box::new(error) }),
                };
                let last = piece.is_err();
                if out.send(piece).await.is_err() || last {
                    return;
                }
            }
        });
        Ok(pieces)
    }

    /// Runs a command in a container. What is wrong with it comes as its end.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn exec(&self, query: &ExecQuery) -> Result<Session, ClientError> {
        let mut sender = self.connect().await?;
        let request = Request::builder().method(Method::POST).uri("/v1/exec").header(header::HOST, "polylet");
        let request = request.header(header::CONNECTION, "upgrade").header(header::UPGRADE, exec::PROTOCOL);
        let request = request.body(Body::empty()).map_err(|e| self.broken(e))?;
        let answer = sender.send_request(request).await.map_err(|e| self.broken(e))?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(self.refused(answer).await);
        }
        let stream = hyper::upgrade::on(answer).await.map_err(|e| self.broken(e))?;
        exec::ask(TokioIo::new(stream), query).await.map_err(|e| self.broken(e))
    }

    async fn value(&self, method: Method, path: &str, within: Duration) -> Result<Value, ClientError> {
        let asked = async {
            let body = self.send(method, path).await?.into_body();
            body.collect().await.map_err(|e| self.broken(e))
        };
        let bytes = timeout(within, asked).await.map_err(|_| self.silent(within))??.to_bytes();
        serde_json::from_slice(&bytes).map_err(|e| self.broken(e))
    }

    async fn connect(&self) -> Result<SendRequest<Body>, ClientError> {
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|cause| ClientError::NotThere { socket: self.socket.clone(), cause })?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| self.broken(e))?;
        tokio::spawn(connection.with_upgrades());
        Ok(sender)
    }

    async fn send(&self, method: Method, path: &str) -> Result<Response<Incoming>, ClientError> {
        let mut sender = self.connect().await?;
        let request = Request::builder().method(method).uri(path).header(header::HOST, "polylet");
        let request = request.header(header::TE, "trailers").body(Body::empty());
        let request = request.map_err(|e| self.broken(e))?;
        let answer = sender.send_request(request).await.map_err(|e| self.broken(e))?;
        if answer.status() == StatusCode::OK { Ok(answer) } else { Err(self.refused(answer).await) }
    }

    async fn refused(&self, answer: Response<Incoming>) -> ClientError {
        let status = answer.status().as_u16();
        let bytes = match answer.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return self.broken(error),
        };
        let said = serde_json::from_slice::<Value>(&bytes).ok().and_then(|v| v["error"].as_str().map(str::to_owned));
        let message = said.unwrap_or_else(|| String::from_utf8_lossy(&bytes).into_owned());
        ClientError::Refused { status, message }
    }

    fn silent(&self, within: Duration) -> ClientError {
        ClientError::Silent { socket: self.socket.clone(), within }
    }

    fn broken(&self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ClientError {
        ClientError::Broken { socket: self.socket.clone(), cause: cause.into() }
    }
}

/// A word as a part of a path or of a query.
pub fn escaped(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for byte in word.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_agent_that_takes_no_part_is_not_waited_for_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("polylet.sock");
        // It is connected to, since the kernel does that, and nobody reads.
        let _stopped = tokio::net::UnixListener::bind(&socket).unwrap();
        let (answer, done) = (Duration::from_millis(50), Duration::from_millis(250));
        let client = AdminClient { answer, done, ..AdminClient::new(&socket) };
        for (asked, seconds) in [(client.get("/v1/pods").await, "0.05"), (client.post("/v1/policies").await, "0.25")] {
            let error = asked.unwrap_err().to_string();
            assert_eq!(error, format!("the agent at {} does not answer within {seconds} s", socket.display()));
        }
        let error = client.lines("/v1/decisions").await.unwrap_err().to_string();
        assert!(error.ends_with("does not answer within 0.05 s"), "{error}");
    }
}
