//! Keys of labels and annotations by which sandboxes and containers are known again. Upstream's: a node can be switched over either way.

/// What all of them begin with.
pub const PREFIX: &str = "io.kubernetes.";

/// Label: the pod's name.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// Label: the pod's namespace.
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// Label: the pod's UID.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// Label of a container: its name in the spec.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// Annotation of a container: the hash of its spec, in hexadecimal digits.
pub const HASH: &str = "io.kubernetes.container.hash";
/// Annotation of a container: the number of its attempt, in decimal.
pub const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
/// Annotation of a container: `terminationMessagePath`.
pub const MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
/// Annotation of a container: `terminationMessagePolicy`.
pub const MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
/// Annotation of a container: its pod's `deletionGracePeriodSeconds`, in decimal, where it has one.
pub const DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";
/// Annotation of a container: its pod's `terminationGracePeriodSeconds`, in decimal, where it has one.
pub const TERMINATION_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";
/// Annotation of a container: its preStop handler as JSON, where it has one.
pub const PRE_STOP: &str = "io.kubernetes.container.preStopHandler";
/// Annotation of a container: its ports as JSON, where it has any.
pub const PORTS: &str = "io.kubernetes.container.ports";
