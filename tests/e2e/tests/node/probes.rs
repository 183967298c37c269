//! Probes of each kind, each passing and failing: startup gates the others, readiness shows, liveness restarts.

use std::path::PathBuf;

use polylet_e2e::{Node, Pod, View};
use rustix::process::{Pid, Signal, kill_process};

/// A pod with all three probes of one kind, and the two switches that they look at.
struct Judged<'n, L: FnMut(bool), R: FnMut(bool)> {
    pod: Pod<'n>,
    /// What the startup and the liveness probe find.
    live: L,
    /// What the readiness probe finds.
    ready: R,
    /// What is said when liveness fails.
    words: &'static str,
}

impl<L: FnMut(bool), R: FnMut(bool)> Judged<'_, L, R> {
    fn check(mut self) {
        let pod = &self.pod;
        let has_started = |view: &View| view.container("main")["started"] == true;

        pod.until_said("Startup probe failed: ");
        let view = pod.until_runs("main");
        assert!(!has_started(&view) && !view.is_ready(), "startup gates: {}", view.pretty());
        assert!(!pod.said().iter().any(|line| line.contains("Readiness probe")), "readiness waits for startup");

        (self.live)(true);
        let first = pod.until("it has started", has_started);
        pod.until_said("Readiness probe failed: ");
        let view = pod.until_runs("main");
        let condition = view.condition("Ready");
        assert_eq!((&condition["status"], &condition["reason"]), (&"False".into(), &"ContainersNotReady".into()));
        assert_eq!(condition["message"], "containers with unready status: [main]");

        (self.ready)(true);
        pod.until_ready();
        (self.ready)(false);
        let view = pod.until("it is not ready any more", |view| !view.is_ready());
        assert_eq!((view.restarts("main"), view.id("main")), (0, first.id("main")), "readiness restarts nothing");

        (self.ready)(true);
        pod.until_ready();
        (self.live)(false);
        let view = pod.until("it is restarted", |view| view.restarts("main") == 1 && view.runs("main"));
        assert_eq!(view.last("main")["containerID"], first.container("main")["containerID"]);
        assert!(!has_started(&view), "startup gates again: {}", view.pretty());
        pod.until_said("Container main failed liveness probe, will be restarted");
        pod.until_said(&format!("Liveness probe failed: {}", self.words));

        (self.live)(true);
        let view = pod.until_ready();
        assert_eq!(view.restarts("main"), 1);
    }
}

/// Probes for these two targets, looked at each second.
fn probes(live: &str, ready: &str) -> String {
    format!(
        "
    startupProbe: {{{live}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 100}}
    livenessProbe: {{{live}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 2}}
    readinessProbe: {{{ready}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 1}}"
    )
}

/// A directory whose files are the switches.
fn flags(node: &Node, name: &str) -> PathBuf {
    let path = node.dir().join(format!("flags-{name}"));
    std::fs::create_dir_all(&path).expect("make a directory");
    path
}

fn flip(file: PathBuf) -> impl FnMut(bool) {
    move |on| {
        let done = if on { std::fs::write(&file, "on\n") } else { std::fs::remove_file(&file) };
        done.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

fn with_flags(flags: &std::path::Path, command: &str, probes: &str) -> String {
    format!(
        "
  terminationGracePeriodSeconds: 1
  volumes: [{{name: flags, hostPath: {{path: {}}}}}]
  containers:
  - name: main
    image: busybox
    command: {command}
    volumeMounts: [{{name: flags, mountPath: /flags}}]{probes}",
        flags.display()
    )
}

pub(crate) fn exec(node: &Node) {
    let flags = flags(node, "exec");
    let look = |file: &str| format!("exec: {{command: [sh, -c, 'test -e /flags/{file} || {{ echo {file} is off; exit 1; }}']}}");
    let pod = node.pod("probe-exec", &with_flags(&flags, "[sleep, '1000']", &probes(&look("live"), &look("ready"))));
    Judged { pod, live: flip(flags.join("live")), ready: flip(flags.join("ready")), words: "live is off" }.check();
}

pub(crate) fn http(node: &Node) {
    let flags = flags(node, "http");
    let get = |path: &str| format!("httpGet: {{path: /{path}, port: web}}");
    let probes = format!("\n    ports: [{{name: web, containerPort: 8080}}]{}", probes(&get("live"), &get("ready")));
    let command = "[httpd, -f, -p, '8080', -h, /flags]";
    let pod = node.pod("probe-http", &with_flags(&flags, command, &probes));
    let words = "HTTP probe failed with statuscode: 404";
    Judged { pod, live: flip(flags.join("live")), ready: flip(flags.join("ready")), words }.check();
}

pub(crate) fn tcp(node: &Node) {
    let connect = |port: u16| format!("tcpSocket: {{port: {port}}}");
    let flags = flags(node, "tcp");
    let pod = node.pod("probe-tcp", &with_flags(&flags, "[sleep, '1000']", &probes(&connect(7001), &connect(7002))));
    pod.until_runs("main");
    // They listen in the network of the pod, which stays when its container is started again.
    let network = pod.network();
    let (mut live, mut ready) = (None, None);
    Judged {
        pod,
        live: |on: bool| live = on.then(|| network.listen(7001)),
        ready: |on: bool| ready = on.then(|| network.listen(7002)),
        words: "dial tcp ",
    }
    .check();
}

/// One server: it is asked for a service by its name, and for itself as a whole.
pub(crate) fn grpc(node: &Node) {
    let flags = flags(node, "grpc");
    let probes = probes("grpc: {port: 7001, service: db}", "grpc: {port: 7001}");
    let pod = node.pod("probe-grpc", &with_flags(&flags, "[sleep, '1000']", &probes));
    pod.until_runs("main");
    let status = |on| if on { 1 } else { 2 };
    let (health, _serves) = pod.network().serve_health(7001);
    Judged {
        pod,
        live: |on| health.set("db", status(on)),
        ready: |on| health.set("", status(on)),
        words: "service unhealthy (responded with \"NOT_SERVING\")",
    }
    .check();
    // The server was not known to itself until it was set.
    let unknown = "Readiness probe failed: error: health rpc probe failed: rpc error: code = NotFound desc = unknown service";
    assert!(node.log().lines().any(|line| line.contains("probe-grpc-e2e") && line.contains(unknown)));
}

/// What the spec gives arrives; within the host a redirect is followed, and one that leads away is told of and enough.
pub(crate) fn http_headers_and_redirects(node: &Node) {
    let pod = node.pod(
        "probe-redirect",
        "
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sleep, '1000']
    readinessProbe:
      httpGet: {path: /old, port: 8080, httpHeaders: [{name: X-Team, value: one}, {name: Host, value: db.example}]}
      periodSeconds: 1
      timeoutSeconds: 5
      failureThreshold: 1",
    );
    pod.until_runs("main");
    let (document, _serves) = pod.network().serve_document(8080);
    document.lead("/old", "/new?of=e2e");
    pod.until_said("Readiness probe failed: HTTP probe failed with statuscode: 503");
    document.set(200, "");
    pod.until_ready();
    let requests = document.requests();
    for path in ["/old", "/new?of=e2e"] {
        let asked = |request: &&String| request.starts_with(&format!("GET {path} HTTP/1.1\r\n"));
        let request = requests.iter().find(asked).unwrap_or_else(|| panic!("{path}: {requests:?}"));
        for header in ["X-Team: one\r\n", "Host: db.example\r\n", "User-Agent: kube-probe/"] {
            assert!(request.contains(&format!("\r\n{header}")), "{header}: {request}");
        }
    }

    document.set(503, "moved away");
    pod.until("it is not ready any more", |view| !view.is_ready());
    document.lead("/old", "http://elsewhere.example/");
    pod.until_ready();
    pod.until_said("Readiness probe warning: Probe terminated redirects, Response body: moved away");
    let warned = |line: &String| line.contains("reason=\"ProbeWarning\"") && line.contains("type=\"Warning\"");
    assert!(pod.said().iter().any(warned), "{:?}", pod.said());
}

pub(crate) fn startup_that_never_succeeds(node: &Node) {
    let pod = node.pod(
        "probe-startup",
        "
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sleep, '1000']
    startupProbe: {exec: {command: ['false']}, periodSeconds: 1, failureThreshold: 2}
    readinessProbe: {exec: {command: ['true']}, periodSeconds: 1}",
    );
    let view = pod.until("it was restarted", |view| view.restarts("main") >= 1);
    assert!(!view.is_ready());
    assert_ne!(view.last("main")["exitCode"], 0);
    pod.until_said("Container main failed startup probe, will be restarted");
}

pub(crate) fn probes_time_out(node: &Node) {
    let pod = node.pod(
        "probe-timeout",
        "
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sleep, '1000']
    readinessProbe: {exec: {command: [sleep, '30']}, periodSeconds: 1, timeoutSeconds: 1}",
    );
    pod.until_said("Readiness probe failed: command timed out: \"sleep 30\" timed out after 1s");
    let view = pod.until_runs("main");
    assert!(!view.is_ready());
}

/// A process that does not listen has the probe's grace, not the pod's.
pub(crate) fn a_probe_with_its_own_grace(node: &Node) {
    let pod = node.pod(
        "probe-grace",
        "
  terminationGracePeriodSeconds: 600
  containers:
  - name: main
    image: busybox
    command: [sh, -c, 'trap \"\" TERM; touch /up; while :; do sleep 0.1; done']
    startupProbe: {exec: {command: [test, -e, /up]}, periodSeconds: 1}
    livenessProbe: {exec: {command: [test, '!', -e, /sick]}, periodSeconds: 1, failureThreshold: 1, terminationGracePeriodSeconds: 3}",
    );
    pod.until_ready();
    pod.exec_ok("main", &["touch", "/sick"]);
    let view = pod.until("it was restarted", |view| view.restarts("main") >= 1);
    assert_eq!(view.last("main")["exitCode"], 137, "{}", view.pretty());
    let process = pod.process("main");
    pod.remove();
    // The pod itself has ten minutes of grace, which nobody here waits for.
    node.until_true("it is told", || pod.now().is_none_or(|view| view.life() == "stopping"));
    kill_process(Pid::from_raw(process.pid.cast_signed()).expect("a process"), Signal::KILL).expect("kill it");
    pod.until_gone();
}
