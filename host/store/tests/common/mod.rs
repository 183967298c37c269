//! Decisions for tests.

use polylet_core::decision::DecisionRecord;

/// A small decision of one hook, made from JSON so that a new field of a question does not break every test.
pub(crate) fn decision_of(hook: &str, number: u64) -> DecisionRecord {
    serde_json::from_value(serde_json::json!({
        "number": number,
        "at": 1_700_000_000_000_u64 + number,
        "hook": hook,
        "pod": "web_default(uid-1)",
        "asked": [["default", { "answer": { "Ok": null }, "fuel": 7, "nanos": 8 }]],
        "question": { "body": { "assess": { "node": {}, "signals": [] } }, "facts": { "numbers": { "never": i64::MIN } } },
        "answer": { "assess": [] },
        "clamped": ["a line with a\nnewline and \u{1F980}"]
    }))
    .expect("a decision")
}

/// One of the eviction hook.
#[allow(dead_code)] // Not every test binary needs it.
pub(crate) fn decision(number: u64) -> DecisionRecord {
    decision_of("eviction", number)
}
