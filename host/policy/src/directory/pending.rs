//! What a change of the directory leaves to do after the step that makes it count: written before the change, removed after it.

use std::fs;
use std::path::{Path, PathBuf};

use polylet_core::id::PolicyDigest;
use polylet_core::question::Hook;
use serde::{Deserialize, Serialize};

use super::PREVIOUS;
use crate::digest::digest_of;

/// A change of a hook's binding that has been begun. It counts from the moment that the file of `next` holds what it is to hold; where
/// nothing is to be bound, from the moment that the file of `before` is gone.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Pending {
    /// The file that is written. None: nothing is to be bound.
    pub(super) next: Option<Written>,
    /// The file that goes, or is written over. None: nothing was bound.
    pub(super) before: Option<Written>,
    /// What becomes the generation to revert to: the document of a binding, empty where nothing was bound. None: that stays as it is.
    pub(super) keep: Option<String>,
}

/// A file of the directory, and what it holds.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    name: String,
    digest: PolicyDigest,
}

impl Written {
    pub(super) fn new(file: &Path, bytes: &[u8]) -> Self {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { name, digest: digest_of(bytes) }
    }

    fn stands_in(&self, directory: &Path) -> bool {
        fs::read(directory.join(&self.name)).is_ok_and(|bytes| digest_of(&bytes) == self.digest)
    }
}

impl Pending {
    pub(super) fn file(directory: &Path, hook: Hook) -> PathBuf {
        directory.join(PREVIOUS).join(format!("{}.next", hook.as_str()))
    }

    /// None where no change is under way, or none that can be read.
    pub(super) fn read(directory: &Path, hook: Hook) -> Option<Self> {
        serde_json::from_slice(&fs::read(Self::file(directory, hook)).ok()?).ok()
    }

    /// Whether the change has happened.
    pub(super) fn counts(&self, directory: &Path) -> bool {
        match (&self.next, &self.before) {
            (Some(next), _) => next.stands_in(directory),
            (None, Some(before)) => !directory.join(&before.name).exists(),
            (None, None) => true,
        }
    }

    /// The file of what was bound before, where it still stands, as it was, beside the one that takes its place.
    pub(super) fn superseded(&self, directory: &Path) -> Option<PathBuf> {
        let (next, before) = (self.next.as_ref()?, self.before.as_ref()?);
        let beside = next.name != before.name && next.stands_in(directory) && before.stands_in(directory);
        beside.then(|| directory.join(&before.name))
    }
}
