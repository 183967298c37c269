use polylet_core::observed::Image;
use serde_json::{Value, json};

use super::*;
use crate::translate::spec_container;
use crate::translate::testing::{node, pod, with_inputs};

/// The context of a container with this context, in a pod with that one, of an image that runs as user 33.
fn of(of_pod: Value, own: Value) -> Result<LinuxContainerSecurityContext, TranslateError> {
    with(of_pod, own, Image { uid: Some(33), ..Default::default() }, &node())
}

fn with(of_pod: Value, own: Value, image: Image, node: &NodeContext) -> Result<LinuxContainerSecurityContext, TranslateError> {
    let pod = pod(json!({
        "securityContext": of_pod,
        "containers": [{"name": "app", "image": "app", "securityContext": own}],
    }));
    with_inputs(&pod, "app", |inputs| {
        let spec = spec_container(inputs.pod, inputs.container).unwrap();
        of_container(node, &ContainerInputs { image: &image, ..*inputs }, &spec)
    })
}

#[test]
fn users() {
    let cases = [
        ("the image's", json!({}), json!({}), Image { uid: Some(33), ..Default::default() }, Some(33), ""),
        ("the image's by name", json!({}), json!({}), Image { username: "www".into(), ..Default::default() }, None, "www"),
        ("the image says nothing", json!({}), json!({}), Image::default(), Some(0), ""),
        ("the pod's", json!({"runAsUser": 7}), json!({}), Image { username: "www".into(), ..Default::default() }, Some(7), ""),
        ("the container's", json!({"runAsUser": 7}), json!({"runAsUser": 8}), Image::default(), Some(8), ""),
        ("non-root", json!({"runAsNonRoot": true}), json!({"runAsUser": 8}), Image::default(), Some(8), ""),
        (
            "root, allowed by the container",
            json!({"runAsNonRoot": true}),
            json!({"runAsNonRoot": false}),
            Image::default(),
            Some(0),
            "",
        ),
    ];
    for (case, of_pod, own, image, id, name) in cases {
        let context = with(of_pod, own, image, &node()).unwrap();
        assert_eq!((context.run_as_user.map(|id| id.value), context.run_as_username.as_str()), (id, name), "{case}");
    }
}

#[test]
fn root_is_refused_where_it_must_not_be() {
    let whose = "(pod: \"web_shop(u1)\", container: app)";
    let cases = [
        (json!({"runAsUser": 0}), Image { uid: Some(33), ..Default::default() }, "container's runAsUser breaks non-root policy "),
        (
            json!({}),
            Image { username: "www".into(), ..Default::default() },
            "container has runAsNonRoot and image has non-numeric user (www), cannot verify user is non-root ",
        ),
        (json!({}), Image::default(), "container has runAsNonRoot and image will run as root "),
    ];
    for (own, image, why) in cases {
        let error = with(json!({"runAsNonRoot": true}), own, image, &node()).unwrap_err();
        assert_eq!(error.to_string(), format!("{why}{whose}"));
    }
}

#[test]
fn a_plain_container_gets_upstreams_defaults() {
    let context = of(json!({}), json!({})).unwrap();
    assert_eq!(context.masked_paths, MASKED_PATHS);
    assert_eq!(context.readonly_paths, READONLY_PATHS);
    assert_eq!(context.seccomp, Some(profile(ProfileType::Unconfined)));
    assert_eq!((context.apparmor, context.capabilities, context.selinux_options), (None, None, None));
    assert!(!context.privileged && !context.no_new_privs && !context.readonly_rootfs);
    assert!(context.supplemental_groups.is_empty());

    let defaulting = NodeContext { seccomp_default: true, masked_paths: vec!["/sys/x".into()], ..node() };
    let context = with(json!({}), json!({}), Image::default(), &defaulting).unwrap();
    assert_eq!(context.seccomp, Some(profile(ProfileType::RuntimeDefault)));
    assert_eq!(context.masked_paths.last().map(String::as_str), Some("/sys/x"));
}

#[test]
fn the_containers_word_counts_before_the_pods() {
    let of_pod = json!({
        "runAsGroup": 1, "fsGroup": 2, "supplementalGroups": [3, 4], "supplementalGroupsPolicy": "Strict",
        "seLinuxOptions": {"level": "s0:c1", "user": "u"}, "seccompProfile": {"type": "RuntimeDefault"},
        "appArmorProfile": {"type": "Localhost", "localhostProfile": "mine"},
    });
    let context = of(of_pod.clone(), json!({})).unwrap();
    assert_eq!(context.run_as_group, Some(int(1)));
    assert_eq!(context.supplemental_groups, [2, 3, 4]);
    assert_eq!(context.supplemental_groups_policy(), SupplementalGroupsPolicy::Strict);
    assert_eq!(context.seccomp, Some(profile(ProfileType::RuntimeDefault)));
    let localhost = SecurityProfile { localhost_ref: "mine".into(), ..profile(ProfileType::Localhost) };
    assert_eq!(context.apparmor, Some(localhost));
    #[allow(deprecated)]
    let old = context.apparmor_profile;
    assert_eq!(old, "localhost/mine");

    let own = json!({
        "runAsGroup": 9, "seLinuxOptions": {"type": "t"}, "seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"},
        "appArmorProfile": {"type": "Unconfined"}, "privileged": true, "readOnlyRootFilesystem": true,
        "allowPrivilegeEscalation": false, "procMount": "Unmasked", "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
    });
    let context = of(of_pod, own).unwrap();
    assert_eq!(context.run_as_group, Some(int(9)));
    let label = SeLinuxOption { r#type: "t".into(), ..Default::default() };
    assert_eq!(context.selinux_options, Some(label), "replaced as a whole");
    let localhost =
        SecurityProfile { localhost_ref: "/var/lib/kubelet/seccomp/p.json".into(), ..profile(ProfileType::Localhost) };
    assert_eq!(context.seccomp, Some(localhost));
    assert_eq!(context.apparmor, Some(profile(ProfileType::Unconfined)));
    assert!(context.privileged && context.no_new_privs && context.readonly_rootfs);
    assert!(context.masked_paths.is_empty() && context.readonly_paths.is_empty());
    let capabilities = context.capabilities.unwrap();
    assert_eq!((capabilities.add_capabilities, capabilities.drop_capabilities), (vec!["NET_ADMIN".into()], vec!["ALL".into()]));
}

#[test]
fn profiles_must_have_names() {
    for (own, part) in [
        (json!({"seccompProfile": {"type": "Localhost"}}), "localhostProfile must be set if seccompProfile type is Localhost."),
        (json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": ""}}), "missing localhost apparmor profile name"),
        (json!({"seccompProfile": {"type": "Fancy"}}), "unknown seccomp profile type: \"Fancy\""),
    ] {
        let error = of(json!({}), own).unwrap_err().to_string();
        assert_eq!(error, part);
    }
}

#[test]
fn a_sandbox_is_confined_as_the_pod_is() {
    let pod = pod(json!({
        "securityContext": {
            "runAsUser": 7, "fsGroup": 2, "supplementalGroups": [3], "seccompProfile": {"type": "Unconfined"},
            "sysctls": [{"name": "net/ipv4/conf/eth0.1/rp_filter", "value": "1"}, {"name": "kernel.shm_rmid_forced", "value": "0"}],
        },
        "initContainers": [{"name": "init", "image": "app", "securityContext": {"privileged": true}}],
        "containers": [{"name": "app", "image": "app"}],
    }));
    let context = super::of_pod(&pod, &node(), None).unwrap();
    assert_eq!(context.run_as_user, Some(int(7)));
    assert_eq!(context.supplemental_groups, [2, 3]);
    assert!(context.privileged);
    assert_eq!(context.seccomp, Some(profile(ProfileType::RuntimeDefault)), "whatever the pod asks for");
    let expected = [("kernel.shm_rmid_forced", "0"), ("net.ipv4.conf.eth0/1.rp_filter", "1")];
    assert_eq!(sysctls(&pod), crate::translate::testing::map(&expected));
}
