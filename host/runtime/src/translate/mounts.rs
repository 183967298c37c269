//! What is mounted into a container.

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::api::core::v1;
use polylet_core::pod::Pod;
use polylet_core::volume::SubPath;
use polylet_proto::cri::{ImageSpec, Mount, MountPropagation};

use super::env::Env;
use super::{ContainerInputs, NodeContext, TranslateError, namespaces, spec_container};

const HOSTS: &str = "/etc/hosts";

/// The spec's mounts in its order, then the hosts file, then the file for the termination message.
pub(super) fn of(
    node: &NodeContext,
    inputs: &ContainerInputs<'_>,
    spec: &v1::Container,
    env: &Env,
) -> Result<Vec<Mount>, TranslateError> {
    if spec.volume_devices.as_ref().is_some_and(|devices| !devices.is_empty()) {
        return Err(unsupported("volumeDevices".to_owned(), "raw block devices"));
    }
    let mut out = Vec::new();
    for (index, mount) in spec.volume_mounts.iter().flatten().enumerate() {
        let part = sub_path(env, mount, index)?;
        let source = spec_volume(inputs.pod, &mount.name).and_then(|volume| volume.image.as_ref());
        out.push(match source {
            Some(source) => image(node, inputs, mount, source, part)?,
            None => volume(node, inputs, mount, index, part.is_some())?,
        });
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
    for mount in &mut out {
        mount.uid_mappings = namespaces::mappings(inputs.user_namespace);
        mount.gid_mappings = namespaces::mappings(inputs.user_namespace);
    }
    Ok(out)
}

/// Parts of volumes that the container mounts: they must be ready before it is made.
///
/// # Errors
/// As of [`container_config`](super::container_config), as far as variables and paths go.
pub fn sub_paths(node: &NodeContext, inputs: &ContainerInputs<'_>) -> Result<Vec<SubPath>, TranslateError> {
    let missing = || TranslateError::NoContainer { container: inputs.container.name.as_str().to_owned() };
    let spec = spec_container(inputs.pod, inputs.container).ok_or_else(missing)?;
    let env = Env::of(node, inputs, &spec)?;
    let is_image = |mount: &v1::VolumeMount| spec_volume(inputs.pod, &mount.name).is_some_and(|volume| volume.image.is_some());
    let mounts = spec.volume_mounts.iter().flatten().enumerate().filter(|(_, mount)| !is_image(mount));
    mounts.filter_map(|(index, mount)| sub_path(&env, mount, index).transpose()).collect()
}

/// The field that says which part of the volume is mounted, where one does.
fn part_field(mount: &v1::VolumeMount) -> &'static str {
    if mount.sub_path_expr.as_ref().is_some_and(|text| !text.is_empty()) { "subPathExpr" } else { "subPath" }
}

/// The part of the volume that is mounted; None: all of it.
fn sub_path(env: &Env, mount: &v1::VolumeMount, index: usize) -> Result<Option<SubPath>, TranslateError> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let path = match given(&mount.sub_path_expr) {
        Some(expression) => {
            let mut missing = BTreeSet::new();
            let path = env.expand_strictly(&expression, &mut missing);
            if !missing.is_empty() {
                return Err(TranslateError::MissingValues { names: missing.into_iter().collect() });
            }
            path
        }
        None => mount.sub_path.clone().unwrap_or_default(),
    };
    if path.is_empty() {
        return Ok(None);
    }
    if path.starts_with('/') {
        return Err(TranslateError::AbsoluteSubPath { path });
    }
    if path.split('/').any(|part| part == "..") {
        return Err(TranslateError::SubPathUpwards { path });
    }
    Ok(Some(SubPath { volume: mount.name.clone(), index, path }))
}

fn spec_volume<'a>(pod: &'a Pod, name: &str) -> Option<&'a v1::Volume> {
    pod.object.spec.as_ref()?.volumes.iter().flatten().find(|volume| volume.name == name)
}

/// An image is mounted by the runtime itself, read-only; a part of it too.
fn image(
    node: &NodeContext,
    inputs: &ContainerInputs<'_>,
    mount: &v1::VolumeMount,
    source: &v1::ImageVolumeSource,
    part: Option<SubPath>,
) -> Result<Mount, TranslateError> {
    let volume = || mount.name.clone();
    node.image_mounts.clone().map_err(|why| TranslateError::NoImageMounts { volume: volume(), why })?;
    if let (Some(SubPath { index, path, .. }), Err(why)) = (&part, &node.image_parts) {
        let (index, path, why) = (*index, path.clone(), why.clone());
        return Err(TranslateError::NoImageParts { volume: volume(), index, field: part_field(mount), path, why });
    }
    let missing = || TranslateError::NoVolume { volume: volume(), container: inputs.container.name.as_str().to_owned() };
    let found = inputs.mounted_images.get(&mount.name).ok_or_else(missing)?;
    Ok(Mount {
        container_path: container_path(mount),
        readonly: true,
        propagation: propagation(mount)?.into(),
        recursive_read_only: recursive_read_only(node, mount)?,
        image: Some(ImageSpec {
            image: found.id.clone(),
            user_specified_image: source.reference.clone().unwrap_or_default(),
            ..Default::default()
        }),
        image_sub_path: part.map(|part| part.path).unwrap_or_default(),
        ..Default::default()
    })
}

fn container_path(mount: &v1::VolumeMount) -> String {
    let path = &mount.mount_path;
    if path.starts_with('/') { path.clone() } else { format!("/{path}") }
}

fn volume(
    node: &NodeContext,
    inputs: &ContainerInputs<'_>,
    mount: &v1::VolumeMount,
    index: usize,
    in_part: bool,
) -> Result<Mount, TranslateError> {
    let field = |name: &str| format!("volumeMounts[{index}].{name}");
    if mount.bind_mount_options.as_ref().is_some_and(|options| !options.is_empty()) {
        return Err(unsupported(field("bindMountOptions"), "bind mount options"));
    }
    let declared = spec_volume(inputs.pod, &mount.name);
    let host_path = (inputs.volumes)(&mount.name).ok_or_else(|| TranslateError::NoVolume {
        volume: mount.name.clone(),
        container: inputs.container.name.as_str().to_owned(),
    })?;
    let host_path = if in_part {
        node.paths.sub_path(inputs.pod.uid.as_str(), &mount.name, inputs.container.name.as_str(), index)
    } else {
        host_path
    };
    let filled = declared.is_some_and(is_filled_by_the_node);
    Ok(Mount {
        container_path: container_path(mount),
        host_path: host_path.to_string_lossy().into_owned(),
        readonly: mount.read_only.unwrap_or(false) || filled,
        // Only what the agent itself made may be given another label.
        selinux_relabel: node.selinux && (filled || declared.is_some_and(|volume| volume.empty_dir.is_some())),
        propagation: propagation(mount)?.into(),
        recursive_read_only: recursive_read_only(node, mount)?,
        ..Default::default()
    })
}

/// What containers may only read, as the node writes it.
fn is_filled_by_the_node(volume: &v1::Volume) -> bool {
    volume.downward_api.is_some() || volume.projected.is_some() || volume.config_map.is_some() || volume.secret.is_some()
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
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use polylet_core::observed::Image;
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
        let volumes = json!([
            {"name": "data", "emptyDir": {}}, {"name": "host", "hostPath": {"path": "/srv"}}, {"name": "fields", "downwardAPI": {}},
        ]);
        let pod = pod(json!({"hostNetwork": given.host_network, "volumes": volumes, "containers": [app]}));
        let find = |name: &str| ["data", "host", "fields"].contains(&name).then(|| PathBuf::from(format!("/vol/{name}")));
        with_inputs(&pod, "app", |inputs| {
            let inputs = ContainerInputs {
                ips: &given.ips,
                hosts_file: Some(Path::new("/pod/etc-hosts")),
                termination_log: Some(Path::new("/pod/log")),
                volumes: &find,
                ..*inputs
            };
            let spec = spec_container(inputs.pod, inputs.container).unwrap();
            let env = Env::of(&given.node, &inputs, &spec).map_err(|error| error.to_string())?;
            of(&given.node, &inputs, &spec, &env).map_err(|error| error.to_string())
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
            {"name": "fields", "mountPath": "/f", "readOnly": false},
        ]});
        let expected = [
            Mount { readonly: true, propagation: 1, ..mount("/h", "/vol/host") },
            Mount { propagation: 2, ..mount("/relative", "/vol/data") },
            mount("/again", "/vol/data"),
            Mount { readonly: true, ..mount("/f", "/vol/fields") },
            mount("/etc/hosts", "/pod/etc-hosts"),
            mount("/dev/termination-log", "/pod/log"),
        ];
        assert_eq!(check(&given(), mounts.clone()).as_deref(), Ok(&expected[..]));

        let labelled = Given { node: NodeContext { selinux: true, ..node() }, ..given() };
        let labels: Vec<bool> = check(&labelled, mounts).unwrap().iter().map(|mount| mount.selinux_relabel).collect();
        assert_eq!(labels, [false, true, true, true, true, true]);
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
    fn parts_of_volumes() {
        let container = |env: Value, path: Value| {
            let mounts = json!([
                {"name": "data", "mountPath": "/all", "subPath": ""},
                {"name": "host", "mountPath": "/part", "readOnly": true, "subPath": "a/b"},
                path,
            ]);
            json!({"env": env, "volumeMounts": mounts})
        };
        let by = |expression: &str| json!({"name": "data", "mountPath": "/by", "subPathExpr": expression});
        let env = json!([
            {"name": "A", "value": "a"}, {"name": "P", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "AB", "value": "$(A)b"}, {"name": "UP", "value": ".."}, {"name": "ROOT", "value": "/"}, {"name": "EMPTY"},
        ]);
        let config = |expression: &str| check(&given(), container(env.clone(), by(expression)));
        let expected = [
            mount("/all", "/vol/data"),
            Mount { readonly: true, ..mount("/part", "/var/lib/kubelet/pods/u1/volume-subpaths/host/app/1") },
            mount("/by", "/var/lib/kubelet/pods/u1/volume-subpaths/data/app/2"),
        ];
        assert_eq!(config("x/$(P)").unwrap()[..3], expected);
        for (expression, error) in [
            ("$(UP)/x", "unable to provision SubPath `../x`: must not contain '..'"),
            ("$(ROOT)etc", "error SubPath `/etc` must not be an absolute path"),
            ("$(EMPTY)", "missing value for EMPTY"),
            ("$(ab)", "missing value for ab"),
        ] {
            assert_eq!(config(expression), Err(error.to_owned()), "{expression}");
        }
        for (expression, path) in [("x/$(P)", "x/web"), ("$(AB)-$(A)", "ab-a"), ("$$(A)", "$(A)"), ("$(A", "$(A")] {
            let pod = pod(json!({"containers": [{
                "name": "app", "image": "app", "env": env, "volumeMounts": [{"name": "other", "mountPath": "/o"}, by(expression)],
            }]}));
            let part = SubPath { volume: "data".into(), index: 1, path: path.into() };
            assert_eq!(with_inputs(&pod, "app", |inputs| sub_paths(&node(), inputs)), Ok(vec![part]), "{expression}");
        }
    }

    #[test]
    fn images() {
        let container = json!({"name": "app", "image": "app", "volumeMounts": [
            {"name": "model", "mountPath": "/m", "subPath": "a/b", "readOnly": false}, {"name": "model", "mountPath": "all"},
        ]});
        let pod = pod(json!({
            "containers": [container], "volumes": [{"name": "model", "image": {"reference": "registry.example/model:1"}}],
        }));
        let mounted = BTreeMap::from([("model".to_owned(), Image { id: "sha256:beef".into(), ..Default::default() })]);
        let of = |node: &NodeContext, images: &BTreeMap<String, Image>| {
            with_inputs(&pod, "app", |inputs| {
                let inputs = ContainerInputs { mounted_images: images, ..*inputs };
                let spec = spec_container(inputs.pod, inputs.container).unwrap();
                let env = Env::of(node, &inputs, &spec).unwrap();
                assert_eq!(sub_paths(node, &inputs), Ok(vec![]), "the runtime finds its way in an image");
                super::of(node, &inputs, &spec, &env).map_err(|error| error.to_string())
            })
        };
        let image = ImageSpec {
            image: "sha256:beef".into(),
            user_specified_image: "registry.example/model:1".into(),
            ..Default::default()
        };
        let mount = |path: &str, part: &str| Mount {
            container_path: path.into(),
            readonly: true,
            image: Some(image.clone()),
            image_sub_path: part.into(),
            ..Default::default()
        };
        assert_eq!(of(&node(), &mounted), Ok(vec![mount("/m", "a/b"), mount("/all", "")]));
        assert_eq!(of(&node(), &BTreeMap::new()), Err("cannot find volume \"model\" to mount into container \"app\"".into()));
        let without = NodeContext { image_mounts: Err("containerd 1.6.20 has none".into()), ..node() };
        let error = "volume \"model\": images cannot be mounted: containerd 1.6.20 has none";
        assert_eq!(of(&without, &mounted), Err(error.into()));
    }

    /// The runtime would mount the whole image, and say nothing.
    #[test]
    fn parts_of_images_are_refused_where_the_runtime_has_none() {
        let only_whole = NodeContext { image_parts: Err("containerd has them from 2.2 on, and this is 2.1.9".into()), ..node() };
        let mounted = BTreeMap::from([("model".to_owned(), Image { id: "sha256:beef".into(), ..Default::default() })]);
        let of = |more: Value| {
            let mut mount = json!({"name": "model", "mountPath": "/m"});
            mount.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let env = json!([{"name": "A", "value": "a"}]);
            let pod = pod(json!({
                "containers": [{"name": "app", "image": "app", "env": env, "volumeMounts": [
                    {"name": "data", "mountPath": "/d", "subPath": "x"}, mount,
                ]}],
                "volumes": [{"name": "model", "image": {"reference": "model:1"}}, {"name": "data", "emptyDir": {}}],
            }));
            with_inputs(&pod, "app", |inputs| {
                let volumes = |_: &str| Some(PathBuf::from("/vol/data"));
                let inputs = ContainerInputs { mounted_images: &mounted, volumes: &volumes, ..*inputs };
                let spec = spec_container(inputs.pod, inputs.container).unwrap();
                let env = Env::of(&only_whole, &inputs, &spec).unwrap();
                super::of(&only_whole, &inputs, &spec, &env).map(|mounts| mounts.len()).map_err(|error| error.to_string())
            })
        };
        let refused = |field: &str, path: &str| -> Result<usize, String> {
            Err(format!(
                "volume \"model\": parts of images cannot be mounted (volumeMounts[1].{field} {path:?}): containerd has them from \
                 2.2 on, and this is 2.1.9; without {field} the image can be mounted whole"
            ))
        };
        assert_eq!(of(json!({"subPath": "a/b"})), refused("subPath", "a/b"));
        assert_eq!(of(json!({"subPathExpr": "$(A)/c"})), refused("subPathExpr", "a/c"));
        for whole in [json!({}), json!({"subPath": "", "subPathExpr": ""})] {
            assert_eq!(of(whole), Ok(2));
        }
    }

    #[test]
    fn recursively_read_only() {
        let without = NodeContext { runtime_handlers: Default::default(), ..node() };
        let refused = |why: &str| {
            Err(format!(
                "failed to resolve recursive read-only mode: volume \"data\" requested recursive read-only mode, but {why}"
            ))
        };
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
            (mount(json!({"subPath": "/a"})), "error SubPath `/a` must not be an absolute path"),
            (mount(json!({"subPath": "a/../b"})), "unable to provision SubPath `a/../b`: must not contain '..'"),
            (mount(json!({"subPathExpr": "$(B)/$(A)/$(B)"})), "missing value for A, B"),
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
