//! Volumes, and the mounts that name them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1;
use polylet_core::quantity;

use super::{container, names, resources, security};
use crate::document::field::{At, Findings, shown};

/// The pod's volumes by name.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a v1::Volume>;

/// Checks the volumes; returns those that a mount may name.
pub(super) fn volumes<'a>(spec: &'a v1::PodSpec, at: &At, findings: &mut Findings) -> Volumes<'a> {
    let containers = resources::container_names(spec);
    let mut known = Volumes::new();
    for (i, volume) in spec.volumes.iter().flatten().enumerate() {
        let at = at.child("volumes").index(i);
        if volume.name.is_empty() {
            findings.required(&at.child("name"), "");
        } else {
            findings.format(&at.child("name"), &volume.name, names::dns_label(&volume.name));
        }
        if known.insert(&volume.name, volume).is_some() {
            findings.duplicate(&at.child("name"), volume.name.as_str());
        }
        one_source(volume, &at, findings);
        if let Some(host_path) = &volume.host_path {
            check_host_path(host_path, &at.child("hostPath"), findings);
        }
        if let Some(empty_dir) = &volume.empty_dir {
            check_empty_dir(empty_dir, &at.child("emptyDir"), findings);
        }
        if let Some(source) = &volume.downward_api {
            let at = at.child("downwardAPI");
            mode(source.default_mode, &at.child("defaultMode"), findings);
            security::id(source.default_user, &at.child("defaultUser"), findings);
            let mut files = Files::default();
            for (i, file) in source.items.iter().flatten().enumerate() {
                let at = at.child("items").index(i);
                check_file(file, &containers, &at, findings);
                files.add(&file.path, &at.child("path"), findings);
            }
        }
        if let Some(source) = &volume.image {
            let at = at.child("image");
            if source.reference.as_deref().is_none_or(str::is_empty) {
                findings.required(&at.child("reference"), "");
            }
            findings.one_of(&at.child("pullPolicy"), source.pull_policy.as_deref(), &["Always", "IfNotPresent", "Never"]);
        }
        if let Some(source) = &volume.projected {
            check_projected(source, &containers, &at.child("projected"), findings);
        }
    }
    known
}

/// Exactly one source; defaulting has given an emptyDir to a volume without any.
fn one_source(volume: &v1::Volume, at: &At, findings: &mut Findings) {
    let tree = serde_json::to_value(volume).unwrap_or_default();
    let sources = tree.as_object().into_iter().flat_map(|map| map.keys()).filter(|key| *key != "name");
    for source in sources.skip(1) {
        findings.forbidden(&at.child(source), "may not specify more than one volume type");
    }
}

fn check_host_path(source: &v1::HostPathVolumeSource, at: &At, findings: &mut Findings) {
    if source.path.is_empty() {
        findings.required(&at.child("path"), "");
    } else if !source.path.starts_with('/') {
        findings.invalid(&at.child("path"), source.path.as_str(), "must be an absolute path");
    }
    findings.format(&at.child("path"), &source.path, names::no_backsteps(&source.path));
    let types = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    findings.one_of(&at.child("type"), source.type_.as_deref(), &types);
}

fn check_empty_dir(source: &v1::EmptyDirVolumeSource, at: &At, findings: &mut Findings) {
    let medium = source.medium.as_deref().unwrap_or_default();
    let page = medium.strip_prefix("HugePages-");
    if !matches!(medium, "" | "Memory" | "HugePages") && page.is_none_or(|size| quantity::whole(size).is_err()) {
        findings.unsupported(&at.child("medium"), medium, &["", "Memory", "HugePages", "HugePages-<size>"]);
    }
    if let Some(mode) = source.mode.filter(|mode| !(0..=0o1777).contains(mode)) {
        findings.invalid(&at.child("mode"), mode, "must be a number between 0 and 01777 (octal), both inclusive");
    }
    if let Some(limit) = &source.size_limit
        && let Err(error) = quantity::whole(&limit.0)
    {
        findings.invalid(&at.child("sizeLimit"), limit.0.as_str(), error.to_string());
    }
}

/// Permissions of a file that the node writes.
fn mode(mode: Option<i32>, at: &At, findings: &mut Findings) {
    if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
        findings.invalid(at, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// The files of one volume so far, by the parts of their paths, each with its place in the manifest and its path as written.
#[derive(Default)]
struct Files<'a>(BTreeMap<Vec<&'a str>, (At, &'a str)>);

impl<'a> Files<'a> {
    /// Adds a file, unless one of the volume's files would have to be a directory for it, or it for one of them: such a volume can never
    /// be written. A path that is there already is no matter of this.
    fn add(&mut self, path: &'a str, at: &At, findings: &mut Findings) {
        let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if parts.is_empty() {
            return;
        }
        // In this order nothing stands between a directory and what is in it.
        let above = self.0.range(..parts.clone()).next_back().filter(|(other, _)| parts.starts_with(other));
        let below =
            self.0.range(parts.clone()..).next().filter(|(other, _)| other.len() > parts.len() && other.starts_with(&parts));
        let conflict = match (above, below) {
            (Some((_, (other, path))), _) => format!("{} is a file, by {}", shown(&(*path).into()), other.as_str()),
            (None, Some((_, (other, path)))) => {
                format!("{} needs a directory there, by {}", shown(&(*path).into()), other.as_str())
            }
            (None, None) => {
                self.0.entry(parts).or_insert_with(|| (at.clone(), path));
                return;
            }
        };
        findings.invalid(at, path, format!("conflicting paths: {conflict}"));
    }
}

/// A file that shows a field of the pod.
fn check_file(file: &v1::DownwardAPIVolumeFile, containers: &BTreeSet<&str>, at: &At, findings: &mut Findings) {
    if file.path.is_empty() {
        findings.required(&at.child("path"), "");
    }
    findings.format(&at.child("path"), &file.path, names::file_path(&file.path));
    match (&file.field_ref, &file.resource_field_ref) {
        (None, None) => findings.required(at, "one of fieldRef and resourceFieldRef is required"),
        (Some(_), Some(_)) => {
            findings.invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
        }
        _ => {}
    }
    if let Some(field) = &file.field_ref {
        container::field_ref(field, &VOLUME_FIELDS, &at.child("fieldRef"), findings);
    }
    if let Some(field) = &file.resource_field_ref {
        let at = at.child("resourceFieldRef");
        if field.container_name.as_deref().is_none_or(str::is_empty) {
            findings.required(&at.child("containerName"), "");
        }
        resources::field_ref(field, containers, &at, findings);
    }
    mode(file.mode, &at.child("mode"), findings);
    security::id(file.user, &at.child("user"), findings);
}

/// What a volume can show of its pod.
const VOLUME_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Sources that the node cannot serve are refused elsewhere.
fn check_projected(source: &v1::ProjectedVolumeSource, containers: &BTreeSet<&str>, at: &At, findings: &mut Findings) {
    mode(source.default_mode, &at.child("defaultMode"), findings);
    security::id(source.default_user, &at.child("defaultUser"), findings);
    let (mut taken, mut files) = (BTreeSet::new(), Files::default());
    for (i, source) in source.sources.iter().flatten().enumerate() {
        let at = at.child("sources").index(i);
        let tree = serde_json::to_value(source).unwrap_or_default();
        for kind in tree.as_object().into_iter().flat_map(|map| map.keys()).skip(1) {
            findings.forbidden(&at.child(kind), "may not specify more than 1 volume type");
        }
        for (j, file) in source.downward_api.iter().flat_map(|source| source.items.iter().flatten()).enumerate() {
            let at = at.child("downwardAPI").child("items").index(j);
            check_file(file, containers, &at, findings);
            let at = at.child("path");
            if !file.path.is_empty() && !taken.insert(file.path.as_str()) {
                findings.invalid(&at, file.path.as_str(), "conflicting duplicate paths");
            }
            files.add(&file.path, &at, findings);
        }
    }
}

/// Checks the mounts of one container.
pub(super) fn mounts(container: &v1::Container, volumes: &Volumes<'_>, at: &At, findings: &mut Findings) {
    let privileged = container.security_context.as_ref().and_then(|s| s.privileged) == Some(true);
    let mut paths = BTreeSet::new();
    for (i, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let at = at.child("volumeMounts").index(i);
        if mount.name.is_empty() {
            findings.required(&at.child("name"), "");
        } else if !volumes.contains_key(mount.name.as_str()) {
            findings.not_found(&at.child("name"), mount.name.as_str());
        }
        let path = mount.mount_path.as_str();
        if path.is_empty() {
            findings.required(&at.child("mountPath"), "");
        }
        if path.contains(':') {
            findings.invalid(&at.child("mountPath"), path, "must not contain ':'");
        }
        if !paths.insert(path) {
            findings.invalid(&at.child("mountPath"), path, "must be unique");
        }
        sub_path(mount, &at, findings);
        propagation(mount, privileged, &at, findings);
        recursive_read_only(mount, &at, findings);
    }
}

fn sub_path(mount: &v1::VolumeMount, at: &At, findings: &mut Findings) {
    let sub_path = mount.sub_path.as_deref().unwrap_or_default();
    let expression = mount.sub_path_expr.as_deref().unwrap_or_default();
    findings.format(&at.child("subPath"), sub_path, names::relative_path(sub_path));
    findings.format(&at.child("subPathExpr"), expression, names::relative_path(expression));
    if !sub_path.is_empty() && !expression.is_empty() {
        findings.invalid(&at.child("subPathExpr"), expression, "subPathExpr and subPath are mutually exclusive");
    }
}

fn propagation(mount: &v1::VolumeMount, privileged: bool, at: &At, findings: &mut Findings) {
    let at = at.child("mountPropagation");
    let mode = mount.mount_propagation.as_deref();
    findings.one_of(&at, mode, &["Bidirectional", "HostToContainer", "None"]);
    if mode == Some("Bidirectional") && !privileged {
        findings.forbidden(&at, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn recursive_read_only(mount: &v1::VolumeMount, at: &At, findings: &mut Findings) {
    let at = at.child("recursiveReadOnly");
    let Some(mode) = mount.recursive_read_only.as_deref() else { return };
    findings.one_of(&at, Some(mode), &["Disabled", "Enabled", "IfPossible"]);
    if matches!(mode, "Enabled" | "IfPossible") {
        if mount.read_only != Some(true) {
            findings.forbidden(&at, "may only be specified when readOnly is true");
        }
        if !matches!(mount.mount_propagation.as_deref(), None | Some("None")) {
            findings.forbidden(&at, "may only be specified when mountPropagation is None or not specified");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::source::validate::tests::check;

    #[test]
    fn volumes_are_checked() {
        check(
            "{volumes: [{name: a, emptyDir: {}, hostPath: {path: /x}}, {name: a}, {name: b, hostPath: {path: x/../y, type: Pipe}}, \
             {name: C}, {name: d, emptyDir: {medium: Disk, sizeLimit: -1}}], containers: [{name: c, image: i}]}",
            &[
                "spec.volumes[0].hostPath: Forbidden: may not specify more than one volume type",
                "spec.volumes[1].name: Duplicate value: \"a\"",
                "spec.volumes[2].hostPath.path: Invalid value: \"x/../y\": must be an absolute path",
                "spec.volumes[2].hostPath.path: Invalid value: \"x/../y\": must not contain '..'",
                "spec.volumes[2].hostPath.type: Unsupported value: \"Pipe\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \
                 \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
                "spec.volumes[3].name: Invalid value: \"C\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
                 or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation \
                 is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.volumes[4].emptyDir.medium: Unsupported value: \"Disk\": supported values: \"\", \"Memory\", \"HugePages\", \
                 \"HugePages-<size>\"",
                "spec.volumes[4].emptyDir.sizeLimit: Invalid value: \"-1\": must not be negative",
            ],
        );
    }

    #[test]
    fn files_are_checked() {
        check(
            "{containers: [{name: c, image: i}], volumes: [{name: e, emptyDir: {mode: 1024}}, {name: d, downwardAPI: {defaultMode: 512, items: [\
             {path: ../x, fieldRef: {fieldPath: metadata.name}}, {path: /x, mode: -1, fieldRef: {fieldPath: status.podIP}}, {path: ..x}, \
             {fieldRef: {fieldPath: \"metadata.labels['a b']\"}, resourceFieldRef: {resource: limits.cpu}}]}}, \
             {name: p, projected: {sources: [{downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.uid}}]}}, \
             {downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.labels}}]}, configMap: {name: m}}]}}]}",
            &[
                "spec.volumes[0].emptyDir.mode: Invalid value: 1024: must be a number between 0 and 01777 (octal), both inclusive",
                "spec.volumes[1].downwardAPI.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
                "spec.volumes[1].downwardAPI.items[0].path: Invalid value: \"../x\": must not contain '..'",
                "spec.volumes[1].downwardAPI.items[1].path: Invalid value: \"/x\": must be a relative path",
                "spec.volumes[1].downwardAPI.items[1].fieldRef.fieldPath: Unsupported value: \"status.podIP\": supported values: \
                 \"metadata.annotations\", \"metadata.labels\", \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \
                 \"metadata.labels['<KEY>']\", \"metadata.annotations['<KEY>']\"",
                "spec.volumes[1].downwardAPI.items[1].mode: Invalid value: -1: must be a number between 0 and 0777 (octal), both inclusive",
                "spec.volumes[1].downwardAPI.items[2].path: Invalid value: \"..x\": must not start with '..'",
                "spec.volumes[1].downwardAPI.items[2]: Required value: one of fieldRef and resourceFieldRef is required",
                "spec.volumes[1].downwardAPI.items[3].path: Required value",
                "spec.volumes[1].downwardAPI.items[3]: Invalid value: \"resource\": fieldRef and resourceFieldRef can not be specified \
                 simultaneously",
                "spec.volumes[1].downwardAPI.items[3].fieldRef.fieldPath: Invalid value: \"metadata.labels['a b']\": name part must consist \
                 of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or \
                 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "spec.volumes[1].downwardAPI.items[3].resourceFieldRef.containerName: Required value",
                "spec.volumes[2].projected.sources[1].downwardAPI: Forbidden: may not specify more than 1 volume type",
                "spec.volumes[2].projected.sources[1].downwardAPI.items[0].path: Invalid value: \"a\": conflicting duplicate paths",
            ],
        );
    }

    #[test]
    fn files_that_cannot_be_beside_each_other() {
        let item = |path: &str| format!("{{path: {path}, fieldRef: {{fieldPath: metadata.uid}}}}");
        let items = |paths: &[&str]| paths.iter().map(|path| item(path)).collect::<Vec<_>>().join(", ");
        let one = |paths: &[&str]| {
            format!("{{containers: [{{name: c, image: i}}], volumes: [{{name: d, downwardAPI: {{items: [{}]}}}}]}}", items(paths))
        };
        check(&one(&["a", "ab", "a-b", "b/c", "b/d", "./a", "a/", "c/a"]), &[]);
        let at = "spec.volumes[0].downwardAPI.items";
        check(
            &one(&["a", "a-b", "./a//b", "a/c"]),
            &[
                &format!("{at}[2].path: Invalid value: \"./a//b\": conflicting paths: \"a\" is a file, by {at}[0].path"),
                &format!("{at}[3].path: Invalid value: \"a/c\": conflicting paths: \"a\" is a file, by {at}[0].path"),
            ],
        );
        check(
            &one(&["d/b", "d/a/x", "d-", "d"]),
            &[&format!(
                "{at}[3].path: Invalid value: \"d\": conflicting paths: \"d/a/x\" needs a directory there, by {at}[1].path"
            )],
        );
        let sources = format!("[{{downwardAPI: {{items: [{}]}}}}, {{downwardAPI: {{items: [{}]}}}}]", item("a"), item("a/b"));
        let at = "spec.volumes[0].projected.sources";
        check(
            &format!("{{containers: [{{name: c, image: i}}], volumes: [{{name: p, projected: {{sources: {sources}}}}}]}}"),
            &[&format!(
                "{at}[1].downwardAPI.items[0].path: Invalid value: \"a/b\": conflicting paths: \"a\" is a file, by \
                 {at}[0].downwardAPI.items[0].path"
            )],
        );
    }

    #[test]
    fn owners_and_containers_of_files() {
        check(
            "{containers: [{name: c, image: i}], volumes: [{name: d, downwardAPI: {defaultUser: -1, items: [\
             {path: a, user: 2147483648, fieldRef: {fieldPath: metadata.uid}}, {path: b, user: 2147483647, resourceFieldRef: \
             {containerName: c, resource: limits.cpu}}, {path: ., resourceFieldRef: {containerName: nope, resource: limits.cpu}}]}}, \
             {name: p, projected: {defaultUser: 2147483648, sources: [{downwardAPI: {items: [{path: a, user: -1, resourceFieldRef: \
             {containerName: nope, resource: limits.cpu}}]}}]}}]}",
            &[
                "spec.volumes[0].downwardAPI.defaultUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                "spec.volumes[0].downwardAPI.items[0].user: Invalid value: 2147483648: must be between 0 and 2147483647, inclusive",
                "spec.volumes[0].downwardAPI.items[2].path: Invalid value: \".\": must name a file",
                "spec.volumes[0].downwardAPI.items[2].resourceFieldRef.containerName: Invalid value: \"nope\": must be a container of this \
                 pod: \"c\"",
                "spec.volumes[1].projected.defaultUser: Invalid value: 2147483648: must be between 0 and 2147483647, inclusive",
                "spec.volumes[1].projected.sources[0].downwardAPI.items[0].resourceFieldRef.containerName: Invalid value: \"nope\": must be \
                 a container of this pod: \"c\"",
                "spec.volumes[1].projected.sources[0].downwardAPI.items[0].user: Invalid value: -1: must be between 0 and 2147483647, \
                 inclusive",
            ],
        );
    }

    #[test]
    fn mounts_are_checked() {
        check(
            "{volumes: [{name: a}], containers: [{name: c, image: i, volumeMounts: [{name: a, mountPath: /x}, {name: b, mountPath: /x}, \
             {name: a, mountPath: 'a:b', mountPropagation: Bidirectional, recursiveReadOnly: Enabled}]}]}",
            &[
                "spec.containers[0].volumeMounts[1].name: Not found: \"b\"",
                "spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/x\": must be unique",
                "spec.containers[0].volumeMounts[2].mountPath: Invalid value: \"a:b\": must not contain ':'",
                "spec.containers[0].volumeMounts[2].mountPropagation: Forbidden: Bidirectional mount propagation is available only to \
                 privileged containers",
                "spec.containers[0].volumeMounts[2].recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
                "spec.containers[0].volumeMounts[2].recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or \
                 not specified",
            ],
        );
    }
}
