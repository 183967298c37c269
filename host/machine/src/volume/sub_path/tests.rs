//! Tenants against parts of volumes. All of them mount: they need root, and are left out without it.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use polylet_core::volume::VolumeFiles;
use rustix::fs::RenameFlags;

use super::*;
use crate::testing::{mode, own_mounts, pod};
use crate::volume::{prepare, tear_down};

struct Node {
    paths: Paths,
    pod: Arc<Pod>,
    dir: tempfile::TempDir,
}

impl Node {
    /// A pod with an emptyDir `v` and a hostPath `h` that lies in `<dir>/host`. Beside them `<dir>/secret` holds a file.
    fn make() -> Self {
        let dir = tempfile::tempdir().expect("make a directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("host")).expect("mkdir");
        fs::create_dir(at("secret")).expect("mkdir");
        fs::write(at("secret/key"), "secret").expect("write");
        let pod = pod(&format!(
            r#"{{"containers":[{{"name":"c","image":"i","volumeMounts":[{{"name":"v","mountPath":"/v"}},{{"name":"h","mountPath":"/h"}}]}}],
                "volumes":[{{"name":"v","emptyDir":{{}}}},{{"name":"h","hostPath":{{"path":"{}"}}}}]}}"#,
            at("host").display()
        ));
        let paths = Paths { root: at("kubelet"), pod_logs: at("pods"), container_logs: at("containers") };
        prepare(&paths, &pod, 1 << 30, &VolumeFiles::new()).expect("prepare");
        Self { paths, pod, dir }
    }

    fn volume(&self) -> PathBuf {
        self.paths.empty_dir("uid-1", "v")
    }

    fn target(&self, volume: &str, index: usize) -> PathBuf {
        self.paths.sub_path("uid-1", volume, "c", index)
    }

    /// Mounts at index 0; on success what stands at the target.
    fn mount(&self, volume: &str, path: &str) -> Result<PathBuf, SubPathError> {
        let wanted = SubPath { volume: volume.to_owned(), index: 0, path: path.to_owned() };
        prepare_sub_path(&self.paths, &self.pod, "c", &wanted).map(|()| self.target(volume, 0))
    }

    fn mounts(&self) -> usize {
        let root = fs::canonicalize(&self.paths.root).expect("real path");
        mountinfo::below(&mountinfo::read().expect("mounts"), &root).len()
    }
}

/// The text that is shown, and the cause's.
fn texts(error: SubPathError) -> [String; 2] {
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    [error.to_string(), cause]
}

#[test]
fn what_is_missing_is_made_once() {
    own_mounts(|| {
        let node = Node::make();
        let target = node.mount("v", "a//./b/").expect("mount");
        assert_eq!(mode(&node.volume().join("a/b")), 0o777, "the volume's mode");
        fs::write(node.volume().join("a/b/file"), "1").expect("write");
        assert_eq!(fs::read_to_string(target.join("file")).expect("read"), "1");
        assert_eq!(node.mount("v", "a/b").expect("again"), target);
        assert_eq!(node.mounts(), 1, "the agent starts anew: the mount stays as it is");

        // The volume itself, by a path that names nothing.
        let whole = node.mount("v", ".").expect("mount");
        assert!(whole.join("a/b/file").exists());
        assert_eq!(node.mounts(), 1, "another part takes the place of the first");

        tear_down(&node.paths, "uid-1").expect("tear down");
        assert_eq!(node.mounts(), 0);
        assert!(!node.paths.pod("uid-1").exists());
    });
}

#[test]
fn the_mode_of_the_volume_is_given_to_the_last() {
    own_mounts(|| {
        let node = Node::make();
        fs::set_permissions(node.volume(), fs::Permissions::from_mode(0o2775)).expect("chmod");
        node.mount("v", "x/y").expect("mount");
        assert_eq!(mode(&node.volume().join("x/y")), 0o2775);
        let own = fs::metadata(node.volume()).expect("stat").gid();
        assert_eq!(fs::metadata(node.volume().join("x/y")).expect("stat").gid(), own);
    });
}

#[test]
fn files_and_sockets() {
    own_mounts(|| {
        let node = Node::make();
        fs::write(node.volume().join("file"), "1").expect("write");
        let target = node.mount("v", "file").expect("mount");
        assert_eq!(fs::read_to_string(&target).expect("read"), "1");
        let _socket = UnixListener::bind(node.dir.path().join("host/s")).expect("bind");
        node.mount("h", "s").expect("mount a socket");
        let fifo = node.volume().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).expect("mkfifo");
        // Opening it for reading would wait for a writer.
        node.mount("v", "fifo").expect("mount a fifo");
        // What was mounted as a file becomes a directory, and the other way round.
        fs::remove_file(&fifo).expect("unlink");
        fs::create_dir(&fifo).expect("mkdir");
        assert!(node.mount("v", "fifo").expect("mount").is_dir());
        assert!(node.mount("v", "file").expect("mount").is_file());
        assert_eq!(node.mounts(), 2);
    });
}

#[test]
fn links_that_stay_inside_are_followed() {
    own_mounts(|| {
        let node = Node::make();
        let host = node.dir.path().join("host");
        fs::create_dir_all(host.join("releases/v1")).expect("mkdir");
        fs::write(host.join("releases/v1/file"), "v1").expect("write");
        symlink("releases/v1", host.join("relative")).expect("symlink");
        symlink(host.join("releases/v1"), host.join("absolute")).expect("symlink");
        symlink("../relative", host.join("releases/up")).expect("symlink");
        for path in ["relative", "absolute", "releases/up", "releases/../relative"] {
            let target = node.mount("h", path).unwrap_or_else(|error| panic!("{path}: {:?}", texts(error)));
            assert_eq!(fs::read_to_string(target.join("file")).expect("read"), "v1", "{path}");
        }
        // Through the link something new is made.
        node.mount("h", "relative/new").expect("mount");
        assert!(host.join("releases/v1/new").is_dir());
    });
}

#[test]
fn nothing_leads_out() {
    own_mounts(|| {
        let node = Node::make();
        let (volume, secret) = (node.volume(), node.dir.path().join("secret"));
        symlink("/", volume.join("root")).expect("symlink");
        symlink(&secret, volume.join("out")).expect("symlink");
        symlink(secret.join("key"), volume.join("file")).expect("symlink");
        symlink("../../../../..", volume.join("up")).expect("symlink");
        symlink(secret.join("made"), volume.join("dangling")).expect("symlink");
        symlink("loop", volume.join("loop")).expect("symlink");
        symlink("/proc/self/root", volume.join("magic")).expect("symlink");
        symlink("/proc/self/cwd", volume.join("cwd")).expect("symlink");
        fs::write(volume.join("plain"), "").expect("write");
        let (create, prepare) = ("failed to create subPath directory for", "failed to prepare subPath for");
        for (path, shown) in [
            ("root", prepare),
            ("root/etc", prepare),
            ("root/no-such-directory", create),
            ("out", prepare),
            ("out/made", create),
            ("out/key", prepare),
            ("file", prepare),
            ("up", prepare),
            ("up/made", create),
            ("dangling", create),
            ("dangling/deep", create),
            ("loop", prepare),
            ("magic", prepare),
            ("magic/etc", prepare),
            ("cwd", prepare),
            ("..", prepare),
            ("../v/..", prepare),
            ("../made", create),
            ("x/../../made", create),
            ("/", prepare),
            ("/etc", prepare),
            ("/proc/self/root", prepare),
            ("plain/below", prepare),
            (&"d/".repeat(3000), prepare),
            (&"n".repeat(300), prepare),
            ("nul\0byte", prepare),
        ] {
            let error = node.mount("v", path).expect_err(path);
            let [text, cause] = texts(error);
            assert_eq!(text, format!("{shown} volumeMount \"v\" of container \"c\""), "{path}: {cause}");
            assert_eq!(node.mounts(), 0, "{path}");
        }
        assert_eq!(fs::read_dir(&secret).expect("list").count(), 1, "nothing was made outside");
        assert!(!node.dir.path().join("kubelet/pods/uid-1/volumes/kubernetes.io~empty-dir/made").exists());
    });
}

#[test]
fn what_is_swapped_while_it_runs_is_not_kept() {
    own_mounts(|| {
        let node = Node::make();
        let dir = node.volume().join("d");
        let target = node.mount("v", "d").expect("mount");
        // The container that runs is left with what it was given; the next one must not be led astray.
        fs::remove_dir(&dir).expect("rmdir");
        symlink(node.dir.path().join("secret"), &dir).expect("symlink");
        node.mount("v", "d").expect_err("a link to the outside");
        assert!(!target.join("key").exists());
        fs::remove_file(&dir).expect("unlink");
        fs::create_dir(&dir).expect("mkdir");
        fs::write(dir.join("new"), "").expect("write");
        assert!(node.mount("v", "d").expect("mount").join("new").exists());
        assert_eq!(node.mounts(), 1);
    });
}

#[test]
fn a_race_is_never_won() {
    own_mounts(|| {
        let node = Node::make();
        let volume = node.volume();
        fs::create_dir(volume.join("d")).expect("mkdir");
        symlink(node.dir.path().join("secret"), volume.join("evil")).expect("symlink");
        let stop = Arc::new(AtomicBool::new(false));
        let tenant = {
            let (stop, volume) = (stop.clone(), volume.clone());
            std::thread::spawn(move || {
                let (d, evil) = (volume.join("d"), volume.join("evil"));
                while !stop.load(Ordering::Relaxed) {
                    // The directory and the link change places in one step.
                    rustix::fs::renameat_with(CWD, &d, CWD, &evil, RenameFlags::EXCHANGE).expect("exchange");
                }
            })
        };
        let (mut mounted, mut refused) = (0, 0);
        while mounted < 50 || refused < 50 {
            match node.mount("v", "d") {
                Ok(target) => {
                    assert!(!target.join("key").exists(), "led out of the volume after {mounted} mounts");
                    mounted += 1;
                    rustix::mount::unmount(&target, UnmountFlags::empty()).expect("unmount");
                }
                Err(_) => refused += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
        tenant.join().expect("tenant");
    });
}

#[test]
fn a_volume_that_is_not_there() {
    own_mounts(|| {
        let node = Node::make();
        fs::remove_dir(node.dir.path().join("host")).expect("rmdir");
        let [text, cause] = texts(node.mount("h", "a").expect_err("no host path"));
        assert_eq!(text, "failed to prepare subPath for volumeMount \"h\" of container \"c\"");
        assert!(cause.ends_with("No such file or directory (os error 2)"), "{cause}");
        let [_, cause] = texts(node.mount("none", "a").expect_err("no volume"));
        assert_eq!(cause, "the pod has no such volume");
    });
}
