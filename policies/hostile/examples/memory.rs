//! Allocates without end, and touches what it gets.
#![allow(missing_docs)]

use polylet_hostile::{Hostile, Misbehave};
use polylet_sdk::Ask;

struct Memory;

impl Misbehave for Memory {
    const NAME: &str = "hostile-memory";

    fn misbehave(_: &Ask) -> String {
        let mut hoard: Vec<Vec<u8>> = Vec::new();
        loop {
            hoard.push(std::hint::black_box(vec![0xa5; 1 << 20]));
        }
    }
}

polylet_sdk::export!(Hostile<Memory>: restart, probe, qos, eviction);
