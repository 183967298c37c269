//! Labels and annotations: how the runtime's objects are known again, by us and by the kubelet.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use polylet_core::pod::Pod;

use super::ContainerInputs;
use crate::key;

type Map = BTreeMap<String, String>;

/// The pod's own labels, and whose sandbox it is.
pub(super) fn sandbox_labels(pod: &Pod) -> Map {
    let mut labels = pod.labels.as_ref().clone();
    labels.extend(owner(pod));
    labels
}

/// Whose container it is.
pub(super) fn container_labels(pod: &Pod, name: &str) -> Map {
    let mut labels = owner(pod);
    labels.insert(key::CONTAINER_NAME.to_owned(), name.to_owned());
    labels
}

/// What is needed to adopt the container, and to end it properly once its pod is declared nowhere any more.
pub(super) fn container_annotations(inputs: &ContainerInputs<'_>, spec: &v1::Container) -> Map {
    let (pod, container) = (inputs.pod, inputs.container);
    let mut out = Map::new();
    let mut put = |key: &str, value: String| drop(out.insert(key.to_owned(), value));
    put(key::HASH, container.hash.clone());
    put(key::RESTART_COUNT, inputs.attempt.to_string());
    put(key::MESSAGE_PATH, container.termination_message_path.clone());
    put(key::MESSAGE_POLICY, spec.termination_message_policy.clone().unwrap_or_else(|| "File".to_owned()));
    if let Some(grace) = pod.object.metadata.deletion_grace_period_seconds {
        put(key::DELETION_GRACE, grace.to_string());
    }
    if let Some(grace) = pod.object.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds) {
        put(key::TERMINATION_GRACE, grace.to_string());
    }
    if let Some(Ok(json)) = spec.lifecycle.as_ref().and_then(|l| l.pre_stop.as_ref()).map(serde_json::to_string) {
        put(key::PRE_STOP, json);
    }
    if let Some(Ok(json)) = spec.ports.as_ref().filter(|ports| !ports.is_empty()).map(serde_json::to_string) {
        put(key::PORTS, json);
    }
    out
}

fn owner(pod: &Pod) -> Map {
    [(key::POD_NAME, pod.name.as_str()), (key::POD_NAMESPACE, &pod.namespace), (key::POD_UID, pod.uid.as_str())]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::translate::spec_container;
    use crate::translate::testing::{map, pod, pod_of, with_inputs};

    #[test]
    fn labels() {
        let pod = pod_of(json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1",
                         "labels": {"app": "web", "io.kubernetes.pod.uid": "forged"}},
            "spec": {"containers": [{"name": "app", "image": "app"}]},
        }));
        let owner = [(key::POD_NAME, "web"), (key::POD_NAMESPACE, "shop"), (key::POD_UID, "u1")];
        assert_eq!(sandbox_labels(&pod), map(&[&owner[..], &[("app", "web")]].concat()));
        assert_eq!(container_labels(&pod, "app"), map(&[&owner[..], &[(key::CONTAINER_NAME, "app")]].concat()));
    }

    #[test]
    fn annotations_of_a_container() {
        let pod = pod(json!({
            "terminationGracePeriodSeconds": 7,
            "containers": [
                {"name": "test_container", "image": "foo/image:v1", "terminationMessagePath": "/dev/termination-log",
                 "terminationMessagePolicy": "File", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                 "lifecycle": {"preStop": {"exec": {"command": ["bye"]}}}},
                {"name": "plain", "image": "app"},
            ],
        }));
        let of = |name: &str, attempt| {
            with_inputs(&pod, name, |inputs| {
                let spec = spec_container(inputs.pod, inputs.container).unwrap();
                container_annotations(&ContainerInputs { attempt, ..*inputs }, &spec)
            })
        };
        let expected = map(&[
            (key::HASH, "8e45cbd0"),
            (key::RESTART_COUNT, "3"),
            (key::MESSAGE_PATH, "/dev/termination-log"),
            (key::MESSAGE_POLICY, "File"),
            (key::TERMINATION_GRACE, "7"),
            (key::PRE_STOP, r#"{"exec":{"command":["bye"]}}"#),
            (key::PORTS, r#"[{"containerPort":80,"protocol":"TCP"}]"#),
        ]);
        assert_eq!(of("test_container", 3), expected);
        assert_eq!(of("plain", 0).len(), 5, "neither handler nor ports");
    }
}
