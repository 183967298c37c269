//! Imports a clock, which no policy may have.
#![allow(missing_docs, unsafe_code, clippy::all)]

use polylet_hostile::{Hostile, Misbehave};
use polylet_sdk::Ask;

#[cfg(target_arch = "wasm32")]
mod clock {
    wit_bindgen::generate!({ path: "wit/forbidden-import" });

    pub(super) fn seconds() -> u64 {
        wasi::clocks::wall_clock::now().seconds
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod clock {
    pub(super) fn seconds() -> u64 {
        0
    }
}

struct ForbiddenImport;

impl Misbehave for ForbiddenImport {
    const NAME: &str = "hostile-forbidden-import";

    fn misbehave(_: &Ask) -> String {
        format!("it is {} s past the epoch", clock::seconds())
    }
}

polylet_sdk::export!(Hostile<ForbiddenImport>: restart, probe, qos, eviction);
