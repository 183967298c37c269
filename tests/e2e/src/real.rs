//! What the runtime says of a pod: its containers, their processes, and commands run in them.

use std::time::Duration;

use polylet_proto::cri;
use serde_json::Value;

use crate::cgroup::Cgroup;
use crate::node::Node;
use crate::pod::Pod;

/// A running container or sandbox: its first process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Process id, on the machine.
    pub pid: u32,
    /// The OCI configuration that it was started with.
    pub spec: Value,
}

/// What came of a command in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Exit code.
    pub code: i32,
    /// Standard output and standard error.
    pub output: String,
}

impl Node {
    /// Containers of a pod, of all attempts.
    pub fn containers_of(&self, uid: &str) -> Vec<cri::Container> {
        let all = self.containers();
        all.into_iter().filter(|c| c.labels.get("io.kubernetes.pod.uid").is_some_and(|of| of == uid)).collect()
    }

    /// Sandboxes of a pod, of all attempts.
    ///
    /// # Panics
    /// When the runtime does not answer.
    pub fn sandboxes_of(&self, uid: &str) -> Vec<cri::PodSandbox> {
        let all = self.runtime.block_on(self.cri.list_pod_sandbox(None)).expect("list sandboxes");
        all.into_iter().filter(|s| s.metadata.as_ref().is_some_and(|m| m.uid == uid)).collect()
    }

    /// A container as the runtime knows it.
    ///
    /// # Panics
    /// When it does not know it.
    pub fn container(&self, id: &str) -> cri::ContainerStatus {
        let answer = self.runtime.block_on(self.cri.container_status(id, false)).expect("the container's status");
        answer.status.expect("a status")
    }

    /// The first process of a container.
    ///
    /// # Panics
    /// When it does not run.
    pub fn process(&self, id: &str) -> Process {
        let answer = self.runtime.block_on(self.cri.container_status(id, true)).expect("the container's status");
        process(&answer.info)
    }

    /// The first process of a sandbox.
    ///
    /// # Panics
    /// When it does not run.
    pub fn sandbox_process(&self, id: &str) -> Process {
        let answer = self.runtime.block_on(self.cri.pod_sandbox_status(id, true)).expect("the sandbox's status");
        process(&answer.info)
    }

    /// What the runtime says of itself and of its handlers.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn runtime_status(&self) -> cri::StatusResponse {
        self.runtime.block_on(self.cri.status(false)).expect("the runtime's status")
    }

    /// Tells the runtime to write a container's log to a new file, the old one having been moved away.
    ///
    /// # Panics
    /// When it refuses.
    pub fn reopen_log(&self, id: &str) {
        self.runtime.block_on(self.cri.reopen_container_log(id)).expect("reopen the log");
    }

    /// Stops a sandbox behind the agent's back.
    ///
    /// # Panics
    /// When the runtime refuses.
    pub fn stop_sandbox(&self, id: &str) {
        self.runtime.block_on(self.cri.stop_pod_sandbox(id)).expect("stop the sandbox");
    }

    /// Runs a sandbox, as another agent would; its id.
    ///
    /// # Panics
    /// When the runtime refuses.
    pub fn run_sandbox(&self, config: cri::PodSandboxConfig) -> String {
        self.runtime.block_on(self.cri.run_pod_sandbox(config, "")).expect("run the sandbox")
    }

    /// Makes and starts a container in it; its id.
    ///
    /// # Panics
    /// When the runtime refuses.
    pub fn run_container(&self, sandbox: &str, config: cri::ContainerConfig, pod: cri::PodSandboxConfig) -> String {
        let id = self.runtime.block_on(self.cri.create_container(sandbox, config, pod)).expect("make the container");
        self.runtime.block_on(self.cri.start_container(&id)).expect("start the container");
        id
    }

    /// The cgroup of a pod of this class: `burstable`, `besteffort`, or empty for a guaranteed one.
    pub fn pod_cgroup(&self, class: &str, uid: &str) -> Cgroup {
        let tier = if class.is_empty() { String::new() } else { format!("{class}/") };
        Cgroup::at(&format!("{}/kubepods/{tier}pod{uid}", self.env("CGROUP_ROOT")))
    }
}

impl Pod<'_> {
    /// Runs a command in a container that the agent says runs.
    ///
    /// # Panics
    /// When it cannot be run there.
    pub fn exec(&self, container: &str, command: &[&str]) -> Ran {
        let view = self.until_runs(container);
        let words = command.iter().map(|word| (*word).to_owned()).collect();
        let ran = self.node.runtime.block_on(self.node.cri.exec_sync(view.id(container), words, Duration::from_secs(20)));
        let ran = ran.unwrap_or_else(|error| panic!("{container}: {command:?}: {error}"));
        let output = [ran.stdout, ran.stderr].concat();
        Ran { code: ran.exit_code, output: String::from_utf8_lossy(&output).into_owned() }
    }

    /// Runs a command in a container, which must succeed; what it printed.
    ///
    /// # Panics
    /// When it does not.
    pub fn exec_ok(&self, container: &str, command: &[&str]) -> String {
        let ran = self.exec(container, command);
        assert_eq!(ran.code, 0, "{container}: {command:?}: {}", ran.output);
        ran.output
    }

    /// The first process of a container that the agent says runs.
    pub fn process(&self, container: &str) -> Process {
        self.node.process(self.until_runs(container).id(container))
    }

    /// The first process of the pod's only ready sandbox.
    ///
    /// # Panics
    /// When there is not exactly one.
    pub fn sandbox(&self) -> Process {
        let uid = self.until("it is there", |view| !view.uid().is_empty()).uid().to_owned();
        let ready: Vec<cri::PodSandbox> =
            self.node.sandboxes_of(&uid).into_iter().filter(|s| s.state() == cri::PodSandboxState::SandboxReady).collect();
        assert_eq!(ready.len(), 1, "{ready:?}");
        self.node.sandbox_process(&ready[0].id)
    }

    /// What an attempt of a container has printed, without times and streams.
    pub fn printed(&self, uid: &str, container: &str, attempt: u32) -> Vec<String> {
        let path = self.node.dir.join(format!("logs/pods/default_{}_{uid}/{container}/{attempt}.log", self.name()));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).map(str::to_owned).collect()
    }
}

impl Process {
    /// The cgroup that it is in.
    pub fn cgroup(&self) -> Cgroup {
        Cgroup::of(self.pid)
    }

    /// What the kernel calls one of its namespaces: `net`, `pid`, …
    ///
    /// # Panics
    /// When it has ended.
    pub fn namespace(&self, kind: &str) -> String {
        let link = std::fs::read_link(format!("/proc/{}/ns/{kind}", self.pid)).expect("a process that lives");
        link.to_string_lossy().into_owned()
    }
}

fn process(info: &std::collections::BTreeMap<String, String>) -> Process {
    let info: Value = serde_json::from_str(info.get("info").map_or("", String::as_str)).expect("JSON of the runtime");
    let pid = info["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0).expect("a process that runs");
    Process { pid, spec: info["runtimeSpec"].clone() }
}
