//! What a probe attempt means: asked when one has returned.

use serde::{Deserialize, Serialize};

use super::{ContainerFacts, NodeFacts, PodFacts};
use crate::pod::ProbeKind;

/// Why an attempt got no answer from the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// No answer in time.
    Timeout,
    /// Connection refused.
    Refused,
    /// Connection reset.
    Reset,
    /// No route.
    Unreachable,
    /// The name could not be resolved.
    NameResolution,
    /// TLS handshake.
    Tls,
    /// Not the protocol expected.
    Protocol,
    /// The command could not be run.
    Exec,
    /// The node's own fault: changes nothing.
    Internal,
}

/// What the workload did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// An HTTP answer.
    #[serde(rename_all = "camelCase")]
    Http {
        /// Status code.
        status: u16,
        /// `Retry-After`, in milliseconds.
        retry_after: Option<u64>,
        /// A redirect to another host was not followed.
        redirected_off_host: bool,
        /// The first bytes of the body, at most 1 KiB; redacted in records.
        #[serde(default)]
        body_start: String,
    },
    /// The TCP connection was opened.
    TcpOpen,
    /// `grpc.health.v1` status number.
    Grpc(u32),
    /// A command ended.
    #[serde(rename_all = "camelCase")]
    Exec {
        /// Exit code.
        exit_code: i32,
        /// The first bytes of its output, at most 1 KiB; redacted in records.
        #[serde(default)]
        output_start: String,
    },
    /// No answer.
    Failed(Failure),
}

/// What an attempt means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    /// Healthy.
    Success,
    /// Counts as success and is told.
    Warning,
    /// Unhealthy.
    Failure,
    /// Changes nothing.
    Unknown,
}

/// The spec's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Milliseconds.
    pub initial_delay: u64,
    /// Milliseconds.
    pub period: u64,
    /// Milliseconds.
    pub timeout: u64,
    /// Consecutive successes wanted.
    pub success_threshold: u32,
    /// Consecutive failures wanted.
    pub failure_threshold: u32,
}

/// The question. Single earlier attempts are the table `history`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// The pod.
    pub pod: PodFacts,
    /// The container.
    pub container: ContainerFacts,
    /// The node.
    pub node: NodeFacts,
    /// Which probe.
    pub kind: ProbeKind,
    /// The spec's numbers.
    pub spec: Spec,
    /// What happened.
    pub outcome: Outcome,
    /// Milliseconds that the attempt took.
    pub latency: u64,
    /// Milliseconds since the container started.
    pub running_for: u64,
    /// Consecutive results of one kind so far: positive for successes, negative for failures.
    pub streak: i32,
    /// What the default policy makes of it.
    pub default_verdict: Meaning,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// What it means.
    pub verdict: Meaning,
    /// When to look next, in milliseconds, instead of one period from now.
    #[serde(default)]
    pub next_in: Option<u64>,
    /// Termination grace in milliseconds, should this verdict end the container.
    #[serde(default)]
    pub grace: Option<u64>,
    /// Why, for people.
    #[serde(default)]
    pub reason: String,
}
