//! Feature gates: those that are known, with the default of each. Nothing here switches anything yet: a gate may be named at its default,
//! which is how this node behaves.

use serde_json::{Map, Value};

use crate::document::field::{At, Findings};
use crate::document::suggest;

/// Gates that are on.
const ON: &[&str] = &[
    "CPUCFSQuotaPeriod",
    "ContainerCheckpoint",
    "ContainerRestartRules",
    "DisableCPUQuotaWithExclusiveCPUs",
    "DynamicResourceAllocation",
    "EnvFiles",
    "HostnameOverride",
    "ImageVolume",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "KubeletCgroupDriverFromCRI",
    "KubeletCrashLoopBackOffMax",
    "KubeletEnsureSecretPulledImages",
    "KubeletSeparateDiskGC",
    "KubeletServiceAccountTokenForCredentialProviders",
    "NodeSwap",
    "PLEGOnDemandRelist",
    "PodLevelResources",
    "PodLifecycleSleepAction",
    "PodLifecycleSleepActionAllowZero",
    "PodObservedGenerationTracking",
    "PodReadyToStartContainersCondition",
    "PreventStaticPodAPIReferences",
    "ProcMountType",
    "RecursiveReadOnlyMounts",
    "ResourceHealthStatus",
    "RestartAllContainersOnContainerExits",
    "SELinuxMountReadWriteOncePod",
    "SidecarContainers",
    "SupplementalGroupsPolicy",
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
pub(super) fn check(tree: &Map<String, Value>, errors: &mut Findings) {
    let gates = tree.get("featureGates").and_then(Value::as_object);
    for (name, value) in gates.into_iter().flatten() {
        let at = At::of("featureGates").key(name);
        let Some(value) = value.as_bool() else { continue };
        let known = if ON.contains(&name.as_str()) { Some(true) } else { OFF.contains(&name.as_str()).then_some(false) };
        match known {
            Some(default) if default == value => {}
            Some(default) => errors.invalid(&at, value, format!("not supported yet: this node behaves as with {name}={default}")),
            None => errors.unknown(&at, suggest::did_you_mean(name, ON.iter().chain(OFF).copied())),
        }
    }
}
