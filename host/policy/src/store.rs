//! What policies remember: small buckets, one per policy and one per policy and pod.
//!
//! A call sees a bucket as it was when the call first touched it, and its own writes. Its writes wait in [`Writes`] until
//! the answer has been accepted, and are dropped as a whole if another call changed one of these buckets meanwhile.
//!
//! **Invariant:** nothing is written but by [`PolicyStore::commit`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polylet_core::id::PodUid;

/// Contents of a bucket.
pub type Entries = BTreeMap<String, Vec<u8>>;

/// Keys and values that all policies together may keep, in bytes.
pub const TOTAL_MAX: usize = 32 << 20;

/// Which bucket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketName {
    /// Name of the binding: a policy that takes the place of another under the same name finds what it left.
    pub policy: Arc<str>,
    /// The pod; None for the policy's own bucket.
    pub pod: Option<PodUid>,
}

/// Keeps buckets across the life of the agent. Called in the order of the commits, while other commits wait: it should queue
/// rather than do. Losing what it keeps costs memory of the past, nothing else; so it reports its failures by itself.
pub trait Persist: Send + Sync {
    /// Everything that was kept.
    fn load(&self) -> Vec<(BucketName, Entries)>;
    /// Replaces the bucket; an empty one is to be dropped.
    fn save(&self, bucket: &BucketName, entries: &Entries);
}

/// All buckets of the node.
#[derive(Default)]
pub struct PolicyStore {
    buckets: Mutex<Buckets>,
    persist: Option<Arc<dyn Persist>>,
    /// Held while a change is made and handed on, so that changes are kept in their order. Readers do not wait for it.
    order: Mutex<()>,
}

#[derive(Default)]
struct Buckets {
    by_name: HashMap<BucketName, Bucket>,
    /// Of the newest change. Never falls, so that a bucket that was dropped and made anew is not taken for the old one.
    version: u64,
    bytes: usize,
}

/// A bucket at one moment. Version zero: there is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bucket {
    version: u64,
    pub(crate) entries: Arc<Entries>,
}

/// Writes of one call, waiting for its answer to be accepted.
#[derive(Debug, Default)]
pub struct Writes(Vec<Write>);

#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) bucket: BucketName,
    /// As the call found it.
    pub(crate) found: Bucket,
    /// Values to set; None removes.
    pub(crate) changes: BTreeMap<String, Option<Vec<u8>>>,
}

/// Why writes were dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Another call was faster.
    #[error("what policy {} remembers{} changed while it was asked: its writes are dropped", bucket.policy, of_pod(bucket))]
    Changed {
        /// The bucket that changed.
        bucket: BucketName,
    },
    /// The node's whole store is full.
    #[error("policies remember {TOTAL_MAX} bytes already: the writes of policy {policy} are dropped")]
    Full {
        /// Whose writes.
        policy: Arc<str>,
    },
}

fn of_pod(bucket: &BucketName) -> String {
    bucket.pod.as_ref().map(|uid| format!(" of pod {uid}")).unwrap_or_default()
}

impl Writes {
    pub(crate) fn new(writes: Vec<Write>) -> Self {
        Self(writes)
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PolicyStore {
    /// A store that begins with what was kept.
    pub fn new(persist: Option<Arc<dyn Persist>>) -> Self {
        let mut buckets = Buckets::default();
        for (name, entries) in persist.as_deref().map(Persist::load).unwrap_or_default() {
            buckets.put(name, entries);
        }
        Self { buckets: Mutex::new(buckets), persist, order: Mutex::default() }
    }

    /// Commits the writes of an accepted answer: all of them, or none.
    ///
    /// # Errors
    /// [`CommitError`]: the answer stands, only its memory is lost.
    pub fn commit(&self, writes: Writes) -> Result<(), CommitError> {
        let _order = lock(&self.order);
        let mut saved = Vec::with_capacity(writes.0.len());
        {
            let mut buckets = lock(&self.buckets);
            if let Some(write) = writes.0.iter().find(|w| buckets.version_of(&w.bucket) != w.found.version) {
                return Err(CommitError::Changed { bucket: write.bucket.clone() });
            }
            for Write { bucket, found, changes } in writes.0 {
                let mut entries = Entries::clone(&found.entries);
                for (key, change) in changes {
                    match change {
                        Some(value) => drop(entries.insert(key, value)),
                        None => drop(entries.remove(&key)),
                    }
                }
                saved.push((bucket, entries));
            }
            let put: usize = saved.iter().map(|(_, entries)| size(entries)).sum();
            let replaced: usize = saved.iter().map(|(bucket, _)| buckets.size_of(bucket)).sum();
            // What shrinks the store is taken however full it is.
            if put > replaced && buckets.bytes - replaced + put > TOTAL_MAX {
                let policy = saved.first().map(|(bucket, _)| Arc::clone(&bucket.policy)).unwrap_or_default();
                return Err(CommitError::Full { policy });
            }
            for (bucket, entries) in &saved {
                buckets.put(bucket.clone(), entries.clone());
            }
        }
        self.keep(&saved);
        Ok(())
    }

    /// Drops the buckets of a pod that is gone.
    pub fn forget_pod(&self, uid: &PodUid) {
        self.forget(|bucket| bucket.pod.as_ref() == Some(uid));
    }

    /// Drops all that is remembered under the name of a binding.
    pub(crate) fn forget_policy(&self, policy: &str) {
        self.forget(|bucket| &*bucket.policy == policy);
    }

    /// Names of bindings under which something is remembered.
    pub(crate) fn policies(&self) -> BTreeSet<Arc<str>> {
        lock(&self.buckets).by_name.keys().map(|bucket| Arc::clone(&bucket.policy)).collect()
    }

    /// A bucket's contents, for showing.
    pub fn read(&self, bucket: &BucketName) -> Arc<Entries> {
        self.find(bucket).entries
    }

    pub(crate) fn find(&self, bucket: &BucketName) -> Bucket {
        lock(&self.buckets).by_name.get(bucket).cloned().unwrap_or_default()
    }

    fn forget(&self, gone: impl Fn(&BucketName) -> bool) {
        let _order = lock(&self.order);
        let mut forgotten = Vec::new();
        {
            let mut buckets = lock(&self.buckets);
            forgotten.extend(buckets.by_name.keys().filter(|name| gone(name)).map(|name| (name.clone(), Entries::new())));
            for (name, entries) in &forgotten {
                buckets.put(name.clone(), entries.clone());
            }
        }
        self.keep(&forgotten);
    }

    fn keep(&self, saved: &[(BucketName, Entries)]) {
        if let Some(persist) = &self.persist {
            saved.iter().for_each(|(bucket, entries)| persist.save(bucket, entries));
        }
    }
}

impl Buckets {
    fn version_of(&self, bucket: &BucketName) -> u64 {
        self.by_name.get(bucket).map_or(0, |bucket| bucket.version)
    }

    fn size_of(&self, bucket: &BucketName) -> usize {
        self.by_name.get(bucket).map_or(0, |bucket| size(&bucket.entries))
    }

    fn put(&mut self, name: BucketName, entries: Entries) {
        self.version += 1;
        self.bytes += size(&entries);
        let replaced = match entries.is_empty() {
            true => self.by_name.remove(&name),
            false => self.by_name.insert(name, Bucket { version: self.version, entries: Arc::new(entries) }),
        };
        self.bytes -= replaced.map_or(0, |bucket| size(&bucket.entries));
    }
}

/// Bytes that count against a quota.
pub(crate) fn size(entries: &Entries) -> usize {
    entries.iter().map(|(key, value)| key.len() + value.len()).sum()
}

/// A panic elsewhere cannot leave a bucket half changed: each change is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(pod: Option<&str>) -> BucketName {
        BucketName { policy: "p".into(), pod: pod.map(PodUid::from) }
    }

    fn writes(store: &PolicyStore, name: &BucketName, key: &str, value: Option<&str>) -> Writes {
        let changes = BTreeMap::from([(key.to_owned(), value.map(|v| v.as_bytes().to_vec()))]);
        Writes(vec![Write { bucket: name.clone(), found: store.find(name), changes }])
    }

    #[test]
    fn the_faster_of_two_calls_wins_and_the_other_loses_all_its_writes() {
        let store = PolicyStore::default();
        let (first, second) = (writes(&store, &bucket(None), "k", Some("1")), writes(&store, &bucket(None), "k", Some("2")));
        store.commit(first).unwrap();
        assert_eq!(
            store.commit(second).unwrap_err().to_string(),
            "what policy p remembers changed while it was asked: its writes are dropped"
        );
        assert_eq!(store.read(&bucket(None))["k"], b"1");
    }

    #[test]
    fn a_forgotten_bucket_made_anew_is_not_taken_for_the_old_one() {
        let store = PolicyStore::default();
        let pod = bucket(Some("u"));
        store.commit(writes(&store, &pod, "k", Some("1"))).unwrap();
        let late = writes(&store, &pod, "k", Some("late"));
        store.forget_pod(&"u".into());
        store.commit(writes(&store, &pod, "k", Some("2"))).unwrap();
        assert!(store.commit(late).is_err());
        assert_eq!(store.read(&pod)["k"], b"2");
    }

    #[test]
    fn pods_that_are_gone_take_their_buckets_with_them() {
        let store = PolicyStore::default();
        for uid in ["a", "b"] {
            store.commit(writes(&store, &bucket(Some(uid)), "k", Some("v"))).unwrap();
        }
        store.commit(writes(&store, &bucket(None), "k", Some("v"))).unwrap();
        store.forget_pod(&"a".into());
        assert!(store.read(&bucket(Some("a"))).is_empty());
        assert!(!store.read(&bucket(Some("b"))).is_empty());
        store.forget_pod(&"b".into());
        assert_eq!(lock(&store.buckets).bytes, 2);
    }

    #[derive(Default)]
    struct Kept(Mutex<BTreeMap<BucketName, Entries>>);

    impl Persist for Kept {
        fn load(&self) -> Vec<(BucketName, Entries)> {
            lock(&self.0).clone().into_iter().collect()
        }
        fn save(&self, bucket: &BucketName, entries: &Entries) {
            match entries.is_empty() {
                true => drop(lock(&self.0).remove(bucket)),
                false => drop(lock(&self.0).insert(bucket.clone(), entries.clone())),
            }
        }
    }

    #[test]
    fn what_was_kept_is_there_again() {
        let kept = Arc::new(Kept::default());
        let store = PolicyStore::new(Some(kept.clone()));
        store.commit(writes(&store, &bucket(None), "k", Some("v"))).unwrap();
        store.commit(writes(&store, &bucket(Some("u")), "k", Some("v"))).unwrap();
        store.forget_pod(&"u".into());
        let again = PolicyStore::new(Some(kept));
        assert_eq!(again.read(&bucket(None))["k"], b"v");
        assert!(again.read(&bucket(Some("u"))).is_empty());
    }

    #[test]
    fn a_policy_that_is_forgotten_leaves_nothing_and_the_others_stay() {
        let kept = Arc::new(Kept::default());
        let store = PolicyStore::new(Some(kept.clone()));
        let other = BucketName { policy: "other".into(), pod: Some("u".into()) };
        for name in [&bucket(None), &bucket(Some("u")), &other] {
            store.commit(writes(&store, name, "k", Some("v"))).unwrap();
        }
        let (p, others) = (Arc::<str>::from("p"), Arc::clone(&other.policy));
        assert_eq!(store.policies(), BTreeSet::from([Arc::clone(&others), p]));
        store.forget_policy("p");
        assert_eq!((store.policies(), lock(&store.buckets).bytes), (BTreeSet::from([others]), 2));
        assert_eq!(lock(&kept.0).keys().collect::<Vec<_>>(), [&other]);
    }

    #[test]
    fn the_whole_store_is_bounded() {
        let store = PolicyStore::default();
        let big = "x".repeat(TOTAL_MAX / 2);
        store.commit(writes(&store, &bucket(Some("a")), "k", Some(&big))).unwrap();
        let error = store.commit(writes(&store, &bucket(Some("b")), "k", Some(&big))).unwrap_err();
        assert!(matches!(error, CommitError::Full { .. }), "{error}");
    }

    #[test]
    fn a_full_store_takes_what_does_not_make_it_larger() {
        let store = PolicyStore::default();
        let (a, b) = (bucket(Some("a")), bucket(Some("b")));
        let half = TOTAL_MAX / 2 - 1;
        store.commit(writes(&store, &a, "k", Some(&"x".repeat(half)))).unwrap();
        store.commit(writes(&store, &b, "k", Some(&"x".repeat(half)))).unwrap();
        assert_eq!(lock(&store.buckets).bytes, TOTAL_MAX);
        store.commit(writes(&store, &a, "k", Some(&"y".repeat(half)))).unwrap();
        store.commit(writes(&store, &a, "k", Some(&"y".repeat(half - 1)))).unwrap();
        assert!(store.commit(writes(&store, &b, "k", Some(&"y".repeat(half + 2)))).is_err(), "one byte too many");
        store.commit(writes(&store, &b, "k", Some(&"y".repeat(half + 1)))).unwrap();
        store.commit(writes(&store, &b, "k", None)).unwrap();
        assert_eq!(lock(&store.buckets).bytes, half);
    }
}
