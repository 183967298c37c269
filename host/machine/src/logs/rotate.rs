//! Rotation of one container's log, as the kubelet's: `0.log` is written to, `0.log.20260102-030405` was set aside last,
//! `0.log.20260102-030305.gz` and so on are older.
//!
//! A pod that mounts the node's logs may put links and other things beside them. So every file is reached by its name from its open
//! directory, no link is followed, and only regular files count.
//!
//! **Invariant:** no line is lost but with the oldest file: nothing is ever renamed over another file, and a file goes only once its
//! compressed copy has its name.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::SignedDuration;
use jiff::civil::DateTime;
use polylet_core::paths::Paths;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::{LogError, failed};

/// At the end of a compressed file's name.
const COMPRESSED: &str = ".gz";
/// At the end of the name of a file that is still being written.
const UNFINISHED: &str = ".tmp";
/// Seconds that a name may be ahead of the time, where names are taken: a clock that was set back.
const AHEAD: i64 = 3600;

/// The log of one attempt of a container, with all that was rotated out of it.
#[derive(Debug)]
pub struct ContainerLog {
    dir: OwnedFd,
    /// Where it lies, for messages.
    path: PathBuf,
    /// Of the file that is written to: `<attempt>.log`.
    name: String,
}

impl ContainerLog {
    /// The log of a container by whose it is. None where its directory is not there, or where a name is none of a directory's.
    ///
    /// # Errors
    /// The directory cannot be opened; a link in its place is such an error.
    pub fn open(
        paths: &Paths,
        [namespace, pod, uid]: [&str; 3],
        container: &str,
        attempt: u32,
    ) -> Result<Option<Self>, LogError> {
        const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
        let of_pod = paths.logs_of_pod(namespace, pod, uid);
        let below = Paths::log_name(container, attempt);
        let path = of_pod.join(&below);
        let (Some(pod_dir), Some(name)) = (of_pod.file_name(), below.file_name().and_then(OsStr::to_str)) else {
            return Ok(None);
        };
        // What stands in labels is a name, and leads nowhere else.
        let plain = |name: &OsStr| {
            let mut parts = Path::new(name).components();
            parts.next() == Some(Component::Normal(name)) && parts.next().is_none()
        };
        if of_pod.parent() != Some(paths.pod_logs.as_path()) || !plain(pod_dir) || !plain(OsStr::new(container)) {
            return Ok(None);
        }
        let open = || {
            let all = rustix::fs::openat(CWD, &paths.pod_logs, OPEN, Mode::empty())?;
            let of_pod = rustix::fs::openat(all, pod_dir, OPEN | OFlags::NOFOLLOW, Mode::empty())?;
            rustix::fs::openat(of_pod, container, OPEN | OFlags::NOFOLLOW, Mode::empty())
        };
        match open() {
            Ok(dir) => Ok(Some(Self { dir, path, name: name.to_owned() })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(failed("open the directory of", &path)(error.into())),
        }
    }

    /// Where the log lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file that is written to; None where there is no such file.
    ///
    /// # Errors
    /// It cannot be looked at, or is no regular file.
    pub fn size(&self) -> Result<Option<u64>, LogError> {
        match rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
                Err(self.failed("rotate", &self.name)(io::Error::other("not a regular file")))
            }
            Ok(stat) => Ok(Some(u64::try_from(stat.st_size).unwrap_or(0))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.failed("look at", &self.name)(error.into())),
        }
    }

    /// Makes room for one more rotated file, so that with it and the one that is written to there are at most `max_files`: removes
    /// what is left of earlier rotations and the oldest, and compresses the others. A file that cannot be compressed stays as it
    /// is, and goes in its turn.
    ///
    /// # Errors
    /// The first thing that failed; all the rest was done.
    pub fn make_room(&self, max_files: usize) -> Result<(), LogError> {
        let all = self.rotated()?;
        let mut result = Ok(());
        let mut first = |done: Result<(), LogError>| {
            if result.is_ok() {
                result = done;
            }
        };
        let stale = |name: &String| {
            let copied = || all.binary_search(&format!("{name}{COMPRESSED}")).is_ok();
            name.ends_with(UNFINISHED) || !name.ends_with(COMPRESSED) && copied()
        };
        let (stale, mut kept): (Vec<String>, Vec<String>) = all.iter().cloned().partition(stale);
        let excess = kept.len().saturating_sub(max_files.saturating_sub(2));
        let oldest = kept.drain(..excess);
        for name in stale.into_iter().chain(oldest) {
            first(self.remove(&name));
        }
        for name in kept.iter().filter(|name| !name.ends_with(COMPRESSED)) {
            first(self.compress(name));
        }
        result
    }

    /// Gives the file that is written to the name of a rotated one. The runtime goes on writing to it until it is told to open its log
    /// anew. `now` is the time of day here.
    ///
    /// # Errors
    /// It cannot be renamed, or every name for an hour to come is taken.
    pub fn set_aside(&self, now: DateTime) -> Result<String, LogError> {
        let taken = self.rotated()?;
        for second in 0..AHEAD {
            let Ok(at) = now.checked_add(SignedDuration::from_secs(second)) else { break };
            let name = format!("{}.{}", self.name, at.strftime("%Y%m%d-%H%M%S"));
            // A file with a compressed one of its name would count as left over.
            if taken.binary_search(&format!("{name}{COMPRESSED}")).is_ok() {
                continue;
            }
            match self.rename(&self.name, &name) {
                Ok(()) => return Ok(name),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(self.failed("rotate", &self.name)(error.into())),
            }
        }
        Err(self.failed("rotate", &self.name)(io::ErrorKind::AlreadyExists.into()))
    }

    /// Takes [`set_aside`](Self::set_aside) back. Where the runtime has opened its log anew after all, both files stay.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn put_back(&self, rotated: &str) -> Result<(), LogError> {
        match self.rename(rotated, &self.name) {
            // Gone, with its container.
            Ok(()) | Err(Errno::EXIST | Errno::NOENT) => Ok(()),
            Err(error) => Err(self.failed("name back", rotated)(error.into())),
        }
    }

    /// Names of the rotated files, in order.
    fn rotated(&self) -> Result<Vec<String>, LogError> {
        let list = || {
            let mut names = Vec::new();
            for entry in Dir::read_from(&self.dir)? {
                let entry = entry?;
                // Ours are text.
                let Ok(name) = entry.file_name().to_str() else { continue };
                if !name.strip_prefix(&self.name).is_some_and(|rest| rest.starts_with('.')) {
                    continue;
                }
                // Not every file system tells the type here.
                match rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => names.push(name.to_owned()),
                    Ok(_) | Err(Errno::NOENT) => {}
                    Err(error) => return Err(error),
                }
            }
            names.sort();
            Ok(names)
        };
        list().map_err(|error: Errno| self.failed("list what was rotated out of", &self.name)(error.into()))
    }

    /// Into a file of another name, with the same mode; only when that is whole does it get its name, and the old one goes.
    fn compress(&self, name: &str) -> Result<(), LogError> {
        let unfinished = format!("{name}{UNFINISHED}");
        let done = self.write_compressed(name, &unfinished).and_then(|()| {
            self.rename(&unfinished, &format!("{name}{COMPRESSED}"))?;
            Ok(())
        });
        if let Err(cause) = done {
            // What it took is needed elsewhere: the disk may be full. If it cannot be removed now, the next rotation does.
            let _ = rustix::fs::unlinkat(&self.dir, &unfinished, AtFlags::empty());
            return Err(self.failed("compress", name)(cause));
        }
        self.remove(name)
    }

    fn write_compressed(&self, from: &str, to: &str) -> io::Result<()> {
        // Without blocking, so that a pipe that was put there meanwhile holds nobody up.
        const READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
        const WRITE: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::CLOEXEC);
        let source = rustix::fs::openat(&self.dir, from, READ, Mode::empty())?;
        let stat = rustix::fs::fstat(&source)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("not a regular file"));
        }
        let target = rustix::fs::openat(&self.dir, to, WRITE, Mode::RUSR | Mode::WUSR)?;
        let mut encoder = GzEncoder::new(BufWriter::new(File::from(target)), Compression::default());
        io::copy(&mut BufReader::new(File::from(source)), &mut encoder)?;
        let target = encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        rustix::fs::fchmod(&target, Mode::from_raw_mode(stat.st_mode))?;
        Ok(())
    }

    /// Never over another file.
    fn rename(&self, from: &str, to: &str) -> rustix::io::Result<()> {
        match rustix::fs::renameat_with(&self.dir, from, &self.dir, to, RenameFlags::NOREPLACE) {
            // Not every file system can tell: there, a look must do.
            Err(Errno::INVAL | Errno::NOSYS) => match rustix::fs::statat(&self.dir, to, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => rustix::fs::renameat(&self.dir, from, &self.dir, to),
                Ok(_) => Err(Errno::EXIST),
                Err(error) => Err(error),
            },
            other => other,
        }
    }

    fn remove(&self, name: &str) -> Result<(), LogError> {
        match rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.failed("remove", name)(error.into())),
        }
    }

    fn failed(&self, operation: &'static str, name: &str) -> impl FnOnce(io::Error) -> LogError {
        failed(operation, &self.path.with_file_name(name))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use flate2::read::GzDecoder;
    use jiff::civil::date;

    use super::*;

    struct World {
        dir: tempfile::TempDir,
        paths: Paths,
    }

    impl World {
        /// One container's directory, with these files.
        fn new(files: &[&str]) -> Self {
            let dir = tempfile::tempdir().expect("make a directory");
            let at = |name: &str| dir.path().join(name);
            let paths = Paths { root: at("kubelet"), pod_logs: at("pods"), container_logs: at("containers") };
            let world = Self { dir, paths };
            fs::create_dir_all(world.at("")).expect("make the container's directory");
            files.iter().for_each(|file| world.write(file, file));
            world
        }

        fn at(&self, file: &str) -> PathBuf {
            self.paths.logs_of_pod("ns", "web", "u").join("main").join(file)
        }

        fn write(&self, file: &str, text: &str) {
            fs::write(self.at(file), text).expect("write");
        }

        fn read(&self, file: &str) -> String {
            let bytes = fs::read(self.at(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            if !file.ends_with(COMPRESSED) {
                return String::from_utf8(bytes).expect("text");
            }
            let mut text = String::new();
            GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("gzip");
            text
        }

        fn log(&self) -> ContainerLog {
            ContainerLog::open(&self.paths, ["ns", "web", "u"], "main", 1).expect("open").expect("it is there")
        }

        fn files(&self) -> Vec<String> {
            let entries = fs::read_dir(self.at("")).expect("list");
            let mut names: Vec<String> =
                entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn room_is_made_for_one_more() {
        let old = ["1.log.20260101-000000.gz", "1.log.20260102-000000.gz", "1.log.20260103-000000", "1.log.20260104-000000"];
        for (max_files, left) in [
            (
                10,
                &["1.log.20260101-000000.gz", "1.log.20260102-000000.gz", "1.log.20260103-000000.gz", "1.log.20260104-000000.gz"]
                    [..],
            ),
            (5, &["1.log.20260102-000000.gz", "1.log.20260103-000000.gz", "1.log.20260104-000000.gz"][..]),
            (3, &["1.log.20260104-000000.gz"][..]),
            (2, &[][..]),
        ] {
            let world = World::new(&old);
            world.write("1.log", "live");
            world.log().make_room(max_files).expect("make_room");
            assert_eq!(world.files(), [&["1.log"][..], left].concat(), "{max_files}");
            assert_eq!(world.read("1.log"), "live");
            let was = "1.log.20260104-000000";
            if max_files > 2 {
                assert_eq!(world.read(&format!("{was}.gz")), was);
            }
        }
    }

    #[test]
    fn what_is_left_of_earlier_rotations_goes_and_others_files_stay() {
        let others = ["0.log", "0.log.20260101-000000", "10.log", "10.log.20260101-000000", "1.logs", "1.log"];
        let world = World::new(&others);
        for file in ["1.log.20260101-000000.tmp", "1.log.20260102-000000.gz", "1.log.20260102-000000", "1.log.20260103-000000"] {
            world.write(file, file);
        }
        fs::set_permissions(world.at("1.log.20260103-000000"), fs::Permissions::from_mode(0o640)).expect("chmod");
        world.log().make_room(5).expect("make_room");
        let mut expected = [&others[..], &["1.log.20260102-000000.gz", "1.log.20260103-000000.gz"]].concat();
        expected.sort_unstable();
        assert_eq!(world.files(), expected);
        let mode = fs::metadata(world.at("1.log.20260103-000000.gz")).expect("stat").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn a_log_is_set_aside_and_put_back_over_nothing() {
        let world = World::new(&["1.log"]);
        let log = world.log();
        let now = date(2026, 1, 2).at(3, 4, 5, 0);
        assert_eq!(log.set_aside(now).expect("set_aside"), "1.log.20260102-030405");
        assert_eq!(log.size().expect("size"), None);
        // Within the same second, and where only a compressed one has the name.
        world.write("1.log", "second");
        assert_eq!(log.set_aside(now).expect("set_aside"), "1.log.20260102-030406");
        world.write("1.log.20260102-030407.gz", "");
        world.write("1.log", "third");
        assert_eq!(log.set_aside(now).expect("set_aside"), "1.log.20260102-030408");
        assert_eq!(world.read("1.log.20260102-030405"), "1.log");

        log.put_back("1.log.20260102-030408").expect("put_back");
        assert_eq!(world.read("1.log"), "third");
        // The runtime has opened it anew in spite of what it said.
        log.put_back("1.log.20260102-030406").expect("put_back");
        assert_eq!((world.read("1.log"), world.read("1.log.20260102-030406")), ("third".into(), "second".into()));
        log.put_back("1.log.20260102-000000").expect("nothing to put back");
        assert_eq!(log.size().expect("size"), Some(5));
    }

    #[test]
    fn no_link_is_followed() {
        let world = World::new(&["1.log"]);
        let outside = world.dir.path().join("outside");
        fs::write(&outside, "outside").expect("write");
        symlink(&outside, world.at("1.log.20260101-000000")).expect("symlink");
        fs::create_dir(world.at("1.log.20260101-000001")).expect("mkdir");
        symlink(&outside, world.at("1.log.20260102-000000.tmp")).expect("symlink");
        world.write("1.log.20260102-000000", "inside");
        let error = world.log().make_room(5).expect_err("a link has the name of the unfinished file");
        assert!(error.to_string().starts_with("compress "), "{error}");
        assert_eq!(fs::read_to_string(&outside).expect("read"), "outside");
        // The link itself is gone with the attempt, so that the next one succeeds.
        world.log().make_room(5).expect("make_room");
        assert_eq!(world.read("1.log.20260102-000000.gz"), "inside");
        assert_eq!(fs::read_to_string(&outside).expect("read"), "outside");

        fs::remove_file(world.at("1.log")).expect("remove");
        symlink(&outside, world.at("1.log")).expect("symlink");
        let error = world.log().size().expect_err("a link is no log");
        assert_eq!(error.cause.to_string(), "not a regular file");

        let elsewhere = world.paths.logs_of_pod("ns", "other", "u");
        symlink(world.at("").parent().expect("the pod's"), &elsewhere).expect("symlink");
        ContainerLog::open(&world.paths, ["ns", "other", "u"], "main", 1).expect_err("a link is no directory of a pod");
        for (pod, container) in [("../pods/ns_web", "main"), ("web", "../main"), ("web", ".."), ("web", "")] {
            let found = ContainerLog::open(&world.paths, ["ns", pod, "u"], container, 1).expect("open");
            assert!(found.is_none(), "{pod} {container}");
        }
        assert!(ContainerLog::open(&world.paths, ["ns", "none", "u"], "main", 1).expect("open").is_none());
    }

    #[test]
    fn a_large_file_is_compressed_as_a_stream() {
        let world = World::new(&["1.log"]);
        let text: String = (0..200_000).map(|n| format!("line {n}\n")).collect();
        world.write("1.log.20260101-000000", &text);
        world.log().make_room(3).expect("make_room");
        assert_eq!(world.files(), ["1.log", "1.log.20260101-000000.gz"]);
        assert_eq!(world.read("1.log.20260101-000000.gz"), text);
        assert!(fs::metadata(world.at("1.log.20260101-000000.gz")).expect("stat").len() < text.len() as u64 / 2);
    }
}
