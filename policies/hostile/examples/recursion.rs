//! Recurses without end.
#![allow(missing_docs)]

use polylet_hostile::{Hostile, Misbehave};
use polylet_sdk::Ask;

struct Recursion;

impl Misbehave for Recursion {
    const NAME: &str = "hostile-recursion";

    fn misbehave(ask: &Ask) -> String {
        format!("recursion ended with {}", deeper(ask.number("node.cpus").unwrap_or(1).unsigned_abs()))
    }
}

polylet_sdk::export!(Hostile<Recursion>: restart, probe, qos, eviction);

/// Takes of the engine's stack, and nothing of the stack in the guest's own memory. What is done with the result is not
/// associative, so that no compiler makes a loop of it.
fn deeper(depth: u64) -> u64 {
    if depth == u64::MAX { 0 } else { deeper(depth + 1).rotate_left(1).wrapping_add(depth) }
}
