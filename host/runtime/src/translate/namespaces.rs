//! Which namespaces a pod shares with the node, and its containers with each other.

use polylet_core::pod::{ContainerKind, Pod};
use polylet_proto::cri::{IdMapping, NamespaceMode, NamespaceOption, UserNamespace};

use super::{ContainerInputs, Node, SandboxInputs, TranslateError, target_of};

/// User and group ids of the node that stand for the ids from 0 on in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// The first one, on the node.
    pub first: u32,
    /// How many.
    pub length: u32,
}

impl IdRange {
    /// As the runtime wants it, for ids of users and of groups alike.
    pub(super) fn mappings(self) -> Vec<IdMapping> {
        vec![IdMapping { host_id: self.first, container_id: 0, length: self.length }]
    }
}

pub(super) fn of_sandbox(pod: &Pod, node: &Node, inputs: &SandboxInputs) -> Result<NamespaceOption, TranslateError> {
    let shared = pod.object.spec.as_ref().and_then(|spec| spec.share_process_namespace).unwrap_or(false);
    let user = user(pod, node, &inputs.handler, inputs.ids)?;
    Ok(common(pod, if shared { NamespaceMode::Pod } else { NamespaceMode::Container }, user))
}

pub(super) fn of_container(
    pod: &Pod,
    name: &str,
    kind: ContainerKind,
    node: &Node,
    inputs: &ContainerInputs,
) -> Result<NamespaceOption, TranslateError> {
    let shared = pod.object.spec.as_ref().and_then(|spec| spec.share_process_namespace).unwrap_or(false);
    let user = user(pod, node, &inputs.handler, inputs.ids)?;
    let mut options = common(pod, if shared { NamespaceMode::Pod } else { NamespaceMode::Container }, user);
    if kind == ContainerKind::Ephemeral
        && options.pid() == NamespaceMode::Container
        && let Some(target) = target_of(pod, name)
    {
        let missing = || TranslateError::NoTarget { target: target.to_owned() };
        options.target_id = inputs.target.clone().ok_or_else(missing)?;
        options.set_pid(NamespaceMode::Target);
    }
    Ok(options)
}

fn common(pod: &Pod, own_processes: NamespaceMode, user: UserNamespace) -> NamespaceOption {
    let spec = pod.object.spec.as_ref();
    let of = |host: bool, else_: NamespaceMode| if host { NamespaceMode::Node } else { else_ };
    NamespaceOption {
        network: of(pod.host_network, NamespaceMode::Pod).into(),
        pid: of(spec.and_then(|spec| spec.host_pid).unwrap_or(false), own_processes).into(),
        ipc: of(spec.and_then(|spec| spec.host_ipc).unwrap_or(false), NamespaceMode::Pod).into(),
        target_id: String::new(),
        userns_options: Some(user),
    }
}

fn user(pod: &Pod, node: &Node, handler: &str, ids: Option<IdRange>) -> Result<UserNamespace, TranslateError> {
    if pod.object.spec.as_ref().and_then(|spec| spec.host_users).unwrap_or(true) {
        return Ok(UserNamespace { mode: NamespaceMode::Node.into(), ..Default::default() });
    }
    if !node.handlers.get(handler).is_some_and(|features| features.user_namespaces) {
        return Err(TranslateError::NoUserNamespaces);
    }
    let ids = ids.ok_or(TranslateError::NoIds)?;
    Ok(UserNamespace { mode: NamespaceMode::Pod.into(), uids: ids.mappings(), gids: ids.mappings() })
}

#[cfg(test)]
mod tests {
    use NamespaceMode::{Container, Node as OfNode, Pod as OfPod, Target};
    use serde_json::{Value, json};

    use super::*;
    use crate::translate::testing::{node, pod};

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
        ];
        for (spec, expected) in cases {
            let pod = pod_of(spec.clone());
            let of_sandbox = of_sandbox(&pod, &node(), &SandboxInputs::default()).unwrap();
            let of_app = of_container(&pod, "app", ContainerKind::App, &node(), &ContainerInputs::default()).unwrap();
            for options in [of_sandbox, of_app] {
                assert_eq!([options.network(), options.pid(), options.ipc()], expected, "{spec}");
                assert_eq!(options.userns_options.unwrap().mode(), OfNode, "{spec}");
            }
        }
    }

    #[test]
    fn an_ephemeral_container_sees_its_targets_processes() {
        let of = |spec: Value, name: &str, target: Option<&str>| {
            let inputs = ContainerInputs { target: target.map(str::to_owned), ..Default::default() };
            let options = of_container(&pod_of(spec), name, ContainerKind::Ephemeral, &node(), &inputs)?;
            Ok((options.pid(), options.target_id))
        };
        assert_eq!(of(json!({}), "debug", Some("c7")), Ok((Target, "c7".into())));
        assert_eq!(of(json!({}), "aside", Some("c7")), Ok((Container, String::new())));
        assert_eq!(of(json!({"hostPID": true}), "debug", Some("c7")), Ok((OfNode, String::new())));
        assert_eq!(of(json!({}), "debug", None), Err(TranslateError::NoTarget { target: "app".into() }));
    }

    #[test]
    fn user_namespaces() {
        let pod = pod_of(json!({"hostUsers": false}));
        let inputs = |ids, handler: &str| SandboxInputs { ids, handler: handler.into(), ..Default::default() };
        let ids = Some(IdRange { first: 65_536, length: 65_536 });
        let user = of_sandbox(&pod, &node(), &inputs(ids, "")).unwrap().userns_options.unwrap();
        assert_eq!(user.mode(), OfPod);
        assert_eq!(user.uids, [IdMapping { host_id: 65_536, container_id: 0, length: 65_536 }]);
        assert_eq!(user.uids, user.gids);
        assert_eq!(of_sandbox(&pod, &node(), &inputs(None, "")), Err(TranslateError::NoIds));
        assert_eq!(of_sandbox(&pod, &node(), &inputs(ids, "kata")), Err(TranslateError::NoUserNamespaces));
    }
}
