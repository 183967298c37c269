//! What adapters tell each other about volumes: those that know the pod's words work out what should be there, the one that knows the
//! machine makes it.

use std::collections::BTreeMap;

/// A part of a volume that a container mounts (`subPath`): made ready by whoever knows the machine, at [`Paths::sub_path`](crate::paths::Paths::sub_path).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubPath {
    /// Name of the volume.
    pub volume: String,
    /// Place of the mount in the container's list.
    pub index: usize,
    /// Relative to the volume.
    pub path: String,
}

/// A file that the node writes into a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFile {
    /// Relative to the volume.
    pub path: String,
    /// Content.
    pub bytes: Vec<u8>,
    /// Permissions, from 0 to 0o777.
    pub mode: u32,
    /// Id of the user who owns it, as the pod's containers know it; None: the agent's own user.
    pub owner: Option<u32>,
}

/// Files of volumes from which containers take variables (`fileKeyRef`), by volume and path; or why one could not be read.
pub type EnvFiles = BTreeMap<(String, String), Result<Vec<u8>, String>>;

/// What volumes that the node fills hold, by the volume's name; or why that cannot be said. Of two files with one path the later counts.
pub type VolumeFiles = BTreeMap<String, Result<Vec<VolumeFile>, String>>;
