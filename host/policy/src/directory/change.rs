//! Changes of the policy directory: each a whole generation, written aside and renamed into place, the one before kept beside it.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use polylet_core::question::Hook;
use serde_json::{Map, Value, json};

use super::parse::{binding as parse, is_label, wrong_limits};
use super::pending::{Pending, Written};
use super::{API_VERSION, Binding, BindingError, COMPONENTS, GOOD, KIND, PREVIOUS, is_binding, read, read_aside};
use crate::digest::{digest_of, hex_of};
use crate::limits::LimitSpec;

/// What to bind.
#[derive(Clone, Debug, PartialEq)]
pub struct Install<'a> {
    /// Name of the binding: a DNS label.
    pub name: &'a str,
    /// Hook to bind it to.
    pub hook: Hook,
    /// The component.
    pub component: &'a [u8],
    /// Its configuration.
    pub config: Value,
    /// Its limits. What they leave open stays as a binding of the same name has it.
    pub limits: LimitSpec,
}

/// Why the directory was not changed.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The file system failed.
    #[error("{operation} {}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
    /// Not a DNS label.
    #[error("{name:?} cannot be the name of a binding: it must be a DNS label, up to 63 of a-z, 0-9 and '-'")]
    Name {
        /// The name.
        name: String,
    },
    /// What is to be bound does not make a binding.
    #[error("this cannot be bound: {problem}")]
    Invalid {
        /// The first field that is wrong, and what would be right.
        problem: String,
    },
    /// The name is another hook's.
    #[error("the name {name} is taken by the binding for {}; choose another (policy load --name), or unbind that first", hook.as_str())]
    Taken {
        /// The name.
        name: String,
        /// Whose it is.
        hook: Hook,
    },
    /// Several bindings, or one that cannot be read: it is not clear what would be replaced.
    #[error("it is not clear what is bound to {}: {problem}", hook.as_str())]
    Unclear {
        /// The hook.
        hook: Hook,
        /// What is in the way.
        problem: String,
    },
    /// There is no generation before this one.
    #[error("there is nothing to revert {} to: no generation before this one is kept in {}", hook.as_str(), directory.display())]
    NothingBefore {
        /// The hook.
        hook: Hook,
        /// The directory.
        directory: PathBuf,
    },
    /// Nothing is bound.
    #[error("nothing is bound to {} in {}", hook.as_str(), directory.display())]
    NotBound {
        /// The hook.
        hook: Hook,
        /// The directory.
        directory: PathBuf,
    },
}

/// Binds a component, in place of what is bound to the hook now. It should have been checked and loaded before.
///
/// # Errors
/// [`DirectoryError`]: nothing has changed.
pub fn install(directory: &Path, install: &Install<'_>) -> Result<Binding, DirectoryError> {
    if !is_label(install.name) {
        return Err(DirectoryError::Name { name: install.name.into() });
    }
    let locked = Locked::new(directory)?;
    let target = locked.file(install.name);
    if let Ok(other) = read(&target)
        && other.hook != install.hook
    {
        return Err(DirectoryError::Taken { name: other.name, hook: other.hook });
    }
    let current = locked.bound(install.hook, Some(&target))?;
    let before = current.as_ref().map(|(_, binding)| binding).filter(|binding| binding.name == install.name).cloned();
    let digest = digest_of(install.component);
    let binding = Binding {
        name: install.name.into(),
        hook: install.hook,
        component: Path::new(COMPONENTS).join(format!("sha256-{}.wasm", hex_of(&digest))),
        digest,
        config: install.config.clone(),
        limits: before.as_ref().map_or(install.limits, |before| install.limits.or(&before.limits)),
    };
    readable(&target, &binding)?;
    locked.write(&binding.component_in(directory), install.component)?;
    // Bound once more as it is: the generation before it stays the one to revert to.
    if before.as_ref() != Some(&binding) {
        locked.replace(install.hook, current.as_ref(), Some(&binding))?;
    }
    locked.drop_unused();
    Ok(binding)
}

/// Whether a binding may have these limits. A policy that is tried out within such as it may not have says nothing of the bounds.
///
/// # Errors
/// [`DirectoryError::Invalid`], in the words that the binding's file would get.
pub fn check_limits(limits: &LimitSpec, hook: Hook) -> Result<(), DirectoryError> {
    match wrong_limits(limits, hook).into_iter().next() {
        Some((field, problem)) => Err(DirectoryError::Invalid { problem: format!("{field}: {problem}") }),
        None => Ok(()),
    }
}

/// What is written must be what the agent would take.
fn readable(file: &Path, binding: &Binding) -> Result<(), DirectoryError> {
    let Err(errors) = parse(file, document(binding).as_bytes(), true) else { return Ok(()) };
    let first = errors.first().map(|error| format!("{}: {}", error.field, error.problem));
    Err(DirectoryError::Invalid { problem: first.unwrap_or_default() })
}

/// Puts back the generation before this one, which becomes the one to revert to. None: nothing was bound then.
///
/// # Errors
/// [`DirectoryError`]: nothing has changed.
pub fn revert(directory: &Path, hook: Hook) -> Result<Option<Binding>, DirectoryError> {
    let locked = Locked::new(directory)?;
    let kept = locked.aside(PREVIOUS, hook, "yaml");
    let before = match read_aside(&kept) {
        Ok(binding) => Some(binding),
        Err(_) if locked.aside(PREVIOUS, hook, "none").exists() => None,
        Err(_) => return Err(DirectoryError::NothingBefore { hook, directory: directory.into() }),
    };
    let target = before.as_ref().map(|binding| locked.file(&binding.name));
    let current = locked.bound(hook, target.as_deref())?;
    locked.replace(hook, current.as_ref(), before.as_ref())?;
    Ok(before)
}

/// Binds nothing to the hook: the default policy answers. `revert` brings back what was bound.
///
/// # Errors
/// [`DirectoryError`]: nothing has changed.
pub fn unbind(directory: &Path, hook: Hook) -> Result<Binding, DirectoryError> {
    let locked = Locked::new(directory)?;
    let current = locked.bound(hook, None)?.ok_or_else(|| DirectoryError::NotBound { hook, directory: directory.into() })?;
    locked.replace(hook, Some(&current), None)?;
    Ok(current.1)
}

/// Keeps a binding as the last that was good.
pub(crate) fn remember_good(directory: &Path, binding: &Binding) -> Result<(), DirectoryError> {
    let locked = Locked::new(directory)?;
    locked.write(&locked.aside(GOOD, binding.hook, "yaml"), document(binding).as_bytes())
}

/// Forgets the last that was good: whoever binds nothing to a hook wants the default there, later on too.
pub(crate) fn forget_good(directory: &Path, hook: Hook) -> Result<(), DirectoryError> {
    if !directory.join(GOOD).join(format!("{}.yaml", hook.as_str())).exists() {
        return Ok(());
    }
    let locked = Locked::new(directory)?;
    locked.remove(&locked.aside(GOOD, hook, "yaml"))
}

/// The directory, with its lock held.
struct Locked<'a> {
    directory: &'a Path,
    _lock: File,
}

impl<'a> Locked<'a> {
    fn new(directory: &'a Path) -> Result<Self, DirectoryError> {
        let failed = |operation, cause| DirectoryError::Io { operation, path: directory.into(), cause };
        for folder in ["", COMPONENTS, PREVIOUS, GOOD] {
            let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(directory.join(folder));
            made.map_err(|cause| failed("make the policy directory", cause))?;
        }
        let open = File::open(directory).map_err(|cause| failed("open the policy directory", cause))?;
        open.lock().map_err(|cause| failed("lock the policy directory", cause))?;
        let locked = Self { directory, _lock: open };
        locked.settle()?;
        Ok(locked)
    }

    /// Ends what a writer that was ended has begun, and clears away what it had not put in place yet.
    fn settle(&self) -> Result<(), DirectoryError> {
        for folder in ["", COMPONENTS, PREVIOUS, GOOD] {
            for entry in fs::read_dir(self.directory.join(folder)).into_iter().flatten().flatten() {
                if entry.file_name().to_str().is_some_and(is_unfinished) {
                    self.remove(&entry.path())?;
                }
            }
        }
        for hook in Hook::ALL {
            if Pending::file(self.directory, hook).exists() {
                self.finish(hook)?;
            }
        }
        Ok(())
    }

    /// Does what a change has left to do where it counts, and forgets it.
    fn finish(&self, hook: Hook) -> Result<(), DirectoryError> {
        let change = Pending::read(self.directory, hook).filter(|change| change.counts(self.directory));
        if let Some(change) = change {
            let (kept, none) = (self.aside(PREVIOUS, hook, "yaml"), self.aside(PREVIOUS, hook, "none"));
            match change.keep.as_deref() {
                Some("") => {
                    self.write(&none, b"")?;
                    self.remove(&kept)?;
                }
                Some(document) => {
                    self.write(&kept, document.as_bytes())?;
                    self.remove(&none)?;
                }
                None => {}
            }
            if let Some(file) = change.superseded(self.directory) {
                self.remove(&file)?;
            }
        }
        self.remove(&Pending::file(self.directory, hook))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.yaml"))
    }

    fn aside(&self, folder: &str, hook: Hook, extension: &str) -> PathBuf {
        self.directory.join(folder).join(format!("{}.{extension}", hook.as_str()))
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| is_binding(path)).collect()
    }

    /// What is bound to the hook, with its file. A file that cannot be read may be what is bound, unless it is to be `replaced`.
    fn bound(&self, hook: Hook, replaced: Option<&Path>) -> Result<Option<(PathBuf, Binding)>, DirectoryError> {
        let mut bound = Vec::new();
        for file in self.files() {
            match read(&file) {
                Ok(binding) if binding.hook == hook => bound.push((file, binding)),
                Err(errors) if replaced != Some(file.as_path()) => {
                    let concerns = |error: &&BindingError| error.hooks.is_empty() || error.hooks.contains(&hook);
                    if let Some(error) = errors.iter().find(concerns) {
                        return Err(DirectoryError::Unclear { hook, problem: format!("{error}; mend this file or remove it") });
                    }
                }
                _ => {}
            }
        }
        if bound.len() > 1 {
            let names: Vec<String> = bound.into_iter().map(|(file, _)| file.display().to_string()).collect();
            return Err(DirectoryError::Unclear { hook, problem: format!("{} all claim it", names.join(" and ")) });
        }
        Ok(bound.pop())
    }

    /// Puts `next` in the place of `current`, which is kept as the generation before. What fails after the change counts is done by whoever
    /// changes something next.
    fn replace(&self, hook: Hook, current: Option<&(PathBuf, Binding)>, next: Option<&Binding>) -> Result<(), DirectoryError> {
        self.begin(hook, current, next)?;
        self.make_it_count(current, next)?;
        if let Err(error) = self.finish(hook) {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the change is made, and what was bound before is not put away yet"
            );
        }
        Ok(())
    }

    /// Writes down what is about to be done.
    fn begin(&self, hook: Hook, current: Option<&(PathBuf, Binding)>, next: Option<&Binding>) -> Result<(), DirectoryError> {
        let target = next.map(|binding| self.file(&binding.name));
        // A file that cannot be read cannot be kept either: what came before it stays the one to revert to.
        let damaged = target.as_ref().is_some_and(|file| fs::symlink_metadata(file).is_ok() && read(file).is_err());
        let failed = |path: &Path, cause| DirectoryError::Io { operation: "read", path: path.into(), cause };
        let before = match current {
            Some((file, _)) => Some(Written::new(file, &fs::read(file).map_err(|cause| failed(file, cause))?)),
            None => None,
        };
        let change = Pending {
            next: next.zip(target).map(|(binding, file)| Written::new(&file, document(binding).as_bytes())),
            before,
            keep: match current {
                Some((_, binding)) => Some(document(binding)),
                None => (!damaged).then(String::new),
            },
        };
        let path = Pending::file(self.directory, hook);
        let bytes = serde_json::to_vec(&change).map_err(|cause| failed(&path, cause.into()))?;
        self.write(&path, &bytes)
    }

    fn make_it_count(&self, current: Option<&(PathBuf, Binding)>, next: Option<&Binding>) -> Result<(), DirectoryError> {
        match (next, current) {
            (Some(binding), _) => self.write(&self.file(&binding.name), document(binding).as_bytes()),
            (None, Some((file, _))) => self.remove(file),
            (None, None) => Ok(()),
        }
    }

    /// Writes aside, makes it durable, renames it into place.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), DirectoryError> {
        let failed = |operation| move |cause| DirectoryError::Io { operation, path: path.into(), cause };
        let folder = path.parent().unwrap_or(self.directory);
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let temporary = folder.join(format!(".{name}{NEW}"));
        let _ = fs::remove_file(&temporary);
        let written = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&temporary)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        written().map_err(failed("write"))?;
        fs::rename(&temporary, path).map_err(failed("put in place"))?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("make durable"))
    }

    fn remove(&self, path: &Path) -> Result<(), DirectoryError> {
        match fs::remove_file(path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(DirectoryError::Io { operation: "remove", path: path.into(), cause })
            }
            _ => Ok(()),
        }
    }

    /// Removes components that no generation names. Where a file cannot be read, it may name any.
    fn drop_unused(&self) {
        let aside = |folder| Hook::ALL.map(|hook| self.aside(folder, hook, "yaml")).into_iter().filter(|file| file.exists());
        let kept = aside(PREVIOUS).chain(aside(GOOD)).map(|file| read_aside(&file));
        let Ok(bindings) = self.files().iter().map(|file| read(file)).chain(kept).collect::<Result<Vec<_>, _>>() else { return };
        let used: BTreeSet<PathBuf> = bindings.iter().map(|binding| binding.component_in(self.directory)).collect();
        for entry in fs::read_dir(self.directory.join(COMPONENTS)).into_iter().flatten().flatten() {
            let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with("sha256-") && name.ends_with(".wasm"));
            if ours && !used.contains(&entry.path()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// What a writer writes aside.
const NEW: &str = ".new";

fn is_unfinished(name: &str) -> bool {
    let ours = |name: &str| ["yaml", "wasm", "none", "next"].iter().any(|kind| name.ends_with(&format!(".{kind}")));
    name.strip_prefix('.').and_then(|name| name.strip_suffix(NEW)).is_some_and(ours)
}

/// The file of a binding.
fn document(binding: &Binding) -> String {
    let limits = binding.limits.written();
    let mut spec = Map::from_iter([
        ("hook".to_owned(), json!(binding.hook.as_str())),
        ("component".to_owned(), json!(binding.component)),
        ("digest".to_owned(), json!(binding.digest.as_str())),
        ("config".to_owned(), binding.config.clone()),
    ]);
    if !limits.is_empty() {
        spec.insert("limits".to_owned(), Value::Object(limits));
    }
    let whole = json!({ "apiVersion": API_VERSION, "kind": KIND, "metadata": { "name": binding.name }, "spec": spec });
    // JSON is YAML too, should the writer meet a value that it cannot write.
    serde_saphyr::to_string(&whole).unwrap_or_else(|_| format!("{whole:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(directory: &Path, name: &str) -> Result<Binding, DirectoryError> {
        let component = name.as_bytes();
        install(directory, &Install { name, hook: Hook::Restart, component, config: json!({}), limits: LimitSpec::default() })
    }

    /// A directory in which `two` was to take the place of `one`, which had taken that of `zero`, by a writer that was ended before or
    /// after the new file was in place.
    fn cut_off(counts: bool) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        bind(folder.path(), "zero").unwrap();
        let one = bind(folder.path(), "one").unwrap();
        let locked = Locked::new(folder.path()).unwrap();
        let current = locked.bound(Hook::Restart, None).unwrap();
        let two = Binding { name: "two".into(), ..one };
        locked.begin(Hook::Restart, current.as_ref(), Some(&two)).unwrap();
        if counts {
            locked.make_it_count(current.as_ref(), Some(&two)).unwrap();
        }
        folder
    }

    fn bound(directory: &Path) -> Vec<String> {
        let scan = super::super::scan(directory).unwrap();
        assert_eq!(scan.errors, []);
        scan.bindings.into_iter().map(|binding| binding.name).collect()
    }

    fn files(directory: &Path) -> Vec<String> {
        let names = ["", COMPONENTS, PREVIOUS, GOOD].into_iter().flat_map(|folder| fs::read_dir(directory.join(folder)).unwrap());
        let names = names.map(|entry| entry.unwrap()).filter(|entry| entry.file_type().unwrap().is_file());
        let mut names: Vec<String> = names.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.retain(|name| !name.ends_with(".wasm"));
        names.sort();
        names
    }

    #[test]
    fn of_a_change_that_was_cut_off_the_new_one_counts() {
        let folder = cut_off(true);
        let path = folder.path();
        assert_eq!(files(path), ["one.yaml", "restart.next", "restart.yaml", "two.yaml"]);
        assert_eq!(bound(path), ["two"]);
        assert_eq!(revert(path, Hook::Restart).unwrap().unwrap().name, "one");
        assert_eq!((bound(path), files(path)), (vec!["one".into()], vec!["one.yaml".into(), "restart.yaml".into()]));

        let folder = cut_off(true);
        let path = folder.path();
        assert_eq!(unbind(path, Hook::Restart).unwrap().name, "two");
        assert_eq!((bound(path), files(path)), (vec![], vec!["restart.yaml".to_owned()]));

        let folder = cut_off(true);
        let path = folder.path();
        bind(path, "three").unwrap();
        assert_eq!((bound(path), files(path)), (vec!["three".into()], vec!["restart.yaml".into(), "three.yaml".into()]));
        assert_eq!(revert(path, Hook::Restart).unwrap().unwrap().name, "two");
    }

    #[test]
    fn what_somebody_puts_beside_a_binding_later_is_not_taken_for_such_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        bind(path, "one").unwrap();
        let one = fs::read(path.join("one.yaml")).unwrap();
        bind(path, "two").unwrap();
        fs::write(path.join("one.yaml"), &one).unwrap();
        let scan = super::super::scan(path).unwrap();
        assert_eq!((scan.bindings.len(), scan.errors.len()), (0, 2));

        // Nor another file in the place of the one that was to come.
        let folder = cut_off(true);
        let path = folder.path();
        fs::write(path.join("two.yaml"), fs::read_to_string(path.join("two.yaml")).unwrap() + "# edited\n").unwrap();
        assert_eq!(super::super::scan(path).unwrap().errors.len(), 2);

        // Nor the one that was to go, once somebody has changed it.
        let folder = cut_off(true);
        let path = folder.path();
        let edited = fs::read_to_string(path.join("one.yaml")).unwrap() + "# edited\n";
        fs::write(path.join("one.yaml"), &edited).unwrap();
        assert_eq!(super::super::scan(path).unwrap().errors.len(), 2);
        assert!(matches!(revert(path, Hook::Restart), Err(DirectoryError::Unclear { .. })));
        assert_eq!(fs::read_to_string(path.join("one.yaml")).unwrap(), edited);
    }

    #[test]
    fn a_change_that_does_not_count_yet_leaves_what_was_to_be_reverted_to() {
        let folder = cut_off(false);
        let path = folder.path();
        assert_eq!(bound(path), ["one"]);
        assert_eq!(super::super::scan(path).unwrap().names, None, "what is kept is not known");
        assert_eq!(revert(path, Hook::Restart).unwrap().unwrap().name, "zero");
        assert_eq!((bound(path), files(path)), (vec!["zero".into()], vec!["restart.yaml".into(), "zero.yaml".into()]));

        // Nothing is bound from the moment on that the file is gone, and what was bound is kept.
        for counts in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path();
            bind(path, "zero").unwrap();
            bind(path, "one").unwrap();
            let locked = Locked::new(path).unwrap();
            let current = locked.bound(Hook::Restart, None).unwrap();
            locked.begin(Hook::Restart, current.as_ref(), None).unwrap();
            if counts {
                locked.make_it_count(current.as_ref(), None).unwrap();
            }
            drop(locked);
            assert_eq!(bound(path), if counts { vec![] } else { vec!["one"] });
            let before = revert(path, Hook::Restart).unwrap().unwrap().name;
            assert_eq!(before, if counts { "one" } else { "zero" });
        }
    }

    #[test]
    fn what_was_not_put_in_place_goes_with_the_next_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        bind(path, "one").unwrap();
        for name in [".two.yaml.new", ".previous/.restart.next.new", ".good/.restart.yaml.new", "components/.sha256-0.wasm.new"] {
            fs::write(path.join(name), "half of it").unwrap();
        }
        fs::write(path.join(".notes.new"), "somebody's own").unwrap();
        bind(path, "two").unwrap();
        assert_eq!(files(path), [".notes.new", "restart.yaml", "two.yaml"]);
        assert_eq!(fs::read_dir(path.join(COMPONENTS)).unwrap().count(), 2);
    }

    #[test]
    fn limits_are_checked_in_the_words_of_a_binding() {
        let said = |limits, hook| check_limits(&limits, hook).map_err(|error| error.to_string());
        let none = LimitSpec::default();
        assert_eq!(said(none, Hook::Qos), Ok(()));
        assert_eq!(said(LimitSpec { fuel: Some(1_000), memory: Some(64 << 10), ..none }, Hook::Qos), Ok(()));
        for (limits, expected) in [
            (
                LimitSpec { fuel: Some(0), ..none },
                "this cannot be bound: spec.limits.fuel: Invalid value: 0: must be a whole number from 1000 to 1000000000 for qos",
            ),
            (
                LimitSpec { memory: Some(1), ..none },
                "this cannot be bound: spec.limits.memory: Invalid value: 1: must be a number of bytes, or one with Ki or Mi, \
                 from 65536 to 67108864",
            ),
        ] {
            assert_eq!(said(limits, Hook::Qos), Err(expected.to_owned()));
        }
    }
}
