//! Waiting for something to become true: polled, with a deadline, and with a reason when it did not.

use std::time::{Duration, Instant};

/// How long anything may take: `POLYLET_E2E_SECONDS`, or 180 s. On two free cores nothing here takes a fifth of it; only failures wait it
/// out.
///
/// # Panics
/// When the variable is no whole number.
pub fn patience() -> Duration {
    let seconds =
        std::env::var("POLYLET_E2E_SECONDS").map_or(180, |text| text.parse().expect("POLYLET_E2E_SECONDS: whole seconds"));
    Duration::from_secs(seconds)
}

/// Between two looks.
const EVERY: Duration = Duration::from_millis(50);

/// Looks until there is something to see, and answers it.
///
/// # Panics
/// When there is nothing within the time, with `what` and what `why` has to say.
pub fn wait<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>, why: impl FnOnce() -> String) -> T {
    let deadline = Instant::now() + within;
    loop {
        // The time is taken first: on a slow machine the last look is one that began in time.
        let last = Instant::now() >= deadline;
        if let Some(seen) = look() {
            return seen;
        }
        assert!(!last, "not within {within:?}: {what}\n{}", why());
        std::thread::sleep(EVERY);
    }
}
