//! Simulator, scenarios and benchmarks.

pub mod scenario;
pub mod sim;
