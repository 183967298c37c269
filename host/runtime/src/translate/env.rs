//! A container's environment.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1;
use polylet_core::pod::{Container, Pod};
use polylet_core::quantity;
use polylet_proto::cri::KeyValue;

use super::expand::expand;
use super::{ContainerInputs, NodeContext, TranslateError, env_file, field_ref, spec_container};

/// The variables, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Env(BTreeMap<String, String>);

impl Env {
    /// `envFrom`, then `env` in the order of the spec: a later entry replaces an earlier one of its name, and literal values may
    /// refer to what came before. There are no variables of services, as there is no API server to learn of services from.
    pub(super) fn of(node: &NodeContext, inputs: &ContainerInputs<'_>, spec: &v1::Container) -> Result<Self, TranslateError> {
        for (index, from) in spec.env_from.iter().flatten().enumerate() {
            let field = |name: &str| format!("envFrom[{index}].{name}");
            if let Some(source) = &from.config_map_ref {
                object(inputs, "configMap", &source.name, source.optional, || field("configMapRef"))?;
            }
            if let Some(source) = &from.secret_ref {
                object(inputs, "secret", &source.name, source.optional, || field("secretRef"))?;
            }
        }
        let mut env = Self::default();
        for (index, variable) in spec.env.iter().flatten().enumerate() {
            let literal = variable.value.as_deref().unwrap_or_default();
            let value = match &variable.value_from {
                Some(source) if literal.is_empty() => match from_source(node, inputs, spec, source, index)? {
                    Some(value) => value,
                    None => continue,
                },
                _ => env.expand(literal),
            };
            env.0.insert(variable.name.clone(), value);
        }
        Ok(env)
    }

    /// The text with its references replaced.
    pub(super) fn expand(&self, text: &str) -> String {
        expand(text, |name| self.0.get(name).cloned())
    }

    /// The same, for who cannot do without: variables that are not there, or empty, are added to `missing`.
    pub(super) fn expand_strictly(&self, text: &str, missing: &mut BTreeSet<String>) -> String {
        expand(text, |name| {
            let value = self.0.get(name).filter(|value| !value.is_empty());
            if value.is_none() {
                missing.insert(name.to_owned());
            }
            value.cloned()
        })
    }

    /// In the order of the names.
    pub(super) fn into_messages(self) -> Vec<KeyValue> {
        self.0.into_iter().map(|(key, value)| KeyValue { key, value: value.into_bytes() }).collect()
    }
}

/// None: the source is not there, and may be absent.
fn from_source(
    node: &NodeContext,
    inputs: &ContainerInputs<'_>,
    spec: &v1::Container,
    source: &v1::EnvVarSource,
    index: usize,
) -> Result<Option<String>, TranslateError> {
    let field = |name: &str| format!("env[{index}].valueFrom.{name}");
    if let Some(source) = &source.field_ref {
        return field_ref::value(node, inputs, &source.field_path).map(Some);
    }
    if let Some(source) = &source.resource_field_ref {
        return resource(node, inputs.pod, Some(spec), source).map(Some);
    }
    if let Some(source) = &source.config_map_key_ref {
        object(inputs, "configMap", &source.name, source.optional, || field("configMapKeyRef"))?;
        return Ok(None);
    }
    if let Some(source) = &source.secret_key_ref {
        object(inputs, "secret", &source.name, source.optional, || field("secretKeyRef"))?;
        return Ok(None);
    }
    if let Some(source) = &source.file_key_ref {
        return of_file(inputs, source);
    }
    Ok(Some(String::new()))
}

/// A variable that a container of the pod has written into a file.
fn of_file(inputs: &ContainerInputs<'_>, source: &v1::FileKeySelector) -> Result<Option<String>, TranslateError> {
    let volumes = inputs.pod.object.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    if !volumes.into_iter().any(|volume| volume.name == source.volume_name && volume.empty_dir.is_some()) {
        return Err(TranslateError::NoEnvVolume { volume: source.volume_name.clone() });
    }
    let file = inputs.env_files.get(&(source.volume_name.clone(), source.path.clone()));
    let Some(Ok(text)) = file else { return Err(TranslateError::BadEnvFile) };
    match env_file::find(text, &source.key).map_err(|_| TranslateError::BadEnvFile)? {
        Some(value) if !value.is_empty() => Ok(Some(value)),
        _ if source.optional == Some(true) => Ok(None),
        _ => Err(TranslateError::NoEnvKey { key: source.key.clone() }),
    }
}

/// Files from which the container's variables come, as volume and path: they must be read before it is made.
pub fn env_files(pod: &Pod, container: &Container) -> BTreeSet<(String, String)> {
    let Some(spec) = spec_container(pod, container) else { return BTreeSet::new() };
    let sources = spec.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()?.file_key_ref.as_ref());
    sources.map(|source| (source.volume_name.clone(), source.path.clone())).collect()
}

/// Nothing can be read of the API here: an object that may be absent counts as absent.
fn object(
    inputs: &ContainerInputs<'_>,
    kind: &'static str,
    name: &str,
    optional: Option<bool>,
    field: impl Fn() -> String,
) -> Result<(), TranslateError> {
    if optional == Some(true) {
        return Ok(());
    }
    let object = format!("{}/{name}", inputs.pod.namespace);
    Err(TranslateError::NoObject { kind, object, field: field() })
}

/// `limits` and `requests` of the container that is named, else of `own`, divided, rounded up. A limit that is not declared is the
/// pod's own, else what the node has for pods.
pub(super) fn resource(
    node: &NodeContext,
    pod: &Pod,
    own: Option<&v1::Container>,
    source: &v1::ResourceFieldSelector,
) -> Result<String, TranslateError> {
    let unsupported = || TranslateError::BadResource { resource: source.resource.clone() };
    let name = source.container_name.as_deref().unwrap_or_default();
    let container = match own.filter(|_| name.is_empty()) {
        Some(own) => Cow::Borrowed(own),
        None => {
            let missing = || TranslateError::NoContainer { container: name.to_owned() };
            spec_container(pod, pod.container(name).ok_or_else(missing)?).ok_or_else(missing)?
        }
    };
    let resources = container.resources.as_ref();
    let (limit, name) = match source.resource.split_once('.') {
        Some(("limits", name)) => (true, name),
        Some(("requests", name)) => (false, name),
        _ => return Err(unsupported()),
    };
    let read: fn(&str) -> Result<u64, quantity::QuantityError> = match name {
        "cpu" => quantity::milli,
        "memory" | "ephemeral-storage" => quantity::whole,
        _ if name.starts_with("hugepages-") => quantity::whole,
        _ => return Err(unsupported()),
    };
    let bad = |value: &str| TranslateError::BadQuantity { field: source.resource.clone(), value: value.to_owned() };
    let amount = |resources: Option<&v1::ResourceRequirements>| {
        let list = resources.and_then(|r| if limit { r.limits.as_ref() } else { r.requests.as_ref() });
        let text = list.and_then(|list| list.get(name));
        text.map_or(Ok(0), |text| read(&text.0).map_err(|_| bad(&text.0)))
    };
    let mut value = amount(resources)?;
    if limit && value == 0 && !name.starts_with("hugepages-") {
        value = amount(pod.object.spec.as_ref().and_then(|spec| spec.resources.as_ref()))?;
        if value == 0 {
            value = match name {
                "cpu" => node.cpu_allocatable_milli,
                "memory" => node.memory_allocatable,
                _ => node.storage_allocatable,
            };
        }
    }
    let one = if name == "cpu" { 1000 } else { 1 };
    let divisor = match &source.divisor {
        Some(text) => read(&text.0).map_err(|_| bad(&text.0))?,
        None => 0,
    };
    Ok(value.div_ceil(if divisor == 0 { one } else { divisor }).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::translate::testing::{node, pod, pod_with, with_inputs};
    use polylet_core::volume::EnvFiles;

    #[track_caller]
    fn of(container: Value) -> Result<Vec<(String, String)>, String> {
        env(&pod_with(container))
    }

    fn env(pod: &polylet_core::pod::Pod) -> Result<Vec<(String, String)>, String> {
        with_inputs(pod, "app", |inputs| {
            let spec = spec_container(inputs.pod, inputs.container).unwrap();
            Env::of(&node(), inputs, &spec).map(|env| env.0.into_iter().collect()).map_err(|error| error.to_string())
        })
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn literals_refer_to_what_came_before() {
        let env = of(json!({"env": [
            {"name": "A", "value": "1"},
            {"name": "B", "value": "$(A)-$(C)-$$(A)"},
            {"name": "C", "value": "$(B)"},
            {"name": "A", "value": "$(A)2"},
            {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['ref']"}}},
            {"name": "E"},
        ]}));
        let expected = [("A", "12"), ("B", "1-$(C)-$(A)"), ("C", "1-$(C)-$(A)"), ("E", ""), ("N", "$(A)")];
        assert_eq!(env, Ok(pairs(&expected)));
    }

    #[test]
    fn what_only_the_api_has() {
        let text = "this node reads no objects from an API server";
        for (container, expected) in [
            (json!({"envFrom": [{"configMapRef": {"name": "m", "optional": true}}]}), Ok(vec![])),
            (json!({"envFrom": [{"secretRef": {"name": "s", "optional": true}}]}), Ok(vec![])),
            (
                json!({"envFrom": [{"prefix": "x"}, {"configMapRef": {"name": "m"}}]}),
                Err(format!("couldn't get configMap shop/m (envFrom[1].configMapRef): {text}")),
            ),
            (
                json!({"envFrom": [{"secretRef": {"name": "s", "optional": false}}]}),
                Err(format!("couldn't get secret shop/s (envFrom[0].secretRef): {text}")),
            ),
            (
                json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k", "optional": true}}}]}),
                Ok(vec![]),
            ),
            (
                json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}),
                Err(format!("couldn't get secret shop/s (env[0].valueFrom.secretKeyRef): {text}")),
            ),
        ] {
            assert_eq!(of(container.clone()), expected, "{container}");
        }
    }

    #[test]
    fn variables_of_files() {
        let of = |volume: &str, path: &str, key: &str, optional: bool| {
            let source = json!({"volumeName": volume, "path": path, "key": key, "optional": optional});
            let env = json!([
                {"name": "A", "valueFrom": {"fileKeyRef": source}},
                {"name": "B", "value": "<$(A)>"},
                {"name": "C", "valueFrom": {"fileKeyRef": {"volumeName": "out", "path": "a", "key": "K"}}},
            ]);
            let pod = pod(json!({
                "containers": [{"name": "app", "image": "app", "env": env}],
                "volumes": [{"name": "out", "emptyDir": {}}, {"name": "host", "hostPath": {"path": "/srv"}}],
            }));
            let wanted = BTreeSet::from([(volume.to_owned(), path.to_owned()), ("out".to_owned(), "a".to_owned())]);
            assert_eq!(env_files(&pod, pod.container("app").unwrap()), wanted);
            let file = |path: &str, content: Result<&str, &str>| {
                (("out".to_owned(), path.to_owned()), content.map(|text| text.as_bytes().to_vec()).map_err(str::to_owned))
            };
            let files =
                EnvFiles::from([file("a", Ok("K='$(B)'\nE=''\n")), file("bad", Ok("K=v")), file("gone", Err("not there"))]);
            with_inputs(&pod, "app", |inputs| {
                let inputs = ContainerInputs { env_files: &files, ..*inputs };
                let spec = spec_container(inputs.pod, inputs.container).unwrap();
                Env::of(&node(), &inputs, &spec)
                    .map(|env| env.0.into_iter().collect::<Vec<_>>())
                    .map_err(|error| error.to_string())
            })
        };
        assert_eq!(of("out", "a", "K", false), Ok(pairs(&[("A", "$(B)"), ("B", "<$(B)>"), ("C", "$(B)")])));
        for key in ["E", "none"] {
            assert_eq!(of("out", "a", key, true), Ok(pairs(&[("B", "<$(A)>"), ("C", "$(B)")])), "{key}");
            let error = format!("environment variable key {key:?} not found in file");
            assert_eq!(of("out", "a", key, false), Err(error), "{key}");
        }
        for path in ["bad", "gone", "unread"] {
            assert_eq!(of("out", path, "K", true), Err("couldn't parse env file".to_owned()), "{path}");
        }
        for volume in ["host", "none"] {
            assert_eq!(of(volume, "a", "K", true), Err(format!("cannot find the volume {volume:?} referenced by FileKeyRef")));
        }
    }

    #[test]
    fn resources() {
        let value = |resource: &str, divisor: Option<&str>, container: Option<&str>| {
            let mut source = json!({"resource": resource});
            if let Some(divisor) = divisor {
                source["divisor"] = json!(divisor);
            }
            if let Some(container) = container {
                source["containerName"] = json!(container);
            }
            let limits = json!({"cpu": "1500m", "memory": "100Mi", "hugepages-2Mi": "4Mi"});
            let requests = json!({"cpu": "250m", "memory": "64Mi", "ephemeral-storage": "1Gi"});
            let pod = pod(json!({
                "resources": {"limits": {"memory": "1Gi"}},
                "containers": [
                    {"name": "app", "image": "app", "resources": {"limits": limits, "requests": requests},
                     "env": [{"name": "A", "valueFrom": {"resourceFieldRef": source}}]},
                    {"name": "bare", "image": "app"},
                ],
            }));
            env(&pod).map(|env| env[0].1.clone())
        };
        for (resource, divisor, container, expected) in [
            ("limits.cpu", None, None, "2"),
            ("limits.cpu", Some("0"), None, "2"),
            ("limits.cpu", Some("1m"), None, "1500"),
            ("requests.cpu", None, None, "1"),
            ("requests.cpu", Some("100m"), None, "3"),
            ("limits.memory", None, None, "104857600"),
            ("limits.memory", Some("1Mi"), None, "100"),
            ("limits.memory", Some("30Mi"), None, "4"),
            ("limits.ephemeral-storage", Some("1Gi"), None, "90"),
            ("requests.ephemeral-storage", Some("1Gi"), None, "1"),
            ("limits.hugepages-2Mi", Some("1Mi"), None, "4"),
            ("requests.hugepages-1Gi", None, None, "0"),
            ("limits.memory", Some("1Mi"), Some("bare"), "1024"),
            ("limits.cpu", Some("1m"), Some("bare"), "3900"),
            ("requests.memory", None, Some("bare"), "0"),
        ] {
            assert_eq!(value(resource, divisor, container).as_deref(), Ok(expected), "{resource} / {divisor:?}");
        }
        for (resource, divisor, container, expected) in [
            ("limits.gpu", None, None, "unsupported container resource : limits.gpu"),
            ("cpu", None, None, "unsupported container resource : cpu"),
            ("limits.cpu", None, Some("other"), "container other not found"),
            ("limits.cpu", Some("x"), None, "limits.cpu: \"x\" is not a quantity"),
        ] {
            assert_eq!(value(resource, divisor, container), Err(expected.to_owned()));
        }
    }
}
