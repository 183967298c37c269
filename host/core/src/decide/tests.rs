use std::fmt::Write;

use serde_json::json;

use super::*;
use crate::observed::{Sandbox, SandboxState};
use crate::testing::{attempt, pod, sandbox};

/// Containers are written `a`, `i:init`, `s:sidecar`, each of image `img`.
fn spec(policy: &str, containers: &str) -> Pod {
    let (mut init, mut app) = (Vec::new(), Vec::new());
    for word in containers.split_whitespace() {
        match word.split_once(':') {
            None => app.push(json!({"name": word, "image": "img"})),
            Some((name, "init")) => init.push(json!({"name": name, "image": "img"})),
            Some((name, _)) => init.push(json!({"name": name, "image": "img", "restartPolicy": "Always"})),
        }
    }
    pod(json!({"restartPolicy": policy, "initContainers": init, "containers": app}))
}

/// What the runtime has, see [`attempt`], in the sandbox `s1`; `!` after a word: made after another definition.
fn have(pod: &Pod, attempts: &str) -> Observed {
    let mut containers: Vec<Attempt> = attempts
        .split_whitespace()
        .map(|word| {
            let found = attempt(word.trim_end_matches('!'));
            let hash = pod.container(found.name.as_str()).map(|c| c.hash.clone()).filter(|_| !word.ends_with('!'));
            Attempt { hash: hash.unwrap_or_else(|| "another".into()), ..found }
        })
        .collect();
    containers.sort_by(|a, b| (&a.name, b.attempt).cmp(&(&b.name, a.attempt)));
    Observed { sandboxes: vec![sandbox("s1", true)], containers, ..Observed::default() }
}

/// The plan in words: `kill ID CAUSE`, `start NAME`, `prune ID`, in this order.
fn drawn(plan: &Plan) -> String {
    let Plan::Run(run) = plan else { return format!("{plan:?}") };
    let mut text = String::new();
    for kill in &run.kill {
        write!(text, "kill {} {:?}, ", kill.id, kill.cause).unwrap();
    }
    for start in &run.start {
        write!(text, "start {}, ", start.name).unwrap();
    }
    for id in &run.prune {
        write!(text, "prune {id}, ").unwrap();
    }
    text.trim_end_matches(", ").to_owned()
}

#[track_caller]
fn check(policy: &str, containers: &str, attempts: &str, expected: &str) {
    let pod = spec(policy, containers);
    let well = |_: &ContainerId| Health { started: true, ..Health::default() };
    assert_eq!(drawn(&decide(&pod, &have(&pod, attempts), &well)), expected, "{policy} {containers}: {attempts}");
}

#[test]
fn an_unknown_container_is_killed_before_anything_follows_it() {
    check("Always", "a b", "a=lost b=run", "kill a-0 UnknownState");
    check("Never", "a", "a=lost", "kill a-0 UnknownState");
    check("Always", "i:init a", "i=lost", "kill i-0 UnknownState");
    check("OnFailure", "i:init a", "i=lost", "kill i-0 UnknownState");
    check("Never", "i:init a", "i=lost", "End(InitFailed)");
    check("Never", "s:sidecar a", "s=lost", "kill s-0 UnknownState");
    check("Always", "s:sidecar a", "s=lost a=run", "kill s-0 UnknownState");
}

#[test]
fn an_unknown_sandbox_is_looked_at_again_and_not_replaced() {
    let pod = spec("Always", "a");
    let unknown = |id: &str, attempt| Sandbox { attempt, state: SandboxState::Unknown, ..sandbox(id, true) };
    let well = |_: &ContainerId| Health::default();
    let mut seen = have(&pod, "a=run");
    seen.sandboxes = vec![unknown("s1", 0)];
    assert_eq!(decide(&pod, &seen, &well), Plan::Look);
    seen.sandboxes = vec![Sandbox { attempt: 1, ..sandbox("s2", false) }, unknown("s1", 0)];
    assert_eq!(decide(&pod, &seen, &well), Plan::Sandbox { attempt: 2, replace: true }, "the newest is known, and is not ready");
}

#[test]
fn a_finished_job_waits_for_no_sidecar() {
    check("Never", "s:sidecar a", "s=1 a=0", "End(Completed)");
    check("OnFailure", "s:sidecar a b", "s#3=0 a=0 b#1=0", "End(Completed)");
    check("OnFailure", "s:sidecar a", "s=1 a=1", "start s");
    // One that runs is ended with the pod.
    check("Never", "s:sidecar a", "s=run a=0", "End(Completed)");
    check("Never", "s:sidecar t:sidecar a", "s=1 t=run a=0", "End(Completed)");
    check("Always", "s:sidecar a", "s=1 a=0", "start s");
}

#[test]
fn what_was_made_after_another_definition_is_not_started() {
    check("Always", "a", "a=made", "start a");
    check("Always", "a", "a=made!", "prune a-0");
    check("Always", "i:init a", "i=made", "start i");
    check("Always", "i:init a", "i=made!", "prune i-0");
}

#[test]
fn of_init_containers_the_one_that_ended_last_stays() {
    check("Always", "i:init a", "i=1 i#1=run", "");
    check("Always", "i:init a", "i=1 i#1=1 i#2=run", "prune i-0");
    check("Always", "i:init a", "i=1 i#1=1", "start i, prune i-0");
    check("Always", "s:sidecar a", "s=1 s#1=run a=run", "");
}

#[test]
fn kills_are_told_in_upstreams_words() {
    let pod = spec("Always", "s:sidecar a");
    let sick = |_: &ContainerId| Health { started: true, unhealthy: true, ..Health::default() };
    let messages = |attempts: &str, health: &dyn Fn(&ContainerId) -> Health| match decide(&pod, &have(&pod, attempts), health) {
        Plan::Run(run) => run.kill.into_iter().map(|kill| kill.message).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        messages("s=run a=run", &sick),
        ["Init container s failed liveness probe", "Container a failed liveness probe, will be restarted"]
    );
    assert_eq!(
        messages("s=run! a=run!", &sick),
        ["Init container s definition changed", "Container a definition changed, will be restarted"]
    );
    let late = |_: &ContainerId| Health { not_started: true, ..Health::default() };
    assert_eq!(
        messages("s=run a=run", &late),
        ["Init container s failed startup probe", "Container a failed startup probe, will be restarted"]
    );
    let well = |_: &ContainerId| Health { started: true, ..Health::default() };
    assert_eq!(messages("s=run a=lost", &well), ["Container is in \"unknown\" state, try killing it before restart"]);
}
