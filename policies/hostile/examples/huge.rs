//! Logs 8 MiB, and answers with as much.
#![allow(missing_docs)]

use polylet_hostile::{Hostile, Misbehave};
use polylet_sdk::Ask;

struct Huge;

impl Misbehave for Huge {
    const NAME: &str = "hostile-huge";

    fn misbehave(ask: &Ask) -> String {
        let megabytes = "x".repeat(8 << 20);
        ask.error(&megabytes);
        megabytes
    }
}

polylet_sdk::export!(Hostile<Huge>: restart, probe, qos, eviction);
