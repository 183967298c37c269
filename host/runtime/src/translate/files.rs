//! What volumes show of their pod: `downwardAPI`, and `projected` volumes with such sources.

use k8s_openapi::api::core::v1;
use polylet_core::pod::Pod;
use polylet_core::volume::{VolumeFile, VolumeFiles};

use super::{NodeContext, TranslateError, env, field_ref};

/// Mode of files for which neither the item nor the volume says one.
const MODE: i32 = 0o644;

/// The files of every volume that the node fills itself.
pub fn volume_files(node: &NodeContext, pod: &Pod) -> VolumeFiles {
    let volumes = pod.object.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let files = volumes.into_iter().filter_map(|volume| {
        let files = match (&volume.downward_api, &volume.projected) {
            (Some(source), _) => {
                let defaults = Defaults { mode: source.default_mode, user: source.default_user };
                fields(node, pod, source.items.as_deref(), defaults)
            }
            (None, Some(source)) => projected(node, pod, &volume.name, source),
            (None, None) => return None,
        };
        Some((volume.name.clone(), files.map_err(|errors| told(&errors))))
    });
    files.collect()
}

/// What the volume says of files that say nothing themselves.
#[derive(Clone, Copy)]
struct Defaults {
    mode: Option<i32>,
    user: Option<i64>,
}

/// All of the sources, in their order.
fn projected(
    node: &NodeContext,
    pod: &Pod,
    volume: &str,
    source: &v1::ProjectedVolumeSource,
) -> Result<Vec<VolumeFile>, Vec<TranslateError>> {
    let defaults = Defaults { mode: source.default_mode, user: source.default_user };
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    for (index, one) in source.sources.iter().flatten().enumerate() {
        let made = match &one.downward_api {
            Some(fields_of) => fields(node, pod, fields_of.items.as_deref(), defaults),
            None => {
                let field = format!("volume {volume:?}: projected.sources[{index}]");
                Err(vec![TranslateError::Unsupported { field, what: "sources other than downwardAPI" }])
            }
        };
        match made {
            Ok(more) => files.extend(more),
            Err(more) => errors.extend(more),
        }
    }
    if errors.is_empty() { Ok(files) } else { Err(errors) }
}

fn fields(
    node: &NodeContext,
    pod: &Pod,
    items: Option<&[v1::DownwardAPIVolumeFile]>,
    defaults: Defaults,
) -> Result<Vec<VolumeFile>, Vec<TranslateError>> {
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    for item in items.unwrap_or_default() {
        let mode = item.mode.or(defaults.mode).unwrap_or(MODE);
        let owner = item.user.or(defaults.user).and_then(|user| u32::try_from(user).ok());
        match value(node, pod, item) {
            Ok(text) => {
                let mode = u32::try_from(mode).unwrap_or_default() & 0o777;
                files.push(VolumeFile { path: item.path.clone(), bytes: text.into_bytes(), mode, owner });
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(files) } else { Err(errors) }
}

fn value(node: &NodeContext, pod: &Pod, item: &v1::DownwardAPIVolumeFile) -> Result<String, TranslateError> {
    match (&item.field_ref, &item.resource_field_ref) {
        (Some(field), _) => {
            let bad = || TranslateError::BadField { path: field.field_path.clone() };
            field_ref::of_metadata(pod, &field.field_path).ok_or_else(bad)
        }
        (None, Some(resource)) => env::resource(node, pod, None, resource),
        // Refused by the API.
        (None, None) => Ok(String::new()),
    }
}

/// One error as it is, several in brackets: upstream's way.
fn told(errors: &[TranslateError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    if let [only] = texts.as_slice() { only.clone() } else { format!("[{}]", texts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::translate::testing::{node, pod_of};

    fn files_of(volume: Value) -> Result<Vec<VolumeFile>, String> {
        let mut named = json!({"name": "v"});
        named.as_object_mut().unwrap().extend(volume.as_object().unwrap().clone());
        let pod = pod_of(json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "labels": {"a": "1", "b": "2"}, "annotations": {"k": "x\ny"}},
            "spec": {"volumes": [named, {"name": "other", "emptyDir": {}}], "containers": [
                {"name": "app", "image": "app", "resources": {"limits": {"memory": "64Mi"}}},
            ]},
        }));
        let mut files = volume_files(&node(), &pod);
        assert_eq!(files.keys().collect::<Vec<_>>(), ["v"]);
        files.remove("v").unwrap()
    }

    fn of(volume: Value) -> Result<Vec<(String, String, u32)>, String> {
        let files = files_of(volume)?;
        Ok(files.into_iter().map(|file| (file.path, String::from_utf8(file.bytes).unwrap(), file.mode)).collect())
    }

    fn file(path: &str, text: &str, mode: u32) -> (String, String, u32) {
        (path.to_owned(), text.to_owned(), mode)
    }

    #[test]
    fn downward_api() {
        let field = |path: &str, field: &str| json!({"path": path, "fieldRef": {"fieldPath": field}});
        let memory = json!({"path": "memory", "mode": 256, "resourceFieldRef": {
            "containerName": "app", "resource": "limits.memory", "divisor": "1Mi",
        }});
        let cpu = json!({"path": "cpu", "resourceFieldRef": {"containerName": "app", "resource": "limits.cpu", "divisor": "1m"}});
        let items = json!([
            field("name", "metadata.name"),
            field("d/labels", "metadata.labels"),
            field("one", "metadata.labels['a']"),
            field("none", "metadata.labels['z']"),
            field("notes", "metadata.annotations"),
            memory,
            cpu,
        ]);
        let files = of(json!({"downwardAPI": {"items": items, "defaultMode": 288}}));
        let expected = [
            file("name", "web", 0o440),
            file("d/labels", "a=\"1\"\nb=\"2\"", 0o440),
            file("one", "1", 0o440),
            file("none", "", 0o440),
            file("notes", "k=\"x\\ny\"", 0o440),
            file("memory", "64", 0o400),
            file("cpu", "3900", 0o440),
        ];
        assert_eq!(files.as_deref(), Ok(&expected[..]));
        assert_eq!(of(json!({"downwardAPI": {}})), Ok(vec![]));
    }

    #[test]
    fn projected_sources_in_order() {
        let source =
            |path: &str, field: &str| json!({"downwardAPI": {"items": [{"path": path, "fieldRef": {"fieldPath": field}}]}});
        let sources = json!([source("x", "metadata.name"), source("y", "metadata.uid"), source("x", "metadata.namespace")]);
        let files = of(json!({"projected": {"sources": sources}}));
        let expected = [file("x", "web", 0o644), file("y", "u1", 0o644), file("x", "shop", 0o644)];
        assert_eq!(files.as_deref(), Ok(&expected[..]));
    }

    #[test]
    fn the_items_owner_or_else_the_volumes() {
        let items = json!([
            {"path": "a", "user": 7, "fieldRef": {"fieldPath": "metadata.name"}},
            {"path": "b", "fieldRef": {"fieldPath": "metadata.name"}},
            {"path": "c", "user": 0, "fieldRef": {"fieldPath": "metadata.name"}},
        ]);
        let owners = |volume: Value| files_of(volume).unwrap().iter().map(|file| file.owner).collect::<Vec<_>>();
        assert_eq!(owners(json!({"downwardAPI": {"items": items}})), [Some(7), None, Some(0)]);
        assert_eq!(owners(json!({"downwardAPI": {"items": items, "defaultUser": 1000}})), [Some(7), Some(1000), Some(0)]);
        let sources = json!([{"downwardAPI": {"items": items}}]);
        assert_eq!(owners(json!({"projected": {"sources": sources}})), [Some(7), None, Some(0)]);
        assert_eq!(owners(json!({"projected": {"sources": sources, "defaultUser": 1000}})), [Some(7), Some(1000), Some(0)]);
    }

    #[test]
    fn all_that_is_wrong_is_told() {
        let of_app = |resource: &str, container: &str| json!({"path": "r", "resourceFieldRef": {"containerName": container, "resource": resource}});
        let address = json!({"path": "ip", "fieldRef": {"fieldPath": "status.podIP"}});
        assert_eq!(of(json!({"downwardAPI": {"items": [address]}})), Err("unsupported fieldPath: status.podIP".into()));
        let items = json!([of_app("limits.gpu", "app"), of_app("limits.cpu", "none"), of_app("limits.cpu", "")]);
        let expected = "[unsupported container resource : limits.gpu, container none not found, container  not found]";
        assert_eq!(of(json!({"downwardAPI": {"items": items}})), Err(expected.into()));
        let expected = "volume \"v\": projected.sources[0]: sources other than downwardAPI: not supported by this node yet";
        assert_eq!(of(json!({"projected": {"sources": [{"secret": {"name": "s"}}]}})), Err(expected.into()));
    }
}
