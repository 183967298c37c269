//! Under what identity and confinement a sandbox and its containers run.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use polylet_core::pod::Pod;
use polylet_core::userns::IdRange;
use polylet_proto::cri::security_profile::ProfileType;
use polylet_proto::cri::{
    Capability, Int64Value, LinuxContainerSecurityContext, LinuxSandboxSecurityContext, SeLinuxOption, SecurityProfile,
    SupplementalGroupsPolicy,
};

use super::{ContainerInputs, NodeContext, TranslateError, namespaces};

/// What a container must not read of the kernel, unless `procMount: Unmasked`.
const MASKED_PATHS: &[&str] = &[
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];

/// What a container must not write.
const READONLY_PATHS: &[&str] = &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// The sandbox's own: it always runs under the runtime's seccomp profile, whatever the pod asks for.
pub(super) fn of_pod(
    pod: &Pod,
    node: &NodeContext,
    users: Option<IdRange>,
) -> Result<LinuxSandboxSecurityContext, TranslateError> {
    let context = pod_context(pod);
    Ok(LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces::of_pod(pod, node, users)?),
        selinux_options: context.and_then(|context| context.se_linux_options.as_ref()).map(selinux),
        run_as_user: context.and_then(|context| context.run_as_user).map(int),
        run_as_group: context.and_then(|context| context.run_as_group).map(int),
        supplemental_groups: groups(context),
        supplemental_groups_policy: groups_policy(context)?.into(),
        privileged: any_privileged(pod),
        seccomp: Some(profile(ProfileType::RuntimeDefault)),
        ..Default::default()
    })
}

/// Names with dots, as the kernel's files would have them with slashes.
pub(super) fn sysctls(pod: &Pod) -> BTreeMap<String, String> {
    let sysctls = pod_context(pod).and_then(|context| context.sysctls.as_ref());
    sysctls.into_iter().flatten().map(|sysctl| (with_dots(&sysctl.name), sysctl.value.clone())).collect()
}

/// A container's: its own word counts before the pod's.
pub(super) fn of_container(
    node: &NodeContext,
    inputs: &ContainerInputs<'_>,
    spec: &v1::Container,
) -> Result<LinuxContainerSecurityContext, TranslateError> {
    let of_pod = pod_context(inputs.pod);
    let own = spec.security_context.as_ref();
    let user = user(inputs, spec)?;
    let unmasked = own.and_then(|own| own.proc_mount.as_deref()) == Some("Unmasked");
    let paths = |paths: &[&str]| if unmasked { Vec::new() } else { paths.iter().map(|path| (*path).to_owned()).collect() };
    let mut masked_paths = paths(MASKED_PATHS);
    if !unmasked {
        masked_paths.extend(node.masked_paths.iter().cloned());
    }
    let (apparmor, apparmor_profile) = apparmor(of_pod, own)?.unzip();

    #[allow(deprecated)] // Old runtimes read the profile's old spelling only.
    Ok(LinuxContainerSecurityContext {
        capabilities: own.and_then(|own| own.capabilities.as_ref()).map(|capabilities| Capability {
            add_capabilities: capabilities.add.clone().unwrap_or_default(),
            drop_capabilities: capabilities.drop.clone().unwrap_or_default(),
            add_ambient_capabilities: Vec::new(),
        }),
        privileged: own.and_then(|own| own.privileged).unwrap_or(false),
        namespace_options: Some(namespaces::of_container(node, inputs)?),
        selinux_options: own
            .and_then(|own| own.se_linux_options.as_ref())
            .or_else(|| of_pod.and_then(|of_pod| of_pod.se_linux_options.as_ref()))
            .map(selinux),
        run_as_user: user.id.map(int),
        run_as_username: user.name,
        run_as_group: own.and_then(|own| own.run_as_group).or_else(|| of_pod.and_then(|p| p.run_as_group)).map(int),
        readonly_rootfs: own.and_then(|own| own.read_only_root_filesystem).unwrap_or(false),
        supplemental_groups: groups(of_pod),
        supplemental_groups_policy: groups_policy(of_pod)?.into(),
        no_new_privs: own.and_then(|own| own.allow_privilege_escalation) == Some(false),
        masked_paths,
        readonly_paths: paths(READONLY_PATHS),
        seccomp: Some(seccomp(of_pod, own, node)?),
        apparmor,
        apparmor_profile: apparmor_profile.unwrap_or_default(),
        seccomp_profile_path: String::new(),
    })
}

struct User {
    id: Option<i64>,
    name: String,
}

/// Who the container runs as: the spec's word, else the image's, else root. Refused where `runAsNonRoot` might be broken.
fn user(inputs: &ContainerInputs<'_>, spec: &v1::Container) -> Result<User, TranslateError> {
    let pod = inputs.pod;
    let (of_pod, own) = (pod_context(pod), spec.security_context.as_ref());
    let of_spec = own.and_then(|own| own.run_as_user).or_else(|| of_pod.and_then(|of_pod| of_pod.run_as_user));
    let of_image = inputs.image.uid.or(inputs.image.username.is_empty().then_some(0));
    let must_not_be_root = own.and_then(|own| own.run_as_non_root).or_else(|| of_pod.and_then(|p| p.run_as_non_root));
    if must_not_be_root == Some(true) {
        let whose = format!("(pod: \"{}\", container: {})", pod.desc(), spec.name);
        let why = match (of_spec, of_image) {
            (Some(0), _) => Some(format!("container's runAsUser breaks non-root policy {whose}")),
            (Some(_), _) => None,
            (None, Some(0)) => Some(format!("container has runAsNonRoot and image will run as root {whose}")),
            (None, Some(_)) => None,
            (None, None) => Some(format!(
                "container has runAsNonRoot and image has non-numeric user ({}), cannot verify user is non-root {whose}",
                inputs.image.username
            )),
        };
        if let Some(why) = why {
            return Err(TranslateError::MustNotBeRoot { why });
        }
    }
    let id = of_spec.or(of_image);
    Ok(User { id, name: if id.is_none() { inputs.image.username.clone() } else { String::new() } })
}

fn seccomp(
    of_pod: Option<&v1::PodSecurityContext>,
    own: Option<&v1::SecurityContext>,
    node: &NodeContext,
) -> Result<SecurityProfile, TranslateError> {
    let wanted = own.and_then(|own| own.seccomp_profile.as_ref());
    let wanted = wanted.or_else(|| of_pod.and_then(|of_pod| of_pod.seccomp_profile.as_ref()));
    let Some(wanted) = wanted else {
        return Ok(profile(if node.seccomp_default { ProfileType::RuntimeDefault } else { ProfileType::Unconfined }));
    };
    Ok(match wanted.type_.as_str() {
        "RuntimeDefault" => profile(ProfileType::RuntimeDefault),
        "Unconfined" => profile(ProfileType::Unconfined),
        "Localhost" => {
            let name = wanted.localhost_profile.as_deref().filter(|name| !name.is_empty());
            let name = name.ok_or(TranslateError::NoSeccompProfile)?;
            let path = node.paths.root.join("seccomp").join(name.trim_start_matches('/'));
            let localhost_ref = path.to_string_lossy().into_owned();
            SecurityProfile { localhost_ref, ..profile(ProfileType::Localhost) }
        }
        other => return Err(unknown_profile("seccomp", other)),
    })
}

/// The profile, and its old spelling; None where the runtime shall choose.
fn apparmor(
    of_pod: Option<&v1::PodSecurityContext>,
    own: Option<&v1::SecurityContext>,
) -> Result<Option<(SecurityProfile, String)>, TranslateError> {
    let wanted = own.and_then(|own| own.app_armor_profile.as_ref());
    let Some(wanted) = wanted.or_else(|| of_pod.and_then(|of_pod| of_pod.app_armor_profile.as_ref())) else {
        return Ok(None);
    };
    Ok(Some(match wanted.type_.as_str() {
        "RuntimeDefault" => (profile(ProfileType::RuntimeDefault), "runtime/default".to_owned()),
        "Unconfined" => (profile(ProfileType::Unconfined), "unconfined".to_owned()),
        "Localhost" => {
            let name = wanted.localhost_profile.as_deref().filter(|name| !name.is_empty());
            let name = name.ok_or(TranslateError::NoAppArmorProfile)?;
            let localhost_ref = name.to_owned();
            (SecurityProfile { localhost_ref, ..profile(ProfileType::Localhost) }, format!("localhost/{name}"))
        }
        other => return Err(unknown_profile("apparmor", other)),
    }))
}

fn unknown_profile(kind: &'static str, value: &str) -> TranslateError {
    TranslateError::BadProfile { kind, value: value.to_owned() }
}

fn profile(kind: ProfileType) -> SecurityProfile {
    SecurityProfile { profile_type: kind.into(), localhost_ref: String::new() }
}

fn selinux(options: &v1::SELinuxOptions) -> SeLinuxOption {
    SeLinuxOption {
        user: options.user.clone().unwrap_or_default(),
        role: options.role.clone().unwrap_or_default(),
        r#type: options.type_.clone().unwrap_or_default(),
        level: options.level.clone().unwrap_or_default(),
    }
}

/// The group of the pod's volumes, then what else it asks for.
fn groups(context: Option<&v1::PodSecurityContext>) -> Vec<i64> {
    let mut groups = Vec::from_iter(context.and_then(|context| context.fs_group));
    groups.extend(context.iter().flat_map(|context| context.supplemental_groups.iter().flatten()));
    groups
}

fn groups_policy(context: Option<&v1::PodSecurityContext>) -> Result<SupplementalGroupsPolicy, TranslateError> {
    Ok(match context.and_then(|context| context.supplemental_groups_policy.as_deref()) {
        None | Some("Merge") => SupplementalGroupsPolicy::Merge,
        Some("Strict") => SupplementalGroupsPolicy::Strict,
        Some(other) => return Err(TranslateError::BadGroupsPolicy { policy: other.to_owned() }),
    })
}

fn any_privileged(pod: &Pod) -> bool {
    let Some(spec) = pod.object.spec.as_ref() else { return false };
    let common = spec.init_containers.iter().flatten().chain(&spec.containers).map(|c| c.security_context.as_ref());
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|c| c.security_context.as_ref());
    common.chain(ephemeral).flatten().any(|context| context.privileged == Some(true))
}

fn pod_context(pod: &Pod) -> Option<&v1::PodSecurityContext> {
    pod.object.spec.as_ref()?.security_context.as_ref()
}

fn int(value: i64) -> Int64Value {
    Int64Value { value }
}

/// Either separator may be the one between the parts of the name: the first of them says which. In a name with slashes a dot
/// belongs to the part (an interface may be called `eth0.1`), and the other way round.
fn with_dots(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name.as_bytes()[at] == b'/' => {
            let swapped = |c| match c {
                '/' => '.',
                '.' => '/',
                c => c,
            };
            name.chars().map(swapped).collect()
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
