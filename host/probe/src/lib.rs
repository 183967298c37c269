//! What the node says to workloads: HTTP, TCP and gRPC probes, HTTP hooks.
//!
//! Reading order:
//! - [`probe`] makes one attempt and says what the workload did; what that means is judged elsewhere
//! - [`exec_outcome`] says the same of a command, which the runtime runs
//! - [`hook_http`] sends a lifecycle hook's request
//! - below them: `http` (requests and redirects), `target` (URLs), `headers`, `grpc`, `tls`, `socket`, `trouble` (what goes wrong,
//!   in upstream's words)
//!
//! **Invariant:** a workload is not trusted. Every attempt ends by its deadline, and holds no more of an answer than is looked at.

mod attempt;
mod exec;
mod grpc;
mod headers;
mod hook;
mod http;
mod socket;
mod target;
mod tls;
mod trouble;

pub use attempt::{Attempt, probe};
pub use exec::{ExecEnd, exec_outcome};
pub use hook::{HookDone, HookError, hook_http};

#[cfg(test)]
mod tests;
