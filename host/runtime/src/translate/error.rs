//! Why a pod cannot be put into the runtime's words: `CreateContainerConfigError`, in upstream's words where it has them.

use polylet_core::event::{CallError, CallErrorKind};

use crate::operation::Operation;

/// The configuration asks for something that is not there or cannot be done. To try again unchanged does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TranslateError {
    /// Named by a reference, but not of this pod.
    #[error("container {container} not found")]
    NoContainer {
        /// Which.
        container: String,
    },
    /// A host's name, or part of one, that DNS does not allow.
    #[error("pod {what} {value:?} is not a valid DNS {wanted}")]
    BadName {
        /// `HostnameOverride`, `Hostname` or `Subdomain`.
        what: &'static str,
        /// As the spec has it.
        value: String,
        /// `label` or `subdomain`.
        wanted: &'static str,
    },
    /// `setHostnameAsFQDN` with a name that no kernel takes.
    #[error(
        "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long (64 characters is the max, \
         {} characters requested)",
        fqdn.len()
    )]
    HostnameTooLong {
        /// The name.
        fqdn: String,
    },
    /// `hostUsers: false`, and the runtime has no user namespaces.
    #[error("can't set `spec.hostUsers: false`, runtime does not support user namespaces")]
    NoUserNamespaces,
    /// An ephemeral container's target is not there.
    #[error("unable to find target container {target}")]
    NoTarget {
        /// The target's name.
        target: String,
    },
    /// Something that the API has and this node has not learnt.
    #[error("{field}: {what}: not supported by this node yet")]
    Unsupported {
        /// Path of the field; in the container, unless it begins with `spec`.
        field: String,
        /// What it stands for.
        what: &'static str,
    },
    /// A ConfigMap or Secret that must be there.
    #[error("couldn't get {kind} {object} ({field}): this node reads no objects from an API server")]
    NoObject {
        /// `configMap` or `secret`.
        kind: &'static str,
        /// Namespace and name.
        object: String,
        /// Path of the field that refers to it, in the container.
        field: String,
    },
    /// `fileKeyRef` to a volume that is not an emptyDir of the pod.
    #[error("cannot find the volume {volume:?} referenced by FileKeyRef")]
    NoEnvVolume {
        /// Name of the volume.
        volume: String,
    },
    /// A file of variables that cannot be read, or is not of their form.
    #[error("couldn't parse env file")]
    BadEnvFile,
    /// A file of variables without this one.
    #[error("environment variable key {key:?} not found in file")]
    NoEnvKey {
        /// Name of the variable in the file.
        key: String,
    },
    /// `fieldRef` to a field that is not served.
    #[error("unsupported fieldPath: {path}")]
    BadField {
        /// As the spec has it.
        path: String,
    },
    /// `resourceFieldRef` to a resource that is not served.
    #[error("unsupported container resource : {resource}")]
    BadResource {
        /// As the spec has it.
        resource: String,
    },
    /// An amount that cannot be read.
    #[error("{field}: {value:?} is not a quantity")]
    BadQuantity {
        /// What it is an amount of.
        field: String,
        /// What was there.
        value: String,
    },
    /// A mount of a volume that was not made ready.
    #[error("cannot find volume {volume:?} to mount into container {container:?}")]
    NoVolume {
        /// Which volume.
        volume: String,
        /// For which container.
        container: String,
    },
    /// A mount of an image, which the runtime cannot make.
    #[error("volume {volume:?}: images cannot be mounted: {why}")]
    NoImageMounts {
        /// Which volume.
        volume: String,
        /// Why not.
        why: String,
    },
    /// A mount of a part of an image, in whose place the runtime would mount all of it.
    #[error(
        "volume {volume:?}: parts of images cannot be mounted (volumeMounts[{index}].{field} {path:?}): {why}; without {field} the \
         image can be mounted whole"
    )]
    NoImageParts {
        /// Which volume.
        volume: String,
        /// Place of the mount in the container's list.
        index: usize,
        /// `subPath` or `subPathExpr`.
        field: &'static str,
        /// What it comes to.
        path: String,
        /// Why not.
        why: String,
    },
    /// `subPathExpr` with variables that have no value.
    #[error("missing value for {}", names.join(", "))]
    MissingValues {
        /// Names of the variables.
        names: Vec<String>,
    },
    /// `subPath`, or what `subPathExpr` comes to, that begins with a slash.
    #[error("error SubPath `{path}` must not be an absolute path")]
    AbsoluteSubPath {
        /// The path.
        path: String,
    },
    /// The same, with `..` in it.
    #[error("unable to provision SubPath `{path}`: must not contain '..'")]
    SubPathUpwards {
        /// The path.
        path: String,
    },
    /// `mountPropagation` of a mode that the API does not know.
    #[error("invalid MountPropagation mode: {mode:?}")]
    BadPropagation {
        /// As the spec has it.
        mode: String,
    },
    /// `lifecycle.stopSignal` that the runtime's contract does not know.
    #[error("unknown stop signal {name:?}")]
    BadSignal {
        /// As the spec has it.
        name: String,
    },
    /// `recursiveReadOnly` that cannot be had.
    #[error("failed to resolve recursive read-only mode: volume {volume:?} requested recursive read-only mode, but {why}")]
    RecursiveReadOnly {
        /// Which volume.
        volume: String,
        /// Why not.
        why: String,
    },
    /// A seccomp profile of type `Localhost` without a name.
    #[error("localhostProfile must be set if seccompProfile type is Localhost.")]
    NoSeccompProfile,
    /// An AppArmor profile of type `Localhost` without a name.
    #[error("missing localhost apparmor profile name")]
    NoAppArmorProfile,
    /// A profile of a type that the API does not know.
    #[error("unknown {kind} profile type: {value:?}")]
    BadProfile {
        /// `seccomp` or `apparmor`.
        kind: &'static str,
        /// As the spec has it.
        value: String,
    },
    /// `supplementalGroupsPolicy` that the API does not know.
    #[error("unsupported supplementalGroupsPolicy: {policy}")]
    BadGroupsPolicy {
        /// As the spec has it.
        policy: String,
    },
    /// `runAsNonRoot`, and the container would be root, or might be.
    #[error("{why}")]
    MustNotBeRoot {
        /// Why, in a sentence.
        why: String,
    },
}

impl TranslateError {
    /// As the answer to an effect: the call that was to be made, and for what.
    pub fn into_call_error(self, operation: Operation, object: impl Into<String>) -> CallError {
        CallError {
            operation: operation.rpc().to_owned(),
            object: object.into(),
            kind: CallErrorKind::Config,
            message: self.to_string(),
        }
    }
}
