//! What is said to people: Kubernetes events and decisions as structured log lines, and their counts as metrics.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::PodStatus;
use polylet_core::decision::DecisionRecord;
use polylet_core::effect::{Count, Rung};
use polylet_core::event::{CallError, CallErrorKind};
use polylet_core::id::PodUid;
use polylet_core::say::{About, Say};
use polylet_core::time::Wall;
use polylet_server::Metrics;

use crate::events::Events;

/// One event of the core.
pub fn say(say: &Say, metrics: &Metrics, events: &Events, now: Wall) {
    if let (About::Pod { container: Some((kind, _)), .. }, "Started") = (&say.about, say.reason) {
        metrics.container_started(*kind);
    }
    event(say, events, now);
}

/// One Kubernetes event: a line of the log, and kept to be shown.
pub fn event(say: &Say, events: &Events, now: Wall) {
    events.keep(say, now);
    let (kind, namespace, name, uid) = match &say.about {
        About::Node => ("Node", "", "", ""),
        About::Pod { uid, namespace, name, .. } => ("Pod", namespace.as_str(), name.as_str(), uid.as_str()),
    };
    let (path, reason, message) = (say.about.field_path(), say.reason, one_line(&say.message));
    // A macro for each level: it is a constant of the line's description.
    if say.warning {
        tracing::warn!(target: "event", r#type = "Warning", kind, namespace, name, uid, path, reason, "{message}");
    } else {
        tracing::info!(target: "event", r#type = "Normal", kind, namespace, name, uid, path, reason, "{message}");
    }
}

/// What is counted and no event tells whole.
pub fn count(count: &Count, metrics: &Metrics) {
    match count {
        Count::NotStarted { kind, code } => metrics.container_failed(*kind, code),
        Count::Evicted { signal } => metrics.evicted(signal),
    }
}

/// An act that failed: it is tried again, and here is why it had to be. A runtime that is away is told once, elsewhere.
pub fn failed(error: Option<&CallError>) {
    match error {
        Some(error) if error.kind == CallErrorKind::Cancelled => {}
        Some(error) if error.kind == CallErrorKind::Unavailable => {
            tracing::debug!(target: "act", "{}", one_line(&error.to_string()))
        }
        // What a hook printed may be part of it.
        Some(error) => tracing::warn!(target: "act", "{}", one_line(&error.to_string())),
        None => {}
    }
}

/// A directory that stands among those of pods and is none: it is left alone, and told once.
pub fn no_pod(directory: &Path) {
    static TOLD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if first_time(&TOLD, directory) {
        tracing::warn!(directory = %directory.display(), "left alone: it stands among the directories of pods, and is none");
    }
}

/// Whether something was not named before. Beyond so many things none is new.
fn first_time(told: &Mutex<BTreeSet<PathBuf>>, what: &Path) -> bool {
    const MOST: usize = 1000;
    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
    told.len() < MOST && told.insert(what.to_owned())
}

/// What a panic had to say, in one line.
pub fn panicked(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", one_line(text.unwrap_or("without a text")))
}

/// What workloads print can be part of a message: it must not end a line of the log or of a page and begin one of its own, nor move the
/// cursor.
pub fn one_line(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for c in message.trim_end().chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

/// A status that changed.
pub fn status(pod: &PodUid, status: &PodStatus) {
    let ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    tracing::debug!(target: "status", %pod, phase = status.phase.as_deref().unwrap_or_default(), ready, "status");
}

/// A policy decision.
pub fn decision(record: &DecisionRecord, metrics: &Metrics) {
    let hook = record.hook.as_str();
    for (rung, verdict) in &record.asked {
        let policy = name(rung);
        match &verdict.answer {
            Ok(Some(_)) => metrics.decided(hook, policy, "answered", verdict.nanos, verdict.fuel),
            Ok(None) => metrics.decided(hook, policy, "abstained", verdict.nanos, verdict.fuel),
            Err(failure) => {
                metrics.decided(hook, policy, &failure.kind.to_string(), verdict.nanos, verdict.fuel);
                tracing::warn!(target: "policy", hook, policy, kind = %failure.kind, "{}", failure.message);
            }
        }
    }
    if !record.clamped.is_empty() {
        metrics.clamped(hook);
        let policy = record.asked.last().map(|(rung, _)| name(rung)).unwrap_or_default();
        if let Some(times) = CLAMPED.say(&format!("{hook} {policy}"), Instant::now()) {
            let changes = record.clamped.join("; ");
            tracing::warn!(target: "policy", hook, policy, pod = record.pod, times, "answer changed: {changes}");
        }
    }
}

static CLAMPED: Sparing = Sparing::new();
static LOST: Sparing = Sparing::new();

/// Something that could not be kept, in words that are always the same. On a full disk that is every write.
pub fn not_kept(what: &'static str, error: &dyn std::error::Error) {
    if let Some(times) = LOST.say(what, Instant::now()) {
        tracing::warn!(error = crate::perform::chain(error), times, "{what}");
    }
}

/// Says what happens again and again once at first, and then once a minute at most.
struct Sparing(Mutex<BTreeMap<String, Said>>);

/// When a thing was said, and how often it happened since.
struct Said {
    at: Instant,
    since: u64,
}

impl Sparing {
    const QUIET: Duration = Duration::from_secs(60);
    /// Things kept apart; beyond them all begin anew.
    const THINGS: usize = 64;

    const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// How often it happened since it was last said, this time included; None where it is not to be said now.
    fn say(&self, thing: &str, now: Instant) -> Option<u64> {
        // Nothing is left half done by a panic.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(said) = all.get_mut(thing) {
            said.since += 1;
            if now.saturating_duration_since(said.at) < Self::QUIET {
                return None;
            }
            return Some(std::mem::replace(said, Said { at: now, since: 0 }).since);
        }
        if all.len() >= Self::THINGS {
            all.clear();
        }
        all.insert(thing.to_owned(), Said { at: now, since: 0 });
        Some(1)
    }
}

fn name(rung: &Rung) -> &str {
    match rung {
        Rung::Bound { name, .. } => name,
        Rung::Default => "default",
        Rung::Native => "native",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_again_and_again_is_said_once_a_minute_with_how_often() {
        let sparing = Sparing::new();
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        assert_eq!(sparing.say("a", at(0)), Some(1));
        for second in 1..60 {
            assert_eq!(sparing.say("a", at(second)), None, "{second}");
        }
        assert_eq!(sparing.say("b", at(59)), Some(1), "another thing");
        assert_eq!(sparing.say("a", at(60)), Some(60));
        assert_eq!(sparing.say("a", at(61)), None);
        assert_eq!(sparing.say("a", at(1000)), Some(2));
    }

    #[test]
    fn there_is_no_end_of_things_and_an_end_of_what_is_kept_of_them() {
        let sparing = Sparing::new();
        let now = Instant::now();
        assert!((0..1000).all(|thing| sparing.say(&thing.to_string(), now) == Some(1)));
        assert!(sparing.0.lock().unwrap().len() <= Sparing::THINGS);
    }

    #[test]
    fn what_is_told_once_is_not_told_again_and_there_is_an_end_of_it() {
        let told = Mutex::default();
        let say = |name: &str| first_time(&told, Path::new(name));
        assert_eq!([say("a"), say("b"), say("a")], [true, true, false]);
        assert_eq!((0..2000).filter(|n| say(&n.to_string())).count(), 998);
    }

    #[test]
    fn a_message_stays_one_line() {
        let check = |message, expected| assert_eq!(one_line(message), expected);
        check("Liveness probe failed: off\n", "Liveness probe failed: off");
        check("a \"b\" é", "a \"b\" é");
        check("x\n2026-11-29 ERROR forged\r\u{1b}[31m\0", "x\\n2026-11-29 ERROR forged\\r\\u{1b}[31m\\u{0}");
    }
}
