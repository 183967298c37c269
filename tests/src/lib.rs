//! Simulator, scenarios, end-to-end tests and benchmarks.

pub mod sim;
