//! The status of a container that the runtime does not have: not yet, or no longer.

use k8s_openapi::api::core::v1;

use crate::observed::Container as Attempt;
use crate::pod::{Container, ContainerKind, Pod};

use super::state::{self, RESTARTING_ALL, UNKNOWN};
use super::{Cx, conditions, containers};

/// What is said of a container that was removed because everything is started over.
const REMOVED: &str = "The container is removed because RestartAllContainers in place";

/// A status that waits for the first start: name, image and mounts, as declared.
pub(super) fn fresh(cx: &Cx<'_>, container: &Container) -> v1::ContainerStatus {
    let pod = cx.inputs.pod;
    let has_init = pod.init_containers().next().is_some();
    v1::ContainerStatus {
        name: container.name.as_str().to_owned(),
        image: container.image_as_written.clone(),
        state: Some(state::waiting(if has_init { "PodInitializing" } else { "ContainerCreating" }, "")),
        last_state: Some(v1::ContainerState::default()),
        volume_mounts: mounts(pod, container, None),
        ..Default::default()
    }
}

/// The status of a container of which the runtime has no attempt, though it was asked.
pub(super) fn status(cx: &Cx<'_>, container: &Container, old: Option<&v1::ContainerStatus>) -> v1::ContainerStatus {
    let runtime = &cx.inputs.config.runtime_name;
    let record = cx.inputs.record.containers.get(&container.name).and_then(|record| record.last.as_ref());
    let mut status = fresh(cx, container);
    status.restart_count = containers::restarts(cx, container, None, old);
    let Some(old) = old else {
        let made = cx.inputs.record.containers.get(&container.name).and_then(|record| record.attempt);
        if let Some(made) = made.filter(|_| conditions::restarting_all(cx) && container.kind != ContainerKind::Ephemeral) {
            // Removed in an earlier life of the agent, and counted once, whether or not that was told.
            status.restart_count = status.restart_count.max(i32::try_from(made).unwrap_or(i32::MAX).saturating_add(1));
            status.last_state = Some(state::terminated(state::lost(RESTARTING_ALL, REMOVED)));
            status.state = Some(state::waiting(RESTARTING_ALL, REMOVED));
            return status;
        }
        match record.map(|last| state::terminated(state::remembered(last, runtime))) {
            // No other attempt will follow this one.
            Some(end) if cx.is_ending() => status.state = Some(end),
            Some(end) => status.last_state = Some(end),
            None => {}
        }
        return done_before(cx, container, status);
    };
    if conditions::restarting_all(cx) && container.kind != ContainerKind::Ephemeral {
        return removed_for_restart(status, old);
    }
    if state::ended(old).is_some() {
        return v1::ContainerStatus { restart_count: status.restart_count, ..old.clone() };
    }
    status.last_state = Some(old.last_state.clone().unwrap_or_default());
    if state::is_running(old) {
        let own = record.filter(|last| {
            last.id.as_ref().map(|id| state::container_id(runtime, id.as_str())) == old.container_id && last.id.is_some()
        });
        if let Some(own) = own {
            // It is gone, but its end was seen.
            let end = Some(state::terminated(state::remembered(own, runtime)));
            *(if cx.is_ending() { &mut status.state } else { &mut status.last_state }) = end;
        } else if state::last(&status).is_none() {
            let text = "The container could not be located when the pod was deleted.  The container used to be Running";
            status.last_state = Some(state::terminated(state::lost(UNKNOWN, text)));
            if cx.inputs.pod.deletion.is_none() {
                status.restart_count = status.restart_count.max(old.restart_count.saturating_add(1));
            }
        }
    }
    done_before(cx, container, status)
}

/// What the spec says of a container, in the API's terms.
pub(super) struct Spec<'a> {
    pub(super) resources: Option<&'a v1::ResourceRequirements>,
    pub(super) mounts: &'a [v1::VolumeMount],
}

pub(super) fn spec<'a>(pod: &'a Pod, container: &Container) -> Spec<'a> {
    let whole = pod.object.spec.as_ref();
    let found = match container.kind {
        ContainerKind::Ephemeral => whole
            .and_then(|spec| spec.ephemeral_containers.as_ref()?.get(container.index))
            .map(|own| (own.resources.as_ref(), own.volume_mounts.as_ref())),
        kind => whole
            .and_then(|spec| match kind {
                ContainerKind::App => spec.containers.get(container.index),
                _ => spec.init_containers.as_ref()?.get(container.index),
            })
            .map(|own| (own.resources.as_ref(), own.volume_mounts.as_ref())),
    };
    let (resources, mounts) = found.unwrap_or_default();
    Spec { resources, mounts: mounts.map_or(&[], Vec::as_slice) }
}

/// An init container that nobody remembers, of a pod whose app containers exist, has done its work.
fn done_before(cx: &Cx<'_>, container: &Container, mut status: v1::ContainerStatus) -> v1::ContainerStatus {
    if container.kind == ContainerKind::Init && state::is_waiting(&status) && cx.is_initialized() {
        status.state = Some(state::terminated(v1::ContainerStateTerminated {
            reason: Some("Completed".to_owned()),
            message: Some(
                "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally"
                    .to_owned(),
            ),
            ..Default::default()
        }));
    }
    status
}

/// A container that was removed because everything is started over.
fn removed_for_restart(mut status: v1::ContainerStatus, old: &v1::ContainerStatus) -> v1::ContainerStatus {
    status.last_state = old.last_state.clone().or(status.last_state);
    if state::has_run(old) {
        status.restart_count = status.restart_count.max(old.restart_count.saturating_add(1));
        status.last_state = Some(state::terminated(state::lost(RESTARTING_ALL, REMOVED)));
    }
    let reason = old.state.as_ref().and_then(|state| state.waiting.as_ref()?.reason.as_deref());
    if state::has_run(old) || reason == Some(RESTARTING_ALL) {
        status.state = Some(state::waiting(RESTARTING_ALL, REMOVED));
    }
    status
}

/// The mounts of a container. Whether a mount is recursively read-only is what was done for `attempt`; before there is one, what the
/// spec demands.
pub(super) fn mounts(pod: &Pod, container: &Container, attempt: Option<&Attempt>) -> Option<Vec<v1::VolumeMountStatus>> {
    let mounts = spec(pod, container).mounts.iter().map(|of| {
        // The runtime is given paths that begin with a slash.
        let is_this = |path: &String| path.trim_start_matches('/') == of.mount_path.trim_start_matches('/');
        let done = attempt.is_some_and(|attempt| attempt.recursively_read_only.iter().any(is_this));
        mount(of, done || of.recursive_read_only.as_deref() == Some("Enabled"))
    });
    super::some(mounts.collect())
}

fn mount(of: &v1::VolumeMount, enabled: bool) -> v1::VolumeMountStatus {
    let read_only = of.read_only == Some(true);
    v1::VolumeMountStatus {
        name: of.name.clone(),
        mount_path: of.mount_path.clone(),
        read_only: read_only.then_some(true),
        recursive_read_only: read_only.then(|| if enabled { "Enabled" } else { "Disabled" }.to_owned()),
        ..Default::default()
    }
}
