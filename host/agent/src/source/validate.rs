//! What the API server would refuse when a pod is created, in its words. The pod is defaulted.

mod container;
mod names;
mod network;
mod probe;
mod resources;
mod scheduling;
mod security;
mod volume;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

pub(super) use self::names::is_sysctl;
use crate::document::field::{At, FieldError, Findings};

/// All that is wrong with the pod, in the order of its fields' checks; empty when it can be run.
pub fn validate(pod: &v1::Pod) -> Vec<FieldError> {
    let mut findings = Findings::default();
    metadata(pod, &mut findings);
    let Some(spec) = &pod.spec else {
        findings.required(&At::of("spec"), "");
        return findings.0;
    };
    security::annotations(pod, spec, &At::of("metadata").child("annotations"), &mut findings);
    let at = At::of("spec");
    let volumes = volume::volumes(spec, &at, &mut findings);
    container::containers(spec, &volumes, &at, &mut findings);
    lifecycle(spec, &at, &mut findings);
    // The deprecated name of serviceAccountName: the API server would copy it, and a static pod may have neither.
    if spec.service_account.as_deref().is_some_and(|name| !name.is_empty()) {
        findings.forbidden(&at.child("serviceAccount"), "static pods may not reference serviceaccounts");
    }
    network::network(spec, &at, &mut findings);
    security::pod(spec, &at, &mut findings);
    resources::pod(spec, &at, &mut findings);
    scheduling::scheduling(spec, &at, &mut findings);
    findings.0
}

fn metadata(pod: &v1::Pod, findings: &mut Findings) {
    let at = At::of("metadata");
    let meta = &pod.metadata;
    match meta.name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => findings.format(&at.child("name"), name, names::dns_subdomain(name)),
        None => findings.required(&at.child("name"), "name is required: a static pod's name cannot be generated"),
    }
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    findings.format(&at.child("namespace"), namespace, names::dns_label(namespace));
    // The API leaves the UID alone, but directories and cgroups are named by it.
    let uid = meta.uid.as_deref().unwrap_or_default();
    if !polylet_machine::volume::is_pod_uid(uid) {
        findings.invalid(&at.child("uid"), uid, "must be up to 63 letters, digits and '-', and not start with '-'");
    }
    if meta.deletion_timestamp.is_some() {
        findings.forbidden(&at.child("deletionTimestamp"), "may not be set: remove the file to remove the pod");
    }
    if meta.deletion_grace_period_seconds.is_some() {
        let detail = "may not be set: how long the pod has to end is spec.terminationGracePeriodSeconds";
        findings.forbidden(&at.child("deletionGracePeriodSeconds"), detail);
    }
    findings.not_negative(&at.child("generation"), meta.generation);
    labels(meta.labels.as_ref(), &at.child("labels"), findings);
    annotations(meta.annotations.as_ref(), &at.child("annotations"), findings);
    owners(meta.owner_references.as_deref(), &at.child("ownerReferences"), findings);
    for (i, finalizer) in meta.finalizers.iter().flatten().enumerate() {
        findings.format(&at.child("finalizers").index(i), finalizer, names::qualified_name(finalizer));
    }
}

fn owners(owners: Option<&[OwnerReference]>, at: &At, findings: &mut Findings) {
    let mut controlled = false;
    for (i, owner) in owners.into_iter().flatten().enumerate() {
        let at = at.index(i);
        // `group/version`, or a version alone.
        if owner.api_version.rsplit('/').next().unwrap_or_default().is_empty() {
            findings.invalid(&at.child("apiVersion"), owner.api_version.as_str(), "version must not be empty");
        }
        for (field, text) in [("kind", &owner.kind), ("name", &owner.name), ("uid", &owner.uid)] {
            if text.is_empty() {
                findings.invalid(&at.child(field), "", "must not be empty");
            }
        }
        if owner.controller == Some(true) && std::mem::replace(&mut controlled, true) {
            findings.invalid(&at.child("controller"), true, "Only one reference can have Controller set to true");
        }
    }
}

/// Largest sum of all annotations' keys and values.
const ANNOTATIONS_MAX_BYTES: usize = 256 << 10;

fn annotations(annotations: Option<&BTreeMap<String, String>>, at: &At, findings: &mut Findings) {
    let mut total = 0usize;
    for (key, value) in annotations.into_iter().flatten() {
        findings.format(at, key, names::qualified_name(&key.to_lowercase()));
        total += key.len() + value.len();
    }
    if total > ANNOTATIONS_MAX_BYTES {
        findings.too_long(at, format!("may not be more than {ANNOTATIONS_MAX_BYTES} bytes"));
    }
    if annotations.is_some_and(|all| all.contains_key("kubernetes.io/config.mirror")) {
        findings.forbidden(&at.key("kubernetes.io/config.mirror"), "a static pod may not be a mirror pod");
    }
}

fn labels(labels: Option<&BTreeMap<String, String>>, at: &At, findings: &mut Findings) {
    for (key, value) in labels.into_iter().flatten() {
        findings.format(at, key, names::qualified_name(key));
        findings.format(at, value, names::label_value(value));
    }
}

/// When the pod ends and starts again.
fn lifecycle(spec: &v1::PodSpec, at: &At, findings: &mut Findings) {
    findings.one_of(&at.child("restartPolicy"), spec.restart_policy.as_deref(), &["Always", "Never", "OnFailure"]);
    if let Some(seconds) = spec.active_deadline_seconds {
        findings.between(&at.child("activeDeadlineSeconds"), seconds, 1, i64::from(i32::MAX));
    }
    findings.not_negative(&at.child("terminationGracePeriodSeconds"), spec.termination_grace_period_seconds);
    if spec.ephemeral_containers.as_ref().is_some_and(|list| !list.is_empty()) {
        findings.forbidden(&at.child("ephemeralContainers"), "cannot be set on create");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{decode::decode, defaults::default_pod};

    /// Errors of a pod with this metadata and spec, named and defaulted as a static pod is.
    pub(super) fn errors(metadata: &str, spec: &str) -> Vec<String> {
        let manifest = format!("{{apiVersion: v1, kind: Pod, metadata: {metadata}, spec: {spec}}}");
        let mut pod = decode(manifest.as_bytes(), "f").unwrap();
        pod.metadata.uid.get_or_insert_with(|| "u".to_owned());
        pod.metadata.namespace.get_or_insert_with(|| "default".to_owned());
        default_pod(&mut pod);
        validate(&pod).iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    pub(super) fn check(spec: &str, expected: &[&str]) {
        assert_eq!(errors("{name: p}", spec), expected, "{spec}");
    }

    #[track_caller]
    fn check_meta(metadata: &str, expected: &[&str]) {
        assert_eq!(errors(metadata, "{containers: [{name: c, image: i}]}"), expected, "{metadata}");
    }

    #[test]
    fn metadata_is_checked() {
        check_meta("{name: web}", &[]);
        check_meta("{}", &["metadata.name: Required value: name is required: a static pod's name cannot be generated"]);
        assert!(
            errors("{name: Web_1}", "{containers: [{name: c, image: i}]}")[0]
                .starts_with("metadata.name: Invalid value: \"Web_1\": a lowercase RFC 1123 subdomain must consist of")
        );
        check_meta(
            "{name: web, uid: ../../etc}",
            &["metadata.uid: Invalid value: \"../../etc\": must be up to 63 letters, digits and '-', and not start with '-'"],
        );
        check_meta(
            "{name: web, annotations: {kubernetes.io/config.mirror: x}}",
            &["metadata.annotations[kubernetes.io/config.mirror]: Forbidden: a static pod may not be a mirror pod"],
        );
        check_meta(
            "{name: web, deletionGracePeriodSeconds: 0}",
            &["metadata.deletionGracePeriodSeconds: Forbidden: may not be set: how long the pod has to end is \
                 spec.terminationGracePeriodSeconds"],
        );
        check_meta(
            "{name: web, generation: -1, finalizers: [''], ownerReferences: [{apiVersion: apps/v1, kind: A, name: a, uid: u, controller: true}, \
             {apiVersion: apps/, kind: A, name: a, uid: '', controller: true}]}",
            &[
                "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
                "metadata.ownerReferences[1].apiVersion: Invalid value: \"apps/\": version must not be empty",
                "metadata.ownerReferences[1].uid: Invalid value: \"\": must not be empty",
                "metadata.ownerReferences[1].controller: Invalid value: true: Only one reference can have Controller set to true",
                "metadata.finalizers[0]: Invalid value: \"\": name part must be non-empty",
            ],
        );
        let long = format!("{{name: web, labels: {{a: {}}}}}", "x".repeat(64));
        assert!(errors(&long, "{containers: [{name: c, image: i}]}")[0].ends_with("must be no more than 63 bytes"));
    }

    #[test]
    fn the_pods_own_fields_are_checked() {
        check(
            "{restartPolicy: Sometimes, activeDeadlineSeconds: 0, terminationGracePeriodSeconds: -1, containers: [{name: c, image: i}]}",
            &[
                "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"Never\", \"OnFailure\"",
                "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
                "spec.terminationGracePeriodSeconds: Invalid value: -1: must be greater than or equal to 0",
            ],
        );
        check("{serviceAccount: '', containers: [{name: c, image: i}]}", &[]);
        check(
            "{serviceAccount: default, containers: [{name: c, image: i}]}",
            &["spec.serviceAccount: Forbidden: static pods may not reference serviceaccounts"],
        );
        check(
            "{os: {name: windows}, ephemeralContainers: [{name: e}], schedulingGates: [{name: g}], containers: [{name: c, image: i}]}",
            &[
                "spec.ephemeralContainers: Forbidden: cannot be set on create",
                "spec.schedulingGates: Forbidden: a pod with a node cannot be gated",
                "spec.os.name: Unsupported value: \"windows\": supported values: \"linux\"",
            ],
        );
    }
}
