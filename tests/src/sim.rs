//! A seeded world around the core: a runtime, a store, policies and sources that misbehave, and an agent that is killed at any point.
//!
//! `run(seed)` plays one world to its end. Faults stop at [`CALM`]; by [`END`] everything must have converged. Invariants are checked as
//! things happen; the first one broken ends the run with a message that names the seed. A seed replays exactly.
//!
//! | file | what it is |
//! |---|---|
//! | `world` | one world: its time, what is to happen in it |
//! | `agent` | the lives of the agent, what goes into the core and what comes out |
//! | `peers`, `runtime` | what becomes of a request; what the runtime has |
//! | `manifest`, `settings`, `policy` | pods, settings and policies, drawn at random |
//! | `faults` | what goes wrong, what people change |
//! | `rule` | the invariants by name |
//! | `check`, `graces` | what has to hold of acts and statuses; of the time that ends take |
//! | `progress`, `next` | what has to hold of beginnings: when, and on which look; what is to be begun |
//! | `converged` | what has to hold in the end |
//! | `broken` | cores that lack a rule |

mod agent;
mod broken;
pub(crate) mod calls;
mod check;
mod converged;
mod faults;
mod graces;
mod manifest;
mod next;
mod peers;
mod policy;
mod progress;
mod rule;
pub(crate) mod runtime;
mod settings;
mod world;

pub use broken::Broken;
pub use rule::{Breach, Failure, Rule};
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
