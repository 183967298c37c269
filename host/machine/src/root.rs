//! The agent's own directories, made at start.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use polylet_core::paths::Paths;
use rustix::mount::MountPropagationFlags;

use crate::mountinfo;

/// A directory could not be made ready.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {path}")]
pub struct RootError {
    /// What was tried.
    pub operation: &'static str,
    /// On which path.
    pub path: PathBuf,
    /// Why it failed.
    #[source]
    pub cause: io::Error,
}

/// Makes the root directory and those for logs, with upstream's modes. Idempotent.
pub fn make(paths: &Paths) -> Result<(), RootError> {
    let below = ["pods", "plugins", "plugins_registry", "pod-resources"].map(|name| (paths.root.join(name), 0o750));
    let rest = [(paths.pod_logs.clone(), 0o750), (paths.container_logs.clone(), 0o755)];
    for (path, mode) in [(paths.root.clone(), 0o750)].into_iter().chain(below).chain(rest) {
        fs::DirBuilder::new().recursive(true).mode(mode).create(&path).map_err(failed("create", &path))?;
    }
    Ok(())
}

/// Lets mounts below the root directory appear in containers that have asked for it (`HostToContainer`), and the other way round:
/// the directory becomes a shared mount, unless it lies on one already. This adds a mount to the namespace that the agent runs in.
pub fn share(paths: &Paths) -> Result<(), RootError> {
    let root = fs::canonicalize(&paths.root).map_err(failed("find", &paths.root))?;
    let mounts = mountinfo::read().map_err(failed("read mounts for", &root))?;
    let holding = mounts.iter().rev().filter(|mount| root.starts_with(&mount.point));
    let Some(mount) = holding.max_by_key(|mount| mount.point.as_os_str().len()) else { return Ok(()) };
    if mount.shared {
        return Ok(());
    }
    if mount.point != root {
        rustix::mount::mount_bind_recursive(&root, &root).map_err(|errno| failed("bind to itself", &root)(errno.into()))?;
    }
    let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    rustix::mount::mount_change(&root, shared).map_err(|errno| failed("share", &root)(errno.into()))
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RootError {
    let path = path.to_owned();
    move |cause| RootError { operation, path, cause }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::own_mounts;

    fn paths(dir: &Path) -> Paths {
        Paths { root: dir.join("kubelet"), pod_logs: dir.join("pods"), container_logs: dir.join("containers") }
    }

    #[test]
    fn is_shared_once() {
        own_mounts(|| {
            let dir = tempfile::tempdir().expect("make a directory");
            let paths = paths(dir.path());
            make(&paths).expect("make");
            make(&paths).expect("again");
            assert!(paths.root.join("plugins_registry").is_dir() && paths.container_logs.is_dir());
            share(&paths).expect("share");
            share(&paths).expect("again");
            let mounts = mountinfo::read().expect("mounts");
            let own = mountinfo::below(&mounts, &paths.root);
            assert!(own.len() == 1 && own[0].shared, "{own:?}");
            rustix::mount::unmount(&paths.root, rustix::mount::UnmountFlags::empty()).expect("unmount");
        });
    }
}
