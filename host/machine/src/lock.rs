//! One agent for each node: locks on files, with the holder's process in them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
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
    /// What stands at the runtime's path is something else.
    #[error("{path} is not a socket: it must be the one that the runtime listens at, such as /run/containerd/containerd.sock")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The runtime's socket is not there, or cannot be looked at.
    #[error("look for the runtime's socket {path}")]
    NoSocket {
        /// The path.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: io::Error,
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

impl LockError {
    /// The runtime's socket is not there, and may come yet.
    pub fn may_come(&self) -> bool {
        matches!(self, Self::NoSocket { cause, .. } if cause.kind() == io::ErrorKind::NotFound)
    }

    /// Another agent holds it, which may be about to end: the kernel takes a moment to clear away one that was killed.
    pub fn may_go(&self) -> bool {
        matches!(self, Self::Held { .. })
    }
}

impl NodeLock {
    /// Takes `polylet.lock` in a root directory, without waiting.
    pub fn of_root(root: &Path) -> Result<Self, LockError> {
        Self::take(root.join("polylet.lock"))
    }

    /// Takes the lock beside a runtime's socket: two agents on one runtime would end each other's pods, wherever their root directories
    /// are, and whichever links each of them goes by. Where there is no socket, nothing is made.
    pub fn of_runtime(socket: &Path) -> Result<Self, LockError> {
        let missing = |cause| LockError::NoSocket { path: socket.to_owned(), cause };
        let real = socket.canonicalize().map_err(missing)?;
        if !fs::metadata(&real).map_err(missing)?.file_type().is_socket() {
            return Err(LockError::NotASocket { path: socket.to_owned() });
        }
        let mut name = real.into_os_string();
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
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

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
    }

    #[test]
    fn two_agents_at_one_runtime_meet_whichever_links_they_go_by() {
        let dir = tempfile::tempdir().expect("make a directory");
        let socket = dir.path().join("runtime.sock");
        let _listener = UnixListener::bind(&socket).expect("a socket");
        let (link, way) = (dir.path().join("elsewhere.sock"), dir.path().join("way"));
        symlink(&socket, &link).expect("a link to the socket");
        symlink(dir.path(), &way).expect("a link to its directory");
        let _held = NodeLock::of_runtime(&link).expect("nobody else is at this runtime");
        for path in [&socket, &link, &way.join("elsewhere.sock")] {
            let error = NodeLock::of_runtime(path).expect_err("the second at it").to_string();
            assert!(error.ends_with("/runtime.sock.polylet.lock"), "{}: {error}", path.display());
        }
    }

    #[test]
    fn beside_what_is_no_socket_nothing_is_made() {
        let dir = tempfile::tempdir().expect("make a directory");
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "").expect("a file");
        symlink("nowhere", path("link")).expect("a link to nothing");
        for name in ["file", "."] {
            let error = NodeLock::of_runtime(&path(name)).expect_err("no socket").to_string();
            let right = "it must be the one that the runtime listens at, such as /run/containerd/containerd.sock";
            assert_eq!(error, format!("{} is not a socket: {right}", path(name).display()));
        }
        for name in ["mistyped.sock", "link", "no/such/directory.sock"] {
            let error = NodeLock::of_runtime(&path(name)).expect_err("no socket");
            assert!(error.may_come(), "{error}");
            assert_eq!(error.to_string(), format!("look for the runtime's socket {}", path(name).display()));
        }
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 2);
    }
}
