//! What a pod that runs has been given. Resources are not changed in place: the node goes on with those that the pod was let in with, in
//! what it sends, shows and counts, whatever the spec has come to say.

use std::sync::Arc;

use k8s_openapi::api::core::v1;
use k8s_openapi::serde_json::{self, Value, json};

use super::{Pod, PodError};

/// Why a pod does not run with the resources that it is declared with, in upstream's words of a node that cannot; None where it does.
pub(crate) fn infeasible(declared: &Pod, runs: &Pod) -> Option<&'static str> {
    let (wanted, given) = (resources(declared), resources(runs));
    if wanted["containers"] != given["containers"] {
        Some("InPlacePodVerticalScaling is disabled")
    } else if wanted != given {
        Some("InPlacePodLevelResourcesVerticalScaling is disabled")
    } else {
        None
    }
}

/// The message of an event about a change of resources, in upstream's form.
pub(crate) fn message(what: &str, pod: &Pod, error: &str) -> String {
    let spec = pod.object.spec.as_ref();
    let list = |containers: Option<&Vec<v1::Container>>| -> Vec<Value> {
        let named = |c: &v1::Container| json!({"name": c.name, "resources": c.resources.clone().unwrap_or_default()});
        containers.into_iter().flatten().map(named).collect()
    };
    let mut told = serde_json::Map::new();
    for (field, containers) in [
        ("initContainers", list(spec.and_then(|spec| spec.init_containers.as_ref()))),
        ("containers", list(spec.map(|spec| &spec.containers))),
    ] {
        if !containers.is_empty() {
            told.insert(field.into(), containers.into());
        }
    }
    told.insert("generation".into(), pod.generation.unwrap_or_default().into());
    told.insert("error".into(), error.into());
    format!("Pod resize {what}: {}", Value::Object(told))
}

/// The resources of a spec: `{"containers": {NAME: …}, "pod": …}`, in the API's terms. Names are unique within a pod.
pub(crate) fn resources(pod: &Pod) -> Value {
    let spec = pod.object.spec.as_ref();
    let of = |resources: &Option<v1::ResourceRequirements>| serde_json::to_value(resources).unwrap_or_default();
    let all = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    let containers: serde_json::Map<String, Value> = all.map(|c| (c.name.clone(), of(&c.resources))).collect();
    json!({"containers": containers, "pod": spec.map(|spec| of(&spec.resources))})
}

/// The pod with these resources in place of its own; containers that they do not name keep theirs, and what is no such value is none.
/// Err: they make no pod.
pub(crate) fn with_resources(pod: &Pod, given: &Value) -> Result<Pod, PodError> {
    let mut object = (*pod.object).clone();
    let read = |value: &Value| serde_json::from_value::<Option<v1::ResourceRequirements>>(value.clone()).unwrap_or_default();
    if let Some(spec) = &mut object.spec {
        spec.resources = read(&given["pod"]);
        for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
            if let Some(own) = given["containers"].get(&container.name) {
                container.resources = read(own);
            }
        }
    }
    Pod::parse(Arc::new(object), pod.source, pod.created)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Source;
    use crate::time::Wall;

    fn pod(cpu: &str, extra: bool) -> Pod {
        let mut containers = vec![json!({"name": "app", "image": "a:1", "resources": {"requests": {"cpu": cpu}}})];
        if extra {
            containers.push(json!({"name": "new", "image": "a:1", "resources": {"limits": {"memory": "1Gi"}}}));
        }
        let object = json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": containers}});
        Pod::parse(Arc::new(serde_json::from_value(object).unwrap()), Source::File, Wall(0)).unwrap()
    }

    #[test]
    fn what_was_given_stays_and_what_is_new_gets_its_own() {
        let before = pod("100m", false);
        let now = with_resources(&pod("900", true), &resources(&before)).unwrap();
        assert_eq!(now.containers[0].resources.cpu_request, Some(100));
        assert_eq!(now.containers[1].resources.memory_limit, Some(1 << 30));
        assert_eq!(now.cpu_request(), 100);
        assert_eq!(resources(&now)["containers"]["app"], resources(&before)["containers"]["app"]);
    }

    #[test]
    fn what_is_no_value_gives_nothing() {
        let now = with_resources(&pod("1", false), &json!({"containers": {"app": 7}})).unwrap();
        assert_eq!(now.containers[0].resources.cpu_request, None);
    }
}
