//! A seeded world around the core: a runtime, a store, policies and sources that misbehave, and an agent that is killed at any point.
//!
//! `run(seed)` plays one world to its end. Faults stop at [`CALM`]; by [`END`] everything must have converged. Invariants are checked as
//! things happen; the first one broken ends the run with a message that names the seed. A seed replays exactly.

mod broken;
mod calls;
mod check;
mod faults;
mod manifest;
mod policy;
pub(crate) mod runtime;
mod settings;
mod world;

pub use broken::Broken;
pub(crate) use settings::config;
pub use world::{Report, run, run_broken, run_hashed, run_traced};

/// Milliseconds of virtual time after which nothing fails any more.
pub const CALM: u64 = 60_000;
/// Milliseconds of virtual time at which everything must have converged.
pub const END: u64 = 1_500_000;

/// Random numbers of a world.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// From a seed; near seeds give unlike worlds.
    pub fn new(seed: u64) -> Self {
        let mut rng = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..4 {
            rng.next();
        }
        rng
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { (self.next() >> 11) % n }
    }

    /// True that often.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
