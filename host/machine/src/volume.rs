//! A pod's directories and local volumes: making them, where they lie, and taking them down.
//!
//! Made are emptyDir (on disk, in memory, on huge pages), hostPath (nothing to mount, only its type is checked), and volumes that the
//! node fills with files (downwardAPI, projected); and only those that some container mounts, as upstream does. Whatever else a pod
//! mounts is refused by name.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1;
use polylet_core::paths::Paths;
use polylet_core::pod::Pod;
use polylet_core::volume::VolumeFiles;
use rustix::fs::Gid;

mod empty_dir;
mod files;
mod host_path;
mod read;
mod sub_path;
mod teardown;

pub use read::read_in_empty_dir;
pub use sub_path::{SubPathError, prepare_sub_path};
pub use teardown::{TearDownError, is_pod_uid, list_others, list_pods, tear_down};

/// Why a pod's directories or volumes could not be made. The text is what upstream's event says, the cause's included, so that the
/// error has no further `source`.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// Event reason `Failed`.
    #[error("error making pod data directories: {0}")]
    Directories(PathError),
    /// Event reason `FailedMount`.
    #[error("MountVolume.SetUp failed for volume \"{volume}\" : {cause}")]
    SetUp {
        /// Name of the volume.
        volume: String,
        /// Why.
        cause: VolumeCause,
    },
}

/// Why one volume could not be made.
#[derive(Debug, thiserror::Error)]
pub enum VolumeCause {
    /// Not one of those that this node makes.
    #[error("volumes of type {kind} are not supported yet; supported are emptyDir, hostPath, downwardAPI and projected")]
    Unsupported {
        /// Name of the field in the spec.
        kind: &'static str,
    },
    /// A container mounts a volume that the spec does not name.
    #[error("the pod has no such volume")]
    Unknown,
    /// Upstream's word on a path of the wrong type.
    #[error("hostPath type check failed: {path} is not {wanted}")]
    HostPathType {
        /// The path.
        path: String,
        /// What it should be, with its article.
        wanted: &'static str,
    },
    /// A type that the API does not know.
    #[error("{0} is an invalid volume type")]
    InvalidHostPathType(String),
    /// A medium that the API does not know.
    #[error("unknown storage medium \"{0}\"")]
    UnknownMedium(String),
    /// A volume on huge pages needs a size of page.
    #[error("medium {0}: hugePages storage requested, but there is no resource request for huge pages")]
    NoHugePages(String),
    /// It must be one.
    #[error("medium: {0} can't be used if container requests multiple huge page sizes")]
    SeveralHugePages(String),
    /// A path within a volume that leads out of it.
    #[error("{0} is not within the volume")]
    Outside(String),
    /// What the volume should hold cannot be said, or has a name that no file may have.
    #[error("{0}")]
    Content(String),
    /// The kernel refused.
    #[error(transparent)]
    Path(#[from] PathError),
}

/// An operation on a path that failed, in the form `mkdir /a/b: permission denied`.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {path}: {cause}")]
pub struct PathError {
    /// What was tried.
    pub operation: &'static str,
    /// On which path.
    pub path: String,
    /// Why it failed.
    pub cause: io::Error,
}

/// Makes a pod's directories and the volumes that its containers mount. Idempotent.
///
/// `memory_allocatable` is what pods of this node may use, in bytes: it bounds volumes in memory. `files` is what volumes hold that the
/// node fills; where it has changed since, the volumes' files change in one step.
pub fn prepare(paths: &Paths, pod: &Pod, memory_allocatable: u64, files: &VolumeFiles) -> Result<(), VolumeError> {
    let dir = paths.pod(pod.uid.as_str());
    for dir in [&dir, &dir.join("volumes"), &dir.join("plugins")] {
        private_dir(dir).map_err(VolumeError::Directories)?;
    }
    for name in mounted(pod) {
        set_up(paths, pod, name, memory_allocatable, files)
            .map_err(|cause| VolumeError::SetUp { volume: name.to_owned(), cause })?;
    }
    Ok(())
}

/// Where a volume's files lie on the node. None for a volume that the pod does not have, or of a kind that is not supported.
pub fn volume_path(paths: &Paths, pod: &Pod, volume: &str) -> Option<PathBuf> {
    let declared = declared(pod, volume)?;
    match declared {
        v1::Volume { empty_dir: Some(_), .. } => Some(paths.empty_dir(pod.uid.as_str(), volume)),
        v1::Volume { host_path: Some(source), .. } => Some(PathBuf::from(&source.path)),
        v1::Volume { downward_api: Some(_), .. } => Some(paths.downward_api(pod.uid.as_str(), volume)),
        v1::Volume { projected: Some(_), .. } => Some(paths.projected(pod.uid.as_str(), volume)),
        _ => None,
    }
}

/// Names of the volumes that some container mounts or has as a device.
fn mounted(pod: &Pod) -> BTreeSet<&str> {
    let Some(spec) = pod.object.spec.as_ref() else { return BTreeSet::new() };
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let common = containers.flat_map(|c| {
        let mounts = c.volume_mounts.iter().flatten().map(|mount| mount.name.as_str());
        mounts.chain(c.volume_devices.iter().flatten().map(|device| device.name.as_str()))
    });
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    common.chain(ephemeral.flat_map(|c| c.volume_mounts.iter().flatten().map(|mount| mount.name.as_str()))).collect()
}

fn declared<'a>(pod: &'a Pod, volume: &str) -> Option<&'a v1::Volume> {
    pod.object.spec.as_ref()?.volumes.iter().flatten().find(|declared| declared.name == volume)
}

fn set_up(paths: &Paths, pod: &Pod, name: &str, memory: u64, files: &VolumeFiles) -> Result<(), VolumeCause> {
    let volume = declared(pod, name).ok_or(VolumeCause::Unknown)?;
    let uid = pod.uid.as_str();
    match volume {
        v1::Volume { empty_dir: Some(source), .. } => empty_dir::set_up(paths, pod, name, source, memory),
        v1::Volume { host_path: Some(source), .. } => host_path::check(source),
        // The runtime mounts it.
        v1::Volume { image: Some(_), .. } => Ok(()),
        v1::Volume { downward_api: Some(_), .. } => {
            files::set_up(paths, pod, name, &paths.downward_api(uid, name), memory, files)
        }
        v1::Volume { projected: Some(_), .. } => files::set_up(paths, pod, name, &paths.projected(uid, name), memory, files),
        _ => Err(VolumeCause::Unsupported { kind: kind(volume) }),
    }
}

/// The group that shall own the pod's volumes.
fn fs_group(pod: &Pod) -> Option<Gid> {
    let group = pod.object.spec.as_ref()?.security_context.as_ref()?.fs_group?;
    u32::try_from(group).ok().map(Gid::from_raw)
}

/// The field of the spec that says what a volume is.
fn kind(volume: &v1::Volume) -> &'static str {
    let kinds = [
        ("awsElasticBlockStore", volume.aws_elastic_block_store.is_some()),
        ("azureDisk", volume.azure_disk.is_some()),
        ("azureFile", volume.azure_file.is_some()),
        ("cephfs", volume.cephfs.is_some()),
        ("cinder", volume.cinder.is_some()),
        ("configMap", volume.config_map.is_some()),
        ("csi", volume.csi.is_some()),
        ("downwardAPI", volume.downward_api.is_some()),
        ("ephemeral", volume.ephemeral.is_some()),
        ("fc", volume.fc.is_some()),
        ("flexVolume", volume.flex_volume.is_some()),
        ("flocker", volume.flocker.is_some()),
        ("gcePersistentDisk", volume.gce_persistent_disk.is_some()),
        ("gitRepo", volume.git_repo.is_some()),
        ("glusterfs", volume.glusterfs.is_some()),
        ("image", volume.image.is_some()),
        ("iscsi", volume.iscsi.is_some()),
        ("nfs", volume.nfs.is_some()),
        ("persistentVolumeClaim", volume.persistent_volume_claim.is_some()),
        ("photonPersistentDisk", volume.photon_persistent_disk.is_some()),
        ("portworxVolume", volume.portworx_volume.is_some()),
        ("projected", volume.projected.is_some()),
        ("quobyte", volume.quobyte.is_some()),
        ("rbd", volume.rbd.is_some()),
        ("scaleIO", volume.scale_io.is_some()),
        ("secret", volume.secret.is_some()),
        ("storageos", volume.storageos.is_some()),
        ("vsphereVolume", volume.vsphere_volume.is_some()),
    ];
    kinds.into_iter().find(|(_, is)| *is).map_or("unknown", |(kind, _)| kind)
}

/// A directory for the node alone, with all above it.
fn private_dir(dir: &Path) -> Result<(), PathError> {
    fs::DirBuilder::new().recursive(true).mode(0o750).create(dir).map_err(failed("mkdir", dir))
}

/// A directory's or file's mode, whatever the umask made of it.
fn set_mode(path: &Path, mode: u32) -> Result<(), PathError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed("chmod", path))
}

fn failed<E: Into<io::Error>>(operation: &'static str, path: &Path) -> impl FnOnce(E) -> PathError {
    let path = path.display().to_string();
    move |cause| PathError { operation, path, cause: cause.into() }
}

#[cfg(test)]
mod tests;
