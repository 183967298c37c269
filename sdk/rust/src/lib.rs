//! What an author of a Polylet policy uses.
//!
//! A policy is a value made from its configuration, and answers the questions of the hooks that it is exported for:
//!
//! ```
//! use polylet_sdk::{Ask, Config, Policy, restart::{Action, Answer, Question, Restart}};
//!
//! /// Never waits longer than a minute.
//! struct Impatient;
//!
//! impl Policy for Impatient {
//!     const NAME: &str = "impatient";
//!     const VERSION: &str = env!("CARGO_PKG_VERSION");
//!     const SUMMARY: &str = "Waits as the default does, but never longer than a minute.";
//!
//!     fn configure(_: &Config) -> Result<Self, String> {
//!         Ok(Self)
//!     }
//! }
//!
//! impl Restart for Impatient {
//!     fn decide(&self, _: &Ask, question: &Question) -> Option<Answer> {
//!         let delay = question.default_delay.min(60_000);
//!         Some(Answer { action: Action::Wait(delay), reason: String::new() })
//!     }
//! }
//!
//! polylet_sdk::export!(Impatient: restart);
//! ```
//!
//! All that the node knows beyond the question is reached through [`Ask`]; a policy has no other way out. So a native test
//! needs no Wasm: a [`harness::Harness`] answers in the node's place.
//!
//! | module | what it is |
//! |---|---|
//! | [`policy`] | who a policy is, and how it is made from its configuration |
//! | [`restart`], [`probe`], [`qos`], [`eviction`] | the hooks: a trait, and the types of its question and answer |
//! | [`types`] | the facts of pods, containers and node, that all questions hold |
//! | [`ask`], [`facts`] | what the node can be asked: words, memory, log; facts by name |
//! | [`config`], [`json`] | reading a configuration, with messages that name the field |
//! | [`harness`], [`samples`] | for native tests |

#![deny(unsafe_code)]

pub mod ask;
#[doc(hidden)]
pub mod bindings;
pub mod config;
#[doc(hidden)]
pub mod export;
pub mod facts;
pub mod harness;
pub mod hooks;
pub mod json;
pub mod policy;
pub mod samples;

pub use ask::Ask;
pub use bindings::types;
pub use config::Config;
pub use hooks::{eviction, probe, qos, restart};
pub use policy::Policy;
