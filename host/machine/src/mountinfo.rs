//! What is mounted where, from mountinfo.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One line of mountinfo, as far as the node reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Path within the file system that is mounted.
    pub(crate) root: PathBuf,
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    /// Whether mounts below it appear in its peers.
    pub(crate) shared: bool,
    /// File system type.
    pub(crate) fs_type: String,
    /// Options of the file system (`rw`, `cpu`, `size=…`).
    pub(crate) options: Vec<String>,
}

/// Every mount of this thread's mount namespace, in the order in which they were made.
pub(crate) fn read() -> io::Result<Vec<Mount>> {
    Ok(parse(&fs::read(MOUNTINFO)?))
}

pub(crate) const MOUNTINFO: &str = "/proc/thread-self/mountinfo";

/// The lines that can be read; others are skipped, since the format may only grow.
pub(crate) fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// Mounts at or below a directory, the last made first: the order in which they can be unmounted.
pub(crate) fn below<'a>(mounts: &'a [Mount], dir: &Path) -> Vec<&'a Mount> {
    mounts.iter().rev().filter(|mount| mount.point.starts_with(dir)).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let root = fields.nth(3)?;
    let point = fields.next()?;
    // Options of the mount, then optional fields of any number, then a lone dash.
    let mut shared = false;
    loop {
        match fields.next()? {
            b"-" => break,
            field => shared |= field.starts_with(b"shared:"),
        }
    }
    let fs_type = fields.next()?;
    let options = fields.nth(1)?;
    Some(Mount {
        root: unescape(root),
        point: unescape(point),
        shared,
        fs_type: String::from_utf8_lossy(fs_type).into_owned(),
        options: String::from_utf8_lossy(options).split(',').map(str::to_owned).collect(),
    })
}

/// The kernel writes blank, tab, newline and backslash as a backslash and three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        if let (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..]) = (first, tail) {
            bytes.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
            rest = &tail[3..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_optional_fields_and_escapes() {
        let text = b"36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue\n\
                     33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\nrubbish\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].point, Path::new("/mnt 2"));
        assert_eq!(mounts[0].root, Path::new("/mnt1"));
        assert_eq!(mounts[0].options, ["rw", "errors=continue"]);
        assert!(mounts[0].shared && !mounts[1].shared);
        assert_eq!(mounts[1].fs_type, "cgroup");
        assert_eq!(mounts[1].options, ["rw", "cpu", "cpuacct"]);
    }

    #[test]
    fn unmounts_the_last_first_and_only_below() {
        let text = b"1 0 0:1 / /p/a rw - tmpfs t rw\n2 0 0:1 / /p/ab rw - tmpfs t rw\n3 0 0:1 / /p/a/b rw - tmpfs t rw\n";
        let mounts = parse(text);
        let points: Vec<_> = below(&mounts, Path::new("/p/a")).iter().map(|m| m.point.display().to_string()).collect();
        assert_eq!(points, ["/p/a/b", "/p/a"]);
    }
}
