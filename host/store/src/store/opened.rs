//! How a store came to be opened, in words for an operator.

use std::fmt;
use std::path::{Path, PathBuf};

use super::aside::set_aside;
use super::backend::Faults;
use super::database::{Database, Image, SCHEMA, Unusable};

/// What [`super::Store::open`] found. Its text is one line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// There was none.
    Fresh {
        /// The database.
        path: PathBuf,
    },
    /// What was remembered is there.
    Loaded {
        /// The database.
        path: PathBuf,
        /// Values in it: pod records, what policies remember, and UIDs that were taken over.
        values: usize,
    },
    /// What was there cannot be used; a fresh store is in its place.
    SetAside {
        /// The database.
        path: PathBuf,
        /// Why.
        why: Why,
        /// Where it lies now.
        moved_to: PathBuf,
    },
    /// The file cannot be written: everything is kept in memory, and written as soon as that is possible.
    MemoryOnly {
        /// The database.
        path: PathBuf,
        /// What stands in the way.
        why: String,
        /// Values that could be read all the same.
        values: usize,
    },
}

impl Opened {
    /// Whether an operator should hear of it as a warning.
    pub fn is_trouble(&self) -> bool {
        matches!(self, Self::SetAside { .. } | Self::MemoryOnly { .. })
    }
}

/// Why a store was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is damaged.
    Corrupt(String),
    /// It was not written by this agent.
    Foreign(String),
    /// It was written by a later agent.
    Newer {
        /// Its schema version.
        found: u64,
        /// The highest that this agent reads.
        supported: u64,
    },
}

impl fmt::Display for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fresh { path } => write!(f, "store {}: new", path.display()),
            Self::Loaded { path, values } => write!(f, "store {}: {values} values loaded", path.display()),
            Self::SetAside { path, why, moved_to } => {
                let (path, moved_to) = (path.display(), moved_to.display());
                write!(
                    f,
                    "store {path}: {why}; moved to {moved_to}, a fresh one is started: backoff and restart counts begin anew"
                )
            }
            Self::MemoryOnly { path, why, values } => {
                let path = path.display();
                write!(
                    f,
                    "store {path}: cannot be written ({why}); {values} values were read, all changes are kept in memory and written once that is possible"
                )
            }
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt(detail) => write!(f, "damaged ({detail}; supported: schema version {SCHEMA})"),
            Self::Foreign(detail) => write!(f, "not a store of this agent ({detail}; supported: schema version {SCHEMA})"),
            Self::Newer { found, supported } => {
                write!(f, "it has schema version {found}, written by a newer agent; supported: up to {supported}")
            }
        }
    }
}

/// Opens the file, sets it aside where it must be, reads it where it cannot be written.
pub(super) fn open(dir: &Path, path: &Path, faults: &Faults) -> (Option<Database>, Image, Opened) {
    let path = path.to_owned();
    // Where this fails, opening will say so.
    let _ = std::fs::create_dir_all(dir);
    // A new one would be begun in it without a word.
    let emptied = std::fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() == 0);
    let opened = if emptied { Err(Unusable::Corrupt("it is empty".to_owned())) } else { Database::open(&path, faults) };
    let why = match opened {
        Ok((database, None)) => return (Some(database), Image::new(), Opened::Fresh { path }),
        Ok((database, Some(image))) => {
            let values = image.len();
            return (Some(database), image, Opened::Loaded { path, values });
        }
        Err(Unusable::Unreachable(why)) => {
            let image = Database::read_copy(&path).ok().flatten().unwrap_or_default();
            let values = image.len();
            return (None, image, Opened::MemoryOnly { path, why, values });
        }
        Err(Unusable::Corrupt(detail)) => Why::Corrupt(detail),
        Err(Unusable::Foreign(detail)) => Why::Foreign(detail),
        Err(Unusable::Newer(found)) => Why::Newer { found, supported: SCHEMA },
    };
    let kind = if matches!(why, Why::Newer { .. }) { "newer" } else { "corrupt" };
    let fresh = set_aside(&path, kind).map_err(|error| format!("{why}, and cannot be renamed: {error}")).and_then(|moved_to| {
        let (database, _) =
            Database::open(&path, faults).map_err(|fault| format!("{why}, and no fresh one can be made: {fault:?}"))?;
        Ok((database, moved_to))
    });
    match fresh {
        Ok((database, moved_to)) => (Some(database), Image::new(), Opened::SetAside { path, why, moved_to }),
        Err(why) => (None, Image::new(), Opened::MemoryOnly { path, why, values: 0 }),
    }
}
