//! Thousands of seeded worlds: see `polylet_tests::sim`.

use polylet_tests::sim::{Broken, Failure, run, run_broken, run_hashed, run_traced};

/// Seeds in one run; `SEEDS` asks for more or fewer.
const SEEDS: u64 = 5_000;

#[test]
fn every_world_keeps_the_invariants_and_converges() {
    let seeds: u64 = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(SEEDS);
    let from: u64 = std::env::var("FROM").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let begun = std::time::Instant::now();
    let threads = 2;
    let results: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|t| {
                scope.spawn(move || {
                    let mine = (from..from + seeds).filter(move |s| s % threads == t);
                    mine.map(run).fold((0u64, 0u64, Vec::new()), |(steps, acts, mut bad), r| match r {
                        Ok(report) => (steps + report.steps, acts + report.acts, bad),
                        Err(what) => {
                            bad.push(what);
                            (steps, acts, bad)
                        }
                    })
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().expect("a world does not panic")).collect()
    });
    let steps: u64 = results.iter().map(|r| r.0).sum();
    let acts: u64 = results.iter().map(|r| r.1).sum();
    let bad: Vec<&Failure> = results.iter().flat_map(|r| &r.2).collect();
    println!("{seeds} seeds, {steps} steps, {acts} acts, {} bad, {:?}", bad.len(), begun.elapsed());
    for what in bad.iter().take(8) {
        println!("{what}\n");
    }
    assert!(bad.is_empty(), "{} of {seeds} worlds broke; the first: {}", bad.len(), bad[0]);
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [3, 7, 11] {
        let report = run_hashed(seed);
        assert_eq!(report, run_hashed(seed));
        assert_ne!(report.expect("the world holds").fingerprint, 0);
    }
}

/// A core that lacks a rule must be caught by the invariant that stands for it, or the worlds prove nothing. That it panics, or breaks
/// something else, does not count.
#[test]
fn broken_cores_are_caught() {
    const WORLDS: u64 = 1_500;
    let mut uncaught = Vec::new();
    for broken in Broken::ALL {
        let mut others = std::collections::BTreeMap::<String, u32>::new();
        let caught = (1..=WORLDS).any(|seed| {
            let rule = match std::panic::catch_unwind(|| run_broken(seed, broken)) {
                Ok(Ok(_)) => return false,
                Ok(Err(failure)) => failure.breach.rule,
                Err(_) => {
                    *others.entry("panic".into()).or_default() += 1;
                    return false;
                }
            };
            *others.entry(format!("{rule:?}")).or_default() += 1;
            rule == broken.breaks()
        });
        if !caught {
            uncaught.push(format!("{broken:?} by {:?}, but {others:?}", broken.breaks()));
        }
    }
    assert!(uncaught.is_empty(), "in {WORLDS} worlds nobody noticed {uncaught:#?}");
}

/// `SEED=n` prints that world as it goes, with `--nocapture`.
#[test]
fn replay() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    run_traced(seed).expect("the world holds");
}
