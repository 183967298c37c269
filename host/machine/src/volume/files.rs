//! Volumes that the node fills with files: in memory, and changed in one step that no reader can see half of.
//!
//! ```text
//! <volume>/..2026_01_31_10_00_00.123/<path>    the files
//! <volume>/..data                              a link to that directory
//! <volume>/<first part of path>                a link to ..data/<first part of path>
//! ```
//! A change makes another directory and renames another link over `..data`. Only the node writes here: containers have these volumes
//! read-only.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1;
use polylet_core::paths::Paths;
use polylet_core::pod::Pod;
use polylet_core::volume::{VolumeFile, VolumeFiles};
use rustix::fs::{AtFlags, CWD, Gid, Uid};

use super::{PathError, VolumeCause, empty_dir, failed, fs_group, set_mode};

/// The link to the newest files.
const DATA: &str = "..data";
/// Becomes [`DATA`].
const DATA_NEXT: &str = "..data_tmp";

/// Makes the volume, or brings its files up to date.
pub(super) fn set_up(
    paths: &Paths,
    pod: &Pod,
    name: &str,
    dir: &Path,
    memory_allocatable: u64,
    files: &VolumeFiles,
) -> Result<(), VolumeCause> {
    let files = match files.get(name) {
        Some(Ok(files)) => files,
        Some(Err(error)) => return Err(VolumeCause::Content(error.clone())),
        None => return Err(VolumeCause::Content("nobody said what it holds".to_owned())),
    };
    let memory = v1::EmptyDirVolumeSource { medium: Some("Memory".to_owned()), ..Default::default() };
    empty_dir::set_up_at(paths, pod, dir, &format!("wrapped_{name}"), &memory, memory_allocatable)?;
    for inside in nested(pod, name) {
        let path = dir.join(inside);
        let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(&path);
        made.map_err(failed("mkdir", &path))?;
    }
    write(dir, files, fs_group(pod))
}

/// Where other volumes are mounted inside this one: there must be directories, since the runtime cannot make any in what is read-only.
fn nested(pod: &Pod, name: &str) -> BTreeSet<PathBuf> {
    let Some(spec) = pod.object.spec.as_ref() else { return BTreeSet::new() };
    let mut found = BTreeSet::new();
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        let mounts: Vec<(&str, PathBuf)> =
            container.volume_mounts.iter().flatten().map(|mount| (mount.name.as_str(), clean(&mount.mount_path))).collect();
        for (_, own) in mounts.iter().filter(|(of, _)| *of == name) {
            found.extend(mounts.iter().filter_map(|(_, path)| path.strip_prefix(own).ok()).map(Path::to_owned));
        }
    }
    found.retain(|inside| !inside.as_os_str().is_empty());
    found
}

/// A path in a container without `.` and `..`, which lead nowhere above its root.
fn clean(path: &str) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}

/// Brings the directory to hold these files and no others of ours.
fn write(dir: &Path, files: &[VolumeFile], group: Option<Gid>) -> Result<(), VolumeCause> {
    let files = checked(files)?;
    let data = dir.join(DATA);
    let same = fs::read_link(&data).is_ok_and(|current| holds(&dir.join(current), &files));
    if !same {
        let next = new_dir(dir)?;
        if let Err(error) = switch_to(dir, &next, &files, group) {
            // Else each try would leave one more behind, in memory that the pod needs. Why it failed counts more than what this says.
            let _ = fs::remove_dir_all(dir.join(&next));
            return Err(error);
        }
    }
    let shown: BTreeSet<PathBuf> =
        files.keys().filter_map(|path| path.components().next()).map(|part| PathBuf::from(part.as_os_str())).collect();
    for name in &shown {
        let link = dir.join(name);
        if fs::symlink_metadata(&link).is_err() {
            make_link(&Path::new(DATA).join(name), &link, group)?;
        }
    }
    sweep(dir, &shown)
}

/// Fills the new directory, and makes it the one that readers see.
fn switch_to(dir: &Path, next: &Path, files: &BTreeMap<PathBuf, &VolumeFile>, group: Option<Gid>) -> Result<(), VolumeCause> {
    fill(&dir.join(next), files, group)?;
    let link = dir.join(DATA_NEXT);
    remove_if_there(&link)?;
    make_link(next, &link, group)?;
    Ok(fs::rename(&link, dir.join(DATA)).map_err(failed("rename", &link))?)
}

/// By path, without `.`; a later file takes the place of an earlier one.
fn checked(files: &[VolumeFile]) -> Result<BTreeMap<PathBuf, &VolumeFile>, VolumeCause> {
    let mut out = BTreeMap::new();
    for file in files {
        let bad = |why: &str| VolumeCause::Content(format!("invalid path {:?}: {why}", file.path));
        let path: PathBuf = Path::new(&file.path).components().filter(|part| *part != Component::CurDir).collect();
        if file.path.is_empty() || file.path.starts_with('/') {
            return Err(bad("must be relative"));
        }
        if file.path.len() > PATH_MAX {
            return Err(bad("must be no more than 4096 bytes"));
        }
        if path.as_os_str().as_encoded_bytes().starts_with(b"..") || file.path.split('/').any(|part| part == "..") {
            return Err(bad("must not contain '..', and not start with it"));
        }
        if file.path.contains('\0') || file.path.split('/').any(|part| part.len() > NAME_MAX) {
            return Err(bad("every part must be no more than 255 bytes, none of them zero"));
        }
        if path.as_os_str().is_empty() {
            return Err(bad("must name a file"));
        }
        out.insert(path, file);
    }
    Ok(out)
}

const PATH_MAX: usize = 4096;
const NAME_MAX: usize = 255;

/// Whether a directory has exactly these files, with these contents.
fn holds(dir: &Path, files: &BTreeMap<PathBuf, &VolumeFile>) -> bool {
    let there = files.iter().all(|(path, file)| fs::read(dir.join(path)).is_ok_and(|bytes| bytes == file.bytes));
    there && count(dir).is_ok_and(|count| count == files.len())
}

/// Files below a directory that we have written ourselves.
fn count(dir: &Path) -> io::Result<usize> {
    let mut files = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        files += if entry.file_type()?.is_dir() { count(&entry.path())? } else { 1 };
    }
    Ok(files)
}

/// Makes a directory named after the time; its name.
fn new_dir(dir: &Path) -> Result<PathBuf, VolumeCause> {
    let now = jiff::Timestamp::now();
    let mut tie = now.subsec_nanosecond().unsigned_abs();
    loop {
        let name = PathBuf::from(format!("{}.{tie}", now.strftime("..%Y_%m_%d_%H_%M_%S")));
        let path = dir.join(&name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => tie = tie.wrapping_add(1),
            other => {
                other.map_err(failed("mkdir", &path))?;
                return Ok(name);
            }
        }
    }
}

/// Writes the files, with the owners and the modes that they shall have whatever the umask is. Directories stay the agent's own user's.
fn fill(dir: &Path, files: &BTreeMap<PathBuf, &VolumeFile>, group: Option<Gid>) -> Result<(), VolumeCause> {
    let mut dirs = BTreeSet::from([dir.to_owned()]);
    for (path, file) in files {
        let path = dir.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed("mkdir", parent))?;
            dirs.extend(parent.ancestors().take_while(|above| *above != dir).map(Path::to_owned));
        }
        fs::write(&path, &file.bytes).map_err(failed("open", &path))?;
        own(&path, file.owner.map(Uid::from_raw), file.mode, 0o440, group)?;
    }
    dirs.iter().try_for_each(|dir| Ok(own(dir, None, 0o755, 0o2550, group)?))
}

/// Gives a file or directory its owner, its mode, and to the pod's group where it has one. The ids are those that containers know: for a
/// pod with a user namespace of its own the runtime mounts the volume with its ids mapped.
fn own(path: &Path, owner: Option<Uid>, mode: u32, for_group: u32, group: Option<Gid>) -> Result<(), PathError> {
    if owner.is_some() || group.is_some() {
        rustix::fs::chown(path, owner, group).map_err(failed("chown", path))?;
    }
    set_mode(path, if group.is_some() { mode | for_group } else { mode })
}

fn make_link(to: &Path, link: &Path, group: Option<Gid>) -> Result<(), PathError> {
    symlink(to, link).map_err(failed("symlink", link))?;
    if group.is_some() {
        rustix::fs::chownat(CWD, link, None::<Uid>, group, AtFlags::SYMLINK_NOFOLLOW).map_err(failed("chown", link))?;
    }
    Ok(())
}

/// Removes links to files that are no more, and directories of earlier times.
fn sweep(dir: &Path, shown: &BTreeSet<PathBuf>) -> Result<(), VolumeCause> {
    let current = fs::read_link(dir.join(DATA)).map_err(failed("readlink", &dir.join(DATA)))?;
    for entry in fs::read_dir(dir).map_err(failed("open", dir))? {
        let entry = entry.map_err(failed("read", dir))?;
        let (name, path) = (PathBuf::from(entry.file_name()), entry.path());
        let ours = name.as_os_str().as_encoded_bytes().starts_with(b"..");
        let old = ours && name != Path::new(DATA) && name != current;
        let dangling = || !ours && !shown.contains(&name) && fs::read_link(&path).is_ok_and(|to| to.starts_with(DATA));
        if old || dangling() {
            remove_if_there(&path)?;
        }
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> Result<(), PathError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
