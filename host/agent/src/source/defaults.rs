//! What the API server fills in: a static pod has none, so the node does it.
//!
//! A zero or an empty text counts as not set, as it does in the API's own encoding.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use polylet_core::quantity;

type Amounts = BTreeMap<String, Quantity>;

/// Fills in every default that the API has for what a static pod may contain.
pub fn default_pod(pod: &mut v1::Pod) {
    let spec = pod.spec.get_or_insert_default();
    text(&mut spec.restart_policy, "Always");
    text(&mut spec.dns_policy, "ClusterFirst");
    text(&mut spec.scheduler_name, "default-scheduler");
    spec.termination_grace_period_seconds.get_or_insert(30);
    spec.security_context.get_or_insert_default();
    spec.enable_service_links.get_or_insert(true);
    let host_network = spec.host_network == Some(true);
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        default_container(container);
        if host_network {
            for port in container.ports.iter_mut().flatten() {
                number(&mut port.host_port, port.container_port);
            }
        }
    }
    spec.volumes.iter_mut().flatten().for_each(default_volume);
    spec.overhead.iter_mut().for_each(round_up);
    default_pod_resources(spec);
}

fn default_container(container: &mut v1::Container) {
    let image = container.image.as_deref().unwrap_or_default();
    text(&mut container.image_pull_policy, pull_policy(image));
    text(&mut container.termination_message_path, "/dev/termination-log");
    text(&mut container.termination_message_policy, "File");
    for port in container.ports.iter_mut().flatten() {
        text(&mut port.protocol, "TCP");
    }
    for source in container.env.iter_mut().flatten().filter_map(|env| env.value_from.as_mut()) {
        source.field_ref.iter_mut().for_each(default_field_ref);
    }
    for probe in [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe] {
        probe.iter_mut().for_each(default_probe);
    }
    if let Some(lifecycle) = &mut container.lifecycle {
        for handler in [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten() {
            handler.http_get.iter_mut().for_each(default_http_get);
        }
    }
    if let Some(resources) = &mut container.resources {
        resources.limits.iter_mut().for_each(round_up);
        resources.requests.iter_mut().for_each(round_up);
        if let Some(limits) = resources.limits.as_ref().filter(|limits| !limits.is_empty()) {
            let requests = resources.requests.get_or_insert_default();
            for (name, limit) in limits {
                requests.entry(name.clone()).or_insert_with(|| limit.clone());
            }
        }
    }
}

/// `Always` where the tag is `latest` or there is neither tag nor digest.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or(name);
    match (last.split_once(':'), digest) {
        (Some((_, "latest")), _) | (None, None) => "Always",
        _ => "IfNotPresent",
    }
}

fn default_probe(probe: &mut v1::Probe) {
    number(&mut probe.timeout_seconds, 1);
    number(&mut probe.period_seconds, 10);
    number(&mut probe.success_threshold, 1);
    number(&mut probe.failure_threshold, 3);
    probe.http_get.iter_mut().for_each(default_http_get);
    if let Some(grpc) = &mut probe.grpc {
        grpc.service.get_or_insert_default();
    }
}

fn default_http_get(action: &mut v1::HTTPGetAction) {
    text(&mut action.path, "/");
    text(&mut action.scheme, "HTTP");
}

fn default_field_ref(field: &mut v1::ObjectFieldSelector) {
    text(&mut field.api_version, "v1");
}

fn default_volume(volume: &mut v1::Volume) {
    const MODE: i32 = 0o644;
    let bare = v1::Volume { name: volume.name.clone(), ..v1::Volume::default() };
    if *volume == bare {
        volume.empty_dir = Some(v1::EmptyDirVolumeSource::default());
    }
    if let Some(host_path) = &mut volume.host_path {
        host_path.type_.get_or_insert_default();
    }
    if let Some(source) = &mut volume.config_map {
        source.default_mode.get_or_insert(MODE);
    }
    if let Some(source) = &mut volume.secret {
        source.default_mode.get_or_insert(MODE);
    }
    if let Some(source) = &mut volume.downward_api {
        source.default_mode.get_or_insert(MODE);
        for file in source.items.iter_mut().flatten() {
            file.field_ref.iter_mut().for_each(default_field_ref);
        }
    }
    if let Some(source) = &mut volume.projected {
        source.default_mode.get_or_insert(MODE);
        for projection in source.sources.iter_mut().flatten() {
            for file in projection.downward_api.iter_mut().flat_map(|d| &mut d.items).flatten() {
                file.field_ref.iter_mut().for_each(default_field_ref);
            }
            if let Some(token) = &mut projection.service_account_token {
                token.expiration_seconds.get_or_insert(3600);
            }
        }
    }
    if let Some(image) = &mut volume.image {
        text(&mut image.pull_policy, pull_policy(image.reference.as_deref().unwrap_or_default()));
    }
}

/// Pod-level requests, where limits are declared: what the containers ask for together, else the limit.
fn default_pod_resources(spec: &mut v1::PodSpec) {
    let Some(resources) = &mut spec.resources else { return };
    resources.limits.iter_mut().for_each(round_up);
    resources.requests.iter_mut().for_each(round_up);
    let Some(limits) = resources.limits.clone().filter(|limits| !limits.is_empty()) else { return };
    let mut requests = resources.requests.clone().unwrap_or_default();
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let containers = init.iter().chain(&spec.containers);
    let asked: std::collections::BTreeSet<&String> =
        containers.filter_map(|c| c.resources.as_ref()?.requests.as_ref()).flat_map(BTreeMap::keys).collect();
    for name in asked.into_iter().filter(|name| pod_level(name)) {
        requests.entry(name.clone()).or_insert_with(|| written(name, aggregate(name, init, &spec.containers)));
    }
    for (name, limit) in limits.into_iter().filter(|(name, _)| pod_level(name)) {
        requests.entry(name).or_insert(limit);
    }
    if !requests.is_empty() {
        resources.requests = Some(requests);
    }
}

/// Resources that may be declared for a pod as a whole.
pub(super) fn pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

/// App containers and sidecars together, or the hungriest moment of initialisation if that is more: millicores of CPU, whole units of
/// everything else.
pub(super) fn aggregate(resource: &str, init: &[v1::Container], app: &[v1::Container]) -> u64 {
    let request = |container: &v1::Container| {
        let amount = container.resources.as_ref().and_then(|r| r.requests.as_ref()?.get(resource));
        amount.map_or(0, |amount| in_unit(resource, amount))
    };
    let (mut sidecars, mut peak) = (0u64, 0u64);
    for container in init {
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = sidecars.saturating_add(request(container));
        }
        let own = if container.restart_policy.as_deref() == Some("Always") { 0 } else { request(container) };
        peak = peak.max(sidecars.saturating_add(own));
    }
    let running = app.iter().map(request).fold(sidecars, u64::saturating_add);
    peak.max(running)
}

/// Such an amount as the API writes it.
pub(super) fn written(resource: &str, amount: u64) -> Quantity {
    Quantity(if resource == "cpu" { quantity::cores(amount) } else { quantity::binary(amount) })
}

/// Millicores of CPU, whole units of everything else; what cannot be read counts as nothing and is refused by validation.
fn in_unit(resource: &str, amount: &Quantity) -> u64 {
    let read = if resource == "cpu" { quantity::milli(&amount.0) } else { quantity::whole(&amount.0) };
    read.unwrap_or(0)
}

/// The API keeps no more than three places: what is finer is rounded up.
fn round_up(amounts: &mut Amounts) {
    for amount in amounts.values_mut() {
        let fine = amount.0.contains(['n', 'u']) || amount.0.split_once('.').is_some_and(|(_, rest)| rest.len() > 3);
        if fine && let Ok(milli) = quantity::milli(&amount.0) {
            *amount = Quantity(quantity::cores(milli));
        }
    }
}

fn text(slot: &mut Option<String>, default: &str) {
    if slot.as_deref().unwrap_or_default().is_empty() {
        *slot = Some(default.to_owned());
    }
}

fn number(slot: &mut Option<i32>, default: i32) {
    if slot.unwrap_or(0) == 0 {
        *slot = Some(default);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::decode::decode;
    use serde_json::{Value, json};

    /// Defaults a pod with this spec and compares what stands at a JSON pointer.
    #[track_caller]
    fn check(spec: &str, expected: &[(&str, Value)]) {
        let manifest = format!("{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {spec}}}");
        let mut pod = decode(manifest.as_bytes(), "f").unwrap();
        default_pod(&mut pod);
        let spec = serde_json::to_value(&pod.spec).unwrap();
        for (pointer, value) in expected {
            assert_eq!(spec.pointer(pointer), Some(value), "{pointer} in {spec}");
        }
        let once = pod.clone();
        default_pod(&mut pod);
        assert_eq!(pod, once, "defaulting twice changes nothing");
    }

    #[test]
    fn the_pod_and_its_containers() {
        check(
            "{containers: [{name: c, image: i, ports: [{containerPort: 80}]}]}",
            &[
                ("/restartPolicy", json!("Always")),
                ("/dnsPolicy", json!("ClusterFirst")),
                ("/schedulerName", json!("default-scheduler")),
                ("/terminationGracePeriodSeconds", json!(30)),
                ("/securityContext", json!({})),
                ("/enableServiceLinks", json!(true)),
                ("/containers/0/imagePullPolicy", json!("Always")),
                ("/containers/0/terminationMessagePath", json!("/dev/termination-log")),
                ("/containers/0/terminationMessagePolicy", json!("File")),
                ("/containers/0/ports/0", json!({"containerPort": 80, "protocol": "TCP"})),
            ],
        );
        check(
            "{hostNetwork: true, initContainers: [{name: i, ports: [{containerPort: 7}]}], containers: [{name: c, ports: [{containerPort: 80}]}]}",
            &[("/containers/0/ports/0/hostPort", json!(80)), ("/initContainers/0/ports/0/hostPort", json!(7))],
        );
    }

    #[test]
    fn pull_policies() {
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.25", "IfNotPresent"),
            ("localhost:5000/nginx", "Always"),
            ("localhost:5000/nginx:1", "IfNotPresent"),
            ("nginx@sha256:00", "IfNotPresent"),
            ("nginx:latest@sha256:00", "Always"),
            ("", "Always"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }

    #[test]
    fn probes_and_hooks() {
        check(
            "{containers: [{name: c, livenessProbe: {httpGet: {port: 80}, periodSeconds: 0}, readinessProbe: {grpc: {port: 1}}, \
             lifecycle: {preStop: {httpGet: {port: web}}}, env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]}",
            &[
                (
                    "/containers/0/livenessProbe",
                    json!({
                        "failureThreshold": 3, "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "periodSeconds": 10,
                        "successThreshold": 1, "timeoutSeconds": 1
                    }),
                ),
                ("/containers/0/readinessProbe/grpc", json!({"port": 1, "service": ""})),
                ("/containers/0/lifecycle/preStop/httpGet", json!({"path": "/", "port": "web", "scheme": "HTTP"})),
                ("/containers/0/env/0/valueFrom/fieldRef/apiVersion", json!("v1")),
            ],
        );
    }

    #[test]
    fn volumes() {
        check(
            "{containers: [], volumes: [{name: a}, {name: b, hostPath: {path: /x}}, {name: c, image: {reference: i:1}}, {name: d, downwardAPI: {}}]}",
            &[
                ("/volumes/0", json!({"name": "a", "emptyDir": {}})),
                ("/volumes/1/hostPath/type", json!("")),
                ("/volumes/2/image/pullPolicy", json!("IfNotPresent")),
                ("/volumes/3/downwardAPI/defaultMode", json!(420)),
            ],
        );
    }

    #[test]
    fn resources() {
        check(
            "{containers: [{name: c, resources: {limits: {cpu: 1, memory: 1.0005Ki}, requests: {cpu: 1u}}}]}",
            &[("/containers/0/resources/requests", json!({"cpu": "1m", "memory": "1024512m"}))],
        );
        // Together 300m of CPU while running, 500m while initialising beside the sidecar; memory is asked for by none.
        check(
            "{resources: {limits: {cpu: 2, memory: 1Gi}}, \
              initContainers: [{name: s, restartPolicy: Always, resources: {requests: {cpu: 100m}}}, {name: i, resources: {requests: {cpu: 400m}}}], \
              containers: [{name: a, resources: {requests: {cpu: 100m}}}, {name: b, resources: {requests: {cpu: 100m, ephemeral-storage: 1Gi}}}]}",
            &[("/resources/requests", json!({"cpu": "500m", "memory": "1Gi"}))],
        );
    }
}
