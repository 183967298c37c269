//! Panics, with a message.
#![allow(missing_docs)]

use polylet_hostile::{Hostile, Misbehave};
use polylet_sdk::Ask;

struct Panic;

impl Misbehave for Panic {
    const NAME: &str = "hostile-panic";

    fn misbehave(_: &Ask) -> String {
        panic!("the hostile policy panics on purpose")
    }
}

polylet_sdk::export!(Hostile<Panic>: restart, probe, qos, eviction);
