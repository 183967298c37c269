//! What the runtime has, as the core's values: the generic relist, and one pod in full.
//!
//! **Invariant:** a sandbox or container that vanishes between the list and its status counts as not there; one whose status cannot be had fails
//! the observation rather than being guessed.

use std::collections::BTreeMap;

use polylet_core::event::{CallError, CallErrorKind};
use polylet_core::id::{ContainerId, ContainerName, PodUid, SandboxId};
use polylet_core::observed::{Container, ContainerState, Listing, Observed, Sandbox, SandboxState, Summary};
use polylet_core::time::Wall;
use polylet_proto::cri;
use tokio::task::{JoinError, JoinSet};

use crate::client::Client;
use crate::error::Kind;
use crate::key;
use crate::signal;
use crate::verbs::core_error;

mod termination;

/// Lists every pod of the runtime that carries the pod labels. Two lists, not one moment.
///
/// # Errors
/// Either list's.
pub async fn list(client: &Client) -> Result<Listing, CallError> {
    let (sandboxes, containers) =
        tokio::try_join!(client.list_pod_sandbox(None), client.list_containers(None)).map_err(core_error)?;
    let mut pods: BTreeMap<PodUid, Summary> = BTreeMap::new();
    for sandbox in sandboxes {
        let state = sandbox_state(sandbox.state);
        if let Some(uid) = sandbox.labels.get(key::POD_UID) {
            let pod = pods.entry(uid.as_str().into()).or_default();
            (pod.namespace, pod.name) = names(&sandbox.labels);
            pod.sandboxes.insert(sandbox.id.into(), state);
        }
    }
    for container in containers {
        let state = container_state(container.state);
        if let Some(uid) = container.labels.get(key::POD_UID) {
            let pod = pods.entry(uid.as_str().into()).or_default();
            if pod.sandboxes.is_empty() && pod.containers.is_empty() {
                (pod.namespace, pod.name) = names(&container.labels);
            }
            pod.containers.insert(container.id.into(), state);
        }
    }
    Ok(Listing { pods })
}

/// Looks at one pod: its sandboxes and every attempt of its containers.
///
/// # Errors
/// Of the lists, or of a status other than "not found"; or a look panicked.
pub async fn observe(client: &Client, uid: &PodUid) -> Result<Observed, CallError> {
    let selector: BTreeMap<String, String> = BTreeMap::from([(key::POD_UID.to_owned(), uid.as_str().to_owned())]);
    let (listed_sandboxes, listed_containers) = tokio::try_join!(
        client.list_pod_sandbox(Some(cri::PodSandboxFilter { label_selector: selector.clone(), ..Default::default() })),
        client.list_containers(Some(cri::ContainerFilter { label_selector: selector, ..Default::default() })),
    )
    .map_err(core_error)?;
    let named = listed_sandboxes.last().map(|s| &s.labels).or(listed_containers.first().map(|c| &c.labels));
    let (namespace, name) = named.map(names).unwrap_or_default();
    let mut observed = Observed { name, namespace, ..Observed::default() };
    // All statuses are asked for at once: one after the other, a pod of many containers would be known that much later.
    let mut statuses = JoinSet::new();
    for listed in listed_sandboxes {
        let client = client.clone();
        statuses.spawn(async move { look_at_sandbox(&client, listed).await.map(Found::Sandbox) });
    }
    for listed in listed_containers {
        let client = client.clone();
        statuses
            .spawn(async move { look_at_container(&client, &listed).await.map(|found| Found::Container(found.map(Box::new))) });
    }
    while let Some(found) = statuses.join_next().await {
        match found {
            Ok(Ok(Found::Sandbox(sandbox))) => observed.sandboxes.extend(sandbox),
            Ok(Ok(Found::Container(container))) => observed.containers.extend(container.map(|container| *container)),
            Ok(Err(error)) => return Err(core_error(error)),
            Err(error) => return Err(broken(uid, &error)),
        }
    }
    observed.sandboxes.sort_by(|a, b| (b.attempt, b.created, &b.id).cmp(&(a.attempt, a.created, &a.id)));
    observed.containers.sort_by(|a, b| (b.attempt, b.created, &b.id).cmp(&(a.attempt, a.created, &a.id)));
    Ok(observed)
}

/// Namespace and name of the pod.
fn names(labels: &BTreeMap<String, String>) -> (String, String) {
    let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
    (label(key::POD_NAMESPACE), label(key::POD_NAME))
}

/// A look that did not come to its end: nothing is known of the pod, and the next look may be luckier.
fn broken(uid: &PodUid, error: &JoinError) -> CallError {
    let message = error.to_string();
    CallError { operation: "Observe".to_owned(), object: uid.as_str().to_owned(), kind: CallErrorKind::Other, message }
}

/// The writable layer of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// Bytes.
    pub bytes: u64,
    /// Files and directories.
    pub inodes: u64,
}

/// What the runtime says of the writable layers, by pod and container. One of which it has no figures yet is left out.
pub async fn writable_layers(client: &Client) -> Result<BTreeMap<PodUid, BTreeMap<ContainerId, Layer>>, crate::CallError> {
    let mut pods: BTreeMap<PodUid, BTreeMap<ContainerId, Layer>> = BTreeMap::new();
    for stats in client.list_container_stats(None).await? {
        let (Some(of), Some(layer)) = (&stats.attributes, &stats.writable_layer) else { continue };
        let Some(uid) = of.labels.get(key::POD_UID) else { continue };
        let value = |field: &Option<cri::UInt64Value>| field.as_ref().map_or(0, |field| field.value);
        let layer = Layer { bytes: value(&layer.used_bytes), inodes: value(&layer.inodes_used) };
        pods.entry(PodUid::from(uid.as_str())).or_default().insert(ContainerId::from(of.id.as_str()), layer);
    }
    Ok(pods)
}

enum Found {
    Sandbox(Option<Sandbox>),
    Container(Option<Box<Container>>),
}

/// None for one that has vanished since it was listed.
async fn look_at_sandbox(client: &Client, listed: cri::PodSandbox) -> Result<Option<Sandbox>, crate::CallError> {
    match client.pod_sandbox_status(&listed.id, false).await {
        Ok(answer) => Ok(answer.status.map(sandbox)),
        Err(error) if error.kind == Kind::NotFound => Ok(None),
        Err(error) => Ok(Some(unknown_sandbox(listed, error.rpc_text()))),
    }
}

/// None for one that has vanished since it was listed.
async fn look_at_container(client: &Client, listed: &cri::Container) -> Result<Option<Container>, crate::CallError> {
    match client.container_status(&listed.id, false).await {
        Ok(cri::ContainerStatusResponse { status: Some(status), .. }) => {
            Ok(Some(container(status, &listed.pod_sandbox_id).await))
        }
        Ok(_) => Ok(None),
        Err(error) if error.kind == Kind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn sandbox(status: cri::PodSandboxStatus) -> Sandbox {
    let network = status.linux.and_then(|l| l.namespaces).and_then(|n| n.options).map(|o| o.network);
    let host_network = network == Some(cri::NamespaceMode::Node as i32);
    let ips = status.network.iter().flat_map(|n| std::iter::once(&n.ip).chain(n.additional_ips.iter().map(|ip| &ip.ip)));
    Sandbox {
        id: SandboxId::from(status.id),
        attempt: status.metadata.map_or(0, |m| m.attempt),
        state: sandbox_state(status.state),
        created: wall(status.created_at).unwrap_or_default(),
        ips: ips.filter(|ip| !ip.is_empty()).cloned().collect(),
        has_network: status.network.is_some() && !host_network,
        trouble: None,
        host_network,
        runtime_handler: status.runtime_handler,
    }
}

/// Listed, but its status could not be had.
fn unknown_sandbox(listed: cri::PodSandbox, trouble: String) -> Sandbox {
    Sandbox {
        id: SandboxId::from(listed.id),
        attempt: listed.metadata.map_or(0, |m| m.attempt),
        state: SandboxState::Unknown,
        created: wall(listed.created_at).unwrap_or_default(),
        ips: Vec::new(),
        has_network: false,
        trouble: Some(trouble),
        host_network: false,
        runtime_handler: listed.runtime_handler,
    }
}

async fn container(status: cri::ContainerStatus, sandbox: &str) -> Container {
    let state = container_state(status.state);
    let attempt = status
        .annotations
        .get(key::RESTART_COUNT)
        .and_then(|count| count.parse().ok())
        .or(status.metadata.as_ref().map(|m| m.attempt))
        .unwrap_or(0);
    let message = if state == ContainerState::Exited { termination::message(&status).await } else { status.message.clone() };
    let user = status.user.and_then(|u| u.linux).map(|l| (l.uid, l.gid, l.supplemental_groups));
    let (created, started) = (wall(status.created_at).unwrap_or_default(), wall(status.started_at));
    // What has ended has an end, or it would never be started again. Where the runtime gives none, it is the earliest that can be, since
    // the instant of this look would be another with each.
    let ended = (state == ContainerState::Exited).then(|| started.unwrap_or(created));
    let name = status.labels.get(key::CONTAINER_NAME).cloned().or(status.metadata.map(|m| m.name)).unwrap_or_default();
    Container {
        id: ContainerId::from(status.id),
        name: ContainerName::from(name),
        sandbox: SandboxId::from(sandbox),
        attempt,
        state,
        created,
        started,
        finished: wall(status.finished_at).or(ended),
        exit_code: status.exit_code,
        reason: status.reason,
        message,
        image: status.image.map(|i| i.image).unwrap_or_default(),
        image_ref: status.image_ref,
        hash: status.annotations.get(key::HASH).cloned().unwrap_or_default(),
        pre_stop: termination::pre_stop(&status.annotations),
        annotations: status.annotations.into_iter().filter(|(name, _)| name.starts_with(key::PREFIX)).collect(),
        user,
        stop_signal: signal::name(status.stop_signal),
        recursively_read_only: status.mounts.into_iter().filter(|m| m.recursive_read_only).map(|m| m.container_path).collect(),
    }
}

fn sandbox_state(state: i32) -> SandboxState {
    if state == cri::PodSandboxState::SandboxReady as i32 { SandboxState::Ready } else { SandboxState::NotReady }
}

fn container_state(state: i32) -> ContainerState {
    match cri::ContainerState::try_from(state) {
        Ok(cri::ContainerState::ContainerCreated) => ContainerState::Created,
        Ok(cri::ContainerState::ContainerRunning) => ContainerState::Running,
        Ok(cri::ContainerState::ContainerExited) => ContainerState::Exited,
        Ok(cri::ContainerState::ContainerUnknown) | Err(_) => ContainerState::Unknown,
    }
}

/// Nanoseconds since the epoch; zero and less is "not yet".
fn wall(nanos: i64) -> Option<Wall> {
    u64::try_from(nanos).ok().filter(|n| *n > 0).map(|n| Wall(n / 1_000_000))
}
