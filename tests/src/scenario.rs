//! Scenario scripts with golden output: readable by someone who knows Kubernetes and not Rust.
//!
//! A script has pods (`pod NAME` and an indented manifest), commands (`> …`) and, after each command, what the node did. Time is virtual and
//! begins at zero; calls take fixed times. `UPDATE=1 cargo test -p polylet-tests --test scenarios` writes the outputs anew.
//!
//! | command | what happens |
//! |---|---|
//! | `> declare NAME…` | these pods are what the static source now holds |
//! | `> declare-api NAME…` | likewise for the API source |
//! | `> api silent` / `speaks` | whether anything is heard of the API source |
//! | `> pulls RATE BURST` | the agent begins anew, with so many pulls a second, and at once after a pause |
//! | `> dead EACH TOTAL AGE` | likewise, keeping so many dead containers of each, of all (-1: any number), and any younger than this |
//! | `> memory AMOUNT` | what the node has left (below 1024Mi it is short); `> uses POD AMOUNT`: what a pod uses |
//! | `> run DURATION` | time passes |
//! | `> exit POD/CONTAINER CODE` | the running process ends (137 with `oom` after it: by the OOM killer) |
//! | `> sandbox-dies POD` | the pod's newest sandbox is no longer ready |
//! | `> agent restarts` | killed and begun again with its store; `forgetting` loses the store |
//! | `> machine reboots` | nothing runs any more, the agent begins again |
//! | `> runtime down` / `up`, `> network down` / `up` | what the runtime says of itself |
//! | `> unknown POD/CONTAINER` / `known` | the runtime cannot tell the state of the newest attempt, or can again |
//! | `> sandbox-unknown POD` / `sandbox-known` | the newest sandbox is listed and its status not given, or given again |
//! | `> fail CALL [TIMES] [MESSAGE]` | the next calls of this name fail |
//! | `> takes CALL DURATION` | how long calls of this name take from now on |
//! | `> hook POD/CONTAINER DURATION` | how long the container's hooks take |
//! | `> message POD/CONTAINER TEXT` | the termination message of its next exit |
//! | `> probe POD/CONTAINER KIND ok` / `fails` | what probes find from now on |
//! | `> term POD/CONTAINER DURATION` | how long the process takes to end after TERM |
//! | `> image NAME present` / `absent` | what the runtime has |
//! | `> policy HOOK ANSWER-JSON` / `none` / `traps` | a policy is bound that always answers so |
//! | `> status POD` | the status last published |

mod play;

pub use play::play;

/// One script taken apart.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) pods: Vec<(String, String)>,
    pub(crate) parts: Vec<Part>,
}

/// Text, or a command with the output that follows it.
#[derive(Debug)]
pub(crate) enum Part {
    Text(String),
    Command(String),
}

/// Takes a script apart; outputs are dropped.
pub(crate) fn parse(text: &str) -> Script {
    let mut script = Script { pods: Vec::new(), parts: Vec::new() };
    let mut in_pod = false;
    let mut in_output = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("pod ") {
            script.pods.push((name.trim().to_owned(), String::new()));
            script.parts.push(Part::Text(line.to_owned()));
            (in_pod, in_output) = (true, false);
        } else if line.starts_with("> ") {
            script.parts.push(Part::Command(line.to_owned()));
            (in_pod, in_output) = (false, true);
        } else if in_pod && (line.starts_with("  ") || line.is_empty()) {
            if let Some((_, manifest)) = script.pods.last_mut() {
                manifest.push_str(line);
                manifest.push('\n');
            }
            script.parts.push(Part::Text(line.to_owned()));
        } else if line.starts_with('#') {
            script.parts.push(Part::Text(line.to_owned()));
            (in_pod, in_output) = (false, false);
        } else if !in_output {
            script.parts.push(Part::Text(line.to_owned()));
        }
    }
    script
}
