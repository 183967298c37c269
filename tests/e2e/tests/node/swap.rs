//! Policies are swapped by the command line while a live agent asks them: no decision is lost, none is half made.

use std::time::{Duration, Instant};

use polylet_e2e::{Decisions, Node};
#[allow(dead_code)] // Made for tests of the policy host, which need more of it.
#[path = "../../../../host/policy/tests/common/guest.rs"]
mod guest;

const DECISIONS: usize = 10_000;
const PODS: usize = 6;
const CONTAINERS: usize = 6;

/// Waits as long as its first half says, plus as long as its second half says: half of another's answer would be seen.
fn policy(node: &Node, name: &str, delay: u64) -> String {
    let decide = format!(
        "(drop (call $wait (i64.const {delay})))
        (i64.store (i32.const 528) (i64.add (i64.load (i32.const 528)) (i64.const {delay}0000)))
        (i32.const 512)"
    );
    let path = node.dir().join(format!("{name}.wasm"));
    std::fs::write(&path, guest::restart("", "", &decide)).expect("write a component");
    path.to_string_lossy().into_owned()
}

/// Probes are asked once a second each, at most: they do not make ten thousand decisions in a test's time. But a container that
/// waits for its restart is asked about anew when the restart policy is another: each swap asks about all of them.
pub(crate) fn ten_thousand_decisions_while_policies_are_swapped() {
    let node = Node::up();
    let (a, b) = (policy(&node, "a", 28), policy(&node, "b", 29));
    let delay_of = |name: &str| if name == "a" { 280_028 } else { 290_029 };
    node.load("restart", "a", &a, "{}");
    let container = |n| format!("\n  - {{name: c{n}, image: busybox, command: ['false']}}");
    let spec =
        format!("\n  terminationGracePeriodSeconds: 1\n  containers:{}", (0..CONTAINERS).map(container).collect::<String>());
    let pods: Vec<_> = (0..PODS).map(|n| node.pod(&format!("crashers-{n}"), &spec)).collect();
    let all_wait = |name: &str| {
        for pod in &pods {
            pod.until(&format!("all its containers wait as {name} says"), |view| {
                (0..CONTAINERS).all(|n| view.beside(&format!("c{n}"))["restartDelay"] == delay_of(name))
            });
        }
    };
    all_wait("a");

    let decisions = node.follow();
    node.load("restart", "b", &b, "{}");
    let (began, mut swaps) = (Instant::now(), 1);
    while decisions.count() < DECISIONS {
        // Beyond this the containers are started again.
        let within = Duration::from_secs(240);
        assert!(began.elapsed() < within, "{} decisions by {swaps} swaps in {within:?}", decisions.count());
        assert!(!decisions.has_ended(), "the agent has dropped who followed, after {} decisions", decisions.count());
        node.revert("restart");
        swaps += 1;
    }
    all_wait(if swaps % 2 == 0 { "a" } else { "b" });
    println!("{} decisions by {swaps} swaps in {:.1} s", decisions.count(), began.elapsed().as_secs_f64());
    check(&decisions, swaps * PODS * CONTAINERS, delay_of);
    assert!(pods.iter().all(|pod| pod.now().is_some_and(|view| view.restarts("c0") == 0)), "nothing was started meanwhile");
}

/// `most`: one decision about each container for each swap. A swap may overtake a question, which is then put to the new policy.
fn check(decisions: &Decisions, most: usize, delay_of: impl Fn(&str) -> u64) {
    let (mut count, mut before) = (0, None);
    let mut by = std::collections::BTreeMap::new();
    for record in decisions.each() {
        let number = record["number"].as_u64().expect("a number");
        if let Some(before) = before.replace(number) {
            assert_eq!(number, before + 1, "one is missing between {before} and {number}");
        }
        assert!(record["lost"].is_null(), "the ring has lost some: {record}");
        if record["hook"] != "restart" {
            continue;
        }
        count += 1;
        let asked = record["asked"].as_array().expect("who was asked");
        let name = asked[0][0]["bound"]["name"].as_str().unwrap_or_else(|| panic!("by none that was bound: {record}"));
        let answer = &asked[0][1]["answer"]["Ok"]["restart"]["delay"];
        assert_eq!((asked.len(), answer.as_u64()), (1, Some(delay_of(name))), "{record}");
        assert_eq!(record["answer"]["restart"]["delay"], *answer, "{record}");
        *by.entry(name.to_owned()).or_insert(0) += 1;
    }
    assert!((most / 2..=most).contains(&count), "{count} decisions, {most} at most");
    assert_eq!(by.len(), 2, "{by:?}");
    assert!(by.values().all(|of| *of >= count / 4), "{by:?}");
}
