//! What is mounted into a container.

use std::path::Path;

use k8s_openapi::api::core::v1;
use polylet_proto::cri::{Mount, MountPropagation};

use super::{ContainerInputs, NodeContext, TranslateError};

const HOSTS: &str = "/etc/hosts";

/// The spec's mounts in its order, then the hosts file, then the file for the termination message.
pub(super) fn of(node: &NodeContext, inputs: &ContainerInputs<'_>, spec: &v1::Container) -> Result<Vec<Mount>, TranslateError> {
    if spec.volume_devices.as_ref().is_some_and(|devices| !devices.is_empty()) {
        return Err(unsupported("volumeDevices".to_owned(), "raw block devices"));
    }
    let mut out = Vec::new();
    for (index, mount) in spec.volume_mounts.iter().flatten().enumerate() {
        out.push(volume(node, inputs, mount, index)?);
    }
    let own_hosts = spec.volume_mounts.iter().flatten().any(|mount| mount.mount_path == HOSTS);
    let known = inputs.pod.host_network || !inputs.ips.is_empty();
    if let Some(file) = inputs.hosts_file.filter(|_| known && !own_hosts) {
        out.push(file_mount(node, file, HOSTS));
    }
    let message_path = inputs.container.termination_message_path.as_str();
    if let Some(file) = inputs.termination_log.filter(|_| !message_path.is_empty()) {
        out.push(file_mount(node, file, message_path));
    }
    Ok(out)
}

fn volume(
    node: &NodeContext,
    inputs: &ContainerInputs<'_>,
    mount: &v1::VolumeMount,
    index: usize,
) -> Result<Mount, TranslateError> {
    let field = |name: &str| format!("volumeMounts[{index}].{name}");
    let given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    if given(&mount.sub_path) {
        return Err(unsupported(field("subPath"), "paths within a volume"));
    }
    if given(&mount.sub_path_expr) {
        return Err(unsupported(field("subPathExpr"), "paths within a volume"));
    }
    if mount.bind_mount_options.as_ref().is_some_and(|options| !options.is_empty()) {
        return Err(unsupported(field("bindMountOptions"), "bind mount options"));
    }
    let declared = inputs.pod.object.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let declared = declared.into_iter().find(|volume| volume.name == mount.name);
    let host_path = (inputs.volumes)(&mount.name).ok_or_else(|| TranslateError::NoVolume {
        volume: mount.name.clone(),
        container: inputs.container.name.as_str().to_owned(),
    })?;
    let path = &mount.mount_path;
    Ok(Mount {
        container_path: if path.starts_with('/') { path.clone() } else { format!("/{path}") },
        host_path: host_path.to_string_lossy().into_owned(),
        readonly: mount.read_only.unwrap_or(false),
        // Only what the agent itself made may be given another label.
        selinux_relabel: node.selinux && declared.is_some_and(|volume| volume.empty_dir.is_some()),
        propagation: propagation(mount)?.into(),
        recursive_read_only: recursive_read_only(node, mount)?,
        ..Default::default()
    })
}

/// Both are the agent's own files, which the container may write.
fn file_mount(node: &NodeContext, file: &Path, container_path: &str) -> Mount {
    Mount {
        container_path: container_path.to_owned(),
        host_path: file.to_string_lossy().into_owned(),
        selinux_relabel: node.selinux,
        ..Default::default()
    }
}

fn propagation(mount: &v1::VolumeMount) -> Result<MountPropagation, TranslateError> {
    Ok(match mount.mount_propagation.as_deref() {
        None | Some("None") => MountPropagation::PropagationPrivate,
        Some("HostToContainer") => MountPropagation::PropagationHostToContainer,
        Some("Bidirectional") => MountPropagation::PropagationBidirectional,
        Some(other) => return Err(TranslateError::BadPropagation { mode: other.to_owned() }),
    })
}

fn recursive_read_only(node: &NodeContext, mount: &v1::VolumeMount) -> Result<bool, TranslateError> {
    let refused = |why: String| TranslateError::RecursiveReadOnly { volume: mount.name.clone(), why };
    let mode = match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => return Ok(false),
        Some(mode) => mode,
    };
    if mount.read_only != Some(true) {
        return Err(refused("it is not read-only".to_owned()));
    }
    if let Some(propagation) = mount.mount_propagation.as_deref().filter(|propagation| *propagation != "None") {
        return Err(refused(format!("it is not compatible with propagation {propagation:?}")));
    }
    let supported = node.runtime_handlers.get("").is_some_and(|features| features.recursive_read_only_mounts);
    match mode {
        "IfPossible" => Ok(supported),
        "Enabled" if supported => Ok(true),
        "Enabled" => Err(refused("it is not supported by the runtime".to_owned())),
        other => Err(refused(format!("there is no mode {other:?}"))),
    }
}

fn unsupported(field: String, what: &'static str) -> TranslateError {
    TranslateError::Unsupported { field, what }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::{Value, json};

    use super::*;
    use crate::translate::spec_container;
    use crate::translate::testing::{node, pod, strings, with_inputs};

    struct Given {
        ips: Vec<String>,
        node: NodeContext,
        host_network: bool,
    }

    fn given() -> Given {
        Given { ips: strings(&["10.0.0.7"]), node: node(), host_network: false }
    }

    fn check(given: &Given, container: Value) -> Result<Vec<Mount>, String> {
        let mut app = json!({"name": "app", "image": "app"});
        app.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
        let volumes = json!([{"name": "data", "emptyDir": {}}, {"name": "host", "hostPath": {"path": "/srv"}}]);
        let pod = pod(json!({"hostNetwork": given.host_network, "volumes": volumes, "containers": [app]}));
        let find = |name: &str| ["data", "host"].contains(&name).then(|| PathBuf::from(format!("/vol/{name}")));
        with_inputs(&pod, "app", |inputs| {
            let inputs = ContainerInputs {
                ips: &given.ips,
                hosts_file: Some(Path::new("/pod/etc-hosts")),
                termination_log: Some(Path::new("/pod/log")),
                volumes: &find,
                ..*inputs
            };
            let spec = spec_container(inputs.pod, inputs.container).unwrap();
            of(&given.node, &inputs, &spec).map_err(|error| error.to_string())
        })
    }

    fn mount(container_path: &str, host_path: &str) -> Mount {
        Mount { container_path: container_path.into(), host_path: host_path.into(), ..Default::default() }
    }

    #[test]
    fn in_order() {
        let mounts = json!({"volumeMounts": [
            {"name": "host", "mountPath": "/h", "readOnly": true, "mountPropagation": "HostToContainer"},
            {"name": "data", "mountPath": "relative", "mountPropagation": "Bidirectional"},
            {"name": "data", "mountPath": "/again", "mountPropagation": "None"},
        ]});
        let expected = [
            Mount { readonly: true, propagation: 1, ..mount("/h", "/vol/host") },
            Mount { propagation: 2, ..mount("/relative", "/vol/data") },
            mount("/again", "/vol/data"),
            mount("/etc/hosts", "/pod/etc-hosts"),
            mount("/dev/termination-log", "/pod/log"),
        ];
        assert_eq!(check(&given(), mounts.clone()).as_deref(), Ok(&expected[..]));

        let labelled = Given { node: NodeContext { selinux: true, ..node() }, ..given() };
        let labels: Vec<bool> = check(&labelled, mounts).unwrap().iter().map(|mount| mount.selinux_relabel).collect();
        assert_eq!(labels, [false, true, true, true, true]);
    }

    #[test]
    fn files_of_the_agent() {
        let paths = |given: &Given, container: Value| {
            let mounts = check(given, container).unwrap();
            mounts.into_iter().map(|mount| mount.container_path).collect::<Vec<_>>()
        };
        let no_ips = Given { ips: vec![], ..given() };
        assert_eq!(paths(&no_ips, json!({})), ["/dev/termination-log"]);
        let on_host = Given { ips: vec![], host_network: true, ..given() };
        assert_eq!(paths(&on_host, json!({})), ["/etc/hosts", "/dev/termination-log"]);
        let own = json!({"volumeMounts": [{"name": "data", "mountPath": "/etc/hosts"}], "terminationMessagePath": "/end"});
        assert_eq!(paths(&given(), own), ["/etc/hosts", "/end"]);
        assert_eq!(paths(&given(), json!({"terminationMessagePath": ""})), ["/etc/hosts"]);
    }

    #[test]
    fn recursively_read_only() {
        let without = NodeContext { runtime_handlers: Default::default(), ..node() };
        let refused = |why: &str| Err(format!("volume \"data\" requested recursive read-only mode, but {why}"));
        for (node, more, expected) in [
            (node(), json!({"recursiveReadOnly": "Disabled"}), Ok(false)),
            (node(), json!({"recursiveReadOnly": "IfPossible", "readOnly": true}), Ok(true)),
            (without.clone(), json!({"recursiveReadOnly": "IfPossible", "readOnly": true}), Ok(false)),
            (node(), json!({"recursiveReadOnly": "Enabled", "readOnly": true, "mountPropagation": "None"}), Ok(true)),
            (without, json!({"recursiveReadOnly": "Enabled", "readOnly": true}), refused("it is not supported by the runtime")),
            (node(), json!({"recursiveReadOnly": "Enabled"}), refused("it is not read-only")),
            (
                node(),
                json!({"recursiveReadOnly": "Enabled", "readOnly": true, "mountPropagation": "HostToContainer"}),
                refused("it is not compatible with propagation \"HostToContainer\""),
            ),
        ] {
            let mut mount = json!({"name": "data", "mountPath": "/d"});
            mount.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let given = Given { node, ..given() };
            let found = check(&given, json!({"volumeMounts": [mount]})).map(|mounts| mounts[0].recursive_read_only);
            assert_eq!(found, expected, "{more}");
        }
    }

    #[test]
    fn refused() {
        let mount = |more: Value| {
            let mut mount = json!({"name": "data", "mountPath": "/d"});
            mount.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"volumeMounts": [mount]})
        };
        for (container, expected) in [
            (mount(json!({"name": "none"})), "cannot find volume \"none\" to mount into container \"app\""),
            (mount(json!({"subPath": "a"})), "volumeMounts[0].subPath: paths within a volume: not supported by this node yet"),
            (
                mount(json!({"subPathExpr": "$(A)"})),
                "volumeMounts[0].subPathExpr: paths within a volume: not supported by this node yet",
            ),
            (mount(json!({"mountPropagation": "Sideways"})), "invalid MountPropagation mode: \"Sideways\""),
            (
                json!({"volumeDevices": [{"name": "data", "devicePath": "/dev/x"}]}),
                "volumeDevices: raw block devices: not supported by this node yet",
            ),
        ] {
            assert_eq!(check(&given(), container), Err(expected.to_owned()));
        }
    }
}
