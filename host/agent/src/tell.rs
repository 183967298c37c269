//! What is said to people: Kubernetes events and decisions as structured log lines, and their counts as metrics.

use k8s_openapi::api::core::v1::PodStatus;
use polylet_core::decision::DecisionRecord;
use polylet_core::effect::Rung;
use polylet_core::event::{CallError, CallErrorKind};
use polylet_core::id::PodUid;
use polylet_core::say::{About, Say};
use polylet_server::Metrics;

/// One Kubernetes event.
pub fn say(say: &Say, metrics: &Metrics) {
    let (object, path) = match &say.about {
        About::Node => ("node".to_owned(), String::new()),
        about @ About::Pod { namespace, name, .. } => (format!("{namespace}/{name}"), about.field_path()),
    };
    match say.reason {
        "Started" => metrics.container_started(&path),
        "Failed" => metrics.container_failed(&path),
        "Evicted" => metrics.evicted(),
        _ => {}
    }
    let (reason, message) = (say.reason, one_line(&say.message));
    if say.warning {
        tracing::warn!(target: "event", object, path, reason, "{message}");
    } else {
        tracing::info!(target: "event", object, path, reason, "{message}");
    }
}

/// An act that failed: it is tried again, and here is why it had to be. A runtime that is away is told once, elsewhere.
pub fn failed(error: Option<&CallError>) {
    match error {
        Some(error) if error.kind == CallErrorKind::Cancelled => {}
        Some(error) if error.kind == CallErrorKind::Unavailable => tracing::debug!(target: "act", "{error}"),
        Some(error) => tracing::warn!(target: "act", "{error}"),
        None => {}
    }
}

/// What workloads print can be part of a message: it must not end a line of the log and begin one of its own.
fn one_line(message: &str) -> String {
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
        tracing::warn!(target: "policy", hook, policy, pod = record.pod, "answer changed: {}", record.clamped.join("; "));
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
    fn a_message_stays_one_line() {
        let check = |message, expected| assert_eq!(one_line(message), expected);
        check("Liveness probe failed: off\n", "Liveness probe failed: off");
        check("a \"b\" é", "a \"b\" é");
        check("x\n2026-11-29 ERROR forged\r\u{1b}[31m\0", "x\\n2026-11-29 ERROR forged\\r\\u{1b}[31m\\u{0}");
    }
}
