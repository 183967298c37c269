//! Which namespaces a pod shares with the node, and its containers with each other.

use polylet_core::pod::Pod;
use polylet_core::userns::IdRange;
use polylet_proto::cri::{IdMapping, NamespaceMode, NamespaceOption, UserNamespace};

use super::{ContainerInputs, NodeContext, TranslateError};

/// Those of the sandbox.
pub(super) fn of_pod(pod: &Pod, node: &NodeContext, users: Option<IdRange>) -> Result<NamespaceOption, TranslateError> {
    let spec = pod.object.spec.as_ref();
    let is_set = |of: fn(&k8s_openapi::api::core::v1::PodSpec) -> Option<bool>| spec.and_then(of).unwrap_or(false);
    let node_or = |host: bool, otherwise: NamespaceMode| if host { NamespaceMode::Node } else { otherwise };
    let processes = if is_set(|spec| spec.share_process_namespace) { NamespaceMode::Pod } else { NamespaceMode::Container };
    let own_users = has_own_users(pod);
    if own_users && !node.runtime_handlers.get("").is_some_and(|features| features.user_namespaces) {
        return Err(TranslateError::NoUserNamespaces);
    }
    Ok(NamespaceOption {
        network: node_or(pod.host_network, NamespaceMode::Pod).into(),
        pid: node_or(is_set(|spec| spec.host_pid), processes).into(),
        ipc: node_or(is_set(|spec| spec.host_ipc), NamespaceMode::Pod).into(),
        target_id: String::new(),
        userns_options: Some(UserNamespace {
            mode: node_or(!own_users, NamespaceMode::Pod).into(),
            uids: mappings(users),
            gids: mappings(users),
        }),
    })
}

/// The pod has a user namespace of its own: its root is not the node's.
pub fn has_own_users(pod: &Pod) -> bool {
    pod.object.spec.as_ref().and_then(|spec| spec.host_users) == Some(false)
}

/// The ids of the pod from zero on.
pub(super) fn mappings(users: Option<IdRange>) -> Vec<IdMapping> {
    let mapping = |range: IdRange| IdMapping { host_id: range.first, container_id: 0, length: range.length };
    users.map(mapping).into_iter().collect()
}

/// Those of one container: an ephemeral one may see the processes of another container.
pub(super) fn of_container(node: &NodeContext, inputs: &ContainerInputs<'_>) -> Result<NamespaceOption, TranslateError> {
    let mut options = of_pod(inputs.pod, node, inputs.user_namespace)?;
    if options.pid() == NamespaceMode::Container
        && let Some(target) = inputs.pod.target_of(inputs.container)
    {
        let missing = || TranslateError::NoTarget { target: target.to_owned() };
        options.target_id = inputs.target.ok_or_else(missing)?.to_owned();
        options.set_pid(NamespaceMode::Target);
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use NamespaceMode::{Container, Node as OfNode, Pod as OfPod, Target};
    use serde_json::{Value, json};

    use super::*;
    use crate::translate::testing::{node, pod, with_inputs};

    fn pod_of(mut spec: Value) -> Pod {
        spec["containers"] = json!([{"name": "app", "image": "app"}]);
        spec["ephemeralContainers"] = json!([
            {"name": "debug", "image": "app", "targetContainerName": "app"},
            {"name": "aside", "image": "app"},
        ]);
        pod(spec)
    }

    #[test]
    fn modes() {
        let cases = [
            (json!({}), [OfPod, Container, OfPod]),
            (json!({"hostNetwork": true}), [OfNode, Container, OfPod]),
            (json!({"hostPID": true}), [OfPod, OfNode, OfPod]),
            (json!({"hostIPC": true}), [OfPod, Container, OfNode]),
            (json!({"shareProcessNamespace": true}), [OfPod, OfPod, OfPod]),
            (json!({"shareProcessNamespace": true, "hostPID": true}), [OfPod, OfNode, OfPod]),
        ];
        for (spec, expected) in cases {
            let pod = pod_of(spec.clone());
            let of_app = with_inputs(&pod, "app", |inputs| of_container(&node(), inputs)).unwrap();
            for options in [of_pod(&pod, &node(), None).unwrap(), of_app] {
                assert_eq!([options.network(), options.pid(), options.ipc()], expected, "{spec}");
                assert_eq!(options.userns_options.unwrap().mode(), OfNode, "{spec}");
            }
        }
    }

    #[test]
    fn an_ephemeral_container_sees_its_targets_processes() {
        let of = |spec: Value, name: &str, target: Option<&str>| {
            let options =
                with_inputs(&pod_of(spec), name, |inputs| of_container(&node(), &ContainerInputs { target, ..*inputs }))?;
            Ok((options.pid(), options.target_id))
        };
        assert_eq!(of(json!({}), "debug", Some("c7")), Ok((Target, "c7".into())));
        assert_eq!(of(json!({}), "aside", Some("c7")), Ok((Container, String::new())));
        assert_eq!(of(json!({}), "app", Some("c7")), Ok((Container, String::new())));
        assert_eq!(of(json!({"hostPID": true}), "debug", Some("c7")), Ok((OfNode, String::new())));
        assert_eq!(of(json!({}), "debug", None), Err(TranslateError::NoTarget { target: "app".into() }));
    }

    #[test]
    fn user_namespaces() {
        let pod = pod_of(json!({"hostUsers": false}));
        let range = Some(IdRange { first: 131_072, length: 65_536 });
        let expected = UserNamespace {
            mode: OfPod.into(),
            uids: vec![IdMapping { host_id: 131_072, container_id: 0, length: 65_536 }],
            gids: vec![IdMapping { host_id: 131_072, container_id: 0, length: 65_536 }],
        };
        assert_eq!(of_pod(&pod, &node(), range).unwrap().userns_options, Some(expected.clone()));
        let of_app =
            with_inputs(&pod, "app", |inputs| of_container(&node(), &ContainerInputs { user_namespace: range, ..*inputs }));
        assert_eq!(of_app.unwrap().userns_options, Some(expected));
        let without = NodeContext { runtime_handlers: Default::default(), ..node() };
        assert_eq!(of_pod(&pod, &without, range), Err(TranslateError::NoUserNamespaces));
        assert!(of_pod(&pod_of(json!({"hostUsers": true})), &without, None).is_ok());
    }
}
