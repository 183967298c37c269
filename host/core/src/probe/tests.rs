use super::*;
use crate::pod::Handler;

fn spec(success_threshold: u32, failure_threshold: u32) -> Probe {
    Probe {
        handler: Handler::TcpSocket { host: None, port: 1 },
        initial_delay: Duration::from_secs(5),
        period: Duration::from_secs(10),
        timeout: Duration::from_secs(1),
        success_threshold,
        failure_threshold,
        grace: None,
    }
}

fn meaning(letter: char) -> Meaning {
    match letter {
        's' => Meaning::Success,
        'w' => Meaning::Warning,
        'f' => Meaning::Failure,
        _ => Meaning::Unknown,
    }
}

/// Feeds attempts (`s`uccess, `w`arning, `f`ailure, `?`) and draws what each of them changed: `+` or `-` for a published result,
/// `!` for a restart, `.` for nothing, `|` where no attempt was wanted any more.
#[track_caller]
fn check(kind: ProbeKind, (success, failure): (u32, u32), attempts: &str, expected: &str) {
    let mut worker = ProbeWorker::new(kind, &spec(success, failure), initial(kind), Mono(0));
    let mut drawn = String::new();
    for (n, letter) in attempts.chars().enumerate() {
        let Some(due) = worker.due(kind != ProbeKind::Startup) else {
            drawn.push('|');
            continue;
        };
        worker.begin(due, EffectId(n as u64));
        let change = worker.finish(due, meaning(letter), None, "");
        drawn.push(match (change.restart, change.published) {
            (true, _) => '!',
            (false, Some(true)) => '+',
            (false, Some(false)) => '-',
            (false, None) => '.',
        });
    }
    assert_eq!(drawn, expected, "{kind:?} {attempts}");
}

#[test]
fn results_are_published_at_their_thresholds() {
    use ProbeKind::{Liveness, Readiness, Startup};
    check(Readiness, (1, 3), "sfffssffsfff", "+..-+......-");
    check(Readiness, (2, 1), "fsssfws", "..+.-.+");
    check(Readiness, (2, 2), "sfsfss", ".....+");
    check(Liveness, (1, 3), "sffsfffss", "......!||");
    check(Liveness, (1, 1), "f", "!");
    check(Startup, (1, 3), "ffsss", "..+||");
    check(Startup, (1, 2), "ffs", ".!|");
}

#[test]
fn what_teaches_nothing_changes_no_count() {
    use ProbeKind::{Liveness, Readiness, Startup};
    check(Liveness, (1, 3), "ff????f", "......!");
    check(Readiness, (2, 3), "s???s", "....+");
    check(Startup, (1, 1), "???", "...");
}

/// Sets one attempt in flight at 10 s and finishes it at 12 s; returns the change and the next due time in milliseconds.
fn one(kind: ProbeKind, meaning: Meaning, next_in: Option<u64>) -> (Change, Option<u64>) {
    let mut worker = ProbeWorker::new(kind, &spec(1, 3), initial(kind), Mono(9_000));
    worker.begin(Mono(10_000), EffectId(7));
    let change = worker.finish(Mono(12_000), meaning, next_in.map(Duration::from_millis), "why");
    (change, worker.due(kind != ProbeKind::Startup).map(|due| due.0))
}

#[test]
fn the_next_attempt_comes_a_period_after_this_one_began() {
    assert_eq!(one(ProbeKind::Liveness, Meaning::Success, None).1, Some(20_000));
    assert_eq!(one(ProbeKind::Liveness, Meaning::Failure, Some(1_000)).1, Some(13_000));
    assert_eq!(one(ProbeKind::Liveness, Meaning::Unknown, None).1, Some(12_000));
    assert_eq!(one(ProbeKind::Liveness, Meaning::Unknown, Some(4_000)).1, Some(16_000));
    // One that took longer than a period is followed at once.
    let mut worker = ProbeWorker::new(ProbeKind::Liveness, &spec(1, 3), Some(true), Mono(0));
    worker.begin(Mono(0), EffectId(1));
    worker.finish(Mono(25_000), Meaning::Success, None, "");
    assert_eq!(worker.due(true), Some(Mono(25_000)));
}

#[test]
fn an_unknown_result_is_tried_three_times_at_once() {
    let mut worker = ProbeWorker::new(ProbeKind::Readiness, &spec(1, 3), Some(false), Mono(0));
    let mut attempt = |now: u64| {
        worker.begin(Mono(now), EffectId(now));
        let change = worker.finish(Mono(now + 1), Meaning::Unknown, None, "no runtime");
        (change.say, worker.due(true).map(|due| due.0))
    };
    let told = "Readiness probe errored and resulted in unknown state: no runtime".to_owned();
    assert_eq!(attempt(0), (None, Some(1)));
    assert_eq!(attempt(1), (None, Some(2)));
    assert_eq!(attempt(2), (Some(("Unhealthy", told)), Some(10_002)));
    assert_eq!(attempt(10_002), (None, Some(10_003)));
}

#[test]
fn failures_and_warnings_are_told() {
    let say = |kind, meaning| one(kind, meaning, None).0.say;
    let told = |reason, text: &str| Some((reason, text.to_owned()));
    assert_eq!(say(ProbeKind::Liveness, Meaning::Failure), told("Unhealthy", "Liveness probe failed: why"));
    assert_eq!(say(ProbeKind::Startup, Meaning::Failure), told("Unhealthy", "Startup probe failed: why"));
    assert_eq!(say(ProbeKind::Readiness, Meaning::Warning), told("ProbeWarning", "Readiness probe warning: why"));
    assert_eq!(say(ProbeKind::Readiness, Meaning::Success), None);
}

#[test]
fn startup_holds_the_others_back() {
    let due = |kind, started| ProbeWorker::new(kind, &spec(1, 3), initial(kind), Mono(5)).due(started);
    for kind in [ProbeKind::Liveness, ProbeKind::Readiness] {
        assert_eq!((due(kind, false), due(kind, true)), (None, Some(Mono(5))));
    }
    assert_eq!((due(ProbeKind::Startup, false), due(ProbeKind::Startup, true)), (Some(Mono(5)), None));
    // What had started before the agent did is not asked again.
    let remembered = ProbeWorker::new(ProbeKind::Startup, &spec(1, 3), Some(true), Mono(5));
    assert_eq!(remembered.due(false), None);
}

#[test]
fn one_attempt_at_a_time() {
    let mut worker = ProbeWorker::new(ProbeKind::Liveness, &spec(1, 1), Some(true), Mono(0));
    worker.begin(Mono(3_000), EffectId(9));
    assert_eq!((worker.in_flight(), worker.due(true)), (Some(EffectId(9)), None));
    assert_eq!((worker.cancel(), worker.due(true)), (Some(EffectId(9)), Some(Mono(13_000))));
    // An answer to what was given up counts for nothing.
    assert_eq!(worker.finish(Mono(4_000), Meaning::Failure, None, ""), Change::default());
    assert_eq!((worker.cancel(), worker.passed(), worker.streak()), (None, Some(true), 0));
}

#[test]
fn a_young_agent_spreads_its_probes() {
    let first = |uptime, random| first_tick(Mono(100), &spec(1, 3), Duration::from_secs(uptime), random).0;
    assert_eq!(first(60, 7_777), 100);
    assert_eq!(first(10, 7_777), 100);
    assert_eq!(first(9, 17_777), 7_877);
}

#[test]
fn the_first_attempt_comes_at_the_first_tick_after_the_initial_delay() {
    let due = |kind, now, running_for| next_due(Mono(now), kind, &spec(1, 3), Duration::from_secs(running_for), Mono(1_000)).0;
    assert_eq!(due(ProbeKind::Liveness, 2_000, 0), 11_000);
    assert_eq!(due(ProbeKind::Liveness, 2_000, 9), 11_000);
    assert_eq!(due(ProbeKind::Startup, 6_001, 0), 21_000);
    assert_eq!(due(ProbeKind::Startup, 6_000, 0), 11_000, "the tick at which the delay ends");
    assert_eq!(due(ProbeKind::Liveness, 21_000, 5), 21_000);
    assert_eq!(due(ProbeKind::Readiness, 6_001, 0), 11_001, "readiness waits for no tick");
    assert_eq!(due(ProbeKind::Readiness, 500, 9), 1_000, "but for the first one");
    assert_eq!(due(ProbeKind::Liveness, 500, 9), 1_000);
}

#[test]
fn what_was_due_is_put_off() {
    let mut worker = ProbeWorker::new(ProbeKind::Liveness, &spec(1, 3), Some(true), Mono(1_000));
    worker.put_off(Mono(11_000));
    worker.put_off(Mono(4_000));
    assert_eq!(worker.due(true), Some(Mono(11_000)));
}
