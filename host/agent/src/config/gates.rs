//! Feature gates: those that are known, and how this node behaves. Nothing here switches anything yet: a gate may be named as the node
//! behaves, or at its default.

use serde_json::{Map, Value};

use crate::document::field::{At, Findings};
use crate::document::suggest;

/// Gates that are on.
const ON: &[&str] = &[
    "CPUCFSQuotaPeriod",
    "ContainerRestartRules",
    "EnvFiles",
    "HostnameOverride",
    "ImageVolume",
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
    "ProcMountType",
    "RecursiveReadOnlyMounts",
    "RestartAllContainersOnContainerExits",
    "SidecarContainers",
    "SupplementalGroupsPolicy",
    "UserNamespacesSupport",
];

/// Gates that are on upstream, of features that this node does not have: it behaves as with the gate off.
const MISSING: &[&str] = &[
    "ComponentFlagz",
    "ComponentStatusz",
    "ContainerCheckpoint",
    "DisableCPUQuotaWithExclusiveCPUs",
    "DynamicResourceAllocation",
    "ExtendWebSocketsToKubelet",
    "GracefulNodeShutdown",
    "GracefulNodeShutdownBasedOnPodPriority",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "KubeletEnsureSecretPulledImages",
    "KubeletFineGrainedAuthz",
    "KubeletPSI",
    "KubeletServiceAccountTokenForCredentialProviders",
    "NodeDeclaredFeatures",
    "NodeLogQuery",
    "NodeSwap",
    "ReloadKubeletClientCAFile",
    "ReloadKubeletServerCertificateFile",
    "ResourceHealthStatus",
    "RotateKubeletServerCertificate",
    "SELinuxMountReadWriteOncePod",
];

/// Gates that are off upstream, of features that this node has: it behaves as with the gate on.
const EARLY: &[&str] = &["AtomicWriteVolumeUserFields", "ContainerStopSignals", "EmptyDirVolumeMode"];

/// Gates that are off.
const OFF: &[&str] = &[
    "AllAlpha",
    "AllBeta",
    "ChangeContainerStatusOnKubeletRestart",
    "ClusterTrustBundleProjection",
    "EventedPLEG",
    "ImageVolumeWithDigest",
    "InPlacePodVerticalScalingExclusiveCPUs",
    "InPlacePodVerticalScalingExclusiveMemory",
    "LocalStorageCapacityIsolationFSQuotaMonitoring",
    "MemoryQoS",
    "PodAndContainerStatsFromCRI",
    "PodCertificateRequest",
    "PodLevelResourceManagers",
    "PodLogsQuerySplitStreams",
    "PodsAPI",
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
        let (on, off) = (is_in(ON), is_in(OFF));
        match (on || is_in(EARLY), off || is_in(MISSING)) {
            (true, _) if value => {}
            (_, true) if !value => {}
            (false, false) => {
                errors.unknown(&at, suggest::did_you_mean(name, [ON, EARLY, OFF, MISSING].into_iter().flatten().copied()));
            }
            _ if on || off => {
                errors.invalid(&at, value, format!("not supported yet: this node behaves as with {name}={on}"));
            }
            // The default: nobody asks for anything by it.
            (true, _) => warnings.ignored(&at, value, "this node has this feature all the same"),
            _ => warnings.ignored(&at, value, "this node does not have this feature yet"),
        }
    }
}
