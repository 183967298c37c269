//! Sampling the node, and ending pods when something is short.

use std::sync::Arc;

use crate::effect::Effect;
use crate::event::CallError;
use crate::sample::Sample;
use crate::time::{Mono, Now};

use super::Node;
use super::asks::Settled;

/// What the node knows of its own state.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    next: Option<Mono>,
    last: Option<Arc<Sample>>,
}

impl Pressure {
    pub(super) fn next(&self) -> Option<Mono> {
        self.next
    }

    pub(super) fn conditions(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Node {
    pub(super) fn sample_if_due(&mut self, _now: Now, _out: &mut Vec<Effect>) {}

    pub(super) fn sampled(&mut self, _now: Now, result: Result<Arc<Sample>, CallError>, _out: &mut Vec<Effect>) {
        if let Ok(sample) = result {
            self.pressure.last = Some(sample);
        }
    }

    pub(super) fn pressure_settled(&mut self, _now: Now, _settled: Settled, _out: &mut Vec<Effect>) {}
}
