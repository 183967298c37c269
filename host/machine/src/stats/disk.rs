//! What pods have on disk, measured by walking their directories.

use std::collections::BTreeMap;
use std::sync::Arc;

use polylet_core::id::PodUid;
use polylet_core::paths::Paths;
use polylet_core::pod::Pod;

use crate::walk::{self, Usage};

/// One pod's logs and volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDisk {
    /// Its containers' writable layers: the runtime's to tell, so [`measure_disk`] leaves them out.
    pub layers: Option<Usage>,
    /// Its logs, rotated ones included.
    pub logs: Usage,
    /// Its emptyDir volumes of every medium by name: what their size limits are compared with.
    pub empty_dirs: BTreeMap<String, Usage>,
    /// Those of them that lie on disk.
    on_disk: Usage,
}

impl PodDisk {
    /// Local volumes together: what a ranking counts. Volumes in memory are not on disk, and hostPath has no statistics.
    pub fn volumes(&self) -> Usage {
        self.on_disk
    }
}

/// Measures every pod. What cannot be read now counts as nothing and is measured again the next time.
pub fn measure_disk(paths: &Paths, pods: &[Arc<Pod>]) -> BTreeMap<PodUid, PodDisk> {
    pods.iter().map(|pod| (pod.uid.clone(), measure(paths, pod))).collect()
}

fn measure(paths: &Paths, pod: &Pod) -> PodDisk {
    let uid = pod.uid.as_str();
    let mut disk = PodDisk {
        logs: walk::usage(&paths.logs_of_pod(&pod.namespace, &pod.name, uid)).unwrap_or_default(),
        ..PodDisk::default()
    };
    for volume in pod.object.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        let Some(source) = &volume.empty_dir else { continue };
        let usage = walk::usage(&paths.empty_dir(uid, &volume.name)).unwrap_or_default();
        if source.medium.as_deref().unwrap_or_default().is_empty() {
            disk.on_disk = disk.on_disk + usage;
        }
        disk.empty_dirs.insert(volume.name.clone(), usage);
    }
    disk
}
