//! Where things lie on the node: upstream's directories, as functions of the root.

use std::path::{Path, PathBuf};

/// The directories a node works with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// `--root-dir`, `/var/lib/kubelet` by default.
    pub root: PathBuf,
    /// `podLogsDir`, `/var/log/pods` by default.
    pub pod_logs: PathBuf,
    /// Links to current logs, `/var/log/containers` by default.
    pub container_logs: PathBuf,
}

impl Paths {
    /// `<root>/pods/<uid>`
    pub fn pod(&self, uid: &str) -> PathBuf {
        self.root.join("pods").join(uid)
    }

    /// `<root>/pods/<uid>/volumes/<plugin with / as ~>/<name>`
    pub fn volume(&self, uid: &str, plugin: &str, name: &str) -> PathBuf {
        self.pod(uid).join("volumes").join(plugin.replace('/', "~")).join(name)
    }

    /// Where the files of an emptyDir volume lie.
    pub fn empty_dir(&self, uid: &str, name: &str) -> PathBuf {
        self.volume(uid, "kubernetes.io/empty-dir", name)
    }

    /// Where the files of a downwardAPI volume lie.
    pub fn downward_api(&self, uid: &str, name: &str) -> PathBuf {
        self.volume(uid, "kubernetes.io/downward-api", name)
    }

    /// Where the files of a projected volume lie.
    pub fn projected(&self, uid: &str, name: &str) -> PathBuf {
        self.volume(uid, "kubernetes.io/projected", name)
    }

    /// `<root>/pods/<uid>/volume-subpaths/<volume>/<container>/<index of the mount>`: where a part of a volume is mounted on the node.
    pub fn sub_path(&self, uid: &str, volume: &str, container: &str, index: usize) -> PathBuf {
        self.pod(uid).join("volume-subpaths").join(volume).join(container).join(index.to_string())
    }

    /// `<root>/pods/<uid>/etc-hosts`
    pub fn etc_hosts(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("etc-hosts")
    }

    /// `<root>/pods/<uid>/containers/<container>`: termination logs.
    pub fn container(&self, uid: &str, container: &str) -> PathBuf {
        self.pod(uid).join("containers").join(container)
    }

    /// `<pod logs>/<namespace>_<name>_<uid>`
    pub fn logs_of_pod(&self, namespace: &str, name: &str, uid: &str) -> PathBuf {
        self.pod_logs.join(format!("{namespace}_{name}_{uid}"))
    }

    /// A container's log within its pod's log directory: `<container>/<attempt>.log`.
    pub fn log_name(container: &str, attempt: u32) -> PathBuf {
        Path::new(container).join(format!("{attempt}.log"))
    }
}
