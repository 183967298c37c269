//! What others call: health and metrics over HTTP, the administration socket, and its client.
//!
//! Reading order: [`health`] (probes and `/metrics`), [`metrics`] (what is counted), [`admin`] (the socket), [`client`] (its other end).
//!
//! **Invariant:** nothing here knows the node: values come through [`Admin`], counts through [`Metrics`].

mod admin;
mod client;
mod health;
mod metrics;

pub use admin::{Admin, AdminError, BindError, BoxFuture, DecisionQuery, Query, bind_admin, serve_admin};
pub use client::{AdminClient, ClientError};
pub use health::{Pulse, serve_health};
pub use metrics::Metrics;
