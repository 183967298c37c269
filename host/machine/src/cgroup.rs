//! The cgroups of the node: one for all pods, one for each lesser tier, one for each pod. Containers' own are the runtime's.
//!
//! ```text
//! <root>/kubepods                       shares of allocatable cpu, memory limit, pids limit
//! <root>/kubepods/pod<uid>              a Guaranteed pod
//! <root>/kubepods/burstable             shares of what Burstable pods request
//! <root>/kubepods/burstable/pod<uid>
//! <root>/kubepods/besteffort            least shares
//! <root>/kubepods/besteffort/pod<uid>
//! ```
//!
//! Runtimes never remove a pod's cgroup: [`CgroupTree::remove_pod`] does, and [`CgroupTree::list_pods`] shows what was left over.
//!
//! **What cgroups-rs does for us:** it writes values, knowing under which file name and in which form each version of cgroups has
//! them, and hands a new v1 cpuset the processors of its parent, without which nothing may run in it. **What it does not do:** find
//! v1 mounts by upstream's rule (it takes the first, upstream the shortest path); report a v2 controller that could not be handed
//! down; convert shares (that is `polylet_upstream::cpu`); name cgroups upstream's way; list or end what runs in a subtree (its
//! `procs` hides read errors and yields process 0 for a line that it cannot parse). These are here.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use polylet_core::pod::QosClass;
use polylet_upstream::cpu;

mod hierarchy;
mod limits;
mod name;
mod remove;
mod write;

pub use hierarchy::{Hierarchies, Version};
pub use limits::{LimitOptions, PodLimits, pod_limits};
pub use name::{CgroupName, Driver};

use write::Values;

/// The node's cgroups.
#[derive(Clone, Debug)]
pub struct CgroupTree {
    hierarchies: Hierarchies,
    root: CgroupName,
    /// Sizes of huge pages that the machine knows, in bytes.
    page_sizes: Vec<u64>,
}

/// What all pods together may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLimits {
    /// Millicores, which shares are made of.
    pub cpu: u64,
    /// Bytes.
    pub memory: u64,
    /// Process numbers.
    pub pids: u64,
    /// Bytes by size of page; sizes that are not named get 0.
    pub huge_pages: BTreeMap<u64, u64>,
}

/// What goes wrong with cgroups.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// mountinfo could not be read.
    #[error("find cgroup hierarchies: read mounts")]
    Mounts {
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// Controllers that upstream requires are not there.
    #[error("find cgroup hierarchies: not mounted: {controllers}")]
    Missing {
        /// Their names.
        controllers: String,
    },
    /// systemd's slices are named by this crate, but not made yet.
    #[error("open cgroups below {root}: the cgroup driver systemd is not supported yet, cgroupfs is")]
    SystemdUnsupported {
        /// The configured root.
        root: String,
    },
    /// The configured root does not exist.
    #[error("open cgroups below {root}: no such cgroup in {missing}")]
    NoRoot {
        /// The configured root.
        root: String,
        /// A hierarchy that does not have it.
        missing: String,
    },
    /// A cgroup could not be made.
    #[error("create cgroup {path}")]
    Create {
        /// Its directory.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A value was refused.
    #[error("write {what} of cgroup {path}")]
    Write {
        /// Which value.
        what: &'static str,
        /// Its directory.
        path: PathBuf,
        /// Why.
        #[source]
        cause: cgroups_rs::fs::error::Error,
    },
    /// All is made but for the limits of all pods together: the kernel refuses one below what pods use already.
    #[error("limit all pods together")]
    Limits(#[source] Box<CgroupError>),
    /// A v2 controller could not be handed down to the children.
    #[error("enable controllers {controllers} below cgroup {path}")]
    Enable {
        /// In the form of `cgroup.subtree_control`.
        controllers: String,
        /// The parent.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A directory of cgroups could not be read.
    #[error("list cgroups in {path}")]
    List {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A cgroup is still there after everything was tried.
    #[error("remove cgroup {path}: {left} processes left")]
    Remove {
        /// Its directory.
        path: PathBuf,
        /// How many did not end.
        left: usize,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

const TIERS: [QosClass; 3] = [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort];
/// "Unbounded" for huge pages of a tier.
const UNBOUNDED: u64 = 1 << 62;

impl CgroupTree {
    /// Finds the machine's hierarchies. `root` is the configured `cgroupRoot`, which must exist; `/` by default.
    pub fn open(root: &str, driver: Driver) -> Result<Self, CgroupError> {
        if driver == Driver::Systemd {
            return Err(CgroupError::SystemdUnsupported { root: root.to_owned() });
        }
        Self::among(Hierarchies::find()?, root, crate::facts::huge_pages().into_keys().collect())
    }

    fn among(hierarchies: Hierarchies, root: &str, page_sizes: Vec<u64>) -> Result<Self, CgroupError> {
        let tree = Self { hierarchies, root: CgroupName::from_cgroupfs(root), page_sizes };
        let missing = tree.hierarchies.mounts.iter().find(|mount| !tree.dir_in(&mount.point, &tree.root).is_dir());
        match missing {
            Some(mount) => Err(CgroupError::NoRoot { root: tree.root.to_string(), missing: mount.point.display().to_string() }),
            None => Ok(tree),
        }
    }

    /// On a directory that stands in for a v2 mount.
    #[cfg(test)]
    pub(crate) fn unified_at(point: &Path) -> Self {
        Self { hierarchies: Hierarchies::unified(point), root: CgroupName::default(), page_sizes: Vec::new() }
    }

    /// Which interface carries the controllers.
    pub fn version(&self) -> Version {
        self.hierarchies.version
    }

    /// The directory of a controller's hierarchy that a pod's cgroup has, for reading its statistics.
    pub fn pod_dir(&self, controller: &str, uid: &str, tier: QosClass) -> Option<PathBuf> {
        Some(self.dir_in(self.hierarchies.point(controller)?, &CgroupName::pod(&self.root, uid, tier)))
    }

    /// Likewise for all pods together.
    pub fn pods_root_dir(&self, controller: &str) -> Option<PathBuf> {
        Some(self.dir_in(self.hierarchies.point(controller)?, &CgroupName::pods(&self.root)))
    }

    /// Where the machine's own statistics are.
    pub fn hierarchies(&self) -> &Hierarchies {
        &self.hierarchies
    }

    /// The value for the runtime's `cgroup_parent`.
    pub fn pod_parent(&self, uid: &str, tier: QosClass) -> String {
        CgroupName::pod(&self.root, uid, tier).path(Driver::Cgroupfs)
    }

    /// Makes the pods' root and the tiers, and sets the limits of the root. To be called at start; tiers are seen to again with each pod.
    ///
    /// # Errors
    /// [`CgroupError::Limits`] where only the limits are not set: another try may succeed once pods use less.
    pub fn ensure_node(&self, limits: &NodeLimits) -> Result<(), CgroupError> {
        let huge_pages = self.page_sizes.iter().map(|size| (*size, limits.huge_pages.get(size).copied().unwrap_or(0)));
        let values = Values {
            shares: Some(cpu::shares(limits.cpu)),
            memory_limit: Some(limits.memory),
            pids_limit: Some(limits.pids),
            huge_pages: huge_pages.collect(),
            ..Values::default()
        };
        let pods = CgroupName::pods(&self.root);
        self.create(&pods)?;
        for tier in [QosClass::Burstable, QosClass::BestEffort] {
            let name = CgroupName::tier(&self.root, tier);
            let new = !self.is_complete(&name);
            self.create(&name)?;
            let unbounded = self.page_sizes.iter().map(|size| (*size, UNBOUNDED)).collect();
            let shares = (new || tier == QosClass::BestEffort).then_some(cpu::MIN_SHARES);
            self.write(&name, &Values { shares, huge_pages: unbounded, ..Values::default() })?;
        }
        self.write(&pods, &values).map_err(|cause| CgroupError::Limits(Box::new(cause)))
    }

    /// Gives the Burstable tier the shares of what its active pods request together, in millicores with their overhead. To be
    /// called before a pod's cgroup is made and after one was removed.
    pub fn update_tiers(&self, burstable_cpu: u64) -> Result<(), CgroupError> {
        for (tier, shares) in [(QosClass::Burstable, cpu::shares(burstable_cpu)), (QosClass::BestEffort, cpu::MIN_SHARES)] {
            let name = CgroupName::tier(&self.root, tier);
            // Somebody may have removed it while it was empty.
            if !self.is_complete(&name) {
                self.create(&name)?;
            }
            self.write(&name, &Values { shares: Some(shares), ..Values::default() })?;
        }
        Ok(())
    }

    /// Makes a pod's cgroup with its limits, unless it is there already and complete; returns the runtime's `cgroup_parent`.
    ///
    /// What is there is not written again, as upstream does not: its limits may have been resized since.
    pub fn ensure_pod(&self, uid: &str, limits: &PodLimits) -> Result<String, CgroupError> {
        let name = CgroupName::pod(&self.root, uid, limits.tier);
        if !self.is_complete(&name) {
            self.create_with(&name, &limits.values_on(&self.page_sizes))?;
        }
        Ok(name.path(Driver::Cgroupfs))
    }

    /// Every pod that has a cgroup in any hierarchy, with the tier that it stands in.
    pub fn list_pods(&self) -> Result<Vec<(String, QosClass)>, CgroupError> {
        let mut pods = std::collections::BTreeSet::new();
        for point in self.hierarchies.everywhere() {
            for tier in TIERS {
                let dir = self.dir_in(point, &CgroupName::tier(&self.root, tier));
                let uids = remove::children(&dir).map_err(|cause| CgroupError::List { path: dir.clone(), cause })?;
                pods.extend(uids.iter().filter_map(|name| Some((name.strip_prefix("pod")?.to_owned(), tier))));
            }
        }
        Ok(pods.into_iter().filter(|(uid, _)| !uid.is_empty()).collect())
    }

    /// Ends what still runs in a pod's cgroup, in whichever tier, and removes it. A pod without one counts as removed.
    pub fn remove_pod(&self, uid: &str) -> Result<(), CgroupError> {
        let mut dirs = Vec::new();
        for point in self.hierarchies.everywhere() {
            dirs.extend(TIERS.map(|tier| self.dir_in(point, &CgroupName::pod(&self.root, uid, tier))));
        }
        dirs.retain(|dir| dir.is_dir());
        remove::subtrees(&dirs)
    }

    fn dir_in(&self, point: &Path, name: &CgroupName) -> PathBuf {
        let path = name.path(Driver::Cgroupfs);
        point.join(path.trim_start_matches('/'))
    }
}

#[cfg(test)]
pub(crate) mod tests;
