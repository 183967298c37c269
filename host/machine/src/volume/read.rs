//! Reading a file that a container has left in an emptyDir.

use std::fs::{self, File};
use std::io::{self, Read};

use polylet_core::paths::Paths;
use polylet_core::pod::Pod;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

/// Largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// A file in an emptyDir, of at most 1 MiB. Links count as in a container that has the volume as its root: none leads out of it. Whatever a
/// tenant puts there, this returns at once.
///
/// # Errors
/// Of the kernel; or it is too big, or no plain file.
pub fn read_in_empty_dir(paths: &Paths, pod: &Pod, volume: &str, path: &str) -> io::Result<Vec<u8>> {
    let base = fs::canonicalize(paths.empty_dir(pod.uid.as_str(), volume))?;
    let base = rustix::fs::openat(CWD, &base, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = File::from(rustix::fs::openat2(&base, path, flags, Mode::empty(), inside)?);
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("not a plain file"));
    }
    let mut bytes = Vec::new();
    // It may grow while it is read.
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::FileType;

    use super::*;
    use crate::testing::pod;

    #[test]
    fn only_plain_files_of_the_volume() {
        let dir = tempfile::tempdir().expect("make a directory");
        let at = |name: &str| dir.path().join(name);
        let paths = Paths { root: at("kubelet"), pod_logs: at("pods"), container_logs: at("containers") };
        let pod = pod(r#"{"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","emptyDir":{}}]}"#);
        let read = |path: &str| read_in_empty_dir(&paths, &pod, "v", path).map_err(|error| error.to_string());
        assert_eq!(read("a"), Err("No such file or directory (os error 2)".to_owned()), "not made yet");
        let volume = paths.empty_dir("uid-1", "v");
        fs::create_dir_all(volume.join("d")).expect("mkdir");
        fs::write(dir.path().join("secret"), "outside").expect("write");
        fs::write(volume.join("secret"), "inside").expect("write");
        symlink("/secret", volume.join("d/absolute")).expect("symlink");
        symlink("../../../../../../../../secret", volume.join("d/up")).expect("symlink");
        symlink("../secret", volume.join("d/relative")).expect("symlink");
        symlink("/proc/self/environ", volume.join("environ")).expect("symlink");
        symlink("loop", volume.join("loop")).expect("symlink");
        for path in ["secret", "d/absolute", "d/up", "d/relative", "../secret", "/secret"] {
            assert_eq!(read(path), Ok(b"inside".to_vec()), "{path}");
        }
        rustix::fs::mknodat(CWD, volume.join("fifo"), FileType::Fifo, Mode::RWXU, 0).expect("mkfifo");
        for (path, error) in [
            ("d", "not a plain file"),
            ("fifo", "not a plain file"),
            ("environ", "No such file or directory (os error 2)"),
            ("loop", "Too many levels of symbolic links (os error 40)"),
            ("secret/x", "Not a directory (os error 20)"),
        ] {
            assert_eq!(read(path), Err(error.to_owned()), "{path}");
        }
        fs::write(volume.join("big"), vec![b'a'; (MAX_BYTES + 1) as usize]).expect("write");
        assert_eq!(read("big"), Err("larger than 1 MiB".to_owned()));
        fs::write(volume.join("big"), vec![b'a'; MAX_BYTES as usize]).expect("write");
        assert_eq!(read("big").map(|bytes| bytes.len() as u64), Ok(MAX_BYTES));
    }
}
