//! Policies that mean harm, on a live node: refused with a reason, or failing one question at a time while the default decides.

use std::time::{Duration, Instant};

use polylet_e2e::{Node, policy_file};
use polylet_policy::{Install, LimitSpec, install};
use serde_json::json;

/// Bytes that the agent may have taken in all that these tests do to it.
const GROWTH: u64 = 128 << 20;

/// A port of the node where the test answers what the probes ask.
const PORT: u16 = 8099;

/// Pods whose probes ask for eight decisions a second.
const PROBED: &str = "
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sleep, '1000']
    readinessProbe: {httpGet: {host: NODE_IP, path: /, port: 8099}, periodSeconds: 1, failureThreshold: 3}
    livenessProbe: {httpGet: {host: NODE_IP, path: /, port: 8099}, periodSeconds: 1, failureThreshold: 3}";

const CRASHER: &str = "
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: busybox, command: ['false']}";

/// The agent is well: it answers soon, has not grown, and its pods are as they were.
fn is_well(node: &Node, pods: &[polylet_e2e::Pod<'_>], before: u64, what: &str) {
    let began = Instant::now();
    assert_eq!(node.node()["ready"], true, "{what}: {}", node.node());
    assert!(began.elapsed() < Duration::from_secs(5), "{what}: the agent took {:?} to answer", began.elapsed());
    let now = node.agent_memory();
    assert!(now < before + GROWTH, "{what}: the agent has grown from {before} to {now} bytes");
    for pod in pods {
        let view = pod.until_runs("main");
        assert!(view.is_ready() && view.restarts("main") == 0, "{what}: {}", view.pretty());
    }
}

fn probed(node: &Node) -> Vec<polylet_e2e::Pod<'_>> {
    let spec = PROBED.replace("NODE_IP", node.env("NODE_IP"));
    let pods: Vec<_> = (0..4).map(|n| node.pod(&format!("probed-{n}"), &spec)).collect();
    pods.iter().for_each(|pod| drop(pod.until_ready()));
    pods
}

pub(crate) fn policies_that_are_refused() {
    let node = Node::up();
    let (_asked, _listening) = node.network().serve_http(PORT, 200);
    let pods = probed(&node);
    let before = node.agent_memory();
    let ladder = node.ladder("restart");
    let text = node.dir().join("text.wasm");
    std::fs::write(&text, "not WebAssembly at all\n").expect("write a file");
    let half = node.dir().join("half.wasm");
    let whole = std::fs::read(policy_file("gentle-restart")).expect("read a component");
    std::fs::write(&half, &whole[..whole.len() / 2]).expect("write a file");
    let cases = [
        (
            policy_file("hostile/forbidden-import"),
            "imports wasi:clocks/wall-clock@0.2.3, which a policy may not use; allowed are",
        ),
        (policy_file("hostile/wrong-type"), "with a function `decide` that does not fit the contract"),
        (text.to_string_lossy().into_owned(), "is not a WebAssembly component"),
        (half.to_string_lossy().into_owned(), "is not a WebAssembly component"),
    ];
    for (component, words) in &cases {
        let said = node.cli_refused(&["policy", "load", "--hook", "restart", "--name", "hostile", component]);
        assert!(said.contains(words), "{component}: {said}\nwanted: {words}");
        assert_eq!(node.ladder("restart"), ladder, "{component}");
        is_well(&node, &pods, before, component);
    }
    // Whoever goes around the command line is refused by the agent, which keeps what was bound.
    node.load("restart", "gentle", &policy_file("gentle-restart"), "{}");
    let bound = node.rung("restart", "gentle").expect("it is bound")["rung"].clone();
    for (component, words) in &cases {
        let bytes = std::fs::read(component).expect("read a component");
        put(&node, "restart", "gentle", &bytes, LimitSpec::default());
        let errors = node.reload();
        assert!(errors.iter().any(|error| error.contains(words)), "{component}: {errors:?}");
        assert_eq!(node.rung("restart", "gentle").map(|rung| rung["rung"].clone()), Some(bound.clone()), "{component}");
        node.until_true("the log says so", || {
            node.log().lines().any(|l| l.contains("a binding is in error") && l.contains(words))
        });
        let listed = node.cli_ok(&["policy", "list"]);
        assert!(listed.lines().any(|l| l.starts_with("error: ") && l.contains(words)), "{component}: {listed}");
        is_well(&node, &pods, before, component);
    }
}

/// One that takes the compiler all that it may have holds up nobody else.
pub(crate) fn a_policy_that_is_costly_to_compile() {
    let node = Node::up();
    let (_asked, _listening) = node.network().serve_http(PORT, 200);
    let pods = probed(&node);
    let before = node.agent_memory();
    let ladder = node.ladder("restart");
    let (costly, words) = (policy_file("hostile/costly"), "is too costly to compile: it took ");
    let said = node.cli_refused(&["policy", "load", "--hook", "restart", "--name", "hostile", &costly]);
    assert!(said.contains(words), "{said}\nwanted: {words}");
    assert_eq!(node.ladder("restart"), ladder);
    is_well(&node, &pods, before, &costly);

    // Nor does one that goes around the command line.
    node.load("restart", "gentle", &policy_file("gentle-restart"), "{}");
    let bound = node.rung("restart", "gentle").expect("it is bound")["rung"].clone();
    put(&node, "probe", "costly", &std::fs::read(&costly).expect("read a component"), LimitSpec::default());
    node.until_true("it is compiled", || node.log().lines().any(|l| l.contains("a policy is compiled") && l.contains("costly")));
    node.cli_ok(&["policy", "unbind", "restart"]);
    assert_ne!(node.rung("restart", "gentle").map(|rung| rung["rung"].clone()), Some(bound));
    let listed = || node.cli_ok(&["policy", "list"]);
    assert!(!listed().contains(words), "the command waited for the compiler");
    node.until_true("it is refused", || listed().lines().any(|l| l.starts_with("error: ") && l.contains(words)));
    node.reload();
    let compiled = node.log().lines().filter(|l| l.contains("a policy is compiled") && l.contains("costly")).count();
    assert_eq!(compiled, 1, "what was refused is not compiled at each look");
    is_well(&node, &pods, before, &costly);
}

/// Puts a binding into the directory, as whoever goes around the command line would.
fn put(node: &Node, hook: &str, name: &str, component: &[u8], limits: LimitSpec) {
    let hook = serde_json::from_value(json!(hook)).expect("a hook");
    let what = Install { name, hook, component, config: json!({}), limits };
    install(&node.dir().join("policies"), &what).expect("write the binding");
}

/// What each does when asked, and what is recorded of it: the kind of failure and the beginning of its message.
const FAILING: [(&str, &str, &str); 5] = [
    ("loop", "fuel", "spent its budget of "),
    ("memory", "memory", "wants "),
    ("recursion", "trap", "the stack overflowed: it recurses too deeply"),
    ("panic", "trap", "panicked at "),
    ("huge", "bad-answer", "the "),
];

pub(crate) fn policies_that_fail_when_asked() {
    let node = Node::up();
    let (_asked, _listening) = node.network().serve_http(PORT, 200);
    let pods = probed(&node);
    let before = node.agent_memory();
    let decisions = node.follow();
    node.load("eviction", "loop-eviction", &policy_file("hostile/loop"), "{}");
    for (name, kind, words) in FAILING {
        let component = std::fs::read(policy_file(&format!("hostile/{name}"))).expect("read a component");
        // It touches the memory that it takes: with all that it may have, fuel or time would end it first on a slow machine.
        let memory = (name == "memory").then_some(4 << 20);
        for hook in ["probe", "restart", "qos"] {
            put(&node, hook, &format!("{name}-{hook}"), &component, LimitSpec { memory, ..LimitSpec::default() });
        }
        let bound = |hook: &str| node.rung(hook, &format!("{name}-{hook}"));
        node.until_true(&format!("{name} is bound"), || ["probe", "restart", "qos"].iter().all(|hook| bound(hook).is_some()));
        let crasher = node.pod(&format!("crasher-{name}"), CRASHER);
        // The default decides: ten seconds after the second failure.
        let view = crasher.until("it waits 10 s", |view| view.waits("main") == "CrashLoopBackOff");
        assert_eq!(view.beside("main")["restartDelay"], 10_000, "{name}");
        assert!(node.pod_cgroup("besteffort", view.uid()).exists(), "{name}");
        node.until_true(&format!("the breaker of {name} opens"), || {
            bound("probe").is_some_and(|rung| rung["restingFor"].as_u64().is_some())
        });
        for hook in ["probe", "restart", "qos"] {
            let record = node.until(&format!("a {hook} decision records how {name} fails"), || {
                decisions.of(hook).into_iter().find(|r| r["asked"][0][0]["bound"]["name"] == format!("{name}-{hook}"))
            });
            let failure = &record["asked"][0][1]["answer"]["Err"];
            assert_eq!(failure["kind"], kind, "{name} {hook}: {record}");
            let message = failure["message"].as_str().unwrap_or_default();
            assert!(message.starts_with(words), "{name} {hook}: {message}");
            assert!(message.len() <= 512, "{name} {hook}: {} bytes of message", message.len());
            assert_eq!(record["asked"][1][0], "default", "{name} {hook}: {record}");
            assert!(!record["answer"][hook].is_null(), "{name} {hook}: {record}");
        }
        is_well(&node, &pods, before, name);
    }
    let record = node.until("an eviction decision records how loop fails", || {
        decisions.of("eviction").into_iter().find(|r| r["asked"][0][1]["answer"]["Err"]["kind"] == "fuel")
    });
    assert_eq!(record["asked"][1][0], "default", "{record}");
    absurd_answers_are_bounded(&node);
    is_well(&node, &pods, before, "at the end");
    println!("the agent holds {} MiB, {} before", node.agent_memory() >> 20, before >> 20);
}

/// Absurd answers come in time: what can be bounded is, the rest is refused.
fn absurd_answers_are_bounded(node: &Node) {
    let decisions = node.follow();
    for hook in ["probe", "restart", "qos"] {
        node.load(hook, &format!("absurd-{hook}"), &policy_file("hostile/absurd"), "{}");
    }
    let crasher = node.pod("crasher-absurd", CRASHER);
    let view = crasher.until("it waits as long as may be", |view| view.beside("main")["restartDelay"] == 300_000);
    assert_eq!(view.waits("main"), "CrashLoopBackOff");
    let first = |hook: &str| {
        node.until(&format!("a {hook} decision by absurd"), || {
            decisions.of(hook).into_iter().find(|r| r["asked"][0][0]["bound"]["name"] == format!("absurd-{hook}"))
        })
    };
    let restart = first("restart");
    assert_eq!(restart["clamped"][0], format!("delay {} ms lowered to the bound of 300000 ms", u64::MAX));
    let probe = first("probe");
    assert_eq!(probe["clamped"][0], "next look in 0 ms moved to 1000 ms");
    let reason = probe["answer"]["probe"]["reason"].as_str().unwrap_or_default();
    assert!(!reason.chars().any(char::is_control), "{reason:?}");
    let qos = first("qos");
    assert_eq!(qos["asked"][0][1]["answer"]["Err"]["kind"], "bad-answer", "{qos}");
    assert!(node.pod_cgroup("besteffort", view.uid()).exists());
}
