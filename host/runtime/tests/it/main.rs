//! The crate against runtimes: a fake one and, where there is one, containerd. One binary, as each costs a link of a gRPC server.

mod client;
mod containerd;
mod events;
mod fake;
mod pods;
