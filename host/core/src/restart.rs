//! Whether an ended container is tried again, which follows from its spec; and the backoff that the default waits out first.

use std::time::Duration;

use polylet_upstream::restart as upstream;

use crate::pod::{Container, ContainerKind, Pod, Resources, RestartAction, RestartPolicy};
use crate::question::restart::Bounds;
use crate::record::Backoff;
use crate::time::{Wall, millis};

/// What the spec says about another try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartDecision {
    /// None.
    No,
    /// This container.
    Yes,
    /// Every container of the pod is ended, removed and started over.
    AllContainers,
}

/// What the spec says of a container that ended with `exit_code`; None where the node itself ended it (a failed probe), or
/// nobody saw how it ended. First its own rules, which need an own policy and an exit code; then its own policy; then the pod's.
pub fn should_restart(pod: &Pod, container: &Container, exit_code: Option<i32>) -> RestartDecision {
    if container.kind == ContainerKind::Ephemeral {
        return RestartDecision::No;
    }
    if let (Some(_), Some(code)) = (container.restart_policy, exit_code) {
        let matching = container.restart_rules.iter().find(|rule| rule.exit_codes.contains(&code) == rule.exit_code_in);
        match matching.map(|rule| rule.action) {
            Some(RestartAction::Restart) => return RestartDecision::Yes,
            Some(RestartAction::RestartAllContainers) => return RestartDecision::AllContainers,
            None => {}
        }
    }
    let again = match effective_policy(pod, container) {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => exit_code != Some(0),
        RestartPolicy::Never => false,
    };
    if again { RestartDecision::Yes } else { RestartDecision::No }
}

/// The policy that applies to a container: its own, else the pod's.
pub fn effective_policy(pod: &Pod, container: &Container) -> RestartPolicy {
    container.restart_policy.unwrap_or(pod.restart_policy)
}

/// What a backoff entry belongs to: a container with another image or other resources begins anew.
pub fn backoff_key(container: &Container) -> String {
    let text = |amount: Option<u64>| amount.map_or_else(|| "-".to_owned(), |amount| amount.to_string());
    let pair = |request, limit| format!("{}/{}", text(request), text(limit));
    let Resources { cpu_request, cpu_limit, memory_request, memory_limit, storage_request, storage_limit } = container.resources;
    let (cpu, memory) = (pair(cpu_request, cpu_limit), pair(memory_request, memory_limit));
    format!("{} cpu {cpu} memory {memory} storage {}", container.image, pair(storage_request, storage_limit))
}

/// How long the default waits, from `finished`: when the container ended, or the pull failed. There is no jitter.
pub fn default_delay(entry: Option<&Backoff>, key: &str, finished: Wall, bounds: &Bounds) -> Duration {
    Duration::from_millis(upstream::delay(current(entry, key, bounds), finished.0, limits(bounds)))
}

/// The entry once the node has decided at `now` to try again (a container), or has seen a try fail at `now` (a pull, where
/// `finished` is the same instant).
pub fn advance(entry: Option<&Backoff>, key: &str, finished: Wall, now: Wall, bounds: &Bounds) -> Backoff {
    let next = upstream::advance(current(entry, key, bounds), finished.0, now.0, limits(bounds));
    Backoff { key: key.to_owned(), delay: next.backoff_ms, updated: Wall(next.updated_ms) }
}

/// The entry as the default sees it: none under another key, and never beyond today's maximum, which may have been lowered
/// since it was written.
pub(crate) fn current(entry: Option<&Backoff>, key: &str, bounds: &Bounds) -> Option<upstream::Entry> {
    let entry = entry.filter(|entry| entry.key == key)?;
    Some(upstream::Entry { backoff_ms: entry.delay.min(bounds.maximum), updated_ms: entry.updated.0 })
}

/// The operator's bounds in the terms of `policies/upstream`.
pub(crate) fn limits(bounds: &Bounds) -> upstream::Bounds {
    upstream::Bounds { initial_ms: bounds.initial, maximum_ms: bounds.maximum, reset_after_ms: bounds.reset_after }
}

/// A duration as Go prints it, to the millisecond: `0s`, `250ms`, `1.5s`, `2m40s`, `1h0m0s`.
pub fn go_duration(duration: Duration) -> String {
    let ms = millis(duration);
    let (seconds, fraction) = (ms / 1000, ms % 1000);
    if seconds == 0 {
        return if ms == 0 { "0s".to_owned() } else { format!("{ms}ms") };
    }
    let mut rest = (seconds % 60).to_string();
    if fraction > 0 {
        rest += format!(".{fraction:03}").trim_end_matches('0');
    }
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{rest}s"),
        (0, minutes) => format!("{minutes}m{rest}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests;
