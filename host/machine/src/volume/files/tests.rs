//! The writer in a plain directory; whole volumes where mounting is allowed.

use std::os::unix::fs::MetadataExt;

use super::*;
use crate::mountinfo;
use crate::testing::{mode, own_mounts, pod};
use crate::volume::{prepare, tear_down, volume_path};

fn file(path: &str, text: &str, mode: u32) -> VolumeFile {
    VolumeFile { path: path.to_owned(), bytes: text.as_bytes().to_vec(), mode, owner: None }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("list").map(|entry| entry.expect("entry").file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().expect("text")).collect();
    names.sort();
    names
}

fn data(dir: &Path) -> PathBuf {
    fs::read_link(dir.join("..data")).expect("a link to the files")
}

#[test]
fn readers_see_links_to_links() {
    let dir = tempfile::tempdir().expect("make a directory");
    let dir = dir.path();
    write(dir, &[file("a", "1", 0o640), file("d/./x/b", "2", 0o400), file("a", "one", 0o600)], None).expect("write");
    let stamp = data(dir).display().to_string();
    // ..2026_01_31_10_00_00.123
    let (time, tie) = stamp.split_once('.').and_then(|_| stamp[2..].split_once('.')).expect("a time and a number");
    let parts: Vec<usize> = time.split('_').map(str::len).collect();
    assert_eq!((stamp.starts_with(".."), parts.as_slice(), tie.parse::<u32>().is_ok()), (true, &[4, 2, 2, 2, 2, 2][..], true));
    assert_eq!(names(dir), [stamp.as_str(), "..data", "a", "d"]);
    assert_eq!(fs::read_link(dir.join("a")).expect("link"), Path::new("..data/a"));
    assert_eq!(fs::read_link(dir.join("d")).expect("link"), Path::new("..data/d"));
    assert_eq!(fs::read_to_string(dir.join("a")).expect("read"), "one");
    assert_eq!(fs::read_to_string(dir.join("d/x/b")).expect("read"), "2");
    assert_eq!([mode(&dir.join("a")), mode(&dir.join("d/x/b"))], [0o600, 0o400]);
    assert_eq!([mode(&dir.join(&stamp)), mode(&dir.join("d")), mode(&dir.join("d/x"))], [0o755; 3]);
}

#[test]
fn only_a_change_is_written() {
    let dir = tempfile::tempdir().expect("make a directory");
    let dir = dir.path();
    let before = [file("a", "1", 0o644), file("d/b", "2", 0o644), file("gone/c", "3", 0o644)];
    write(dir, &before, None).expect("write");
    let first = data(dir);
    write(dir, &before, None).expect("again");
    assert_eq!(data(dir), first, "nothing changed, nothing is written");

    // What a crash may leave: the next link, half a directory, no link to a file yet.
    fs::create_dir(dir.join("..2020_01_01_00_00_00.1")).expect("mkdir");
    symlink("..2020_01_01_00_00_00.1", dir.join("..data_tmp")).expect("symlink");
    fs::remove_file(dir.join("a")).expect("unlink");
    write(dir, &before, None).expect("mend");
    assert_eq!(names(dir), [first.display().to_string().as_str(), "..data", "a", "d", "gone"]);
    assert_eq!(data(dir), first);

    symlink("..2020_01_01_00_00_00.1", dir.join("..data_tmp")).expect("symlink");
    let open = fs::File::open(dir.join("d/b")).expect("a reader");
    write(dir, &[file("a", "1", 0o644), file("d/b", "two", 0o644), file("new", "", 0o644)], None).expect("change");
    assert_ne!(data(dir), first);
    assert_eq!(names(dir), [data(dir).display().to_string().as_str(), "..data", "a", "d", "new"]);
    assert_eq!(fs::read_to_string(dir.join("d/b")).expect("read"), "two");
    assert_eq!(io::read_to_string(open).expect("read"), "2", "who had it open reads the old one to its end");

    // One file fewer is a change too, and so is none.
    let second = data(dir);
    write(dir, &[file("a", "1", 0o644)], None).expect("fewer");
    assert_ne!(data(dir), second);
    write(dir, &[], None).expect("none");
    assert_eq!(names(dir), [data(dir).display().to_string().as_str(), "..data"]);
}

#[test]
fn a_reader_never_sees_half_a_change() {
    let dir = tempfile::tempdir().expect("make a directory");
    let dir = dir.path();
    let both = |text: &str| [file("a", text, 0o644), file("b", text, 0o644)];
    write(dir, &both("0"), None).expect("write");
    let reader = {
        let dir = dir.to_owned();
        std::thread::spawn(move || {
            let mut seen = 0u32;
            loop {
                fs::read_link(dir.join("..data")).expect("there is no moment without files");
                // Through one and the same directory: what a program gets that reads the link once.
                let Ok(at) = fs::canonicalize(dir.join("..data")) else { continue };
                let read = |name: &str| fs::read_to_string(at.join(name)).ok();
                let (a, b) = (read("a"), read("b"));
                // None: the directory went between the two reads, as after any change.
                if let (Some(a), Some(b)) = (a, b) {
                    assert_eq!(a, b);
                    seen += 1;
                    if a == "end" {
                        return seen;
                    }
                }
            }
        })
    };
    for round in 0..200 {
        write(dir, &both(&round.to_string()), None).expect("change");
    }
    write(dir, &both("end"), None).expect("change");
    assert!(reader.join().expect("reader") > 0);
}

#[test]
fn paths_that_no_file_may_have() {
    let dir = tempfile::tempdir().expect("make a directory");
    for (path, why) in [
        ("", "must be relative"),
        ("/etc/passwd", "must be relative"),
        ("..", "must not contain '..', and not start with it"),
        ("../x", "must not contain '..', and not start with it"),
        ("..x", "must not contain '..', and not start with it"),
        ("./..x", "must not contain '..', and not start with it"),
        ("a/../../x", "must not contain '..', and not start with it"),
        ("./.", "must name a file"),
        ("a\0b", "every part must be no more than 255 bytes, none of them zero"),
        (&"n".repeat(256), "every part must be no more than 255 bytes, none of them zero"),
        (&"d/".repeat(2049), "must be no more than 4096 bytes"),
    ] {
        let error = write(dir.path(), &[file("good", "", 0o644), file(path, "", 0o644)], None).expect_err(path);
        assert_eq!(error.to_string(), format!("invalid path {path:?}: {why}"));
        assert!(names(dir.path()).is_empty(), "{path}");
    }
    // One file where another one needs a directory.
    let error = write(dir.path(), &[file("a", "", 0o644), file("a/b", "", 0o644)], None).expect_err("a file in the way");
    assert!(error.to_string().starts_with("mkdir "), "{error}");
    assert!(names(dir.path()).is_empty(), "nothing is left of what cannot be written: {:?}", names(dir.path()));
    write(dir.path(), &[file("a..", "1", 0o644), file("b/..c", "2", 0o644)], None).expect("dots elsewhere");
    assert_eq!(fs::read_to_string(dir.path().join("b/..c")).expect("read"), "2");
}

#[test]
fn what_cannot_be_written_leaves_what_was_there() {
    let dir = tempfile::tempdir().expect("make a directory");
    let dir = dir.path();
    write(dir, &[file("a", "1", 0o644)], None).expect("write");
    let before = names(dir);
    for _ in 0..3 {
        write(dir, &[file("a", "2", 0o644), file("a/b", "", 0o644)], None).expect_err("a file in the way");
        assert_eq!(names(dir), before);
    }
    assert_eq!(fs::read_to_string(dir.join("a")).expect("read"), "1");
}

#[test]
fn files_have_the_owner_that_is_asked_for() {
    // Only root may give files away.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("make a directory");
    let dir = dir.path();
    let owned = VolumeFile { owner: Some(4321), ..file("d/own", "1", 0o400) };
    for (group, gid, expected) in [(None, 0u32, 0o400), (Some(Gid::from_raw(1234)), 1234, 0o440)] {
        // Another content: else nothing would be written.
        let other = file("d/other", &gid.to_string(), 0o400);
        write(dir, &[owned.clone(), other], group).expect("write");
        let ids = |path: &str| {
            let found = fs::metadata(dir.join(path)).expect("stat");
            (found.uid(), found.gid())
        };
        assert_eq!([ids("d/own"), ids("d/other"), ids("d")], [(4321, gid), (0, gid), (0, gid)]);
        assert_eq!([mode(&dir.join("d/own")), mode(&dir.join("d/other"))], [expected; 2]);
    }
}

#[test]
fn a_whole_volume() {
    own_mounts(whole_volume);
}

fn whole_volume() {
    let dir = tempfile::tempdir().expect("make a directory");
    let at = |name: &str| dir.path().join(name);
    let paths = Paths { root: at("kubelet"), pod_logs: at("pods"), container_logs: at("containers") };
    let pod = pod(r#"{"securityContext":{"fsGroup":1234},
            "containers":[{"name":"c","image":"i","volumeMounts":[{"name":"d","mountPath":"/etc/info/"},{"name":"p","mountPath":"/p"},
              {"name":"e","mountPath":"/etc/info/../info/deep/er"},{"name":"e","mountPath":"/etc/information"}]}],
            "volumes":[{"name":"d","downwardAPI":{}},{"name":"p","projected":{"sources":[]}},{"name":"e","emptyDir":{}}]}"#);
    let files = |text: &str| {
        let of = |text: &str| Ok(vec![file("x/name", text, 0o400)]);
        VolumeFiles::from([("d".to_owned(), of(text)), ("p".to_owned(), of("p"))])
    };
    prepare(&paths, &pod, 64 << 20, &files("1")).expect("prepare");
    prepare(&paths, &pod, 64 << 20, &files("1")).expect("again");
    let d = volume_path(&paths, &pod, "d").expect("a place");
    assert_eq!(d, paths.pod("uid-1").join("volumes/kubernetes.io~downward-api/d"));
    assert!(paths.pod("uid-1").join("plugins/kubernetes.io~empty-dir/wrapped_d/ready").exists());
    let stat = rustix::fs::statvfs(&d).expect("statvfs");
    assert_eq!(stat.f_blocks * stat.f_frsize, 64 << 20);
    assert_eq!(mode(&d), 0o3777);
    for (path, expected) in [("x/name", 0o440), ("x", 0o2755), ("..data", 0o2755), ("deep/er", 0o755)] {
        assert_eq!(mode(&d.join(path)) & !0o2000 | expected & 0o2000, expected, "{path}");
    }
    for path in ["..data", "..data/", "x", "x/", "x/name"] {
        assert_eq!(fs::symlink_metadata(d.join(path)).expect("stat").gid(), 1234, "{path}");
    }
    assert!(!d.join("information").exists());
    assert_eq!(mode(&volume_path(&paths, &pod, "p").expect("a place").join("x/name")), 0o440);

    prepare(&paths, &pod, 64 << 20, &files("2")).expect("change");
    assert_eq!(fs::read_to_string(d.join("x/name")).expect("read"), "2");
    assert!(d.join("deep/er").is_dir());

    let error = prepare(&paths, &pod, 64 << 20, &VolumeFiles::from([("d".to_owned(), Err("no such field".to_owned()))]));
    let text = error.expect_err("no content").to_string();
    assert_eq!(text, "MountVolume.SetUp failed for volume \"d\" : no such field");
    assert_eq!(fs::read_to_string(d.join("x/name")).expect("read"), "2", "what was there stays");

    tear_down(&paths, "uid-1").expect("tear down");
    let root = fs::canonicalize(&paths.root).expect("real path");
    assert!(mountinfo::below(&mountinfo::read().expect("mounts"), &root).is_empty());
}
