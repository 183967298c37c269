//! Every decision of the node agent, pure: no I/O, no clock, no async, no randomness that is not passed in.
//!
//! Reading order:
//! - values: [`id`], [`time`], [`quantity`], [`config`], [`paths`], [`volume`], [`userns`]
//! - what is wanted and what is there: [`pod`], [`observed`], [`sample`]
//! - rules over them: [`restart`], [`probe`], [`status`], [`evict`], [`guard`], [`ask`]
//! - what one pod needs: [`decide`]; all pods: [`node`]
//! - what goes in and comes out: [`event`], [`effect`], [`record`], [`say`]
//! - what adapters hand each other past it: [`stream`]
//! - policies: [`question`], [`decision`], [`ladder`]
//!
//! **Invariant:** one event in, effects out, in an order that counts. Nothing here awaits, logs, reads a clock or holds a lock.

#![forbid(unsafe_code)]

pub mod ask;
pub mod config;
pub mod decide;
pub mod decision;
pub mod desired;
pub mod effect;
pub mod event;
pub mod evict;
pub mod guard;
pub mod id;
pub mod ladder;
pub mod node;
pub mod observed;
pub mod paths;
pub mod pod;
pub mod probe;
pub mod quantity;
pub mod question;
pub mod record;
pub mod restart;
pub mod sample;
pub mod say;
pub mod status;
pub mod stream;
pub mod time;
pub mod userns;
pub mod volume;

#[cfg(test)]
mod testing;
