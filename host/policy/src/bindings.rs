//! The contract's Rust types, generated at compile time from `wit/policy.wit`.

#![allow(unsafe_code, missing_docs, unreachable_pub, clippy::all, reason = "generated")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "policy",
    imports: { default: trappable },
});

pub(crate) use exports::polylet::policy::{about, eviction, probe, qos, restart};
pub(crate) use polylet::policy::{facts, log, settings, store, types, words};
