//! Time comes in as a value: the core never asks for it.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// As long as anything is waited for, a century: a grace period may be any number of seconds, clocks end some day, and what a runtime
/// written in Go counts in nanoseconds ends after three.
pub const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Wall-clock instant in milliseconds since the Unix epoch. May jump either way between two events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Wall(pub u64);

/// Monotonic instant in milliseconds since an arbitrary origin (the boot of the machine). Never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mono(pub u64);

/// Both clocks at the moment an event is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// For what is compared with the runtime's or the API's instants, and for what is shown.
    pub wall: Wall,
    /// For waiting.
    pub mono: Mono,
}

impl Now {
    /// The monotonic instant at which the wall clock will show `at`, if it runs true; the present when that has passed.
    pub fn mono_at(&self, at: Wall) -> Mono {
        self.mono + at.since(self.wall)
    }
}

macro_rules! instant {
    ($t:ident) => {
        impl $t {
            /// Time elapsed from `earlier` to `self`; zero when `earlier` is later.
            pub fn since(self, earlier: $t) -> Duration {
                Duration::from_millis(self.0.saturating_sub(earlier.0))
            }
        }

        impl Add<Duration> for $t {
            type Output = $t;
            fn add(self, d: Duration) -> $t {
                $t(self.0.saturating_add(millis(d)))
            }
        }

        impl Sub<Duration> for $t {
            type Output = $t;
            fn sub(self, d: Duration) -> $t {
                $t(self.0.saturating_sub(millis(d)))
            }
        }

        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} ms", self.0)
            }
        }
    };
}

instant!(Wall);
instant!(Mono);

/// A duration in whole milliseconds, saturating.
pub fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}
