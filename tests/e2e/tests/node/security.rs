//! As whom containers run, and what they may do.

use std::collections::{BTreeMap, BTreeSet};

use polylet_e2e::{Node, Pod};

/// What the kernel says of a container's first process, once that is `sleep`: a runtime confines it until its last moment.
fn kernel(node: &Node, pod: &Pod<'_>, container: &str) -> BTreeMap<String, String> {
    let file = format!("/proc/{}/status", pod.process(container).pid);
    node.until(&format!("{container} sleeps"), || {
        let text = std::fs::read_to_string(&file).expect("a process that lives");
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let fields: BTreeMap<_, _> = lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
        (fields["Name"] == "sleep").then_some(fields)
    })
}

/// User, group, and all groups of a container's first process.
fn ids(node: &Node, pod: &Pod<'_>, container: &str) -> (u32, u32, BTreeSet<u32>) {
    let kernel = kernel(node, pod, container);
    let numbers = |field: &str| kernel[field].split_whitespace().map(|number| number.parse().expect("a number"));
    let (user, group) = (numbers("Uid").next().expect("a user"), numbers("Gid").next().expect("a group"));
    (user, group, numbers("Groups").chain([group]).collect())
}

/// The lab's images `1-user` and `1-named` say user 1000, whom its files of users put into group 2000, and `nobody-like`, 65533.
const WHO: &str = "
  terminationGracePeriodSeconds: 1
  securityContext: {runAsUser: 1001, runAsGroup: 3001, supplementalGroups: [4001], fsGroup: 4002}
  containers:
  - {name: pods, image: 'polylet.local/busybox:1-user', command: [sleep, '1000']}
  - {name: own, image: busybox, command: [sleep, '1000'], securityContext: {runAsUser: 1000, runAsGroup: 3002}}";

const NOT_ROOT: &str = "
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true}
  containers:
  - {name: number, image: 'polylet.local/busybox:1-user', command: [sleep, '1000']}
  - {name: given, image: 'polylet.local/busybox:1-named', command: [sleep, '1000'], securityContext: {runAsUser: 1002}}
  - {name: freed, image: 'polylet.local/busybox:1-named', command: [sleep, '1000'], securityContext: {runAsNonRoot: false}}
  - {name: named, image: 'polylet.local/busybox:1-named', command: [sleep, '1000']}
  - {name: root, image: busybox, command: [sleep, '1000']}
  - {name: zero, image: 'polylet.local/busybox:1-user', command: [sleep, '1000'], securityContext: {runAsUser: 0}}";

pub(crate) fn who_runs(node: &Node) {
    let (pod, not_root) = (node.pod("who", WHO), node.pod("not-root", NOT_ROOT));
    let view = pod.until_ready();
    for (container, user, group, groups) in
        [("pods", 1001, 3001, &[3001, 4001, 4002][..]), ("own", 1000, 3002, &[2000, 3002, 4001, 4002])]
    {
        assert_eq!(ids(node, &pod, container), (user, group, groups.iter().copied().collect()), "{container}");
        let told = &view.container(container)["user"]["linux"];
        assert!(told.is_null() || told["uid"] == user && told["gid"] == group, "{container}: {told}");
    }

    let refused = [
        ("named", "container has runAsNonRoot and image has non-numeric user (nobody-like), cannot verify user is non-root"),
        ("root", "container has runAsNonRoot and image will run as root"),
        ("zero", "container's runAsUser breaks non-root policy"),
    ];
    let view = not_root.until("who might be root is refused", |view| {
        refused.iter().all(|(container, _)| view.waits(container) == "CreateContainerConfigError")
    });
    for (container, why) in refused {
        let message = format!("{why} (pod: \"not-root-e2e_default({})\", container: {container})", view.uid());
        assert_eq!(view.wait_message(container), message);
        not_root.until_said(&format!("Error: {message}"));
    }
    for (container, user, group) in [("number", 1000, 1000), ("given", 1002, 0), ("freed", 65_533, 65_533)] {
        let (found_user, found_group, _) = ids(node, &not_root, container);
        assert_eq!((found_user, found_group), (user, group), "{container}");
    }
}

/// Of an image's files of groups nothing is heeded where the runtime says that it can do that; else the pod is turned away.
pub(crate) fn strict_groups(node: &Node) {
    let pod = node.pod(
        "strict",
        "
  terminationGracePeriodSeconds: 1
  securityContext: {runAsUser: 1000, runAsGroup: 3001, supplementalGroups: [4001], supplementalGroupsPolicy: Strict}
  containers:
  - {name: main, image: busybox, command: [sleep, '1000']}",
    );
    if node.runtime_status().features.is_some_and(|features| features.supplemental_groups_policy) {
        assert_eq!(ids(node, &pod, "main"), (1000, 3001, [3001, 4001].into()));
        return;
    }
    let view = pod.until("it is turned away", |view| view.phase() == "Failed");
    assert_eq!(view.status()["reason"], "SupplementalGroupsPolicyNotSupported");
    assert_eq!(view.status()["message"], "Pod was rejected: SupplementalGroupsPolicy=Strict is not supported in this node");
    assert!(node.containers_of(view.uid()).is_empty(), "nothing was made");
}

const MAY: &str = "
  terminationGracePeriodSeconds: 1
  volumes: [{name: scratch, emptyDir: {}}]
  containers:
  - {name: plain, image: busybox, command: [sleep, '1000']}
  - {name: none, image: busybox, command: [sleep, '1000'], securityContext: {capabilities: {drop: [ALL]}}}
  - name: admin
    image: busybox
    command: [sleep, '1000']
    securityContext: {capabilities: {drop: [ALL], add: [NET_ADMIN]}, allowPrivilegeEscalation: false}
  - {name: all, image: busybox, command: [sleep, '1000'], securityContext: {privileged: true}}
  - name: fixed
    image: busybox
    command: [sleep, '1000']
    securityContext: {readOnlyRootFilesystem: true}
    volumeMounts: [{name: scratch, mountPath: /scratch}]";

pub(crate) fn what_it_may(node: &Node) {
    let pod = node.pod("may", MAY);
    pod.until_ready();
    let of_node = std::fs::read_to_string(format!("/proc/{}/status", node.env("HOLDER"))).expect("the node's process");
    let whole = of_node.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("CapEff").trim();
    for (container, capabilities, no_new) in [
        ("plain", "00000000a80425fb", "0"),
        ("none", "0000000000000000", "0"),
        ("admin", "0000000000001000", "1"),
        ("all", whole, "0"),
    ] {
        let kernel = kernel(node, &pod, container);
        let found = (kernel["CapEff"].as_str(), kernel["CapBnd"].as_str(), kernel["NoNewPrivs"].as_str());
        assert_eq!(found, (capabilities, capabilities, no_new), "{container}");
    }
    let sets = |container| pod.exec(container, &["ip", "link", "set", "lo", "mtu", "60000"]).code == 0;
    assert!(sets("admin") && !sets("none"), "NET_ADMIN counts");

    let read_only = |container, file: &str| {
        let refused = pod.exec(container, &["sh", "-c", &format!("echo x >{file}")]);
        assert!(refused.code != 0 && refused.output.contains("Read-only file system"), "{container}: {file}: {refused:?}");
    };
    read_only("fixed", "/root/file");
    pod.exec_ok("fixed", &["touch", "/scratch/file"]);
    pod.exec_ok("plain", &["touch", "/root/file"]);

    // What is masked reads as /dev/null, or as an empty directory.
    read_only("plain", "/proc/sys/kernel/domainname");
    let masked = |container| pod.exec(container, &["test", "-c", "/proc/interrupts", "-a", "-c", "/proc/keys"]).code == 0;
    assert!(masked("plain") && !masked("all"), "procMount Default");
    assert_eq!(pod.exec_ok("plain", &["ls", "/sys/firmware"]), "");
    let linux = &pod.process("plain").spec["linux"];
    for (list, path) in [
        ("maskedPaths", "/proc/kcore"),
        ("maskedPaths", "/proc/timer_list"),
        ("maskedPaths", "/sys/devices/virtual/powercap"),
        ("readonlyPaths", "/proc/sysrq-trigger"),
    ] {
        assert!(linux[list].as_array().is_some_and(|paths| paths.contains(&path.into())), "{path}: {}", linux[list]);
    }
}

const NO_MKDIR: &str =
    r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}"#;

const FILTERED: &str = "
  terminationGracePeriodSeconds: 1
  securityContext: {seccompProfile: {type: Localhost, localhostProfile: e2e/no-mkdir.json}}
  containers:
  - {name: pods, image: busybox, command: [sleep, '1000']}
  - {name: none, image: busybox, command: [sleep, '1000'], securityContext: {seccompProfile: {type: Unconfined}}}
  - {name: usual, image: busybox, command: [sleep, '1000'], securityContext: {seccompProfile: {type: RuntimeDefault}}}
  - name: absent
    image: busybox
    command: [sleep, '1000']
    securityContext: {seccompProfile: {type: Localhost, localhostProfile: e2e/absent.json}}";

const UNSAID: &str = "
  terminationGracePeriodSeconds: 1
  containers:
  - {name: unsaid, image: busybox, command: [sleep, '1000']}
  - {name: none, image: busybox, command: [sleep, '1000'], securityContext: {seccompProfile: {type: Unconfined}}}";

/// A filter in the kernel's words: none, or one that was given.
fn filter(node: &Node, pod: &Pod<'_>, container: &str) -> &'static str {
    match kernel(node, pod, container)["Seccomp"].as_str() {
        "0" => "none",
        "2" => "given",
        other => panic!("{container}: Seccomp: {other}"),
    }
}

pub(crate) fn seccomp(node: &Node) {
    let profiles = node.dir().join("kubelet/seccomp/e2e");
    std::fs::create_dir_all(&profiles).expect("make a directory");
    std::fs::write(profiles.join("no-mkdir.json"), NO_MKDIR).expect("write a profile");
    let (pod, other) = (node.pod("filtered", FILTERED), node.pod("unsaid", UNSAID));
    let view = pod.until("a profile is missed", |view| view.waits("absent") == "CreateContainerError");
    assert!(view.wait_message("absent").contains("e2e/absent.json"), "{}", view.wait_message("absent"));

    for (container, found) in [("pods", "given"), ("usual", "given"), ("none", "none")] {
        assert_eq!(filter(node, &pod, container), found, "{container}");
    }
    let refused = pod.exec("pods", &["mkdir", "/tmp/made"]);
    assert!(refused.code != 0 && refused.output.contains("Operation not permitted"), "{refused:?}");
    pod.exec_ok("pods", &["touch", "/tmp/file"]);
    for container in ["usual", "none"] {
        pod.exec_ok(container, &["mkdir", "/tmp/made"]);
    }
    let users = |container| pod.exec(container, &["unshare", "-U", "true"]).code == 0;
    assert!(users("none") && !users("usual"), "the runtime's profile denies what it always does");
    assert_eq!(filter(node, &other, "unsaid"), "none");
}

pub(crate) fn seccomp_by_default() {
    let node = Node::without_agent();
    node.append("config.yaml", "seccompDefault: true\n");
    node.start_agent();
    let pod = node.pod("unsaid", UNSAID);
    assert_eq!((filter(&node, &pod, "unsaid"), filter(&node, &pod, "none")), ("given", "none"));
}

/// Each is the node's where the pod asks for it, and only then. With the node's network goes its name.
pub(crate) fn host_namespaces(node: &Node) {
    let of_node = |kind: &str| {
        let link = std::fs::read_link(format!("/proc/{}/ns/{kind}", node.env("HOLDER"))).expect("the node's process");
        link.to_string_lossy().into_owned()
    };
    let cases = [
        ("ns-none", "hostPID: false", &[][..]),
        ("ns-pid", "hostPID: true", &["pid"]),
        ("ns-ipc", "hostIPC: true", &["ipc"]),
        ("ns-net", "hostNetwork: true", &["net", "uts"]),
    ];
    let pods = cases.map(|(name, field, shared)| {
        let main = "{name: main, image: busybox, command: [sleep, '1000']}";
        let spec = format!("\n  {field}\n  terminationGracePeriodSeconds: 1\n  containers:\n  - {main}");
        (node.pod(name, &spec), field, shared)
    });
    for (pod, field, shared) in &pods {
        let process = pod.process("main");
        for kind in ["pid", "ipc", "net", "uts"] {
            assert_eq!(process.namespace(kind) == of_node(kind), shared.contains(&kind), "{field}: {kind}");
        }
    }
    let of_test = format!("/proc/{}", std::process::id());
    let sees = |pod: &Pod<'_>| pod.exec("main", &["test", "-d", &of_test]).code == 0;
    assert!(sees(&pods[1].0) && !sees(&pods[0].0), "processes of the node");
}
