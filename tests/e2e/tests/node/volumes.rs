//! What containers see of volumes, and what they can do to them.

use polylet_e2e::{Node, View};
use rustix::process::{Pid, Signal, kill_process};

const PARTS: &str = "
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: data, emptyDir: {}}
  initContainers:
  - name: init
    image: busybox
    command: [sh, -c, 'mkdir -p /data/given /data/logs; echo given >/data/given/file; ln -s given /data/link']
    volumeMounts: [{name: data, mountPath: /data}]
  containers:
  - name: all
    image: busybox
    command: [sleep, '100000']
    volumeMounts: [{name: data, mountPath: /data}]
  - name: part
    image: busybox
    command: [sh, -c, 'trap \"exit 0\" TERM; sleep 100000 & wait']
    env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    volumeMounts:
    - {name: data, mountPath: /file, subPath: given/file, readOnly: true}
    - {name: data, mountPath: /link, subPath: link}
    - {name: data, mountPath: /mine, subPathExpr: logs/$(POD)/new}
";

pub(crate) fn parts_of_volumes(node: &Node) {
    let pod = node.pod("parts", PARTS);
    let view = pod.until_ready();
    let inside = |script: &str| pod.exec_ok("part", &["sh", "-c", script]).trim_end().to_owned();
    assert_eq!(inside("cat /file /link/file"), "given\ngiven");
    inside("echo mine >/mine/file");
    assert_eq!(pod.exec_ok("all", &["cat", "/data/logs/parts-e2e/new/file"]), "mine\n");
    assert_ne!(pod.exec("part", &["sh", "-c", "echo x >/file"]).code, 0, "read-only");

    // A tenant swaps a part for a link to the host's root, and its container ends: it must not come back with that.
    pod.exec_ok("all", &["sh", "-c", "rm /data/link; ln -s / /data/link"]);
    let process = pod.process("part");
    kill_process(Pid::from_raw(process.pid.cast_signed()).expect("a process"), Signal::KILL).expect("kill it");
    let view = pod.until("it is refused", |now| now.uid() == view.uid() && now.waits("part") == "CreateContainerConfigError");
    assert_eq!(view.wait_message("part"), "failed to prepare subPath for volumeMount \"data\" of container \"part\"");
    assert!(view.runs("all"));
    // Put right, it starts again by itself.
    pod.exec_ok("all", &["sh", "-c", "rm /data/link; ln -s given /data/link"]);
    pod.until("it runs again", |now| now.runs("part") && now.restarts("part") > 0);
    assert_eq!(inside("cat /link/file /mine/file"), "given\nmine");

    let dir = node.dir().join(format!("kubelet/pods/{}", view.uid()));
    assert!(dir.join("volume-subpaths/data/part/2").is_dir());
    pod.remove();
    pod.until_gone();
    assert!(!dir.exists());
}

const FIELDS: &str = "
  securityContext: {runAsUser: 1000, fsGroup: 2000}
  volumes:
  - name: info
    downwardAPI:
      defaultMode: 288
      items:
      - {path: labels, fieldRef: {fieldPath: metadata.labels}}
      - {path: deep/limit, resourceFieldRef: {containerName: main, resource: limits.memory, divisor: 1Mi}}
  - name: all
    projected:
      defaultUser: 1000
      sources:
      - downwardAPI:
          items:
          - {path: name, user: 0, fieldRef: {fieldPath: metadata.name}}
          - {path: labels, mode: 256, fieldRef: {fieldPath: metadata.labels}}
  - {name: scratch, emptyDir: {}}
  containers:
  - name: main
    image: busybox
    command: [sleep, '100000']
    resources: {limits: {memory: 32Mi, cpu: 100m}}
    volumeMounts: [{name: info, mountPath: /info}, {name: all, mountPath: /all}, {name: scratch, mountPath: /scratch}]
";

pub(crate) fn fields_in_files() {
    let node = &Node::up();
    let manifest = |tier: &str| {
        let spec = FIELDS.replace("image: busybox", "image: polylet.local/busybox:1");
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: fields, uid: uid-of-fields, labels: {{tier: {tier}}}}}\nspec:{spec}"
        )
    };
    let pod = node.pod_by_manifest("fields", &manifest("front"));
    let before = pod.until_ready();
    let inside = |script: &str| pod.exec_ok("main", &["sh", "-c", script]).trim_end().to_owned();
    assert_eq!(inside("cat /info/labels"), "tier=\"front\"");
    assert_eq!(inside("cat /info/deep/limit; echo; cat /all/name"), "32\nfields-e2e");
    assert_eq!(inside("readlink /info/labels"), "..data/labels");
    let modes = inside("stat -L -c '%a %u %g' /info/labels /all/name /all/labels");
    assert_eq!(modes, "440 0 2000\n644 0 2000\n440 1000 2000");
    assert_ne!(pod.exec("main", &["touch", "/info/x"]).code, 0, "read-only");
    // The group of the pod may write where its user could not.
    assert_eq!(inside("echo x >/scratch/file; stat -c %g /scratch/file"), "2000");

    node.write_manifest("fields.yaml", manifest("back"));
    for volume in ["info", "all"] {
        node.until_true("the file shows the new label", || inside(&format!("cat /{volume}/labels")) == "tier=\"back\"");
    }
    let now = pod.until_ready();
    assert_eq!((now.id("main"), now.restarts("main")), (before.id("main"), 0), "the container runs on");

    // Changed while nobody looked.
    node.end_agent(Signal::KILL);
    node.write_manifest("fields.yaml", manifest("aside"));
    node.start_agent();
    node.until_true("the file shows the newest label", || inside("cat /info/labels") == "tier=\"aside\"");
    assert_eq!(pod.until_ready().id("main"), before.id("main"));
}

pub(crate) fn variables_from_a_file(node: &Node) {
    let one = |name: &str, script: &str| {
        let spec = format!(
            "
  volumes: [{{name: out, emptyDir: {{}}}}]
  initContainers:
  - {{name: init, image: busybox, command: [sh, -c, \"{script}\"], volumeMounts: [{{name: out, mountPath: /out}}]}}
  containers:
  - name: main
    image: busybox
    command: [sh, -c, 'echo $HOST; sleep 100000']
    env: [{{name: HOST, valueFrom: {{fileKeyRef: {{volumeName: out, path: env, key: HOST}}}}}}]
    volumeMounts: [{{name: out, mountPath: /out}}]
"
        );
        node.pod(name, &spec)
    };
    let good = one("envfile", "echo \\\"# made here\\\" >/out/env; echo \\\"HOST='db.internal' # said\\\" >>/out/env");
    let bad = one("envfile-bad", "ln -s /etc/passwd /out/env");
    let fifo = one("envfile-fifo", "mkfifo /out/env");
    assert_eq!(good.exec_ok("main", &["sh", "-c", "echo $HOST"]), "db.internal\n");
    for pod in [&bad, &fifo] {
        let view = pod.until("it is refused", |view| view.waits("main") == "CreateContainerConfigError");
        assert_eq!(view.wait_message("main"), "couldn't parse env file");
    }
}

/// A pod has users of its own where the runtime says that it can do that; else it is told why not.
pub(crate) fn user_namespaces(node: &Node) {
    let spec = "\n  hostUsers: false\n  terminationGracePeriodSeconds: 1\n  containers:\n  - {name: main, image: busybox, command: [sleep, '100000']}";
    let pod = node.pod("users", spec);
    if node.log().contains("user namespaces count as unsupported") {
        pod.until_said("can't set `spec.hostUsers: false`, runtime does not support user namespaces");
        assert!(!pod.now().is_some_and(|view: View| view.runs("main")));
        return;
    }
    pod.until_runs("main");
    let map = pod.exec_ok("main", &["cat", "/proc/self/uid_map"]);
    let numbers: Vec<u64> = map.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    assert!(matches!(numbers[..], [0, first, 65_536] if first >= 65_536), "{map}");
}

/// An image is mounted where the runtime can do that; else the container is refused, and told why.
pub(crate) fn images_as_volumes(node: &Node) {
    let pod = node.pod(
        "imagevolume",
        "
  terminationGracePeriodSeconds: 1
  volumes: [{name: model, image: {reference: 'polylet.local/busybox:1', pullPolicy: IfNotPresent}}]
  containers:
  - name: main
    image: busybox
    command: [sleep, '100000']
    volumeMounts: [{name: model, mountPath: /model}, {name: model, mountPath: /part, subPath: bin}]",
    );
    if node.log().contains("containers that mount images are refused") {
        let view = pod.until("it is refused", |view| view.waits("main") == "CreateContainerConfigError");
        let why = "volume \"model\": images cannot be mounted: containerd has them from 2.1 on, and this is ";
        assert!(view.wait_message("main").starts_with(why), "{}", view.wait_message("main"));
        return;
    }
    pod.until_runs("main");
    pod.exec_ok("main", &["test", "-x", "/model/bin/busybox", "-a", "-x", "/part/busybox"]);
    let refused = pod.exec("main", &["touch", "/model/another"]);
    assert!(refused.code != 0 && refused.output.contains("Read-only file system"), "{refused:?}");
}

/// What stands behind a gate of upstream's, or wants the node's leave: the signal that ends a container, the mode of an emptyDir, a
/// kernel parameter of the pod's own.
pub(crate) fn behind_gates() {
    let node = Node::without_agent();
    node.append(
        "config.yaml",
        "featureGates: {ContainerStopSignals: true, EmptyDirVolumeMode: true}\nallowedUnsafeSysctls: [net.core.somaxconn]\n",
    );
    node.start_agent();
    let own = node.dir().join("own");
    let pod = node.pod(
        "gated",
        &format!(
            "
  os: {{name: linux}}
  terminationGracePeriodSeconds: 60
  securityContext:
    sysctls: [{{name: net.core.somaxconn, value: '777'}}, {{name: net.ipv4.ip_unprivileged_port_start, value: '80'}}]
  volumes:
  - {{name: scratch, emptyDir: {{mode: 1016}}}}
  - {{name: own, hostPath: {{path: {}, type: DirectoryOrCreate}}}}
  containers:
  - name: main
    image: busybox
    command: [sh, -c]
    args:
    - |
      trap 'echo USR1 >/own/heard; exit 0' USR1
      trap 'echo TERM >/own/heard; exit 0' TERM
      touch /own/up
      sleep 100000 & wait
    lifecycle: {{stopSignal: SIGUSR1}}
    volumeMounts: [{{name: scratch, mountPath: /scratch}}, {{name: own, mountPath: /own}}]",
            own.display()
        ),
    );
    pod.until_runs("main");
    let inside = |script: &str| pod.exec_ok("main", &["sh", "-c", script]).trim_end().to_owned();
    assert_eq!(inside("stat -c %a /scratch"), "1770");
    assert_eq!(inside("cat /proc/sys/net/core/somaxconn /proc/sys/net/ipv4/ip_unprivileged_port_start"), "777\n80");
    node.until_true("it listens for signals", || own.join("up").exists());
    // A runtime that knows of stop signals shows them; an older one sends TERM, and that is told.
    let shown = pod.until_ready().container("main")["stopSignal"].clone();
    let told = |_: &View| pod.said().iter().any(|line| line.contains("lifecycle.stopSignal: SIGUSR1")) == shown.is_null();
    pod.until("its stop signal is taken, or told to be passed over", told);
    pod.remove();
    pod.until_gone();
    let heard = std::fs::read_to_string(own.join("heard")).expect("a signal was heard");
    let expected = if shown.is_null() { "TERM" } else { "USR1" };
    assert!(shown.is_null() || shown == "SIGUSR1", "{shown}");
    assert_eq!(heard.trim_end(), expected);
}
