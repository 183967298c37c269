//! Containers: names, images, ports, environment, restart rules.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1;

use super::volume::{self, Volumes};
use super::{names, probe, resources, security};
use crate::document::field::{At, Findings};

/// Containers of a pod. The API sets no limit but an object's size; a pod of thousands would keep the node from the others.
const MOST: usize = 1000;

/// Checks every container of the pod, init containers first.
pub(super) fn containers(spec: &v1::PodSpec, volumes: &Volumes<'_>, at: &At, findings: &mut Findings) {
    if spec.containers.is_empty() {
        findings.required(&at.child("containers"), "");
    }
    let count = spec.containers.len() + spec.init_containers.as_ref().map_or(0, Vec::len);
    if count > MOST {
        findings.invalid(&at.child("containers"), count, format!("must be at most {MOST}, init containers included"));
        return;
    }
    let grace = spec.termination_grace_period_seconds.unwrap_or(30);
    let all = resources::container_names(spec);
    let mut taken = BTreeSet::new();
    let init = spec.init_containers.iter().flatten().enumerate().map(|(i, c)| (true, at.child("initContainers").index(i), c));
    let app = spec.containers.iter().enumerate().map(|(i, c)| (false, at.child("containers").index(i), c));
    for (is_init, at, container) in init.chain(app) {
        if container.name.is_empty() {
            findings.required(&at.child("name"), "");
        } else {
            findings.format(&at.child("name"), &container.name, names::dns_label(&container.name));
        }
        if !taken.insert(container.name.as_str()) {
            findings.duplicate(&at.child("name"), container.name.as_str());
        }
        image(container, &at, findings);
        ports(container, &at, findings);
        environment(container, volumes, &all, &at, findings);
        volume::mounts(container, volumes, &at, findings);
        let sidecar = is_init && container.restart_policy.as_deref() == Some("Always");
        if is_init && !sidecar {
            no_probes(container, &at, findings);
        } else {
            probe::probes(container, &at, findings);
            probe::hooks(container, grace, &at, findings);
            stop_signal(container, spec.os.is_some(), &at, findings);
        }
        restart_rules(container, &at, findings);
        resources::container(container, spec.restart_policy.as_deref(), &at, findings);
        security::container(container, spec.host_users != Some(false), &at, findings);
    }
    host_ports(spec, at, findings);
}

fn image(container: &v1::Container, at: &At, findings: &mut Findings) {
    let image = container.image.as_deref().unwrap_or_default();
    if image.is_empty() {
        findings.required(&at.child("image"), "");
    } else if image.trim() != image {
        findings.invalid(&at.child("image"), image, "must not have leading or trailing whitespace");
    }
    findings.one_of(&at.child("imagePullPolicy"), container.image_pull_policy.as_deref(), &["Always", "IfNotPresent", "Never"]);
    let policies = ["FallbackToLogsOnError", "File"];
    findings.one_of(&at.child("terminationMessagePolicy"), container.termination_message_policy.as_deref(), &policies);
    let path = container.termination_message_path.as_deref().unwrap_or_default();
    // The API accepts any text here; the container would then fail at every start.
    if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
        findings.invalid(&at.child("terminationMessagePath"), path, "must be an absolute path without '..'");
    }
}

fn ports(container: &v1::Container, at: &At, findings: &mut Findings) {
    let mut taken = BTreeSet::new();
    for (i, port) in container.ports.iter().flatten().enumerate() {
        let at = at.child("ports").index(i);
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            findings.format(&at.child("name"), name, names::port_name(name));
            if !taken.insert(name) {
                findings.duplicate(&at.child("name"), name);
            }
        }
        if port.container_port == 0 {
            findings.required(&at.child("containerPort"), "");
        } else {
            findings.between(&at.child("containerPort"), port.container_port.into(), 1, 65535);
        }
        if let Some(host_port) = port.host_port.filter(|port| *port != 0) {
            findings.between(&at.child("hostPort"), host_port.into(), 1, 65535);
        }
        findings.one_of(&at.child("protocol"), port.protocol.as_deref(), &["SCTP", "TCP", "UDP"]);
        if let Some(ip) = port.host_ip.as_deref().filter(|ip| !ip.is_empty()) {
            findings.format(&at.child("hostIP"), ip, names::ip(ip));
        }
    }
}

/// No two containers that run at the same time claim one port of the host; on the host network every port is one of the host.
fn host_ports(spec: &v1::PodSpec, at: &At, findings: &mut Findings) {
    let host_network = spec.host_network == Some(true);
    let sidecars = spec.init_containers.iter().flatten().enumerate().map(|(i, c)| {
        let sidecar = c.restart_policy.as_deref() == Some("Always");
        (sidecar, at.child("initContainers").index(i), c)
    });
    let app = spec.containers.iter().enumerate().map(|(i, c)| (true, at.child("containers").index(i), c));
    let mut taken = BTreeSet::new();
    for (stays, at, container) in sidecars.chain(app) {
        // An init container has ended before the next begins: only its own ports meet.
        let mut own = BTreeSet::new();
        let taken = if stays { &mut taken } else { &mut own };
        for (i, port) in container.ports.iter().flatten().enumerate() {
            let at = at.child("ports").index(i);
            let host_port = port.host_port.unwrap_or(0);
            if host_network && host_port != port.container_port {
                findings.invalid(
                    &at.child("containerPort"),
                    port.container_port,
                    "must match `hostPort` when `hostNetwork` is true",
                );
            }
            if host_port == 0 {
                continue;
            }
            let (protocol, ip) = (port.protocol.as_deref().unwrap_or("TCP"), port.host_ip.as_deref().unwrap_or_default());
            let claim = format!("{protocol}/{ip}/{host_port}");
            if !taken.insert(claim.clone()) {
                findings.duplicate(&at.child("hostPort"), claim);
            }
        }
    }
}

/// What an environment variable can show of its pod.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

fn environment(container: &v1::Container, volumes: &Volumes<'_>, all: &BTreeSet<&str>, at: &At, findings: &mut Findings) {
    for (i, env) in container.env.iter().flatten().enumerate() {
        let at = at.child("env").index(i);
        if env.name.is_empty() {
            findings.required(&at.child("name"), "");
        } else {
            findings.format(&at.child("name"), &env.name, names::env_name(&env.name));
        }
        let Some(source) = &env.value_from else { continue };
        let at = at.child("valueFrom");
        if env.value.as_deref().is_some_and(|value| !value.is_empty()) {
            findings.invalid(&at, "", "may not be specified when `value` is not empty");
        }
        let sources = [
            source.config_map_key_ref.is_some(),
            source.field_ref.is_some(),
            source.file_key_ref.is_some(),
            source.resource_field_ref.is_some(),
            source.secret_key_ref.is_some(),
        ];
        match sources.iter().filter(|there| **there).count() {
            0 => findings.invalid(
                &at,
                "",
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            ),
            1 => {}
            _ => findings.invalid(&at, "", "may not have more than one field specified at a time"),
        }
        if let Some(field) = &source.field_ref {
            field_ref(field, &FIELDS, &at.child("fieldRef"), findings);
        }
        if let Some(field) = &source.resource_field_ref {
            resources::field_ref(field, all, &at.child("resourceFieldRef"), findings);
        }
        if let Some(field) = &source.file_key_ref {
            file_key_ref(field, volumes, &at.child("fileKeyRef"), findings);
        }
    }
    for (i, source) in container.env_from.iter().flatten().enumerate() {
        let at = at.child("envFrom").index(i);
        match (source.config_map_ref.is_some(), source.secret_ref.is_some()) {
            (false, false) => findings.invalid(&at, "", "must specify one of: `configMapRef` or `secretRef`"),
            (true, true) => findings.invalid(&at, "", "may not have more than one field specified at a time"),
            _ => {}
        }
    }
}

/// Longest name of a variable in a file.
const FILE_KEY_MAX: usize = 128;

/// A variable in a file that another container of the pod writes.
fn file_key_ref(source: &v1::FileKeySelector, volumes: &Volumes<'_>, at: &At, findings: &mut Findings) {
    let name = source.volume_name.as_str();
    match volumes.get(name) {
        _ if name.is_empty() => findings.required(&at.child("volumeName"), ""),
        None => findings.not_found(&at.child("volumeName"), name),
        Some(volume) if volume.empty_dir.is_none() => {
            findings.invalid(&at.child("volumeName"), name, "must be the name of an emptyDir volume");
        }
        Some(_) => {}
    }
    if source.path.is_empty() {
        findings.required(&at.child("path"), "");
    }
    findings.format(&at.child("path"), &source.path, names::unreserved_path(&source.path));
    if source.key.is_empty() {
        findings.required(&at.child("key"), "");
    } else if source.key.len() > FILE_KEY_MAX {
        findings.too_long(&at.child("key"), format!("may not be more than {FILE_KEY_MAX} bytes"));
    } else {
        findings.format(&at.child("key"), &source.key, names::env_name(&source.key));
    }
}

/// Signals differ between operating systems: which one is meant must be said.
fn stop_signal(container: &v1::Container, os_is_set: bool, at: &At, findings: &mut Findings) {
    let signal = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.as_deref());
    let Some(signal) = signal.filter(|signal| !signal.is_empty()) else { return };
    let at = at.child("lifecycle").child("stopSignal");
    if !os_is_set {
        findings.forbidden(&at, "may not be set for containers with empty `spec.os.name`");
    }
    let known = polylet_runtime::signal_names();
    findings.one_of(&at, Some(signal), &known.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Checks a reference to one of these fields, or to a label or annotation.
pub(super) fn field_ref(field: &v1::ObjectFieldSelector, fields: &[&str], at: &At, findings: &mut Findings) {
    findings.one_of(&at.child("apiVersion"), field.api_version.as_deref(), &["v1"]);
    let at = at.child("fieldPath");
    let path = field.field_path.as_str();
    if path.is_empty() {
        return findings.required(&at, "");
    }
    let subscript = ["metadata.labels['", "metadata.annotations['"]
        .iter()
        .find_map(|start| path.strip_prefix(start)?.strip_suffix("']").map(|key| (*start, key)));
    match subscript {
        Some((start, key)) => {
            let key = if start.contains("annotations") { key.to_lowercase() } else { key.to_owned() };
            findings.format(&at, path, names::qualified_name(&key));
        }
        None => {
            let mut supported = fields.to_vec();
            supported.extend(["metadata.labels['<KEY>']", "metadata.annotations['<KEY>']"]);
            findings.one_of(&at, Some(path), &supported);
        }
    }
}

fn no_probes(container: &v1::Container, at: &At, findings: &mut Findings) {
    let fields = [
        ("lifecycle", container.lifecycle.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
    ];
    for (field, _) in fields.iter().filter(|(_, there)| *there) {
        findings.forbidden(&at.child(field), "may not be set for init containers without restartPolicy=Always");
    }
}

/// Rules that one container may have.
const MAX_RULES: usize = 20;

fn restart_rules(container: &v1::Container, at: &At, findings: &mut Findings) {
    findings.one_of(&at.child("restartPolicy"), container.restart_policy.as_deref(), &["Always", "Never", "OnFailure"]);
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    if !rules.is_empty() && container.restart_policy.is_none() {
        findings.required(&at.child("restartPolicy"), "must specify restartPolicy when restart rules are used");
    }
    let at = at.child("restartPolicyRules");
    if rules.len() > MAX_RULES {
        findings.too_long(&at, format!("must have at most {MAX_RULES} items"));
    }
    for (i, rule) in rules.iter().enumerate() {
        let at = at.index(i);
        if rule.action.is_empty() {
            findings.required(&at.child("action"), "");
        } else {
            findings.one_of(&at.child("action"), Some(&rule.action), &["Restart", "RestartAllContainers"]);
        }
        let at = at.child("exitCodes");
        let Some(codes) = &rule.exit_codes else {
            findings.required(&at, "");
            continue;
        };
        findings.one_of(&at.child("operator"), Some(&codes.operator), &["In", "NotIn"]);
        let values = codes.values.as_deref().unwrap_or_default();
        if values.is_empty() {
            findings.required(&at.child("values"), "must specify at least one exit code");
        }
        if values.len() > 255 {
            findings.too_long(&at.child("values"), "must have at most 255 items");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::source::validate::tests::check;

    #[test]
    fn names_and_images() {
        check("{containers: []}", &["spec.containers: Required value"]);
        check(
            "{initContainers: [{name: c, image: i}], containers: [{name: c, image: ' i'}, {name: d, image: i, imagePullPolicy: Sometimes, \
             terminationMessagePath: x}, {image: i}]}",
            &[
                "spec.containers[0].name: Duplicate value: \"c\"",
                "spec.containers[0].image: Invalid value: \" i\": must not have leading or trailing whitespace",
                "spec.containers[1].imagePullPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
                "spec.containers[1].terminationMessagePath: Invalid value: \"x\": must be an absolute path without '..'",
                "spec.containers[2].name: Required value",
            ],
        );
        check("{containers: [{name: c}]}", &["spec.containers[0].image: Required value"]);
    }

    #[test]
    fn ports_are_checked() {
        check(
            "{containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 8080, name: web}, {containerPort: 70000, name: web}, \
             {containerPort: 1, hostPort: -1, protocol: ICMP, hostIP: me}, {name: none}]}, \
             {name: d, image: i, ports: [{containerPort: 81, hostPort: 8080}]}]}",
            &[
                "spec.containers[0].ports[1].name: Duplicate value: \"web\"",
                "spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                "spec.containers[0].ports[2].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
                "spec.containers[0].ports[2].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                "spec.containers[0].ports[2].hostIP: Invalid value: \"me\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "spec.containers[0].ports[3].containerPort: Required value",
                "spec.containers[1].ports[0].hostPort: Duplicate value: \"TCP//8080\"",
            ],
        );
        check(
            "{hostNetwork: true, containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 81}]}]}",
            &["spec.containers[0].ports[0].containerPort: Invalid value: 80: must match `hostPort` when `hostNetwork` is true"],
        );
    }

    #[test]
    fn init_containers_share_ports_of_the_host_with_none_that_runs_later() {
        check(
            "{initContainers: [{name: i, image: i, ports: [{containerPort: 1, hostPort: 8080}, {containerPort: 2, hostPort: 8080}]}, \
             {name: s, image: i, restartPolicy: Always, ports: [{containerPort: 1, hostPort: 8080}]}], \
             containers: [{name: c, image: i, ports: [{containerPort: 1, hostPort: 8080}]}]}",
            &[
                "spec.initContainers[0].ports[1].hostPort: Duplicate value: \"TCP//8080\"",
                "spec.containers[0].ports[0].hostPort: Duplicate value: \"TCP//8080\"",
            ],
        );
    }

    #[test]
    fn environment_is_checked() {
        check(
            "{containers: [{name: c, image: i, env: [{name: 'A=B'}, {name: A, value: x, valueFrom: {fieldRef: {fieldPath: spec.name}}}, \
             {name: B, valueFrom: {}}, {name: C, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['a']\"}}}, {value: x}, \
             {name: D, valueFrom: {resourceFieldRef: {resource: limits.gpu}, fieldRef: {fieldPath: ''}}}]}]}",
            &[
                "spec.containers[0].env[0].name: Invalid value: \"A=B\": a valid environment variable name must consist only of printable \
                 ASCII characters other than '='",
                "spec.containers[0].env[1].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
                "spec.containers[0].env[1].valueFrom.fieldRef.fieldPath: Unsupported value: \"spec.name\": supported values: \
                 \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \
                 \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\", \"metadata.labels['<KEY>']\", \
                 \"metadata.annotations['<KEY>']\"",
                "spec.containers[0].env[2].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, \
                 `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
                "spec.containers[0].env[4].name: Required value",
                "spec.containers[0].env[5].valueFrom: Invalid value: \"\": may not have more than one field specified at a time",
                "spec.containers[0].env[5].valueFrom.fieldRef.fieldPath: Required value",
                "spec.containers[0].env[5].valueFrom.resourceFieldRef.resource: Unsupported value: \"limits.gpu\": supported values: \
                 \"limits.cpu\", \"limits.memory\", \"limits.ephemeral-storage\", \"limits.hugepages-<size>\", \"requests.cpu\", \
                 \"requests.memory\", \"requests.ephemeral-storage\", \"requests.hugepages-<size>\"",
            ],
        );
    }

    #[test]
    fn variables_of_other_containers_resources() {
        let of =
            |name: &str| format!("{{name: A, valueFrom: {{resourceFieldRef: {{containerName: {name}, resource: limits.cpu}}}}}}");
        let spec = |name: &str| {
            let env = of(name);
            format!(
                "{{initContainers: [{{name: first, image: i, env: [{env}]}}], containers: [{{name: c, image: i, env: [{env}]}}]}}"
            )
        };
        for known in ["''", "c", "first"] {
            check(&spec(known), &[]);
        }
        check(
            &spec("nope"),
            &[
                "spec.initContainers[0].env[0].valueFrom.resourceFieldRef.containerName: Invalid value: \"nope\": must be a container of \
                 this pod: \"c\", \"first\"",
                "spec.containers[0].env[0].valueFrom.resourceFieldRef.containerName: Invalid value: \"nope\": must be a container of this \
                 pod: \"c\", \"first\"",
            ],
        );
    }

    #[test]
    fn variables_of_files_and_stop_signals() {
        check(
            "{volumes: [{name: e}, {name: h, hostPath: {path: /x}}], containers: [{name: c, image: i, lifecycle: {stopSignal: SIGTERM}, env: [\
             {name: A, valueFrom: {fileKeyRef: {volumeName: e, path: a/b, key: K}}}, \
             {name: B, valueFrom: {fileKeyRef: {volumeName: h, path: ../b, key: 'K=L'}}}, \
             {name: C, valueFrom: {fileKeyRef: {volumeName: none, path: ..c, key: ''}}}]}]}",
            &[
                "spec.containers[0].env[1].valueFrom.fileKeyRef.volumeName: Invalid value: \"h\": must be the name of an emptyDir volume",
                "spec.containers[0].env[1].valueFrom.fileKeyRef.path: Invalid value: \"../b\": must not contain '..'",
                "spec.containers[0].env[1].valueFrom.fileKeyRef.key: Invalid value: \"K=L\": a valid environment variable name must consist \
                 only of printable ASCII characters other than '='",
                "spec.containers[0].env[2].valueFrom.fileKeyRef.volumeName: Not found: \"none\"",
                "spec.containers[0].env[2].valueFrom.fileKeyRef.path: Invalid value: \"..c\": must not start with '..'",
                "spec.containers[0].env[2].valueFrom.fileKeyRef.key: Required value",
                "spec.containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`",
            ],
        );
        let unknown = crate::source::validate::tests::errors(
            "{name: p}",
            "{os: {name: linux}, containers: [{name: c, image: i, lifecycle: {stopSignal: TERM}}, {name: d, image: i, lifecycle: {stopSignal: SIGRTMIN+3}}]}",
        );
        let start =
            "spec.containers[0].lifecycle.stopSignal: Unsupported value: \"TERM\": supported values: \"SIGABRT\", \"SIGALRM\", ";
        assert!(unknown.len() == 1 && unknown[0].starts_with(start), "{unknown:?}");
    }

    #[test]
    fn init_containers_and_rules() {
        check(
            "{initContainers: [{name: i, image: i, livenessProbe: {tcpSocket: {port: 1}}, lifecycle: {}}, \
             {name: s, image: i, restartPolicy: Always, startupProbe: {tcpSocket: {port: 1}}}], \
             containers: [{name: c, image: i, restartPolicyRules: [{action: Reboot, exitCodes: {operator: Is, values: []}}, {action: Restart}]}]}",
            &[
                "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always",
                "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
                "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used",
                "spec.containers[0].restartPolicyRules[0].action: Unsupported value: \"Reboot\": supported values: \"Restart\", \
                 \"RestartAllContainers\"",
                "spec.containers[0].restartPolicyRules[0].exitCodes.operator: Unsupported value: \"Is\": supported values: \"In\", \"NotIn\"",
                "spec.containers[0].restartPolicyRules[0].exitCodes.values: Required value: must specify at least one exit code",
                "spec.containers[0].restartPolicyRules[1].exitCodes: Required value",
            ],
        );
    }
}
