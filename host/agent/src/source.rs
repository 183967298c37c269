//! Pods that this node declares itself: manifests in a directory or a file, or fetched from a URL.
//!
//! The way of a manifest, each step a function of its own: [`decode`] (bytes → `v1::Pod`, nothing in it ignored) → [`identity`] (name,
//! UID, annotations) → [`defaults`] (what the API server would fill in) → [`validate`] (what it would refuse) → [`support`] (what a
//! static pod may not ask for, and what this node cannot do yet). [`load`] is all of them; [`directory`] reads files, [`watch`] tells
//! when to; [`fetch`] fetches what [`url`] takes. [`adoption`] lets a pod that another agent began run on; [`limits`] tells of what is declared and
//! not enforced.
//!
//! **Invariant:** a bad file harms nothing but itself; it is named once for each content it has, or for each reason why it cannot be read.

pub mod adoption;
pub mod decode;
pub mod defaults;
pub mod directory;
pub mod fetch;
pub mod identity;
pub mod limits;
pub mod support;
pub mod sysctls;
pub mod url;
pub mod validate;
pub mod watch;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use polylet_core::pod::{Pod, PodError, Source};
use polylet_core::say::{About, Say};
use polylet_core::time::Wall;

use self::adoption::Adoption;
use self::identity::{SEEN_ANNOTATION, UidBy};
use crate::document::DocumentError;
use crate::document::field::FieldError;
use crate::tell;

/// Faults of one manifest that are told. Beyond them they are counted: who wrote thousands does not read them, and a log is no place
/// for them.
const MOST_ERRORS: usize = 100;

/// Where a manifest was found, by whom, and when.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// [`Source::File`] or [`Source::Http`].
    pub source: Source,
    /// Path of the file, or the URL: part of the pod's UID.
    pub place: &'a str,
    /// Name of this node, lower case.
    pub node_name: &'a str,
    /// When this content was first seen.
    pub seen: Timestamp,
    /// `allowedUnsafeSysctls` of the configuration.
    pub sysctls: &'a [String],
}

/// A manifest's bytes as a pod that can run: decoded, named, defaulted and checked.
pub fn load(bytes: &[u8], origin: &Origin<'_>) -> Result<v1::Pod, SourceError> {
    load_adopting(bytes, origin, None)
}

/// As [`load`], where the pod may be one that runs already.
pub fn load_adopting(bytes: &[u8], origin: &Origin<'_>, adoption: Option<&mut Adoption>) -> Result<v1::Pod, SourceError> {
    let pod = decode::decode(bytes, origin.place)?;
    complete(pod, origin, origin.place, adoption)
}

/// Names, defaults and checks a decoded pod. `file` is what errors call its manifest.
fn complete(mut pod: v1::Pod, origin: &Origin<'_>, file: &str, adoption: Option<&mut Adoption>) -> Result<v1::Pod, SourceError> {
    let uid_by = identity::identify(&mut pod, origin);
    defaults::default_pod(&mut pod);
    let mut errors = validate::validate(&pod);
    errors.extend(support::forbidden_references(&pod));
    errors.extend(support::unsupported(&pod, origin.sysctls));
    if !errors.is_empty() {
        return Err(SourceError::fields(file, errors));
    }
    if let (Some(adoption), UidBy::Content) = (adoption, uid_by) {
        adoption.adopt(&mut pod);
    }
    Ok(pod)
}

/// A complete pod as the node takes it: the one `before` where it is still the same.
fn parsed(mut object: v1::Pod, origin: &Origin<'_>, file: &Path, before: Option<&Arc<Pod>>) -> Result<Arc<Pod>, SourceError> {
    let before = before.filter(|before| object.metadata.uid.as_deref() == Some(before.uid.as_str()));
    if let (Some(before), Some(annotations)) = (before, object.metadata.annotations.as_mut()) {
        // Still the same pod: it was first seen when it was first seen.
        annotations.extend(before.annotations.get(SEEN_ANNOTATION).map(|seen| (SEEN_ANNOTATION.to_owned(), seen.clone())));
        if object == *before.object {
            return Ok(before.clone());
        }
    }
    let seen = before.map_or_else(|| Wall(u64::try_from(origin.seen.as_millisecond()).unwrap_or(0)), |before| before.created);
    let pod = Pod::parse(Arc::new(object), origin.source, seen);
    pod.map(Arc::new).map_err(|cause| SourceError::Pod { file: file.to_owned(), cause })
}

/// What a manifest gives, or the panic of whoever read it: the fault is ours, and still no other manifest's.
fn guarded<T>(file: &str, read: impl FnOnce() -> Result<T, SourceError>) -> Result<T, SourceError> {
    // What a panic can leave half done is an adoption: a pod that is not adopted is begun anew, as one that was never there.
    std::panic::catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|payload| Err(SourceError::Panicked { file: file.to_owned(), why: tell::panicked(&*payload) }))
}

/// News of a source.
#[derive(Debug)]
pub struct Report {
    /// The full set of pods where it changed (and at the first reading); None where it is as before, or not known yet.
    pub pods: Option<Vec<Arc<Pod>>>,
    /// What is wrong, where that is new.
    pub problems: Vec<SourceError>,
    /// All that is wrong now, told before or not.
    pub standing: Vec<String>,
}

/// What is wrong with the manifests now, by their source: for whoever asks after it was told.
#[derive(Debug, Default)]
pub struct Faults(Mutex<BTreeMap<&'static str, Vec<String>>>);

impl Faults {
    /// Takes what is wrong with those of one source, in place of what was.
    pub fn set(&self, source: Source, standing: Vec<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(identity::source_name(source), standing);
    }

    /// All of it.
    pub fn list(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().flatten().cloned().collect()
    }
}

/// Why a manifest gives no pod. Every variant names the file.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It could not be read.
    #[error("read manifest {}: {cause}", file.display())]
    Read {
        /// The file or directory.
        file: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// None of them could be looked at.
    #[error("manifests at {}: {cause}; the pods that were declared there stay{}", path.display(), until(cause))]
    Directory {
        /// The directory, or the file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// Nothing is there: the same as no manifests.
    #[error("manifests at {}: there is no such file or directory: no pods are declared, those of files that run are ended", path.display())]
    Absent {
        /// The directory, or the file.
        path: PathBuf,
    },
    /// A URL gives no manifests.
    #[error("manifests at {url}: {cause}")]
    Fetch {
        /// The URL, without what may be secret in it.
        url: String,
        /// Why.
        cause: String,
    },
    /// A URL declared pods before, which stay.
    #[error("{cause}; the pods that were declared there stay")]
    Stay {
        /// What is wrong now.
        cause: Box<SourceError>,
    },
    /// It is not one YAML or JSON document.
    #[error("manifest {file}: {cause}")]
    Document {
        /// The file.
        file: String,
        /// Why.
        cause: DocumentError,
    },
    /// It is a document, but not a pod that can run here.
    #[error("manifest {file}: {}{}", .errors.iter().map(FieldError::to_string).collect::<Vec<_>>().join("; "), and_more(*.more))]
    Fields {
        /// The file.
        file: String,
        /// What is wrong with it, in the order of the checks: the first hundred.
        errors: Vec<FieldError>,
        /// How many more were found.
        more: usize,
    },
    /// The agent has a fault that this content brings to light.
    #[error("manifest {file}: the agent could not read it, which is a fault of the agent: {why}")]
    Panicked {
        /// The file.
        file: String,
        /// What the panic said.
        why: String,
    },
    /// It is an API object that the node cannot read as a pod.
    #[error("manifest {}: {cause}", file.display())]
    Pod {
        /// The file.
        file: PathBuf,
        /// Why.
        cause: PodError,
    },
    /// Another file declares the same pod.
    #[error("manifest {}: {field} {value:?} is declared by {} already; each pod needs its own", file.display(), other.display())]
    Taken {
        /// The file that is left out.
        file: PathBuf,
        /// `metadata.name` or `metadata.uid`.
        field: &'static str,
        /// What both declare.
        value: String,
        /// The file that is kept.
        other: PathBuf,
        /// The pod of the file that is left out.
        pod: Arc<Pod>,
    },
    /// The file had a good content before, whose pod stays.
    #[error("{cause}; pod {pod} of its last good content stays until the agent is restarted")]
    Kept {
        /// What is wrong with the file now.
        cause: Box<SourceError>,
        /// Name of the pod.
        pod: String,
    },
}

/// How long the pods of a directory stay that cannot be looked at. One that is not there when the agent starts is an empty one; of one
/// that is there nothing is known then.
fn until(cause: &std::io::Error) -> &'static str {
    if cause.kind() == std::io::ErrorKind::NotFound { " until the agent is restarted" } else { "" }
}

fn and_more(more: usize) -> String {
    if more > 0 { format!("; and {more} more") } else { String::new() }
}

impl SourceError {
    /// Upstream's event, where it has one: of a second pod of one name.
    pub fn event(&self) -> Option<Say> {
        let Self::Taken { field: "metadata.name", pod, .. } = self else { return None };
        let (uid, namespace, name) = (pod.uid.clone(), pod.namespace.clone(), pod.name.clone());
        let source = identity::source_name(pod.source);
        let message = format!("Error validating pod {} from {source} due to duplicate pod name {name:?}, ignoring", pod.desc());
        let about = About::Pod { uid, namespace, name, container: None };
        Some(Say { about, warning: true, reason: "FailedValidation", message })
    }

    fn fields(file: &str, mut errors: Vec<FieldError>) -> Self {
        let more = errors.len().saturating_sub(MOST_ERRORS);
        errors.truncate(MOST_ERRORS);
        Self::Fields { file: file.to_owned(), errors, more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_while_a_manifest_is_read_is_an_error_of_this_manifest() {
        assert_eq!(guarded("f.yaml", || Ok(7)).unwrap(), 7);
        let error = guarded::<()>("f.yaml", || panic!("of its own making\nin two lines")).unwrap_err().to_string();
        let expected = "manifest f.yaml: the agent could not read it, which is a fault of the agent: panicked: of its own making\\nin two \
                        lines";
        assert_eq!(error, expected);
    }

    #[test]
    fn of_thousands_of_faults_a_hundred_are_told() {
        let fields: String = (0..5000).map(|n| format!("k{n}: 1, ")).collect();
        let ports = vec!["{containerPort: 0}"; 3000].join(",");
        let origin = Origin { source: Source::File, place: "f", node_name: "n1", seen: Timestamp::UNIX_EPOCH, sysctls: &[] };
        for (manifest, more) in [
            (format!("{{apiVersion: v1, kind: Pod, {fields}}}"), 4900),
            (
                format!(
                    "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{{name: c, image: i, ports: [{ports}]}}]}}}}"
                ),
                2900,
            ),
        ] {
            let error = load(manifest.as_bytes(), &origin).unwrap_err().to_string();
            assert!(error.ends_with(&format!("; and {more} more")), "{}", &error[error.len() - 200..]);
            assert_eq!(error.matches("; ").count(), 100);
        }
    }
}
