//! `RuntimeService` of the fake. What is not written here is unimplemented.

use runtime_service_server::RuntimeService;

use super::*;

#[tonic::async_trait]
impl RuntimeService for Fake {
    async fn version(&self, q: Request<VersionRequest>) -> Result<Response<VersionResponse>, Status> {
        self.serve(Operation::Version, q, |_| String::new(), |world, _| Ok(world.version.clone())).await
    }

    async fn status(&self, q: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        self.serve(Operation::Status, q, |_| String::new(), |world, _| Ok(world.status.clone())).await
    }

    async fn runtime_config(&self, q: Request<RuntimeConfigRequest>) -> Result<Response<RuntimeConfigResponse>, Status> {
        let answer = |world: &mut World, _| match world.cgroup_driver {
            Some(driver) => Ok(RuntimeConfigResponse { linux: Some(LinuxRuntimeConfiguration { cgroup_driver: driver.into() }) }),
            None => Err(Status::unimplemented("unknown method RuntimeConfig for service runtime.v1.RuntimeService")),
        };
        self.serve(Operation::RuntimeConfig, q, |_| String::new(), answer).await
    }

    async fn run_pod_sandbox(&self, q: Request<RunPodSandboxRequest>) -> Result<Response<RunPodSandboxResponse>, Status> {
        let object = |q: &RunPodSandboxRequest| q.config.clone().unwrap_or_default().metadata.unwrap_or_default().name;
        let work = |world: &mut World, q: RunPodSandboxRequest| {
            let config = q.config.ok_or_else(|| Status::invalid_argument("no config"))?;
            let taken = world.sandboxes.values().find(|(status, _)| status.metadata == config.metadata);
            if let Some((status, _)) = taken {
                return Err(Status::already_exists(format!("name is reserved for {:?}", status.id)));
            }
            let number = world.tick();
            let id = format!("s{number}");
            let linux = config.linux.as_ref().and_then(|l| l.security_context.as_ref());
            let options = linux.and_then(|s| s.namespace_options.clone());
            let host = options.as_ref().is_some_and(|o| o.network() == NamespaceMode::Node);
            let network = PodSandboxNetworkStatus { ip: format!("10.1.0.{number}"), additional_ips: Vec::new() };
            let status = PodSandboxStatus {
                id: id.clone(),
                metadata: config.metadata.clone(),
                state: PodSandboxState::SandboxReady.into(),
                created_at: number as i64 * 1_000_000_000,
                network: (!host).then_some(network),
                linux: Some(LinuxPodSandboxStatus { namespaces: Some(Namespace { options }) }),
                labels: config.labels.clone(),
                annotations: config.annotations.clone(),
                runtime_handler: q.runtime_handler,
            };
            world.sandboxes.insert(id.clone(), (status, config));
            Ok(RunPodSandboxResponse { pod_sandbox_id: id })
        };
        self.serve(Operation::RunPodSandbox, q, object, work).await
    }

    async fn stop_pod_sandbox(&self, q: Request<StopPodSandboxRequest>) -> Result<Response<StopPodSandboxResponse>, Status> {
        let work = |world: &mut World, q: StopPodSandboxRequest| {
            let (sandbox, _) = world.sandboxes.get_mut(&q.pod_sandbox_id).ok_or_else(|| Status::not_found("sandbox"))?;
            sandbox.state = PodSandboxState::SandboxNotready.into();
            Ok(StopPodSandboxResponse {})
        };
        self.serve(Operation::StopPodSandbox, q, |q| q.pod_sandbox_id.clone(), work).await
    }

    async fn remove_pod_sandbox(
        &self,
        q: Request<RemovePodSandboxRequest>,
    ) -> Result<Response<RemovePodSandboxResponse>, Status> {
        let work = |world: &mut World, q: RemovePodSandboxRequest| {
            world.sandboxes.remove(&q.pod_sandbox_id);
            world.containers.retain(|_, (.., sandbox)| *sandbox != q.pod_sandbox_id);
            Ok(RemovePodSandboxResponse {})
        };
        self.serve(Operation::RemovePodSandbox, q, |q| q.pod_sandbox_id.clone(), work).await
    }

    async fn pod_sandbox_status(
        &self,
        q: Request<PodSandboxStatusRequest>,
    ) -> Result<Response<PodSandboxStatusResponse>, Status> {
        let work = |world: &mut World, q: PodSandboxStatusRequest| {
            let (status, _) = world.sandboxes.get(&q.pod_sandbox_id).ok_or_else(|| Status::not_found("sandbox"))?;
            Ok(PodSandboxStatusResponse { status: Some(status.clone()), ..Default::default() })
        };
        self.serve(Operation::PodSandboxStatus, q, |q| q.pod_sandbox_id.clone(), work).await
    }

    async fn list_pod_sandbox(&self, q: Request<ListPodSandboxRequest>) -> Result<Response<ListPodSandboxResponse>, Status> {
        let work = |world: &mut World, q: ListPodSandboxRequest| {
            let PodSandboxFilter { id, label_selector: wanted, .. } = q.filter.unwrap_or_default();
            let items = world.sandboxes.values().map(|(status, _)| status).filter(|status| id.is_empty() || id == status.id);
            let items = items.filter(|status| wanted.iter().all(|(k, v)| status.labels.get(k) == Some(v)));
            let item = |status: &PodSandboxStatus| PodSandbox {
                id: status.id.clone(),
                metadata: status.metadata.clone(),
                state: status.state,
                created_at: status.created_at,
                labels: status.labels.clone(),
                annotations: status.annotations.clone(),
                runtime_handler: status.runtime_handler.clone(),
            };
            Ok(ListPodSandboxResponse { items: items.map(item).collect() })
        };
        self.serve(Operation::ListPodSandbox, q, |_| String::new(), work).await
    }

    async fn create_container(&self, q: Request<CreateContainerRequest>) -> Result<Response<CreateContainerResponse>, Status> {
        let object = |q: &CreateContainerRequest| q.config.clone().unwrap_or_default().metadata.unwrap_or_default().name;
        let work = |world: &mut World, q: CreateContainerRequest| {
            let config = q.config.ok_or_else(|| Status::invalid_argument("no config"))?;
            // The name is made of the pod and the container, not of the sandbox.
            let uid = |labels: &BTreeMap<String, String>| labels.get("io.kubernetes.pod.uid").cloned();
            let twin = |(status, ..): &&(ContainerStatus, ContainerConfig, String)| {
                status.metadata == config.metadata && uid(&status.labels) == uid(&config.labels)
            };
            if let Some((status, ..)) = world.containers.values().find(twin) {
                return Err(Status::unknown(format!("failed to reserve container name: it is reserved for {:?}", status.id)));
            }
            let number = world.tick();
            let id = format!("c{number}");
            let status = ContainerStatus {
                id: id.clone(),
                metadata: config.metadata.clone(),
                state: ContainerState::ContainerCreated.into(),
                created_at: number as i64 * 1_000_000_000,
                image: config.image.clone(),
                image_ref: "registry.example/app@sha256:aa".into(),
                labels: config.labels.clone(),
                annotations: config.annotations.clone(),
                mounts: config.mounts.clone(),
                ..Default::default()
            };
            world.containers.insert(id.clone(), (status, config, q.pod_sandbox_id));
            Ok(CreateContainerResponse { container_id: id })
        };
        self.serve(Operation::CreateContainer, q, object, work).await
    }

    async fn start_container(&self, q: Request<StartContainerRequest>) -> Result<Response<StartContainerResponse>, Status> {
        let work = |world: &mut World, q: StartContainerRequest| {
            let now = world.tick() as i64 * 1_000_000_000;
            let (status, ..) = world.containers.get_mut(&q.container_id).ok_or_else(|| Status::not_found("container"))?;
            if status.state() != ContainerState::ContainerCreated {
                return Err(Status::unknown(format!("container is in {} state", status.state().as_str_name())));
            }
            status.state = ContainerState::ContainerRunning.into();
            status.started_at = now;
            Ok(StartContainerResponse {})
        };
        self.serve(Operation::StartContainer, q, |q| q.container_id.clone(), work).await
    }

    async fn stop_container(&self, q: Request<StopContainerRequest>) -> Result<Response<StopContainerResponse>, Status> {
        let work = |world: &mut World, q: StopContainerRequest| {
            let now = world.tick() as i64 * 1_000_000_000;
            let (status, ..) = world.containers.get_mut(&q.container_id).ok_or_else(|| Status::not_found("container"))?;
            if status.state() == ContainerState::ContainerRunning {
                status.state = ContainerState::ContainerExited.into();
                (status.finished_at, status.exit_code, status.reason) = (now, 137, "Error".into());
            }
            Ok(StopContainerResponse {})
        };
        self.serve(Operation::StopContainer, q, |q| q.container_id.clone(), work).await
    }

    async fn remove_container(&self, q: Request<RemoveContainerRequest>) -> Result<Response<RemoveContainerResponse>, Status> {
        let work = |world: &mut World, q: RemoveContainerRequest| {
            world.containers.remove(&q.container_id).ok_or_else(|| Status::not_found("container"))?;
            Ok(RemoveContainerResponse {})
        };
        self.serve(Operation::RemoveContainer, q, |q| q.container_id.clone(), work).await
    }

    async fn container_status(&self, q: Request<ContainerStatusRequest>) -> Result<Response<ContainerStatusResponse>, Status> {
        let work = |world: &mut World, q: ContainerStatusRequest| {
            let (status, ..) = world.containers.get(&q.container_id).ok_or_else(|| Status::not_found("container"))?;
            Ok(ContainerStatusResponse { status: Some(status.clone()), ..Default::default() })
        };
        self.serve(Operation::ContainerStatus, q, |q| q.container_id.clone(), work).await
    }

    async fn list_containers(&self, q: Request<ListContainersRequest>) -> Result<Response<ListContainersResponse>, Status> {
        let work = |world: &mut World, q: ListContainersRequest| {
            let filter = q.filter.unwrap_or_default();
            let items = world.containers.values().filter(|(status, _, sandbox)| {
                (filter.id.is_empty() || filter.id == status.id)
                    && (filter.pod_sandbox_id.is_empty() || filter.pod_sandbox_id == *sandbox)
                    && filter.label_selector.iter().all(|(k, v)| status.labels.get(k) == Some(v))
            });
            let item = |(status, _, sandbox): &(ContainerStatus, ContainerConfig, String)| Container {
                id: status.id.clone(),
                pod_sandbox_id: sandbox.clone(),
                metadata: status.metadata.clone(),
                image: status.image.clone(),
                image_ref: status.image_ref.clone(),
                state: status.state,
                created_at: status.created_at,
                labels: status.labels.clone(),
                annotations: status.annotations.clone(),
                image_id: status.image_id.clone(),
            };
            Ok(ListContainersResponse { containers: items.map(item).collect() })
        };
        self.serve(Operation::ListContainers, q, |_| String::new(), work).await
    }

    async fn exec_sync(&self, q: Request<ExecSyncRequest>) -> Result<Response<ExecSyncResponse>, Status> {
        let work = |_: &mut World, q: ExecSyncRequest| {
            let exit_code = i32::from(q.cmd.first().is_some_and(|word| word == "false"));
            Ok(ExecSyncResponse { stdout: q.cmd.join(" ").into_bytes(), exit_code, ..Default::default() })
        };
        self.serve(Operation::ExecSync, q, |q| q.container_id.clone(), work).await
    }

    async fn get_container_events(
        &self,
        q: Request<GetEventsRequest>,
    ) -> Result<Response<Stream<ContainerEventResponse>>, Status> {
        self.serve(Operation::GetContainerEvents, q, |_| String::new(), |_, _| Ok(())).await?;
        let (by, events) = {
            let world = self.world();
            (world.events_by.clone(), world.cri_events.subscribe())
        };
        match by {
            EventsBy::Cri { silent } => stream(events, silent).await,
            _ => Err(Status::unimplemented("unknown method GetContainerEvents for service runtime.v1.RuntimeService")),
        }
    }
}
