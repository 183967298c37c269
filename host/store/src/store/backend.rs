//! The file below redb, synced behind its back.
//!
//! redb knows two kinds of commit: one that waits for the disk, and one that is gone when the process dies. We need neither:
//! what was remembered must survive `kill -9` of the agent, and a write that the kernel has accepted does. So redb makes its
//! careful commits (`Durability::Immediate`), and what it believes to be a sync is only noted here; the store's keeper thread
//! syncs the file for real within a second.
//!
//! Measured on a virtual machine (release build, 110 records of 4 kB, one record a commit): a commit that waits for the disk takes
//! 0.6 to 4.0 ms (p50, differing from hour to hour; p99 4 to 9 ms, and up to 0.7 s while a compiler fills the same disk); ours
//! takes 0.06 ms (p50; p99 0.12 ms), and [`super::Store::remember`] in all about 0.1 ms. `examples/latency.rs` measures it again.
//!
//! The price: after a loss of power, writes of the last second may have reached the disk in part and in any order. redb's
//! checksums find that, and the store goes back to the commit before or, at worst, is set aside. No container outlives a loss of
//! power either, so what is lost is restart counts and backoff.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

/// A database file whose syncs are only noted.
#[derive(Debug)]
pub(super) struct Backend {
    file: FileBackend,
    unsynced: Arc<AtomicBool>,
    #[cfg(test)]
    full: Arc<AtomicBool>,
}

/// The keeper's end of a [`Backend`].
#[derive(Clone, Debug)]
pub(super) struct Syncer {
    file: Arc<File>,
    unsynced: Arc<AtomicBool>,
}

impl Backend {
    /// Opens the file, making it where it is not there, readable by its owner only.
    pub(super) fn open(path: &Path, faults: &Faults) -> io::Result<(Self, Syncer)> {
        use std::os::unix::fs::OpenOptionsExt;
        faults.on_open()?;
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let file = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let syncer = Syncer { file: Arc::new(file.try_clone()?), unsynced: Arc::default() };
        let backend = Self {
            file: FileBackend::new(file).map_err(io::Error::other)?,
            unsynced: syncer.unsynced.clone(),
            #[cfg(test)]
            full: faults.full.clone(),
        };
        Ok((backend, syncer))
    }

    fn may_write(&self) -> io::Result<()> {
        #[cfg(test)]
        if self.full.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl Syncer {
    /// Whether the path still names the file: somebody may have removed it, and what is written would be nowhere.
    pub(super) fn is_at(&self, path: &std::path::Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let same = |a: std::fs::Metadata, b: std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        std::fs::metadata(path).is_ok_and(|found| self.file.metadata().is_ok_and(|own| same(own, found)))
    }

    /// Whether the kernel holds something that the disk may not have.
    pub(super) fn is_due(&self) -> bool {
        self.unsynced.load(Ordering::Acquire)
    }

    /// Writes to disk what the kernel holds, if there is any of it.
    pub(super) fn sync(&self) -> io::Result<()> {
        if self.unsynced.swap(false, Ordering::AcqRel) { self.file.sync_data() } else { Ok(()) }
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.may_write()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.unsynced.store(true, Ordering::Release);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.may_write()?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Edge, end: Edge) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Edge, end: Edge) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Edge, end: Edge) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Edge, end: Edge) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Edge, end: Edge) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Edge, end: Edge) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

type Edge = std::ops::Bound<u64>;

/// What tests make go wrong; nothing outside of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    /// The disk is full: every write fails.
    #[cfg(test)]
    pub(super) full: Arc<AtomicBool>,
    /// The file cannot be opened.
    #[cfg(test)]
    pub(super) closed: Arc<AtomicBool>,
}

impl Faults {
    fn on_open(&self) -> io::Result<()> {
        #[cfg(test)]
        if self.closed.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(())
    }
}
