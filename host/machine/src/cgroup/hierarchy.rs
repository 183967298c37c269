//! Where the kernel's cgroup hierarchies are mounted.

use std::path::{Path, PathBuf};

use super::CgroupError;
use crate::mountinfo::{self, Mount};

/// Which cgroup interface carries the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller or group of controllers.
    V1,
    /// The unified hierarchy.
    V2,
}

/// The mount points to work with.
///
/// Upstream's rule: unified if `/sys/fs/cgroup` itself is a cgroup2 mount; else per-controller mounts, where a controller that is
/// mounted twice is used at the shortest path. A cgroup2 mount beside v1 ones (hybrid) carries no controllers; it is only swept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchies {
    pub(crate) version: Version,
    /// v1: one per distinct mount point, those with limits first. v2: the one.
    pub(crate) mounts: Vec<HierarchyMount>,
    /// The cgroup2 mount of a hybrid machine.
    pub(crate) hybrid: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HierarchyMount {
    pub(crate) point: PathBuf,
    /// Controllers by kernel name (`cpu`, `name=systemd`); empty for v2.
    pub(crate) controllers: Vec<String>,
}

impl HierarchyMount {
    pub(crate) fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|have| have == controller)
    }

    fn has_limits(&self) -> bool {
        LIMITED.iter().any(|controller| self.has(controller))
    }
}

/// Controllers that pod limits are written to.
const LIMITED: [&str; 5] = ["cpu", "memory", "pids", "hugetlb", "cpuset"];
/// What v1 must offer.
const REQUIRED: [&str; 4] = ["cpu", "cpuacct", "cpuset", "memory"];
/// What the kernel may offer; whatever else stands among a mount's options is an option.
const KNOWN: [&str; 15] = [
    "cpu",
    "cpuacct",
    "cpuset",
    "memory",
    "pids",
    "hugetlb",
    "devices",
    "freezer",
    "blkio",
    "perf_event",
    "net_cls",
    "net_prio",
    "rdma",
    "misc",
    "name=systemd",
];

impl Hierarchies {
    /// As this machine has them.
    ///
    /// # Errors
    /// The mounts cannot be read, or v1 lacks what it must offer.
    pub fn find() -> Result<Self, CgroupError> {
        let mounts = mountinfo::read().map_err(|cause| CgroupError::Mounts { cause })?;
        Self::among(&mounts)
    }

    pub(crate) fn among(mounts: &[Mount]) -> Result<Self, CgroupError> {
        let unified = Path::new("/sys/fs/cgroup");
        if mounts.iter().any(|mount| mount.point == unified && mount.fs_type == "cgroup2") {
            return Ok(Self::unified(unified));
        }
        let mut found: Vec<HierarchyMount> = Vec::new();
        for controller in KNOWN {
            let Some(point) = shortest(mounts, controller) else { continue };
            match found.iter_mut().find(|mount| mount.point == point) {
                Some(mount) => mount.controllers.push(controller.to_owned()),
                None => found.push(HierarchyMount { point, controllers: vec![controller.to_owned()] }),
            }
        }
        // A pod's cgroup is complete once it stands in every hierarchy. Those without limits are made last, so that a creation
        // that was cut off is seen as such and done again.
        found.sort_by_key(|mount| !mount.has_limits());
        let missing: Vec<&str> =
            REQUIRED.into_iter().filter(|controller| !found.iter().any(|mount| mount.has(controller))).collect();
        if !missing.is_empty() {
            return Err(CgroupError::Missing { controllers: missing.join(", ") });
        }
        let hybrid = mounts.iter().filter(|mount| mount.fs_type == "cgroup2").map(|mount| mount.point.clone());
        Ok(Self { version: Version::V1, mounts: found, hybrid: hybrid.min_by_key(|point| point.as_os_str().len()) })
    }

    /// A unified hierarchy mounted here.
    pub(crate) fn unified(point: &Path) -> Self {
        let mount = HierarchyMount { point: point.to_owned(), controllers: Vec::new() };
        Self { version: Version::V2, mounts: vec![mount], hybrid: None }
    }

    /// Which interface carries the controllers.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Mount point of a controller.
    pub(crate) fn point(&self, controller: &str) -> Option<&Path> {
        let mut mounts = self.mounts.iter();
        let mount = match self.version {
            Version::V1 => mounts.find(|mount| mount.has(controller)),
            Version::V2 => mounts.next(),
        };
        mount.map(|mount| mount.point.as_path())
    }

    /// Every place where a cgroup of a pod may have been left, by us or by a runtime.
    pub(crate) fn everywhere(&self) -> impl Iterator<Item = &Path> {
        self.mounts.iter().map(|mount| mount.point.as_path()).chain(self.hybrid.as_deref())
    }
}

fn shortest(mounts: &[Mount], controller: &str) -> Option<PathBuf> {
    let offers = |mount: &&Mount| mount.fs_type == "cgroup" && mount.options.iter().any(|option| option == controller);
    let points = mounts.iter().filter(offers).map(|mount| mount.point.clone());
    points.min_by_key(|point| point.as_os_str().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hierarchies(lines: &[(&str, &str, &str)]) -> Result<Hierarchies, CgroupError> {
        let line = |(point, fs, options): &(&str, &str, &str)| format!("1 0 0:1 / {point} rw - {fs} x rw,{options}\n");
        let text: String = lines.iter().map(line).collect();
        Hierarchies::among(&mountinfo::parse(text.as_bytes()))
    }

    #[test]
    fn v1_takes_the_shortest_path_and_joins_what_is_mounted_together() {
        let found = hierarchies(&[
            ("/sys/fs/cgroup/systemd", "cgroup", "name=systemd"),
            ("/other/place/for/cpu", "cgroup", "cpu,cpuacct"),
            ("/sys/fs/cgroup/cpu", "cgroup", "cpu,cpuacct"),
            ("/sys/fs/cgroup/memory", "cgroup", "memory"),
            ("/sys/fs/cgroup/cpuset", "cgroup", "cpuset"),
            ("/sys/fs/cgroup/unified", "cgroup2", "nsdelegate"),
        ])
        .expect("all required controllers are there");
        assert_eq!(found.version, Version::V1);
        assert_eq!(found.point("cpuacct"), Some(Path::new("/sys/fs/cgroup/cpu")));
        assert_eq!(found.mounts.len(), 4);
        assert_eq!(found.mounts[3].controllers, ["name=systemd"], "hierarchies without limits come last");
        assert_eq!(found.hybrid.as_deref(), Some(Path::new("/sys/fs/cgroup/unified")));
        assert_eq!(found.everywhere().count(), 5);
    }

    #[test]
    fn v2_needs_the_unified_mount_at_its_place() {
        let found = hierarchies(&[("/sys/fs/cgroup", "cgroup2", "nsdelegate")]).expect("unified");
        assert_eq!(found.version, Version::V2);
        assert_eq!(found.point("memory"), Some(Path::new("/sys/fs/cgroup")));
    }

    #[test]
    fn missing_controllers_are_named() {
        let error = hierarchies(&[("/c/cpu", "cgroup", "cpu"), ("/c/memory", "cgroup", "memory")]).expect_err("incomplete");
        assert_eq!(error.to_string(), "find cgroup hierarchies: not mounted: cpuacct, cpuset");
    }
}
