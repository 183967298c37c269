//! A node that a kubelet ran before: what it began runs on, as long as it is what the manifests declare; and so it does when the kubelet
//! comes back.

use std::collections::BTreeMap;

use polylet_e2e::{Node, cri};
use rustix::process::Signal;

/// UIDs as a kubelet makes them, of two pods.
const KEPT: &str = "5f3d1a0c9b7e42688d24f1e6a9c0b357";
const OLD: &str = "c81b06d24e9f4a7d93a5e2170fb68d4c";

const SPEC: &str = "
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: busybox, command: [sleep, '1000']}";

/// A static pod as a kubelet leaves it, whose container was restarted twice; the container's id.
fn began(node: &Node, name: &str, uid: &str, image: &str) -> String {
    let pod = format!("{name}-e2e");
    let logs = node.dir().join(format!("logs/pods/default_{pod}_{uid}"));
    std::fs::create_dir_all(logs.join("main")).expect("make the log directory");
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let owner =
        [("io.kubernetes.pod.name", pod.as_str()), ("io.kubernetes.pod.namespace", "default"), ("io.kubernetes.pod.uid", uid)];
    let namespaces = cri::NamespaceOption { pid: cri::NamespaceMode::Container as i32, ..Default::default() };
    let sandbox_config = cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: pod.clone(),
            uid: uid.to_owned(),
            namespace: "default".to_owned(),
            attempt: 0,
        }),
        hostname: pod.clone(),
        log_directory: logs.to_string_lossy().into_owned(),
        labels: map(&[&owner[..], &[("from", "e2e")]].concat()),
        annotations: map(&[
            ("example.com/note", "kept"),
            ("kubernetes.io/config.hash", uid),
            ("kubernetes.io/config.seen", "2026-01-02T03:04:05.678901234Z"),
            ("kubernetes.io/config.source", "file"),
        ]),
        linux: Some(cri::LinuxPodSandboxConfig {
            cgroup_parent: node.pod_cgroup("besteffort", uid).path().to_owned(),
            security_context: Some(cri::LinuxSandboxSecurityContext {
                namespace_options: Some(namespaces.clone()),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    let sandbox = node.run_sandbox(sandbox_config.clone());
    let config = cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: "main".to_owned(), attempt: 2 }),
        image: Some(cri::ImageSpec { image: image.to_owned(), user_specified_image: image.to_owned(), ..Default::default() }),
        command: vec!["sleep".to_owned(), "1000".to_owned()],
        log_path: "main/2.log".to_owned(),
        labels: map(&[&owner[..], &[("io.kubernetes.container.name", "main")]].concat()),
        annotations: map(&[
            ("io.kubernetes.container.hash", &crate::basics::hash("main", image)),
            ("io.kubernetes.container.restartCount", "2"),
            ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
            ("io.kubernetes.container.terminationMessagePolicy", "File"),
            ("io.kubernetes.pod.terminationGracePeriod", "1"),
        ]),
        linux: Some(cri::LinuxContainerConfig {
            security_context: Some(cri::LinuxContainerSecurityContext {
                namespace_options: Some(namespaces),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    node.run_container(&sandbox, config, sandbox_config)
}

pub(crate) fn static_pods_of_a_kubelet_run_on() {
    let node = Node::without_agent();
    let kept = began(&node, "same", KEPT, "polylet.local/busybox:1");
    let old = began(&node, "other", OLD, "polylet.local/busybox:1-user");
    let (same, other) = (node.pod("same", SPEC), node.pod("other", SPEC));
    let of_kept = || picture(&node).remove(&kept);
    let before = of_kept();
    node.start_agent();
    let ready = same.until_ready();
    assert_eq!((ready.uid(), ready.id("main"), ready.restarts("main")), (KEPT, kept.as_str(), 2), "{}", ready.pretty());
    let replaced = other.until("another is ready", |view| view.is_ready() && view.uid() != OLD);
    assert_ne!(replaced.id("main"), old);
    node.until_true("nothing is left of what was another image", || node.containers_of(OLD).is_empty());
    let told = |pod: &polylet_e2e::Pod<'_>, uid: &str, what: &str| {
        pod.said().iter().filter(|line| line.contains(what) && line.contains(uid)).count()
    };
    assert_eq!((told(&same, KEPT, "adopted"), told(&other, OLD, "is replaced")), (1, 1), "{:?}{:?}", same.said(), other.said());

    node.end_agent(Signal::KILL);
    node.start_agent();
    for (pod, before) in [(&same, &ready), (&other, &replaced)] {
        let view = pod.until_ready();
        assert_eq!(view.picture(), before.picture());
    }
    assert_eq!(node.containers_of(KEPT).len(), 1);

    // Handed back: what a kubelet knows its pod by is as it was, and its process runs.
    node.end_agent(Signal::TERM);
    assert!(before.is_some() && of_kept() == before, "{before:?} {:?}", of_kept());
    let (sandboxes, containers) = (node.sandboxes_of(KEPT), node.containers_of(KEPT));
    assert_eq!((sandboxes.len(), containers.len()), (1, 1));
    assert_eq!(sandboxes[0].state(), cri::PodSandboxState::SandboxReady);
    assert!(node.pod_cgroup("besteffort", KEPT).exists());
    assert!(node.dir().join(format!("logs/pods/default_same-e2e_{KEPT}/main")).is_dir());
    node.start_agent();
    same.until_ready();
    assert_eq!(of_kept(), before);
    assert_eq!(told(&same, KEPT, "adopted"), 1, "adopted once, and remembered: {:?}", same.said());

    same.change(&SPEC.replace("1000", "2000"));
    let changed = same.until("another is ready", |view| view.is_ready() && view.uid() != KEPT);
    assert_ne!(changed.id("main"), kept);
    node.until_true("nothing is left of what the kubelet began", || {
        node.containers_of(KEPT).is_empty() && !node.pod_cgroup("besteffort", KEPT).exists()
    });
}

const WEB: &str = "
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [httpd, -f, -p, '8080', -h, /etc]
    ports: [{containerPort: 8080, name: http}]
    env: [{name: WHO, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: AGAIN, value: $(WHO)}]
    readinessProbe: {httpGet: {path: /hostname, port: http}, periodSeconds: 1}
    livenessProbe: {tcpSocket: {port: http}, periodSeconds: 1}
    lifecycle: {preStop: {exec: {command: ['true']}}}
    resources: {limits: {cpu: 200m, memory: 64Mi}}";

const SIDE: &str = "
  terminationGracePeriodSeconds: 1
  volumes: [{name: shared, emptyDir: {medium: Memory}}]
  initContainers:
  - {name: first, image: busybox, command: [touch, /shared/begun], volumeMounts: [{name: shared, mountPath: /shared}]}
  - {name: proxy, image: busybox, command: [sleep, '1000'], restartPolicy: Always}
  containers:
  - {name: main, image: busybox, command: [sleep, '1000'], volumeMounts: [{name: shared, mountPath: /shared}]}";

const AGAIN: &str = "
  terminationGracePeriodSeconds: 1
  volumes: [{name: once, emptyDir: {}}]
  containers:
  - {name: main, image: busybox, command: [sh, -c, 'test -e /once/was || { touch /once/was; exit 3; }; sleep 1000'],
     volumeMounts: [{name: once, mountPath: /once}]}";

const JOB: &str = "
  restartPolicy: Never
  containers:
  - {name: main, image: busybox, command: [sh, -c, 'echo done']}";

/// Every container by its id: whose it is, and its process where it runs.
fn picture(node: &Node) -> BTreeMap<String, (String, Option<u32>)> {
    let one = |container: cri::Container| {
        let label = |key: &str| container.labels.get(key).cloned().unwrap_or_default();
        let name = format!("{}/{}", label("io.kubernetes.pod.name"), label("io.kubernetes.container.name"));
        let runs = container.state() == cri::ContainerState::ContainerRunning;
        let process = runs.then(|| node.process(&container.id).pid);
        (container.id, (name, process))
    };
    node.containers().into_iter().map(one).collect()
}

pub(crate) fn from_a_kubelet_and_back() {
    let node = Node::without_agent();
    node.configure_for_a_kubelet();
    let pods = [("web", WEB), ("side", SIDE), ("again", AGAIN)].map(|(name, spec)| (name, node.pod(name, spec)));
    let job = node.pod("job", JOB);
    let mut kubelet = node.start_kubelet();
    let began = pods.each_ref().map(|(name, _)| {
        kubelet.until(name, "it is ready", |view| view.is_ready() && view.restarts("main") == u64::from(*name == "again"))
    });
    kubelet.until("job", "it has succeeded", |view| view.phase() == "Succeeded");
    let before = picture(&node);
    kubelet.end();

    node.start_agent();
    for ((name, pod), began) in pods.iter().zip(&began) {
        let view = pod.until_ready();
        let same = |view: &polylet_e2e::View| (view.uid().to_owned(), view.id("main").to_owned(), view.restarts("main"));
        assert_eq!(same(&view), same(began), "{name}: {}", view.pretty());
    }
    job.until("it has succeeded", |view| view.phase() == "Succeeded");
    assert_eq!(picture(&node), before);
    node.end_agent(Signal::TERM);
    assert_eq!(picture(&node), before);

    let mut kubelet = node.start_kubelet();
    for ((name, _), began) in pods.iter().zip(&began) {
        let same =
            |view: &polylet_e2e::View| view.id("main") == began.id("main") && view.restarts("main") == began.restarts("main");
        kubelet.until(name, "it is ready, and what it was", |view| view.is_ready() && same(view));
    }
    kubelet.until("job", "it has succeeded still", |view| view.phase() == "Succeeded");
    assert_eq!(picture(&node), before);
    kubelet.end();
}
