//! A kubelet on the node in the agent's place: the one that `KUBELET` names.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::node::{Node, lab_script};
use crate::view::View;
use crate::wait::{patience, wait};

/// What a kubelet sets for the whole machine. Here it sets files that stand in the kernel's place.
const SETTINGS: &str = "vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
    kernel/keys/root_maxbytes";

/// What it needs beyond the agent's configuration, to run without an API server and to be asked.
const CONFIGURATION: &str = "\
readOnlyPort: 10255
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
";

/// The kubelet that `KUBELET` names; None where it names none.
pub fn kubelet() -> Option<PathBuf> {
    std::env::var_os("KUBELET").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// A kubelet that runs. It ends with the node at the latest.
#[derive(Debug)]
pub struct Kubelet<'a> {
    node: &'a Node,
    process: Child,
}

impl Node {
    /// Lets a kubelet run on this node's configuration files, before the first start of either.
    pub fn configure_for_a_kubelet(&self) {
        self.append("config.yaml", CONFIGURATION);
    }

    /// Starts the kubelet, in the agent's place.
    ///
    /// # Panics
    /// When it cannot be started, or none is named.
    pub fn start_kubelet(&self) -> Kubelet<'_> {
        let binary = kubelet().expect("KUBELET names one");
        let log = File::options().create(true).append(true).open(self.dir().join("kubelet.log")).expect("open kubelet.log");
        let stand_ins = format!(
            "for setting in {SETTINGS}; do
                file=$0/settings-${{setting//\\//-}}
                [[ -e $file ]] || {{ cat /proc/sys/$setting >$file; mount --bind $file /proc/sys/$setting; }}
            done
            exec \"$@\""
        );
        let mut command = Command::new(lab_script());
        command.arg("exec").arg(self.dir()).args(["bash", "-euc", &stand_ins]).arg(self.dir()).arg(binary);
        command.arg("--config").arg(self.dir().join("config.yaml")).arg("--root-dir").arg(self.dir().join("kubelet"));
        command.args(["--hostname-override", "e2e", "--cert-dir"]).arg(self.dir().join("kubelet-certificates"));
        command.stdin(Stdio::null()).stderr(log.try_clone().expect("a second descriptor")).stdout(log);
        Kubelet { node: self, process: command.spawn().expect("start the kubelet") }
    }
}

impl Kubelet<'_> {
    /// Waits until the kubelet shows a pod that is so.
    ///
    /// # Panics
    /// When it ends, or shows none in time.
    pub fn until(&mut self, pod: &str, what: &str, holds: impl Fn(&View) -> bool) -> View {
        let name = format!("{pod}-e2e");
        let node = self.node;
        let look = || {
            let ended = self.process.try_wait().expect("ask for the kubelet's end");
            assert!(ended.is_none(), "the kubelet has ended: {}", state(node));
            let output = node.inside(&["curl", "--silent", "--fail", "http://127.0.0.1:10255/pods"]);
            let list: Value = serde_json::from_slice(&output.stdout).ok()?;
            let all = list["items"].as_array()?.iter().filter(|item| item["metadata"]["name"] == name.as_str());
            let mut views = all.map(|item| {
                let metadata = &item["metadata"];
                // A kubelet keeps the UID that it made of the manifest beside the one that an API server would have given.
                let uid = metadata["annotations"]["kubernetes.io/config.hash"].as_str().or(metadata["uid"].as_str());
                View(serde_json::json!({"name": name, "uid": uid, "status": item["status"]}))
            });
            views.find(|view| holds(view))
        };
        wait(&format!("the kubelet says of {pod}: {what}"), patience(), look, || state(node))
    }

    /// Ends it, as an operator does, and waits for its end.
    ///
    /// # Panics
    /// When it does not end.
    pub fn end(mut self) {
        // It may have ended by itself: its status tells.
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let node = self.node;
        wait("the kubelet ends", patience(), || self.process.try_wait().expect("ask for its end"), || state(node));
    }
}

impl Drop for Kubelet<'_> {
    fn drop(&mut self) {
        // Ended already, or not to be waited for any longer.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// For messages: the end of what it wrote.
fn state(node: &Node) -> String {
    let log = std::fs::read_to_string(node.dir().join("kubelet.log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    format!("kubelet.log:\n  {}", lines[lines.len().saturating_sub(40)..].join("\n  "))
}
