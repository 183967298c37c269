//! Simulator, scenarios, end-to-end tests and benchmarks.

pub mod scenario;
pub mod sim;
