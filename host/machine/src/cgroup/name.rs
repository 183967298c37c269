//! Names of cgroups: upstream's, for both drivers, as pure functions.

use std::fmt;

use polylet_core::pod::QosClass;

/// How cgroups are named and who makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// Plain directories, made by the node.
    Cgroupfs,
    /// Slices, made by systemd.
    Systemd,
}

/// A place in the tree, as a list of components from the top; the empty list is the root.
///
/// A component must not hold `/`; with the systemd driver `_` neither, since it stands for `-` there.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupName(Vec<String>);

impl CgroupName {
    /// The configured `cgroupRoot` (`/`, `/a/b`), as the cgroupfs driver writes it.
    pub fn from_cgroupfs(path: &str) -> Self {
        Self(path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect())
    }

    /// The place of a slice that the systemd driver names, by its path or its name alone; `-.slice` is the root.
    pub fn from_systemd(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or_default();
        let parts = name.strip_suffix(".slice").unwrap_or(name).split('-').filter(|part| !part.is_empty());
        Self(parts.map(|part| part.replace('_', "-")).collect())
    }

    /// The place below this one.
    #[must_use]
    pub fn child(&self, component: impl Into<String>) -> Self {
        let mut parts = self.0.clone();
        parts.push(component.into());
        Self(parts)
    }

    /// All pods' parent below a root.
    pub fn pods(root: &Self) -> Self {
        root.child("kubepods")
    }

    /// Where the pods of a tier stand: Guaranteed ones directly below the pods' root.
    pub fn tier(root: &Self, tier: QosClass) -> Self {
        let pods = Self::pods(root);
        match tier {
            QosClass::Guaranteed => pods,
            QosClass::Burstable => pods.child("burstable"),
            QosClass::BestEffort => pods.child("besteffort"),
        }
    }

    /// One pod's cgroup.
    pub fn pod(root: &Self, uid: &str, tier: QosClass) -> Self {
        Self::tier(root, tier).child(format!("pod{uid}"))
    }

    /// The path below the mount point, as the driver has it and the runtime wants it as `cgroup_parent`.
    pub fn path(&self, driver: Driver) -> String {
        match driver {
            Driver::Cgroupfs => self.to_string(),
            Driver::Systemd => systemd_path(&self.0),
        }
    }
}

impl fmt::Display for CgroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("/");
        }
        self.0.iter().try_for_each(|part| write!(f, "/{part}"))
    }
}

/// Each prefix is a directory of its own: `[a, b]` is `/a.slice/a-b.slice`.
fn systemd_path(parts: &[String]) -> String {
    if parts.is_empty() {
        return "/".to_owned();
    }
    let mut path = String::new();
    let mut slice = String::new();
    for part in parts {
        if !slice.is_empty() {
            slice.push('-');
        }
        slice.push_str(&part.replace('-', "_"));
        path.push('/');
        path.push_str(&slice);
        path.push_str(".slice");
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0b6d3f0e-1c5a-4f4b-9d56-1f2e3d4c5b6a";

    fn check(root: &str, name: impl Fn(&CgroupName) -> CgroupName, cgroupfs: &str, systemd: &str) {
        let name = name(&CgroupName::from_cgroupfs(root));
        assert_eq!(name.path(Driver::Cgroupfs), cgroupfs);
        assert_eq!(name.path(Driver::Systemd), systemd);
        assert_eq!(CgroupName::from_cgroupfs(cgroupfs), name);
        assert_eq!(CgroupName::from_systemd(systemd), name);
    }

    #[test]
    fn names_of_every_level() {
        let tier = |tier| move |root: &CgroupName| CgroupName::tier(root, tier);
        let pod = |tier| move |root: &CgroupName| CgroupName::pod(root, UID, tier);
        check("/", CgroupName::clone, "/", "/");
        check("/", CgroupName::pods, "/kubepods", "/kubepods.slice");
        check("/", tier(QosClass::Guaranteed), "/kubepods", "/kubepods.slice");
        check("/", tier(QosClass::Burstable), "/kubepods/burstable", "/kubepods.slice/kubepods-burstable.slice");
        check("/", tier(QosClass::BestEffort), "/kubepods/besteffort", "/kubepods.slice/kubepods-besteffort.slice");
        check(
            "/",
            pod(QosClass::Guaranteed),
            "/kubepods/pod0b6d3f0e-1c5a-4f4b-9d56-1f2e3d4c5b6a",
            "/kubepods.slice/kubepods-pod0b6d3f0e_1c5a_4f4b_9d56_1f2e3d4c5b6a.slice",
        );
        check(
            "/",
            pod(QosClass::Burstable),
            "/kubepods/burstable/pod0b6d3f0e-1c5a-4f4b-9d56-1f2e3d4c5b6a",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0b6d3f0e_1c5a_4f4b_9d56_1f2e3d4c5b6a.slice",
        );
        check(
            "/",
            pod(QosClass::BestEffort),
            "/kubepods/besteffort/pod0b6d3f0e-1c5a-4f4b-9d56-1f2e3d4c5b6a",
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0b6d3f0e_1c5a_4f4b_9d56_1f2e3d4c5b6a.slice",
        );
    }

    #[test]
    fn a_slice_is_known_by_its_name_alone() {
        let name = |text| CgroupName::from_systemd(text).to_string();
        assert_eq!(name("-.slice"), "/");
        assert_eq!(name("kubepods-burstable-pod0b6d_3f0e.slice"), "/kubepods/burstable/pod0b6d-3f0e");
    }

    #[test]
    fn a_configured_root_comes_first() {
        check(
            "/node/a-b/",
            |root| CgroupName::tier(root, QosClass::BestEffort),
            "/node/a-b/kubepods/besteffort",
            "/node.slice/node-a_b.slice/node-a_b-kubepods.slice/node-a_b-kubepods-besteffort.slice",
        );
    }
}
