//! Where a store goes that cannot be used: beside the new one, for whoever wants to look at it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Damaged stores kept; beyond these the oldest are removed, so that a failing disk is not filled by its own wreckage.
const KEPT: usize = 5;

/// Renames `path` to `<path>.<kind>-<UTC timestamp>` and answers the new name.
///
/// Of damaged ones (`kind` is `corrupt`) the newest five are kept. Newer ones are never removed: an operator who went back to
/// an older agent will want them again.
pub(super) fn set_aside(path: &Path, kind: &str) -> io::Result<PathBuf> {
    let moved = free_name(path, kind);
    fs::rename(path, &moved)?;
    if kind == "corrupt" {
        prune(path, &moved);
    }
    Ok(moved)
}

fn free_name(path: &Path, kind: &str) -> PathBuf {
    let stamp = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S%.3fZ").to_string();
    let name = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{kind}-{stamp}{suffix}"));
        PathBuf::from(name)
    };
    // Two within a millisecond, or a clock that was set back.
    let mut candidate = name("");
    let mut n = 1;
    while candidate.exists() {
        candidate = name(&format!("-{n}"));
        n += 1;
    }
    candidate
}

/// Removing is a courtesy: where it fails, the files stay. The one just made stays whatever its name: within a millisecond names do not sort by age.
fn prune(path: &Path, newest: &Path) {
    let (Some(dir), Some(file)) = (path.parent(), path.file_name()) else { return };
    let prefix = format!("{}.corrupt-", file.to_string_lossy());
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut old: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .filter(|other| other != newest)
        .collect();
    // The timestamp in the name sorts by age.
    old.sort();
    for path in old.iter().rev().skip(KEPT - 1) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_only_damaged_ones_are_pruned() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.redb");
        for n in 0..9 {
            for kind in ["corrupt", "newer"] {
                fs::write(&path, format!("{n}")).unwrap();
                let moved = set_aside(&path, kind).unwrap();
                assert_eq!(fs::read_to_string(&moved).unwrap(), format!("{n}"), "{}", moved.display());
                assert!(!path.exists());
            }
        }
        let count = |kind: &str| {
            let names = fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.file_name());
            names.filter(|name| name.to_string_lossy().contains(kind)).count()
        };
        assert_eq!((count(".corrupt-"), count(".newer-")), (KEPT, 9));
    }
}
