//! Directories and links of containers' logs, and the files that containers leave their last words in. [`read`] shows what they printed.

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::fs;
use std::hash::BuildHasher;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use polylet_core::paths::Paths;

use crate::walk;

pub mod read;
pub mod rotate;

/// An operation on logs that failed.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {path}")]
pub struct LogError {
    /// What was tried.
    pub operation: &'static str,
    /// On which path.
    pub path: PathBuf,
    /// Why it failed.
    #[source]
    pub cause: io::Error,
}

/// Makes the directory of a pod's logs; the runtime makes those of its containers.
pub fn create_pod_dir(paths: &Paths, namespace: &str, name: &str, uid: &str) -> Result<PathBuf, LogError> {
    let dir = paths.logs_of_pod(namespace, name, uid);
    fs::DirBuilder::new().recursive(true).mode(0o755).create(&dir).map_err(failed("create", &dir))?;
    Ok(dir)
}

/// Makes the directory of one container's logs, within its pod's.
pub fn create_container_dir(pod_dir: &Path, container: &str) -> Result<(), LogError> {
    let dir = pod_dir.join(container);
    fs::DirBuilder::new().recursive(true).mode(0o755).create(&dir).map_err(failed("create", &dir))
}

/// The highest attempt of a container that has left a log: `<attempt>.log`, or a rotated one beside it.
pub fn newest_attempt(pod_dir: &Path, container: &str) -> Result<Option<u32>, LogError> {
    let attempt = |entry: fs::DirEntry| entry.file_name().to_str()?.split_once(".log")?.0.parse().ok();
    Ok(entries(&pod_dir.join(container))?.into_iter().filter_map(attempt).max())
}

/// Removes a pod's logs and the links to them. Idempotent.
pub fn remove_pod_logs(paths: &Paths, namespace: &str, name: &str, uid: &str) -> Result<(), LogError> {
    let dir = paths.logs_of_pod(namespace, name, uid);
    match walk::remove(&dir) {
        // What no file can be called was never made.
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => {}
        other => other.map_err(failed("remove", &dir))?,
    }
    remove_links(paths, |target| target.starts_with(&dir))
}

/// Namespace, name and UID of every pod that has a directory of logs.
pub fn list_pods(paths: &Paths) -> Result<Vec<[String; 3]>, LogError> {
    let pod = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let mut parts = name.splitn(3, '_').filter(|part| !part.is_empty());
        Some([parts.next()?.to_owned(), parts.next()?.to_owned(), parts.next()?.to_owned()])
    };
    Ok(entries(&paths.pod_logs)?.into_iter().filter_map(pod).collect())
}

/// Removes a container's logs of one attempt (`1.log`, and `1.log.…` which was rotated out of it), and its link. Idempotent.
pub fn remove_container_log(paths: &Paths, log: &Path, link_name: &str) -> Result<(), LogError> {
    let (Some(dir), Some(name)) = (log.parent(), log.file_name().and_then(|name| name.to_str())) else { return Ok(()) };
    let rest = |found: &str| found.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    for entry in entries(dir)? {
        let directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !directory && entry.file_name().to_str().is_some_and(rest) {
            gone(fs::remove_file(entry.path())).map_err(failed("remove", &entry.path()))?;
        }
    }
    let link = paths.container_logs.join(link_name);
    gone(fs::remove_file(&link)).map_err(failed("remove", &link))
}

/// Removes links whose log is no longer there, and will not be again.
pub fn remove_dangling_links(paths: &Paths) -> Result<(), LogError> {
    let missing = |target: &Path| fs::symlink_metadata(target).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    remove_links(paths, |target| missing(target) && !comes_back(target))
}

/// The log of the newest attempt is opened anew where it has just been rotated, or somebody has removed it, as long as it has a directory.
fn comes_back(log: &Path) -> bool {
    let attempt = |name: &OsStr| name.to_str()?.strip_suffix(".log")?.parse::<u32>().ok();
    let (Some(dir), Some(attempt)) = (log.parent(), log.file_name().and_then(attempt)) else { return false };
    let (Some(pod), Some(container)) = (dir.parent(), dir.file_name().and_then(OsStr::to_str)) else { return false };
    dir.is_dir() && newest_attempt(pod, container).is_ok_and(|newest| newest.is_none_or(|newest| newest <= attempt))
}

/// Name of the link to a container's log, for collectors of logs: cut to what a file name may be, suffix included.
pub fn link_name(namespace: &str, pod: &str, container: &str, container_id: &str) -> String {
    const SUFFIX: &str = ".log";
    let mut name = format!("{pod}_{namespace}_{container}-{container_id}");
    let mut end = name.len().min(255 - SUFFIX.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    name + SUFFIX
}

/// Links to a container's log, if the log is there; an older link of this name is replaced.
pub fn link_log(paths: &Paths, link_name: &str, log: &Path) -> Result<(), LogError> {
    if !log.exists() {
        return Ok(());
    }
    let dir = &paths.container_logs;
    fs::DirBuilder::new().recursive(true).mode(0o755).create(dir).map_err(failed("create", dir))?;
    let link = dir.join(link_name);
    match symlink(log, &link) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&link).and_then(|()| symlink(log, &link)).map_err(failed("replace", &link))
        }
        other => other.map_err(failed("create", &link)),
    }
}

/// Makes the file that a container leaves its termination message in, writable by whichever user it runs as. Each attempt has
/// one of its own, under a random name.
pub fn termination_log(paths: &Paths, uid: &str, container: &str) -> Result<PathBuf, LogError> {
    let dir = paths.container(uid, container);
    fs::DirBuilder::new().recursive(true).mode(0o750).create(&dir).map_err(failed("create", &dir))?;
    loop {
        // Std's hasher is seeded at random; the name only has to be new.
        let path = dir.join(format!("{:08x}", RandomState::new().hash_one(&dir) as u32));
        match fs::OpenOptions::new().write(true).create_new(true).mode(0o666).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => {
                let file = other.map_err(failed("create", &path))?;
                file.set_permissions(fs::Permissions::from_mode(0o666)).map_err(failed("change the mode of", &path))?;
                return Ok(path);
            }
        }
    }
}

fn remove_links(paths: &Paths, which: impl Fn(&Path) -> bool) -> Result<(), LogError> {
    for entry in entries(&paths.container_logs)? {
        let link = entry.path();
        if fs::read_link(&link).is_ok_and(|target| which(&target)) {
            gone(fs::remove_file(&link)).map_err(failed("remove", &link))?;
        }
    }
    Ok(())
}

/// None where the directory is not there.
fn entries(dir: &Path) -> Result<Vec<fs::DirEntry>, LogError> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.and_then(Iterator::collect).map_err(failed("list", dir)),
    }
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError + use<> {
    let path = path.to_owned();
    move |cause| LogError { operation, path, cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> (tempfile::TempDir, Paths) {
        let dir = tempfile::tempdir().expect("make a directory");
        let at = |name: &str| dir.path().join(name);
        let paths = Paths { root: at("kubelet"), pod_logs: at("pods"), container_logs: at("containers") };
        (dir, paths)
    }

    #[test]
    fn links_come_and_go_with_their_logs() {
        let (_dir, paths) = node();
        let pods = ["a", "b"].map(|name| create_pod_dir(&paths, "ns", name, "u").expect("create_pod_dir"));
        fs::write(paths.pod_logs.join("not-a-pod"), "").expect("write");
        let mut listed = list_pods(&paths).expect("list_pods");
        listed.sort();
        assert_eq!(listed, [["ns", "a", "u"], ["ns", "b", "u"]].map(|pod| pod.map(str::to_owned)));
        for (pod, name) in pods.iter().zip(["a", "b"]) {
            create_container_dir(pod, "c").expect("create_container_dir");
            let log = pod.join("c/0.log");
            let link = link_name("ns", name, "c", "id");
            link_log(&paths, &link, &log).expect("no log yet");
            assert!(!paths.container_logs.join(&link).is_symlink());
            for file in
                ["0.log", "0.log.20261129-190000", "0.log.20261129-180000.gz", "0.logs", "10.log", "1.log.20261129-190000.gz"]
            {
                fs::write(pod.join("c").join(file), "").expect("write");
            }
            assert_eq!(newest_attempt(pod, "c").expect("newest_attempt"), Some(10));
            fs::remove_file(pod.join("c/10.log")).expect("remove");
            assert_eq!(newest_attempt(pod, "c").expect("newest_attempt"), Some(1), "only what was rotated out of it is left");
            fs::write(pod.join("c/1.log"), "").expect("write");
            fs::write(pod.join("c/10.log"), "").expect("write");
            assert_eq!(newest_attempt(pod, "other").expect("newest_attempt"), None);
            link_log(&paths, &link, &log).expect("link_log");
            link_log(&paths, &link, &log).expect("again");
        }
        remove_container_log(&paths, &pods[0].join("c/0.log"), "a_ns_c-id.log").expect("remove_container_log");
        let left = || {
            let mut left: Vec<_> = entries(&pods[0].join("c")).expect("list").iter().map(fs::DirEntry::file_name).collect();
            left.sort();
            left
        };
        assert_eq!(left(), ["0.logs", "1.log", "1.log.20261129-190000.gz", "10.log"]);
        // Neither the tenth nor what only begins alike is the first's.
        remove_container_log(&paths, &pods[0].join("c/1.log"), "a_ns_c-other.log").expect("remove_container_log");
        assert_eq!(left(), ["0.logs", "10.log"]);
        fs::write(pods[0].join("c/1.log"), "").expect("write");
        remove_pod_logs(&paths, "ns", "b", "u").expect("remove_pod_logs");
        remove_pod_logs(&paths, "ns", "b", "u").expect("twice");
        assert!(entries(&paths.container_logs).expect("list").is_empty());

        assert_eq!(left(), ["0.logs", "1.log", "10.log"]);
        for (link, target) in [
            ("elsewhere", PathBuf::from("/no/such/log")),
            ("there", pods[0].join("c/1.log")),
            ("dead", pods[0].join("c/9.log")),
            ("rotated", pods[0].join("c/11.log")),
            ("no-directory", pods[0].join("gone/0.log")),
        ] {
            symlink(target, paths.container_logs.join(link)).expect("symlink");
        }
        fs::write(pods[0].join("c/11.log.20261129-190000"), "").expect("write");
        remove_dangling_links(&paths).expect("remove_dangling_links");
        let mut left: Vec<_> = entries(&paths.container_logs).expect("list").iter().map(fs::DirEntry::file_name).collect();
        left.sort();
        assert_eq!(left, ["rotated", "there"]);
    }

    #[test]
    fn long_link_names_are_cut() {
        assert_eq!(link_name("ns", "web", "app", "0123"), "web_ns_app-0123.log");
        let long = link_name("ns", &"p".repeat(250), "c", "id");
        assert_eq!(long.len(), 255);
        assert!(long.ends_with("_.log") || long.ends_with("p_.log"), "{long}");
    }

    #[test]
    fn termination_logs_are_writable_by_all_and_never_shared() {
        let (_dir, paths) = node();
        let [first, second] = [0, 1].map(|_| termination_log(&paths, "u", "c").expect("termination_log"));
        assert_ne!(first, second);
        assert_eq!(fs::metadata(&first).expect("stat").permissions().mode() & 0o777, 0o666);
        let name = first.file_name().and_then(|name| name.to_str()).expect("name");
        assert!(name.len() == 8 && name.bytes().all(|b| b.is_ascii_hexdigit()), "{name}");
        assert_eq!(fs::metadata(paths.container("u", "c")).expect("stat").permissions().mode() & 0o777, 0o750);
    }
}
