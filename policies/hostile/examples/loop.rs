//! Never answers.
#![allow(missing_docs)]

use polylet_hostile::{Hostile, Misbehave};
use polylet_sdk::Ask;

struct Loop;

impl Misbehave for Loop {
    const NAME: &str = "hostile-loop";

    fn misbehave(_: &Ask) -> String {
        let mut turns = 0u64;
        loop {
            turns = std::hint::black_box(turns.wrapping_add(1));
        }
    }
}

polylet_sdk::export!(Hostile<Loop>: restart, probe, qos, eviction);
