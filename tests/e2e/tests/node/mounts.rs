//! How volumes reach containers: mounts that travel, what may be written, and of what kind a path is.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use polylet_e2e::Node;

/// Mounts a file system in memory at a path of the node, which is made.
fn mount(node: &Node, path: &str) {
    std::fs::create_dir_all(path).expect("make a directory");
    let done = node.inside(&["mount", "-t", "tmpfs", "tmpfs", path]);
    assert!(done.status.success(), "{path}: {done:?}");
}

const SPREAD: &str = "
  terminationGracePeriodSeconds: 1
  volumes: [{name: spread, hostPath: {path: DIR/spread, type: DirectoryOrCreate}}]
  containers:
  - name: apart
    image: busybox
    command: [sleep, '1000']
    volumeMounts: [{name: spread, mountPath: /spread}]
  - name: follows
    image: busybox
    command: [sleep, '1000']
    volumeMounts: [{name: spread, mountPath: /spread, mountPropagation: HostToContainer}]
  - name: shares
    image: busybox
    command: [sleep, '1000']
    securityContext: {privileged: true}
    volumeMounts: [{name: spread, mountPath: /spread, mountPropagation: Bidirectional}]";

pub(crate) fn propagation(node: &Node) {
    let dir = node.dir().display().to_string();
    let pod = node.pod("spread", &SPREAD.replace("DIR", &dir));
    pod.until_ready();
    let sees = |container, file: &str| pod.exec(container, &["test", "-e", file]).code == 0;

    let late = format!("{dir}/spread/late");
    mount(node, &late);
    assert!(node.inside(&["touch", &format!("{late}/file")]).status.success());
    for (container, seen) in [("apart", false), ("follows", true), ("shares", true)] {
        assert_eq!(sees(container, "/spread/late/file"), seen, "{container}");
    }

    let script = "mkdir /spread/theirs && mount -t tmpfs tmpfs /spread/theirs && touch /spread/theirs/file";
    pod.exec_ok("shares", &["sh", "-c", script]);
    let theirs = format!("{dir}/spread/theirs");
    assert!(node.inside(&["test", "-e", &format!("{theirs}/file")]).status.success(), "the node sees it");
    for (container, seen) in [("apart", false), ("follows", true)] {
        assert_eq!(sees(container, "/spread/theirs/file"), seen, "{container}");
    }
    assert!(node.inside(&["umount", &late, &theirs]).status.success());
    assert!(!sees("follows", "/spread/late/file") && !sees("shares", "/spread/theirs/file"), "what is gone is gone for all");
}

const NESTED: &str = "
  terminationGracePeriodSeconds: 1
  volumes: [{name: nested, hostPath: {path: DIR/nested, type: Directory}}]
  containers:
  - name: plain
    image: busybox
    command: [sleep, '1000']
    volumeMounts: [{name: nested, mountPath: /nested, readOnly: true}]
  - name: perhaps
    image: busybox
    command: [sleep, '1000']
    volumeMounts: [{name: nested, mountPath: /nested, readOnly: true, recursiveReadOnly: IfPossible}]
  - name: surely
    image: busybox
    command: [sleep, '1000']
    volumeMounts: [{name: nested, mountPath: /nested, readOnly: true, recursiveReadOnly: Enabled}]";

/// What is mounted below a volume is read-only too where the runtime says that it can do that; else whoever insists is refused.
pub(crate) fn recursively_read_only(node: &Node) {
    let dir = node.dir().display().to_string();
    let inner = format!("{dir}/nested/inner");
    mount(node, &inner);
    let handlers = node.runtime_status().runtime_handlers;
    let of_default = handlers.iter().find(|handler| handler.name.is_empty()).and_then(|handler| handler.features);
    let can = of_default.is_some_and(|features| features.recursive_read_only_mounts);

    let pod = node.pod("nested", &NESTED.replace("DIR", &dir));
    let view = pod.until("it runs, or is refused", |view| {
        let surely = if can { view.runs("surely") } else { view.waits("surely") == "CreateContainerConfigError" };
        surely && view.runs("plain") && view.runs("perhaps")
    });
    if !can {
        let why = "failed to resolve recursive read-only mode: volume \"nested\" requested recursive read-only mode, but it is not \
                   supported by the runtime";
        assert_eq!(view.wait_message("surely"), why);
    }
    for (container, recursive) in [("plain", false), ("perhaps", can), ("surely", true)] {
        if !view.runs(container) {
            continue;
        }
        let told = &view.container(container)["volumeMounts"][0];
        assert_eq!(told["recursiveReadOnly"], if recursive { "Enabled" } else { "Disabled" }, "{container}: {told}");
        let writes = |file: &str| {
            let ran = pod.exec(container, &["touch", file]);
            assert!(ran.code == 0 || ran.output.contains("Read-only file system"), "{container}: {file}: {ran:?}");
            ran.code == 0
        };
        assert!(!writes("/nested/file"), "{container}");
        assert_eq!(writes("/nested/inner/file"), !recursive, "{container}");
    }
    pod.remove();
    pod.until_gone();
    assert!(node.inside(&["umount", &inner]).status.success());
}

const KINDS: &str = "
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: file, hostPath: {path: DIR/kinds/file, type: File}}
  - {name: made, hostPath: {path: DIR/kinds/made, type: FileOrCreate}}
  - {name: deep, hostPath: {path: DIR/kinds/deep/er, type: DirectoryOrCreate}}
  - {name: socket, hostPath: {path: DIR/kinds/socket, type: Socket}}
  - {name: device, hostPath: {path: /dev/null, type: CharDevice}}
  containers:
  - name: main
    image: busybox
    command: [sleep, '1000']
    volumeMounts:
    - {name: file, mountPath: /file}
    - {name: made, mountPath: /made}
    - {name: deep, mountPath: /deep}
    - {name: socket, mountPath: /socket}
    - {name: device, mountPath: /device}";

pub(crate) fn kinds_of_host_paths(node: &Node) {
    let dir = node.dir().join("kinds");
    std::fs::create_dir(&dir).expect("make a directory");
    std::fs::write(dir.join("file"), "from outside\n").expect("write a file");
    let _listener = UnixListener::bind(dir.join("socket")).expect("a socket");
    let pod = node.pod("kinds", &KINDS.replace("DIR", &node.dir().to_string_lossy()));

    let a_file = dir.join("file");
    let (a_file, a_dir) = (a_file.to_string_lossy(), dir.to_string_lossy());
    let absent = format!("{a_dir}/absent");
    let wrong = [
        ("Directory", &*a_file, "a directory"),
        ("DirectoryOrCreate", &*a_file, "a directory"),
        ("File", &*a_dir, "a file"),
        ("FileOrCreate", &*a_dir, "a file"),
        ("Socket", &*a_file, "a socket file"),
        ("CharDevice", &*a_file, "a character device"),
        ("BlockDevice", "/dev/null", "a block device"),
        ("File", &absent, "a file"),
    ];
    let wrong = wrong.map(|(kind, path, wanted)| {
        let spec = format!(
            "
  terminationGracePeriodSeconds: 1
  volumes: [{{name: it, hostPath: {{path: {path}, type: {kind}}}}}]
  containers:
  - {{name: main, image: busybox, command: [sleep, '1000'], volumeMounts: [{{name: it, mountPath: /it}}]}}"
        );
        let name = format!("kind-{}-{}", kind.to_lowercase(), path.rsplit('/').next().unwrap_or_default());
        (node.pod(&name, &spec), format!("hostPath type check failed: {path} is not {wanted}"))
    });

    pod.until_ready();
    assert_eq!(pod.exec_ok("main", &["cat", "/file"]), "from outside\n");
    pod.exec_ok("main", &["test", "-d", "/deep", "-a", "-S", "/socket", "-a", "-c", "/device"]);
    pod.exec_ok("main", &["sh", "-c", "echo from inside >/made; touch /deep/file"]);
    assert_eq!(std::fs::read_to_string(dir.join("made")).expect("the file that was made"), "from inside\n");
    assert!(dir.join("deep/er/file").is_file());
    for (path, mode) in [("made", 0o644), ("deep", 0o755), ("deep/er", 0o755)] {
        let found = std::fs::metadata(dir.join(path)).expect("what was made").permissions().mode();
        assert_eq!(found & 0o7777, mode, "{path}: {found:o}");
    }

    for (pod, why) in &wrong {
        let message = format!("MountVolume.SetUp failed for volume \"it\" : {why}");
        pod.until_said(&message);
        let line = pod.said().into_iter().find(|line| line.contains(&message)).expect("a line");
        assert!(line.contains("WARN") && line.contains("FailedMount"), "{line}");
        let view = pod.until("it waits", |view| view.phase() == "Pending");
        assert_eq!(view.waits("main"), "ContainerCreating");
        assert!(node.sandboxes_of(view.uid()).is_empty(), "nothing was made");
    }
    assert!(!std::path::Path::new(&absent).exists());
}

const IN_MEMORY: &str = "
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: own, emptyDir: {medium: Memory, sizeLimit: 4Mi}}
  - {name: pods, emptyDir: {medium: Memory}}
  - {name: disk, emptyDir: {}}
  containers:
  - name: main
    image: busybox
    command: [sleep, '1000']
    resources: {limits: {memory: 32Mi}}
    volumeMounts: [{name: own, mountPath: /own}, {name: pods, mountPath: /pods}, {name: disk, mountPath: /disk}]";

pub(crate) fn in_memory(node: &Node) {
    let pod = node.pod("memory", IN_MEMORY);
    let view = pod.until_ready();
    let inside = |script: &str| pod.exec_ok("main", &["sh", "-c", script]).trim_end().to_owned();
    let mounts = inside("cat /proc/mounts");
    let options = |point: &str| {
        let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        fields.into_iter().find(|fields| fields[1] == point).map(|fields| (fields[2].to_owned(), fields[3].to_owned()))
    };
    for (point, size) in [("/own", "size=4096k"), ("/pods", "size=32768k")] {
        let (kind, options) = options(point).unwrap_or_default();
        assert!(kind == "tmpfs" && options.split(',').any(|option| option == size), "{point}: {mounts}");
    }
    // The node's own directory may be in memory, too.
    assert!(!options("/disk").expect("a mount").1.contains("size="), "{mounts}");

    let filled = pod.exec("main", &["dd", "if=/dev/zero", "of=/own/file", "bs=1M", "count=8"]);
    assert!(filled.code != 0 && filled.output.contains("No space left on device"), "{filled:?}");
    assert_eq!(inside("stat -c %s /own/file; rm /own/file; stat -c %a /own"), format!("{}\n1777", 4 << 20));

    pod.remove();
    pod.until_gone();
    let mounts = node.inside(&["cat", "/proc/mounts"]).stdout;
    assert!(!String::from_utf8_lossy(&mounts).contains(view.uid()), "it is unmounted");
}
