//! The pod's ports, for the network of its sandbox.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ContainerPort;
use polylet_core::pod::Pod;
use polylet_proto::cri::{PortMapping, Protocol};

/// Every port of the app containers, also those that the node does not serve: what is said twice within one container is sent
/// once.
pub(super) fn mappings(pod: &Pod) -> Vec<PortMapping> {
    let containers = pod.object.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .flat_map(|container| {
            let mut seen = BTreeSet::new();
            let ports = container.ports.iter().flatten();
            ports.filter(move |port| seen.insert(identity(port))).map(mapping)
        })
        .collect()
}

fn mapping(port: &ContainerPort) -> PortMapping {
    let protocol = match port.protocol.as_deref() {
        Some("UDP") => Protocol::Udp,
        Some("SCTP") => Protocol::Sctp,
        _ => Protocol::Tcp,
    };
    PortMapping {
        protocol: protocol.into(),
        container_port: port.container_port,
        host_port: port.host_port.unwrap_or(0),
        host_ip: port.host_ip.clone().unwrap_or_default(),
    }
}

/// Its name, or else all that it says.
fn identity(port: &ContainerPort) -> String {
    if let Some(name) = port.name.as_ref().filter(|name| !name.is_empty()) {
        return name.clone();
    }
    let ip = port.host_ip.as_deref().unwrap_or_default();
    let family = match ip {
        "" => "any",
        ip if ip.contains(':') => "v6",
        _ => "v4",
    };
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    format!("{family}-{protocol}-{ip}:{}:{}", port.container_port, port.host_port.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::translate::testing::pod;

    #[test]
    fn ports_of_all_containers() {
        let pod = pod(json!({
            "initContainers": [{"name": "init", "image": "app", "ports": [{"containerPort": 1}]}],
            "containers": [
                {"name": "a", "image": "app", "ports": [
                    {"containerPort": 80, "name": "http"},
                    {"containerPort": 81, "name": "http"},
                    {"containerPort": 53, "protocol": "UDP", "hostPort": 5353, "hostIP": "192.0.2.1"},
                    {"containerPort": 53, "protocol": "UDP", "hostPort": 5353, "hostIP": "192.0.2.1"},
                    {"containerPort": 53, "protocol": "UDP", "hostPort": 5353, "hostIP": "2001:db8::1"},
                    {"containerPort": 9, "protocol": "SCTP"},
                ]},
                {"name": "b", "image": "app", "ports": [{"containerPort": 80, "name": "http"}]},
            ],
        }));
        let port = |protocol: Protocol, container_port, host_port, host_ip: &str| PortMapping {
            protocol: protocol.into(),
            container_port,
            host_port,
            host_ip: host_ip.into(),
        };
        let expected = [
            port(Protocol::Tcp, 80, 0, ""),
            port(Protocol::Udp, 53, 5353, "192.0.2.1"),
            port(Protocol::Udp, 53, 5353, "2001:db8::1"),
            port(Protocol::Sctp, 9, 0, ""),
            port(Protocol::Tcp, 80, 0, ""),
        ];
        assert_eq!(mappings(&pod), expected);
    }
}
