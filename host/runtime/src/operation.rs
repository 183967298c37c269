//! The calls of the CRI, their names in metrics and how long each may take.

use std::fmt;
use std::time::Duration;

macro_rules! operations {
    ($($rpc:ident => $name:literal,)*) => {
        /// One call of `RuntimeService` or `ImageService`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Operation {
            $(#[doc = concat!("The call `", stringify!($rpc), "`.")] $rpc,)*
        }

        impl Operation {
            /// Every call, in the contract's order.
            pub const ALL: &'static [Self] = &[$(Self::$rpc,)*];

            /// The label `operation_type` of `kubelet_runtime_operations_*`, such as `run_podsandbox`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$rpc => $name,)*
                }
            }

            /// The name in the contract, such as `RunPodSandbox`.
            pub fn rpc(self) -> &'static str {
                match self {
                    $(Self::$rpc => stringify!($rpc),)*
                }
            }
        }
    };
}

operations! {
    Version => "version",
    Status => "status",
    RuntimeConfig => "runtime_config",
    UpdateRuntimeConfig => "update_runtime_config",
    RunPodSandbox => "run_podsandbox",
    StopPodSandbox => "stop_podsandbox",
    RemovePodSandbox => "remove_podsandbox",
    PodSandboxStatus => "podsandbox_status",
    ListPodSandbox => "list_podsandbox",
    StreamPodSandboxes => "stream_podsandboxes",
    UpdatePodSandboxResources => "update_podsandbox_resources",
    CreateContainer => "create_container",
    StartContainer => "start_container",
    StopContainer => "stop_container",
    RemoveContainer => "remove_container",
    ContainerStatus => "container_status",
    ListContainers => "list_containers",
    StreamContainers => "stream_containers",
    UpdateContainerResources => "update_container",
    ReopenContainerLog => "reopen_container_log",
    ExecSync => "exec_sync",
    Exec => "exec",
    Attach => "attach",
    PortForward => "port_forward",
    CheckpointContainer => "checkpoint_container",
    CheckpointPod => "checkpoint_pod",
    RestorePod => "restore_pod",
    ContainerStats => "container_stats",
    ListContainerStats => "list_container_stats",
    StreamContainerStats => "stream_container_stats",
    PodSandboxStats => "podsandbox_stats",
    ListPodSandboxStats => "list_podsandbox_stats",
    StreamPodSandboxStats => "stream_podsandbox_stats",
    ListMetricDescriptors => "list_metric_descriptors",
    ListPodSandboxMetrics => "list_podsandbox_metrics",
    StreamPodSandboxMetrics => "stream_podsandbox_metrics",
    GetContainerEvents => "get_container_events",
    ListImages => "list_images",
    StreamImages => "stream_images",
    ImageStatus => "image_status",
    ImageFsInfo => "image_fs_info",
    PullImage => "pull_image",
    RemoveImage => "remove_image",
}

impl Operation {
    /// How long the call may take, where its request carries no time-out of its own; None: as long as it likes.
    ///
    /// `base` is `runtimeRequestTimeout`. A sandbox may take twice that, as its network is set up meanwhile; a pull is
    /// bounded by its progress only, which the runtime watches; a stream ends when the peer ends it.
    pub fn deadline(self, base: Duration) -> Option<Duration> {
        match self {
            Self::RunPodSandbox => Some(base.saturating_mul(2)),
            Self::PullImage
            | Self::StreamPodSandboxes
            | Self::StreamContainers
            | Self::StreamContainerStats
            | Self::StreamPodSandboxStats
            | Self::StreamPodSandboxMetrics
            | Self::StreamImages
            | Self::GetContainerEvents => None,
            _ => Some(base),
        }
    }

    /// As [`deadline`](Self::deadline), for StopContainer and ExecSync, whose request says how long the work itself may
    /// take. For ExecSync zero means: without limit.
    pub fn deadline_beyond(self, base: Duration, work: Duration) -> Option<Duration> {
        match self {
            Self::ExecSync if work.is_zero() => None,
            _ => self.deadline(base).map(|own| own.saturating_add(work)),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rpc())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_call_of_the_contract_has_a_name_of_its_own() {
        assert_eq!(Operation::ALL.len(), 43);
        assert_eq!(Operation::ALL.iter().map(|op| op.name()).collect::<BTreeSet<_>>().len(), 43);
    }

    #[test]
    fn deadlines() {
        const BASE: Duration = Duration::from_secs(120);
        let s = |seconds| Some(Duration::from_secs(seconds));
        let cases = [
            (Operation::Version, s(120)),
            (Operation::RunPodSandbox, s(240)),
            (Operation::Attach, s(120)),
            (Operation::PullImage, None),
            (Operation::GetContainerEvents, None),
            (Operation::StreamImages, None),
        ];
        for (operation, expected) in cases {
            assert_eq!(operation.deadline(BASE), expected, "{operation}");
        }
        let beyond = [
            (Operation::StopContainer, 30, s(150)),
            (Operation::StopContainer, 0, s(120)),
            (Operation::ExecSync, 5, s(125)),
            (Operation::ExecSync, 0, None),
        ];
        for (operation, work, expected) in beyond {
            assert_eq!(operation.deadline_beyond(BASE, Duration::from_secs(work)), expected, "{operation} of {work} s");
        }
    }
}
