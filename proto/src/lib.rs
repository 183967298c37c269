//! The gRPC contracts of the node and their types.
//!
//! The contracts are the `.proto` files beside `src/`; the code in `src/generated/` is made from them and checked in, so
//! that building needs no `protoc`. After editing a contract: `cargo run -p polylet-proto --example generate`.
//!
//! Maps are `BTreeMap`s, so that two equal messages print and encode alike. Enum fields are `i32`, as the peer may be
//! newer than we are: read them through the generated getters, which answer the zero value for what is unknown. A method
//! of a server trait that is not written answers UNIMPLEMENTED. `Debug` shows neither credentials nor environment values;
//! [`json`] shows all.

mod json;
mod redacted;

pub use json::{JsonError, json};

/// The Container Runtime Interface: messages, clients and server traits of `RuntimeService` and `ImageService`.
///
/// Its field comments give the units; the wire contract is compared with `tests/cri-v1.tsv`.
pub mod cri {
    #![allow(missing_docs, deprecated, clippy::all, clippy::pedantic)]
    include!("generated/runtime.v1.rs");
}

/// containerd's own event service, and the task events that it carries.
pub mod containerd {
    #![allow(missing_docs, clippy::all, clippy::pedantic)]
    include!("generated/containerd.services.events.v1.rs");

    /// What [`Envelope::event`] holds: the type URL is the bare name, such as `containerd.events.TaskExit`.
    pub mod task {
        include!("generated/containerd.events.rs");
    }
}

/// The health protocol of gRPC, for probes.
pub mod health {
    #![allow(missing_docs, clippy::all, clippy::pedantic)]
    include!("generated/grpc.health.v1.rs");
}

/// The contracts as an encoded `google.protobuf.FileDescriptorSet`, without comments and imports: for whoever must know
/// messages by name, such as a printer or a fault proxy.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
