//! Measuring and removing directories that tenants have filled.
//!
//! A tenant may nest directories deeper than any path name, stack or table of open files goes, swap directories for links while we
//! walk, and leave mounts inside. So the walk holds one open directory at a time, goes down by name without following links and up
//! by `..`, checks each time that it is where it was, and does not cross into another mount.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// What a directory holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of blocks in use, the directories' own among them.
    pub bytes: u64,
    /// Files and directories.
    pub inodes: u64,
}

impl std::ops::Add for Usage {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), inodes: self.inodes.saturating_add(other.inodes) }
    }
}

/// What a directory and all below it hold, on its own file system, hard links counted once. Nothing where it is not there.
pub(crate) fn usage(dir: &Path) -> io::Result<Usage> {
    let Some(mut walk) = Walk::begin(dir)? else { return Ok(Usage::default()) };
    let mut linked = BTreeSet::new();
    let mut usage = Usage::default();
    let mut count = |stat: &Stat| {
        let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if directory || stat.st_nlink < 2 || linked.insert((stat.st_dev, stat.st_ino)) {
            usage = usage + Usage { bytes: (stat.st_blocks as u64).saturating_mul(512), inodes: 1 };
        }
    };
    count(&rustix::fs::fstat(&walk.at)?);
    loop {
        walk.list(|at, name| {
            let stat = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                return Ok(Entry::Directory);
            }
            count(&stat);
            Ok(Entry::Done)
        })?;
        loop {
            match walk.down()? {
                Step::Down => {
                    count(&rustix::fs::fstat(&walk.at)?);
                    break;
                }
                Step::OtherMount(_) => {}
                Step::Bottom => {
                    if walk.up()?.is_none() {
                        return Ok(usage);
                    }
                }
            }
        }
    }
}

/// What one file holds; a link is not followed.
pub(crate) fn usage_of_file(file: &Path) -> io::Result<Usage> {
    let stat = rustix::fs::lstat(file)?;
    Ok(Usage { bytes: (stat.st_blocks as u64).saturating_mul(512), inodes: 1 })
}

/// Removes a directory with all below it; one that is not there counts as removed.
///
/// **Invariant:** nothing that is mounted inside is touched: it is an error, and what lies beside it may be gone already.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    let Some(mut walk) = Walk::begin(dir)? else { return Ok(()) };
    loop {
        walk.list(|at, name| match rustix::fs::unlinkat(at, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => Ok(Entry::Directory),
            other => other.map(|()| Entry::Done),
        })?;
        loop {
            match walk.down()? {
                Step::Down => break,
                Step::OtherMount(name) => {
                    let text = format!("{} is a mount point", name.to_string_lossy());
                    return Err(io::Error::new(io::ErrorKind::CrossesDevices, text));
                }
                Step::Bottom => match walk.up()? {
                    Some(name) => match rustix::fs::unlinkat(&walk.at, &name, AtFlags::REMOVEDIR) {
                        Ok(()) | Err(Errno::NOENT) => {}
                        Err(error) => return Err(error.into()),
                    },
                    None => return std::fs::remove_dir(dir),
                },
            }
        }
    }
}

struct Walk {
    at: OwnedFd,
    /// From the top to where we are.
    levels: Vec<Level>,
}

struct Level {
    device: u64,
    inode: u64,
    /// In the level above.
    name: CString,
    /// Directories not yet entered.
    pending: Vec<CString>,
}

enum Entry {
    Done,
    Directory,
}

enum Step {
    /// We are one level deeper.
    Down,
    /// This name leads into another mount; we are where we were.
    OtherMount(CString),
    /// There is nothing more to enter here.
    Bottom,
}

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Walk {
    fn begin(dir: &Path) -> io::Result<Option<Self>> {
        let at = match rustix::fs::openat(CWD, dir, OPEN, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            other => other?,
        };
        let level = Level::of(&at, CString::default())?;
        Ok(Some(Self { at, levels: vec![level] }))
    }

    /// Hands every name here to `visit`; what it calls a directory is entered later.
    fn list(&mut self, mut visit: impl FnMut(&OwnedFd, &CStr) -> rustix::io::Result<Entry>) -> io::Result<()> {
        let mut pending = Vec::new();
        for entry in Dir::read_from(&self.at)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            match visit(&self.at, name) {
                Ok(Entry::Directory) => pending.push(name.to_owned()),
                Ok(Entry::Done) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(level) = self.levels.last_mut() {
            level.pending = pending;
        }
        Ok(())
    }

    /// Enters the next directory here. One that is gone, or no directory any more, is left out.
    fn down(&mut self) -> io::Result<Step> {
        loop {
            let Some(level) = self.levels.last_mut() else { return Ok(Step::Bottom) };
            let device = level.device;
            let Some(name) = level.pending.pop() else { return Ok(Step::Bottom) };
            let opened = match rustix::fs::openat2(&self.at, &name, OPEN, Mode::empty(), ResolveFlags::NO_XDEV) {
                // Before Linux 5.6: the device tells other file systems, though not other mounts of the same one.
                Err(Errno::NOSYS) => rustix::fs::openat(&self.at, &name, OPEN, Mode::empty()),
                other => other,
            };
            let next = match opened {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(Errno::XDEV) => return Ok(Step::OtherMount(name)),
                other => other?,
            };
            let below = Level::of(&next, name)?;
            if below.device != device {
                return Ok(Step::OtherMount(below.name));
            }
            self.levels.push(below);
            self.at = next;
            return Ok(Step::Down);
        }
    }

    /// Goes back up; the name of what was left, or None at the top.
    fn up(&mut self) -> io::Result<Option<CString>> {
        if self.levels.len() < 2 {
            return Ok(None);
        }
        let above = rustix::fs::openat(&self.at, c"..", OPEN, Mode::empty())?;
        let found = Level::of(&above, CString::default())?;
        let left = self.levels.pop();
        let same = self.levels.last().is_some_and(|level| (level.device, level.inode) == (found.device, found.inode));
        if !same {
            return Err(io::Error::other("a directory was moved while it was walked"));
        }
        self.at = above;
        Ok(left.map(|level| level.name))
    }
}

impl Level {
    fn of(dir: &OwnedFd, name: CString) -> io::Result<Self> {
        let stat = rustix::fs::fstat(dir)?;
        Ok(Self { device: stat.st_dev, inode: stat.st_ino, name, pending: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn counts_blocks_once_and_follows_no_links() {
        let dir = tempfile::tempdir().expect("make a directory");
        let top = dir.path().join("top");
        fs::create_dir_all(top.join("a/b")).expect("make directories");
        fs::write(top.join("a/file"), vec![1u8; 100_000]).expect("write");
        fs::hard_link(top.join("a/file"), top.join("again")).expect("link");
        fs::write(dir.path().join("outside"), vec![1u8; 50_000]).expect("write");
        symlink(dir.path(), top.join("out")).expect("symlink");
        let blocks = |path: &str| fs::symlink_metadata(top.join(path)).expect("stat").blocks() * 512;
        let expected = blocks("") + blocks("a") + blocks("a/b") + blocks("a/file") + blocks("out");
        assert_eq!(usage(&top).expect("usage"), Usage { bytes: expected, inodes: 5 });
        assert_eq!(usage(&dir.path().join("absent")).expect("usage"), Usage::default());

        remove(&top).expect("remove");
        assert!(!top.exists() && dir.path().join("outside").exists());
        remove(&top).expect("twice");
    }

    #[test]
    fn depth_beyond_path_names_is_walked() {
        let dir = tempfile::tempdir().expect("make a directory");
        let top = dir.path().join("top");
        fs::create_dir(&top).expect("make the top");
        let mut at = rustix::fs::openat(CWD, &top, OPEN, Mode::empty()).expect("open");
        // 12,000 bytes of path, where the kernel takes 4,096.
        let name = "d".repeat(200);
        for _ in 0..60 {
            rustix::fs::mkdirat(&at, &name, Mode::RWXU).expect("mkdir");
            at = rustix::fs::openat(&at, &name, OPEN, Mode::empty()).expect("open");
        }
        drop(at);
        assert_eq!(usage(&top).expect("usage").inodes, 61);
        remove(&top).expect("remove");
        assert!(!top.exists());
    }
}
