//! What is started, in which order, and started again.

use std::time::{Duration, Instant};

use polylet_e2e::{Node, View, cri};
use rustix::process::{Pid, Signal, kill_process};

pub(crate) fn always_and_its_backoff(node: &Node) {
    let one = |code: u8| {
        format!(
            "\n  terminationGracePeriodSeconds: 1\n  containers:\n  - {{name: main, image: busybox, command: [sh, -c, 'exit {code}']}}"
        )
    };
    let (fails, succeeds) = (node.pod("always-fails", &one(3)), node.pod("always-succeeds", &one(0)));
    let backs_off = |view: &View, delay: &str| {
        let wanted = format!("back-off {delay} restarting failed container=main pod={}_default({})", view.name(), view.uid());
        view.waits("main") == "CrashLoopBackOff" && view.wait_message("main") == wanted
    };
    // While the next attempt is being made, the pod still says how long the wait for it was.
    let both_wait = |delay: &str, restarts: u64| {
        let mut seen: [Option<View>; 2] = [None, None];
        node.until_true(&format!("both have waited {delay}"), || {
            for (seen, pod) in seen.iter_mut().zip([&fails, &succeeds]) {
                let waits = |view: &View| backs_off(view, delay) && view.restarts("main") == restarts;
                *seen = seen.take().or_else(|| pod.now().filter(waits));
            }
            seen.iter().all(Option::is_some)
        });
        seen.into_iter().flatten()
    };
    // Restarted at once, then after 10 s, then after 20 s; success is no reason to be gentler.
    for (view, (code, reason)) in both_wait("10s", 1).zip([(3, "Error"), (0, "Completed")]) {
        assert_eq!((&view.last("main")["exitCode"], &view.last("main")["reason"]), (&code.into(), &reason.into()));
        assert_eq!((view.phase(), view.is_ready()), ("Running", false));
        assert_eq!(view.beside("main")["restartDelay"], 10_000);
    }
    for view in both_wait("20s", 2) {
        let newest =
            node.container(view.last("main")["containerID"].as_str().unwrap_or_default().trim_start_matches("containerd://"));
        assert_eq!(newest.metadata.map(|m| m.attempt), Some(2));
    }
}

/// The operator bounds the backoff, from the first wait on.
pub(crate) fn a_shorter_backoff() {
    let node = Node::without_agent();
    node.append("config.yaml", "crashLoopBackOff: {maxContainerRestartPeriod: 2s}\n");
    node.start_agent();
    let began = Instant::now();
    let pod = node.pod(
        "soon",
        "\n  terminationGracePeriodSeconds: 1\n  containers:\n  - {name: main, image: busybox, command: [sh, -c, 'exit 3']}",
    );
    let view = pod.until("it waits for the fourth time", |view| {
        let told = view.waits("main") == "CrashLoopBackOff" && view.restarts("main") >= 4;
        told && !view.beside("main")["restartDelay"].is_null()
    });
    assert!(began.elapsed() >= Duration::from_secs(6), "three waits took {:?}", began.elapsed());
    let wanted = format!("back-off 2s restarting failed container=main pod=soon-e2e_default({})", view.uid());
    assert_eq!((view.wait_message("main"), &view.beside("main")["restartDelay"]), (wanted.as_str(), &2_000.into()));
}

pub(crate) fn on_failure(node: &Node) {
    let one = |script: &str| {
        format!(
            "
  restartPolicy: OnFailure
  volumes: [{{name: scratch, emptyDir: {{}}}}]
  containers:
  - {{name: main, image: busybox, command: [sh, -c, '{script}'], volumeMounts: [{{name: scratch, mountPath: /scratch}}]}}"
        )
    };
    let second_time = node.pod("onfailure", &one("[ -e /scratch/tried ] || { touch /scratch/tried; exit 4; }"));
    let view = second_time.until("it has succeeded", |view| view.phase() == "Succeeded");
    assert_eq!(view.restarts("main"), 1);
    assert_eq!(view.ended("main")["exitCode"], 0);
    assert_eq!(view.last("main")["exitCode"], 4);
    assert_eq!((view.is_ready(), &view.condition("Ready")["reason"]), (false, &"PodCompleted".into()));
    assert_eq!(node.containers_of(view.uid()).iter().filter(|c| c.state() == cri::ContainerState::ContainerRunning).count(), 0);
}

pub(crate) fn never(node: &Node) {
    let one = |name: &str, code: u8| {
        let spec = format!(
            "
  restartPolicy: Never
  containers:
  - {{name: main, image: busybox, command: [sh, -c, 'exit {code}']}}
  - {{name: other, image: busybox, command: ['true']}}"
        );
        node.pod(name, &spec)
    };
    let (bad, good) = (one("never-bad", 5), one("never-good", 0));
    let view = bad.until("it has failed", |view| view.phase() == "Failed");
    assert_eq!((view.restarts("main"), &view.ended("main")["exitCode"]), (0, &5.into()));
    assert_eq!((&view.ended("main")["reason"], &view.condition("Ready")["reason"]), (&"Error".into(), &"PodFailed".into()));
    let view = good.until("it has succeeded", |view| view.phase() == "Succeeded");
    assert_eq!((view.restarts("main"), &view.ended("main")["reason"]), (0, &"Completed".into()));
    assert!(node.containers_of(view.uid()).iter().all(|c| c.metadata.as_ref().is_some_and(|m| m.attempt == 0)));
}

/// Rules by exit code come before the policy: one of them restarts the container, the other the whole pod.
pub(crate) fn rules(node: &Node) {
    let script = "n=$(cat /s/n 2>/dev/null || echo 0); echo $((n + 1)) >/s/n; \
                  case $n in 0) exit 42;; 1) exit 43;; esac; sleep 1000";
    let spec = format!(
        "
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  volumes: [{{name: s, emptyDir: {{}}}}]
  initContainers:
  - {{name: init, image: busybox, command: [sh, -c, 'echo ran >>/s/inits'], volumeMounts: [{{name: s, mountPath: /s}}]}}
  containers:
  - name: app
    image: busybox
    command: [sh, -c, '{script}']
    volumeMounts: [{{name: s, mountPath: /s}}]
    restartPolicy: Never
    restartPolicyRules:
    - {{action: Restart, exitCodes: {{operator: In, values: [42]}}}}
    - {{action: RestartAllContainers, exitCodes: {{operator: In, values: [43]}}}}
  - {{name: other, image: busybox, command: [sleep, '1000']}}"
    );
    let pod = node.pod("rules", &spec);
    let view = pod.until("all of it runs anew", |view| view.runs("app") && view.restarts("app") == 2 && view.runs("other"));
    assert_eq!((view.restarts("init"), view.restarts("other")), (1, 1), "{}", view.pretty());
    assert_eq!(pod.exec_ok("app", &["cat", "/s/inits"]), "ran\nran\n");
}

pub(crate) fn init_in_order(node: &Node) {
    let step = |name: &str, script: &str| {
        format!(
            "  - {{name: {name}, image: busybox, command: [sh, -c, '{script}'], volumeMounts: [{{name: shared, mountPath: /shared}}]}}\n"
        )
    };
    let spec = format!(
        "
  restartPolicy: Never
  volumes: [{{name: shared, emptyDir: {{}}}}]
  initContainers:
{}{}  containers:
{}",
        step("first", "sleep 1; echo first >>/shared/order"),
        step("second", "sleep 1; echo second >>/shared/order"),
        step("main", "cat /shared/order")
    );
    let pod = node.pod("init", &spec);
    let view = pod.until("first runs", |view| view.runs("first"));
    assert_eq!((view.phase(), view.waits("second"), view.waits("main")), ("Pending", "PodInitializing", "PodInitializing"));
    assert_eq!(view.condition("Initialized")["message"], "containers with incomplete status: [first second]");
    let view = pod.until("it has succeeded", |view| view.phase() == "Succeeded");
    node.until_true("main prints the order", || pod.printed(view.uid(), "main", 0) == ["first", "second"]);
    for init in ["first", "second"] {
        assert_eq!((&view.ended(init)["exitCode"], &view.container(init)["ready"]), (&0.into(), &true.into()));
    }
    assert_eq!((view.is("Initialized"), &view.condition("Initialized")["reason"]), (true, &"PodCompleted".into()));
}

pub(crate) fn init_fails_for_good(node: &Node) {
    let pod = node.pod(
        "init-fails",
        "
  restartPolicy: Never
  initContainers:
  - {name: first, image: busybox, command: [sh, -c, 'exit 6']}
  - {name: second, image: busybox, command: ['true']}
  containers:
  - {name: main, image: busybox, command: [sleep, '1000']}",
    );
    let view = pod.until("it has failed", |view| view.phase() == "Failed");
    assert_eq!((&view.ended("first")["exitCode"], view.restarts("first")), (&6.into(), 0));
    assert!(!view.is("Initialized"), "{}", view.condition("Initialized"));
    let made: Vec<_> = node.containers_of(view.uid()).into_iter().filter_map(|c| c.metadata).map(|m| m.name).collect();
    assert_eq!(made, ["first"], "nothing else was ever made");
}

pub(crate) fn sidecars_before_and_after(node: &Node) {
    let own = node.dir().join("sidecars");
    std::fs::create_dir_all(&own).expect("make a directory");
    let container = |name: &str, more: &str| {
        format!(
            "
  - name: {name}
    image: busybox
    command: [sh, -c, 'trap \"sleep 1; echo {name} >>/own/ends; exit 0\" TERM; echo {name} >>/own/begins; sleep 1000 & wait']
    volumeMounts: [{{name: own, mountPath: /own}}]{more}"
        )
    };
    let always = "\n    restartPolicy: Always";
    let probed = format!(
        "{always}\n    startupProbe: {{exec: {{command: [test, -e, /own/go]}}, periodSeconds: 1, failureThreshold: 100}}"
    );
    let spec = format!(
        "
  terminationGracePeriodSeconds: 30
  volumes: [{{name: own, hostPath: {{path: {}}}}}]
  initContainers:{}{}
  containers:{}",
        own.display(),
        container("one", &probed),
        container("two", always),
        container("main", "")
    );
    let pod = node.pod("sidecars", &spec);
    let lines = |file: &str| -> Vec<String> {
        let text = std::fs::read_to_string(own.join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    pod.until_said("Startup probe failed");
    let view = pod.until_runs("one");
    assert_eq!(
        (&view.container("one")["started"], view.waits("two"), view.waits("main")),
        (&false.into(), "PodInitializing", "PodInitializing")
    );
    assert_eq!(node.containers_of(view.uid()).len(), 1, "the others wait for the startup probe");
    std::fs::write(own.join("go"), "").expect("write a file");
    let view = pod.until_ready();
    assert_eq!(view.container("one")["started"], true);
    let row = |table: String| table.lines().find(|line| line.contains("sidecars")).map(str::to_owned).unwrap_or_default();
    let ready = row(node.cli_ok(&["pods"]));
    assert!(ready.contains(" 3/3 "), "sidecars count: {ready}");
    node.until_true("all have begun", || lines("begins").len() == 3);
    assert_eq!(lines("begins"), ["one", "two", "main"]);
    pod.remove();
    pod.until_gone();
    assert_eq!(lines("ends"), ["main", "two", "one"]);
}

/// A sidecar is restarted by itself, whatever the pod's policy says: when it ends, and when its liveness probe says so.
pub(crate) fn a_sidecar_that_fails(node: &Node) {
    let pod = node.pod(
        "sidecar-fails",
        "
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  initContainers:
  - name: aside
    image: busybox
    command: [sleep, '1000']
    restartPolicy: Always
    livenessProbe: {exec: {command: [test, '!', -e, /sick]}, periodSeconds: 1, failureThreshold: 1}
  containers:
  - {name: main, image: busybox, command: [sleep, '1000']}",
    );
    let before = pod.until_ready();
    let process = pod.process("aside");
    kill_process(Pid::from_raw(process.pid.cast_signed()).expect("a process"), Signal::KILL).expect("kill it");
    pod.until("it was restarted", |view| view.runs("aside") && view.restarts("aside") == 1);
    pod.exec_ok("aside", &["touch", "/sick"]);
    let view = pod.until("it was restarted for its probe", |view| view.runs("aside") && view.restarts("aside") == 2);
    assert_eq!((view.id("main"), view.restarts("main")), (before.id("main"), 0), "{}", view.pretty());
}

/// A reference that nobody can read is told so, and is not tried; a pod beside it is not held up.
pub(crate) fn names_of_images(node: &Node) {
    let pod = node.pod(
        "image-name",
        "
  terminationGracePeriodSeconds: 1
  containers:
  - {name: bad, image: 'polylet.local/Upper:1', command: ['true']}
  - {name: good, image: busybox, command: [sleep, '1000']}",
    );
    let view = pod.until("it says so", |view| view.waits("bad") == "InvalidImageName" && view.runs("good"));
    assert!(view.wait_message("bad").contains("couldn't parse image name"), "{}", view.wait_message("bad"));
}

pub(crate) fn too_much_is_asked_for(node: &Node) {
    let pod = node.pod(
        "too-much",
        "
  containers:
  - {name: main, image: busybox, command: [sleep, '1000'], resources: {requests: {cpu: '1000'}}}",
    );
    let view = pod.until("it is refused", |view| view.phase() == "Failed");
    assert_eq!(view.status()["reason"], "OutOfcpu");
    let message = view.status()["message"].as_str().unwrap_or_default();
    assert!(message.contains("Node didn't have enough resource: cpu, requested: 1000000, used: "), "{message}");
    assert!(node.containers_of(view.uid()).is_empty(), "nothing was made");
}

pub(crate) fn post_start(node: &Node) {
    let one = |hook: &str| {
        format!(
            "
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sleep, '1000']
    lifecycle: {{postStart: {{exec: {{command: [sh, -c, '{hook}']}}}}}}"
        )
    };
    let (good, bad) = (node.pod("poststart", &one("echo hooked >/tmp/hooked")), node.pod("poststart-fails", &one("exit 9")));
    // A container without a readiness probe is ready as soon as it runs, which is before its hook has.
    node.until_true("the hook has run", || good.exec("main", &["cat", "/tmp/hooked"]).output == "hooked\n");
    assert_eq!(good.until_ready().restarts("main"), 0);
    bad.until_said("PostStartHook failed");
    let view = bad.until("it is tried again", |view| view.restarts("main") >= 1);
    assert!(view.restarts("main") >= 1);
    let view = bad.until("it waits, never ready", |view| view.waits("main") == "CrashLoopBackOff");
    assert!(!view.is_ready());
    assert_ne!(view.last("main")["exitCode"], 0);
}

pub(crate) fn images(node: &Node) {
    // Nobody listens there, in this network.
    let absent = "127.0.0.1:1/absent:1";
    let one = |policy: &str| format!("\n  containers:\n  - {{name: main, image: {absent}, imagePullPolicy: {policy}}}");
    let (never, pulls) = (node.pod("never-pull", &one("Never")), node.pod("pull-fails", &one("IfNotPresent")));
    let view = never.until("it is told that nothing may be pulled", |view| view.waits("main") == "ErrImageNeverPull");
    let message = format!("Container image \"{absent}\" is not present with pull policy of Never");
    assert_eq!((view.wait_message("main"), view.phase()), (message.as_str(), "Pending"));

    pulls.until_said("Error: ErrImagePull");
    // Which is shown until the backoff is, a moment later.
    let view = pulls.until("it backs off", |view| view.waits("main") == "ImagePullBackOff");
    let message = view.wait_message("main");
    assert!(message.starts_with(&format!("Back-off pulling image \"{absent}\": ErrImagePull: ")), "{message}");
    assert!(message.contains("connection refused"), "{message}");
    assert!(node.containers_of(view.uid()).is_empty());
}

pub(crate) fn sandbox_killed(node: &Node) {
    let pod = node.pod(
        "sandbox",
        "\n  terminationGracePeriodSeconds: 1\n  containers:\n  - {name: main, image: busybox, command: [sleep, '1000']}",
    );
    let before = pod.until_ready();
    let process = pod.process("main");
    let pause = i32::try_from(pod.sandbox().pid).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pause, Signal::KILL).expect("kill the sandbox's process");
    let after = pod.until("it is ready in another sandbox", |view| view.is_ready() && view.id("main") != before.id("main"));
    assert_eq!(after.restarts("main"), 1);
    pod.until_said("Pod sandbox changed, it will be killed and re-created.");
    assert!(!std::path::Path::new(&format!("/proc/{}", process.pid)).exists(), "the old container is still there");
    let sandboxes = node.sandboxes_of(after.uid());
    let ready: Vec<_> = sandboxes.iter().filter(|s| s.state() == cri::PodSandboxState::SandboxReady).collect();
    assert_eq!(ready.len(), 1);
    assert_eq!(ready[0].metadata.as_ref().map(|m| m.attempt), Some(1));
}

pub(crate) fn out_of_memory(node: &Node) {
    let pod = node.pod(
        "hungry",
        "
  terminationGracePeriodSeconds: 1
  containers:
  - name: hungry
    image: busybox
    command: [tail, /dev/zero]
    resources: {limits: {memory: 16Mi}}
  - name: neighbour
    image: busybox
    command: [sleep, '1000']
    resources: {limits: {memory: 16Mi}}",
    );
    let other = node.pod(
        "hungrys-neighbour",
        "\n  terminationGracePeriodSeconds: 1\n  containers:\n  - {name: main, image: busybox, command: [sleep, '1000']}",
    );
    let others = other.until_ready();
    let view = pod.until("it was restarted, and waits", |view| view.waits("hungry") == "CrashLoopBackOff");
    assert_eq!((&view.last("hungry")["exitCode"], &view.last("hungry")["reason"]), (&137.into(), &"OOMKilled".into()));
    assert!(view.restarts("hungry") >= 1);
    assert!(view.runs("neighbour") && view.restarts("neighbour") == 0, "{}", view.pretty());
    assert_eq!(other.now().map(|view| view.picture()), Some(others.picture()));
}
