//! Security contexts of the pod and of its containers, what stands for them in annotations, and what contradicts what.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1;

use super::names;
use crate::document::field::{At, Findings, shown};

/// Checks the pod's security context and namespaces.
pub(super) fn pod(spec: &v1::PodSpec, at: &At, findings: &mut Findings) {
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        findings.invalid(&at.child("shareProcessNamespace"), true, detail);
    }
    if spec.host_users == Some(false) {
        let namespaces = [("hostNetwork", spec.host_network), ("hostPID", spec.host_pid), ("hostIPC", spec.host_ipc)];
        for (field, _) in namespaces.iter().filter(|(_, set)| *set == Some(true)) {
            findings.forbidden(&at.child(field), "when `pod.Spec.HostUsers` is false");
        }
    }
    let Some(context) = &spec.security_context else { return };
    let at = at.child("securityContext");
    id(context.run_as_user, &at.child("runAsUser"), findings);
    id(context.run_as_group, &at.child("runAsGroup"), findings);
    id(context.fs_group, &at.child("fsGroup"), findings);
    for (i, group) in context.supplemental_groups.iter().flatten().enumerate() {
        id(Some(*group), &at.child("supplementalGroups").index(i), findings);
    }
    let policy = context.fs_group_change_policy.as_deref();
    findings.one_of(&at.child("fsGroupChangePolicy"), policy, &["Always", "OnRootMismatch"]);
    let policy = context.supplemental_groups_policy.as_deref();
    findings.one_of(&at.child("supplementalGroupsPolicy"), policy, &["Merge", "Strict"]);
    findings.one_of(&at.child("seLinuxChangePolicy"), context.se_linux_change_policy.as_deref(), &["MountOption", "Recursive"]);
    seccomp(context.seccomp_profile.as_ref(), &at.child("seccompProfile"), findings);
    app_armor(context.app_armor_profile.as_ref(), &at.child("appArmorProfile"), findings);
    sysctls(spec, context, &at.child("sysctls"), findings);
}

/// Checks a container's security context.
pub(super) fn container(container: &v1::Container, host_users: bool, at: &At, findings: &mut Findings) {
    let Some(context) = &container.security_context else { return };
    let at = at.child("securityContext");
    id(context.run_as_user, &at.child("runAsUser"), findings);
    id(context.run_as_group, &at.child("runAsGroup"), findings);
    findings.one_of(&at.child("procMount"), context.proc_mount.as_deref(), &["Default", "Unmasked"]);
    if host_users && context.proc_mount.as_deref() == Some("Unmasked") {
        findings.invalid(&at.child("procMount"), "Unmasked", "`hostUsers` must be false to use `Unmasked`");
    }
    seccomp(context.seccomp_profile.as_ref(), &at.child("seccompProfile"), findings);
    app_armor(context.app_armor_profile.as_ref(), &at.child("appArmorProfile"), findings);
    if context.allow_privilege_escalation == Some(false) {
        let at = at.child("allowPrivilegeEscalation");
        if context.privileged == Some(true) {
            findings.invalid(&at, false, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
        }
        let mut added = context.capabilities.iter().flat_map(|c| &c.add).flatten();
        if added.any(|capability| matches!(capability.as_str(), "CAP_SYS_ADMIN" | "SYS_ADMIN")) {
            findings.invalid(&at, false, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN");
        }
    }
}

/// User and group ids.
pub(super) fn id(id: Option<i64>, at: &At, findings: &mut Findings) {
    if let Some(id) = id {
        findings.between(at, id, 0, i64::from(i32::MAX));
    }
}

fn seccomp(profile: Option<&v1::SeccompProfile>, at: &At, findings: &mut Findings) {
    if let Some(profile) = profile {
        confinement("seccomp", "seccompProfile", &profile.type_, profile.localhost_profile.as_deref(), at, findings);
        let path = profile.localhost_profile.as_deref().unwrap_or_default();
        findings.format(&at.child("localhostProfile"), path, names::relative_path(path));
    }
}

/// Longest name of an AppArmor profile.
const APP_ARMOR_MAX: usize = 4095;

fn app_armor(profile: Option<&v1::AppArmorProfile>, at: &At, findings: &mut Findings) {
    if let Some(profile) = profile {
        confinement("AppArmor", "appArmorProfile", &profile.type_, profile.localhost_profile.as_deref(), at, findings);
        let name = profile.localhost_profile.as_deref().unwrap_or_default();
        let at = at.child("localhostProfile");
        if name.trim() != name {
            findings.invalid(&at, name, "must not be padded with whitespace");
        }
        if name.len() > APP_ARMOR_MAX {
            findings.too_long(&at, format!("may not be more than {APP_ARMOR_MAX} bytes"));
        }
    }
}

/// Annotations that gave containers their AppArmor profiles before there was a field. The API server makes fields of them; for a static
/// pod nobody does, and it would run without the profile that it asks for.
pub(super) fn annotations(pod: &v1::Pod, spec: &v1::PodSpec, at: &At, findings: &mut Findings) {
    for (key, profile) in pod.metadata.annotations.iter().flatten() {
        let Some(name) = key.strip_prefix("container.apparmor.security.beta.kubernetes.io/") else { continue };
        let at = at.key(key);
        let container = spec.init_containers.iter().flatten().chain(&spec.containers).find(|container| container.name == name);
        if container.is_none() {
            findings.invalid(&at, name, "container not found");
        }
        let (kind, local) = match (profile.as_str(), profile.strip_prefix("localhost/")) {
            // Asks for nothing.
            ("", _) => continue,
            ("runtime/default", _) => ("RuntimeDefault", None),
            ("unconfined", _) => ("Unconfined", None),
            (_, Some(local)) => ("Localhost", Some(local)),
            (other, None) => {
                findings.invalid(&at, other, format!("invalid AppArmor profile name: {}", shown(&other.into())));
                continue;
            }
        };
        let Some(container) = container else { continue };
        let own = container.security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref());
        let of_pod = || spec.security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref());
        let field = own.or_else(of_pod);
        if !field.is_some_and(|field| field.type_ == kind && field.localhost_profile.as_deref() == local) {
            let local = local.map(|local| format!(", localhostProfile: {}", shown(&local.into()))).unwrap_or_default();
            let right = format!("set securityContext.appArmorProfile of the container to {{type: {kind}{local}}}");
            findings.forbidden(&at, format!("this annotation is not read from static pods: {right}"));
        }
    }
}

/// A profile of the node is named exactly where the type is `Localhost`.
fn confinement(what: &str, field: &str, kind: &str, local: Option<&str>, at: &At, findings: &mut Findings) {
    if kind.is_empty() {
        findings.required(&at.child("type"), &format!("type is required when {field} is set"));
    } else {
        findings.one_of(&at.child("type"), Some(kind), &["Localhost", "RuntimeDefault", "Unconfined"]);
    }
    let at = at.child("localhostProfile");
    match (kind, local) {
        ("Localhost", None | Some("")) => findings.required(&at, &format!("must be set when {what} type is Localhost")),
        ("Localhost", Some(_)) | (_, None) => {}
        (_, Some(path)) => findings.invalid(&at, path, format!("can only be set when {what} type is Localhost")),
    }
}

fn sysctls(spec: &v1::PodSpec, context: &v1::PodSecurityContext, at: &At, findings: &mut Findings) {
    let mut taken = BTreeSet::new();
    for (i, sysctl) in context.sysctls.iter().flatten().enumerate() {
        let at = at.index(i).child("name");
        let name = sysctl.name.replace('/', ".");
        if sysctl.name.is_empty() {
            findings.required(&at, "");
        } else if !names::is_sysctl(&sysctl.name) {
            let detail = "must have at most 253 characters and consist of lower case alphanumeric characters, '-' or '_', in parts \
                          separated by '.' or '/'";
            findings.invalid(&at, sysctl.name.as_str(), detail);
        } else if !taken.insert(name.clone()) {
            findings.duplicate(&at, sysctl.name.as_str());
        }
        let ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|start| name.starts_with(start)) || name == "kernel.sem";
        if spec.host_network == Some(true) && name.starts_with("net.") {
            findings.invalid(&at, sysctl.name.as_str(), "may not be specified when 'hostNetwork' is true");
        }
        if spec.host_ipc == Some(true) && ipc {
            findings.invalid(&at, sysctl.name.as_str(), "may not be specified when 'hostIPC' is true");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::source::validate::tests::{check, errors};

    #[test]
    fn profiles_in_annotations() {
        let check = |profile: &str, context: &str, expected: &[&str]| {
            let metadata = format!("{{name: p, annotations: {{container.apparmor.security.beta.kubernetes.io/c: {profile}}}}}");
            let found = errors(&metadata, &format!("{{containers: [{{name: c, image: i, securityContext: {context}}}]}}"));
            let place = "metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: ";
            let expected: Vec<String> = expected.iter().map(|expected| format!("{place}{expected}")).collect();
            assert_eq!(found, expected, "{profile}");
        };
        check("''", "{}", &[]);
        check("unconfined", "{appArmorProfile: {type: Unconfined}}", &[]);
        check("localhost/web", "{appArmorProfile: {type: Localhost, localhostProfile: web}}", &[]);
        let start =
            "Forbidden: this annotation is not read from static pods: set securityContext.appArmorProfile of the container to";
        check("runtime/default", "{}", &[&format!("{start} {{type: RuntimeDefault}}")]);
        let named = format!("{start} {{type: Localhost, localhostProfile: \"web\"}}");
        check("localhost/web", "{appArmorProfile: {type: Unconfined}}", &[&named]);
        check("strict", "{}", &["Invalid value: \"strict\": invalid AppArmor profile name: \"strict\""]);
    }

    #[test]
    fn the_pods_context() {
        check(
            "{hostPID: true, hostNetwork: true, shareProcessNamespace: true, containers: [{name: c, image: i}], securityContext: {runAsUser: -1, \
             fsGroup: 4294967296, fsGroupChangePolicy: Never, seccompProfile: {type: Localhost}, appArmorProfile: {type: Unconfined, localhostProfile: x}, \
             sysctls: [{name: net.core.somaxconn, value: '1'}, {name: A, value: x}, {name: kernel.sem, value: '1'}, {name: kernel/sem, value: '1'}]}}",
            &[
                "spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
                "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                "spec.securityContext.fsGroup: Invalid value: 4294967296: must be between 0 and 2147483647, inclusive",
                "spec.securityContext.fsGroupChangePolicy: Unsupported value: \"Never\": supported values: \"Always\", \"OnRootMismatch\"",
                "spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
                "spec.securityContext.appArmorProfile.localhostProfile: Invalid value: \"x\": can only be set when AppArmor type is Localhost",
                "spec.securityContext.sysctls[0].name: Invalid value: \"net.core.somaxconn\": may not be specified when 'hostNetwork' is true",
                "spec.securityContext.sysctls[1].name: Invalid value: \"A\": must have at most 253 characters and consist of lower case \
                 alphanumeric characters, '-' or '_', in parts separated by '.' or '/'",
                "spec.securityContext.sysctls[3].name: Duplicate value: \"kernel/sem\"",
            ],
        );
    }

    #[test]
    fn user_namespaces() {
        check(
            "{hostUsers: false, hostNetwork: true, hostPID: true, hostIPC: true, containers: [{name: c, image: i, securityContext: {procMount: Unmasked}}]}",
            &[
                "spec.hostNetwork: Forbidden: when `pod.Spec.HostUsers` is false",
                "spec.hostPID: Forbidden: when `pod.Spec.HostUsers` is false",
                "spec.hostIPC: Forbidden: when `pod.Spec.HostUsers` is false",
            ],
        );
        check(
            "{containers: [{name: c, image: i, securityContext: {procMount: Unmasked}}]}",
            &[
                "spec.containers[0].securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`",
            ],
        );
    }

    #[test]
    fn the_containers_context() {
        check(
            "{containers: [{name: c, image: i, securityContext: {privileged: true, allowPrivilegeEscalation: false, capabilities: {add: [SYS_ADMIN]}, \
             procMount: Half, seccompProfile: {type: Localhost, localhostProfile: ../x}}}]}",
            &[
                "spec.containers[0].securityContext.procMount: Unsupported value: \"Half\": supported values: \"Default\", \"Unmasked\"",
                "spec.containers[0].securityContext.seccompProfile.localhostProfile: Invalid value: \"../x\": must not contain '..'",
                "spec.containers[0].securityContext.allowPrivilegeEscalation: Invalid value: false: cannot set `allowPrivilegeEscalation` \
                 to false and `privileged` to true",
                "spec.containers[0].securityContext.allowPrivilegeEscalation: Invalid value: false: cannot set `allowPrivilegeEscalation` \
                 to false and `capabilities.Add` CAP_SYS_ADMIN",
            ],
        );
    }
}
