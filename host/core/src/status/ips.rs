//! Addresses of the pod and of its node.

use k8s_openapi::api::core::v1;

use crate::observed::SandboxState;

use super::Cx;

/// Primary address first, at most one of each family.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    pub(super) host: Vec<String>,
    pub(super) pod: Vec<String>,
}

pub(super) fn addresses(cx: &Cx<'_>) -> Addresses {
    let mut host = one_of_each(&cx.inputs.config.node_ips, None);
    if host.is_empty() {
        // The node's addresses are not known yet: what was shown stays.
        host = cx.before.and_then(|b| b.host_ips.as_ref()).into_iter().flatten().map(|h| h.ip.clone()).collect();
    }
    let pod = if cx.inputs.pod.host_network { of_host_network(cx, &host) } else { of_sandbox(cx, &host) };
    Addresses { host, pod }
}

/// A pod on the node's network takes the node's addresses once; the second may come later.
fn of_host_network(cx: &Cx<'_>, host: &[String]) -> Vec<String> {
    let mut ips = shown(cx.before);
    match (ips.as_slice(), host) {
        ([], _) => ips = host.to_vec(),
        ([own], [_, second]) if is_v6(own) != is_v6(second) => ips.push(second.clone()),
        _ => {}
    }
    ips
}

/// Only the newest sandbox speaks, while it is ready. What was known stays until another one serves.
fn of_sandbox(cx: &Cx<'_>, host: &[String]) -> Vec<String> {
    let Some(have) = cx.inputs.observed else { return shown(cx.before) };
    let own = have.sandbox().filter(|sandbox| sandbox.state == SandboxState::Ready).map_or(&[][..], |sandbox| &sandbox.ips);
    let any_ready = have.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready);
    if own.is_empty() && !any_ready { shown(cx.before) } else { one_of_each(own, host.first().map(|ip| is_v6(ip))) }
}

fn shown(before: Option<&v1::PodStatus>) -> Vec<String> {
    let Some(before) = before else { return Vec::new() };
    match &before.pod_ips {
        Some(ips) if !ips.is_empty() => ips.iter().map(|ip| ip.ip.clone()).collect(),
        _ => before.pod_ip.iter().cloned().collect(),
    }
}

/// The first address of one family, then the first of the other. The family of the first address leads unless `v6` names one.
fn one_of_each(ips: &[String], v6: Option<bool>) -> Vec<String> {
    let Some(leading) = v6.or(ips.first().map(|ip| is_v6(ip))) else { return Vec::new() };
    [leading, !leading].into_iter().filter_map(|v6| ips.iter().find(|ip| is_v6(ip) == v6)).cloned().collect()
}

fn is_v6(ip: &str) -> bool {
    ip.contains(':')
}
