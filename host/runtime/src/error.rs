//! What can go wrong with a call to the runtime.

use std::error::Error;
use std::time::Duration;

use tonic::{Code, Status};

use crate::client::MESSAGE_LIMIT;
use crate::operation::Operation;

/// A call that failed, or whose outcome is not known.
#[derive(Debug, thiserror::Error)]
#[error("{operation}{}{object}: {message}", if object.is_empty() { "" } else { " " })]
pub struct CallError {
    /// Which call.
    pub operation: Operation,
    /// Of what: a name, or an id of the runtime. Empty for calls about the runtime as a whole.
    pub object: String,
    /// What follows for the caller.
    pub kind: Kind,
    /// The runtime's own words, which upstream's events and statuses quote; the operating system's where there is no connection, and ours
    /// where the runtime did not answer. There is no source beneath it that would say more.
    pub message: String,
    /// gRPC's code of the answer, or of the broken connection; None without an answer in time.
    pub code: Option<Code>,
}

/// What follows for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The runtime has no such call, and will not have it before it is replaced.
    Unimplemented,
    /// The object is not there.
    NotFound,
    /// An object of that name is there already.
    AlreadyExists,
    /// The runtime could not be reached, or the connection broke. The call may have been carried out.
    Unavailable,
    /// No answer in time. The call may still be carried out.
    DeadlineExceeded,
    /// The answer is larger than [`MESSAGE_LIMIT`].
    TooLarge,
    /// The runtime refused, or failed; the message says why.
    Unknown,
}

impl Kind {
    /// One word, for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unimplemented => "unimplemented",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::Unavailable => "unavailable",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::TooLarge => "too_large",
            Self::Unknown => "unknown",
        }
    }
}

impl CallError {
    /// The error as Go's gRPC prints it, which is what upstream puts into events about sandboxes.
    pub fn rpc_text(&self) -> String {
        let code = match self.code {
            Some(code) => go_name(code),
            None => match self.kind {
                Kind::DeadlineExceeded => "DeadlineExceeded",
                Kind::Unavailable => "Unavailable",
                _ => "Unknown",
            },
        };
        format!("rpc error: code = {code} desc = {}", self.message)
    }

    pub(crate) fn answered(operation: Operation, object: &str, status: Status) -> Self {
        let kind = kind_of(&status);
        let message = match kind {
            Kind::TooLarge => {
                format!("the answer is larger than {} MiB, the most that is read ({})", MESSAGE_LIMIT >> 20, status.message())
            }
            Kind::Unavailable => innermost(&status),
            _ => status.message().to_owned(),
        };
        Self { operation, object: object.to_owned(), kind, message, code: Some(status.code()) }
    }

    pub(crate) fn no_answer_within(operation: Operation, object: &str, deadline: Duration) -> Self {
        Self {
            operation,
            object: object.to_owned(),
            kind: Kind::DeadlineExceeded,
            message: format!("no answer within {deadline:?}"),
            code: None,
        }
    }
}

fn kind_of(status: &Status) -> Kind {
    // A status that has a source was made on our side of the socket: the runtime never said it.
    let ours = status.source().is_some();
    let text = status.message();
    match status.code() {
        Code::Unimplemented => Kind::Unimplemented,
        Code::NotFound => Kind::NotFound,
        Code::AlreadyExists => Kind::AlreadyExists,
        Code::Unavailable => Kind::Unavailable,
        Code::DeadlineExceeded => Kind::DeadlineExceeded,
        Code::OutOfRange if text.contains("decoded message length too large") => Kind::TooLarge,
        Code::Cancelled if text.contains("Timeout expired") => Kind::DeadlineExceeded,
        Code::Unknown if !ours && says_unimplemented(text) => Kind::Unimplemented,
        _ if ours => Kind::Unavailable,
        _ => Kind::Unknown,
    }
}

/// Some runtimes answer UNKNOWN for what they do not have. "Function not implemented" is the kernel speaking, about
/// something that the call tried to do.
fn says_unimplemented(text: &str) -> bool {
    let text = text.to_ascii_lowercase().replace("function not implemented", "");
    ["not implemented", "unimplemented", "unknown method", "unknown service"].iter().any(|words| text.contains(words))
}

/// The operating system's words rather than "transport error".
fn innermost(status: &Status) -> String {
    let mut cause: &dyn Error = status;
    while let Some(next) = cause.source() {
        cause = next;
    }
    match cause.downcast_ref::<Status>() {
        Some(status) => status.message().to_owned(),
        None => cause.to_string(),
    }
}

fn go_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let cases = [
            (Status::unimplemented("x"), Kind::Unimplemented),
            (Status::unknown("method GetContainerEvents not implemented"), Kind::Unimplemented),
            (Status::unknown("unknown service runtime.v1.RuntimeService"), Kind::Unimplemented),
            (Status::unknown("unknown method RuntimeConfig"), Kind::Unimplemented),
            (Status::unknown("failed to exec: no such file"), Kind::Unknown),
            (Status::unknown("mount failed: function not implemented"), Kind::Unknown),
            (Status::not_found("container \"x\""), Kind::NotFound),
            (Status::already_exists("x"), Kind::AlreadyExists),
            (Status::unavailable("x"), Kind::Unavailable),
            (Status::deadline_exceeded("x"), Kind::DeadlineExceeded),
            (Status::out_of_range("offset past the end"), Kind::Unknown),
            (Status::cancelled("context canceled"), Kind::Unknown),
            (Status::from_error("broken pipe".into()), Kind::Unavailable),
        ];
        for (status, expected) in cases {
            assert_eq!(kind_of(&status), expected, "{status}");
        }
    }

    #[test]
    fn quoted_as_upstream_quotes_it() {
        let error = CallError::answered(Operation::RunPodSandbox, "default/web", Status::unknown("no network"));
        assert_eq!(error.rpc_text(), "rpc error: code = Unknown desc = no network");
        assert_eq!(error.to_string(), "RunPodSandbox default/web: no network");
    }
}
