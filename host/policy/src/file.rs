//! Files that somebody else put there, and who can change them.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Opens a file for reading. Anything but a regular file is refused: a pipe has no end until somebody closes it, and opening a device may
/// do something.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    is_regular(&fs::metadata(path)?)?;
    // Another may stand there by now: opening it waits for nobody.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    is_regular(&file.metadata()?)?;
    Ok(file)
}

/// Whether nobody but root and us can change what lies in a directory: neither it nor any above it. Else the first that others can
/// change, and why. The directory has no links on its way.
///
/// # Errors
/// One of them cannot be looked at.
pub(crate) fn others_can_change(directory: &Path) -> io::Result<Option<(PathBuf, String)>> {
    for path in directory.ancestors() {
        let found = fs::symlink_metadata(path)?;
        // In a sticky directory nobody can replace what is another's.
        let sticky = path != directory && found.mode() & 0o1000 != 0;
        if let Err(why) = ours_alone(&found, sticky) {
            return Ok(Some((path.to_owned(), why)));
        }
    }
    Ok(None)
}

/// Refuses what somebody else owns or can write, with the reason.
pub(crate) fn ours_alone(found: &Metadata, sticky: bool) -> Result<(), String> {
    let us = rustix::process::geteuid().as_raw();
    match found {
        found if found.uid() != us && found.uid() != 0 => Err(format!("belongs to user {}", found.uid())),
        found if found.mode() & 0o022 != 0 && !sticky => {
            Err(format!("can be written by others (mode {:04o})", found.mode() & 0o7777))
        }
        _ => Ok(()),
    }
}

fn is_regular(found: &Metadata) -> io::Result<()> {
    let kind = found.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a named pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file")))
}
