//! Looking at pods from the command line: what is asked of an agent, what is printed, and the status at the end.

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use polylet_core::stream::{FromCommand, ToCommand};
use polylet_server::{Admin, AdminError, BoxFuture, DecisionQuery, ExecQuery, LogQuery, Pieces, Query, Session};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// An agent with one pod, `web-n1`, and two containers.
struct Fake;

fn refuse<T>(status: u16, message: &str) -> Result<T, AdminError> {
    Err(AdminError { status, message: message.into() })
}

impl Admin for Fake {
    fn get(&self, what: Query) -> BoxFuture<Result<Value, AdminError>> {
        Box::pin(async move {
            let event = json!({
                "type": "Normal", "reason": "Started", "message": "Container started", "count": 1,
                "firstTimestamp": "2026-03-01T12:00:00Z", "lastTimestamp": "2026-03-01T12:00:00Z",
                "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web-n1"}, "source": {"component": "polylet"},
            });
            match what {
                Query::Pod { namespace, name } if (namespace.as_str(), name.as_str()) == ("shop", "web") => Ok(json!({
                    "namespace": "shop", "name": "web-n1", "uid": "u-1", "life": "running", "status": null, "node": "n1",
                    "containers": {"a": {}, "b": {}}, "events": [event],
                    "object": {"metadata": {"name": "web-n1"}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}},
                })),
                Query::Pod { name, .. } => refuse(404, &format!("no pod {name:?} in namespace \"shop\"")),
                Query::Pods => Ok(json!([{"namespace": "shop", "name": "web-n1"}, {"namespace": "default", "name": "db-n1"}])),
                Query::Events(of) => Ok(json!(if of.is_none_or(|(_, name)| name == "web") { vec![event] } else { vec![] })),
                other => refuse(404, &format!("{other:?}")),
            }
        })
    }

    fn decisions(&self, _: DecisionQuery) -> Result<mpsc::Receiver<String>, AdminError> {
        refuse(404, "none")
    }

    fn log(&self, query: LogQuery) -> BoxFuture<Result<Pieces, AdminError>> {
        Box::pin(async move {
            if query.part.previous {
                return refuse(400, "previous terminated container \"a\" in pod \"web-n1\" not found");
            }
            let (out, pieces) = mpsc::channel(4);
            let LogQuery { namespace, name, part } = query;
            let asked = json!({"pod": [namespace, name], "part": part}).to_string();
            tokio::spawn(async move {
                if part.tail_lines == Some(13) {
                    out.send(Ok(b"begun".to_vec())).await?;
                    return out.send(Err(std::io::Error::other("unsupported log format in /0.log"))).await;
                }
                out.send(Ok(asked.into_bytes())).await?;
                out.send(Ok(b"\n\xff\0".to_vec())).await
            });
            Ok(pieces)
        })
    }

    /// Says on standard error what it was asked for, gives input and sizes back, and ends with 7 when its input does.
    fn exec(&self, query: ExecQuery) -> BoxFuture<Result<Session, AdminError>> {
        Box::pin(async move {
            let (input, mut to) = mpsc::channel(4);
            let (from, output) = mpsc::channel(4);
            let fails = query.command == ["nosuch"];
            let asked = serde_json::to_vec(&query).unwrap();
            tokio::spawn(async move {
                if fails {
                    return from.send(FromCommand::Ended(Err("no such program".into()))).await;
                }
                from.send(FromCommand::Stderr(asked)).await?;
                while let Some(message) = to.recv().await {
                    match message {
                        ToCommand::Stdin(bytes) if bytes.contains(&4) => break,
                        ToCommand::Stdin(bytes) => from.send(FromCommand::Stdout(bytes)).await?,
                        ToCommand::Resize { width, height } => {
                            from.send(FromCommand::Stdout(format!("<{width}x{height}>").into_bytes())).await?;
                        }
                        ToCommand::StdinEnd => break,
                    }
                }
                from.send(FromCommand::Ended(Ok(7))).await
            });
            Ok(Session { input, output })
        })
    }
}

struct World {
    dir: TempDir,
    stop: CancellationToken,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("agent.sock");
        let listener = polylet_server::bind_admin(&socket).unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(polylet_server::serve_admin(listener, socket, Arc::new(Fake), stop.clone()));
        Self { dir, stop }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("agent.sock")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_polylet"));
        command.args(arguments).env("POLYLET_SOCKET", self.socket()).stdin(Stdio::null());
        command
    }

    /// Status, standard output, standard error.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, Vec<u8>, String) {
        let output = self.command(arguments).output().unwrap();
        (output.status.code(), output.stdout, String::from_utf8(output.stderr).unwrap())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_asked_for_and_printed_as_they_are() {
    let world = World::new();
    let (status, out, err) = world.run(&["logs", "web", "-n", "shop"]);
    assert_eq!((status, err.as_str()), (Some(0), "Defaulted container \"a\" out of: a, b\n"));
    let (asked, rest) = out.split_at(out.len() - 3);
    assert_eq!(rest, b"\n\xff\0");
    let part = json!({"container": "a", "previous": false, "follow": false, "timestamps": false});
    assert_eq!(serde_json::from_slice::<Value>(asked).unwrap(), json!({"pod": ["shop", "u-1"], "part": part}));

    let more = ["-c", "b", "-f", "--tail", "3", "--since", "1500ms", "--limit-bytes", "9", "--timestamps"];
    let (status, out, err) = world.run(&[&["logs", "web", "-n", "shop"][..], &more].concat());
    assert_eq!((status, err.as_str()), (Some(0), ""));
    let asked: Value = serde_json::from_slice(&out[..out.len() - 3]).unwrap();
    let part = json!({
        "container": "b", "previous": false, "follow": true, "timestamps": true, "tailLines": 3, "sinceSeconds": 2, "limitBytes": 9,
    });
    assert_eq!(asked["part"], part);
    let (_, out, _) =
        world.run(&["logs", "web", "-n", "shop", "-c", "b", "--tail", "-1", "--since-time", "2026-03-01T12:00:00+02:00"]);
    let asked: Value = serde_json::from_slice(&out[..out.len() - 3]).unwrap();
    assert_eq!((&asked["part"]["tailLines"], &asked["part"]["sinceTime"]), (&Value::Null, &json!("2026-03-01T12:00:00+02:00")));

    let (status, out, err) = world.run(&["logs", "web", "-n", "shop", "-p", "-c", "a"]);
    let expected = "Error: previous terminated container \"a\" in pod \"web-n1\" not found\n";
    assert_eq!((status, out.len(), err.as_str()), (Some(1), 0, expected));
    let (status, out, err) = world.run(&["logs", "web", "-n", "shop", "-c", "a", "--tail", "13"]);
    let expected =
        (Some(1), "begun\nunsupported log format in /0.log\n", "Error: the log is not complete: its last line says why\n");
    assert_eq!((status, str::from_utf8(&out).unwrap(), err.as_str()), expected);
    let (status, _, err) = world.run(&["logs", "wbe", "-n", "shop"]);
    assert_eq!((status, err.as_str()), (Some(1), "Error: no pod \"wbe\" in namespace \"shop\"\n"));
    for bad in [&["--tail", "-2"][..], &["--limit-bytes", "0"], &["--since", "soon"], &["--since", "1s", "--since-time", "x"]] {
        let (status, _, err) = world.run(&[&["logs", "web", "-n", "shop"], bad].concat());
        assert_eq!(status, Some(2), "{bad:?}: {err}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_and_what_happened_are_shown() {
    let world = World::new();
    let text = |arguments: &[&str]| {
        let (status, out, err) = world.run(arguments);
        assert_eq!(status, Some(0), "{err}");
        String::from_utf8(out).unwrap()
    };
    let shown = text(&["describe", "web", "-n", "shop"]);
    assert!(shown.starts_with("Name:         web-n1\nNamespace:    shop\n") && shown.contains("Container started\n"), "{shown}");
    let value: Value = serde_json::from_str(&text(&["describe", "web", "-n", "shop", "-o", "json"])).unwrap();
    assert_eq!(value["object"]["spec"]["containers"][1]["name"], "b");
    assert!(text(&["events"]).contains("pod/shop/web-n1"));
    assert!(text(&["events", "-n", "shop"]).contains("pod/shop/web-n1"));
    assert!(!text(&["events", "-n", "other"]).contains("web-n1"));
    assert!(text(&["events", "web", "-n", "shop"]).contains("pod/shop/web-n1"));
    let pods = text(&["pods", "-n", "shop"]);
    assert!(pods.contains("web-n1") && !pods.contains("db-n1"), "{pods}");
    assert!(text(&["pods"]).contains("db-n1"));
    for nameless in [&["describe", ""][..], &["logs", ""], &["events", ""], &["describe", "web", "-n", ""], &["pods", "-n", ""]] {
        let (status, _, err) = world.run(nameless);
        assert!(status == Some(2) && err.contains("it must not be empty; `polylet pods` shows the names"), "{nameless:?}: {err}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_its_streams_and_its_exit_code() {
    let world = World::new();
    let mut child = world.command(&["exec", "web", "-n", "shop", "-c", "b", "-i", "--", "cat", "-n"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let input = vec![b'x'; 200_000];
    child.stdin.take().unwrap().write_all(&input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(7), input.len()));
    let err = String::from_utf8(output.stderr).unwrap();
    let (asked, rest) = err.split_at(err.find('}').unwrap() + 1);
    assert_eq!(rest, "command terminated with exit code 7\n");
    let query = json!({
        "namespace": "shop", "name": "u-1", "container": "b", "command": ["cat", "-n"], "stdin": true, "tty": false,
    });
    assert_eq!(serde_json::from_str::<Value>(asked).unwrap(), query);

    let (status, out, err) = world.run(&["exec", "web", "-n", "shop", "-c", "b", "--", "nosuch"]);
    assert_eq!((status, out.len(), err.as_str()), (Some(1), 0, "Error: no such program\n"));
    let (status, _, err) = world.run(&["exec", "web", "-n", "shop", "-i", "-t", "-c", "b", "--", "true"]);
    assert_eq!(status, Some(7));
    assert!(err.starts_with("Unable to use a TTY - input is not a terminal") && err.contains("\"tty\":false"), "{err}");
    let (status, _, err) = world.run(&["exec", "web", "-n", "shop", "-c", "b"]);
    assert_eq!(status, Some(2), "{err}");
}

/// Reads from a terminal until it has shown this.
fn until(terminal: &mut File, seen: &mut String, wanted: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut bytes = [0; 4096];
    while !seen.contains(wanted) {
        assert!(Instant::now() < deadline, "{wanted:?} is not shown: {seen:?}");
        let read = terminal.read(&mut bytes).unwrap();
        seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_raw_has_a_size_and_is_as_it_was_afterwards() {
    let world = World::new();
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave = File::options().read(true).write(true).open(name).unwrap();
    let size = |width, height| Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size(80, 24)).unwrap();
    let is_raw = || !tcgetattr(&slave).unwrap().local_modes.contains(LocalModes::ICANON);
    for end in [None, Some(Signal::TERM)] {
        assert!(!is_raw());
        let mut command = world.command(&["exec", "web", "-n", "shop", "-c", "b", "-it", "--", "sh"]);
        command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave.try_clone().unwrap());
        let mut child = command.spawn().unwrap();
        let mut terminal = File::from(master.try_clone().unwrap());
        let mut seen = String::new();
        until(&mut terminal, &mut seen, "<80x24>");
        assert!(is_raw());
        tcsetwinsize(&master, size(100, 30)).unwrap();
        kill_process(Pid::from_child(&child), Signal::WINCH).unwrap();
        until(&mut terminal, &mut seen, "<100x30>");
        // Keys come as they are: a line is not waited for, and Ctrl-C is a key.
        terminal.write_all(b"k\x03").unwrap();
        until(&mut terminal, &mut seen, "k\u{3}");
        match end {
            None => terminal.write_all(&[4]).unwrap(),
            Some(signal) => kill_process(Pid::from_child(&child), signal).unwrap(),
        }
        let code = child.wait().unwrap().code();
        assert_eq!(code, Some(if end.is_none() { 7 } else { 128 + 15 }));
        assert!(!is_raw());
        tcsetwinsize(&master, size(80, 24)).unwrap();
    }
}
