//! The manifests of a directory, or of one file: what they declare, read again only where they changed.
//!
//! **Invariants:** a directory that was never there is an empty one, and that is told; one that is gone, or cannot be read, is not: what
//! it declared stays. While a file exists but is bad, the pod of its last good content stays. (The kubelet drops it; here a slip while
//! editing ends nothing.) Both last until the agent is restarted: contents are not kept. One file's fault is told once for each content,
//! or for each reason why there is none.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use polylet_core::pod::{Pod, Source};

use super::adoption::Adoption;
use super::{Origin, Report, SourceError, guarded, load_adopting, parsed};
use crate::document::MAX_BYTES;

/// Manifests at a path, and what was read of them so far.
pub struct Directory {
    path: PathBuf,
    node_name: String,
    sysctls: Vec<String>,
    adoption: Option<Adoption>,
    files: BTreeMap<PathBuf, Entry>,
    /// What was told last; None before the path could be read for the first time.
    told: Option<Vec<Arc<Pod>>>,
    /// The path has been a directory.
    was_directory: bool,
    /// The path cannot be read, and that has been told.
    unreadable: bool,
    /// Nothing is at the path, and that has been told.
    absent: bool,
    /// What is wrong now, as told last.
    standing: Vec<String>,
}

/// Which files to look at.
#[derive(Clone, Debug)]
pub enum Scope {
    /// All of them.
    All,
    /// Those with these names; the others count as they were, since somebody may be writing them just now.
    Names(BTreeSet<OsString>),
}

/// One file as last read.
#[derive(Debug, Default)]
struct Entry {
    /// None: read it again whatever it looks like.
    stamp: Option<Stamp>,
    content: Option<u64>,
    /// The pod of the last good content.
    pod: Option<Arc<Pod>>,
    /// The file that declares the same pod, where that has been told.
    taken_by: Option<PathBuf>,
    /// Its pod was among those that were told last.
    declares: bool,
    /// What is wrong with it as it was last read.
    wrong: Option<String>,
}

impl Directory {
    /// Reads nothing yet. `path` may be a file and need not exist.
    pub fn new(path: &Path, node_name: &str) -> Self {
        // Components drop a slash at the end, which would make a file's path, and so its pod's UID, another.
        let path = path.components().collect();
        Self {
            path,
            node_name: node_name.to_owned(),
            sysctls: Vec::new(),
            adoption: None,
            files: BTreeMap::new(),
            told: None,
            was_directory: false,
            unreadable: false,
            absent: false,
            standing: Vec::new(),
        }
    }

    /// Lets pods have kernel settings beyond the safe ones (`allowedUnsafeSysctls`).
    pub fn allowing(self, sysctls: &[String]) -> Self {
        Self { sysctls: sysctls.to_vec(), ..self }
    }

    /// Where pods that run already may be what the manifests declare.
    pub fn adopting(self, adoption: Adoption) -> Self {
        Self { adoption: Some(adoption), ..self }
    }

    /// Where the manifests are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks again; None where there is no news.
    pub fn refresh(&mut self, scope: &Scope, now: Timestamp) -> Option<Report> {
        let mut problems = Vec::new();
        let mut standing = Vec::new();
        self.was_directory |= self.path.is_dir();
        match list(&self.path, self.was_directory) {
            Ok(files) => {
                if std::mem::replace(&mut self.unreadable, false) || self.absent && files.is_some() {
                    tracing::info!(path = %self.path.display(), "manifests are read again: they are there now");
                }
                let told = std::mem::replace(&mut self.absent, files.is_none());
                if self.absent {
                    let absent = SourceError::Absent { path: self.path.clone() };
                    standing.push(absent.to_string());
                    problems.extend((!told).then_some(absent));
                }
                let files = files.unwrap_or_default();
                self.files.retain(|path, _| files.contains(path));
                for path in files {
                    self.look(&path, scope, now, &mut problems);
                }
            }
            Err(cause) => {
                // Nobody may be writing a whole directory: it is told once, and what was there stays.
                let told = std::mem::replace(&mut self.unreadable, true);
                let unreadable = SourceError::Directory { path: self.path.clone(), cause };
                standing.push(unreadable.to_string());
                problems.extend((!told).then_some(unreadable));
            }
        }
        let pods = self.assemble(&mut problems, &mut standing);
        standing.sort();
        let other = self.standing != standing;
        self.standing.clone_from(&standing);
        let same = |told: &Vec<Arc<Pod>>| told.len() == pods.len() && told.iter().zip(&pods).all(|(a, b)| Arc::ptr_eq(a, b));
        let unheard = self.told.is_none() && self.unreadable;
        let news = !unheard && !self.told.as_ref().is_some_and(same);
        if news {
            self.told = Some(pods.clone());
            // What none of them declares is ended from now on.
            self.adoption.iter_mut().for_each(Adoption::close);
        }
        (news || other || !problems.is_empty()).then(|| Report { pods: news.then_some(pods), problems, standing })
    }

    fn look(&mut self, path: &Path, scope: &Scope, now: Timestamp, problems: &mut Vec<SourceError>) {
        let named = match scope {
            Scope::All => false,
            Scope::Names(names) => {
                if !path.file_name().is_some_and(|name| names.contains(name)) {
                    return;
                }
                true
            }
        };
        let read = match self.read_if_changed(path, named) {
            Ok(Some(read)) => read,
            Ok(None) => return,
            // Gone between the listing and the reading: the event or the next round tells. A link to nothing stays, and is told.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound && !path.is_symlink() => return,
            Err(cause) => {
                let entry = self.files.entry(path.to_owned()).or_default();
                // What was seen last is not what is there now: once it can be read again, it is.
                entry.stamp = None;
                let why = unreadable(path, &cause);
                if entry.content.replace(why) != Some(why) {
                    problems.push(entry.wrong(SourceError::Read { file: path.to_owned(), cause }));
                }
                return;
            }
        };
        let entry = self.files.entry(path.to_owned()).or_default();
        entry.stamp = read.stamp;
        if entry.content.replace(read.content) == Some(read.content) {
            return;
        }
        entry.taken_by = None;
        entry.wrong = None;
        let place = path.to_string_lossy();
        let origin =
            Origin { source: Source::File, place: &place, node_name: &self.node_name, seen: now, sysctls: &self.sysctls };
        let adoption = self.adoption.as_mut();
        match guarded(&place, || pod_of(&read.bytes, &origin, path, entry.pod.as_ref(), adoption)) {
            Ok(pod) => entry.pod = Some(pod),
            Err(error) => problems.push(entry.wrong(error)),
        }
    }

    /// The file's bytes, unless it looks as it did when it was last read.
    fn read_if_changed(&self, path: &Path, named: bool) -> io::Result<Option<Content>> {
        let meta = fs::metadata(path)?;
        let known = self.files.get(path).and_then(|entry| entry.stamp.as_ref());
        if !named && known == Some(&Stamp::of(&meta)) {
            return Ok(None);
        }
        Content::read(path).map(Some)
    }

    /// The pods of all files, in the order of their names. Of two that are the same pod, the one that was told before, since a copy beside
    /// it should end nothing; else the first.
    fn assemble(&mut self, problems: &mut Vec<SourceError>, standing: &mut Vec<String>) -> Vec<Arc<Pod>> {
        let mut pods: Vec<(PathBuf, Arc<Pod>)> = Vec::new();
        let mut names: BTreeMap<String, PathBuf> = BTreeMap::new();
        let mut files: Vec<(&PathBuf, &mut Entry)> = self.files.iter_mut().collect();
        files.sort_by_key(|(_, entry)| !entry.declares);
        for (path, entry) in files {
            entry.declares = false;
            standing.extend(entry.wrong.clone());
            let Some(pod) = &entry.pod else { continue };
            let (name, uid) = (format!("name {}", pod.full_name()), format!("uid {}", pod.uid));
            let taken = [("metadata.name", &name), ("metadata.uid", &uid)]
                .into_iter()
                .find_map(|(field, key)| Some((field, names.get(key)?)));
            if let Some((field, other)) = taken {
                let value = if field == "metadata.uid" { pod.uid.to_string() } else { format!("{}/{}", pod.namespace, pod.name) };
                let told = entry.taken_by.replace(other.clone()).as_ref() == Some(other);
                let taken = SourceError::Taken { file: path.clone(), field, value, other: other.clone(), pod: pod.clone() };
                standing.push(taken.to_string());
                problems.extend((!told).then_some(taken));
                continue;
            }
            entry.taken_by = None;
            entry.declares = true;
            names.insert(name, path.clone());
            names.insert(uid, path.clone());
            pods.push((path.clone(), pod.clone()));
        }
        pods.sort_by(|(one, _), (other, _)| one.cmp(other));
        pods.into_iter().map(|(_, pod)| pod).collect()
    }
}

/// Stands for the content of a file that cannot be read, and why; no content looks like it.
fn unreadable(path: &Path, cause: &io::Error) -> u64 {
    let mut hasher = DefaultHasher::new();
    (cause.to_string(), fs::read_link(path).ok()).hash(&mut hasher);
    hasher.finish() & !1
}

impl Entry {
    /// Notes the error; with what becomes of the pod that the file held before.
    fn wrong(&mut self, error: SourceError) -> SourceError {
        let error = match &self.pod {
            Some(pod) => SourceError::Kept { cause: Box::new(error), pod: pod.name.clone() },
            None => error,
        };
        self.wrong = Some(error.to_string());
        error
    }
}

/// The pod that the bytes declare; the one before where they declare the same.
fn pod_of(
    bytes: &[u8],
    origin: &Origin<'_>,
    path: &Path,
    before: Option<&Arc<Pod>>,
    adoption: Option<&mut Adoption>,
) -> Result<Arc<Pod>, SourceError> {
    parsed(load_adopting(bytes, origin, adoption)?, origin, path, before)
}

/// Files at the path in the order of their names; None where nothing is there, nor was a directory. Names that start with a dot are
/// nobody's; what is not a file cannot be read.
fn list(path: &Path, was_directory: bool) -> io::Result<Option<BTreeSet<PathBuf>>> {
    let meta = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !was_directory => return Ok(None),
        other => other?,
    };
    if !meta.is_dir() {
        return Ok(Some([path.to_owned()].into()));
    }
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // A directory may lie beside the manifests; a socket or a device may not.
        if !entry.file_name().as_encoded_bytes().starts_with(b".") && !entry.file_type()?.is_dir() {
            files.insert(entry.path());
        }
    }
    Ok(Some(files))
}

/// What tells one state of a file from another without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// A change within the clock's granularity would not show: a file changed this recently is read again next time.
    fn settled(meta: &Metadata) -> bool {
        const GRANULARITY: Duration = Duration::from_secs(2);
        let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(age.saturating_sub(GRANULARITY).as_secs()).is_ok_and(|now| meta.ctime() < now)
    }
}

/// A file as read.
struct Content {
    bytes: Vec<u8>,
    content: u64,
    stamp: Option<Stamp>,
}

impl Content {
    fn read(path: &Path) -> io::Result<Self> {
        // Without blocking, so that a pipe in the directory holds nobody up.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let file: File = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(meta.size()).unwrap_or(0).min(MAX_BYTES) + 1);
        file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        // One bit is set so that no content looks like an unreadable file.
        Ok(Self { content: hasher.finish() | 1, stamp: Stamp::settled(&meta).then(|| Stamp::of(&meta)), bytes })
    }
}

#[cfg(test)]
mod tests;
