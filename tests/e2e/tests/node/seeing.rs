//! Looking at pods from the command line: what they printed, commands in them, all that is known of them.

use std::io::{Read, Write};
use std::process::{Child, Output, Stdio};

use polylet_e2e::{Node, Pod, Terminal};
use serde_json::Value;

fn text(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// What `polylet logs` of this pod prints.
fn logs(node: &Node, pod: &Pod<'_>, more: &[&str]) -> String {
    let name = pod.name();
    node.cli_ok(&[&["logs", &name][..], more].concat())
}

fn started(node: &Node, arguments: &[&str]) -> Child {
    let mut command = node.cli_command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run the command line")
}

pub(crate) fn logs_and_their_options(node: &Node) {
    let pod = node.pod(
        "printer",
        "
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sh, -c, 'echo one; echo two >&2; sleep 1.2; echo three; head -c 100000 /dev/zero | tr \"\\\\0\" x; echo; sleep 1000']
  - {name: other, image: busybox, command: [sh, -c, 'echo hello; sleep 1000']}",
    );
    pod.until_ready();
    let long = "x".repeat(100_000);
    node.until_true("all is printed", || logs(node, &pod, &["-c", "main"]).len() > 100_000);
    let all = logs(node, &pod, &["-c", "main"]);
    let mut lines: Vec<&str> = all.lines().collect();
    // Two streams reach the log by two ways.
    lines[..2].sort_unstable();
    assert_eq!(lines, ["one", "two", "three", &long]);
    assert_eq!(logs(node, &pod, &["-c", "main", "--limit-bytes", "3"]).len(), 3);
    assert_eq!(logs(node, &pod, &["-c", "main", "--tail", "0"]), "");
    // The runtime cuts a line that is this long into parts, which are lines of the file.
    let tail = logs(node, &pod, &["-c", "main", "--tail", "1"]);
    assert!(tail.len() < long.len() && tail.ends_with('\n') && tail.trim_end().bytes().all(|b| b == b'x'), "{}", tail.len());

    let timed = logs(node, &pod, &["-c", "main", "--timestamps"]);
    let times: Vec<&str> = timed.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(times.len(), 4, "{times:?}");
    assert!(times.iter().all(|time| time.len() == "2026-03-01T12:00:00.000000000Z".len()), "{times:?}");
    let three = timed.lines().position(|line| line.ends_with(" three")).expect("a line");
    let since = logs(node, &pod, &["-c", "main", "--since-time", times[three]]);
    assert!(since.starts_with("three\nxxx"), "{since:.40}");
    assert!(logs(node, &pod, &["-c", "main", "--since", "1h"]).contains("one\n"));

    let (code, out, err) = text(&node.cli(&["logs", "printer"]));
    assert_eq!((code, err.as_str()), (Some(0), "Defaulted container \"main\" out of: main, other\n"));
    assert!(out.contains("three\n"));
    assert_eq!(logs(node, &pod, &["-c", "other"]), "hello\n");
    let refused = node.cli_refused(&["logs", "printer", "-c", "nobody"]);
    assert_eq!(refused, "Error: container \"nobody\" not found in pod \"printer-e2e\": it has main, other\n");
    let refused = node.cli_refused(&["logs", "printer", "-c", "other", "-p"]);
    assert_eq!(refused, "Error: previous terminated container \"other\" in pod \"printer-e2e\" not found\n");
    let refused = node.cli_refused(&["logs", "printre"]);
    assert_eq!(refused, "Error: no pod \"printre\" in namespace \"default\"; did you mean \"printer\"?\n");
}

pub(crate) fn logs_are_followed_over_a_rotation_until_the_end(node: &Node) {
    let pod = node.pod(
        "follower",
        "
  terminationGracePeriodSeconds: 1
  volumes: [{name: own, emptyDir: {}}]
  containers:
  - name: main
    image: busybox
    command: [sh, -c, 'echo begin; until [ -e /own/go ]; do sleep 0.1; done; rm /own/go; echo after; until [ -e /own/go ]; do sleep 0.1; done; rm /own/go; echo last; exit 3']
    volumeMounts: [{name: own, mountPath: /own}]",
    );
    let view = pod.until_runs("main");
    let mut child = started(node, &["logs", "follower", "-f"]);
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut seen = String::new();
    let mut until = |wanted: &str| {
        let mut bytes = [0; 4096];
        while !seen.contains(wanted) {
            let read = stdout.read(&mut bytes).expect("read what is followed");
            assert!(read > 0, "it ended before {wanted:?}: {seen:?}");
            seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        seen.clone()
    };
    assert_eq!(until("begin\n"), "begin\n");
    // As the kubelet rotates: the file moves away, and the runtime opens a new one.
    let id = view.id("main").to_owned();
    let log = node.container(&id).log_path;
    std::fs::rename(&log, format!("{log}.20260301-120000")).expect("move the log away");
    node.reopen_log(&id);
    pod.exec_ok("main", &["touch", "/own/go"]);
    assert_eq!(until("after\n"), "begin\nafter\n");
    pod.exec_ok("main", &["touch", "/own/go"]);
    assert_eq!(until("last\n"), "begin\nafter\nlast\n");
    // It ends with this attempt, though there will be another.
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).expect("read to the end");
    assert_eq!((rest, child.wait().expect("its end").code()), (Vec::new(), Some(0)));

    pod.until("it runs again", |view| view.restarts("main") == 1 && view.runs("main"));
    node.until_true("the next attempt has printed", || logs(node, &pod, &[]) == "begin\n");
    // What was rotated away is not shown.
    assert_eq!(logs(node, &pod, &["-p"]), "after\nlast\n");
}

pub(crate) fn commands_in_containers(node: &Node) {
    let pod = node.pod(
        "shell",
        "
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: busybox, command: [sleep, '1000']}
  - {name: done, image: busybox, command: ['false']}",
    );
    pod.until_runs("main");
    let run = |arguments: &[&str]| text(&node.cli(&[&["exec", "shell", "-c", "main"][..], arguments].concat()));
    let ended = |code: i32| format!("command terminated with exit code {code}\n");
    assert_eq!(run(&["--", "sh", "-c", "echo out; echo err >&2"]), (Some(0), "out\n".into(), "err\n".into()));
    assert_eq!(run(&["--", "sh", "-c", "exit 42"]), (Some(42), String::new(), ended(42)));
    assert_eq!(run(&["--", "cat"]), (Some(0), String::new(), String::new()), "without -i there is no input");
    let (code, _, err) = run(&["--", "no-such-program"]);
    assert!(code == Some(1) && err.starts_with("Error: ") && err.contains("no-such-program"), "{code:?} {err}");

    // Input ends, and is whole, whatever its bytes are.
    let mut child = started(node, &["exec", "shell", "-c", "main", "-i", "--", "sh", "-c", "cat; echo end >&2; exit 5"]);
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (mut stdin, sent) = (child.stdin.take().expect("a pipe"), bytes.clone());
    let writer = std::thread::spawn(move || stdin.write_all(&sent));
    let output = child.wait_with_output().expect("its end");
    writer.join().expect("a writer").expect("all is taken");
    assert!(output.stdout == bytes, "{} bytes of {}", output.stdout.len(), bytes.len());
    assert_eq!(text(&output).2, "end\n".to_owned() + &ended(5));
    assert_eq!(output.status.code(), Some(5));

    pod.until("done has ended", |view| !view.waits("done").is_empty() || view.ended("done").is_object());
    let refused = node.cli_refused(&["exec", "shell", "-c", "done", "--", "true"]);
    assert!(refused.starts_with("Error: container \"done\" in pod \"shell-e2e\" does not run: it is "), "{refused}");
    let refused = node.cli_refused(&["exec", "shell", "-c", "nobody", "--", "true"]);
    assert_eq!(refused, "Error: container \"nobody\" not found in pod \"shell-e2e\": it has done, main\n");
}

pub(crate) fn a_terminal_in_a_container(node: &Node) {
    let pod = node.pod(
        "terminal",
        "\n  terminationGracePeriodSeconds: 1\n  containers:\n  - {name: main, image: busybox, command: [sleep, '1000']}",
    );
    pod.until_runs("main");
    let mut terminal = Terminal::open(132, 43);
    let mut child = terminal.spawn(node.cli_command(&["exec", "terminal", "-it", "--", "sh"]));
    terminal.until("# ");
    terminal.write(b"[ -t 0 ] && [ -t 1 ] && echo yes, a $((40 + 2)) terminal\r");
    terminal.until("yes, a 42 terminal");
    terminal.write(b"stty size\r");
    terminal.until("43 132");
    // A key that ends a command there, and not this program here.
    terminal.write(b"sleep 777\r");
    node.until_true("it sleeps", || pod.exec("main", &["sh", "-c", "ps | grep -q '[s]leep 777'"]).code == 0);
    terminal.write(&[3]);
    // The shell throws away what was typed before it asks again.
    terminal.until("# ");
    terminal.write(b"echo still $((1 + 1)) here\r");
    terminal.until("still 2 here");
    terminal.write(b"exit 6\r");
    assert_eq!(child.wait().expect("its end").code(), Some(6));
    assert!(!terminal.is_raw());
}

pub(crate) fn all_that_is_known_of_a_pod(node: &Node) {
    let pod = node.pod(
        "known",
        "
  terminationGracePeriodSeconds: 1
  volumes: [{name: scratch, emptyDir: {}}]
  containers:
  - name: main
    image: busybox
    command: [sh, -c, 'exit 4']
    env: [{name: A, value: b}]
    volumeMounts: [{name: scratch, mountPath: /scratch}]
    resources: {limits: {memory: 16Mi}}
    livenessProbe: {exec: {command: ['true']}, periodSeconds: 7}",
    );
    pod.until("it waits", |view| view.waits("main") == "CrashLoopBackOff");
    let described = node.cli_ok(&["describe", "known"]);
    // How it is aligned, the command's own test shows.
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "Name:         known-e2e\n",
        "Node:         e2e/",
        "              from=e2e\n",
        "Status:       Running\n",
        "      Reason:       CrashLoopBackOff\n",
        "    Last State:     Terminated\n      Reason:       Error\n      Exit Code:    4\n",
        "    Next Restart:   in ",
        "      memory:  16Mi\n",
        "    Liveness:  exec [true] delay=0s timeout=1s period=7s #success=1 #failure=3\n",
        "      A:  b\n",
        "      /scratch from scratch (rw)\n",
        "    Type:       EmptyDir (a temporary directory that shares a pod's lifetime)\n",
        "QoS Class:       Burstable\n",
        "  Warning  BackOff",
    ] {
        assert!(flat(&described).contains(&flat(words)), "{words:?} is not in\n{described}");
    }
    let uid = pod.now().expect("it is known").uid().to_owned();
    let value: Value = serde_json::from_str(&node.cli_ok(&["describe", &uid, "-o", "json"])).expect("JSON");
    assert_eq!((&value["object"]["spec"]["nodeName"], &value["life"]), (&"e2e".into(), &"running".into()));
    let started = value["events"].as_array().into_iter().flatten().find(|event| event["reason"] == "Started").expect("an event");
    assert_eq!(started["involvedObject"]["fieldPath"], "spec.containers{main}");
    assert!(started["count"].as_u64() >= Some(2), "{started}");
    assert!(node.cli_ok(&["events", "known"]).contains("pod/default/known-e2e"));
    // The same as a line of the log.
    let line = pod.said().into_iter().find(|line| line.contains("reason=\"Started\"")).expect("a line");
    for field in
        ["type=\"Normal\"", "kind=\"Pod\"", "namespace=\"default\"", "name=\"known-e2e\"", "path=\"spec.containers{main}\""]
    {
        assert!(line.contains(field), "{line}");
    }
    assert!(line.contains(&format!("uid=\"{uid}\"")), "{line}");
    pod.remove();
    pod.until_gone();
    assert!(node.cli_ok(&["events", "known"]).contains("BackOff"), "a pod that is gone is known for a while");
}

pub(crate) fn a_table_of_pods(node: &Node) {
    let pod = node.pod(
        "looping",
        "
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: busybox, command: ['false']}
  - name: beside
    image: busybox
    command: [sleep, '1000']
    livenessProbe: {exec: {command: ['true']}, periodSeconds: 1, timeoutSeconds: 20}",
    );
    pod.until("it waits", |view| view.waits("main") == "CrashLoopBackOff");
    node.until_true("it is shown with its next restart and its probe", || {
        let table = node.cli_ok(&["pods"]);
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0].join(" "), "NAMESPACE NAME READY STATUS RESTARTS AGE NEXT RESTART WHY PROBES");
        let row = rows.iter().find(|row| row[1] == "looping-e2e").expect("the pod");
        let ends = matches!(row[..], [.., "main", "in", _, "s", "waits", _, "s", "liveness=ok"]);
        ends && row[2..4] == ["1/2", "CrashLoopBackOff"] && row[4] != "0"
    });
    let other = node.cli(&["pods", "-n", "defualt"]);
    let said = String::from_utf8(other.stderr).expect("text");
    assert!(other.status.success() && said.starts_with("there is no pod in namespace \"defualt\"; there are "), "{said}");
}

pub(crate) fn anybody_may_read_where_that_is_configured() {
    let node = Node::without_agent();
    // Loopback of the node's own network.
    node.append("config.yaml", "address: 127.0.0.1\nreadOnlyPort: 10255\n");
    node.start_agent();
    let pod = node.pod(
        "listed",
        "\n  terminationGracePeriodSeconds: 1\n  containers:\n  - {name: main, image: busybox, command: [sleep, '1000']}",
    );
    pod.until_ready();
    let get = |path: &str| node.network().get(10255, path);
    let (status, body) = get("/pods");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let list: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((&list["kind"], &list["apiVersion"]), (&"PodList".into(), &"v1".into()));
    let items = list["items"].as_array().expect("items");
    let listed = items.iter().find(|item| item["metadata"]["name"] == "listed-e2e").expect("the pod");
    assert_eq!(listed["status"]["phase"], "Running");
    assert_eq!(listed["status"]["containerStatuses"][0]["ready"], true);
    assert_eq!(get("/healthz").1, "ok");
    node.until_true("the pod is counted", || get("/metrics").1.contains("kubelet_running_pods 1"));
    assert_eq!(get("/nothing").0, "HTTP/1.1 404 Not Found");
    assert_eq!(get("/exec/default/listed-e2e/main").0, "HTTP/1.1 405 Method Not Allowed");
}
