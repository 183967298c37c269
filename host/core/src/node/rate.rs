//! A bucket of tokens: so many come each second, so many it holds, and it begins full.

use crate::config::Rate;
use crate::time::Mono;

/// What is in it, in thousandths of a token.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket(Option<(u64, Mono)>);

impl Bucket {
    /// Takes a token, where there is one.
    pub(super) fn take(&mut self, rate: Rate, now: Mono) -> bool {
        let full = u64::from(rate.burst) * 1000;
        let held = self.0.map_or(full, |(held, at)| {
            // A token a second is a thousandth of one a millisecond.
            let gained = u64::try_from(now.since(at).as_millis()).unwrap_or(u64::MAX).saturating_mul(u64::from(rate.per_second));
            held.saturating_add(gained).min(full)
        });
        let taken = held >= 1000;
        self.0 = Some((if taken { held - 1000 } else { held }, now));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let (rate, mut bucket) = (Rate { per_second: 2, burst: 3 }, Bucket::default());
        let mut taken = |ms: u64, tries: usize| (0..tries).filter(|_| bucket.take(rate, Mono(ms))).count();
        assert_eq!(taken(5, 5), 3);
        assert_eq!(taken(504, 1), 0);
        // What had come before counts on.
        assert_eq!(taken(505, 2), 1);
        assert_eq!(taken(1505, 5), 2);
        assert_eq!(taken(3_600_000, 9), 3, "never more than it holds");
        assert!(!Bucket::default().take(Rate { per_second: 1, burst: 0 }, Mono(0)));
    }
}
