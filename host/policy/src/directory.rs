//! The policy directory: the one place for bindings.
//!
//! ```text
//! DIR/NAME.yaml                 one binding each: what is bound, and nothing else is
//! DIR/components/sha256-….wasm  components that `install` wrote
//! DIR/.previous/HOOK.yaml       the generation before, for `revert` (HOOK.none: nothing was bound)
//! DIR/.previous/HOOK.next       only during a change: what takes whose place, and what is kept then
//! DIR/.good/HOOK.yaml           the last that answered within its limits, for the ladder of trust
//! ```
//!
//! **Invariant:** a reader that scans finds one generation or the next, never a mixture: writers hold the lock of the directory, and of
//! a change that was cut off between its steps, every reader makes the same.
//!
//! Policies decide about other people's work, so nobody but root and the agent's own user may write what says which: neither the directory,
//! nor one above it, nor a binding's file. A component may be anybody's, and a link: the binding holds its digest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use polylet_core::id::PolicyDigest;
use polylet_core::question::Hook;
use serde_json::Value;

use crate::limits::LimitSpec;

mod change;
mod field;
mod parse;
mod pending;

use pending::Pending;

pub use change::{DirectoryError, Install, check_limits, install, revert, unbind};
pub(crate) use change::{forget_good, remember_good};

/// What `apiVersion` of a binding says.
pub const API_VERSION: &str = "policy.polylet.io/v1alpha1";
/// What `kind` of a binding says.
pub const KIND: &str = "PolicyBinding";

const COMPONENTS: &str = "components";
const PREVIOUS: &str = ".previous";
const GOOD: &str = ".good";
/// What is said of what others can change.
const OURS: &str = "whoever can change bindings decides about every pod; make it the agent's own (chown root, chmod go-w)";
/// Largest binding file that is read.
const FILE_MAX: u64 = 1 << 20;

/// One binding, as its file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// `metadata.name`, which is also the name of the file.
    pub name: String,
    /// `spec.hook`.
    pub hook: Hook,
    /// `spec.component`, a path below the directory.
    pub component: PathBuf,
    /// `spec.digest`.
    pub digest: PolicyDigest,
    /// `spec.config`; an empty object where it says nothing.
    pub config: Value,
    /// `spec.limits`.
    pub limits: LimitSpec,
}

/// Everything that a directory shows at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scan {
    /// The directory.
    pub directory: PathBuf,
    /// At most one for each hook.
    pub bindings: Vec<Binding>,
    /// What is wrong with the others.
    pub errors: Vec<BindingError>,
    /// The last that were good, for hooks that are bound.
    pub good: BTreeMap<Hook, Binding>,
    /// Names of the bindings that are here in any form: bound or in error, before the last change, good before. None where that is
    /// not known.
    pub names: Option<BTreeSet<String>>,
}

/// One thing that is wrong with a binding. The others are not affected, and what this one had bound before stays bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}{problem}", file.display(), if field.is_empty() { String::new() } else { format!("{field}: ") })]
pub struct BindingError {
    /// The file.
    pub file: PathBuf,
    /// Path of the field; empty where the file as a whole is meant.
    pub field: String,
    /// The value, and what would be right.
    pub problem: String,
    /// Hooks whose binding stays as it was.
    pub hooks: Vec<Hook>,
}

impl BindingError {
    /// Name of the binding.
    pub fn name(&self) -> &str {
        self.file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
    }
}

impl Binding {
    /// The component's file.
    pub(crate) fn component_in(&self, directory: &Path) -> PathBuf {
        directory.join(&self.component)
    }
}

/// Reads the directory. One that is not there shows nothing.
///
/// # Errors
/// The directory cannot be read: nothing is known about what should be bound.
pub fn scan(directory: &Path) -> io::Result<Scan> {
    let mut scan = Scan { directory: directory.into(), ..Scan::default() };
    let _lock = match File::open(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(scan),
        open => open.and_then(|open| open.lock_shared().map(|()| open))?,
    };
    let real = directory.canonicalize()?;
    if let Some((path, why)) = crate::file::others_can_change(&real)? {
        scan.errors =
            vec![BindingError { file: path, field: String::new(), problem: format!("{why}: {OURS}"), hooks: Hook::ALL.into() }];
        return Ok(scan);
    }
    let entries = fs::read_dir(directory)?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.retain(|file| is_binding(file));
    files.sort();
    scan.names = names(directory, &files);
    let mut found: Vec<(PathBuf, Binding)> = Vec::new();
    for file in files {
        match read(&file) {
            Ok(binding) => found.push((file, binding)),
            Err(errors) => scan.errors.extend(errors),
        }
    }
    for hook in Hook::ALL {
        let mut bound: Vec<(PathBuf, Binding)> = found.extract_if(.., |(_, binding)| binding.hook == hook).collect();
        let gone = Pending::read(directory, hook).and_then(|pending| pending.superseded(directory));
        bound.retain(|(file, _)| Some(file) != gone.as_ref());
        if bound.len() > 1 {
            scan.errors.extend(ambiguous(hook, &bound));
        } else if let Some((_, binding)) = bound.pop() {
            scan.bindings.push(binding);
        }
    }
    for binding in &scan.bindings {
        if let Ok(good) = read_aside(&directory.join(GOOD).join(format!("{}.yaml", binding.hook.as_str()))) {
            scan.good.insert(binding.hook, good);
        }
    }
    Ok(scan)
}

/// Names of the bindings in these files and of those kept aside; None where one of those cannot be read, or is only to come.
fn names(directory: &Path, files: &[PathBuf]) -> Option<BTreeSet<String>> {
    let mut names: BTreeSet<String> = files.iter().filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect();
    // During a change, what will be kept is in neither place.
    if Hook::ALL.into_iter().any(|hook| Pending::file(directory, hook).exists()) {
        return None;
    }
    for folder in [PREVIOUS, GOOD] {
        for hook in Hook::ALL {
            let file = directory.join(folder).join(format!("{}.yaml", hook.as_str()));
            match read_aside(&file) {
                Ok(binding) => drop(names.insert(binding.name)),
                Err(_) if fs::symlink_metadata(&file).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) => {}
                Err(_) => return None,
            }
        }
    }
    Some(names)
}

/// Each of them is named in the error of the other.
fn ambiguous(hook: Hook, bound: &[(PathBuf, Binding)]) -> Vec<BindingError> {
    let names: Vec<&str> = bound.iter().map(|(_, binding)| binding.name.as_str()).collect();
    let error = |(file, _): &(PathBuf, Binding)| BindingError {
        file: file.clone(),
        field: "spec.hook".into(),
        problem: format!(
            "Duplicate value: {:?}: the bindings {} are all for this hook, and a node has one for each; remove all but one",
            hook.as_str(),
            names.join(", ")
        ),
        hooks: vec![hook],
    };
    bound.iter().map(error).collect()
}

/// `NAME.yaml`, `.yml` or `.json`, not hidden.
fn is_binding(file: &Path) -> bool {
    let hidden = file.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && matches!(file.extension().and_then(|e| e.to_str()), Some("yaml" | "yml" | "json"))
}

/// A file of the directory, which has the name of its binding.
fn read(file: &Path) -> Result<Binding, Vec<BindingError>> {
    parse(file, true)
}

/// A generation that is kept aside, under the name of its hook.
fn read_aside(file: &Path) -> Result<Binding, Vec<BindingError>> {
    parse(file, false)
}

fn parse(file: &Path, is_named: bool) -> Result<Binding, Vec<BindingError>> {
    let whole = |problem: String| vec![BindingError { file: file.into(), field: String::new(), problem, hooks: Vec::new() }];
    let unreadable = |error: io::Error| whole(format!("cannot be read: {error}"));
    let open = crate::file::open(file).map_err(unreadable)?;
    let found = open.metadata().map_err(unreadable)?;
    crate::file::ours_alone(&found, false).map_err(|why| whole(format!("{why}: {OURS}")))?;
    if found.len() > FILE_MAX {
        return Err(whole(format!("cannot be read: is longer than {FILE_MAX} bytes")));
    }
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(open, FILE_MAX), &mut bytes).map_err(unreadable)?;
    parse::binding(file, &bytes, is_named)
}
