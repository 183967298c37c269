//! Samples of this machine, and of a directory that stands in for v2.

use std::fs;
use std::time::Duration;

use polylet_core::paths::Paths;
use polylet_core::time::Wall;

use super::*;
use crate::cgroup::tests::OwnRoot;
use crate::cgroup::{self, Driver, Version};
use crate::testing::pod;

fn places() -> Places {
    Places { node: "/".into(), images: Some("/".into()), containers: Some("/no/such/place".into()) }
}

/// Of a pod of which nothing but a container's layer is known.
fn layer(container: &str, bytes: u64) -> PodDisk {
    PodDisk { layers: BTreeMap::from([(container.into(), Usage { bytes, inodes: 2 })]), ..PodDisk::default() }
}

#[test]
fn this_machine() {
    let tree = CgroupTree::open("/", Driver::Cgroupfs).expect("open");
    let mut sampler = Sampler::new();
    let uid = PodUid::from("uid-1");
    let pods = [(uid.clone(), QosClass::Guaranteed)];
    let first =
        sampler.sample(tree.hierarchies(), Some(&tree), &places(), &pods, &BTreeMap::new(), facts::now()).expect("sample");
    for signal in ["memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "pid.available"] {
        let reading = first.signals.get(signal).unwrap_or_else(|| panic!("{signal}: {first:?}"));
        assert!(reading.available > 0 && reading.available <= reading.capacity, "{signal}: {reading:?}");
    }
    assert!(!first.signals.contains_key("containerfs.available"));
    assert_eq!(first.pods.get(&uid), Some(&PodUsage::default()), "a pod without a cgroup has no statistics");
    assert!(!first.facts.contains_key("node.cpu.usage"));
    std::thread::sleep(Duration::from_millis(20));
    let second =
        sampler.sample(tree.hierarchies(), Some(&tree), &places(), &pods, &BTreeMap::new(), facts::now()).expect("sample");
    assert!(second.facts.contains_key("node.cpu.usage"), "{:?}", second.facts);
}

/// `cgroupsPerQOS: false` takes pods' cgroups away, and nothing else.
#[test]
fn a_machine_whose_pods_have_no_cgroups_is_measured_all_the_same() {
    let machine = cgroup::Hierarchies::find().expect("hierarchies");
    let uid = PodUid::from("uid-1");
    let disk = BTreeMap::from([(uid.clone(), layer("c0ffee", 5))]);
    let pods = [(uid.clone(), QosClass::Burstable)];
    let sample = Sampler::new().sample(&machine, None, &places(), &pods, &disk, facts::now()).expect("sample");
    for signal in ["memory.available", "nodefs.available", "imagefs.available", "pid.available"] {
        assert!(sample.signals.contains_key(signal), "{signal}: {sample:?}");
    }
    assert!(!sample.signals.contains_key("allocatableMemory.available") && sample.facts.contains_key("node.memory.working-set"));
    let usage = &sample.pods[&uid];
    assert_eq!((usage.disk_rootfs, usage.memory_working_set, usage.processes), (Some(5), None, None));
}

/// containerd 1.6 names no file system of containers.
#[test]
fn writable_layers_lie_with_the_images_where_the_runtime_names_no_other_place() {
    let machine = cgroup::Hierarchies::find().expect("hierarchies");
    let layout = |images: &str, containers: Option<&str>| {
        let places = Places { node: "/".into(), images: Some(images.into()), containers: containers.map(Into::into) };
        let sample = Sampler::new().sample(&machine, None, &places, &[], &BTreeMap::new(), facts::now()).expect("sample");
        let same = sample.signals.get("containerfs.available").map(|read| read.capacity)
            == sample.signals.get("imagefs.available").map(|read| read.capacity);
        (sample.facts.get("node.disk.layout").copied(), same && sample.facts.contains_key("node.container-disk.capacity"))
    };
    assert_eq!(layout("/", None), (Some(0), true));
    assert_eq!(layout("/proc", None), (Some(1), true), "images have a file system of their own");
    assert_eq!(layout("/proc", Some("/")).0, Some(2));
    assert_eq!(layout("/no/such/place", None).0, None);
}

#[test]
fn names_of_facts_are_the_contracts() {
    // As cargo says now: this may have been built for another tree.
    let krate = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where its crate is"));
    let table = fs::read_to_string(krate.join("../../wit/facts.tsv")).expect("the table of facts");
    let known: Vec<&str> = table.lines().filter_map(|line| line.split('\t').next()).collect();
    let tree = CgroupTree::open("/", Driver::Cgroupfs).expect("open");
    let sample =
        Sampler::new().sample(tree.hierarchies(), Some(&tree), &places(), &[], &BTreeMap::new(), facts::now()).expect("sample");
    for name in sample.facts.keys() {
        assert!(known.contains(&name.as_str()), "{name} is not in the table");
    }
}

#[test]
fn cpu_is_the_mean_since_the_sampling_before() {
    let at = |ms, nanos| (Mono(ms), nanos);
    assert_eq!(rate(at(0, 0), at(10_000, 2_500_000_000)), Some(250));
    assert_eq!(rate(at(0, 5), at(10_000, 5)), Some(0));
    assert_eq!(rate(at(5, 0), at(5, 100)), None, "no time has passed");
    assert_eq!(rate(at(0, 9), at(10_000, 5)), None, "the cgroup was made anew");
}

fn file(dir: &Path, name: &str, text: &str) {
    fs::create_dir_all(dir).expect("mkdir");
    fs::write(dir.join(name), text).expect("write");
}

#[test]
fn memory_by_version() {
    let dir = tempfile::tempdir().expect("make a directory");
    let (v1, v2) = (dir.path().join("v1"), dir.path().join("v2"));
    file(&v1, "memory.usage_in_bytes", "1000\n");
    file(&v1, "memory.limit_in_bytes", "9223372036854771712\n");
    file(&v1, "memory.stat", "rss 1\ninactive_file 1\ntotal_rss 300\ntotal_inactive_file 400\ntotal_swap 50\n");
    let memory = memory::of_cgroup(Version::V1, &v1).expect("v1");
    let expected = memory::Memory { usage: 1000, working_set: 600, rss: 300, swap: Some(50), limit: None };
    assert_eq!(memory, expected);
    file(&v2, "memory.current", "1000\n");
    file(&v2, "memory.max", "max\n");
    file(&v2, "memory.swap.current", "7\n");
    file(&v2, "memory.stat", "anon 300\nfile 650\ninactive_file 1400\n");
    let memory = memory::of_cgroup(Version::V2, &v2).expect("v2");
    assert_eq!((memory.working_set, memory.rss, memory.swap, memory.limit), (0, 300, Some(7), None));
    let root = memory::of_machine(Version::V2, &v2).expect("the root adds up its statistics");
    assert_eq!(root.usage, 950);
    file(&v2, "memory.max", "2048\n");
    assert_eq!(memory::of_cgroup(Version::V2, &v2).expect("v2").limit, Some(2048));
    assert!(memory::of_cgroup(Version::V2, &dir.path().join("absent")).is_err());
}

#[test]
fn pods_of_a_v2_tree() {
    let dir = tempfile::tempdir().expect("make a directory");
    let tree = CgroupTree::unified_at(dir.path());
    let at = dir.path().join("kubepods/burstable/poduid-1");
    for cgroup in [dir.path(), &dir.path().join("kubepods"), &at] {
        file(cgroup, "memory.stat", "anon 300\nfile 650\ninactive_file 400\n");
        file(cgroup, "memory.current", "1000\n");
        file(cgroup, "memory.max", "4096\n");
        file(cgroup, "cpu.stat", "usage_usec 1000000\nuser_usec 1\n");
    }
    for (resource, share) in [("cpu", "0.25"), ("memory", "1.50"), ("io", "2.75")] {
        file(&at, &format!("{resource}.pressure"), &format!("some avg10={share} avg60=0.00 avg300=0.00 total=1\n"));
    }
    file(&at, "cgroup.procs", "");
    let container = at.join("c0ffee");
    file(&container, "cgroup.procs", "10\n11\n12\n");
    file(&container, "memory.stat", "anon 100\nfile 50\ninactive_file 40\n");
    file(&container, "memory.current", "150\n");
    file(&container, "memory.swap.current", "7\n");
    file(&container, "cpu.stat", "usage_usec 2000\n");
    let mut sampler = Sampler::new();
    let uid = PodUid::from("uid-1");
    let pods = [(uid.clone(), QosClass::Burstable)];
    let now = |ms| Now { wall: Wall(7), mono: Mono(ms) };
    let disk = BTreeMap::from([(uid.clone(), layer("c0ffee", 5))]);
    let first = sampler.sample(tree.hierarchies(), Some(&tree), &places(), &pods, &disk, now(0)).expect("sample");
    assert_eq!(first.signals["allocatableMemory.available"], Reading { available: 4096 - 600, capacity: 4096 });
    let usage = &first.pods[&uid];
    assert_eq!((usage.memory_working_set, usage.memory_rss, usage.memory_stall), (Some(600), Some(300), Some(150)));
    assert_eq!((usage.cpu_stall, usage.io_stall), (Some(25), Some(275)));
    assert_eq!((usage.processes, usage.cpu, usage.disk_logs), (Some(3), None, Some(0)));
    assert_eq!((usage.disk_rootfs, usage.disk(), usage.inodes()), (Some(5), Some(5), Some(2)));
    let own = ContainerUsage {
        cpu: None,
        memory_working_set: Some(110),
        memory_rss: Some(100),
        memory_swap: Some(7),
        disk_rootfs: Some(5),
    };
    assert_eq!(usage.containers, BTreeMap::from([(ContainerId::from("c0ffee"), own)]));
    file(&at, "cpu.stat", "usage_usec 6000000\n");
    file(&container, "cpu.stat", "usage_usec 2502000\n");
    let second = sampler.sample(tree.hierarchies(), Some(&tree), &places(), &pods, &disk, now(10_000)).expect("sample");
    assert_eq!(second.pods[&uid].cpu, Some(500));
    assert_eq!(second.pods[&uid].containers[&ContainerId::from("c0ffee")].cpu, Some(250));
    assert_eq!(second.facts["node.cpu.usage"], 0);
}

#[test]
fn disk_of_a_pod() {
    let dir = tempfile::tempdir().expect("make a directory");
    let at = |name: &str| dir.path().join(name);
    let paths = Paths { root: at("kubelet"), pod_logs: at("pods"), container_logs: at("containers") };
    let pod = pod(
        r#"{"containers":[{"name":"c","image":"i"},{"name":"quiet","image":"i"}],"volumes":[{"name":"a","emptyDir":{}},{"name":"m","emptyDir":{"medium":"Memory"}},
            {"name":"h","hostPath":{"path":"/"}}]}"#,
    );
    let logs = paths.logs_of_pod("default", "web", "uid-1");
    file(&logs.join("c"), "0.log", &"x".repeat(10_000));
    file(&logs.join("c"), "0.log.20260102-030405", &"x".repeat(10_000));
    file(&logs, "beside", &"x".repeat(10_000));
    file(&paths.empty_dir("uid-1", "a"), "data", &"x".repeat(100_000));
    file(&paths.empty_dir("uid-1", "m"), "data", &"x".repeat(100_000));
    file(&paths.pod("uid-1"), "etc-hosts", "127.0.0.1 localhost\n");
    let logs = measure_logs(&paths, &pod);
    let names: Vec<&str> = logs.containers.keys().map(|name| name.as_str()).collect();
    assert_eq!(names, ["c", "quiet"]);
    assert!(logs.all.bytes >= 30_000 && logs.all.inodes == 5, "{logs:?}");
    let [own, quiet] = ["c", "quiet"].map(|name| logs.containers[name]);
    // Rotated ones and those of other attempts too, and nothing of what lies beside.
    assert!((20_000..30_000).contains(&own.bytes) && own.inodes == 3 && quiet == Usage::default(), "{logs:?}");
    assert!(logs.hosts.bytes > 0 && logs.hosts.inodes == 1, "{logs:?}");
    let volumes = measure_volumes(&paths, &pod);
    let on_disk = volumes.on_disk;
    assert!(on_disk.bytes >= 100_000 && on_disk.bytes < 200_000 && on_disk.inodes == 2, "{volumes:?}");
    assert_eq!(volumes.empty_dirs.keys().collect::<Vec<_>>(), ["a", "m"]);
    assert!(volumes.empty_dirs["m"].bytes >= 100_000, "size limits hold for memory too");
}

#[test]
fn what_a_pod_has_on_disk_is_told_by_container_and_volume() {
    let bytes = |bytes| Usage { bytes, inodes: 1 };
    let mut disk = layer("one", 5);
    disk.layers.insert("two".into(), bytes(6));
    disk.logs = PodLogs { all: bytes(30), containers: [("c".into(), bytes(20))].into(), hosts: bytes(3) };
    let mut usage = PodUsage { memory_rss: Some(1), ..PodUsage::default() };
    add_disk(&mut usage, &disk);
    assert_eq!((usage.disk_rootfs, usage.disk_logs, usage.disk_hosts), (Some(11), Some(30), Some(3)));
    assert_eq!((usage.inodes_rootfs, usage.inodes_logs, usage.memory_rss), (Some(3), Some(1), Some(1)));
    assert_eq!(usage.logs, BTreeMap::from([("c".into(), 20)]));
    let layers: Vec<_> = usage.containers.iter().map(|(id, own)| (id.as_str(), own.disk_rootfs)).collect();
    assert_eq!(layers, [("one", Some(5)), ("two", Some(6))]);
    assert_eq!((usage.disk_volumes, usage.inodes_volumes, usage.empty_dirs.len()), (None, None, 0), "volumes are not measured");
    disk.volumes = Some(PodVolumes { empty_dirs: [("v".into(), bytes(40))].into(), on_disk: bytes(40) });
    add_disk(&mut usage, &disk);
    assert_eq!((usage.disk_volumes, usage.empty_dirs.get("v")), (Some(40), Some(&40)));
}

/// The figure is printed, not asserted: what a sampling of fifty pods takes of the cpu on real v1 hierarchies.
#[test]
#[ignore = "needs root and cgroup v1"]
fn v1_fifty_pods_on_this_machine() {
    let own = OwnRoot::make();
    own.tree.ensure_node(&cgroup::tests::node()).expect("ensure_node");
    let pods: Vec<_> = (0..50).map(|n| (PodUid::from(format!("uid-{n}")), QosClass::Burstable)).collect();
    for (uid, tier) in &pods {
        own.tree.ensure_pod(uid.as_str(), &cgroup::tests::pod(*tier)).expect("ensure_pod");
    }
    let mut sampler = Sampler::new();
    sampler.sample(own.tree.hierarchies(), Some(&own.tree), &places(), &pods, &BTreeMap::new(), facts::now()).expect("sample");
    std::thread::sleep(Duration::from_millis(2));
    let cpu = || Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime)).expect("a clock");
    let began = cpu();
    let sample = sampler
        .sample(own.tree.hierarchies(), Some(&own.tree), &places(), &pods, &BTreeMap::new(), facts::now())
        .expect("sample");
    println!("sampling of 50 pods: {:?} of the cpu", cpu() - began);
    for (uid, _) in &pods {
        let usage = &sample.pods[uid];
        assert!(usage.memory_working_set.is_some() && usage.cpu.is_some(), "{uid}: {usage:?}");
        assert_eq!(usage.processes, Some(0));
    }
}
