//! The crate against a runtime without containers: one binary, as each one costs a link of a gRPC server.

mod client;
mod events;
mod fake;
