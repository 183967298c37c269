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

/// Whether a pod can have this UID: up to 63 letters, digits and `-`, the first of which is no `-`.
pub fn is_pod_uid(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('-')
}

/// Unmounts everything below a pod's directory and removes it. Idempotent: what is not there is down. Any plain name will do: a pod of
/// another agent's may have a UID that this one would not give.
pub fn tear_down(paths: &Paths, uid: &str) -> Result<(), TearDownError> {
    let dir = paths.pod(uid);
    if fs::symlink_metadata(&dir).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(());
    }
    if uid.is_empty() || uid.starts_with('.') || uid.contains('/') {
        return Err(TearDownError::BadUid { uid: uid.to_owned() });
    }
    // Mountinfo has real paths; the root directory may be reached through a link.
    let real = match fs::canonicalize(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|cause| TearDownError::Remove { path: dir.clone(), cause })?,
    };
    unmount_below(&real)?;
    walk::remove(&real).map_err(|cause| TearDownError::Remove { path: real, cause })
}

/// UIDs of the pods that have a directory. What stands beside them and is no pod's (`lost+found`, somebody's `.backup`) is not among them:
/// [`list_others`] names it.
pub fn list_pods(paths: &Paths) -> Result<Vec<String>, TearDownError> {
    Ok(list(paths)?.into_iter().filter(|name| is_pod_uid(name)).collect())
}

/// Directories among those of pods that are no pod's. They are nobody's to remove.
pub fn list_others(paths: &Paths) -> Result<Vec<String>, TearDownError> {
    Ok(list(paths)?.into_iter().filter(|name| !is_pod_uid(name)).collect())
}

fn list(paths: &Paths) -> Result<Vec<String>, TearDownError> {
    let path = paths.root.join("pods");
    let entries = match fs::read_dir(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|cause| TearDownError::List { path: path.clone(), cause })?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|cause| TearDownError::List { path: path.clone(), cause })?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
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
