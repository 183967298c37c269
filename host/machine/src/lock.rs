//! One agent for each node: locks on files, with the holder's process in them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Held for as long as it lives; the kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct NodeLock {
    _file: File,
}

/// Why this agent may not work on this node.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another one does.
    #[error("another agent{} works on this node: it holds {path}", .holder.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Held {
        /// The file.
        path: PathBuf,
        /// The other's process, where the file names it.
        holder: Option<u32>,
    },
    /// The file cannot be used.
    #[error("{operation} lock file {path}")]
    File {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
}

impl NodeLock {
    /// Takes `polylet.lock` in a root directory, without waiting.
    pub fn of_root(root: &Path) -> Result<Self, LockError> {
        Self::take(root.join("polylet.lock"))
    }

    /// Takes the lock beside a runtime's socket: two agents on one runtime would end each other's pods, wherever their root directories
    /// are. The socket itself need not be there yet.
    pub fn of_runtime(socket: &Path) -> Result<Self, LockError> {
        let mut name = socket.as_os_str().to_owned();
        name.push(".polylet.lock");
        Self::take(name.into())
    }

    fn take(path: PathBuf) -> Result<Self, LockError> {
        let failed = |operation| {
            let path = path.clone();
            move |cause| LockError::File { operation, path, cause }
        };
        let dir = path.parent().unwrap_or(Path::new("/"));
        fs::DirBuilder::new().recursive(true).mode(0o750).create(dir).map_err(failed("create the directory of"))?;
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(failed("open"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let holder = io::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
                return Err(LockError::Held { path, holder });
            }
            Err(error) => return Err(failed("lock")(error.into())),
        }
        // The file is never removed: a second agent could otherwise lock one that has no name any more.
        file.set_len(0).map_err(failed("write"))?;
        file.rewind().map_err(failed("write"))?;
        writeln!(file, "{}", std::process::id()).map_err(failed("write"))?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_agent_is_told_who_holds_it() {
        let dir = tempfile::tempdir().expect("make a directory");
        let root = dir.path().join("kubelet");
        let first = NodeLock::of_root(&root).expect("the first");
        let error = NodeLock::of_root(&root).expect_err("the second");
        let path = root.join("polylet.lock");
        let expected = format!("another agent (process {}) works on this node: it holds {}", std::process::id(), path.display());
        assert_eq!(error.to_string(), expected);
        drop(first);
        fs::write(&path, "4711 and something longer than a pid\n").expect("an older holder's text");
        let _third = NodeLock::of_root(&root).expect("after the first has gone");
        assert_eq!(fs::read_to_string(&path).expect("read"), format!("{}\n", std::process::id()));

        let socket = dir.path().join("runtime.sock");
        let _held = NodeLock::of_runtime(&socket).expect("nobody else is at this runtime");
        let error = NodeLock::of_runtime(&socket).expect_err("the second at it").to_string();
        assert!(error.ends_with("runtime.sock.polylet.lock"), "{error}");
    }
}
