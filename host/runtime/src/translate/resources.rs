//! CPU, memory, huge pages and swap, as the runtime is told of them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use polylet_core::pod::{Container, ContainerKind, Pod, QosClass, Resources};
use polylet_core::quantity;
use polylet_proto::cri::{HugepageLimit, LinuxContainerResources};

use super::{ContainerInputs, NodeContext, spec_container};

/// Limits and shares of one container. The pod's own limits stand in for those that it does not have.
pub(super) fn of_container(node: &NodeContext, inputs: &ContainerInputs<'_>) -> LinuxContainerResources {
    let (pod, own) = (inputs.pod, &inputs.container.resources);
    let of_pod = pod.resources.unwrap_or_default();
    let limit = |own: Option<u64>, of_pod: Option<u64>| own.filter(|limit| *limit > 0).or(of_pod);
    let cpu_limit = limit(own.cpu_limit, of_pod.cpu_limit);
    let mut out = amounts(node, own.cpu_request.or(cpu_limit), cpu_limit, limit(own.memory_limit, of_pod.memory_limit));
    out.oom_score_adj = inputs.oom_score_adj;
    out.hugepage_limits = huge_pages(node, inputs);
    if node.cgroup_v2 {
        let mut write = |file: &str, value: String| drop(out.unified.insert(file.to_owned(), value));
        if !node.single_process_oom_kill {
            write("memory.oom.group", "1".to_owned());
        }
        if let Some(high) = inputs.memory_high {
            write("memory.high", high.to_string());
        }
        if node.swap.is_some() {
            write("memory.swap.max", swap(node, pod, inputs.container).to_string());
        }
    } else if node.swap.is_some() {
        // v1 counts memory and swap together: equal limits are no swap.
        out.memory_swap_limit_in_bytes = out.memory_limit_in_bytes;
    }
    out
}

/// What the pod's containers come to, without the overhead of the runtime. A limit counts here even where other containers have
/// none, unlike that of the pod's cgroup.
pub(super) fn of_pod(node: &NodeContext, pod: &Pod) -> LinuxContainerResources {
    let of_pod = pod.resources.unwrap_or_default();
    let total = |of: fn(&Resources) -> Option<u64>| of(&of_pod).or_else(|| sum(pod, of));
    let cpu_limit = total(|r| r.cpu_limit);
    amounts(node, total(|r| r.cpu_request).or(cpu_limit), cpu_limit, total(|r| r.memory_limit))
}

/// The larger of what runs together and what starts up; None where nobody declares any.
fn sum(pod: &Pod, of: fn(&Resources) -> Option<u64>) -> Option<u64> {
    let (mut running, mut sidecars, mut starting) = (0u64, 0u64, 0u64);
    for container in &pod.containers {
        let amount = of(&container.resources).unwrap_or(0);
        match container.kind {
            ContainerKind::App => running = running.saturating_add(amount),
            ContainerKind::Sidecar => {
                running = running.saturating_add(amount);
                sidecars = sidecars.saturating_add(amount);
                starting = starting.max(sidecars);
            }
            ContainerKind::Init => starting = starting.max(sidecars.saturating_add(amount)),
            ContainerKind::Ephemeral => {}
        }
    }
    let counted = |container: &&Container| container.kind != ContainerKind::Ephemeral;
    let declared = pod.containers.iter().filter(counted).any(|container| of(&container.resources).is_some());
    declared.then_some(running.max(starting))
}

/// What the pod's runtime handler needs for itself: asked for and allowed alike.
pub(super) fn overhead(node: &NodeContext, pod: &Pod) -> LinuxContainerResources {
    let Some(overhead) = pod.object.spec.as_ref().and_then(|spec| spec.overhead.as_ref()) else { return Default::default() };
    let amount =
        |name, read: fn(&str) -> Result<u64, quantity::QuantityError>| overhead.get(name).and_then(|text| read(&text.0).ok());
    let cpu = amount("cpu", quantity::milli);
    amounts(node, cpu, cpu, amount("memory", quantity::whole))
}

/// Millicores and bytes; a limit that is not there is zero on the wire.
fn amounts(
    node: &NodeContext,
    cpu_request: Option<u64>,
    cpu_limit: Option<u64>,
    memory_limit: Option<u64>,
) -> LinuxContainerResources {
    let mut out = LinuxContainerResources {
        cpu_shares: shares(cpu_request.unwrap_or(0)),
        memory_limit_in_bytes: signed(memory_limit.unwrap_or(0)),
        ..Default::default()
    };
    if node.cpu_cfs_quota {
        out.cpu_quota = quota(cpu_limit.unwrap_or(0), node.cpu_cfs_period_us);
        out.cpu_period = node.cpu_cfs_period_us;
    }
    out
}

/// The formulas of `policies/upstream`, on the wire's numbers.
fn shares(millicores: u64) -> i64 {
    signed((millicores.saturating_mul(1024) / 1000).clamp(2, 262_144))
}

/// In microseconds; zero is no limit.
fn quota(millicores: u64, period_us: i64) -> i64 {
    if millicores == 0 { 0 } else { (signed(millicores).saturating_mul(period_us) / 1000).max(1000) }
}

/// One entry for each size that the machine has: what is not asked for is not to be had.
fn huge_pages(node: &NodeContext, inputs: &ContainerInputs<'_>) -> Vec<HugepageLimit> {
    let own = spec_container(inputs.pod, inputs.container);
    let own = own.as_deref().and_then(|spec| spec.resources.as_ref());
    let of_pod = inputs.pod.object.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let limits: BTreeMap<String, u64> = of_pod.into_iter().chain(own).flat_map(huge_page_limits).collect();
    let limit = |size: &String| HugepageLimit { page_size: size.clone(), limit: limits.get(size).copied().unwrap_or(0) };
    node.huge_page_sizes.iter().map(limit).collect()
}

/// Bytes by size of page.
fn huge_page_limits(resources: &v1::ResourceRequirements) -> impl Iterator<Item = (String, u64)> {
    let read = |(name, amount): (&String, &Quantity)| {
        let size = quantity::whole(name.strip_prefix("hugepages-")?).ok()?;
        Some((page_size_name(size), quantity::whole(&amount.0).ok()?))
    };
    resources.limits.iter().flatten().filter_map(read)
}

/// A size of huge pages in bytes, as the kernel names its files and runtimes spell it: `2MB`, `1GB`, `64KB`. Nothing is rounded: sizes of
/// huge pages are powers of two, and a size that is none has a name that no machine knows.
pub fn page_size_name(bytes: u64) -> String {
    let units = [("GB", 30), ("MB", 20), ("KB", 10)];
    let fitting = units.into_iter().find(|(_, shift)| bytes >> shift > 0 && bytes.trailing_zeros() >= *shift);
    fitting.map_or_else(|| format!("{bytes}B"), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

/// Bytes of swap: a share as large as that of the memory asked for, for those who may.
fn swap(node: &NodeContext, pod: &Pod, container: &Container) -> u64 {
    let Some(swap) = node.swap.filter(|swap| swap.limited) else { return 0 };
    let Resources { memory_request, memory_limit, .. } = container.resources;
    let request = memory_request.unwrap_or(0);
    let may = pod.qos == QosClass::Burstable && !pod.is_critical() && container.kind != ContainerKind::Ephemeral;
    if !may || request == 0 || memory_limit == Some(request) || node.memory_capacity == 0 {
        return 0;
    }
    let share = u128::from(request) * u128::from(swap.capacity) / u128::from(node.memory_capacity);
    u64::try_from(share).unwrap_or(u64::MAX)
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
