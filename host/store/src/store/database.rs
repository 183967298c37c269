//! The database file: what makes one usable, and how a commit is made.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use polylet_core::id::PodUid;
use redb::backends::InMemoryBackend;
use redb::{Durability, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, TableHandle};

use super::backend::{Backend, Faults, Syncer};

/// Version of what the tables below hold. A store of a higher one is set aside; a lower one is brought up when there is one.
pub(super) const SCHEMA: u64 = 1;

/// Numbers by name. **Invariant:** this table keeps its name and types for ever, so that every agent can read `schema`.
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
/// JSON of a `PodRecord` by UID.
const PODS: TableDefinition<&str, &[u8]> = TableDefinition::new("pods");
/// What policies remember, by (policy, bucket, key).
const POLICY: TableDefinition<(&str, &str, &str), &[u8]> = TableDefinition::new("policy_store");
/// The UID that the pod of a manifest took over, by the UID that its content gives. An agent that does not know this table leaves it
/// alone, and one that looks for it need not find it: no other schema.
const ADOPTED: TableDefinition<&str, &[u8]> = TableDefinition::new("adopted");

/// Largest file of which a copy is made in memory: a node's memory is some megabytes at most.
const COPIED: u64 = 64 << 20;

/// Name of one stored value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Pod(PodUid),
    Policy { policy: String, bucket: String, key: String },
    Adopted(PodUid),
}

/// Everything a store holds.
pub(super) type Image = BTreeMap<Key, Vec<u8>>;

/// An open database file.
pub(super) struct Database {
    redb: redb::Database,
    pub(super) syncer: Syncer,
}

/// Why a file cannot be used.
#[derive(Debug)]
pub(super) enum Unusable {
    /// It is not what was written.
    Corrupt(String),
    /// Something else wrote it.
    Foreign(String),
    /// A later agent wrote it.
    Newer(u64),
    /// It cannot be reached now: held by another process, no permission, a full or failing disk. It may be good.
    Unreachable(String),
}

impl Database {
    /// Opens or makes the file and reads it whole. None for one that was new or empty.
    pub(super) fn open(path: &Path, faults: &Faults) -> Result<(Self, Option<Image>), Unusable> {
        let fresh = std::fs::metadata(path).map_or(true, |found| found.len() == 0);
        let (backend, syncer) = Backend::open(path, faults).map_err(|error| Unusable::Unreachable(error.to_string()))?;
        let opened = open(backend);
        if fresh && let Err(error) = &opened {
            // Half made, on a full disk for example: it holds nothing, and is nothing to keep.
            let reason = format!("{error:?}");
            let _ = std::fs::remove_file(path);
            return Err(Unusable::Unreachable(reason));
        }
        let (redb, image) = opened?;
        Ok((Self { redb, syncer }, image))
    }

    /// Reads a file that cannot be written (a full disk, a read-only mount), without touching it: in a copy of it in memory, as
    /// one that was not closed has to be repaired before it can be read.
    pub(super) fn read_copy(path: &Path) -> Result<Option<Image>, Unusable> {
        let unreachable = |error: std::io::Error| Unusable::Unreachable(error.to_string());
        let size = std::fs::metadata(path).map_err(unreachable)?.len();
        if size > COPIED {
            return Err(Unusable::Unreachable(format!("{size} bytes are too many to be copied")));
        }
        let bytes = std::fs::read(path).map_err(unreachable)?;
        let backend = InMemoryBackend::new();
        backend.set_len(bytes.len() as u64).and_then(|()| StorageBackend::write(&backend, 0, &bytes)).map_err(unreachable)?;
        open(backend).map(|(_, image)| image)
    }

    /// Stores the values given and removes the keys given with none, all or nothing.
    pub(super) fn write<'a>(&self, changes: impl Iterator<Item = (&'a Key, Option<&'a [u8]>)>) -> Result<(), WriteFault> {
        guarded(|| self.commit(changes)).map_err(WriteFault::Panic)?.map_err(WriteFault::Redb)
    }

    fn commit<'a>(&self, changes: impl Iterator<Item = (&'a Key, Option<&'a [u8]>)>) -> Result<(), redb::Error> {
        let mut transaction = self.redb.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        {
            let mut pods = transaction.open_table(PODS)?;
            let mut policy = transaction.open_table(POLICY)?;
            // Hardly ever written: no other commit pays for it.
            let mut adopted = None;
            for (key, value) in changes {
                match (key, value) {
                    (Key::Pod(uid), Some(value)) => drop(pods.insert(uid.as_str(), value)?),
                    (Key::Pod(uid), None) => drop(pods.remove(uid.as_str())?),
                    (Key::Policy { policy: p, bucket, key }, Some(value)) => {
                        drop(policy.insert((p.as_str(), bucket.as_str(), key.as_str()), value)?)
                    }
                    (Key::Policy { policy: p, bucket, key }, None) => {
                        drop(policy.remove((p.as_str(), bucket.as_str(), key.as_str()))?)
                    }
                    (Key::Adopted(own), value) => {
                        let table = match &mut adopted {
                            Some(table) => table,
                            None => adopted.insert(transaction.open_table(ADOPTED)?),
                        };
                        match value {
                            Some(value) => drop(table.insert(own.as_str(), value)?),
                            None => drop(table.remove(own.as_str())?),
                        }
                    }
                }
            }
        }
        transaction.commit()?;
        Ok(())
    }
}

/// Why a commit failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteFault {
    /// The database said so.
    #[error(transparent)]
    Redb(redb::Error),
    /// The database gave up on what it found in its file.
    #[error("the database panicked: {0}")]
    Panic(String),
    /// The file could not be opened again after an earlier failure.
    #[error("{0}")]
    Reopen(String),
}

/// Checks every page, then the schema, then reads everything.
fn open(backend: impl StorageBackend) -> Result<(redb::Database, Option<Image>), Unusable> {
    // redb may panic on a file that was altered behind its back, and it is asked to look before it trusts one.
    guarded(|| {
        let redb = redb::Database::builder()
            .set_cache_size(1 << 20)
            .set_check_integrity_on_open(true)
            .create_with_backend(backend)
            .map_err(|error| unusable(error.into()))?;
        let image = read(&redb)?;
        Ok((redb, image))
    })
    .unwrap_or_else(|panic| Err(Unusable::Corrupt(panic)))
}

fn read(redb: &redb::Database) -> Result<Option<Image>, Unusable> {
    if !check_schema(redb)? {
        return Ok(None);
    }
    read_tables(redb).map(Some).map_err(|error| Unusable::Corrupt(error.to_string()))
}

/// Marks a new file with our schema and answers false; answers true for a file marked before.
fn check_schema(redb: &redb::Database) -> Result<bool, Unusable> {
    let transaction = redb.begin_write().map_err(|error| unusable(error.into()))?;
    let tables = transaction.list_tables().map_err(|error| unusable(error.into()))?;
    let tables: Vec<String> = tables.map(|table| table.name().to_owned()).collect();
    if tables.is_empty() {
        mark(transaction).map_err(unusable)?;
        return Ok(false);
    }
    if !tables.iter().any(|name| name == META.name()) {
        return Err(Unusable::Foreign(format!("it has no table {:?}, but {tables:?}", META.name())));
    }
    let schema = transaction
        .open_table(META)
        .map_err(redb::Error::from)
        .and_then(|meta| Ok(meta.get("schema")?.map(|version| version.value())))
        .map_err(|error| Unusable::Foreign(error.to_string()))?;
    match schema {
        Some(SCHEMA) => Ok(true),
        Some(found) if found > SCHEMA => Err(Unusable::Newer(found)),
        Some(found) => Err(Unusable::Foreign(format!("it has schema version {found}, which never was one"))),
        None => Err(Unusable::Foreign("it names no schema version".to_owned())),
    }
}

fn mark(transaction: redb::WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(META)?.insert("schema", SCHEMA)?;
    transaction.open_table(PODS)?;
    transaction.open_table(POLICY)?;
    Ok(transaction.commit()?)
}

fn read_tables(redb: &redb::Database) -> Result<Image, redb::Error> {
    let transaction = redb.begin_read()?;
    let mut image = Image::new();
    for row in transaction.open_table(PODS)?.iter()? {
        let (uid, value) = row?;
        image.insert(Key::Pod(uid.value().into()), value.value().to_owned());
    }
    for row in transaction.open_table(POLICY)?.iter()? {
        let (name, value) = row?;
        let (policy, bucket, key) = name.value();
        let key = Key::Policy { policy: policy.to_owned(), bucket: bucket.to_owned(), key: key.to_owned() };
        image.insert(key, value.value().to_owned());
    }
    match transaction.open_table(ADOPTED) {
        Ok(table) => {
            for row in table.iter()? {
                let (own, uid) = row?;
                image.insert(Key::Adopted(own.value().into()), uid.value().to_owned());
            }
        }
        Err(redb::TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(image)
}

/// **Invariant:** what may be a good file is never called corrupt: a corrupt one is moved away.
fn unusable(error: redb::Error) -> Unusable {
    use std::io::ErrorKind::{InvalidData, UnexpectedEof};
    match error {
        redb::Error::DatabaseAlreadyOpen => Unusable::Unreachable("another process has it open".to_owned()),
        redb::Error::UpgradeRequired(version) => {
            Unusable::Foreign(format!("it has the file format {version} of an older redb, which this agent cannot read"))
        }
        redb::Error::Corrupted(detail) => Unusable::Corrupt(detail),
        // How redb reports a file that is none of its own, or that is cut off.
        redb::Error::Io(error) if matches!(error.kind(), InvalidData | UnexpectedEof) => Unusable::Corrupt(error.to_string()),
        redb::Error::Io(error) => Unusable::Unreachable(error.to_string()),
        error @ (redb::Error::PreviousIo | redb::Error::DatabaseClosed | redb::Error::LockPoisoned(_)) => {
            Unusable::Unreachable(error.to_string())
        }
        other => Unusable::Corrupt(other.to_string()),
    }
}

/// Runs `f`, answering a panic's message instead of passing it on.
fn guarded<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    // What `f` leaves behind when it panics is a database handle, which every caller then drops.
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panicked without a message".to_owned())
    })
}
