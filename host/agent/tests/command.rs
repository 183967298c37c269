//! The command line as its users meet it: what it prints, what it says when it refuses, and its status.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use polylet_server::{Admin, AdminError, BoxFuture, DecisionQuery, ExecQuery, LogQuery, Pieces, Query, Session};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A place of its own: a cache, a policy directory, the socket of an agent that may not be there.
struct World(TempDir);

impl World {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_polylet"));
        command.args(arguments).env("XDG_CACHE_HOME", self.path("cache")).env("POLYLET_SOCKET", self.path("agent.sock"));
        command.env("POLYLET_POLICY_DIR", self.path("policies")).stdin(Stdio::null());
        command
    }

    /// Status, standard output, standard error.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let (status, stdout, stderr) = self.run(arguments);
        assert_eq!(status, Some(0), "{stderr}");
        serde_json::from_str(&stdout).unwrap()
    }
}

/// A policy that `policies/build.sh` has built.
fn policy(name: &str) -> String {
    // As cargo says now: this may have been built for another tree.
    let krate = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where its crate is"));
    let default = || krate.join("../../target/policies");
    let path = std::env::var_os("POLYLET_POLICIES_DIR").map_or_else(default, PathBuf::from).join(format!("{name}.wasm"));
    assert!(path.is_file(), "{} is not there: policies/build.sh", path.display());
    path.display().to_string()
}

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: a, image: i}]}}";
const QUESTION: &str = r#"{"body": {"assess": {"node": {}, "signals": []}}}"#;

#[test]
fn a_reader_that_has_had_enough_ends_the_command_without_a_word() {
    let world = World::new();
    let manifest = world.write("web.yaml", POD);
    let question = world.write("question.json", QUESTION);
    for arguments in
        [&["explain", &manifest, "-o", "json"][..], &["explain", &manifest], &["policy", "ask", "eviction", "--input", &question]]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = world.command(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(141), ""), "{arguments:?}");
    }
}

#[test]
fn explain_shows_messages_as_objects_and_as_text() {
    let world = World::new();
    let manifest = world.write("web.yaml", POD);
    let shown = world.json(&["explain", &manifest, "--hostname-override", "n1", "-o", "json"]);
    assert_eq!(shown["sandbox"]["metadata"]["name"], "web-n1");
    assert_eq!(shown["containers"][0]["metadata"]["name"], "a");
    let (_, text, _) = world.run(&["explain", &manifest, "--hostname-override", "n1", "--port", "10251"]);
    let files = shown["cgroup"].as_object().unwrap();
    assert!(files.len() > 1, "{files:?}");
    for (file, value) in files.iter().filter(|(file, _)| *file != "parent") {
        assert!(text.contains(&format!("\n  {file}: {}\n", value.as_str().unwrap())), "{file} {value} in {text}");
    }
    for words in [
        "Warning:        flag --port: port: 10251 has no effect: ",
        "Note:           no runtime was asked: ",
        "\n# The message for the sandbox\nmetadata:\n  name: web-n1\n",
        "\n# The message for the container a\nmetadata:\n  name: a\n",
    ] {
        assert!(text.contains(words), "{text}\ndoes not contain {words:?}");
    }
}

#[test]
fn a_directory_is_checked_as_the_agent_would() {
    let world = World::new();
    let load = ["policy", "load", "--hook", "restart", "--name", "gentle", &policy("gentle-restart"), "-o", "json"];
    assert_eq!(world.json(&load)["loaded"], "gentle");
    let directory = world.path("policies").display().to_string();
    let report = world.json(&["policy", "check", &directory, "-o", "json"]);
    assert_eq!((&report["bindings"][0]["name"], &report["bindings"][0]["ok"]), (&json!("gentle"), &json!(true)));

    // Each fails in a way of its own that only a load finds.
    let bound = fs::read_to_string(world.path("policies/gentle.yaml")).unwrap();
    let file = |name: &str, text: &str| {
        world.write(&format!("policies/{name}.yaml"), &text.replace("name: gentle", &format!("name: {name}")))
    };
    file("hook", &bound.replace("hook: restart", "hook: qos"));
    file("lost", &bound.replace("hook: restart", "hook: probe").replace("components/", "lost/"));
    let (status, text, error) = world.run(&["policy", "check", &directory]);
    assert_eq!(status, Some(1), "{text}");
    for words in [
        "gentle (restart, sha256:",
        "): can be bound\n",
        "hook (qos, sha256:",
        "): cannot be bound\n",
        "hook.yaml: spec.hook: the component does not export polylet:policy/qos; it can be bound to restart\n",
        "lost.yaml: spec.component: read ",
    ] {
        assert!(text.contains(words), "{text}\ndoes not contain {words:?}");
    }
    assert_eq!(error, format!("Error: not everything in {directory} can be bound\n"));
}

#[test]
fn a_component_is_checked_and_one_that_is_refused_is_an_object_too() {
    let world = World::new();
    let report = world.json(&["policy", "check", &policy("gentle-restart"), "--hook", "restart", "-o", "json"]);
    assert_eq!((&report["ok"], &report["hooks"]), (&json!(true), &json!(["restart"])));
    let broken = world.write("broken.wasm", "no component");
    let (status, said, error) = world.run(&["policy", "check", &broken, "-o", "json"]);
    let report: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said:?}"));
    assert_eq!((status, &report["ok"]), (Some(1), &json!(false)));
    assert_eq!(error, format!("Error: {}\n", report["error"].as_str().unwrap()));
    let (status, said, _) = world.run(&["policy", "check", &broken]);
    assert_eq!((status, said.as_str()), (Some(1), ""));
}

#[test]
fn limits_are_given_and_kept() {
    let world = World::new();
    let component = policy("gentle-restart");
    let load = |more: &[&str]| {
        let arguments =
            [&["policy", "load", "--hook", "restart", "--name", "gentle", &component, "-o", "json"][..], more].concat();
        world.run(&arguments)
    };
    let report =
        |said: (Option<i32>, String, String)| serde_json::from_str::<Value>(&said.1).unwrap_or_else(|_| panic!("{said:?}"));
    let given = report(load(&["--fuel", "1000000", "--timeout", "250ms", "--memory", "8Mi"]));
    let limits = json!({"fuel": 1_000_000, "timeout": "250ms", "memory": 8 << 20});
    assert_eq!((&given["limits"], &given["note"]), (&limits, &Value::Null));
    let kept = report(load(&["--fuel", "2000000"]));
    assert_eq!((&kept["limits"]["fuel"], &kept["limits"]["timeout"]), (&json!(2_000_000), &json!("250ms")));
    assert_eq!(kept["note"], "limits that were not given are kept from the binding of this name");
    let (status, _, error) = load(&["--timeout", "5s"]);
    assert_eq!(status, Some(1));
    assert!(error.contains("spec.limits.timeout: ") && error.contains("from 1ms to 1s for restart"), "{error}");
    for (flag, value, bounds) in [
        ("--fuel", "0", "spec.limits.fuel: Invalid value: 0: must be a whole number from 1000 to 1000000000 for restart"),
        (
            "--memory",
            "1",
            "spec.limits.memory: Invalid value: 1: must be a number of bytes, or one with Ki or Mi, from 65536 to ",
        ),
    ] {
        let (status, _, error) = load(&[flag, value]);
        assert!(status == Some(1) && error.starts_with(&format!("Error: this cannot be bound: {bounds}")), "{error}");
    }
    let (status, _, error) = load(&["--memory", "much"]);
    assert!(status == Some(2) && error.contains("not a number of bytes such as 65536, 64Ki or 8Mi"), "{error}");
}

/// An agent that finds fault with a binding, and reads the directory `policies` beside its socket.
struct Refusing(PathBuf);

impl Refusing {
    /// Answers at the world's socket, until cancelled.
    fn serve(world: &World) -> CancellationToken {
        let (socket, stop) = (world.path("agent.sock"), CancellationToken::new());
        let listener = polylet_server::bind_admin(&socket).unwrap();
        let agent = Arc::new(Self(world.path("policies")));
        tokio::spawn(polylet_server::serve_admin(listener, socket, agent, stop.clone()));
        stop
    }
}

impl Admin for Refusing {
    fn get(&self, what: Query) -> BoxFuture<Result<Value, AdminError>> {
        let directory = self.0.clone();
        Box::pin(async move {
            match what {
                Query::Reload { .. } => Ok(json!({
                    "generation": 3,
                    "errors": ["/policies/gentle.yaml: spec.component: no"],
                    "refused": [{"binding": "gentle", "hooks": ["restart"]}],
                })),
                Query::Policies => Ok(json!({"directory": directory})),
                other => Err(AdminError { status: 404, message: format!("{other:?}") }),
            }
        })
    }

    fn decisions(&self, _: DecisionQuery) -> Result<tokio::sync::mpsc::Receiver<String>, AdminError> {
        Err(AdminError { status: 404, message: "none".into() })
    }

    fn log(&self, _: LogQuery) -> BoxFuture<Result<Pieces, AdminError>> {
        Box::pin(async { Err(AdminError { status: 404, message: "none".into() }) })
    }

    fn exec(&self, _: ExecQuery) -> BoxFuture<Result<Session, AdminError>> {
        Box::pin(async { Err(AdminError { status: 404, message: "none".into() }) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_the_agent_does_not_read_is_refused() {
    let world = World::new();
    let stop = Refusing::serve(&world);
    let other = world.path("other").display().to_string();
    let component = policy("gentle-restart");
    for arguments in [
        &["policy", "load", "--hook", "restart", &component, "--policy-dir", &other][..],
        &["policy", "revert", "restart", "--policy-dir", &other],
        &["policy", "unbind", "restart", "--policy-dir", &other],
    ] {
        let (status, _, error) = world.run(arguments);
        assert_eq!(status, Some(1), "{error}");
        assert!(error.contains(&format!("not from {other}: name that with --policy-dir or POLYLET_POLICY_DIR")), "{error}");
    }
    assert!(!world.path("other").exists(), "nothing is written there");
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_agent_refuses_is_no_success() {
    let world = World::new();
    let stop = Refusing::serve(&world);
    let component = policy("gentle-restart");
    let (status, report, error) =
        world.run(&["policy", "load", "--hook", "restart", &component, "--name", "gentle", "-o", "json"]);
    assert_eq!(status, Some(1), "{report}");
    assert_eq!(error, "Error: the agent refuses a binding for restart; what it had bound stays\n");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["errors"], json!(["/policies/gentle.yaml: spec.component: no"]));
    // Of another binding: that is told, and no failure of this one.
    let default = policy("default");
    let (status, report, _) = world.run(&["policy", "load", "--hook", "qos", &default, "--name", "other", "-o", "json"]);
    assert_eq!(status, Some(0));
    assert!(report.contains("/policies/gentle.yaml"), "{report}");
    stop.cancel();
}

#[test]
fn a_question_is_asked_out_of_a_record() {
    let world = World::new();
    let record = world.write("record.json", &format!(r#"{{"seq": 1, "hook": "eviction", "question": {QUESTION}}}"#));
    let verdict = world.json(&["policy", "ask", "eviction", "--input", &record]);
    assert_eq!(verdict["answer"]["Ok"], json!({"assess": []}));
    let odd = world.write("odd.json", &QUESTION.replace("\"signals\"", "\"signal\": 1, \"signals\""));
    let (status, _, error) = world.run(&["policy", "ask", "eviction", "--input", &odd]);
    assert_eq!((status, error), (Some(1), format!("Error: {odd}: body.assess.signal: Unknown field\n")));
}
