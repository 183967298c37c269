//! Backoff against the behaviour of CrashLoopBackOff and ImagePullBackOff.
#![allow(missing_docs)]

use polylet_upstream::restart::{Bounds, Entry, advance, delay};

const CRASH: Bounds = Bounds::CRASH;

/// A container that runs for `ran_ms` each time: the delays before its restarts.
fn crash_loop(ran_ms: u64, bounds: Bounds, restarts: usize) -> Vec<u64> {
    let mut entry = None;
    let mut now = 1_700_000_000_000;
    let mut delays = Vec::new();
    for _ in 0..restarts {
        let finished = now + ran_ms;
        let wait = delay(entry, finished, bounds);
        delays.push(wait);
        now = finished + wait;
        entry = Some(advance(entry, finished, now, bounds));
    }
    delays
}

#[test]
fn first_restart_is_immediate_then_ten_seconds_double_to_five_minutes() {
    let seconds: Vec<_> = crash_loop(100, CRASH, 9).into_iter().map(|delay| delay / 1000).collect();
    assert_eq!(seconds, [0, 10, 20, 40, 80, 160, 300, 300, 300]);
}

#[test]
fn a_run_longer_than_ten_minutes_forgives_all() {
    assert_eq!(crash_loop(600_001, CRASH, 4), [0, 0, 0, 0]);
    assert_eq!(crash_loop(590_000, CRASH, 4), [0, 10_000, 10_000, 10_000]);
}

#[test]
fn a_wait_ends_ten_minutes_after_the_last_start() {
    // It would be five minutes: of run and wait together, ten are forgiven.
    let old = Entry { backoff_ms: 300_000, updated_ms: 1_000_000 };
    assert_eq!(delay(Some(old), 1_400_000, CRASH), 200_000);
    assert_eq!(advance(Some(old), 1_400_000, 1_600_000, CRASH).backoff_ms, 10_000);
    assert_eq!(delay(Some(old), 1_300_000, CRASH), 300_000);
    assert_eq!(advance(Some(old), 1_300_000, 1_599_999, CRASH).backoff_ms, 300_000);
}

#[test]
fn after_a_long_run_the_entry_starts_again() {
    let old = Entry { backoff_ms: 160_000, updated_ms: 1_000_000 };
    let fresh = advance(Some(old), 1_600_001, 1_600_002, CRASH);
    assert_eq!(fresh, Entry { backoff_ms: 10_000, updated_ms: 1_600_002 });
    let doubled = advance(Some(old), 1_500_000, 1_599_999, CRASH);
    assert_eq!(doubled, Entry { backoff_ms: 300_000, updated_ms: 1_599_999 });
}

#[test]
fn a_failed_pull_advances_before_it_waits() {
    let bounds = Bounds::IMAGE_PULL;
    let mut entry = None;
    let mut now = 5_000;
    let mut delays = Vec::new();
    for _ in 0..7 {
        let next = advance(entry, now, now, bounds);
        entry = Some(next);
        let wait = delay(entry, now, bounds);
        delays.push(wait / 1000);
        now += wait + 500;
    }
    assert_eq!(delays, [10, 20, 40, 80, 160, 300, 300]);
    // Twice the maximum of idleness and it is forgotten.
    assert_eq!(advance(entry, now + 600_001, now + 600_001, bounds).backoff_ms, 10_000);
}

#[test]
fn a_pod_is_retried_at_a_steady_pace() {
    let entry = advance(None, 7, 7, Bounds::POD_RETRY);
    assert_eq!(advance(Some(entry), 10_007, 10_007, Bounds::POD_RETRY).backoff_ms, 10_000);
}

#[test]
fn the_configured_maximum_lowers_the_first_backoff() {
    let seconds = |maximum| crash_loop(0, Bounds::crash_up_to(maximum), 5);
    assert_eq!(seconds(1_000), [0, 1_000, 1_000, 1_000, 1_000]);
    assert_eq!(seconds(25_000), [0, 10_000, 20_000, 25_000, 25_000]);
    assert_eq!(Bounds::crash_up_to(300_000), CRASH);
}

#[test]
fn a_clock_set_back_counts_as_recent() {
    let entry = Entry { backoff_ms: 40_000, updated_ms: 9_000_000 };
    assert_eq!(delay(Some(entry), 1, CRASH), 40_000);
}

#[test]
fn absurd_numbers_do_not_overflow() {
    let entry = Entry { backoff_ms: u64::MAX, updated_ms: 1 };
    let bounds = Bounds { initial_ms: 1, maximum_ms: u64::MAX, reset_after_ms: u64::MAX };
    assert_eq!(delay(Some(entry), 0, bounds), u64::MAX);
    assert_eq!(delay(Some(entry), u64::MAX, bounds), 0);
    assert_eq!(advance(Some(entry), u64::MAX, u64::MAX, bounds).backoff_ms, u64::MAX);
}
