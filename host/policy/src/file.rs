//! Files that somebody else put there.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

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
