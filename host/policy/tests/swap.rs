//! Policies are swapped while they are asked: every answer comes wholly from one of them, and none is lost.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use common::{guest, host, questions};
use polylet_core::effect::Rung;
use polylet_core::question::{Answer, Hook};
use polylet_policy::{Install, LimitSpec, install, revert, scan};
use serde_json::json;

/// Decisions of each thread.
const DECISIONS: u64 = 10_000;
const THREADS: u64 = 4;
/// Swaps at least, while decisions are made.
const SWAPS: u64 = 10;

/// Waits as long as its first half says, plus as long as its second half says: half of another's answer would be seen.
fn policy(delay: u64) -> Vec<u8> {
    let decide = format!(
        "(drop (call $wait (i64.const {delay})))
        (i64.store (i32.const 528) (i64.add (i64.load (i32.const 528)) (i64.const {delay}0000)))
        (i32.const 512)"
    );
    guest::restart("", "", &decide)
}

#[test]
fn ten_thousand_decisions_while_policies_are_swapped_and_none_is_lost_or_half_made() {
    let (folder, host) = (tempfile::tempdir().unwrap(), host());
    let path = folder.path();
    let bind = |name, component: &[u8]| {
        let limits = LimitSpec::default();
        install(path, &Install { name, hook: Hook::Restart, component, config: json!({}), limits }).unwrap();
        let applied = host.apply(&scan(path).unwrap());
        assert!(applied.errors.is_empty(), "{:?}", applied.errors);
    };
    bind("a", &policy(1));
    bind("b", &policy(2));
    let (running, asked, swaps) = (AtomicBool::new(true), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let askers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let question = questions::restart();
                    let mut seen = [0; 2];
                    let mut left = DECISIONS;
                    // On a busy machine the swaps take longer than the decisions.
                    while left > 0 || swaps.load(Ordering::Relaxed) < SWAPS {
                        left = left.saturating_sub(1);
                        let rung = host.bindings().rungs[&Hook::Restart][0].clone();
                        let answer = host.ask(&rung, &question).verdict.answer.expect("no decision is lost");
                        let Some(Answer::Restart(answer)) = answer else { panic!("{answer:?}") };
                        let Rung::Bound { name, .. } = rung else { panic!("{rung:?}") };
                        match (name.as_str(), answer.delay) {
                            ("a", 10_001) => seen[0] += 1,
                            ("b", 20_002) => seen[1] += 1,
                            other => panic!("{other:?}"),
                        }
                        asked.fetch_add(1, Ordering::Relaxed);
                    }
                    seen
                })
            })
            .collect();
        let swapper = scope.spawn(|| {
            while running.load(Ordering::Relaxed) {
                revert(path, Hook::Restart).unwrap();
                assert!(host.apply(&scan(path).unwrap()).changed);
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let seen: Vec<[u64; 2]> = askers.into_iter().map(|asker| asker.join().unwrap()).collect();
        running.store(false, Ordering::Relaxed);
        assert!(seen.iter().map(|seen| seen[0]).sum::<u64>() > 0 && seen.iter().map(|seen| seen[1]).sum::<u64>() > 0, "{seen:?}");
        swapper.join().unwrap();
    });
    assert!(asked.into_inner() >= THREADS * DECISIONS && swaps.into_inner() >= SWAPS);
}

#[test]
fn policies_that_were_unbound_can_be_asked_while_decisions_still_refer_to_them() {
    let (folder, host) = (tempfile::tempdir().unwrap(), host());
    let path = folder.path();
    let mut rungs = Vec::new();
    for delay in 1..=3 {
        let (component, limits) = (policy(delay), LimitSpec::default());
        let install_it = Install { name: "p", hook: Hook::Restart, component: &component, config: json!({}), limits };
        install(path, &install_it).unwrap();
        host.apply(&scan(path).unwrap());
        rungs.push(host.bindings().rungs[&Hook::Restart][0].clone());
    }
    for rung in &rungs {
        assert!(host.ask(rung, &Arc::clone(&questions::restart())).verdict.answer.is_ok());
    }
    let stranger = Rung::Bound { name: "p".into(), digest: "sha256:0".into(), config: "sha256:0".into() };
    let failure = host.ask(&stranger, &questions::restart()).verdict.answer.unwrap_err();
    assert_eq!(failure.to_string(), "host: policy p (sha256:0) is not bound any more");
}
