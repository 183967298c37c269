//! What is said of an eviction, in upstream's words. Every fragment ends in a blank.

use std::fmt::Write;

use super::{Crossed, Short};
use crate::observed::Observed;
use crate::pod::{Container, ContainerKind, Pod};
use crate::quantity::{binary, decimal};
use crate::question::eviction::Starved;
use crate::sample::PodUsage;

/// Upstream's name of what is short.
pub fn resource(starved: Starved) -> &'static str {
    match starved {
        Starved::Memory => "memory",
        Starved::Disk | Starved::ImageDisk | Starved::ContainerDisk => "ephemeral-storage",
        Starved::Inodes | Starved::ImageInodes | Starved::ContainerInodes => "inodes",
        Starved::Pids => "pids",
    }
}

/// Message of the `Evicted` event and of the pod's status: what was short, by how much, and which containers used more of it than
/// they had asked for. `containers` is the use of each, as far as it is known.
pub fn message(short: &Short, pod: &Pod, usage: Option<&PodUsage>, containers: &[(&str, u64)]) -> String {
    let starved = short.shortage.starved;
    let name = resource(starved);
    let mut text = format!("The node was low on resource: {name}. ");
    // Writing to a string cannot fail.
    if let Some(Crossed { threshold, available, .. }) = &short.crossed {
        let shown = |amount| if counts_bytes(starved) { binary(amount) } else { decimal(amount) };
        // Upstream computes a threshold in bytes whatever it speaks of.
        let _ = write!(text, "Threshold quantity: {}, available: {}. ", binary(*threshold), shown(*available));
    } else if !short.shortage.reason.is_empty() {
        let _ = write!(text, "{}. ", short.shortage.reason);
    }
    if !counts_bytes(starved) {
        return text;
    }
    let mut more = |what: &str, used: u64, request: u64| {
        if used > request {
            let (used, request) = (binary(used), binary(request));
            let _ = write!(text, "{what} was using {used}, request is {request}, has larger consumption of {name}. ");
        }
    };
    let own = pod.resources.as_ref().and_then(|r| r.memory_request).filter(|_| starved == Starved::Memory);
    if let Some((used, request)) = usage.and_then(|u| u.memory_working_set).zip(own) {
        more(&format!("Pod {}", pod.name), used, request);
    }
    for (name, used) in containers {
        let Some(container) = pod.container(name).filter(|c| c.kind != ContainerKind::Ephemeral) else { continue };
        more(&format!("Container {name}"), *used, request_of(container, starved));
    }
    text
}

/// What each container, by name, uses of what is short, as far as that is known: of several attempts the newest. Only of bytes is
/// anything told.
pub fn used<'a>(starved: Starved, usage: Option<&PodUsage>, seen: Option<&'a Observed>) -> Vec<(&'a str, u64)> {
    let (Some(usage), Some(seen)) = (usage, seen) else { return Vec::new() };
    let newest = seen.containers.iter().filter(|of| seen.newest(of.name.as_str()).is_some_and(|newest| newest.id == of.id));
    let used = newest.filter_map(|of| {
        let own = usage.containers.get(&of.id)?;
        let bytes = match starved {
            Starved::Memory => own.memory_working_set?,
            Starved::Disk | Starved::ImageDisk | Starved::ContainerDisk => {
                own.disk_rootfs?.saturating_add(*usage.logs.get(&of.name)?)
            }
            _ => return None,
        };
        Some((of.name.as_str(), bytes))
    });
    used.collect()
}

fn request_of(container: &Container, starved: Starved) -> u64 {
    let resources = &container.resources;
    if starved == Starved::Memory { resources.memory_request } else { resources.storage_request }.unwrap_or(0)
}

fn counts_bytes(starved: Starved) -> bool {
    matches!(starved, Starved::Memory | Starved::Disk | Starved::ImageDisk | Starved::ContainerDisk)
}
