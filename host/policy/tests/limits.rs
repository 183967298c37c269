//! Policies that behave badly: each ends alone, is told apart, and costs the next call nothing.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{answer, built, check_failure, guest, host, host_with, load, questions, spec};
use polylet_core::question::restart::Answer as Restart;
use polylet_core::question::{Answer, Body, FailureKind};
use polylet_policy::{LimitSpec, PolicyHost};

const LOG: &str = r#"(import "polylet:policy/log@0.1.0" "write" (func $log (param i32 i32 i32)))"#;
const NUMBER: &str = r#"(import "polylet:policy/facts@0.1.0" "number" (func $number (param i32 i32 i32)))"#;

#[track_caller]
fn check_hostile(name: &str, kind: FailureKind, message: &str) {
    let host = host();
    let hostile = load(&host, built(&format!("hostile/{name}")));
    for question in questions::all() {
        check_failure(&host, &hostile, &question, kind, message);
    }
    answers_like_ever(&host);
}

/// The neighbour is not affected.
#[track_caller]
fn answers_like_ever(host: &PolicyHost) {
    let default = load(host, built("default"));
    let expected = Answer::Restart(Restart { delay: 10_000, give_up: false, reason: String::new() });
    assert_eq!(answer(host.ask_policy(&default, &questions::restart())), Some(expected));
}

#[test]
fn a_loop_ends_with_its_fuel() {
    check_hostile("loop", FailureKind::Fuel, "spent its budget of ");
}

#[test]
fn growth_past_the_limit_is_memory_whatever_the_guest_does_then() {
    let host = host();
    let mut spec = spec(built("hostile/memory"));
    // It touches what it gets, which costs fuel too: a sixteenth of its budget would do without.
    spec.limits = LimitSpec { fuel: Some(1_000_000_000), memory: Some(8 << 20), ..LimitSpec::default() };
    let hostile = host.load(&spec).unwrap();
    for question in questions::all() {
        check_failure(&host, &hostile, &question, FailureKind::Memory, "wants ");
    }
    answers_like_ever(&host);
}

#[test]
fn recursion_is_a_trap() {
    check_hostile("recursion", FailureKind::Trap, "the stack overflowed: it recurses too deeply");
}

#[test]
fn a_panic_is_a_trap_with_the_panics_words() {
    check_hostile("panic", FailureKind::Trap, "panicked at ");
}

#[test]
fn a_huge_answer_is_a_bad_answer() {
    let host = host();
    let huge = load(&host, built("hostile/huge"));
    // The answer of `assess` has no place for a text of its own.
    for question in questions::all().into_iter().filter(|question| !matches!(question.body, Body::Assess(_))) {
        let message = match question.body {
            // The list beside the text makes it more than may be handed over at all.
            Body::Rank(_) | Body::Qos(_) => "the answer is longer than the 1048576 bytes allowed",
            _ => "the reason is 1048576 bytes long; 4096 are allowed",
        };
        check_failure(&host, &huge, &question, FailureKind::BadAnswer, message);
        let log = host.ask_policy(&huge, &question).verdict.log;
        assert!(log.iter().map(|(_, message)| message.len()).sum::<usize>() <= 4096, "the log is cut");
    }
}

#[test]
fn an_answer_larger_than_may_be_handed_over_is_not_even_copied() {
    let host = host();
    let decide = "(drop (call $wait (i64.const 1))) (i32.store (i32.const 536) (i32.const 1024))
        (i32.store (i32.const 540) (i32.const 1310720)) (i32.const 512)";
    let long = load(&host, guest::restart_with_memory("", "", decide, 32));
    let message = "the answer is longer than the 1048576 bytes allowed";
    check_failure(&host, &long, &questions::restart(), FailureKind::BadAnswer, message);
}

#[test]
fn answers_of_the_wrong_size_are_bad_answers() {
    let host = host();
    let absurd = load(&host, built("hostile/absurd"));
    let check = |question, message| check_failure(&host, &absurd, &question, FailureKind::BadAnswer, message);
    check(questions::qos(), "3 container placements for 2 asked about");
    check(questions::assess(), "1000 shortages; 16 are allowed");
    check(questions::rank(2), "3 victims for 2 asked about");
    // Whether the others may be obeyed is for the guard.
    assert!(answer(host.ask_policy(&absurd, &questions::rank(3))).is_some());
    assert!(answer(host.ask_policy(&absurd, &questions::restart())).is_some());
}

#[test]
fn the_backstop_fires_where_fuel_does_not_end_it() {
    let host = host();
    let mut spec = spec(built("hostile/loop"));
    spec.limits = LimitSpec { fuel: Some(u64::MAX / 2), timeout: Some(Duration::from_millis(50)), ..LimitSpec::default() };
    let hostile = host.load(&spec).unwrap();
    // The ticker has gone to sleep by then, and must wake up.
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    check_failure(&host, &hostile, &questions::restart(), FailureKind::Timeout, "had no answer after 50 ms");
    assert!(began.elapsed() >= Duration::from_millis(50));
}

#[test]
fn memory_is_limited_by_the_binding() {
    let host = host();
    let mut small = spec(guest::restart_with_memory("", "", "(call $wait (i64.const 1))", 16));
    small.limits.memory = Some(1 << 20);
    assert!(host.load(&small).is_ok());
    small.limits.memory = Some((1 << 20) - 1);
    assert_eq!(
        common::whole(&host.load(&small).err().unwrap()),
        "instantiation failed on trial: memory: wants 1048576 bytes of memory, of 1048575 allowed"
    );
}

/// A second memory beside the first: each alone would be allowed.
#[test]
fn the_limit_is_that_of_all_memories_together() {
    let host = host();
    let beside = |module: &str| {
        let first = guest::restart_with_memory("", "", "(call $wait (i64.const 1))", 8);
        let mut spec = spec(guest::beside(first, &format!("(module {module})")));
        spec.limits.memory = Some(1 << 20);
        host.load(&spec)
    };
    let refused = "instantiation failed on trial: memory: wants 1114112 bytes of memory, of 1048576 allowed";
    let grow = "(func $grow (drop (memory.grow (i32.const 1))) (drop (memory.grow (i32.const 1)))) (start $grow)";
    for (module, allowed) in [
        ("(memory 8)".to_owned(), true),
        ("(memory 9)".to_owned(), false),
        (format!("(memory 6) {grow}"), true),
        (format!("(memory 7) {grow}"), false),
        // What a memory may not have by its own maximum is not counted.
        (format!("(memory 7 7) {grow}"), true),
    ] {
        match (beside(&module), allowed) {
            (Ok(policy), true) => assert!(answer(host.ask_policy(&policy, &questions::restart())).is_some(), "{module}"),
            (Err(error), false) => assert_eq!(common::whole(&error), refused, "{module}"),
            (loaded, _) => panic!("{module}: {:?}", loaded.err().map(|error| common::whole(&error))),
        }
    }
}

#[test]
fn a_memory_larger_than_any_slot_is_refused_at_load() {
    let error = host().load(&spec(guest::restart_with_memory("", "", "unreachable", 2_000))).err().unwrap();
    assert!(common::whole(&error).starts_with("the component cannot be instantiated: "), "{}", common::whole(&error));
}

#[test]
fn answers_that_cannot_be_read_are_bad_answers() {
    let host = host();
    let cases = [
        // The discriminant of the option.
        "(i32.store8 (i32.const 512) (i32.const 7)) (i32.const 512)",
        // An answer outside the memory.
        "(i32.const -8)",
        // A reason outside the memory.
        "(drop (call $wait (i64.const 1))) (i32.store (i32.const 536) (i32.const -1)) (i32.store (i32.const 540) (i32.const 9)) (i32.const 512)",
        // A reason that is not UTF-8.
        "(drop (call $wait (i64.const 1))) (i32.store8 (i32.const 700) (i32.const 255)) (i32.store (i32.const 536) (i32.const 700)) \
         (i32.store (i32.const 540) (i32.const 1)) (i32.const 512)",
    ];
    for decide in cases {
        let bad = load(&host, guest::restart("", "", decide));
        check_failure(&host, &bad, &questions::restart(), FailureKind::BadAnswer, "the answer cannot be read: ");
    }
}

#[test]
fn an_abstention_is_no_failure() {
    let host = host();
    let abstains = load(&host, guest::restart("", "", "(i32.const 1024)"));
    assert_eq!(answer(host.ask_policy(&abstains, &questions::restart())), None);
}

#[test]
fn the_log_is_cut_at_its_quota_and_the_last_error_still_heard() {
    let host = host();
    let chatters = "(local $i i32)
        (loop $again
          (call $log (i32.const 1) (i32.const 25) (i32.const 7))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br_if $again (i32.lt_u (local.get $i) (i32.const 1000))))
        (call $log (i32.const 3) (i32.const 16) (i32.const 4))
        unreachable";
    let policy = load(&host, guest::restart(LOG, "", chatters));
    let verdict = host.ask_policy(&policy, &questions::restart()).verdict;
    assert_eq!(verdict.answer.unwrap_err().to_string(), "trap: test");
    assert_eq!(verdict.log[0], ("info".into(), "A test.".into()));
    let bytes: usize = verdict.log.iter().map(|(_, message)| message.len()).sum();
    assert!(bytes <= 4096 && verdict.log.len() <= 4096 / 16 + 1, "{} lines of {bytes} bytes", verdict.log.len());
}

#[test]
fn a_line_of_the_log_stays_one_line_of_plain_text() {
    let host = host();
    // "A[", an escape, a line end.
    let says = "(i32.store (i32.const 700) (i32.const 0x0a1b5b41))
        (call $log (i32.const 1) (i32.const 700) (i32.const 4))
        (call $wait (i64.const 1))";
    let policy = load(&host, guest::restart(LOG, "", says));
    let verdict = host.ask_policy(&policy, &questions::restart()).verdict;
    assert_eq!(verdict.log, [("info".into(), "A[  ".into())]);
}

#[test]
fn calls_of_imports_are_paid_for() {
    let host = host();
    let asks = "(loop $again (call $number (i32.const 16) (i32.const 4) (i32.const 704)) (br $again)) unreachable";
    let policy = load(&host, guest::restart(NUMBER, "", asks));
    check_failure(
        &host,
        &policy,
        &questions::restart(),
        FailureKind::Fuel,
        "spent its budget of 5000000 fuel on calls to the node",
    );
}

#[test]
fn what_is_handed_over_at_once_is_bounded() {
    let host = host();
    let shouts = "(call $log (i32.const 0) (i32.const 0) (i32.const 1310720)) (call $wait (i64.const 1))";
    let policy = load(&host, guest::restart_with_memory(LOG, "", shouts, 32));
    let message = "handed more than 1048576 bytes to the node at once";
    check_failure(&host, &policy, &questions::restart(), FailureKind::Trap, message);
}

#[test]
fn running_out_of_instances_is_the_hosts_problem() {
    let host = host_with(|settings| settings.calls = 1);
    let mut spec = spec(built("hostile/loop"));
    spec.limits = LimitSpec { fuel: Some(u64::MAX / 2), timeout: Some(Duration::from_secs(2)), ..LimitSpec::default() };
    let hostile = Arc::new(host.load(&spec).unwrap());
    let busy = std::thread::spawn({
        let (host, hostile) = (host.clone(), Arc::clone(&hostile));
        move || host.ask_policy(&hostile, &questions::restart()).verdict.answer.unwrap_err().kind
    });
    std::thread::sleep(Duration::from_millis(300));
    check_failure(&host, &hostile, &questions::restart(), FailureKind::Host, "every instance is in use");
    assert_eq!(busy.join().unwrap(), FailureKind::Timeout);
}

#[test]
fn the_same_question_costs_the_same_fuel_and_has_the_same_answer() {
    let host = host();
    let default = load(&host, built("default"));
    for question in questions::all() {
        let first = host.ask_policy(&default, &question).verdict;
        assert!(first.answer.is_ok(), "{:?}", first.answer);
        for _ in 0..5 {
            let again = host.ask_policy(&default, &question).verdict;
            assert_eq!((&again.answer, again.fuel), (&first.answer, first.fuel));
        }
    }
}

#[test]
fn a_question_for_another_hook_is_not_asked() {
    let host = host();
    let policy = load(&host, guest::waits(1));
    check_failure(&host, &policy, &questions::probe(), FailureKind::Host, "policy test does not answer for this hook");
}
