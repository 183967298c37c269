//! What others call: health, metrics and pods over HTTP, the administration socket, and its client.
//!
//! Reading order: [`health`] (probes and `/metrics`), [`metrics`] (what is counted), [`read_only`] (`readOnlyPort`), [`admin`] (the
//! socket), [`exec`] (commands over it), [`connection`] (what all of them are served with), [`client`] (its other end).
//!
//! **Invariant:** nothing here knows the node: values come through [`Admin`], counts through [`Metrics`].

mod admin;
mod client;
mod connection;
mod exec;
mod health;
mod metrics;
mod read_only;

pub use admin::{
    Admin, AdminError, BindError, BoxFuture, DecisionQuery, ExecQuery, LogPart, LogQuery, Pieces, Query, bind_admin, serve_admin,
};
pub use client::{AdminClient, ClientError, escaped};
pub use exec::Session;
pub use health::{Pulse, serve_health};
pub use metrics::Metrics;
pub use read_only::serve_read_only;
