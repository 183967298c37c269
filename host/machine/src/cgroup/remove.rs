//! Ending what runs in a pod's cgroups and removing them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process};

use super::CgroupError;

/// As often as upstream sends KILL.
const KILL_ROUNDS: u32 = 5;
/// A cgroup stays busy for a moment after its last process has died.
const REMOVE_ROUNDS: u32 = 10;

/// Removes these cgroups with all below them. They are the same pod's, each in a hierarchy of its own.
pub(super) fn subtrees(dirs: &[PathBuf]) -> Result<(), CgroupError> {
    for round in 0..KILL_ROUNDS {
        let pids: Vec<i32> = dirs.iter().flat_map(|dir| processes(dir)).collect();
        if pids.is_empty() {
            break;
        }
        for dir in dirs {
            // v2 since Linux 5.14: the kernel ends all of them at once, forks or not.
            let _ = fs::write(dir.join("cgroup.kill"), "1");
        }
        pids.into_iter().for_each(kill);
        thread::sleep(Duration::from_millis(5 << round));
    }
    dirs.iter().try_for_each(|dir| remove(dir))
}

/// Names of the cgroups directly below; none where the directory is not there.
pub(super) fn children(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(names)
}

fn remove(dir: &Path) -> Result<(), CgroupError> {
    let mut cause = None;
    for round in 0..REMOVE_ROUNDS {
        match remove_tree(dir) {
            Ok(()) => return Ok(()),
            Err(error) => cause = Some(error),
        }
        thread::sleep(Duration::from_millis(1 << round.min(6)));
    }
    let cause = cause.unwrap_or_else(|| io::ErrorKind::ResourceBusy.into());
    Err(CgroupError::Remove { path: dir.to_owned(), left: processes(dir).len(), cause })
}

/// The deepest first; what is gone meanwhile counts as removed.
fn remove_tree(dir: &Path) -> io::Result<()> {
    for child in children(dir)? {
        remove_tree(&dir.join(child))?;
    }
    match fs::remove_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Processes in a cgroup and below, as far as they can be seen from this process namespace.
fn processes(dir: &Path) -> Vec<i32> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 1).collect();
    for child in children(dir).unwrap_or_default() {
        pids.extend(processes(&dir.join(child)));
    }
    pids
}

fn kill(pid: i32) {
    // One that is gone is what we want; one that we may not end is counted when the cgroup cannot be removed.
    if let Some(pid) = Pid::from_raw(pid).filter(|pid| *pid != getpid()) {
        let _ = kill_process(pid, Signal::KILL);
    }
}
