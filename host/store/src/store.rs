//! The memory that every write also leaves on disk.
//!
//! All of it is held in memory, where reads are answered; the file is its copy. So a disk that fails, fills up or is taken away
//! loses nothing while the agent runs: what could not be written is remembered as such, and a thread (the keeper) writes it as
//! soon as that is possible.
//!
//! ```text
//!             remember, forget                       retry_after
//! on disk  ──── commit fails ────►  in memory only ──── reopened, all changes written ────►  on disk
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use polylet_core::id::PodUid;
use polylet_core::record::PodRecord;

use aside::set_aside;
use backend::Faults;
use database::{Database, Image, Key, Unusable};

pub use database::WriteFault;
pub use opened::{Opened, Why};

mod aside;
mod backend;
mod database;
mod keeper;
mod opened;
#[cfg(test)]
mod tests;

/// Name of the database within its directory.
pub const FILE: &str = "polylet.redb";

/// One node's memory. Shared by reference; every method may be called from any thread.
///
/// A write that is answered `Ok` survives `kill -9` of the agent. It blocks for some tens of microseconds (`store/backend.rs`
/// has the figures) and never waits for the disk.
pub struct Store {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

/// One change of a batch.
#[derive(Clone, Debug)]
pub enum Change {
    /// Store this record under its UID.
    Remember(Arc<PodRecord>),
    /// Drop the record of this UID, and what policies remember of the pod.
    Forget(PodUid),
}

/// A write of a policy's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyWrite {
    /// The empty string for the policy's own bucket, else the pod's UID.
    pub bucket: String,
    /// Key within the bucket.
    pub key: String,
    /// None removes it.
    pub value: Option<Vec<u8>>,
}

/// What was loaded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    /// By UID, sorted.
    pub pods: Vec<PodRecord>,
    /// Records that could not be parsed: the UID, and why. They stay stored until forgotten or replaced.
    pub unreadable: Vec<(PodUid, String)>,
}

/// A write that did not reach the disk. The change holds all the same, in memory, and is written as soon as that is possible.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// This write failed.
    #[error("write {changes} changes to the store {path}: kept in memory, tried again")]
    Write {
        /// The database.
        path: PathBuf,
        /// Changes that are only in memory now.
        changes: usize,
        /// What failed.
        #[source]
        cause: WriteFault,
    },
    /// An earlier write failed, and the disk has not come back since; this one was not tried.
    #[error("the store {path} is out of reach ({why}): {changes} changes are kept in memory only")]
    Waiting {
        /// The database.
        path: PathBuf,
        /// The last failure.
        why: String,
        /// Changes that are only in memory now.
        changes: usize,
    },
    /// A record has no JSON form: a mistake of ours. Nothing was changed.
    #[error("encode the record of pod {uid}")]
    Encode {
        /// The pod.
        uid: PodUid,
        /// What failed.
        #[source]
        cause: serde_json::Error,
    },
}

/// Waiting times of the keeper.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// From a commit to the sync of the file: what a loss of power may cost.
    pub sync_after: Duration,
    /// From a failed write to the next try.
    pub retry_after: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { sync_after: Duration::from_secs(1), retry_after: Duration::from_secs(5) }
    }
}

impl Store {
    /// Opens the store in `dir`, making both where they are missing. Always answers a store that works: see [`Opened`].
    pub fn open(dir: &Path) -> (Self, Opened) {
        Self::open_with(dir, Pace::default())
    }

    /// As [`Store::open`], at another pace.
    pub fn open_with(dir: &Path, pace: Pace) -> (Self, Opened) {
        Self::open_faulty(dir, pace, Faults::default())
    }

    fn open_faulty(dir: &Path, pace: Pace, faults: Faults) -> (Self, Opened) {
        let path = dir.join(FILE);
        let (database, image, opened) = opened::open(dir, &path, &faults);
        let trouble = match &opened {
            Opened::MemoryOnly { why, .. } => Some(why.clone()),
            _ => None,
        };
        let state = State { image, unwritten: BTreeSet::new(), database, trouble, stop: false };
        let shared = Arc::new(Shared { path, pace, faults, state: Mutex::new(state), changed: Condvar::new() });
        let keeper = keeper::spawn(shared.clone());
        (Self { shared, keeper }, opened)
    }

    /// Every record.
    pub fn load_all(&self) -> Records {
        let state = self.shared.lock();
        let mut records = Records::default();
        for (key, value) in &state.image {
            let Key::Pod(uid) = key else { break };
            match serde_json::from_slice(value) {
                Ok(record) => records.pods.push(record),
                Err(error) => records.unreadable.push((uid.clone(), error.to_string())),
            }
        }
        records
    }

    /// Stores a record, replacing what was stored under its UID.
    pub fn remember(&self, record: &PodRecord) -> Result<(), StoreError> {
        let value = encode(record)?;
        self.shared.change([(Key::Pod(record.uid.clone()), Some(value))])
    }

    /// Drops the record of a pod, and what policies remember of it.
    pub fn forget(&self, uid: &PodUid) -> Result<(), StoreError> {
        let mut state = self.shared.lock();
        let keys: Vec<Key> = keys_of(&state.image, uid);
        self.shared.change_locked(&mut state, keys.into_iter().map(|key| (key, None)))
    }

    /// Several changes at once, in their order, all or nothing.
    pub fn apply(&self, changes: &[Change]) -> Result<(), StoreError> {
        let mut values = BTreeMap::new();
        let mut state = self.shared.lock();
        for change in changes {
            match change {
                Change::Remember(record) => drop(values.insert(Key::Pod(record.uid.clone()), Some(encode(record)?))),
                Change::Forget(uid) => {
                    values.insert(Key::Pod(uid.clone()), None);
                    values.extend(keys_of(&state.image, uid).into_iter().map(|key| (key, None)));
                }
            }
        }
        self.shared.change_locked(&mut state, values)
    }

    /// Everything that a policy remembers, by (bucket, key).
    pub fn policy_get_all(&self, policy: &str) -> BTreeMap<(String, String), Vec<u8>> {
        let state = self.shared.lock();
        let first = Key::Policy { policy: policy.to_owned(), bucket: String::new(), key: String::new() };
        let mine = state.image.range(first..).map_while(|(key, value)| match key {
            Key::Policy { policy: p, bucket, key } if p == policy => Some(((bucket.clone(), key.clone()), value.clone())),
            _ => None,
        });
        mine.collect()
    }

    /// Everything that policies remember, by (policy, bucket, key).
    pub fn policy_all(&self) -> BTreeMap<(String, String, String), Vec<u8>> {
        let state = self.shared.lock();
        let kept = state.image.iter().filter_map(|(key, value)| match key {
            Key::Policy { policy, bucket, key } => Some(((policy.clone(), bucket.clone(), key.clone()), value.clone())),
            Key::Pod(_) | Key::Adopted(_) => None,
        });
        kept.collect()
    }

    /// Commits what an accepted answer wrote, all or nothing.
    pub fn policy_commit(&self, policy: &str, writes: Vec<PolicyWrite>) -> Result<(), StoreError> {
        let key = |bucket, key| Key::Policy { policy: policy.to_owned(), bucket, key };
        self.shared.change(writes.into_iter().map(|write| (key(write.bucket, write.key), write.value)))
    }

    /// UIDs that pods of manifests took over from pods that ran already, by the UID that the manifest's content gives.
    pub fn adopted(&self) -> BTreeMap<PodUid, PodUid> {
        let state = self.shared.lock();
        let all = state.image.iter().filter_map(|(key, value)| match key {
            Key::Adopted(own) => Some((own.clone(), PodUid::from(str::from_utf8(value).ok()?))),
            Key::Pod(_) | Key::Policy { .. } => None,
        });
        all.collect()
    }

    /// Stores that the pod whose content gives the UID `own` goes by the UID `taken`; None drops what was stored of `own`.
    pub fn adopt(&self, own: &PodUid, taken: Option<&PodUid>) -> Result<(), StoreError> {
        self.shared.change([(Key::Adopted(own.clone()), taken.map(|uid| uid.as_str().as_bytes().to_vec()))])
    }

    /// Tries now to write what is only in memory, and answers whether the disk has all of it. The keeper does the same by itself.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.shared.flush(&mut self.shared.lock())
    }
}

impl Drop for Store {
    /// Writes what is left and syncs the file.
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// What the callers and the keeper share.
struct Shared {
    path: PathBuf,
    pace: Pace,
    faults: Faults,
    state: Mutex<State>,
    /// Something is to be synced or retried, or the store is being dropped.
    changed: Condvar,
}

/// **Invariant:** the file holds the image, but for the keys in `unwritten`.
struct State {
    image: Image,
    /// Keys whose values, or whose absence, the file does not have yet.
    unwritten: BTreeSet<Key>,
    /// None after a failure, until the keeper has opened the file again.
    database: Option<Database>,
    /// The last failure, while it lasts.
    trouble: Option<String>,
    stop: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Panics of redb are caught below, so the state is whole even if some thread died holding it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, values: impl IntoIterator<Item = (Key, Option<Vec<u8>>)>) -> Result<(), StoreError> {
        self.change_locked(&mut self.lock(), values)
    }

    fn change_locked(
        &self,
        state: &mut State,
        values: impl IntoIterator<Item = (Key, Option<Vec<u8>>)>,
    ) -> Result<(), StoreError> {
        for (key, value) in values {
            // A write that changes nothing costs nothing.
            if state.image.get(&key) == value.as_ref() {
                continue;
            }
            state.unwritten.insert(key.clone());
            match value {
                Some(value) => drop(state.image.insert(key, value)),
                None => drop(state.image.remove(&key)),
            }
        }
        if state.unwritten.is_empty() {
            return Ok(());
        }
        match &state.trouble {
            // The loop is not made to wait for a sick disk at every write: the keeper asks after it.
            Some(why) if state.database.is_none() => {
                Err(StoreError::Waiting { path: self.path.clone(), why: why.clone(), changes: state.unwritten.len() })
            }
            _ => self.flush(state),
        }
    }

    /// Writes what the file does not have, opening it again if need be.
    fn flush(&self, state: &mut State) -> Result<(), StoreError> {
        let result = self.reopened(state).and_then(|database| {
            let due = database.syncer.is_due();
            let changes = state.unwritten.iter().map(|key| (key, state.image.get(key).map(Vec::as_slice)));
            if state.unwritten.is_empty() { Ok(()) } else { database.write(changes) }.map(|()| (database, due))
        });
        match result {
            Ok((database, due)) => {
                state.database = Some(database);
                state.unwritten.clear();
                state.trouble = None;
                if !due {
                    self.changed.notify_all();
                }
                Ok(())
            }
            Err(cause) => {
                // redb refuses everything after a failed write; the file is opened and checked anew.
                state.trouble = Some(cause.to_string());
                self.changed.notify_all();
                Err(StoreError::Write { path: self.path.clone(), changes: state.unwritten.len(), cause })
            }
        }
    }

    /// Takes the database out of the state, so that a failure leaves none there.
    fn reopened(&self, state: &mut State) -> Result<Database, WriteFault> {
        if let Some(database) = state.database.take() {
            if database.syncer.is_at(&self.path) {
                return Ok(database);
            }
            tracing::warn!(store = %self.path.display(), "the store was removed while running; it is made anew, with all that it held");
        }
        let (database, stored) = match Database::open(&self.path, &self.faults) {
            Ok(opened) => opened,
            Err(Unusable::Unreachable(why)) => return Err(WriteFault::Reopen(why)),
            Err(unusable) => {
                let kind = if matches!(unusable, Unusable::Newer(_)) { "newer" } else { "corrupt" };
                let moved = set_aside(&self.path, kind).map_err(|error| WriteFault::Reopen(error.to_string()))?;
                tracing::error!(store = %self.path.display(), moved_to = %moved.display(), reason = ?unusable, "store set aside while running");
                Database::open(&self.path, &self.faults).map_err(|fault| WriteFault::Reopen(format!("{fault:?}")))?
            }
        };
        // A fresh file holds nothing yet; one that was out of reach when the agent started may hold more than we know of.
        let known = stored.unwrap_or_default();
        let differs = |key: &&Key| known.get(*key) != state.image.get(*key);
        let keys: Vec<Key> = state.image.keys().filter(differs).cloned().collect();
        state.unwritten.extend(keys);
        Ok(database)
    }
}

/// The record of a pod and its buckets in every policy's memory, as far as there are any.
fn keys_of(image: &Image, uid: &PodUid) -> Vec<Key> {
    let of_pod = |key: &&Key| match key {
        Key::Pod(u) => u == uid,
        Key::Policy { bucket, .. } => bucket == uid.as_str(),
        // The manifest may come back with the same content; an entry that nobody knows any more is dropped at the next start.
        Key::Adopted(_) => false,
    };
    image.keys().filter(of_pod).cloned().collect()
}

fn encode(record: &PodRecord) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(record).map_err(|cause| StoreError::Encode { uid: record.uid.clone(), cause })
}
