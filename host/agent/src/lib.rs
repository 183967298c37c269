//! The agent as a library: what the binary `polylet` is made of.
//!
//! Reading order:
//! - what the operator wrote: [`document`] (bytes → a tree, errors by field), [`flags`] and [`config`] (→ `Settings`)
//! - what the operator wants to run: [`source`] (manifests → full sets of pods)
//! - what the agent is: [`settings`] → [`boot`] (with [`allocatable`]) → [`run`]; [`perform`] carries out effects (with
//!   [`resolv_conf`] and [`credentials`]), [`askers`] asks policies, [`tell`] says them; [`rotation`] goes its own way
//! - policies and people: [`policies`], [`admin`] ([`find`] which pod is meant, [`events`], [`stream`]: logs and commands), [`cli`], [`explain`]

pub mod admin;
pub mod allocatable;
pub mod askers;
pub mod boot;
pub mod cli;
pub mod config;
pub mod context;
pub mod credentials;
pub mod document;
pub mod events;
pub mod explain;
pub mod find;
pub mod flags;
pub mod network;
pub mod perform;
pub mod policies;
pub mod resolv_conf;
pub mod rotation;
pub mod run;
pub mod sampling;
pub mod settings;
pub mod source;
pub mod stream;
pub mod tell;
