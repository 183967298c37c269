//! What a pod that runs has been given. Resources are not changed in place: the node goes on with those that the pod was let in with, in
//! what it sends, shows and counts, whatever the spec has come to say.

use std::sync::Arc;

use k8s_openapi::api::core::v1;
use k8s_openapi::serde_json::{self, Value, json};

use super::{Pod, PodError};

/// Why other resources are not given: upstream's words of a node that cannot.
pub(crate) const INFEASIBLE: &str = "InPlacePodVerticalScaling is disabled";

/// The resources of a spec: `{"containers": {NAME: …}, "pod": …}`, in the API's terms. Names are unique within a pod.
pub(crate) fn resources(pod: &Pod) -> Value {
    let spec = pod.object.spec.as_ref();
    let of = |resources: &Option<v1::ResourceRequirements>| serde_json::to_value(resources).unwrap_or_default();
    let all = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    let containers: serde_json::Map<String, Value> = all.map(|c| (c.name.clone(), of(&c.resources))).collect();
    json!({"containers": containers, "pod": spec.map(|spec| of(&spec.resources))})
}

/// The pod with these resources in place of its own; containers that they do not name keep theirs. Err: what was kept is no such value.
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
