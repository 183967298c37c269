//! The agent as a child process: started, signalled, waited for; and its command line.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::node::{Node, both, lab_script, locked};
use crate::wait::{patience, wait};

/// The process, where one runs.
#[derive(Debug, Default)]
pub(crate) struct Agent(Option<Child>);

impl Node {
    /// Starts the agent, until the node is ready.
    ///
    /// # Panics
    /// When it ends, or is not ready in time.
    pub fn start_agent(&self) {
        self.start_agent_with(&[]);
    }

    /// Likewise, with more flags.
    ///
    /// # Panics
    /// As [`Node::start_agent`].
    pub fn start_agent_with(&self, flags: &[&str]) {
        self.spawn(flags);
        self.until_ready();
    }

    /// Starts the agent, and waits for nothing.
    ///
    /// # Panics
    /// When it cannot be started, or one runs already.
    pub fn spawn_agent(&self) {
        self.spawn(&[]);
    }

    fn spawn(&self, flags: &[&str]) {
        let mut agent = locked(&self.agent);
        assert!(agent.0.is_none(), "the agent runs already");
        let log = File::options().create(true).append(true).open(self.dir.join("agent.log")).expect("open agent.log");
        let mut command = self.agent_command();
        command.args(flags).stdin(Stdio::null()).stderr(log.try_clone().expect("a second descriptor")).stdout(log);
        agent.0 = Some(command.spawn().expect("start the agent"));
    }

    /// `polylet run` with this node's configuration, in its namespaces.
    pub fn agent_command(&self) -> Command {
        let mut command = Command::new(lab_script());
        command.arg("exec").arg(&self.dir).arg(binary()).arg("run");
        command.arg("--config").arg(self.dir.join("config.yaml"));
        command.arg("--polylet-config").arg(self.dir.join("polylet.yaml"));
        command.arg("--root-dir").arg(self.dir.join("kubelet")).args(["--hostname-override", "e2e"]);
        command.env("TMPDIR", self.dir.join("tmp"));
        command
    }

    /// Waits until the node is ready and the default component answers: until that is loaded, the native rung does.
    ///
    /// # Panics
    /// When the agent ends, or is not ready in time.
    pub fn until_ready(&self) {
        self.until_true("the node is ready and judges by the default component", || {
            let ended = locked(&self.agent).0.as_mut().and_then(|child| child.try_wait().expect("ask for the agent's end"));
            assert!(
                ended.is_none(),
                "the agent has ended: {}\n{}",
                ended.map(|e| e.to_string()).unwrap_or_default(),
                self.state()
            );
            let judges = |hook: &str| self.ladder(hook).iter().any(|rung| rung["rung"] == "default");
            self.node()["ready"] == true && ["restart", "probe", "qos", "eviction"].into_iter().all(judges)
        });
        self.keep_compiled();
    }

    /// Sends the agent a signal and waits for its end.
    ///
    /// # Panics
    /// When none runs, or it does not end.
    pub fn end_agent(&self, signal: Signal) -> ExitStatus {
        let mut child = locked(&self.agent).0.take().expect("an agent that runs");
        send(&child, signal);
        wait("the agent ends", patience(), || child.try_wait().expect("ask for the agent's end"), || self.state())
    }

    /// The agent's process.
    ///
    /// # Panics
    /// When none runs.
    pub fn agent_pid(&self) -> u32 {
        locked(&self.agent).0.as_ref().expect("an agent that runs").id()
    }

    /// Bytes of memory that the agent holds now.
    ///
    /// # Panics
    /// When none runs.
    pub fn agent_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.agent_pid())).expect("the agent's status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }

    /// Runs the command line against this node's agent.
    pub fn cli(&self, arguments: &[&str]) -> Output {
        self.cli_command(arguments).stdin(Stdio::null()).output().expect("run the command line")
    }

    /// The command line against this node's agent, not yet run.
    pub fn cli_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).env("POLYLET_SOCKET", self.dir.join("polylet.sock"));
        command.env("POLYLET_POLICY_DIR", self.dir.join("policies")).env("TMPDIR", self.dir.join("tmp"));
        command
    }

    /// Runs the command line, which must succeed; its standard output.
    ///
    /// # Panics
    /// When it does not.
    pub fn cli_ok(&self, arguments: &[&str]) -> String {
        let output = self.cli(arguments);
        assert!(output.status.success(), "polylet {}: {}", arguments.join(" "), both(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Runs the command line, which must fail; what it says.
    ///
    /// # Panics
    /// When it does not.
    pub fn cli_refused(&self, arguments: &[&str]) -> String {
        let output = self.cli(arguments);
        assert_eq!(output.status.code(), Some(1), "polylet {}: {}", arguments.join(" "), both(&output));
        String::from_utf8(output.stderr).expect("UTF-8")
    }

    pub(crate) fn kill_agent_quietly(&self) {
        if let Some(mut child) = locked(&self.agent).0.take() {
            send(&child, Signal::KILL);
            // What is not its child any more is not there to be waited for.
            let _ = child.wait();
        }
    }
}

fn send(child: &Child, signal: Signal) {
    // It may have ended by itself: its status tells.
    let _ = kill_process(Pid::from_child(child), signal);
}

/// `POLYLET_BIN`, else the one that cargo built beside this test.
fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("POLYLET_BIN") {
        return named.into();
    }
    let test = std::env::current_exe().expect("the test's own path");
    let built = test.parent().and_then(Path::parent).expect("target/<profile>/deps").join("polylet");
    assert!(built.is_file(), "{} is not there: cargo build --workspace, or set POLYLET_BIN", built.display());
    built
}
