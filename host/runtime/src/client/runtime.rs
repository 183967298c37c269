//! The calls of `RuntimeService`.

use std::time::Duration;

use polylet_proto::cri::*;

use super::{Client, LONGEST, Messages};
use crate::error::CallError;
use crate::operation::Operation;

/// The version of the interface that we speak.
const INTERFACE_VERSION: &str = "v1";

/// The runtime itself.
impl Client {
    /// Name and version of the runtime.
    pub async fn version(&self) -> Result<VersionResponse, CallError> {
        let request = VersionRequest { version: INTERFACE_VERSION.to_owned() };
        self.runtime_call(Operation::Version, "", request, async |mut c, q| c.version(q).await).await
    }

    /// Conditions, handlers and features; `verbose` adds free-form information.
    pub async fn status(&self, verbose: bool) -> Result<StatusResponse, CallError> {
        let request = StatusRequest { verbose };
        self.runtime_call(Operation::Status, "", request, async |mut c, q| c.status(q).await).await
    }

    /// What the runtime wants the agent to adopt.
    pub async fn runtime_config(&self) -> Result<RuntimeConfigResponse, CallError> {
        let request = RuntimeConfigRequest {};
        self.runtime_call(Operation::RuntimeConfig, "", request, async |mut c, q| c.runtime_config(q).await).await
    }

    /// Tells the runtime the range of pod addresses: one, or several separated by commas.
    pub async fn update_runtime_config(&self, pod_cidr: &str) -> Result<(), CallError> {
        let network = NetworkConfig { pod_cidr: pod_cidr.to_owned() };
        let request = UpdateRuntimeConfigRequest { runtime_config: Some(RuntimeConfig { network_config: Some(network) }) };
        let call = async |mut c: Rpc, q| c.update_runtime_config(q).await;
        self.runtime_call(Operation::UpdateRuntimeConfig, pod_cidr, request, call).await.map(drop)
    }
}

/// Sandboxes.
impl Client {
    /// Creates and starts a sandbox; its id. `handler` is empty for the default one.
    pub async fn run_pod_sandbox(&self, config: PodSandboxConfig, handler: &str) -> Result<String, CallError> {
        let object = pod_name(config.metadata.as_ref());
        let request = RunPodSandboxRequest { config: Some(config), runtime_handler: handler.to_owned() };
        let call = async |mut c: Rpc, q| c.run_pod_sandbox(q).await;
        self.runtime_call(Operation::RunPodSandbox, &object, request, call).await.map(|a| a.pod_sandbox_id)
    }

    /// Ends every process of the sandbox and gives its network back.
    pub async fn stop_pod_sandbox(&self, id: &str) -> Result<(), CallError> {
        let request = StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        let call = async |mut c: Rpc, q| c.stop_pod_sandbox(q).await;
        self.runtime_call(Operation::StopPodSandbox, id, request, call).await.map(drop)
    }

    /// Removes the sandbox and what containers it still has.
    pub async fn remove_pod_sandbox(&self, id: &str) -> Result<(), CallError> {
        let request = RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        let call = async |mut c: Rpc, q| c.remove_pod_sandbox(q).await;
        self.runtime_call(Operation::RemovePodSandbox, id, request, call).await.map(drop)
    }

    /// One sandbox, in full.
    pub async fn pod_sandbox_status(&self, id: &str, verbose: bool) -> Result<PodSandboxStatusResponse, CallError> {
        let request = PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose };
        self.runtime_call(Operation::PodSandboxStatus, id, request, async |mut c, q| c.pod_sandbox_status(q).await).await
    }

    /// The sandboxes that pass the filter.
    pub async fn list_pod_sandbox(&self, filter: Option<PodSandboxFilter>) -> Result<Vec<PodSandbox>, CallError> {
        let call = async |mut c: Rpc, q| c.list_pod_sandbox(q).await;
        let request = ListPodSandboxRequest { filter };
        self.runtime_call(Operation::ListPodSandbox, "", request, call).await.map(|a| a.items)
    }

    /// As [`list_pod_sandbox`](Self::list_pod_sandbox), in several messages.
    pub async fn stream_pod_sandboxes(
        &self,
        filter: Option<PodSandboxFilter>,
    ) -> Result<Messages<StreamPodSandboxesResponse>, CallError> {
        const OPERATION: Operation = Operation::StreamPodSandboxes;
        let call = async |mut c: Rpc, q| c.stream_pod_sandboxes(q).await;
        let stream = self.runtime_call(OPERATION, "", StreamPodSandboxesRequest { filter }, call).await?;
        Ok(Messages::new(OPERATION, stream))
    }

    /// Tells the runtime that the resources of the pod's cgroup have changed.
    pub async fn update_pod_sandbox_resources(
        &self,
        id: &str,
        overhead: Option<LinuxContainerResources>,
        resources: Option<LinuxContainerResources>,
    ) -> Result<(), CallError> {
        let request = UpdatePodSandboxResourcesRequest { pod_sandbox_id: id.to_owned(), overhead, resources };
        let call = async |mut c: Rpc, q| c.update_pod_sandbox_resources(q).await;
        self.runtime_call(Operation::UpdatePodSandboxResources, id, request, call).await.map(drop)
    }
}

/// Containers.
impl Client {
    /// Creates a container without starting it; its id. `sandbox_config` is what the sandbox was made from.
    pub async fn create_container(
        &self,
        sandbox: &str,
        config: ContainerConfig,
        sandbox_config: PodSandboxConfig,
    ) -> Result<String, CallError> {
        let container = config.metadata.as_ref().map_or("", |m| &m.name);
        let object = format!("{container} of {}", pod_name(sandbox_config.metadata.as_ref()));
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox_config),
        };
        let call = async |mut c: Rpc, q| c.create_container(q).await;
        self.runtime_call(Operation::CreateContainer, &object, request, call).await.map(|a| a.container_id)
    }

    /// Starts a created container.
    pub async fn start_container(&self, id: &str) -> Result<(), CallError> {
        let request = StartContainerRequest { container_id: id.to_owned() };
        let call = async |mut c: Rpc, q| c.start_container(q).await;
        self.runtime_call(Operation::StartContainer, id, request, call).await.map(drop)
    }

    /// Sends the stop signal and kills when `grace` has passed; in whole seconds, rounded up.
    pub async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), CallError> {
        const OPERATION: Operation = Operation::StopContainer;
        let request = StopContainerRequest { container_id: id.to_owned(), timeout: whole_seconds(grace) };
        let deadline = OPERATION.deadline_beyond(self.request_timeout, grace);
        let call = async |mut c: Rpc, q| c.stop_container(q).await;
        self.call(OPERATION, id, deadline, request, self.runtime.clone(), call).await.map(drop)
    }

    /// Removes the container, killing it if it runs.
    pub async fn remove_container(&self, id: &str) -> Result<(), CallError> {
        let request = RemoveContainerRequest { container_id: id.to_owned() };
        let call = async |mut c: Rpc, q| c.remove_container(q).await;
        self.runtime_call(Operation::RemoveContainer, id, request, call).await.map(drop)
    }

    /// One container, in full.
    pub async fn container_status(&self, id: &str, verbose: bool) -> Result<ContainerStatusResponse, CallError> {
        let request = ContainerStatusRequest { container_id: id.to_owned(), verbose };
        self.runtime_call(Operation::ContainerStatus, id, request, async |mut c, q| c.container_status(q).await).await
    }

    /// The containers that pass the filter.
    pub async fn list_containers(&self, filter: Option<ContainerFilter>) -> Result<Vec<Container>, CallError> {
        let call = async |mut c: Rpc, q| c.list_containers(q).await;
        let request = ListContainersRequest { filter };
        self.runtime_call(Operation::ListContainers, "", request, call).await.map(|a| a.containers)
    }

    /// As [`list_containers`](Self::list_containers), in several messages.
    pub async fn stream_containers(
        &self,
        filter: Option<ContainerFilter>,
    ) -> Result<Messages<StreamContainersResponse>, CallError> {
        const OPERATION: Operation = Operation::StreamContainers;
        let call = async |mut c: Rpc, q| c.stream_containers(q).await;
        let stream = self.runtime_call(OPERATION, "", StreamContainersRequest { filter }, call).await?;
        Ok(Messages::new(OPERATION, stream))
    }

    /// Changes limits and shares of a container that runs.
    pub async fn update_container_resources(&self, id: &str, resources: LinuxContainerResources) -> Result<(), CallError> {
        let request =
            UpdateContainerResourcesRequest { container_id: id.to_owned(), linux: Some(resources), ..Default::default() };
        let call = async |mut c: Rpc, q| c.update_container_resources(q).await;
        self.runtime_call(Operation::UpdateContainerResources, id, request, call).await.map(drop)
    }

    /// Asks the runtime to open the log file anew, after it was rotated.
    pub async fn reopen_container_log(&self, id: &str) -> Result<(), CallError> {
        let request = ReopenContainerLogRequest { container_id: id.to_owned() };
        let call = async |mut c: Rpc, q| c.reopen_container_log(q).await;
        self.runtime_call(Operation::ReopenContainerLog, id, request, call).await.map(drop)
    }
}

/// Processes in a container, and streams to them.
impl Client {
    /// Runs a command and waits for it. `timeout` in whole seconds, rounded up; zero: for ever.
    pub async fn exec_sync(&self, id: &str, cmd: Vec<String>, timeout: Duration) -> Result<ExecSyncResponse, CallError> {
        const OPERATION: Operation = Operation::ExecSync;
        let request = ExecSyncRequest { container_id: id.to_owned(), cmd, timeout: whole_seconds(timeout) };
        let deadline = OPERATION.deadline_beyond(self.request_timeout, timeout);
        let call = async |mut c: Rpc, q| c.exec_sync(q).await;
        self.call(OPERATION, id, deadline, request, self.runtime.clone(), call).await
    }

    /// Prepares a stream to a new process; the URL that serves it.
    pub async fn exec(&self, request: ExecRequest) -> Result<String, CallError> {
        let id = request.container_id.clone();
        self.runtime_call(Operation::Exec, &id, request, async |mut c, q| c.exec(q).await).await.map(|a| a.url)
    }

    /// Prepares a stream to the first process; the URL that serves it.
    pub async fn attach(&self, request: AttachRequest) -> Result<String, CallError> {
        let id = request.container_id.clone();
        self.runtime_call(Operation::Attach, &id, request, async |mut c, q| c.attach(q).await).await.map(|a| a.url)
    }

    /// Prepares streams to ports of the sandbox; the URL that serves them.
    pub async fn port_forward(&self, sandbox: &str, port: Vec<i32>) -> Result<String, CallError> {
        let request = PortForwardRequest { pod_sandbox_id: sandbox.to_owned(), port };
        let call = async |mut c: Rpc, q| c.port_forward(q).await;
        self.runtime_call(Operation::PortForward, sandbox, request, call).await.map(|a| a.url)
    }
}

/// Checkpoints.
impl Client {
    /// Writes a checkpoint of the container to a file.
    pub async fn checkpoint_container(&self, request: CheckpointContainerRequest) -> Result<(), CallError> {
        let id = request.container_id.clone();
        let call = async |mut c: Rpc, q| c.checkpoint_container(q).await;
        self.runtime_call(Operation::CheckpointContainer, &id, request, call).await.map(drop)
    }

    /// Writes a checkpoint of the sandbox and its containers.
    pub async fn checkpoint_pod(&self, request: CheckpointPodRequest) -> Result<(), CallError> {
        let id = request.pod_sandbox_id.clone();
        let call = async |mut c: Rpc, q| c.checkpoint_pod(q).await;
        self.runtime_call(Operation::CheckpointPod, &id, request, call).await.map(drop)
    }

    /// Brings a pod back from its checkpoint.
    pub async fn restore_pod(&self, request: RestorePodRequest) -> Result<RestorePodResponse, CallError> {
        let object = pod_name(request.config.as_ref().and_then(|config| config.metadata.as_ref()));
        self.runtime_call(Operation::RestorePod, &object, request, async |mut c, q| c.restore_pod(q).await).await
    }
}

/// Statistics, metrics and events.
impl Client {
    /// What one container uses; None if the runtime has no figures.
    pub async fn container_stats(&self, id: &str) -> Result<Option<ContainerStats>, CallError> {
        let request = ContainerStatsRequest { container_id: id.to_owned() };
        let call = async |mut c: Rpc, q| c.container_stats(q).await;
        self.runtime_call(Operation::ContainerStats, id, request, call).await.map(|a| a.stats)
    }

    /// What each container uses that passes the filter.
    pub async fn list_container_stats(&self, filter: Option<ContainerStatsFilter>) -> Result<Vec<ContainerStats>, CallError> {
        let call = async |mut c: Rpc, q| c.list_container_stats(q).await;
        let request = ListContainerStatsRequest { filter };
        self.runtime_call(Operation::ListContainerStats, "", request, call).await.map(|a| a.stats)
    }

    /// As [`list_container_stats`](Self::list_container_stats), in several messages.
    pub async fn stream_container_stats(
        &self,
        filter: Option<ContainerStatsFilter>,
    ) -> Result<Messages<StreamContainerStatsResponse>, CallError> {
        const OPERATION: Operation = Operation::StreamContainerStats;
        let call = async |mut c: Rpc, q| c.stream_container_stats(q).await;
        let stream = self.runtime_call(OPERATION, "", StreamContainerStatsRequest { filter }, call).await?;
        Ok(Messages::new(OPERATION, stream))
    }

    /// What one pod uses; None if the runtime has no figures.
    pub async fn pod_sandbox_stats(&self, id: &str) -> Result<Option<PodSandboxStats>, CallError> {
        let request = PodSandboxStatsRequest { pod_sandbox_id: id.to_owned() };
        let call = async |mut c: Rpc, q| c.pod_sandbox_stats(q).await;
        self.runtime_call(Operation::PodSandboxStats, id, request, call).await.map(|a| a.stats)
    }

    /// What each pod uses that passes the filter.
    pub async fn list_pod_sandbox_stats(&self, filter: Option<PodSandboxStatsFilter>) -> Result<Vec<PodSandboxStats>, CallError> {
        let call = async |mut c: Rpc, q| c.list_pod_sandbox_stats(q).await;
        let request = ListPodSandboxStatsRequest { filter };
        self.runtime_call(Operation::ListPodSandboxStats, "", request, call).await.map(|a| a.stats)
    }

    /// As [`list_pod_sandbox_stats`](Self::list_pod_sandbox_stats), in several messages.
    pub async fn stream_pod_sandbox_stats(
        &self,
        filter: Option<PodSandboxStatsFilter>,
    ) -> Result<Messages<StreamPodSandboxStatsResponse>, CallError> {
        const OPERATION: Operation = Operation::StreamPodSandboxStats;
        let call = async |mut c: Rpc, q| c.stream_pod_sandbox_stats(q).await;
        let stream = self.runtime_call(OPERATION, "", StreamPodSandboxStatsRequest { filter }, call).await?;
        Ok(Messages::new(OPERATION, stream))
    }

    /// What the metrics of [`list_pod_sandbox_metrics`](Self::list_pod_sandbox_metrics) mean.
    pub async fn list_metric_descriptors(&self) -> Result<Vec<MetricDescriptor>, CallError> {
        let call = async |mut c: Rpc, q| c.list_metric_descriptors(q).await;
        let request = ListMetricDescriptorsRequest {};
        self.runtime_call(Operation::ListMetricDescriptors, "", request, call).await.map(|a| a.descriptors)
    }

    /// The metrics of every pod.
    pub async fn list_pod_sandbox_metrics(&self) -> Result<Vec<PodSandboxMetrics>, CallError> {
        let call = async |mut c: Rpc, q| c.list_pod_sandbox_metrics(q).await;
        let request = ListPodSandboxMetricsRequest {};
        self.runtime_call(Operation::ListPodSandboxMetrics, "", request, call).await.map(|a| a.pod_metrics)
    }

    /// As [`list_pod_sandbox_metrics`](Self::list_pod_sandbox_metrics), in several messages.
    pub async fn stream_pod_sandbox_metrics(&self) -> Result<Messages<StreamPodSandboxMetricsResponse>, CallError> {
        const OPERATION: Operation = Operation::StreamPodSandboxMetrics;
        let call = async |mut c: Rpc, q| c.stream_pod_sandbox_metrics(q).await;
        let stream = self.runtime_call(OPERATION, "", StreamPodSandboxMetricsRequest {}, call).await?;
        Ok(Messages::new(OPERATION, stream))
    }

    /// Events from now on. A runtime written in Go answers this call only when it has a first event to tell: to wait for
    /// the answer is to wait for an event.
    pub async fn get_container_events(&self) -> Result<Messages<ContainerEventResponse>, CallError> {
        const OPERATION: Operation = Operation::GetContainerEvents;
        let call = async |mut c: Rpc, q| c.get_container_events(q).await;
        let stream = self.runtime_call(OPERATION, "", GetEventsRequest {}, call).await?;
        Ok(Messages::new(OPERATION, stream))
    }
}

type Rpc = runtime_service_client::RuntimeServiceClient<tonic::transport::Channel>;

fn pod_name(metadata: Option<&PodSandboxMetadata>) -> String {
    metadata.map_or_else(String::new, |m| format!("{}_{}({})", m.name, m.namespace, m.uid))
}

/// The runtime counts in seconds: a part of one is not lost. At most a century.
fn whole_seconds(duration: Duration) -> i64 {
    let duration = duration.min(LONGEST);
    let up = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    i64::try_from(up).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up_and_have_an_end() {
        let century = 3_153_600_000;
        for (duration, expected) in [
            (Duration::ZERO, 0),
            (Duration::from_millis(1), 1),
            (Duration::from_secs(30), 30),
            (Duration::from_millis(30_001), 31),
            (Duration::from_secs(i64::MAX.unsigned_abs()), century),
            (Duration::MAX, century),
        ] {
            assert_eq!(whole_seconds(duration), expected, "{duration:?}");
            assert!(expected.checked_mul(1_000_000_000).is_some(), "nanoseconds, as Go counts them");
        }
    }
}
