use polylet_sdk::harness::Harness;
use polylet_sdk::restart::{Action, Answer, Cause, Question, Restart, Termination};
use polylet_sdk::samples;

use crate::GentleRestart;

/// Ten minutes into a crash loop: the default would wait 160 s.
fn question(last: Termination) -> Question {
    Question { last, default_delay: 160_000, ..samples::restart() }
}

fn exit(code: i32) -> Termination {
    Termination { exit_code: Some(code), ..samples::restart().last }
}

fn decide(node: &Harness, last: Termination) -> Option<Answer> {
    let policy: GentleRestart = node.policy().unwrap();
    policy.decide(&node.ask(), &question(last))
}

fn configured() -> Harness {
    Harness::new().config(r#"{"gentleCodes": [75, 143], "delayMs": 2000, "burst": 3, "burstWindowMs": 10000}"#)
}

#[test]
fn gentle_codes_wait_a_constant_time() {
    for code in [0, 75, 143] {
        let answer = decide(&configured(), exit(code)).unwrap();
        assert_eq!(answer.action, Action::Wait(2000), "code {code}");
        assert_eq!(answer.reason, format!("exit code {code} is gentle"));
    }
}

#[test]
fn a_gentle_restart_is_no_later_than_the_default() {
    let policy: GentleRestart = configured().policy().unwrap();
    let question = Question { default_delay: 0, ..question(exit(0)) };
    let answer = policy.decide(&configured().ask(), &question).unwrap();
    assert_eq!(answer.action, Action::Wait(0));
}

#[test]
fn what_did_not_end_gently_is_left_to_the_default() {
    let others = [
        exit(1),
        Termination { exit_code: None, ..exit(0) },
        Termination { signal: Some(15), ..exit(143) },
        Termination { out_of_memory: true, ..exit(0) },
        Termination { cause: Cause::Unhealthy, ..exit(0) },
        Termination { cause: Cause::ImagePullFailed, exit_code: None, ..exit(0) },
    ];
    for last in others {
        assert_eq!(decide(&configured(), last), None, "{last:?}");
    }
}

#[test]
fn too_many_gentle_exits_are_crashes_after_all() {
    let history = |ends: [u64; 5], codes: [Option<i64>; 5]| {
        configured().column("history", "at", ends.map(|before| Some((samples::NOW - before) as i64))).column(
            "history",
            "exit-code",
            codes,
        )
    };
    let all = [Some(0), Some(75), Some(0), Some(0), Some(0)];
    let four_of_five = history([10_000, 9_999, 5_000, 100, 0], all);
    let answer = decide(&four_of_five, exit(0)).unwrap();
    assert_eq!(answer.action, Action::Wait(160_000));
    assert_eq!(answer.reason, "exit code 0 is gentle, but 4 such exits came within 10000 ms");

    let three = history([10_000, 9_999, 5_000, 100, 0], [Some(0), Some(1), None, Some(75), Some(0)]);
    assert_eq!(decide(&three, exit(0)).unwrap().action, Action::Wait(2000));
}

#[test]
fn everything_has_a_default() {
    let expected = GentleRestart { codes: vec![], delay_ms: 1000, burst: 20, burst_window_ms: 60_000 };
    for config in ["", "{}", r#"{"delayMs": null}"#] {
        assert_eq!(Harness::new().config(config).policy(), Ok(expected.clone()), "{config}");
    }
}

#[test]
fn bad_configurations_are_told_what_would_be_right() {
    let table = [
        ("[]", "expected an object such as {}, found a list"),
        (r#"{"gentleCodes": "#, "not JSON: expected a JSON value at line 1, column 16"),
        (r#"{"gentlecodes": [1]}"#, "unknown field `gentlecodes`; the fields are: gentleCodes, delayMs, burst, burstWindowMs"),
        (r#"{"gentleCodes": 75}"#, "field `gentleCodes`: expected a list, found 75"),
        (r#"{"gentleCodes": [0, "75"]}"#, r#"field `gentleCodes[1]`: expected a whole number from 0 to 255, found "75""#),
        (r#"{"gentleCodes": [256]}"#, "field `gentleCodes[0]`: expected a whole number from 0 to 255, found 256"),
        (r#"{"delayMs": -1}"#, "field `delayMs`: expected a whole number from 0 to 3600000, found -1"),
        (r#"{"delayMs": 1.5}"#, "field `delayMs`: expected a whole number from 0 to 3600000, found 1.5"),
    ];
    for (config, message) in table {
        assert_eq!(Harness::new().config(config).policy::<GentleRestart>(), Err(message.to_owned()), "{config}");
    }
}
