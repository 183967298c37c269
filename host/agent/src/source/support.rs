//! What a static pod may not ask for, and what this node cannot do yet. The second is one table, [`UNSUPPORTED`]: whoever teaches the node
//! a feature deletes its row.

use k8s_openapi::api::core::v1;
use serde_json::Value;

use super::{sysctls, validate};
use crate::document::field::{At, FieldError, Findings};

/// Fields that the node cannot honour yet, and what they stand for. A path of `[]` goes through a list, `{/}` through the keys of a map that
/// contain a slash; a row of `containers[]` holds for init containers too; ` = value` (as JSON) refuses only this value.
const UNSUPPORTED: &[(&str, &str)] = &[
    // The pod.
    ("spec.runtimeClassName", "runtime classes"),
    ("spec.overhead{/}", "extended resources, which need a device plugin"),
    ("spec.securityContext.windowsOptions", "Windows"),
    ("spec.schedulingGroup", "scheduling groups"),
    ("spec.evictionResponders", "eviction responders"),
    (
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        "node affinity, which the kubelet checks at admission",
    ),
    // Volumes.
    ("spec.volumes[].awsElasticBlockStore", "this kind of volume"),
    ("spec.volumes[].azureDisk", "this kind of volume"),
    ("spec.volumes[].cephfs", "this kind of volume"),
    ("spec.volumes[].cinder", "this kind of volume"),
    ("spec.volumes[].fc", "this kind of volume"),
    ("spec.volumes[].flexVolume", "this kind of volume"),
    ("spec.volumes[].flocker", "this kind of volume"),
    ("spec.volumes[].gcePersistentDisk", "this kind of volume"),
    ("spec.volumes[].gitRepo", "this kind of volume"),
    ("spec.volumes[].iscsi", "this kind of volume"),
    ("spec.volumes[].nfs", "this kind of volume"),
    ("spec.volumes[].photonPersistentDisk", "this kind of volume"),
    ("spec.volumes[].portworxVolume", "this kind of volume"),
    ("spec.volumes[].quobyte", "this kind of volume"),
    ("spec.volumes[].rbd", "this kind of volume"),
    ("spec.volumes[].scaleIO", "this kind of volume"),
    ("spec.volumes[].storageos", "this kind of volume"),
    ("spec.volumes[].vsphereVolume", "this kind of volume"),
    // Containers.
    ("spec.containers[].volumeDevices", "raw block devices"),
    ("spec.containers[].volumeMounts[].bindMountOptions", "bind mount options"),
    ("spec.containers[].resources.limits{/}", "extended resources, which need a device plugin"),
    ("spec.containers[].resources.requests{/}", "extended resources, which need a device plugin"),
    ("spec.containers[].livenessProbe.httpGet.protocol", "a probe's HTTP version"),
    ("spec.containers[].readinessProbe.httpGet.protocol", "a probe's HTTP version"),
    ("spec.containers[].startupProbe.httpGet.protocol", "a probe's HTTP version"),
    ("spec.containers[].lifecycle.postStart.httpGet.protocol", "a hook's HTTP version"),
    ("spec.containers[].lifecycle.preStop.httpGet.protocol", "a hook's HTTP version"),
    ("spec.containers[].livenessProbe.grpc.mode = \"TLS\"", "gRPC probes over TLS"),
    ("spec.containers[].readinessProbe.grpc.mode = \"TLS\"", "gRPC probes over TLS"),
    ("spec.containers[].startupProbe.grpc.mode = \"TLS\"", "gRPC probes over TLS"),
    ("spec.containers[].securityContext.windowsOptions", "Windows"),
];

/// What this pod asks for and the node cannot do yet, or may not by its configuration: one error a field, by name.
pub fn unsupported(pod: &v1::Pod, allowed_sysctls: &[String]) -> Vec<FieldError> {
    let mut findings = Findings::default();
    // A pod that was read from JSON can be written as JSON.
    let tree = serde_json::json!({ "spec": serde_json::to_value(&pod.spec).unwrap_or_default() });
    for (rule, feature) in UNSUPPORTED {
        let detail = format!("not supported by this node yet: {feature}");
        for rule in [(*rule).to_owned(), rule.replacen("spec.containers[]", "spec.initContainers[]", 1)]
            .iter()
            .take(if rule.starts_with("spec.containers[]") { 2 } else { 1 })
        {
            let (path, refused) = condition(rule);
            find(&tree, path, &At::root(), &mut |at, value| {
                if refused(value) {
                    findings.forbidden(at, detail.clone());
                }
            });
        }
    }
    node_selector(pod, &mut findings);
    unsafe_sysctls(pod, allowed_sysctls, &mut findings);
    findings.0
}

/// The kubelet admits others only where its configuration lists them.
fn unsafe_sysctls(pod: &v1::Pod, allowed: &[String], findings: &mut Findings) {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    for (i, sysctl) in context.and_then(|context| context.sysctls.as_ref()).into_iter().flatten().enumerate() {
        // What is no name at all has been told already.
        if validate::is_sysctl(&sysctl.name) && !sysctls::is_allowed(&sysctl.name, allowed) {
            let detail =
                format!("forbidden sysctl: {:?} not allowlisted (allowedUnsafeSysctls of the configuration)", sysctl.name);
            findings.forbidden(&At::of("spec.securityContext.sysctls").index(i).child("name"), detail);
        }
    }
}

/// A node selector must fit the labels that this node has without an API server.
fn node_selector(pod: &v1::Pod, findings: &mut Findings) {
    let Some(spec) = &pod.spec else { return };
    let node_name = spec.node_name.as_deref().unwrap_or_default();
    for (key, value) in spec.node_selector.iter().flatten() {
        let at = At::of("spec.nodeSelector").key(key);
        match node_label(key, node_name) {
            Some(own) if own == value => {}
            Some(own) => findings.invalid(&at, value.as_str(), format!("must be {own:?}, this node's label")),
            None => findings
                .forbidden(&at, "not supported by this node yet: node labels other than kubernetes.io/hostname, os and arch"),
        }
    }
}

/// A label that every node has.
fn node_label<'a>(key: &str, node_name: &'a str) -> Option<&'a str> {
    match key {
        "kubernetes.io/hostname" => Some(node_name),
        "kubernetes.io/os" | "beta.kubernetes.io/os" => Some("linux"),
        "kubernetes.io/arch" | "beta.kubernetes.io/arch" => Some(match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }),
        _ => None,
    }
}

/// The path of a rule, and which values it refuses.
fn condition(rule: &str) -> (&str, impl Fn(&Value) -> bool) {
    let (path, wanted) = match rule.split_once(" = ") {
        // The rules are ours: every one of them is read by a test.
        Some((path, wanted)) => (path, serde_json::from_str(wanted).unwrap_or_default()),
        None => (rule, Value::Null),
    };
    (path, move |value: &Value| match value {
        Value::Null => false,
        // An empty list or text asks for nothing.
        Value::Array(list) if wanted.is_null() => !list.is_empty(),
        Value::String(text) if wanted.is_null() => !text.is_empty(),
        value => wanted.is_null() || *value == wanted,
    })
}

/// Calls `visit` for every value that the path leads to.
fn find(value: &Value, path: &str, at: &At, visit: &mut impl FnMut(&At, &Value)) {
    if path.is_empty() {
        return visit(at, value);
    }
    if let Some(rest) = path.strip_prefix("[]") {
        for (index, entry) in value.as_array().into_iter().flatten().enumerate() {
            find(entry, rest, &at.index(index), visit);
        }
    } else if let Some(rest) = path.strip_prefix("{/}") {
        for (key, entry) in value.as_object().into_iter().flatten().filter(|(key, _)| key.contains('/')) {
            find(entry, rest, &at.key(key), visit);
        }
    } else {
        let path = path.strip_prefix('.').unwrap_or(path);
        let (name, rest) = path.split_at(path.find(['.', '[', '{']).unwrap_or(path.len()));
        if let Some(entry) = value.get(name) {
            find(entry, rest, &at.child(name), visit);
        }
    }
}

/// References to API objects, which a static pod may not have: it must run where there is no API server.
pub fn forbidden_references(pod: &v1::Pod) -> Vec<FieldError> {
    let mut findings = Findings::default();
    let Some(spec) = &pod.spec else { return findings.0 };
    let at = At::of("spec");
    let mut refuse = |at: &At, resource: &str| findings.forbidden(at, format!("static pods may not reference {resource}"));

    if spec.service_account_name.as_deref().is_some_and(|name| !name.is_empty()) {
        refuse(&at.child("serviceAccountName"), "serviceaccounts");
    }
    for (i, _) in spec.image_pull_secrets.iter().flatten().enumerate() {
        refuse(&at.child("imagePullSecrets").index(i), "secrets");
    }
    if spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        refuse(&at.child("resourceClaims"), "resourceclaims");
    }
    let init = spec.init_containers.iter().flatten().enumerate().map(|(i, c)| (at.child("initContainers").index(i), c));
    let app = spec.containers.iter().enumerate().map(|(i, c)| (at.child("containers").index(i), c));
    for (at, container) in init.chain(app) {
        for (i, from) in container.env_from.iter().flatten().enumerate() {
            let at = at.child("envFrom").index(i);
            if from.secret_ref.is_some() {
                refuse(&at.child("secretRef"), "secrets");
            }
            if from.config_map_ref.is_some() {
                refuse(&at.child("configMapRef"), "configmaps");
            }
        }
        for (i, env) in container.env.iter().flatten().enumerate() {
            let Some(from) = &env.value_from else { continue };
            let at = at.child("env").index(i).child("valueFrom");
            if from.secret_key_ref.is_some() {
                refuse(&at.child("secretKeyRef"), "secrets");
            }
            if from.config_map_key_ref.is_some() {
                refuse(&at.child("configMapKeyRef"), "configmaps");
            }
        }
        if container.resources.as_ref().is_some_and(|r| r.claims.as_ref().is_some_and(|c| !c.is_empty())) {
            refuse(&at.child("resources").child("claims"), "resourceclaims");
        }
    }
    for (i, volume) in spec.volumes.iter().flatten().enumerate() {
        let at = at.child("volumes").index(i);
        let sources = [
            ("secret", volume.secret.is_some(), "secrets"),
            ("configMap", volume.config_map.is_some(), "configmaps"),
            ("csi", volume.csi.is_some(), "csidrivers (via csi volumes)"),
            ("persistentVolumeClaim", volume.persistent_volume_claim.is_some(), "persistentvolumeclaims"),
            ("ephemeral", volume.ephemeral.is_some(), "persistentvolumeclaims (via ephemeral volumes)"),
            ("glusterfs", volume.glusterfs.is_some(), "endpoints (via glusterfs volumes)"),
            ("azureFile", volume.azure_file.is_some(), "secrets (via azureFile volumes)"),
        ];
        for (field, present, resource) in sources {
            if present {
                refuse(&at.child(field), resource);
            }
        }
        for (j, source) in volume.projected.iter().flat_map(|p| &p.sources).flatten().enumerate() {
            let at = at.child("projected").child("sources").index(j);
            let sources = [
                ("secret", source.secret.is_some(), "secrets (via projected volumes)"),
                ("configMap", source.config_map.is_some(), "configmaps (via projected volumes)"),
                ("serviceAccountToken", source.service_account_token.is_some(), "serviceaccounts (via projected volumes)"),
                ("clusterTrustBundle", source.cluster_trust_bundle.is_some(), "clustertrustbundles (via projected volumes)"),
                ("podCertificate", source.pod_certificate.is_some(), "podcertificates (via projected volumes)"),
            ];
            for (field, present, resource) in sources {
                if present {
                    refuse(&at.child(field), resource);
                }
            }
        }
    }
    findings.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::decode::decode;

    #[track_caller]
    fn check(spec: &str, errors: &[&str]) {
        let manifest = format!("{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {spec}}}");
        let pod = decode(manifest.as_bytes(), "f").unwrap();
        let mut found: Vec<String> = forbidden_references(&pod).iter().map(ToString::to_string).collect();
        found.extend(unsupported(&pod, &[]).iter().map(ToString::to_string));
        assert_eq!(found, errors, "{spec}");
    }

    #[test]
    fn references_to_api_objects_are_forbidden() {
        check(
            "{serviceAccountName: sa, imagePullSecrets: [{name: s}], containers: [{name: c, envFrom: [{secretRef: {name: s}}], \
             env: [{name: A, valueFrom: {configMapKeyRef: {name: m, key: k}}}]}], volumes: [{name: v, secret: {secretName: s}}]}",
            &[
                "spec.serviceAccountName: Forbidden: static pods may not reference serviceaccounts",
                "spec.imagePullSecrets[0]: Forbidden: static pods may not reference secrets",
                "spec.containers[0].envFrom[0].secretRef: Forbidden: static pods may not reference secrets",
                "spec.containers[0].env[0].valueFrom.configMapKeyRef: Forbidden: static pods may not reference configmaps",
                "spec.volumes[0].secret: Forbidden: static pods may not reference secrets",
            ],
        );
    }

    #[test]
    fn what_the_node_cannot_do_yet_is_refused_by_name() {
        check(
            "{runtimeClassName: x, volumes: [{name: v, nfs: {server: s, path: /}}], initContainers: [{name: i, volumeDevices: [{name: v, devicePath: /dev/x}]}], \
             containers: [{name: c, volumeDevices: [], resources: {limits: {cpu: 1, acme.com/gpu: 1}}, livenessProbe: {grpc: {port: 1, mode: TLS}}}]}",
            &[
                "spec.runtimeClassName: Forbidden: not supported by this node yet: runtime classes",
                "spec.volumes[0].nfs: Forbidden: not supported by this node yet: this kind of volume",
                "spec.initContainers[0].volumeDevices: Forbidden: not supported by this node yet: raw block devices",
                "spec.containers[0].resources.limits[acme.com/gpu]: Forbidden: not supported by this node yet: extended resources, which need \
                 a device plugin",
                "spec.containers[0].livenessProbe.grpc.mode: Forbidden: not supported by this node yet: gRPC probes over TLS",
            ],
        );
        check("{hostUsers: false, containers: [{name: c, livenessProbe: {grpc: {port: 1, mode: Plaintext}}}]}", &[]);
        check(
            "{securityContext: {sysctls: [{name: net/ipv4/tcp_syncookies, value: '1'}, {name: kernel.msgmax, value: '1'}]}, containers: []}",
            &[
                "spec.securityContext.sysctls[1].name: Forbidden: forbidden sysctl: \"kernel.msgmax\" not allowlisted (allowedUnsafeSysctls of \
             the configuration)",
            ],
        );
    }

    #[test]
    fn every_row_names_fields_that_exist() {
        // A row with a slip would refuse nothing: the API types must know its path.
        for (rule, _) in UNSUPPORTED {
            let path = condition(rule).0.trim_end_matches("{/}");
            let spec = path.rsplit('.').fold("null".to_owned(), |inner, name| match name.strip_suffix("[]") {
                Some(name) => format!("{{\"{name}\": [{inner}]}}"),
                None => format!("{{\"{name}\": {inner}}}"),
            });
            let manifest = spec.replacen('{', "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", ", 1);
            assert!(decode(manifest.as_bytes(), rule).is_ok(), "{:?}", decode(manifest.as_bytes(), rule));
        }
    }

    #[test]
    fn a_node_selector_must_fit_this_node() {
        let arch = node_label("kubernetes.io/arch", "n1").unwrap();
        check(
            &format!("{{nodeName: n1, nodeSelector: {{kubernetes.io/os: linux, kubernetes.io/arch: {arch}}}, containers: []}}"),
            &[],
        );
        check(
            "{nodeName: n1, nodeSelector: {kubernetes.io/hostname: n2, disk: ssd}, containers: []}",
            &[
                "spec.nodeSelector[disk]: Forbidden: not supported by this node yet: node labels other than kubernetes.io/hostname, os and arch",
                "spec.nodeSelector[kubernetes.io/hostname]: Invalid value: \"n2\": must be \"n1\", this node's label",
            ],
        );
    }
}
