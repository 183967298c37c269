//! The newest Kubernetes events, in memory: identical ones are one row with a count, and many similar ones are merged, by upstream's rules
//! for what its kubelet sends. There is no API server to send them to; they are here to be shown.
//!
//! **Invariant:** bounded, in rows for each pod, rows in all and bytes of a message.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use polylet_core::say::{About, Say};
use polylet_core::time::Wall;
use serde_json::{Value, json};

/// Rows in all, and of one pod (or of the node); the oldest go.
const ROWS: usize = 1000;
const ROWS_OF_ONE: usize = 50;
/// Bytes of a message: what the API takes.
const MESSAGE_MAX: usize = 1024;
/// From this many with different messages on, within [`SIMILAR_WITHIN`] of each other, they are merged.
const SIMILAR: usize = 10;
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
const COMBINED: &str = "(combined from similar events): ";

/// What has happened lately.
#[derive(Debug, Default)]
pub struct Events(Mutex<Vec<Row>>);

/// One event, and how often it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    about: About,
    warning: bool,
    reason: &'static str,
    message: String,
    combined: bool,
    count: u64,
    first: Wall,
    last: Wall,
}

impl Events {
    /// Keeps an event that happens now.
    pub fn keep(&self, say: &Say, now: Wall) {
        let mut message = say.message.trim_end().to_owned();
        message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        let mut rows = self.rows();
        let similar = |row: &Row| row.warning == say.warning && row.reason == say.reason && same_object(&row.about, &say.about);
        let recent = |row: &Row| now.since(row.last) <= SIMILAR_WITHIN;
        let same = |row: &Row| !row.combined && row.about == say.about && similar(row) && row.message == message;
        let found = match rows.iter().position(same) {
            Some(found) => Some(found),
            None if rows.iter().filter(|row| !row.combined && similar(row) && recent(row)).count() + 1 >= SIMILAR => {
                message.insert_str(0, COMBINED);
                rows.iter().position(|row| row.combined && similar(row) && recent(row))
            }
            None => None,
        };
        let row = match found {
            // The newest stand last.
            Some(found) => {
                let row = rows.remove(found);
                Row { count: row.count.saturating_add(1), last: now, message, ..row }
            }
            None => Row {
                combined: message.starts_with(COMBINED),
                about: say.about.clone(),
                warning: say.warning,
                reason: say.reason,
                message,
                count: 1,
                first: now,
                last: now,
            },
        };
        rows.push(row);
        let of_one = rows.iter().filter(|row| same_object(&row.about, &say.about)).count();
        let oldest = if of_one > ROWS_OF_ONE {
            rows.iter().position(|row| same_object(&row.about, &say.about))
        } else {
            (rows.len() > ROWS).then_some(0)
        };
        if let Some(oldest) = oldest {
            rows.remove(oldest);
        }
    }

    /// Those of wanted objects, the newest last: each with the fields of the API's `v1.Event`, as the node of this name sees them.
    pub fn list(&self, node: &str, wanted: impl Fn(&About) -> bool) -> Vec<Value> {
        self.rows().iter().filter(|row| wanted(&row.about)).map(|row| row.show(node)).collect()
    }

    fn rows(&self) -> std::sync::MutexGuard<'_, Vec<Row>> {
        // A panic in between leaves whole rows.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Row {
    fn show(&self, node: &str) -> Value {
        let time = |at: Wall| i64::try_from(at.0).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
        let object = match &self.about {
            About::Node => json!({"kind": "Node", "name": node, "uid": node}),
            about @ About::Pod { uid, namespace, name, .. } => {
                let mut object = json!({"kind": "Pod", "namespace": namespace, "name": name, "uid": uid.as_str()});
                let path = about.field_path();
                if !path.is_empty() {
                    object["fieldPath"] = path.into();
                }
                object
            }
        };
        json!({
            "type": if self.warning { "Warning" } else { "Normal" },
            "reason": self.reason,
            "message": self.message,
            "count": self.count,
            "firstTimestamp": time(self.first).to_string(),
            "lastTimestamp": time(self.last).to_string(),
            "involvedObject": object,
            "source": {"component": "kubelet", "host": node},
        })
    }
}

/// The same pod, whichever of its containers; or both times the node.
fn same_object(a: &About, b: &About) -> bool {
    match (a, b) {
        (About::Node, About::Node) => true,
        (About::Pod { uid: a, .. }, About::Pod { uid: b, .. }) => a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use polylet_core::pod::ContainerKind;

    use super::*;

    fn pod(uid: &str, container: Option<&str>) -> About {
        About::Pod {
            uid: uid.into(),
            namespace: "shop".into(),
            name: "web".into(),
            container: container.map(|name| (ContainerKind::App, name.into())),
        }
    }

    fn say(about: About, reason: &'static str, message: impl Into<String>) -> Say {
        Say { about, warning: reason == "Unhealthy", reason, message: message.into() }
    }

    /// Count, reason and message of each row.
    fn shown(events: &Events, of: Option<&str>) -> Vec<String> {
        let text =
            |row: &Value| format!("{} {} {}", row["count"], row["reason"].as_str().unwrap(), row["message"].as_str().unwrap());
        events
            .list("n1", |about| of.is_none_or(|of| matches!(about, About::Pod { uid, .. } if uid.as_str() == of)))
            .iter()
            .map(text)
            .collect()
    }

    #[test]
    fn identical_events_are_one_row() {
        let events = Events::default();
        for second in 0..3 {
            events.keep(&say(pod("u1", Some("a")), "Pulled", "there\n"), Wall(second * 1000));
        }
        events.keep(&say(pod("u1", Some("b")), "Pulled", "there"), Wall(3000));
        events.keep(&say(pod("u2", Some("a")), "Pulled", "there"), Wall(3000));
        events.keep(&say(About::Node, "Pulled", "there"), Wall(3000));
        events.keep(&say(pod("u1", Some("a")), "Pulled", "there"), Wall(4000));
        assert_eq!(shown(&events, Some("u1")), ["1 Pulled there", "4 Pulled there"]);
        assert_eq!(shown(&events, None).len(), 4);
        let newest = events.list("n1", |_| true).pop().unwrap();
        let expected = json!({
            "type": "Normal", "reason": "Pulled", "message": "there", "count": 4,
            "firstTimestamp": "1970-01-01T00:00:00Z", "lastTimestamp": "1970-01-01T00:00:04Z",
            "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web", "uid": "u1", "fieldPath": "spec.containers{a}"},
            "source": {"component": "kubelet", "host": "n1"},
        });
        assert_eq!(newest, expected);
        assert_eq!(events.list("n1", |_| true)[2]["involvedObject"], json!({"kind": "Node", "name": "n1", "uid": "n1"}));
    }

    #[test]
    fn many_similar_ones_are_merged_and_forgotten_again() {
        let events = Events::default();
        for n in 0..30 {
            events.keep(&say(pod("u1", Some("a")), "Unhealthy", format!("failed: {n}")), Wall(n * 1000));
        }
        let rows = shown(&events, None);
        assert_eq!(rows.len(), SIMILAR);
        assert_eq!(rows.last().unwrap(), "21 Unhealthy (combined from similar events): failed: 29");
        // Another reason, and one of those that stand by themselves.
        events.keep(&say(pod("u1", Some("a")), "Killing", "it ends"), Wall(31_000));
        events.keep(&say(pod("u1", Some("a")), "Unhealthy", "failed: 3"), Wall(32_000));
        assert_eq!(shown(&events, None)[SIMILAR - 1..], ["1 Killing it ends", "2 Unhealthy failed: 3"]);
        // Long after.
        events.keep(&say(pod("u1", Some("a")), "Unhealthy", "failed: 99"), Wall(32_000 + 601_000));
        assert_eq!(shown(&events, None).last().unwrap(), "1 Unhealthy failed: 99");
    }

    #[test]
    fn there_is_an_end_of_rows_and_of_messages() {
        let events = Events::default();
        let minute = |n: u64| Wall(n * 700_000);
        for n in 0..200 {
            events.keep(&say(pod("loud", None), "Killing", format!("{n}")), minute(n));
        }
        assert_eq!(shown(&events, Some("loud")).len(), ROWS_OF_ONE);
        assert_eq!(shown(&events, Some("loud"))[0], "1 Killing 150");
        for n in 0..2 * ROWS as u64 {
            events.keep(&say(pod(&format!("u{n}"), None), "Killing", "x"), minute(200 + n));
        }
        assert_eq!(events.rows().len(), ROWS);
        assert!(shown(&events, Some("loud")).is_empty(), "the oldest went");
        events.keep(&say(About::Node, "Killing", "é".repeat(5000)), minute(9999));
        assert_eq!(events.rows().last().unwrap().message.len(), MESSAGE_MAX);
    }
}
