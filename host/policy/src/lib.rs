//! The Wasm host: loads, limits, calls and records policies.
