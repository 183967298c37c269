//! The state of one call: what the guest may see, what it has used, what it wants remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use polylet_core::question::{Body, Question, StoreRead};
use wasmtime::ResourceLimiter;

use crate::limits::{KEY_MAX, Limits};
use crate::store::{Bucket, BucketName, PolicyStore, Write, Writes, size};

/// Fuel that a call of an import costs beside the guest's own: the host's work is paid for like the guest's.
const IMPORT_FUEL: u64 = 100;
/// Fuel that a call of the store costs: what it reads is recorded, what it writes is kept.
const STORE_FUEL: u64 = 1_000;
/// Bytes that one more unit of fuel moves across the border.
const BYTES_PER_FUEL: u64 = 8;

/// Why the host ended a call that the guest would have gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stopped {
    #[error("wants {wanted} bytes of memory, of {allowed} allowed")]
    Memory { wanted: usize, allowed: usize },
    #[error("wants a table of {wanted} elements, of {allowed} allowed")]
    Table { wanted: usize, allowed: usize },
    #[error("spent its budget of {budget} fuel on calls to the node")]
    Fuel { budget: u64 },
}

/// State behind the imports. Lives exactly as long as the instance.
pub(crate) struct Call {
    pub(crate) policy: Arc<str>,
    pub(crate) config: Arc<str>,
    /// None while a policy is described and validated.
    pub(crate) question: Option<Arc<Question>>,
    pub(crate) limits: Limits,
    pub(crate) log: Vec<(String, String)>,
    pub(crate) log_left: usize,
    /// The newest message of level error, kept even when the log's quota is spent: the SDKs send panics there.
    pub(crate) last_error: Option<String>,
    /// Fuel spent by the host on the guest's behalf.
    pub(crate) import_fuel: u64,
    pub(crate) stopped: Option<Stopped>,
    /// Bytes of all linear memories together.
    memory: usize,
    store: Arc<PolicyStore>,
    reads: Vec<StoreRead>,
    touched: BTreeMap<Option<u32>, Touched>,
}

/// A bucket that the call has touched.
struct Touched {
    name: BucketName,
    found: Bucket,
    changes: BTreeMap<String, Option<Vec<u8>>>,
    read: BTreeSet<String>,
}

impl Call {
    pub(crate) fn new(
        policy: Arc<str>,
        config: Arc<str>,
        question: Option<Arc<Question>>,
        limits: Limits,
        store: Arc<PolicyStore>,
    ) -> Self {
        Self {
            policy,
            config,
            question,
            log_left: limits.log_bytes,
            limits,
            log: Vec::new(),
            last_error: None,
            import_fuel: 0,
            stopped: None,
            memory: 0,
            store,
            reads: Vec::new(),
            touched: BTreeMap::new(),
        }
    }

    /// Charges one call of an import that moves so many bytes.
    pub(crate) fn charge(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.spend(IMPORT_FUEL + bytes as u64 / BYTES_PER_FUEL)
    }

    /// Charges one call of the store that moves so many bytes.
    pub(crate) fn charge_store(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.spend(STORE_FUEL + bytes as u64 / BYTES_PER_FUEL)
    }

    fn spend(&mut self, fuel: u64) -> wasmtime::Result<()> {
        self.import_fuel += fuel;
        match self.import_fuel > self.limits.fuel {
            true => Err(self.stop(Stopped::Fuel { budget: self.limits.fuel })),
            false => Ok(()),
        }
    }

    pub(crate) fn body(&self) -> Option<&Body> {
        self.question.as_deref().map(|question| &question.body)
    }

    /// Value of a key as this call sees it. Recorded when it comes from the store and not from the call itself.
    pub(crate) fn get(&mut self, pod: Option<u32>, key: &str) -> Option<Vec<u8>> {
        let touched = self.touch(pod)?;
        if let Some(change) = touched.changes.get(key) {
            return change.clone();
        }
        let value = touched.found.entries.get(key).cloned();
        if touched.read.insert(key.to_owned()) {
            self.reads.push(StoreRead { pod, key: key.to_owned(), value: value.clone() });
        }
        value
    }

    /// Sets or removes a key.
    pub(crate) fn set(&mut self, pod: Option<u32>, key: String, value: Option<Vec<u8>>) -> Result<(), Refused> {
        let quota = self.limits.store_bytes;
        let touched = self.touch(pod).ok_or(Refused::NoSuchPod)?;
        if key.len() > KEY_MAX {
            return Err(Refused::KeyTooLong);
        }
        let Some(value) = value else {
            match touched.found.entries.contains_key(&key) {
                true => drop(touched.changes.insert(key, None)),
                false => drop(touched.changes.remove(&key)),
            }
            return Ok(());
        };
        if value.len() > quota {
            return Err(Refused::ValueTooLong);
        }
        let room = quota.saturating_sub(touched.bytes_without(&key));
        if key.len() + value.len() > room {
            return Err(Refused::BucketFull);
        }
        touched.changes.insert(key, Some(value));
        Ok(())
    }

    /// What the call read from its store, and what it wants written.
    pub(crate) fn into_memory(self) -> (Vec<StoreRead>, Writes) {
        let writes = self
            .touched
            .into_values()
            .filter(|touched| !touched.changes.is_empty())
            .map(|Touched { name, found, changes, .. }| Write { bucket: name, found, changes });
        (self.reads, Writes::new(writes.collect()))
    }

    fn touch(&mut self, pod: Option<u32>) -> Option<&mut Touched> {
        if !self.touched.contains_key(&pod) {
            let uid = match pod {
                None => None,
                Some(index) => Some(self.question.as_ref()?.words.pods.get(index as usize)?.uid.as_str().into()),
            };
            let name = BucketName { policy: Arc::clone(&self.policy), pod: uid };
            let found = self.store.find(&name);
            self.touched.insert(pod, Touched { name, found, changes: BTreeMap::new(), read: BTreeSet::new() });
        }
        self.touched.get_mut(&pod)
    }

    fn stop(&mut self, why: Stopped) -> wasmtime::Error {
        self.stopped = Some(why);
        why.into()
    }
}

impl Touched {
    /// Bytes of the bucket after this call, one key left out.
    fn bytes_without(&self, key: &str) -> usize {
        let sum = |change: &Option<Vec<u8>>, key: &str| change.as_ref().map_or(0, |value| key.len() + value.len());
        let before = size(&self.found.entries);
        let replaced: usize = self
            .found
            .entries
            .iter()
            .filter(|(k, _)| *k == key || self.changes.contains_key(*k))
            .map(|(k, v)| k.len() + v.len())
            .sum();
        let added: usize = self.changes.iter().filter(|(k, _)| *k != key).map(|(k, change)| sum(change, k)).sum();
        before - replaced + added
    }
}

/// Why a write was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    KeyTooLong,
    ValueTooLong,
    BucketFull,
    NoSuchPod,
}

/// Growth past the limit ends the call at once, so that it is told apart from a guest that gives up for reasons of its own.
impl ResourceLimiter for Call {
    /// The limit is that of all memories together.
    fn memory_growing(&mut self, current: usize, wanted: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_sub(current).saturating_add(wanted);
        if total > self.limits.memory {
            return Err(self.stop(Stopped::Memory { wanted: total, allowed: self.limits.memory }));
        }
        // Beyond the maximum that it declares itself, a memory stays as it is whatever is said here.
        if maximum.is_none_or(|maximum| wanted <= maximum) {
            self.memory = total;
        }
        Ok(true)
    }

    fn table_growing(&mut self, _: usize, wanted: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        match maximum {
            Some(allowed) if wanted > allowed => Err(self.stop(Stopped::Table { wanted, allowed })),
            _ => Ok(true),
        }
    }
}
