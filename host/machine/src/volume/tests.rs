//! Volumes in a directory of the test's own; what mounts needs root and is left out without it.

use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;

use super::*;
use crate::testing::{mode, own_mounts, pod};
use crate::{mountinfo, walk};

const GI: u64 = 1 << 30;

struct Node {
    paths: Paths,
    dir: tempfile::TempDir,
}

impl Node {
    fn make() -> Self {
        let dir = tempfile::tempdir().expect("make a directory");
        let at = |name: &str| dir.path().join(name);
        Self { paths: Paths { root: at("kubelet"), pod_logs: at("pods"), container_logs: at("containers") }, dir }
    }

    fn prepare(&self, volumes: &str, mounted: &[&str]) -> Result<(), VolumeError> {
        prepare(&self.paths, &spec(volumes, mounted, "{}"), GI, &VolumeFiles::new())
    }
}

fn spec(volumes: &str, mounted: &[&str], resources: &str) -> std::sync::Arc<Pod> {
    let mounts: Vec<String> = mounted.iter().map(|name| format!(r#"{{"name":"{name}","mountPath":"/{name}"}}"#)).collect();
    pod(&format!(
        r#"{{"containers":[{{"name":"c","image":"i","resources":{resources},"volumeMounts":[{}]}}],"volumes":{volumes}}}"#,
        mounts.join(",")
    ))
}

fn root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn directories_and_plain_empty_dir() {
    let node = Node::make();
    let volumes = r#"[{"name":"cache","emptyDir":{}},{"name":"unused","configMap":{"name":"x"}}]"#;
    node.prepare(volumes, &["cache"]).expect("prepare");
    let dir = node.paths.pod("uid-1");
    for private in [&dir, &dir.join("volumes"), &dir.join("plugins"), &dir.join("volumes/kubernetes.io~empty-dir")] {
        assert_eq!(mode(private), 0o750, "{}", private.display());
    }
    let cache = node.paths.empty_dir("uid-1", "cache");
    assert_eq!(mode(&cache), 0o777);
    assert!(dir.join("plugins/kubernetes.io~empty-dir/cache/ready").exists());

    fs::write(cache.join("file"), "kept").expect("write");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).expect("the tenant changes the mode");
    node.prepare(volumes, &["cache"]).expect("again");
    assert_eq!(fs::read_to_string(cache.join("file")).expect("read"), "kept");
    assert_eq!(mode(&cache), 0o700, "what is ready is left alone");

    let pod = spec(volumes, &[], "{}");
    assert_eq!(volume_path(&node.paths, &pod, "cache"), Some(cache));
    assert_eq!(volume_path(&node.paths, &pod, "unused"), None);
    assert_eq!(list_pods(&node.paths).expect("pods"), ["uid-1"]);
    tear_down(&node.paths, "uid-1").expect("tear_down");
    tear_down(&node.paths, "uid-1").expect("twice");
    assert!(list_pods(&node.paths).expect("pods").is_empty());
}

#[test]
fn fs_group_owns_an_empty_dir() {
    if !root() {
        return;
    }
    let node = Node::make();
    let pod = pod(
        r#"{"securityContext":{"fsGroup":1234},"containers":[{"name":"c","image":"i","volumeMounts":[{"name":"v","mountPath":"/v"}]}],
            "volumes":[{"name":"v","emptyDir":{}}]}"#,
    );
    prepare(&node.paths, &pod, GI, &VolumeFiles::new()).expect("prepare");
    let dir = node.paths.empty_dir("uid-1", "v");
    assert_eq!((fs::metadata(&dir).expect("stat").gid(), mode(&dir)), (1234, 0o2777));
    fs::remove_dir(&dir).expect("rmdir");
    prepare(&node.paths, &pod, GI, &VolumeFiles::new()).expect("anew");
    assert_eq!((fs::metadata(&dir).expect("stat").gid(), mode(&dir)), (1234, 0o2777));
}

#[test]
fn a_volume_that_somebody_removed_is_made_as_a_new_one() {
    let node = Node::make();
    let volumes = r#"[{"name":"v","emptyDir":{}},{"name":"w","emptyDir":{"mode":489}}]"#;
    node.prepare(volumes, &["v", "w"]).expect("prepare");
    let dirs = ["v", "w"].map(|name| node.paths.empty_dir("uid-1", name));
    for dir in &dirs {
        fs::remove_dir(dir).expect("rmdir");
    }
    node.prepare(volumes, &["v", "w"]).expect("anew");
    assert_eq!(dirs.each_ref().map(|dir| mode(dir)), [0o777, 0o751]);
    for name in ["v", "w"] {
        assert!(node.paths.pod("uid-1").join(format!("plugins/kubernetes.io~empty-dir/{name}/ready")).exists(), "{name}");
    }
}

#[test]
fn memory_medium_is_a_tmpfs_of_the_least_size() {
    own_mounts(memory_medium);
}

fn memory_medium() {
    let node = Node::make();
    for (name, limit, resources, size) in [
        ("a", "", "{}", 64 << 20),
        ("b", r#","sizeLimit":"16Mi""#, "{}", 16 << 20),
        ("c", r#","sizeLimit":"0""#, r#"{"requests":{"cpu":"1"},"limits":{"memory":"8Mi"}}"#, 8 << 20),
    ] {
        let volumes = format!(r#"[{{"name":"{name}","emptyDir":{{"medium":"Memory"{limit}}}}}]"#);
        let pod = spec(&volumes, &[name], resources);
        prepare(&node.paths, &pod, 64 << 20, &VolumeFiles::new()).expect("prepare");
        prepare(&node.paths, &pod, 64 << 20, &VolumeFiles::new()).expect("again");
        let dir = node.paths.empty_dir("uid-1", name);
        let stat = rustix::fs::statvfs(&dir).expect("statvfs");
        assert_eq!(stat.f_blocks * stat.f_frsize, size, "{name}");
        assert_eq!(mode(&dir), 0o1777, "as the kernel makes a tmpfs; upstream leaves the sticky bit");
    }
    let below = |mounts: &[mountinfo::Mount]| mountinfo::below(mounts, &node.paths.root).len();
    assert_eq!(below(&mountinfo::read().expect("mounts")), 3, "none is mounted twice");
    tear_down(&node.paths, "uid-1").expect("tear_down");
    assert_eq!(below(&mountinfo::read().expect("mounts")), 0);
    assert!(!node.paths.pod("uid-1").exists());
}

#[test]
fn nothing_behind_a_mount_is_removed() {
    own_mounts(bind_mount_inside);
}

fn bind_mount_inside() {
    let node = Node::make();
    node.prepare(r#"[{"name":"v","emptyDir":{}}]"#, &["v"]).expect("prepare");
    let precious = node.dir.path().join("precious");
    fs::create_dir(&precious).expect("mkdir");
    fs::write(precious.join("data"), "1").expect("write");
    let inside = node.paths.empty_dir("uid-1", "v").join("bound");
    fs::create_dir(&inside).expect("mkdir");
    rustix::mount::mount_bind(&precious, &inside).expect("bind");
    // A file in use keeps the mount busy; the same file system on both sides is the case that a device number does not tell.
    let busy = fs::File::open(inside.join("data")).expect("open");
    let error = tear_down(&node.paths, "uid-1").expect_err("busy");
    assert!(matches!(error, TearDownError::Unmount { .. }), "{error:?}");
    let walked = walk::remove(&node.paths.pod("uid-1")).expect_err("the walk stops at the mount");
    assert_eq!(walked.kind(), io::ErrorKind::CrossesDevices, "{walked}");
    drop(busy);
    tear_down(&node.paths, "uid-1").expect("tear_down");
    assert!(precious.join("data").exists());
}

#[test]
fn links_that_tenants_leave_are_not_followed() {
    let node = Node::make();
    node.prepare(r#"[{"name":"v","emptyDir":{}}]"#, &["v"]).expect("prepare");
    let precious = node.dir.path().join("precious");
    fs::create_dir(&precious).expect("mkdir");
    fs::write(precious.join("data"), "1").expect("write");
    symlink(&precious, node.paths.empty_dir("uid-1", "v").join("link")).expect("symlink");
    tear_down(&node.paths, "uid-1").expect("tear_down");
    assert!(precious.join("data").exists());
    fs::create_dir_all(node.paths.root.join("pods/a/b")).expect("mkdir");
    for uid in ["", "..", ".", "a/b", "../pods", "/"] {
        assert!(matches!(tear_down(&node.paths, uid), Err(TearDownError::BadUid { .. })), "{uid:?}");
    }
}

#[test]
fn only_what_can_be_a_pods_uid_is_a_pod() {
    let node = Node::make();
    let pods = node.paths.root.join("pods");
    let long = "x".repeat(64);
    for name in ["uid-1", ".backup", "lost+found", "-x", "a_b", "b\u{e9}", &long] {
        fs::create_dir_all(pods.join(name)).expect("mkdir");
    }
    assert_eq!(list_pods(&node.paths).expect("pods"), ["uid-1"]);
    assert_eq!(list_others(&node.paths).expect("others"), ["-x", ".backup", "a_b", "b\u{e9}", "lost+found", &long]);
    assert!(matches!(tear_down(&node.paths, ".backup"), Err(TearDownError::BadUid { .. })));
    assert!(pods.join(".backup").is_dir(), "it is somebody's");
    for uid in [".gone", "gone", "../gone", &"y".repeat(64)] {
        tear_down(&node.paths, uid).unwrap_or_else(|error| panic!("{uid:?} is not there: {error}"));
    }
}

#[test]
fn host_path_types() {
    let node = Node::make();
    let at = |name: &str| node.dir.path().join(name).display().to_string();
    fs::create_dir(at("dir")).expect("mkdir");
    fs::write(at("file"), "").expect("write");
    symlink(at("dir"), at("link")).expect("symlink");
    let _socket = UnixListener::bind(at("socket")).expect("bind");
    let check = |path: &str, kind: &str| {
        let volumes = format!(r#"[{{"name":"h","hostPath":{{"path":"{path}","type":"{kind}"}}}}]"#);
        node.prepare(&volumes, &["h"]).map_err(|error| error.to_string())
    };
    for (path, kind) in [
        (at("absent"), ""),
        (at("dir"), "Directory"),
        (at("link"), "Directory"),
        (at("dir"), "DirectoryOrCreate"),
        (at("new/dir"), "DirectoryOrCreate"),
        (at("file"), "File"),
        (at("newfile"), "FileOrCreate"),
        (at("socket"), "Socket"),
        ("/dev/null".into(), "CharDevice"),
    ] {
        check(&path, kind).unwrap_or_else(|error| panic!("{path} {kind}: {error}"));
    }
    assert_eq!(mode(&node.dir.path().join("new/dir")), 0o755);
    assert_eq!(mode(&node.dir.path().join("newfile")), 0o644);
    for (path, kind, text) in [
        (at("absent"), "Directory", "hostPath type check failed: PATH is not a directory"),
        (at("file"), "DirectoryOrCreate", "hostPath type check failed: PATH is not a directory"),
        (at("dir"), "FileOrCreate", "hostPath type check failed: PATH is not a file"),
        (at("socket"), "File", "hostPath type check failed: PATH is not a file"),
        (at("file"), "Socket", "hostPath type check failed: PATH is not a socket file"),
        (at("file"), "CharDevice", "hostPath type check failed: PATH is not a character device"),
        ("/dev/null".into(), "BlockDevice", "hostPath type check failed: PATH is not a block device"),
        (at("dir"), "Dir", "Dir is an invalid volume type"),
        (at("no/parent"), "FileOrCreate", "open PATH: No such file or directory (os error 2)"),
    ] {
        let expected = format!("MountVolume.SetUp failed for volume \"h\" : {}", text.replace("PATH", &path));
        assert_eq!(check(&path, kind), Err(expected));
    }
}

#[test]
fn what_is_not_supported_is_named() {
    let node = Node::make();
    for (volume, text) in [
        (
            r#""configMap":{"name":"x"}"#,
            "volumes of type configMap are not supported yet; supported are emptyDir, hostPath, downwardAPI and projected",
        ),
        (
            r#""secret":{"secretName":"x"}"#,
            "volumes of type secret are not supported yet; supported are emptyDir, hostPath, downwardAPI and projected",
        ),
        (r#""emptyDir":{"medium":"Disk"}"#, "unknown storage medium \"Disk\""),
        (
            r#""emptyDir":{"medium":"HugePages-2Mi"}"#,
            "medium HugePages-2Mi: hugePages storage requested, but there is no resource request for huge pages",
        ),
    ] {
        let error = node.prepare(&format!(r#"[{{"name":"v",{volume}}}]"#), &["v"]).expect_err(volume);
        assert_eq!(error.to_string(), format!("MountVolume.SetUp failed for volume \"v\" : {text}"));
    }
    let error = node.prepare("[]", &["v"]).expect_err("no such volume");
    assert_eq!(error.to_string(), "MountVolume.SetUp failed for volume \"v\" : the pod has no such volume");
    fs::create_dir_all(&node.paths.root).expect("mkdir");
    fs::write(node.paths.root.join("pods2"), "").expect("write");
    let blocked = Paths { root: node.paths.root.join("pods2"), ..node.paths.clone() };
    let error = prepare(&blocked, &spec("[]", &[], "{}"), GI, &VolumeFiles::new()).expect_err("a file in the way");
    let text = error.to_string();
    assert!(text.starts_with("error making pod data directories: mkdir ") && text.contains("Not a directory"), "{text}");
}

#[test]
fn a_mode_of_the_volumes_own() {
    let node = Node::make();
    node.prepare(r#"[{"name":"v","emptyDir":{"mode":489}},{"name":"w","emptyDir":{"mode":0}}]"#, &["v", "w"]).expect("prepare");
    assert_eq!([mode(&node.paths.empty_dir("uid-1", "v")), mode(&node.paths.empty_dir("uid-1", "w"))], [0o751, 0]);
}

#[test]
fn the_size_of_huge_pages_is_the_mediums_or_the_only_one_requested() {
    let (two, one) = (2 << 20, 1 << 30);
    let requests = |list: &str| format!(r#"{{"requests":{{{list}}}}}"#);
    let container = |list: &str| format!(r#""containers":[{{"name":"c","image":"i","resources":{}}}]"#, requests(list));
    let (small, large) = (r#""hugepages-2Mi":"4Mi""#, r#""hugepages-1Gi":"1Gi""#);
    for (spec, any, of_two) in [
        (container(small), Some(two), Some(two)),
        (container(large), Some(one), None),
        (container(&format!("{small},{large}")), None, Some(two)),
        // What the pod as a whole asks for counts too.
        (format!(r#""resources":{},{}"#, requests(small), container("")), Some(two), Some(two)),
        (format!(r#""resources":{},{}"#, requests(small), container(large)), None, Some(two)),
    ] {
        let pod = pod(&format!("{{{spec}}}"));
        let size = |medium| empty_dir::page_size(&pod, medium).ok();
        assert_eq!((size("HugePages"), size("HugePages-2Mi")), (any, of_two), "{spec}");
    }
}
