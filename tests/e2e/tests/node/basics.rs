//! What a pod is made of.

use polylet_e2e::{Node, Pod, View};

const BASICS: &str = "
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: given, hostPath: {path: DIR/given, type: DirectoryOrCreate}}
  containers:
  - name: main
    image: busybox
    command: [sh, -c, 'echo to stdout; echo to stderr >&2; trap \"exit 0\" TERM; sleep 1000 & wait']
    env:
    - {name: GREETING, value: hello}
    - {name: SENTENCE, value: '$(GREETING) $(NOBODY)'}
    - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: LIMIT, valueFrom: {resourceFieldRef: {resource: limits.memory}}}
    volumeMounts:
    - {name: scratch, mountPath: /scratch}
    - {name: given, mountPath: /given, readOnly: true}
    resources:
      requests: {cpu: 50m, memory: 16Mi}
      limits: {cpu: 100m, memory: 32Mi}
";

pub(crate) fn a_pod_is_what_its_manifest_says(node: &Node) {
    let pod = node.pod("basics", &BASICS.replace("DIR", &node.dir().to_string_lossy()));
    let view = pod.until_ready();
    status_is_whole(node, &view);
    runtime_has_the_kubelets_labels(node, &view);
    logs_are_where_the_kubelet_has_them(node, &pod, &view);
    inside_it_is_as_declared(node, &pod, &view);
    cgroups_hold_it(node, &pod, &view);
}

fn status_is_whole(node: &Node, view: &View) {
    assert_eq!(view.phase(), "Running");
    for kind in ["PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"] {
        assert!(view.is(kind), "{kind}: {}", view.condition(kind));
    }
    let status = view.status();
    assert_eq!(status["qosClass"], "Burstable");
    assert_eq!(status["hostIP"], node.env("NODE_IP"));
    assert!(view.ip().starts_with("10.244.0."), "{}", view.ip());
    assert_eq!(status["podIPs"][0]["ip"], view.ip());
    assert!(status["startTime"].is_string());
    let main = view.container("main");
    assert_eq!(main["image"], "polylet.local/busybox:1");
    assert!(main["imageID"].as_str().is_some_and(|id| id.contains("sha256:")), "{main}");
    assert_eq!((&main["ready"], &main["started"], &main["restartCount"]), (&true.into(), &true.into(), &0.into()));
    assert!(main["state"]["running"]["startedAt"].is_string(), "{main}");
}

fn runtime_has_the_kubelets_labels(node: &Node, view: &View) {
    let (uid, name) = (view.uid(), "basics-e2e");
    let sandboxes = node.sandboxes_of(uid);
    assert_eq!(sandboxes.len(), 1);
    let owner = [("io.kubernetes.pod.name", name), ("io.kubernetes.pod.namespace", "default"), ("io.kubernetes.pod.uid", uid)];
    for (label, value) in owner.into_iter().chain([("from", "e2e")]) {
        assert_eq!(sandboxes[0].labels.get(label).map(String::as_str), Some(value), "sandbox: {label}");
    }
    for (annotation, value) in [("example.com/note", "kept"), ("kubernetes.io/config.source", "file")] {
        assert_eq!(sandboxes[0].annotations.get(annotation).map(String::as_str), Some(value), "sandbox: {annotation}");
    }
    let containers = node.containers_of(uid);
    assert_eq!(containers.len(), 1);
    for (label, value) in owner.into_iter().chain([("io.kubernetes.container.name", "main")]) {
        assert_eq!(containers[0].labels.get(label).map(String::as_str), Some(value), "container: {label}");
    }
    let hash = hash("main", "polylet.local/busybox:1");
    for (annotation, value) in [
        ("io.kubernetes.container.hash", hash.as_str()),
        ("io.kubernetes.container.restartCount", "0"),
        ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
        ("io.kubernetes.container.terminationMessagePolicy", "File"),
        ("io.kubernetes.pod.terminationGracePeriod", "30"),
    ] {
        assert_eq!(containers[0].annotations.get(annotation).map(String::as_str), Some(value), "container: {annotation}");
    }
}

/// FNV-1a over how Go prints the bytes of the JSON: by it the kubelet knows its containers.
pub(crate) fn hash(name: &str, image: &str) -> String {
    let json = format!(r#"{{"image":"{image}","name":"{name}"}}"#);
    let bytes: Vec<String> = json.bytes().map(|byte| byte.to_string()).collect();
    let printed = format!("([]uint8)[{}]", bytes.join(" "));
    let hash = printed.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:x}")
}

fn logs_are_where_the_kubelet_has_them(node: &Node, pod: &Pod<'_>, view: &View) {
    let file = node.dir().join(format!("logs/pods/default_basics-e2e_{}/main/0.log", view.uid()));
    let lines = node.until("both lines are logged", || {
        let text = std::fs::read_to_string(&file).ok()?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        (lines.len() == 2).then_some(lines)
    });
    assert!(lines.iter().any(|line| line.ends_with(" stdout F to stdout")), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with(" stderr F to stderr")), "{lines:?}");
    let link = format!(
        "/proc/{}/root/var/log/containers/basics-e2e_default_main-{}.log",
        node.env("HOLDER"),
        pod.until_runs("main").id("main")
    );
    let target = std::fs::read_link(&link).unwrap_or_else(|error| panic!("{link}: {error}"));
    assert_eq!(target, file);
}

fn inside_it_is_as_declared(node: &Node, pod: &Pod<'_>, view: &View) {
    let inside = |script: &str| pod.exec_ok("main", &["sh", "-c", script]).trim_end().to_owned();
    assert_eq!(inside("echo $SENTENCE"), "hello $(NOBODY)");
    assert_eq!(inside("echo $POD $LIMIT"), format!("basics-e2e {}", 32 << 20));
    assert_eq!(inside("hostname"), "basics-e2e");
    let hosts = inside("cat /etc/hosts");
    assert!(hosts.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"), "{hosts}");
    assert!(hosts.contains(&format!("\n{}\tbasics-e2e", view.ip())), "{hosts}");

    inside("echo kept >/scratch/file");
    let scratch = node.dir().join(format!("kubelet/pods/{}/volumes/kubernetes.io~empty-dir/scratch/file", view.uid()));
    assert_eq!(std::fs::read_to_string(scratch).expect("the emptyDir's file"), "kept\n");
    std::fs::write(node.dir().join("given/file"), "from outside\n").expect("write below the hostPath");
    assert_eq!(inside("cat /given/file"), "from outside");
    let refused = pod.exec("main", &["touch", "/given/another"]);
    assert!(refused.code != 0 && refused.output.contains("Read-only file system"), "{refused:?}");
}

fn cgroups_hold_it(node: &Node, pod: &Pod<'_>, view: &View) {
    let of_pod = node.pod_cgroup("burstable", view.uid());
    let of_container = pod.process("main").cgroup();
    assert_eq!(of_container.path(), format!("{}/{}", of_pod.path(), view.id("main")));
    for (whose, cgroup) in [("the container's", &of_container), ("the pod's", &of_pod)] {
        assert_eq!(cgroup.memory_limit(), Some(32 << 20), "{whose} memory");
        assert_eq!(cgroup.cpu_limit(), Some(100), "{whose} quota");
    }
    assert!(of_pod.has_shares(51) && of_container.has_shares_by_runtime(51));
}

pub(crate) fn host_network(node: &Node) {
    let pod = node.pod(
        "hostnet",
        "
  hostNetwork: true
  containers:
  - {name: main, image: busybox, command: [sleep, '1000']}
  terminationGracePeriodSeconds: 1",
    );
    let view = pod.until_ready();
    assert_eq!(view.ip(), node.env("NODE_IP"));
    let network = std::fs::read_link(node.env("NETNS")).expect("the node's network");
    assert_eq!(pod.process("main").namespace("net"), network.to_string_lossy());
    let hosts = pod.exec_ok("main", &["cat", "/etc/hosts"]);
    assert!(hosts.starts_with("# Kubernetes-managed hosts file (host network).\n"), "{hosts}");
}

pub(crate) fn shared_process_namespace(node: &Node) {
    let two = |share: bool| {
        format!(
            "
  shareProcessNamespace: {share}
  terminationGracePeriodSeconds: 1
  containers:
  - {{name: one, image: busybox, command: [sleep, '1001']}}
  - {{name: two, image: busybox, command: [sleep, '1002']}}"
        )
    };
    let (shared, apart) = (node.pod("together", &two(true)), node.pod("apart", &two(false)));
    shared.until_ready();
    assert_eq!(shared.process("one").namespace("pid"), shared.process("two").namespace("pid"));
    let seen = shared.exec_ok("one", &["ps"]);
    assert!(["sleep 1001", "sleep 1002", "/pause"].iter().all(|process| seen.contains(process)), "{seen}");
    apart.until_ready();
    assert_ne!(apart.process("one").namespace("pid"), apart.process("two").namespace("pid"));
    let seen = apart.exec_ok("one", &["ps"]);
    assert!(seen.contains("sleep 1001") && !seen.contains("sleep 1002"), "{seen}");
}

pub(crate) fn termination_messages(node: &Node) {
    let pod = node.pod(
        "messages",
        "
  restartPolicy: Never
  containers:
  - {name: file, image: busybox, command: [sh, -c, 'echo out of luck >/dev/termination-log; exit 1']}
  - {name: own-file, image: busybox, terminationMessagePath: /tmp/last, command: [sh, -c, 'echo elsewhere >/tmp/last; exit 1']}
  - {name: log, image: busybox, terminationMessagePolicy: FallbackToLogsOnError, command: [sh, -c, 'echo last words; exit 1']}
  - {name: quiet, image: busybox, terminationMessagePolicy: FallbackToLogsOnError, command: [sh, -c, 'echo all is well']}",
    );
    pod.until("it has failed", |view| view.phase() == "Failed");
    // The files go with the pod's directory, and what they said stays.
    let view = pod.until("it has been cleaned up", |view| view.life() == "finished");
    let message = |container| view.ended(container)["message"].as_str().unwrap_or_default();
    assert_eq!(message("file"), "out of luck\n");
    assert_eq!(message("own-file"), "elsewhere\n");
    assert!(message("log").contains("last words"), "{}", message("log"));
    assert_eq!(message("quiet"), "");
    assert_eq!((&view.ended("quiet")["reason"], &view.ended("file")["reason"]), (&"Completed".into(), &"Error".into()));
}

pub(crate) fn broken_manifests_stand_beside_good_ones(node: &Node) {
    let pod = |field: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: broken}}\nspec:\n  containers:\n  - {{name: main, image: x, {field}}}\n"
        )
    };
    let broken = [
        ("broken-value.yaml", pod("imagePullPolicy: Sometimes"), "spec.containers[0].imagePullPolicy"),
        ("broken-type.yaml", pod("command: sleep"), "spec.containers[0].command"),
        ("broken-unknown.yaml", pod("imagePullPolice: Never"), "spec.containers[0].imagePullPolice"),
        ("broken-text.yaml", "apiVersion: v1\nkind: [Pod\n".to_owned(), "broken-text.yaml"),
    ];
    for (file, text, _) in &broken {
        node.write_manifest(file, text);
    }
    let good = node.pod(
        "beside-broken",
        "\n  terminationGracePeriodSeconds: 1\n  containers:\n  - {name: main, image: busybox, command: [sleep, '1000']}",
    );
    good.until_ready();
    for (file, _, field) in &broken {
        node.until_true(&format!("the agent names {file} and {field}"), || {
            node.log().lines().any(|line| line.contains("ERROR") && line.contains(file) && line.contains(field))
        });
        node.remove_manifest(file);
    }
    assert!(node.views().iter().all(|view| view.name() != "broken-e2e"));
}
