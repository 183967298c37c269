//! One decision record as a line for people.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::Value;

use super::text;

/// A line of the log: when, what about, who said what. What is no record stays as it is.
pub(in crate::cli) fn decision(line: &str) -> String {
    let Ok(record) = serde_json::from_str::<Value>(line) else { return line.to_owned() };
    let last = record["asked"].as_array().and_then(|asked| asked.last()).cloned().unwrap_or_default();
    let rung = match last[0].as_str() {
        Some(plain) => plain.to_owned(),
        None => text(&last[0]["bound"]["name"]),
    };
    let at = record["at"].as_i64().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let at = at.map_or_else(|| text(&record["at"]), |at| format!("{at:.3}"));
    let about = [text(&record["pod"]), text(&record["container"])];
    let about: Vec<&str> = about.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let about = if about.is_empty() { "node".to_owned() } else { about.join("/") };
    let micros = last[1]["nanos"].as_u64().unwrap_or(0) as f64 / 1000.0;
    let said = answer(&record);
    let hook = match record["question"]["body"]["probe"]["kind"].as_str() {
        Some(kind) => format!("{kind} probe"),
        None => text(&record["hook"]),
    };
    // Writing to a string cannot fail.
    let mut out = format!("{at} #{} {hook} {about} by {rung} in {micros:.1} µs: {said}", record["seq"]);
    let clamped: Vec<String> = record["clamped"].as_array().into_iter().flatten().map(text).collect();
    if !clamped.is_empty() {
        let _ = write!(out, " [changed: {}]", clamped.join("; "));
    }
    out
}

/// What was decided, in words.
fn answer(record: &Value) -> String {
    let Some((kind, answer)) = record["answer"].as_object().and_then(|answer| answer.iter().next()) else {
        return text(&record["answer"]);
    };
    match kind.as_str() {
        "restart" if answer["giveUp"] == true => with_reason("give up".into(), answer),
        "restart" => with_reason(format!("wait {}", span(&answer["delay"])), answer),
        "probe" => {
            let mut said = text(&answer["verdict"]);
            for (field, words) in [("nextIn", "next in"), ("grace", "grace")] {
                if !answer[field].is_null() {
                    let _ = write!(said, ", {words} {}", span(&answer[field]));
                }
            }
            with_reason(said, answer)
        }
        "qos" => {
            let placement = &answer["placement"];
            let mut said = text(&placement["tier"]);
            for (field, words) in [
                ("cpuWeight", "cpu weight"),
                ("memoryMin", "memory min"),
                ("memoryLow", "memory low"),
                ("memoryHigh", "memory high"),
            ] {
                if !placement[field].is_null() {
                    let _ = write!(said, ", {words} {}", placement[field]);
                }
            }
            let scores: Vec<String> =
                placement["containers"].as_array().into_iter().flatten().map(|container| text(&container["oomScore"])).collect();
            let _ = write!(said, ", oom score {}", scores.join(" "));
            with_reason(said, answer)
        }
        "assess" => each(answer, "nothing is short", |shortage| {
            let how = if shortage["hard"] == true { "hard" } else { "soft" };
            with_reason(format!("{} is short ({how}), reclaim {}", text(&shortage["starved"]), shortage["reclaim"]), shortage)
        }),
        "rank" => each(answer, "nobody", |victim| {
            let index = victim["pod"].as_u64().and_then(|index| usize::try_from(index).ok());
            let name = index.and_then(|index| record["question"]["words"]["pods"].get(index)?["name"].as_str());
            with_reason(name.map_or_else(|| format!("pod {}", victim["pod"]), str::to_owned), victim)
        }),
        _ => answer.to_string(),
    }
}

fn each(list: &Value, none: &str, show: impl Fn(&Value) -> String) -> String {
    let all: Vec<String> = list.as_array().into_iter().flatten().map(show).collect();
    if all.is_empty() { none.to_owned() } else { all.join("; ") }
}

fn with_reason(said: String, answer: &Value) -> String {
    match answer["reason"].as_str() {
        Some(reason) if !reason.is_empty() => format!("{said} ({reason})"),
        _ => said,
    }
}

/// Milliseconds.
fn span(ms: &Value) -> String {
    match ms.as_u64() {
        Some(ms) if ms >= 1000 && ms % 1000 == 0 => format!("{} s", ms / 1000),
        Some(ms) if ms >= 1000 => format!("{:.1} s", ms as f64 / 1000.0),
        _ => format!("{ms} ms"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(answer: &Value, expected: &str) {
        let record = json!({
            "seq": 7, "at": 1_772_366_400_123_u64, "hook": "restart", "pod": "web_shop(u)", "container": "main",
            "asked": [[{"bound": {"name": "gentle"}}, {"nanos": 12_340}]], "answer": answer,
            "question": {"words": {"pods": [{"name": "a"}, {"name": "b"}]}},
        });
        let head = "2026-03-01T12:00:00.123Z #7 restart web_shop(u)/main by gentle in 12.3 µs: ";
        assert_eq!(decision(&record.to_string()), format!("{head}{expected}"));
    }

    #[test]
    fn answers_are_words() {
        check(&json!({"restart": {"delay": 10_000, "giveUp": false, "reason": ""}}), "wait 10 s");
        check(&json!({"restart": {"delay": 2500, "giveUp": false, "reason": "kind"}}), "wait 2.5 s (kind)");
        check(&json!({"restart": {"delay": 10, "giveUp": true, "reason": ""}}), "give up");
        let probe = json!({"probe": {"verdict": "warning", "nextIn": 500, "grace": null, "reason": "slow"}});
        check(&probe, "warning, next in 500 ms (slow)");
        let placement =
            json!({"tier": "Burstable", "cpuWeight": 20, "memoryHigh": null, "containers": [{"oomScore": 999}, {"oomScore": 3}]});
        check(&json!({"qos": {"placement": placement, "reason": ""}}), "Burstable, cpu weight 20, oom score 999 3");
        check(&json!({"assess": []}), "nothing is short");
        let short = json!({"starved": "memory", "hard": true, "reclaim": 4096, "reason": "now"});
        check(&json!({"assess": [short]}), "memory is short (hard), reclaim 4096 (now)");
        check(&json!({"rank": []}), "nobody");
        check(
            &json!({"rank": [{"pod": 1, "reason": ""}, {"pod": 0, "reason": "old"}, {"pod": 9, "reason": ""}]}),
            "b; a (old); pod 9",
        );
    }

    #[test]
    fn what_the_guard_changed_is_told_and_the_node_has_no_pod() {
        let record = json!({
            "seq": 1, "at": 0, "hook": "eviction", "pod": "", "container": "", "asked": [["native", {"nanos": 0}]],
            "answer": {"assess": []}, "clamped": ["x", "y"],
        });
        let expected = "1970-01-01T00:00:00.000Z #1 eviction node by native in 0.0 µs: nothing is short [changed: x; y]";
        assert_eq!(decision(&record.to_string()), expected);
        assert_eq!(decision("not a record"), "not a record");
    }
}
