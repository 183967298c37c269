//! The Wasm host: loads, limits, calls and records policies.
//!
//! Reading order:
//! - what a component must be: [`contract`] (checked without compiling), `bindings` (the contract's types, generated from `wit/`)
//! - from component to code: `engine`, [`compile`] (in a child process), `cache`, `loaded`
//! - one call: `ask`, `call` (its state), `imports`, `question` and `answer` (core types ⇄ contract), `failure`, [`limits`], `ticker`
//! - what policies remember: [`store`]
//! - what is bound: [`directory`] (scan, install, revert), `apply` (scan → ladder), [`host`] (all of it behind one handle)
//!
//! ```text
//! directory ── Scan ──► apply ── load ──► contract ─► cache ─► compile (child)
//!                         │                              └────► loaded ─► trial call
//!                         └─► Bindings ──► core ── Ask ──► ask ── Verdict ──► core;  writes ── accepted ──► store
//! ```
//!
//! **Invariant:** a guest sees values only, and every call has an instance of its own; nothing of a call outlives it but its answer and
//! the writes that were accepted. The only `unsafe` code loads machine code from the cache (and, in the child, closes descriptors).

mod answer;
mod apply;
mod ask;
mod bindings;
mod cache;
mod call;
pub mod compile;
pub mod contract;
mod default;
mod digest;
pub mod directory;
mod engine;
mod failure;
mod file;
pub mod host;
mod imports;
pub mod limits;
mod loaded;
mod question;
pub mod store;
mod ticker;

pub use apply::{Applied, MayCompile, Standing};
pub use ask::Asked;
pub use cache::CacheError;
pub use compile::{CHILD_ARGUMENT, Compiler, compile_child_main};
pub use default::default_component;
pub use digest::{config_digest, digest_of};
pub use directory::{Binding, BindingError, Install, Scan, check_limits, install, revert, scan, unbind};
pub use host::{LoadError, LoadSpec, PolicyHost, Settings, Source, read_component};
pub use limits::{LimitSpec, Limits};
pub use loaded::{Description, LoadedPolicy};
pub use store::{Persist, PolicyStore, Writes};
