//! What pods have on disk, measured by walking their directories.

use std::collections::BTreeMap;

use polylet_core::id::{ContainerId, ContainerName};
use polylet_core::paths::Paths;
use polylet_core::pod::Pod;

use crate::walk::{self, Usage};

/// What one pod has on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDisk {
    /// Its containers' writable layers: the runtime's to tell, as far as it can.
    pub layers: BTreeMap<ContainerId, Usage>,
    /// Its logs.
    pub logs: PodLogs,
    /// Its volumes; None: not measured.
    pub volumes: Option<PodVolumes>,
}

/// A pod's logs, rotated ones included, and its hosts file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodLogs {
    /// All of them together.
    pub all: Usage,
    /// Of each container, all of its attempts.
    pub containers: BTreeMap<ContainerName, Usage>,
    /// The hosts file.
    pub hosts: Usage,
}

/// A pod's local volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodVolumes {
    /// Its emptyDir volumes of every medium by name: what their size limits are compared with.
    pub empty_dirs: BTreeMap<String, Usage>,
    /// Those of them that lie on disk, together: what counts for a ranking, and for the limit of the whole pod. Volumes in memory are not
    /// on disk, and hostPath has no statistics.
    pub on_disk: Usage,
}

impl PodDisk {
    /// The writable layers together; None where none is known.
    pub fn all_layers(&self) -> Option<Usage> {
        self.layers.values().copied().reduce(std::ops::Add::add)
    }
}

/// Measures the logs of a pod. What cannot be read now counts as nothing and is measured again the next time.
pub fn measure_logs(paths: &Paths, pod: &Pod) -> PodLogs {
    let uid = pod.uid.as_str();
    let dir = paths.logs_of_pod(&pod.namespace, &pod.name, uid);
    let of = |container: &ContainerName| walk::usage(&dir.join(container.as_str())).unwrap_or_default();
    PodLogs {
        all: walk::usage(&dir).unwrap_or_default(),
        containers: pod.containers.iter().map(|c| (c.name.clone(), of(&c.name))).collect(),
        hosts: walk::usage_of_file(&paths.etc_hosts(uid)).unwrap_or_default(),
    }
}

/// Likewise its local volumes.
pub fn measure_volumes(paths: &Paths, pod: &Pod) -> PodVolumes {
    let mut volumes = PodVolumes::default();
    for volume in pod.object.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        let Some(source) = &volume.empty_dir else { continue };
        let usage = walk::usage(&paths.empty_dir(pod.uid.as_str(), &volume.name)).unwrap_or_default();
        if source.medium.as_deref().unwrap_or_default().is_empty() {
            volumes.on_disk = volumes.on_disk + usage;
        }
        volumes.empty_dirs.insert(volume.name.clone(), usage);
    }
    volumes
}
