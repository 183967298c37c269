//! Why a pod cannot be put into the runtime's words: `CreateContainerConfigError`, in upstream's words where it has them.

use polylet_core::event::{CallError, CallErrorKind};

/// The configuration asks for something that is not there or cannot be done. To try again unchanged does not help, unless an
/// object that is missing appears.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TranslateError {
    /// Not of this pod.
    #[error("the pod has no container {container:?}")]
    NoSuchContainer {
        /// Which.
        container: String,
    },
    /// `hostnameOverride` is no name.
    #[error("Pod hostname override {hostname:?} is not a valid DNS subdomain")]
    BadHostname {
        /// As the spec has it.
        hostname: String,
    },
    /// `setHostnameAsFQDN` with a name that no kernel takes.
    #[error(
        "failed to construct FQDN from Pod hostname and cluster domain, FQDN {fqdn} is too long (64 characters is the max, {} characters requested)",
        fqdn.len()
    )]
    HostnameTooLong {
        /// The name.
        fqdn: String,
    },
    /// `hostUsers: false`, and the runtime handler has no user namespaces.
    #[error("can't set `spec.hostUsers: false`, runtime does not support user namespaces")]
    NoUserNamespaces,
    /// `hostUsers: false`, and no ids were given to the pod.
    #[error("can't set `spec.hostUsers: false`, no range of user ids was allocated to the pod")]
    NoIds,
    /// `shareProcessNamespace` or a target that is not there.
    #[error("unable to find target container {target:?}")]
    NoTarget {
        /// The target's name.
        target: String,
    },
    /// A ConfigMap, a Secret or a key of one.
    #[error("{missing}")]
    MissingObject {
        /// What is missing, in a sentence.
        missing: String,
    },
    /// `fieldRef` to a field that is not served.
    #[error("unsupported fieldPath: {path}")]
    BadField {
        /// As the spec has it.
        path: String,
    },
    /// `resourceFieldRef` that cannot be answered.
    #[error("{why}")]
    BadResource {
        /// Why, in a sentence.
        why: String,
    },
    /// `fileKeyRef` to a file that is not there or not well formed.
    #[error("couldn't parse env file: {why}")]
    BadEnvFile {
        /// Why.
        why: String,
    },
    /// `subPathExpr` with a variable that is not there or empty.
    #[error("missing value for {expression:?}")]
    MissingValue {
        /// The expression.
        expression: String,
    },
    /// A mount of a volume that was not made ready.
    #[error("cannot find volume {volume:?} to mount into container {container:?}")]
    NoVolume {
        /// Which volume.
        volume: String,
        /// For which container.
        container: String,
    },
    /// A sub-path that leaves its volume, or was not made ready.
    #[error("failed to prepare subPath for volumeMount {volume:?} of container {container:?}")]
    SubPath {
        /// Which volume.
        volume: String,
        /// For which container.
        container: String,
    },
    /// `recursiveReadOnly` that cannot be had.
    #[error("volume {volume:?} requested recursive read-only mode, but {why}")]
    RecursiveReadOnly {
        /// Which volume.
        volume: String,
        /// Why not.
        why: &'static str,
    },
    /// A profile of type `Localhost` without a name.
    #[error("localhostProfile must be set if {kind} profile type is Localhost.")]
    NoProfile {
        /// `seccomp` or `AppArmor`.
        kind: &'static str,
    },
    /// A value outside of what is allowed.
    #[error("{field}: {value:?} is not {wanted}")]
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// What was there.
        value: String,
        /// What would be right.
        wanted: &'static str,
    },
    /// `runAsNonRoot`, and the container would be root, or might be.
    #[error("{why}")]
    MustNotBeRoot {
        /// Why, in a sentence.
        why: String,
    },
}

impl TranslateError {
    /// As the answer to an effect.
    pub fn into_call_error(self, operation: crate::Operation, object: impl Into<String>) -> CallError {
        CallError {
            operation: operation.rpc().to_owned(),
            object: object.into(),
            kind: CallErrorKind::Config,
            message: self.to_string(),
        }
    }
}
