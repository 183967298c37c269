//! The CRI side: client, translation of a pod into CRI messages, observation, events.
//!
//! In reading order: [`Client`] has one method for each call of the CRI, with its deadline, and [`CallError`] says what follows
//! when one fails; [`Capabilities`] is what this runtime can do; [`hints`] are what it tells unasked. [`sandbox_config`] and
//! [`container_config`] put a pod into the runtime's words, under the labels of [`key`]. [`exec`] runs a command with its streams
//! connected.

mod capabilities;
mod client;
mod endpoint;
mod error;
mod events;
mod exec;
pub mod key;
mod observe;
mod operation;
mod signal;
mod translate;
pub mod verbs;

pub use capabilities::{Capabilities, CgroupDriver, Degraded, HandlerFeatures, runtime_state};
pub use client::{Client, Config, MESSAGE_LIMIT, Messages, Observer, REQUEST_TIMEOUT};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{CallError, Kind};
pub use events::{Hints, Way, hints};
pub use exec::{Command, ExecError, exec};
pub use observe::{Layer, list, observe, writable_layers};
pub use operation::Operation;
/// The contract's messages, for whoever fills or shows them.
pub use polylet_proto::cri;
/// The messages as JSON.
pub use polylet_proto::json as message_json;
pub use signal::signal_names;
pub use translate::{
    ContainerInputs, NodeContext, ResolvConf, Swap, TranslateError, Translated, container_config, env_files, exec_probe_command,
    has_own_users, hostname, page_size_name, sandbox_config, spec_container, sub_paths, volume_files,
};
