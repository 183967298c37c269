//! Whether a status differs enough to be sent.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;

use super::conditions::{OWNED, SHARED};

/// Nothing that a node tells has changed: of conditions, ours by status, reason and message; all else but what others write. Absent
/// and empty are the same.
pub fn unchanged(old: &v1::PodStatus, new: &v1::PodStatus) -> bool {
    conditions(old) == conditions(new) && bare(old) == bare(new)
}

fn conditions(status: &v1::PodStatus) -> BTreeMap<&str, (&str, &str, &str)> {
    let ours = |condition: &&v1::PodCondition| OWNED.contains(&condition.type_.as_str()) || condition.type_ == SHARED;
    status
        .conditions
        .iter()
        .flatten()
        .filter(ours)
        .map(|c| (c.type_.as_str(), (c.status.as_str(), c.reason.as_deref().unwrap_or(""), c.message.as_deref().unwrap_or(""))))
        .collect()
}

fn bare(status: &v1::PodStatus) -> v1::PodStatus {
    let mut status = v1::PodStatus {
        conditions: None,
        resource_claim_statuses: None,
        extended_resource_claim_status: None,
        node_allocatable_resource_claim_statuses: None,
        nominated_node_name: None,
        volume_health: None,
        resize: None,
        ..status.clone()
    };
    for text in [&mut status.reason, &mut status.message, &mut status.pod_ip, &mut status.host_ip] {
        text.take_if(|text| text.is_empty());
    }
    status.pod_ips.take_if(|list| list.is_empty());
    status.host_ips.take_if(|list| list.is_empty());
    for list in [&mut status.init_container_statuses, &mut status.container_statuses, &mut status.ephemeral_container_statuses] {
        list.take_if(|list| list.is_empty());
        for container in list.iter_mut().flatten() {
            container.container_id.take_if(|id| id.is_empty());
            container.volume_mounts.take_if(|list| list.is_empty());
            container.allocated_resources.take_if(|map| map.is_empty());
            container.resources.take_if(|resources| *resources == v1::ResourceRequirements::default());
            for state in [&mut container.state, &mut container.last_state] {
                state.take_if(|state| *state == v1::ContainerState::default());
            }
        }
    }
    status
}
