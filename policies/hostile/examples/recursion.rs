//! Recurses without end.
#![allow(missing_docs)]

use polylet_hostile::{Hostile, Misbehave};
use polylet_sdk::Ask;

struct Recursion;

impl Misbehave for Recursion {
    const NAME: &str = "hostile-recursion";

    fn misbehave(_: &Ask) -> String {
        format!("recursion ended with {}", deeper(0))
    }
}

polylet_sdk::export!(Hostile<Recursion>: restart, probe, qos, eviction);

fn deeper(depth: u64) -> u64 {
    // The frame must stay: this may become neither a tail call nor a loop.
    let frame = std::hint::black_box([depth; 32]);
    if std::hint::black_box(depth) == u64::MAX {
        return 0;
    }
    deeper(depth + 1) ^ frame[(depth % 32) as usize]
}
