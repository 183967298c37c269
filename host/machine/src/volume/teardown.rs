//! Taking a pod's directory down: unmount what is mounted below it, then remove it, never across a mount.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use polylet_core::paths::Paths;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::{mountinfo, walk};

/// Why a pod's directory is still there. Trying again later is right.
#[derive(Debug, thiserror::Error)]
pub enum TearDownError {
    /// The pods' directory could not be read.
    #[error("list pod directories in {path}")]
    List {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// Not a UID: nothing was touched.
    #[error("tear down volumes: \"{uid}\" is no pod UID")]
    BadUid {
        /// What was given.
        uid: String,
    },
    /// Mounts could not be read: nothing was touched.
    #[error("read mounts")]
    Mounts {
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A mount is in use, or came back.
    #[error("unmount {path}")]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The directory could not be removed.
    #[error("remove {path}")]
    Remove {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

/// Unmounts everything below a pod's directory and removes it. Idempotent.
pub fn tear_down(paths: &Paths, uid: &str) -> Result<(), TearDownError> {
    if uid.is_empty() || uid.contains('/') || uid.starts_with('.') {
        return Err(TearDownError::BadUid { uid: uid.to_owned() });
    }
    let dir = paths.pod(uid);
    // Mountinfo has real paths; the root directory may be reached through a link.
    let real = match fs::canonicalize(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|cause| TearDownError::Remove { path: dir.clone(), cause })?,
    };
    unmount_below(&real)?;
    walk::remove(&real).map_err(|cause| TearDownError::Remove { path: real, cause })
}

/// UIDs of the pods that have a directory.
pub fn list_pods(paths: &Paths) -> Result<Vec<String>, TearDownError> {
    let path = paths.root.join("pods");
    let entries = match fs::read_dir(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|cause| TearDownError::List { path: path.clone(), cause })?,
    };
    let mut uids = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|cause| TearDownError::List { path: path.clone(), cause })?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            uids.extend(entry.file_name().into_string());
        }
    }
    uids.sort();
    Ok(uids)
}

/// Several may lie on top of each other: after each round mountinfo is read anew, until none is left.
fn unmount_below(dir: &Path) -> Result<(), TearDownError> {
    for _ in 0..ROUNDS {
        let mounts = mountinfo::read().map_err(|cause| TearDownError::Mounts { cause })?;
        let below = mountinfo::below(&mounts, dir);
        if below.is_empty() {
            return Ok(());
        }
        for mount in below {
            match rustix::mount::unmount(&mount.point, UnmountFlags::NOFOLLOW) {
                // Gone already: with a mount above it, or to somebody else.
                Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
                Err(error) => return Err(TearDownError::Unmount { path: mount.point.clone(), cause: error.into() }),
            }
        }
    }
    Err(TearDownError::Unmount { path: dir.to_owned(), cause: io::Error::other("mounts keep coming back") })
}

const ROUNDS: usize = 8;
