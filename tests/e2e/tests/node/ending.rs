//! How pods end.

use std::time::{Duration, Instant};

use polylet_e2e::{Node, Pod, View, cri};
use rustix::process::Signal;

/// A pod whose container writes what happens to it into a directory of the node.
fn diary(node: &Node, name: &str) -> String {
    let path = node.dir().join(format!("diary-{name}"));
    format!("  - {{name: diary, hostPath: {{path: {}, type: DirectoryOrCreate}}}}", path.display())
}

fn written(node: &Node, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(node.dir().join(format!("diary-{name}/diary"))).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

pub(crate) fn grace_is_given_and_hooks_run_first(node: &Node) {
    let spec = format!(
        "
  terminationGracePeriodSeconds: 60
  volumes:
{}
  containers:
  - name: main
    image: busybox
    command: [sh, -c]
    args:
    - |
      trap 'echo term >>/diary/diary; sleep 1; echo bye >>/diary/diary; exit 0' TERM
      echo up >>/diary/diary
      sleep 1000 & wait
    volumeMounts: [{{name: diary, mountPath: /diary}}]
    lifecycle:
      preStop:
        exec: {{command: [sh, -c, 'echo before >>/diary/diary; sleep 4; echo done >>/diary/diary']}}
    readinessProbe: {{exec: {{command: ['true']}}, periodSeconds: 1}}",
        diary(node, "polite")
    );
    let pod = node.pod("polite", &spec);
    pod.until_ready();
    node.until_true("it is up", || written(node, "polite") == ["up"]);
    let began = Instant::now();
    pod.remove();
    pod.until_gone();
    assert_eq!(written(node, "polite"), ["up", "before", "done", "term", "bye"]);
    assert!(began.elapsed() < Duration::from_secs(60), "it did not take the whole grace: {:?}", began.elapsed());
}

pub(crate) fn hooks_by_http_and_sleep(node: &Node) {
    let spec = format!(
        "
  terminationGracePeriodSeconds: 60
  volumes:
{}
  containers:
  - name: main
    image: busybox
    command: [sh, -c]
    args:
    - |
      trap 'sleep 1; echo term >>/diary/diary; exit 0' TERM
      mkdir -p /www/cgi-bin
      printf '#!/bin/sh\\necho $REQUEST_METHOD $REQUEST_URI >>/diary/diary; echo; echo' >/www/cgi-bin/bye
      chmod +x /www/cgi-bin/bye
      httpd -f -p 7070 -h /www &
      wait
    volumeMounts: [{{name: diary, mountPath: /diary}}]
    lifecycle: {{postStart: {{sleep: {{seconds: 1}}}}, preStop: {{httpGet: {{path: /cgi-bin/bye, port: 7070}}}}}}
    readinessProbe: {{exec: {{command: [sh, -c, 'netstat -ltn | grep -q :7070']}}, periodSeconds: 1}}
  - name: slow
    image: busybox
    command: [sh, -c, 'trap \"touch /diary/slow; exit 0\" TERM; sleep 1000 & wait']
    volumeMounts: [{{name: diary, mountPath: /diary}}]
    lifecycle: {{preStop: {{sleep: {{seconds: 3}}}}}}",
        diary(node, "hooks")
    );
    let pod = node.pod("hooks", &spec);
    pod.until_ready();
    let began = Instant::now();
    pod.remove();
    let slow = node.dir().join("diary-hooks/slow");
    node.until_true("the one that sleeps is told", || slow.exists());
    assert!(began.elapsed() >= Duration::from_secs(3), "its hook took {:?}", began.elapsed());
    pod.until_gone();
    assert_eq!(written(node, "hooks"), ["GET /cgi-bin/bye", "term"]);
}

pub(crate) fn grace_ends(node: &Node) {
    let spec = format!(
        "
  terminationGracePeriodSeconds: 20
  volumes:
{}
  containers:
  - name: main
    image: busybox
    command: [sh, -c, 'trap \"echo heard >>/diary/diary\" TERM; echo up >>/diary/diary; while :; do sleep 0.1; done']
    volumeMounts: [{{name: diary, mountPath: /diary}}]",
        diary(node, "stubborn")
    );
    let pod = node.pod("stubborn", &spec);
    let process = pod.process("main");
    // A first process that does not yet listen for TERM never hears it.
    node.until_true("it is up", || written(node, "stubborn") == ["up"]);
    let began = Instant::now();
    pod.remove();
    // TERM comes at once, KILL after the grace.
    node.until_true("TERM is heard", || written(node, "stubborn").contains(&"heard".to_owned()));
    assert!(began.elapsed() < Duration::from_secs(19), "{:?}", began.elapsed());
    node.until_true("the process is killed", || !std::path::Path::new(&format!("/proc/{}", process.pid)).exists());
    let lived = began.elapsed();
    assert!(lived >= Duration::from_millis(19_500), "it lived {lived:?} of its 20 s of grace");
    pod.until_gone();
}

/// Lines of the node's mounts that have this in them.
fn mounts(node: &Node, text: &str) -> Vec<String> {
    let all = std::fs::read_to_string(format!("/proc/{}/mountinfo", node.env("HOLDER"))).expect("the node's mounts");
    all.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

/// Links to the logs of a pod's containers.
fn links(node: &Node, pod: &Pod<'_>) -> usize {
    let dir = format!("/proc/{}/root/var/log/containers", node.env("HOLDER"));
    let names = std::fs::read_dir(dir).expect("the node's links to logs").flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with(&format!("{}_default_", pod.name()))).count()
}

pub(crate) fn removed_means_gone(node: &Node) {
    let pod = node.pod(
        "removed",
        "
  terminationGracePeriodSeconds: 1
  volumes: [{name: scratch, emptyDir: {}}, {name: memory, emptyDir: {medium: Memory}}]
  containers:
  - {name: one, image: busybox, command: [sleep, '1000'], volumeMounts: [{name: scratch, mountPath: /scratch}]}
  - {name: two, image: busybox, command: [sleep, '1000'], volumeMounts: [{name: memory, mountPath: /memory}]}",
    );
    let view = pod.until_ready();
    let uid = view.uid();
    let directory = node.dir().join(format!("kubelet/pods/{uid}"));
    let address = node.dir().join(format!("cni/ipam/polylet/{}", view.ip()));
    let cgroup = node.pod_cgroup("besteffort", uid);
    let logs = node.dir().join(format!("logs/pods/default_removed-e2e_{uid}"));
    assert!(directory.is_dir() && address.is_file() && cgroup.exists() && logs.is_dir(), "{directory:?} {address:?} {cgroup:?}");
    assert_eq!((node.containers_of(uid).len(), node.sandboxes_of(uid).len()), (2, 1));
    let sandbox = pod.sandbox();
    let mut namespaces = sandbox.spec["linux"]["namespaces"].as_array().into_iter().flatten();
    let network = namespaces.find(|namespace| namespace["type"] == "network").expect("a network of its own");
    let network = network["path"].as_str().expect("a file").to_owned();
    let named = || node.inside(&["test", "-e", &network]).status.success();
    // The kernel may give its number to another one soon, but not at the same place.
    let inode = sandbox.namespace("net");
    let held = mounts(node, &inode);
    assert!(named() && !held.is_empty() && !mounts(node, uid).is_empty(), "{network} {held:?}");
    assert_eq!(links(node, &pod), 2);
    pod.remove();
    pod.until_gone();
    node.until_true("its containers are removed", || node.containers_of(uid).is_empty());
    node.until_true("its sandbox is removed", || node.sandboxes_of(uid).is_empty());
    node.until_true("its cgroup is removed", || !cgroup.exists());
    node.until_true("its directory is removed", || !directory.exists());
    node.until_true("its logs are removed", || !logs.exists());
    node.until_true("its address is given back", || !address.exists());
    node.until_true("nothing of it is mounted", || mounts(node, uid).is_empty());
    node.until_true("its network is named nowhere", || !named());
    node.until_true("its network is held nowhere", || mounts(node, &inode).iter().all(|line| !held.contains(line)));
    node.until_true("no link leads to its logs", || links(node, &pod) == 0);
}

/// Where no dead container is to be kept, such as tell whether to start another one are.
pub(crate) fn no_dead_container_is_kept() {
    let flags = ["--maximum-dead-containers-per-container=0"];
    let node = Node::without_agent();
    node.start_agent_with(&flags);
    let done = node
        .pod("done", "\n  restartPolicy: Never\n  containers:\n  - {name: main, image: busybox, command: [sh, -c, 'echo done']}");
    let crasher = node.pod(
        "crasher",
        "\n  terminationGracePeriodSeconds: 1\n  containers:\n  - {name: main, image: busybox, command: ['false']}",
    );
    let over = done.until("it is over", |view| view.life() == "finished");
    let uid = over.uid();
    let log = node.dir().join(format!("logs/pods/default_done-e2e_{uid}/main/0.log"));
    assert!(log.is_file() && links(&node, &done) == 1);
    // They are counted once a minute.
    node.until_true("its container is removed", || node.containers_of(uid).is_empty());
    node.until_true("its log goes with it", || !log.exists() && links(&node, &done) == 0);
    assert_eq!(node.sandboxes_of(uid).len(), 1, "the newest sandbox stays");
    let tells = |view: &View| {
        let ended = view.ended("main");
        (view.phase().to_owned(), ended["reason"].clone(), ended["exitCode"].clone(), view.restarts("main"))
    };
    let view = done.until("it is still known", |_| true);
    assert_eq!(tells(&view), ("Succeeded".to_owned(), "Completed".into(), 0.into(), 0));

    let dead = |view: &View| {
        let all = node.containers_of(view.uid()).into_iter().filter(|c| c.state() == cri::ContainerState::ContainerExited);
        all.filter_map(|c| c.metadata).map(|metadata| u64::from(metadata.attempt)).collect::<Vec<_>>()
    };
    crasher.until("it waits, ever longer, and what it waits for is kept", |view| {
        let grows = view.beside("main")["restartDelay"].as_u64() >= Some(20_000);
        view.waits("main") == "CrashLoopBackOff" && grows && dead(view) == [view.restarts("main")]
    });

    node.end_agent(Signal::TERM);
    node.start_agent_with(&flags);
    let view = done.until("it is over still", |view| view.phase() == "Succeeded");
    assert_eq!((view.uid(), node.containers_of(uid).len()), (uid, 0), "it is not started again");
}

pub(crate) fn changed_means_replaced(node: &Node) {
    let spec = |word: &str| {
        format!(
            "
  terminationGracePeriodSeconds: 1
  containers:
  - {{name: main, image: busybox, command: [sh, -c, 'echo {word}; sleep 1000']}}"
        )
    };
    let pod = node.pod("changed", &spec("first"));
    let before = pod.until_ready();
    pod.change(&spec("second"));
    let after = pod.until("another is ready", |view| view.is_ready() && view.uid() != before.uid());
    node.until_true("the new one speaks", || pod.printed(after.uid(), "main", 0) == ["second"]);
    assert_eq!(after.restarts("main"), 0);
    node.until_true("nothing is left of the old one", || {
        node.containers_of(before.uid()).is_empty() && node.sandboxes_of(before.uid()).is_empty()
    });
}

pub(crate) fn deadline(node: &Node) {
    let pod = node.pod(
        "deadline",
        "
  activeDeadlineSeconds: 15
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: busybox, command: [sleep, '1000']}",
    );
    let process = pod.process("main");
    let view = pod.until("it has failed", |view| view.phase() == "Failed");
    assert_eq!(view.status()["reason"], "DeadlineExceeded");
    assert_eq!(view.status()["message"], "Pod was active on the node longer than the specified deadline");
    node.until_true("its process is gone", || !std::path::Path::new(&format!("/proc/{}", process.pid)).exists());
    let view = pod.until("it shows the end", |view| view.ended("main").is_object());
    assert_eq!(view.restarts("main"), 0);
    assert!(!view.is_ready(), "{}", view.condition("Ready"));
}
