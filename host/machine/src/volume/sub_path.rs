//! A part of a volume (`subPath`), as a mount of its own that leads nowhere else.
//!
//! Tenants write to volumes while we look at them. A path inside a volume is therefore resolved once as text, which may follow links
//! as long as they stay inside, and then opened component by component without following any. What was opened, not what the path
//! says by then, is bind-mounted below the pod's directory, which no tenant can write to. The runtime is given that mount.
//!
//! **Invariant:** whatever a tenant does meanwhile, what is mounted lies in the volume, or nothing is mounted.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use polylet_core::paths::Paths;
use polylet_core::pod::Pod;
use polylet_core::volume::SubPath;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::{PathError, VolumeCause, failed, private_dir, volume_path};
use crate::mountinfo;

/// Why a part of a volume cannot be mounted. The text is what upstream shows of it; the cause, which names paths of the node, is for
/// the log.
#[derive(Debug, thiserror::Error)]
pub enum SubPathError {
    /// The path is not there, and could not be made.
    #[error("failed to create subPath directory for volumeMount \"{volume}\" of container \"{container}\"")]
    Create {
        /// Name of the volume.
        volume: String,
        /// Name of the container.
        container: String,
        /// Why.
        #[source]
        cause: VolumeCause,
    },
    /// It is there, but cannot be used.
    #[error("failed to prepare subPath for volumeMount \"{volume}\" of container \"{container}\"")]
    Prepare {
        /// Name of the volume.
        volume: String,
        /// Name of the container.
        container: String,
        /// Why.
        #[source]
        cause: VolumeCause,
    },
}

/// Mounts a part of a volume at [`Paths::sub_path`]; a directory is made of what is not there. Idempotent: a mount that shows the
/// right thing already stays, another one is replaced.
pub fn prepare_sub_path(paths: &Paths, pod: &Pod, container: &str, wanted: &SubPath) -> Result<(), SubPathError> {
    let (volume, container) = (wanted.volume.clone(), container.to_owned());
    let target = paths.sub_path(pod.uid.as_str(), &volume, &container, wanted.index);
    let base = match base_of(paths, pod, &volume) {
        Ok(base) => base,
        Err(cause) => return Err(SubPathError::Prepare { volume, container, cause }),
    };
    let whole = base.join(&wanted.path);
    if let Err(error) = fs::metadata(&whole)
        && error.kind() == io::ErrorKind::NotFound
        && let Err(cause) = make(&base, &whole)
    {
        return Err(SubPathError::Create { volume, container, cause });
    }
    bind(&base, &whole, &target).map_err(|cause| SubPathError::Prepare { volume, container, cause })
}

/// Where the volume itself lies, without links.
fn base_of(paths: &Paths, pod: &Pod, volume: &str) -> Result<PathBuf, VolumeCause> {
    let base = volume_path(paths, pod, volume).ok_or(VolumeCause::Unknown)?;
    Ok(fs::canonicalize(&base).map_err(failed("stat", &base))?)
}

/// Makes the directories that are missing. The last one gets the volume's mode, as it is what the container sees.
fn make(base: &Path, whole: &Path) -> Result<(), VolumeCause> {
    let mut missing: Vec<OsString> = Vec::new();
    let mut existing = whole.to_owned();
    let existing = loop {
        match fs::canonicalize(&existing) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && existing != base => {
                let Some(name) = existing.file_name() else { return Err(outside(whole)) };
                missing.push(name.to_owned());
                existing.pop();
            }
            other => break other.map_err(failed("stat", whole))?,
        }
    };
    let mut at = open_inside(base, &existing)?;
    let mode = fs::metadata(base).map_err(failed("stat", base))?.mode() & 0o7777;
    while let Some(name) = missing.pop() {
        match rustix::fs::mkdirat(&at, &name, Mode::from_raw_mode(mode)) {
            // Somebody else was faster, or it is a link to nothing: opening it tells.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed("mkdir", whole)(error).into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        at = rustix::fs::openat(&at, &name, flags, Mode::empty()).map_err(failed("open", whole))?;
        if missing.is_empty() {
            // Whatever the umask made of it.
            rustix::fs::fchmod(&at, Mode::from_raw_mode(mode)).map_err(failed("chmod", whole))?;
        }
    }
    Ok(())
}

/// Opens a path without links inside the base, in a way that finds no link either.
fn open_inside(base: &Path, real: &Path) -> Result<OwnedFd, VolumeCause> {
    let inside = real.strip_prefix(base).map_err(|_| outside(real))?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = rustix::fs::openat(CWD, base, flags, Mode::empty()).map_err(failed("open", base))?;
    for part in inside.components() {
        let Component::Normal(name) = part else { return Err(outside(real)) };
        if file_type(&stat(&at, real)?) == FileType::Symlink {
            break;
        }
        at = rustix::fs::openat(&at, name, flags, Mode::empty()).map_err(failed("open", real))?;
    }
    // `O_PATH` opens a link itself: one that was put there since the path was resolved.
    match file_type(&stat(&at, real)?) {
        FileType::Symlink => Err(failed("open", real)(Errno::LOOP).into()),
        _ => Ok(at),
    }
}

/// Mounts what the path leads to at the target.
fn bind(base: &Path, whole: &Path, target: &Path) -> Result<(), VolumeCause> {
    let real = fs::canonicalize(whole).map_err(failed("stat", whole))?;
    let source = open_inside(base, &real)?;
    let wanted = stat(&source, &real)?;
    let is_dir = file_type(&wanted) == FileType::Directory;
    if let Some(parent) = target.parent() {
        private_dir(parent)?;
    }
    // Several may lie on top of each other; the uppermost is what counts.
    while is_mounted(target)? {
        let shown = fs::metadata(target).map_err(failed("stat", target))?;
        if (shown.dev(), shown.ino()) == (wanted.st_dev, wanted.st_ino) {
            return Ok(());
        }
        rustix::mount::unmount(target, UnmountFlags::NOFOLLOW).map_err(failed("unmount", target))?;
    }
    make_target(target, is_dir)?;
    let source = format!("/proc/self/fd/{}", source.as_raw_fd());
    rustix::mount::mount_bind(source.as_str(), target).map_err(failed("mount", target))?;
    Ok(())
}

/// A directory or an empty file to mount on; one of the other kind goes.
fn make_target(target: &Path, is_dir: bool) -> Result<(), PathError> {
    match fs::symlink_metadata(target) {
        Ok(found) if found.is_dir() == is_dir => return Ok(()),
        Ok(found) if found.is_dir() => fs::remove_dir(target).map_err(failed("rmdir", target))?,
        Ok(_) => fs::remove_file(target).map_err(failed("unlink", target))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed("stat", target)(error)),
    }
    if is_dir {
        fs::DirBuilder::new().mode(0o750).create(target).map_err(failed("mkdir", target))
    } else {
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o640).open(target);
        made.map(drop).map_err(failed("open", target))
    }
}

fn is_mounted(target: &Path) -> Result<bool, VolumeCause> {
    // Mountinfo has real paths; the root directory may be reached through a link.
    let Ok(real) = fs::canonicalize(target) else { return Ok(false) };
    let mounts = mountinfo::read().map_err(failed("read", Path::new(mountinfo::MOUNTINFO)))?;
    Ok(mounts.iter().any(|mount| mount.point == real))
}

fn stat(file: &OwnedFd, path: &Path) -> Result<Stat, VolumeCause> {
    Ok(rustix::fs::fstat(file).map_err(failed("stat", path))?)
}

fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn outside(path: &Path) -> VolumeCause {
    VolumeCause::Outside(path.display().to_string())
}

#[cfg(test)]
mod tests;
