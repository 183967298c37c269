//! A private node in a directory of its own, with the agent's configuration in it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use polylet_runtime::Client;
use polylet_server::AdminClient;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::agent::Agent;
use crate::pod::Pod;
use crate::wait::{patience, wait};
use crate::{View, cri};

/// Nodes that run at once: two cores carry no more.
const AT_ONCE: usize = 4;

/// What the first agent has compiled, by the names of the files: the nodes after it begin with that. On a slow machine they would do
/// little else at first.
static COMPILED: OnceLock<Vec<(OsString, Vec<u8>)>> = OnceLock::new();

/// A node with an agent.
#[derive(Debug)]
pub struct Node {
    pub(crate) dir: PathBuf,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) agent: Mutex<Agent>,
    pub(crate) runtime: Runtime,
    pub(crate) cri: Client,
    pub(crate) admin: AdminClient,
    _place: Place,
}

impl Node {
    /// Brings a node up and starts the agent on it, until both are ready.
    ///
    /// # Panics
    /// When that cannot be, saying what is missing: not root, no containerd, no agent.
    pub fn up() -> Self {
        let node = Self::without_agent();
        node.start_agent();
        node
    }

    /// A node on which the agent has not been started.
    ///
    /// # Panics
    /// As [`Node::up`].
    pub fn without_agent() -> Self {
        Self::numbered(0)
    }

    /// Likewise; its addresses are not those of a node of another number.
    ///
    /// # Panics
    /// As [`Node::up`].
    pub fn numbered(number: u8) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let place = Place::take();
        let dir = std::env::temp_dir().join(format!("e2e-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
        locked(&UP).insert(dir.clone());
        let up = lab_command(&dir, "up", &[]).env("NODE_NUMBER", number.to_string()).output().expect("run tests/lab/node.sh");
        if !up.status.success() {
            take_down(&dir);
            panic!("the node does not come up; end-to-end tests need root and what tests/lab/install.sh installs\n{}", both(&up));
        }
        let env = environment(&dir);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let socket = format!("unix://{}", env["CONTAINERD_SOCK"]).parse().expect("an endpoint");
        let cri = runtime.block_on(async { Client::new(polylet_runtime::Config::new(socket)) });
        let admin = AdminClient::new(dir.join("polylet.sock"));
        let node = Self { dir, env, agent: Mutex::default(), runtime, cri, admin, _place: place };
        node.configure();
        node
    }

    fn configure(&self) {
        let dir = self.dir.display();
        for name in ["manifests", "policies", "kubelet", "logs/pods"] {
            std::fs::create_dir_all(self.dir.join(name)).expect("make a directory");
        }
        let (socket, cgroups) = (&self.env["CONTAINERD_SOCK"], &self.env["CGROUP_ROOT"]);
        let kubelet = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: {dir}/manifests
podLogsDir: {dir}/logs/pods
containerRuntimeEndpoint: unix://{socket}
cgroupRoot: {cgroups}
clusterDomain: cluster.local
failCgroupV1: false
failSwapOn: false
"
        );
        let polylet = format!(
            "apiVersion: polylet.io/v1alpha1
kind: PolyletConfiguration
policyDirectory: {dir}/policies
cacheDirectory: {dir}/policy-cache
stateDirectory: {dir}/state
adminSocket: {dir}/polylet.sock
kernelTunables: leave
"
        );
        let cache = self.policy_cache();
        // The agent loads code from nowhere where others can write.
        std::fs::DirBuilder::new().mode(0o700).create(&cache).expect("make a directory");
        for (name, bytes) in COMPILED.get().into_iter().flatten() {
            std::fs::write(cache.join(name), bytes).expect("write what is compiled");
        }
        std::fs::write(self.dir.join("config.yaml"), kubelet).expect("write config.yaml");
        std::fs::write(self.dir.join("polylet.yaml"), polylet).expect("write polylet.yaml");
    }

    /// Keeps what has been compiled for the nodes that follow.
    pub(crate) fn keep_compiled(&self) {
        COMPILED.get_or_init(|| {
            let files = std::fs::read_dir(self.policy_cache()).expect("list what is compiled").flatten();
            files.map(|file| (file.file_name(), std::fs::read(file.path()).expect("read what is compiled"))).collect()
        });
    }

    fn policy_cache(&self) -> PathBuf {
        self.dir.join("policy-cache")
    }

    /// The node's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A variable of the node's `env` file: `NODE_IP`, `CGROUP_ROOT`, …
    ///
    /// # Panics
    /// Where there is none of this name.
    pub fn env(&self, name: &str) -> &str {
        self.env.get(name).unwrap_or_else(|| panic!("{name} is not in the node's env file"))
    }

    /// Declares a pod of this name; `spec` is what stands below `spec:`, in YAML with any indentation, where `image: busybox`
    /// stands for the lab's image.
    pub fn pod(&self, name: &str, spec: &str) -> Pod<'_> {
        self.pod_of(name, "", spec)
    }

    /// Likewise, with labels: `team: one, tier: two`.
    pub fn pod_of(&self, name: &str, labels: &str, spec: &str) -> Pod<'_> {
        Pod::declare(self, name, labels, spec)
    }

    /// Adds lines to one of the agent's configuration files, for its next start.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn append(&self, file: &str, lines: &str) {
        let mut text = std::fs::read_to_string(self.dir.join(file)).expect("read the configuration");
        text.push_str(lines);
        std::fs::write(self.dir.join(file), text).expect("write the configuration");
    }

    /// Declares a pod of this name by its whole manifest.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn pod_by_manifest(&self, name: &str, manifest: &str) -> Pod<'_> {
        Pod::declare_whole(self, name, manifest)
    }

    /// Writes a file into the static directory, whole and in one move.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write_manifest(&self, file: &str, text: impl AsRef<[u8]>) {
        let hidden = self.dir.join(format!("manifests/.{file}"));
        std::fs::write(&hidden, text).expect("write a manifest");
        std::fs::rename(&hidden, self.dir.join("manifests").join(file)).expect("name the manifest");
    }

    /// Removes a file from the static directory, where it is there.
    pub fn remove_manifest(&self, file: &str) {
        // It may be gone already, with the node.
        let _ = std::fs::remove_file(self.dir.join("manifests").join(file));
    }

    /// What the agent answers at a path of its socket; None when it does not.
    pub fn ask(&self, path: &str) -> Option<Value> {
        self.runtime.block_on(self.admin.get(path)).ok()
    }

    /// What the agent says of itself and the node; null when it does not answer.
    pub fn node(&self) -> Value {
        self.ask("/v1/node").unwrap_or_default()
    }

    /// Every pod that the agent knows; empty when it does not answer.
    pub fn views(&self) -> Vec<View> {
        let pods = self.ask("/v1/pods").unwrap_or_default();
        pods.as_array().into_iter().flatten().cloned().map(View).collect()
    }

    /// Waits for something of the node.
    ///
    /// # Panics
    /// When it does not come, with the end of the agent's log.
    pub fn until<T>(&self, what: &str, look: impl FnMut() -> Option<T>) -> T {
        wait(what, patience(), look, || self.state())
    }

    /// Waits until the condition holds.
    ///
    /// # Panics
    /// As [`Node::until`].
    pub fn until_true(&self, what: &str, mut holds: impl FnMut() -> bool) {
        self.until(what, || holds().then_some(()));
    }

    /// What stands in the agent's log, of all its lives.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("agent.log")).unwrap_or_default()
    }

    /// Ends containerd with SIGKILL, and nothing else.
    ///
    /// # Panics
    /// When it does not end.
    pub fn kill_containerd(&self) {
        self.lab("stop-containerd", &["--kill"]);
    }

    /// Starts containerd again, until it serves.
    ///
    /// # Panics
    /// When it does not.
    pub fn start_containerd(&self) {
        self.lab("start-containerd", &[]);
    }

    /// Keeps containerd from doing anything, without ending it.
    ///
    /// # Panics
    /// When it does not run.
    pub fn freeze_containerd(&self) {
        self.signal_containerd(Signal::STOP);
    }

    /// Lets it go on.
    ///
    /// # Panics
    /// When it does not run.
    pub fn thaw_containerd(&self) {
        self.signal_containerd(Signal::CONT);
    }

    fn signal_containerd(&self, signal: Signal) {
        let text = std::fs::read_to_string(self.dir.join("containerd.pid")).expect("containerd's process");
        let pid = text.trim().parse().ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("signal containerd");
    }

    /// Joins the networks of two nodes: each reaches the other and its pods.
    ///
    /// # Panics
    /// When they have the same number.
    pub fn link(&self, other: &Self) {
        let dir = other.dir.to_string_lossy();
        self.lab("link", &[&dir]);
    }

    /// Runs a command inside the node's namespaces.
    pub fn inside(&self, command: &[&str]) -> Output {
        lab(&self.dir, "exec", command)
    }

    /// What the runtime tells of itself under a name, as text; empty where it tells nothing.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn runtime_info(&self, name: &str) -> String {
        let status = self.runtime.block_on(self.cri.status(true)).expect("the runtime's status");
        status.info.get(name).cloned().unwrap_or_default()
    }

    /// Every container that the runtime has, of all pods.
    pub fn containers(&self) -> Vec<cri::Container> {
        self.runtime.block_on(self.cri.list_containers(None)).expect("list containers")
    }

    /// For messages: the node, and the end of the agent's log.
    pub(crate) fn state(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let mut text = format!("node: {}\nagent.log:\n", self.node());
        for line in lines.iter().skip(lines.len().saturating_sub(60)) {
            let _ = writeln!(text, "  {line}");
        }
        text
    }

    fn lab(&self, command: &str, arguments: &[&str]) {
        let done = lab(&self.dir, command, arguments);
        assert!(done.status.success(), "node.sh {command}: {}", both(&done));
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill_agent_quietly();
        take_down(&self.dir);
    }
}

/// Nodes that are up: what a signal must take down.
static UP: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Takes the nodes down when the tests are interrupted, and ends the process.
///
/// # Panics
/// When signals cannot be listened for.
pub fn down_on_signals() {
    let signals = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    std::thread::spawn(move || {
        signals.block_on(async {
            let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).expect("SIGTERM");
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        });
        let up: Vec<PathBuf> = locked(&UP).iter().cloned().collect();
        up.iter().for_each(|dir| take_down(dir));
        std::process::exit(130);
    });
}

fn take_down(dir: &Path) {
    // It gives its processes ten seconds, which on a machine that is far too busy they may need several times.
    let mut done = lab(dir, "down", &[]);
    for _ in 0..5 {
        if done.status.success() {
            break;
        }
        done = lab(dir, "down", &[]);
    }
    locked(&UP).remove(dir);
    if !done.status.success() {
        eprintln!("{} is not taken down: {}", dir.display(), both(&done));
    }
}

fn lab(dir: &Path, command: &str, arguments: &[&str]) -> Output {
    lab_command(dir, command, arguments).output().expect("run tests/lab/node.sh")
}

fn lab_command(dir: &Path, command: &str, arguments: &[&str]) -> Command {
    let mut script = Command::new(lab_script());
    script.arg(command).arg(dir).args(arguments);
    script
}

pub(crate) fn lab_script() -> PathBuf {
    krate().with_file_name("lab").join("node.sh")
}

/// Where this crate is, as cargo says now: it may have been built for another tree.
pub(crate) fn krate() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where its crate is"))
}

/// `NAME=value` by line, as the shell quotes it: none of these values needs quotes.
fn environment(dir: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(dir.join("env")).expect("read the node's env file");
    text.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

pub(crate) fn both(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A test that failed while it held the lock has left nothing half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One of the nodes that may run at once.
#[derive(Debug)]
struct Place;

static TAKEN: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

impl Place {
    fn take() -> Self {
        let mut taken = FREED.wait_while(locked(&TAKEN), |taken| *taken >= AT_ONCE).unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        Self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *locked(&TAKEN) -= 1;
        FREED.notify_one();
    }
}
