//! What one call of a policy may use.

use std::time::Duration;

use polylet_core::question::Hook;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// No policy may use more memory than this, whatever its binding says: the size of a slot of the pool.
pub const MEMORY_MAX: usize = 64 << 20;
/// Longest key of a store, in bytes.
pub const KEY_MAX: usize = 128;
/// Longest text for people in an answer, in bytes.
pub const REASON_MAX: usize = 4 << 10;
/// Bytes that a guest may hand to the host at once: in one answer, or in one call of an import.
pub const TRANSFER_MAX: usize = 1 << 20;

/// Limits of a binding; what is None is the hook's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitSpec {
    /// See [`Limits::fuel`].
    pub fuel: Option<u64>,
    /// See [`Limits::timeout`].
    pub timeout: Option<Duration>,
    /// See [`Limits::memory`].
    pub memory: Option<usize>,
    /// See [`Limits::store_bytes`].
    pub store_bytes: Option<usize>,
    /// See [`Limits::log_bytes`].
    pub log_bytes: Option<usize>,
}

/// Limits of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Budget that decides: about one unit for an instruction of the guest, and for what the host does on its behalf.
    pub fuel: u64,
    /// Wall-clock backstop, loose: it must not fire on a starved node before the fuel is spent.
    pub timeout: Duration,
    /// Bytes of linear memory, of all memories together.
    pub memory: usize,
    /// Bytes of keys and values in one bucket of the store.
    pub store_bytes: usize,
    /// Bytes of log messages.
    pub log_bytes: usize,
}

impl LimitSpec {
    /// As a binding writes them: only those that are said.
    pub fn written(&self) -> Map<String, Value> {
        let Self { fuel, timeout, memory, store_bytes, log_bytes } = *self;
        let timeout = timeout.map(|timeout| format!("{}ms", timeout.as_millis()));
        let all = [
            ("fuel", fuel.map(Value::from)),
            ("timeout", timeout.map(Value::from)),
            ("memory", memory.map(Value::from)),
            ("storeBytes", store_bytes.map(Value::from)),
            ("logBytes", log_bytes.map(Value::from)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    /// These, and what `others` say where these say nothing.
    pub fn or(self, others: &LimitSpec) -> Self {
        Self {
            fuel: self.fuel.or(others.fuel),
            timeout: self.timeout.or(others.timeout),
            memory: self.memory.or(others.memory),
            store_bytes: self.store_bytes.or(others.store_bytes),
            log_bytes: self.log_bytes.or(others.log_bytes),
        }
    }
}

/// A duration as bindings write it: `250ms`, `2s`.
pub fn duration_of(text: &str) -> Option<Duration> {
    match text.strip_suffix("ms") {
        Some(number) => number.parse().ok().map(Duration::from_millis),
        None => text.strip_suffix('s')?.parse().ok().map(Duration::from_secs),
    }
}

/// A number of bytes as bindings write it: `65536`, `64Ki`, `8Mi`.
pub fn bytes_of(text: &str) -> Option<u64> {
    let (number, shift) = match text {
        text if text.ends_with("Ki") => (&text[..text.len() - 2], 10),
        text if text.ends_with("Mi") => (&text[..text.len() - 2], 20),
        text => (text, 0),
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

impl Limits {
    /// What a policy gets whose binding names no limit. A restart-sized question costs the default policy some ten thousand units of
    /// fuel, a ranking of 1,000 pods some hundred thousand.
    pub fn of(hook: Hook) -> Self {
        let (fuel, timeout) = match hook {
            Hook::Restart | Hook::Probe | Hook::Qos => (5_000_000, Duration::from_secs(1)),
            Hook::Eviction => (200_000_000, Duration::from_secs(5)),
        };
        Self { fuel, timeout, memory: 16 << 20, store_bytes: 4 << 10, log_bytes: 4 << 10 }
    }

    /// The most that a binding may allow its policy: fuel, and time. All questions of a hook wait for the one that is asked: on a busy node
    /// there is a probe or an end of a container every few milliseconds, and a ranking is rare.
    pub fn most(hook: Hook) -> (u64, Duration) {
        match hook {
            Hook::Restart | Hook::Probe | Hook::Qos => (1_000_000_000, Duration::from_secs(1)),
            Hook::Eviction => (10_000_000_000, Duration::from_secs(10)),
        }
    }

    /// For describing and validating: what every hook gets at most.
    pub(crate) fn of_trial() -> Self {
        Self::of(Hook::Eviction)
    }

    /// These, with what the binding says instead.
    pub fn with(self, spec: &LimitSpec) -> Self {
        Self {
            fuel: spec.fuel.unwrap_or(self.fuel),
            timeout: spec.timeout.unwrap_or(self.timeout),
            memory: spec.memory.unwrap_or(self.memory),
            store_bytes: spec.store_bytes.unwrap_or(self.store_bytes),
            log_bytes: spec.log_bytes.unwrap_or(self.log_bytes),
        }
    }
}
