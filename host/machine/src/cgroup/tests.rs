//! The tree on directories that stand in for v1 and v2; and on this machine's own v1 hierarchies, below a root of the test's own, where
//! it has them: those tests are run with `--ignored`, so that none counts as passed where there is nothing to try.

use std::fs;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use super::hierarchy::HierarchyMount;
use super::*;

const UID: &str = "0b6d3f0e-1c5a-4f4b-9d56-1f2e3d4c5b6a";

pub(crate) fn pod(tier: QosClass) -> PodLimits {
    PodLimits {
        tier,
        cpu_shares: 512,
        cpu_weight: None,
        cpu_quota_us: Some(50_000),
        cpu_period_us: 100_000,
        memory: Some(64 << 20),
        memory_min: None,
        memory_low: None,
        memory_high: None,
        pids: Some(100),
        huge_pages: BTreeMap::new(),
    }
}

pub(crate) fn node() -> NodeLimits {
    NodeLimits { cpu: 1500, memory: 1 << 30, pids: 5000, huge_pages: BTreeMap::new() }
}

/// A root cgroup of the test's own in every v1 hierarchy, removed at the end.
pub(crate) struct OwnRoot {
    pub(crate) tree: CgroupTree,
    dirs: Vec<PathBuf>,
}

/// This machine's, for what is particular to v1.
#[track_caller]
fn v1_hierarchies() -> Hierarchies {
    let hierarchies = Hierarchies::find().expect("cgroup hierarchies");
    assert_eq!(hierarchies.version, Version::V1, "the cgroups of this machine are v2: what is particular to v1 cannot be tried");
    hierarchies
}

impl OwnRoot {
    pub(crate) fn make() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let hierarchies = v1_hierarchies();
        let name = format!("polylet-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut dirs = Vec::new();
        for mount in &hierarchies.mounts {
            let dir = mount.point.join(&name);
            if let Err(error) = fs::create_dir(&dir) {
                dirs.iter().for_each(|dir| drop(fs::remove_dir(dir)));
                panic!("make {}: {error}: this test needs root and writable cgroups", dir.display());
            }
            dirs.push(dir);
        }
        let tree = CgroupTree::open(&format!("/{name}"), Driver::Cgroupfs).expect("open below the root just made");
        Self { tree, dirs }
    }

    #[track_caller]
    fn write(&self, controller: &str, below: &str, file: &str, value: &str) {
        let point = self.tree.hierarchies.point(controller).expect("mounted");
        let path = self.tree.dir_in(point, &self.tree.root).join(below.trim_start_matches('/')).join(file);
        fs::write(&path, value).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    #[track_caller]
    fn read(&self, controller: &str, below: &str, file: &str) -> String {
        let point = self.tree.hierarchies.point(controller).expect("mounted");
        let path = self.tree.dir_in(point, &self.tree.root).join(below.trim_start_matches('/')).join(file);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).trim().to_owned()
    }
}

impl Drop for OwnRoot {
    fn drop(&mut self) {
        remove::subtrees(&self.dirs).expect("remove the test's own cgroups");
    }
}

/// A process of the test's own, ended with it.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("600").spawn().expect("start sleep"))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs root and cgroup v1"]
fn v1_node_and_tiers_get_their_values() {
    let own = OwnRoot::make();
    own.tree.ensure_node(&node()).expect("ensure_node");
    assert_eq!(own.read("cpu", "kubepods", "cpu.shares"), "1536");
    assert_eq!(own.read("memory", "kubepods", "memory.limit_in_bytes"), (1u64 << 30).to_string());
    assert_eq!(own.read("pids", "kubepods", "pids.max"), "5000");
    assert_eq!(own.read("cpuset", "kubepods/burstable", "cpuset.cpus"), own.read("cpuset", "..", "cpuset.cpus"));
    assert_eq!(own.read("cpu", "kubepods/burstable", "cpu.shares"), "2");
    own.tree.update_tiers(750).expect("update_tiers");
    assert_eq!(own.read("cpu", "kubepods/burstable", "cpu.shares"), "768");
    assert_eq!(own.read("cpu", "kubepods/besteffort", "cpu.shares"), "2");
    own.tree.ensure_node(&node()).expect("again");
    assert_eq!(own.read("cpu", "kubepods/burstable", "cpu.shares"), "768", "a restart of the agent does not starve the tier");
}

#[test]
#[ignore = "needs root and cgroup v1"]
fn v1_pod_is_made_listed_reduced_and_removed() {
    let own = OwnRoot::make();
    own.tree.ensure_node(&node()).expect("ensure_node");
    let parent = own.tree.ensure_pod(UID, &pod(QosClass::Burstable)).expect("ensure_pod");
    assert_eq!(parent, own.tree.pod_parent(UID, QosClass::Burstable));
    assert!(parent.ends_with(&format!("/kubepods/burstable/pod{UID}")), "{parent}");
    let below = format!("kubepods/burstable/pod{UID}");
    assert_eq!(own.read("cpu", &below, "cpu.shares"), "512");
    assert_eq!(own.read("cpu", &below, "cpu.cfs_quota_us"), "50000");
    assert_eq!(own.read("memory", &below, "memory.limit_in_bytes"), (64 << 20).to_string());
    assert_eq!(own.read("pids", &below, "pids.max"), "100");

    own.tree.ensure_pod("other", &pod(QosClass::Guaranteed)).expect("a second pod");
    let listed = own.tree.list_pods().expect("list_pods");
    assert_eq!(listed, [(UID.to_owned(), QosClass::Burstable), ("other".to_owned(), QosClass::Guaranteed)]);

    own.write("cpu", &below, "cpu.shares", "2");
    own.tree.ensure_pod(UID, &pod(QosClass::Burstable)).expect("again");
    assert_eq!(own.read("cpu", &below, "cpu.shares"), "2", "what is complete is not written again");

    own.tree.remove_pod(UID).expect("remove_pod");
    own.tree.remove_pod(UID).expect("twice");
    assert_eq!(own.tree.list_pods().expect("list_pods").len(), 1);
}

#[test]
#[ignore = "needs root and cgroup v1"]
fn v1_creation_that_was_cut_off_is_finished() {
    let own = OwnRoot::make();
    own.tree.ensure_node(&node()).expect("ensure_node");
    // As if the agent had died after the first directory, before any value.
    let first = own.tree.pod_dir("cpu", UID, QosClass::BestEffort).expect("cpu is mounted");
    fs::create_dir(&first).expect("make the first directory");
    own.tree.ensure_pod(UID, &pod(QosClass::BestEffort)).expect("ensure_pod");
    assert_eq!(own.read("cpu", &format!("kubepods/besteffort/pod{UID}"), "cpu.shares"), "512");
}

#[test]
#[ignore = "needs root and cgroup v1"]
fn v1_removal_ends_what_still_runs() {
    let own = OwnRoot::make();
    own.tree.ensure_node(&node()).expect("ensure_node");
    own.tree.ensure_pod(UID, &pod(QosClass::Guaranteed)).expect("ensure_pod");
    let mut sleeper = Sleeper::start();
    for controller in ["memory", "pids", "cpuset"] {
        let container = own.tree.pod_dir(controller, UID, QosClass::Guaranteed).expect("mounted").join("container");
        fs::create_dir(&container).expect("make a container's cgroup");
        if controller == "cpuset" {
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let value = own.read("cpuset", &format!("kubepods/pod{UID}"), file);
                fs::write(container.join(file), value).expect("hand the parent's processors down");
            }
        }
        fs::write(container.join("cgroup.procs"), sleeper.0.id().to_string()).expect("move the process in");
    }
    own.tree.remove_pod(UID).expect("remove_pod");
    let status = sleeper.0.wait().expect("wait");
    assert!(!status.success(), "it was killed: {status}");
    assert!(own.tree.list_pods().expect("list_pods").is_empty());
}

#[test]
fn a_root_that_is_not_there_is_refused() {
    match CgroupTree::open("/polylet-test-no-such-root", Driver::Cgroupfs) {
        Err(CgroupError::NoRoot { root, .. }) => assert_eq!(root, "/polylet-test-no-such-root"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(CgroupTree::open("/", Driver::Systemd), Err(CgroupError::SystemdUnsupported { .. })));
}

/// Directories that stand in for v1 mounts, without a cpuset, which has to be filled by the kernel.
fn fake_v1() -> (tempfile::TempDir, CgroupTree) {
    let dir = tempfile::tempdir().expect("make a directory");
    let mount = |controllers: &[&str]| {
        let point = dir.path().join(controllers.join(","));
        fs::create_dir(&point).expect("make a mount point");
        HierarchyMount { point, controllers: controllers.iter().map(|name| (*name).to_owned()).collect() }
    };
    let mounts = vec![mount(&["cpu", "cpuacct"]), mount(&["memory"]), mount(&["pids"]), mount(&["hugetlb"])];
    let hierarchies = Hierarchies { version: Version::V1, mounts, hybrid: None };
    let tree = CgroupTree::among(hierarchies, "/", vec![2 << 20, 1 << 30]).expect("open");
    (dir, tree)
}

/// What was written below a directory that stands in for a mount: as [`PodLimits::files`] tells it, and nothing else.
#[track_caller]
fn check_files(dirs: &[PathBuf], made_before: &[&str], limits: &PodLimits, version: Version) {
    let mut found = BTreeMap::new();
    for dir in dirs {
        for entry in fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a name");
            if !made_before.contains(&&*name) {
                found.insert(name, fs::read_to_string(entry.path()).expect("a value"));
            }
        }
    }
    assert_eq!(limits.files(version, &[2 << 20, 1 << 30]), found);
}

fn all_values(tier: QosClass) -> PodLimits {
    PodLimits {
        memory_min: Some(16 << 20),
        memory_low: Some(32 << 20),
        memory_high: Some(48 << 20),
        huge_pages: BTreeMap::from([(2 << 20, 128 << 20)]),
        ..pod(tier)
    }
}

#[test]
fn v1_values_go_to_their_files_and_are_told_as_they_are_written() {
    let (dir, tree) = fake_v1();
    let read = |file: &str| fs::read_to_string(dir.path().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    tree.ensure_node(&NodeLimits { huge_pages: BTreeMap::from([(2 << 20, 128 << 20)]), ..node() }).expect("ensure_node");
    assert_eq!(tree.version(), Version::V1);
    assert_eq!(read("cpu,cpuacct/kubepods/cpu.shares"), "1536");
    assert_eq!(read("memory/kubepods/memory.limit_in_bytes"), (1u64 << 30).to_string());
    assert_eq!(read("pids/kubepods/pids.max"), "5000");
    assert_eq!(read("hugetlb/kubepods/hugetlb.2MB.limit_in_bytes"), (128 << 20).to_string());
    tree.update_tiers(750).expect("update_tiers");
    assert_eq!(read("cpu,cpuacct/kubepods/burstable/cpu.shares"), "768");
    tree.ensure_node(&node()).expect("again");
    assert_eq!(read("cpu,cpuacct/kubepods/burstable/cpu.shares"), "768", "a restart of the agent does not starve the tier");

    for (uid, quota) in [(UID, Some(50_000)), ("other", Some(-1)), ("third", None)] {
        let limits =
            PodLimits { cpu_quota_us: quota, cpu_weight: (uid == "other").then_some(333), ..all_values(QosClass::Burstable) };
        tree.ensure_pod(uid, &limits).expect("ensure_pod");
        let dirs =
            ["cpu", "memory", "pids", "hugetlb"].map(|name| tree.pod_dir(name, uid, QosClass::Burstable).expect("mounted"));
        check_files(&dirs, &[], &limits, Version::V1);
    }
    assert_eq!(read(&format!("cpu,cpuacct/kubepods/burstable/pod{UID}/cpu.cfs_quota_us")), "50000");
    let listed: Vec<String> = tree.list_pods().expect("list_pods").into_iter().map(|(uid, _)| uid).collect();
    assert_eq!(listed, [UID, "other", "third"]);
}

#[test]
fn v2_values_are_told_as_they_are_written() {
    for (quota, weight) in [(Some(50_000), None), (Some(-1), Some(333)), (None, None)] {
        let pod_path = format!("kubepods/burstable/pod{UID}");
        let (dir, tree) = fake_v2(&["kubepods", "kubepods/burstable", "kubepods/besteffort", &pod_path]);
        let at = dir.path().join(&pod_path);
        if quota.is_none() {
            fs::remove_file(at.join("cpu.max")).expect("nothing is to be written there");
        }
        let limits = PodLimits { cpu_quota_us: quota, cpu_weight: weight, ..all_values(QosClass::Burstable) };
        tree.ensure_pod(UID, &limits).expect("ensure_pod");
        check_files(&[at], &["cgroup.controllers", "cgroup.subtree_control", "cgroup.procs"], &limits, Version::V2);
    }
}

/// A directory that stands in for a v2 mount: the files that the kernel would make are put there beforehand.
fn fake_v2(cgroups: &[&str]) -> (tempfile::TempDir, CgroupTree) {
    let dir = tempfile::tempdir().expect("make a directory");
    for cgroup in [""].iter().chain(cgroups) {
        let at = dir.path().join(cgroup);
        fs::create_dir_all(&at).expect("make a cgroup");
        for (file, text) in [
            ("cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc\n"),
            ("cgroup.subtree_control", ""),
            ("cpu.max", "max 100000\n"),
            ("cgroup.procs", ""),
        ] {
            fs::write(at.join(file), text).expect("write a file");
        }
    }
    let tree = CgroupTree::among(Hierarchies::unified(dir.path()), "/", vec![2 << 20, 1 << 30]).expect("open");
    (dir, tree)
}

#[test]
fn v2_values_go_to_their_files() {
    let pod_path = format!("kubepods/burstable/pod{UID}");
    let (dir, tree) = fake_v2(&["kubepods", "kubepods/burstable", "kubepods/besteffort", &pod_path]);
    let read = |file: String| fs::read_to_string(dir.path().join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let limits = NodeLimits { huge_pages: BTreeMap::from([(2 << 20, 128 << 20)]), ..node() };
    tree.ensure_node(&limits).expect("ensure_node");
    assert_eq!(tree.version(), Version::V2);
    assert_eq!(read("cgroup.subtree_control".into()), "+cpu +cpuset +hugetlb +io +memory +pids");
    assert_eq!(read("kubepods/cpu.weight".into()), "59");
    assert_eq!(read("kubepods/memory.max".into()), (1u64 << 30).to_string());
    assert_eq!(read("kubepods/hugetlb.2MB.max".into()), (128 << 20).to_string());
    assert_eq!(read("kubepods/hugetlb.1GB.max".into()), "0");
    assert_eq!(read("kubepods/burstable/hugetlb.1GB.max".into()), (1u64 << 62).to_string());
    tree.update_tiers(4000).expect("update_tiers");
    assert_eq!(read("kubepods/burstable/cpu.weight".into()), "157");
    assert_eq!(read("kubepods/besteffort/cpu.weight".into()), "1");

    let limits = PodLimits { memory_low: Some(32 << 20), memory_high: Some(48 << 20), ..pod(QosClass::Burstable) };
    let parent = tree.ensure_pod(UID, &limits).expect("ensure_pod");
    assert_eq!(parent, format!("/{pod_path}"));
    assert_eq!(read(format!("{pod_path}/cpu.weight")), "20");
    assert_eq!(read(format!("{pod_path}/cpu.max")), "50000 100000");
    assert_eq!(read(format!("{pod_path}/memory.max")), (64 << 20).to_string());
    assert_eq!(read(format!("{pod_path}/memory.low")), (32 << 20).to_string());
    assert_eq!(read(format!("{pod_path}/memory.high")), (48 << 20).to_string());
    assert_eq!(read(format!("{pod_path}/pids.max")), "100");
    assert_eq!(read(format!("{pod_path}/hugetlb.2MB.max")), "0");
    assert_eq!(tree.list_pods().expect("list_pods"), [(UID.to_owned(), QosClass::Burstable)]);

    fs::write(dir.path().join(&pod_path).join("cpu.max"), "max 100000\n").expect("reset");
    tree.ensure_pod(UID, &PodLimits { cpu_quota_us: Some(-1), ..limits }).expect("again");
    assert_eq!(read(format!("{pod_path}/cpu.max")), "max 100000\n", "what is complete is not written again");
}

#[test]
fn limits_that_are_refused_leave_everything_else_made() {
    let (dir, tree) = fake_v2(&["kubepods", "kubepods/burstable", "kubepods/besteffort"]);
    // What the kernel would refuse, a directory refuses.
    fs::create_dir(dir.path().join("kubepods/memory.max")).expect("stand in the way");
    let error = tree.ensure_node(&node()).expect_err("the limit cannot be written");
    assert!(matches!(error, CgroupError::Limits(_)), "{error:?}");
    assert_eq!(fs::read_to_string(dir.path().join("kubepods/burstable/cpu.weight")).expect("the tier has its weight"), "1");
    fs::remove_dir(dir.path().join("kubepods/memory.max")).expect("out of the way");
    tree.ensure_node(&node()).expect("again");
    assert_eq!(fs::read_to_string(dir.path().join("kubepods/memory.max")).expect("the limit"), (1u64 << 30).to_string());
}

#[test]
fn v2_policy_weight_is_written_as_it_is() {
    let pod_path = format!("kubepods/pod{UID}");
    let (dir, tree) = fake_v2(&["kubepods", "kubepods/burstable", "kubepods/besteffort", &pod_path]);
    tree.ensure_pod(UID, &PodLimits { cpu_weight: Some(333), ..pod(QosClass::Guaranteed) }).expect("ensure_pod");
    assert_eq!(fs::read_to_string(dir.path().join(pod_path).join("cpu.weight")).expect("read"), "333");
}
