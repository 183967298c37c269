//! Why a workload gave no answer: a kind for policies and upstream's words for people.

use std::error::Error;
use std::io;

use polylet_core::question::probe::Failure;
use rustix::io::Errno;

/// No answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Trouble {
    pub(crate) failure: Failure,
    pub(crate) text: String,
}

impl Trouble {
    pub(crate) fn new(failure: Failure, text: impl Into<String>) -> Self {
        Self { failure, text: text.into() }
    }

    /// With words before the text.
    pub(crate) fn within(self, context: &str) -> Self {
        Self { text: format!("{context}: {}", self.text), ..self }
    }

    /// A system call of a socket.
    pub(crate) fn of_io(error: &io::Error) -> Self {
        if let Some(errno) = Errno::from_io_error(error) {
            return Self::new(of_errno(errno), words(errno, error));
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::new(Failure::Reset, "EOF"),
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::NotConnected => Self::new(Failure::Reset, error.to_string()),
            io::ErrorKind::TimedOut => Self::new(Failure::Timeout, "i/o timeout"),
            _ => Self::new(Failure::Protocol, error.to_string()),
        }
    }

    /// An error of hyper or h2, by what lies at its bottom.
    pub(crate) fn of_exchange(error: &(dyn Error + 'static)) -> Self {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            if error.is_incomplete_message() || error.is_canceled() {
                return Self::new(Failure::Reset, "EOF");
            }
            if error.is_parse_too_large() {
                return Self::new(Failure::Protocol, "net/http: server response headers exceeded the limit; aborted");
            }
            if error.is_parse() {
                let text = format!("net/http: HTTP/1.x transport connection broken: malformed HTTP response: {error}");
                return Self::new(Failure::Protocol, text);
            }
        }
        let mut cause: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(error) = cause {
            // Parsers wrap their own errors in io's too: those are no news of the connection.
            if let Some(error) = error.downcast_ref::<io::Error>()
                && !matches!(error.kind(), io::ErrorKind::Other | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
            {
                return Self::of_io(error);
            }
            cause = error.source();
        }
        Self::new(Failure::Protocol, chain(error))
    }
}

/// An error with its causes, each once.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

fn of_errno(errno: Errno) -> Failure {
    match errno {
        Errno::CONNREFUSED => Failure::Refused,
        Errno::CONNRESET | Errno::CONNABORTED | Errno::PIPE | Errno::NOTCONN => Failure::Reset,
        Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::HOSTDOWN | Errno::NETDOWN => Failure::Unreachable,
        Errno::TIMEDOUT => Failure::Timeout,
        // The node is out of something, or may not: that says nothing about the workload.
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::ADDRNOTAVAIL | Errno::ACCESS | Errno::PERM => {
            Failure::Internal
        }
        _ => Failure::Protocol,
    }
}

/// As upstream's standard library words them.
fn words(errno: Errno, error: &io::Error) -> String {
    let text = match errno {
        Errno::CONNREFUSED => "connect: connection refused",
        Errno::CONNRESET => "read: connection reset by peer",
        Errno::CONNABORTED => "software caused connection abort",
        Errno::PIPE => "write: broken pipe",
        Errno::HOSTUNREACH => "connect: no route to host",
        Errno::NETUNREACH => "connect: network is unreachable",
        Errno::TIMEDOUT => "connect: connection timed out",
        Errno::ADDRNOTAVAIL => "connect: cannot assign requested address",
        Errno::MFILE => "socket: too many open files",
        Errno::NFILE => "socket: too many open files in system",
        _ => return error.to_string(),
    };
    text.to_owned()
}
