//! TCP connections to workloads.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use polylet_core::question::probe::Failure;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};

use crate::target::join_host_port;
use crate::trouble::Trouble;

/// How long a closed socket may wait for the peer: it keeps the many short connections of probes from piling up in the kernel.
const LINGER: Duration = Duration::from_secs(1);

/// Connects to a host by name or address. The error's text begins as upstream's does, with `dial tcp`.
pub(crate) async fn connect(host: &str, port: u16) -> Result<Socket, Trouble> {
    let mut first = None;
    for address in addresses(host, port).await? {
        match open(address).await {
            Ok(stream) => return Ok(Socket { stream: Some(stream), start: [0; 5], seen: 0 }),
            Err(error) => {
                first.get_or_insert_with(|| Trouble::of_io(&error).within(&format!("dial tcp {address}")));
            }
        }
    }
    Err(first.unwrap_or_else(|| no_such_host(host)))
}

/// What a dial that took too long is called.
pub(crate) fn dial_timeout(host: &str, port: u16) -> Trouble {
    Trouble::new(Failure::Timeout, format!("dial tcp {}: i/o timeout", join_host_port(host, port)))
}

async fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, Trouble> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    match tokio::net::lookup_host((host, port)).await {
        Ok(found) => Ok(found.collect()),
        Err(error) => match rustix::io::Errno::from_io_error(&error) {
            Some(_) => Err(Trouble::of_io(&error).within(&format!("dial tcp: lookup {host}"))),
            None => Err(no_such_host(host)),
        },
    }
}

fn no_such_host(host: &str) -> Trouble {
    Trouble::new(Failure::NameResolution, format!("dial tcp: lookup {host}: no such host"))
}

async fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    rustix::net::sockopt::set_socket_linger(&socket, Some(LINGER))?;
    socket.connect(address).await
}

/// A connection that is closed off the threads that run tasks, since closing one that lingers may block, and that remembers how
/// the peer began.
#[derive(Debug)]
pub(crate) struct Socket {
    /// None only while being dropped.
    stream: Option<TcpStream>,
    start: [u8; 5],
    seen: usize,
}

impl Socket {
    /// Whether the peer's first bytes are those of a plain HTTP answer.
    pub(crate) fn began_as_http(&self) -> bool {
        self.start[..self.seen] == *b"HTTP/"
    }

    fn pinned(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let Some(stream) = self.stream.take() else { return };
        if let (Ok(runtime), Ok(stream)) = (tokio::runtime::Handle::try_current(), stream.into_std()) {
            runtime.spawn_blocking(move || drop(stream));
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = self.pinned()?.poll_read(cx, buf);
        if self.seen < self.start.len() {
            let new = &buf.filled()[before..];
            let seen = self.seen;
            let taken = new.len().min(self.start.len() - seen);
            self.start[seen..seen + taken].copy_from_slice(&new[..taken]);
            self.seen += taken;
        }
        polled
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.pinned()?.poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pinned()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pinned()?.poll_shutdown(cx)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.pinned()?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
