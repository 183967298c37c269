//! A pod's sandbox, put together.

use polylet_core::pod::Pod;
use polylet_core::userns::IdRange;
use polylet_proto::cri::{LinuxPodSandboxConfig, PodSandboxConfig, PodSandboxMetadata};

use super::{NodeContext, ResolvConf, TranslateError, Translated, dns, hostname, metadata, ports, resources, security};

/// What `RunPodSandbox` is given, and `CreateContainer` later. `cgroup_parent` is the pod's cgroup, spelt for the cgroup driver; `users`
/// are the ids of the pod's user namespace, where it has one of its own; `host_dns` is what the file `resolvConf` says, None where that
/// setting is empty.
pub fn sandbox_config(
    node: &NodeContext,
    pod: &Pod,
    attempt: u32,
    cgroup_parent: &str,
    users: Option<IdRange>,
    host_dns: Option<&ResolvConf>,
) -> Result<Translated<PodSandboxConfig>, TranslateError> {
    let class = pod.object.spec.as_ref().and_then(|spec| spec.runtime_class_name.as_deref());
    if class.is_some_and(|class| !class.is_empty()) {
        return Err(TranslateError::Unsupported { field: "spec.runtimeClassName".to_owned(), what: "runtime classes" });
    }
    let mut warnings = Vec::new();
    let message = PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: pod.name.clone(),
            uid: pod.uid.as_str().to_owned(),
            namespace: pod.namespace.clone(),
            attempt,
        }),
        hostname: hostname::of_sandbox(pod, &node.cluster_domain)?,
        log_directory: node.paths.logs_of_pod(&pod.namespace, &pod.name, pod.uid.as_str()).to_string_lossy().into_owned(),
        dns_config: Some(dns::config(pod, node, host_dns, &mut warnings)),
        port_mappings: ports::mappings(pod),
        labels: metadata::sandbox_labels(pod),
        annotations: pod.annotations.as_ref().clone(),
        linux: Some(LinuxPodSandboxConfig {
            cgroup_parent: cgroup_parent.to_owned(),
            security_context: Some(security::of_pod(pod, node, users)?),
            sysctls: security::sysctls(pod),
            overhead: Some(resources::overhead(node, pod)),
            resources: Some(resources::of_pod(node, pod)),
        }),
        windows: None,
    };
    Ok(Translated { message, warnings })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::translate::testing::{node, pod, pod_of, strings};

    #[test]
    fn whole() {
        let pod = pod_of(json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "labels": {"app": "web"}, "annotations": {"note": "n"}},
            "spec": {"subdomain": "db", "containers": [
                {"name": "app", "image": "app", "ports": [{"containerPort": 80}], "resources": {"requests": {"cpu": "1"}}},
            ]},
        }));
        let Translated { message, warnings } = sandbox_config(&node(), &pod, 2, "/kubepods/pod-u1", None, None).unwrap();
        assert!(warnings.is_empty());
        assert_eq!(message.metadata.map(|metadata| (metadata.name, metadata.attempt)), Some(("web".into(), 2)));
        assert_eq!(message.hostname, "web");
        assert_eq!(message.log_directory, "/var/log/pods/shop_web_u1");
        assert_eq!(message.dns_config.map(|dns| dns.servers), Some(strings(&["10.96.0.10"])));
        assert_eq!(message.port_mappings.len(), 1);
        assert_eq!((message.labels.len(), message.annotations.len()), (4, 1));
        let linux = message.linux.unwrap();
        assert_eq!(linux.cgroup_parent, "/kubepods/pod-u1");
        assert!(linux.security_context.unwrap().namespace_options.is_some());
        assert_eq!((linux.overhead.unwrap().cpu_shares, linux.resources.unwrap().cpu_shares), (0, 1024));
    }

    #[test]
    fn runtime_classes_are_refused_by_name() {
        let pod = pod(json!({"runtimeClassName": "kata", "containers": [{"name": "app", "image": "app"}]}));
        let error = sandbox_config(&node(), &pod, 0, "/", None, None).unwrap_err();
        assert_eq!(error.to_string(), "spec.runtimeClassName: runtime classes: not supported by this node yet");
    }
}
