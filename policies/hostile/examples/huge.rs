//! Logs a mebibyte, and answers with as much.
#![allow(missing_docs)]

use polylet_hostile::{Hostile, Misbehave};
use polylet_sdk::Ask;

struct Huge;

impl Misbehave for Huge {
    const NAME: &str = "hostile-huge";

    fn misbehave(ask: &Ask) -> String {
        let mebibyte = "x".repeat(1 << 20);
        ask.error(&mebibyte);
        mebibyte
    }
}

polylet_sdk::export!(Hostile<Huge>: restart, probe, qos, eviction);
