//! What the outcome of one probe attempt means, before the thresholds count it.

/// How an attempt went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An HTTP answer with this status, after redirects within the host were followed. A redirect to another host is not
    /// followed, so that it ends here as a 3xx.
    Http(u16),
    /// A TCP connection was opened.
    TcpOpen,
    /// An answer of the gRPC health protocol, with its serving status (1 is SERVING).
    Grpc(u32),
    /// The command ended with this code.
    Exec(i32),
    /// There was no answer.
    Failed(Failure),
}

/// Why there was no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// None in time, in whatever stage.
    Timeout,
    /// The connection was refused.
    Refused,
    /// The connection was reset or closed early.
    Reset,
    /// No route to the address.
    Unreachable,
    /// The host's name has no address.
    NameResolution,
    /// The TLS handshake failed.
    Tls,
    /// The peer does not speak the protocol.
    Protocol,
    /// The runtime could not run the command.
    Exec,
    /// The node could not make the attempt, or could not read the answer.
    Internal,
}

/// What an attempt means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Counts towards the success threshold.
    Success,
    /// Counts as success, and an event tells of it.
    Warning,
    /// Counts towards the failure threshold.
    Failure,
    /// Nothing was learnt: no count changes.
    Unknown,
}

/// The kubelet's reading of an outcome.
///
/// An HTTP status of 200 to 399 is success, the redirects among them with a warning. Whatever keeps the workload from answering
/// is its failure; but where the attempt itself could not be made (upstream's probe *errors*), nothing is known. A command that
/// the runtime cannot run is of the second kind: upstream takes only an exit code or a timeout for an answer.
#[must_use]
pub const fn interpret(outcome: Outcome) -> Verdict {
    match outcome {
        Outcome::Http(200..=299) | Outcome::TcpOpen | Outcome::Grpc(1) | Outcome::Exec(0) => Verdict::Success,
        Outcome::Http(300..=399) => Verdict::Warning,
        Outcome::Failed(Failure::Exec | Failure::Internal) => Verdict::Unknown,
        Outcome::Http(_) | Outcome::Grpc(_) | Outcome::Exec(_) | Outcome::Failed(_) => Verdict::Failure,
    }
}
