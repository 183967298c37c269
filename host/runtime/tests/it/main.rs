//! The crate against a fake runtime; `tests/e2e` has a real one. One binary, as each costs a link of a gRPC server.

mod client;
mod events;
mod fake;
mod pods;
