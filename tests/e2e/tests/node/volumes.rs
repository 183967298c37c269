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
  - {name: all, projected: {sources: [{downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}]}}
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
    assert_eq!(inside("stat -L -c '%a %g' /info/labels /all/name"), "440 2000\n644 2000");
    assert_ne!(pod.exec("main", &["touch", "/info/x"]).code, 0, "read-only");
    // The group of the pod may write where its user could not.
    assert_eq!(inside("echo x >/scratch/file; stat -c %g /scratch/file"), "2000");

    node.write_manifest("fields.yaml", &manifest("back"));
    node.until_true("the file shows the new label", || inside("cat /info/labels") == "tier=\"back\"");
    let now = pod.until_ready();
    assert_eq!((now.id("main"), now.restarts("main")), (before.id("main"), 0), "the container runs on");

    // Changed while nobody looked.
    node.end_agent(Signal::KILL);
    node.write_manifest("fields.yaml", &manifest("aside"));
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
