//! Feature gates: those that are known, and how this node behaves. Nothing here switches anything yet: a gate may be named as the node
//! behaves, or at its default.

use serde_json::{Map, Value};

use crate::document::field::{At, Findings};
use crate::document::suggest;

/// Gates that are on.
const ON: &[&str] = &[
    "CPUCFSQuotaPeriod",
    "ContainerRestartRules",
    "HostnameOverride",
    "KubeletCgroupDriverFromCRI",
    "KubeletCrashLoopBackOffMax",
    "KubeletSeparateDiskGC",
    "PLEGOnDemandRelist",
    "PodLevelResources",
    "PodLifecycleSleepAction",
    "PodLifecycleSleepActionAllowZero",
    "PodObservedGenerationTracking",
    "PodReadyToStartContainersCondition",
    "PreventStaticPodAPIReferences",
    "RecursiveReadOnlyMounts",
    "RestartAllContainersOnContainerExits",
    "SidecarContainers",
    "SupplementalGroupsPolicy",
];

/// Gates that are on upstream, of features that this node does not have: it behaves as with the gate off.
const MISSING: &[&str] = &[
    "ContainerCheckpoint",
    "DisableCPUQuotaWithExclusiveCPUs",
    "DynamicResourceAllocation",
    "EnvFiles",
    "ImageVolume",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "KubeletEnsureSecretPulledImages",
    "KubeletServiceAccountTokenForCredentialProviders",
    "NodeSwap",
    "ProcMountType",
    "ResourceHealthStatus",
    "SELinuxMountReadWriteOncePod",
    "UserNamespacesSupport",
];

/// Gates that are off.
const OFF: &[&str] = &[
    "AllAlpha",
    "AllBeta",
    "ChangeContainerStatusOnKubeletRestart",
    "ClusterTrustBundleProjection",
    "ContainerStopSignals",
    "EmptyDirVolumeMode",
    "EventedPLEG",
    "ImageVolumeWithDigest",
    "InPlacePodVerticalScalingExclusiveCPUs",
    "InPlacePodVerticalScalingExclusiveMemory",
    "MemoryQoS",
    "PodCertificateRequest",
    "PodLogsQuerySplitStreams",
    "QOSReserved",
    "ReduceDefaultCrashLoopBackOffDecay",
    "RuntimeClassInImageCriAPI",
    "SELinuxMount",
    "UserNamespacesHostNetworkSupport",
    "VolumeBindMountOptions",
];

/// Names the gates that are not known, and those that would have to change how the node behaves.
pub(super) fn check(tree: &Map<String, Value>, errors: &mut Findings, warnings: &mut Findings) {
    let gates = tree.get("featureGates").and_then(Value::as_object);
    for (name, value) in gates.into_iter().flatten() {
        let at = At::of("featureGates").key(name);
        let Some(value) = value.as_bool() else { continue };
        let is_in = |list: &[&str]| list.contains(&name.as_str());
        match (is_in(ON), is_in(OFF), is_in(MISSING)) {
            (true, ..) if value => {}
            (_, true, _) | (_, _, true) if !value => {}
            // The default: nobody asks for anything by it.
            (_, _, true) => warnings.ignored(&at, value, "this node does not have this feature yet"),
            (on, off, _) if on || off => {
                errors.invalid(&at, value, format!("not supported yet: this node behaves as with {name}={on}"));
            }
            _ => errors.unknown(&at, suggest::did_you_mean(name, ON.iter().chain(OFF).chain(MISSING).copied())),
        }
    }
}
