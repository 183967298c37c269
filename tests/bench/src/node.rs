//! A private node of the lab, with or without an agent on it, that goes when it is dropped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use polylet_runtime::{Client, Config};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/node.sh");

/// A node that runs containerd.
pub(crate) struct Node {
    pub(crate) dir: PathBuf,
    env: BTreeMap<String, String>,
    /// A connection of our own to its runtime.
    pub(crate) client: Client,
}

impl Node {
    /// Starts one in a directory that does not exist yet. Must be called within a Tokio runtime.
    pub(crate) fn up(name: &str) -> anyhow::Result<Self> {
        let dir = std::env::temp_dir().join(format!("polylet-bench-{}-{name}", std::process::id()));
        let up = Command::new(SCRIPT).arg("up").arg(&dir).stdout(Stdio::null()).status().context(SCRIPT)?;
        if !up.success() {
            bail!("{SCRIPT} up {} failed: see above", dir.display());
        }
        // From here on it is taken down, whatever fails.
        let text = std::fs::read_to_string(dir.join("env"))?;
        let env: BTreeMap<String, String> =
            text.lines().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let client = Client::new(Config::new(dir.join("containerd.sock").to_string_lossy().parse()?));
        let node = Self { dir, env, client };
        node.prepare()?;
        Ok(node)
    }

    fn prepare(&self) -> anyhow::Result<()> {
        // The kubelet's /var/log/containers cannot be put elsewhere by configuration: in this node /var/log is its own.
        let mounted = self.command("mount").args(["-t", "tmpfs", "-o", "mode=755", "tmpfs", "/var/log"]).status()?;
        if !mounted.success() {
            bail!("no /var/log of its own in {}", self.dir.display());
        }
        for sub in ["manifests", "policies", "kubelet", "logs/pods", "marks"] {
            std::fs::create_dir_all(self.dir.join(sub))?;
        }
        self.configure("containerd.sock")
    }

    /// Writes the agent's configuration, with the runtime at this socket of the node's directory.
    pub(crate) fn configure(&self, socket: &str) -> anyhow::Result<()> {
        let (dir, cgroup_root) = (self.dir.display(), self.fact("CGROUP_ROOT")?);
        let kubelet = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodPath: {dir}/manifests\n\
             podLogsDir: {dir}/logs/pods\ncontainerRuntimeEndpoint: unix://{dir}/{socket}\ncgroupRoot: {cgroup_root}\n\
             clusterDomain: cluster.local\nhealthzBindAddress: 127.0.0.1\nhealthzPort: 10248\nfailCgroupV1: false\n\
             failSwapOn: false\nevictionHard: {{memory.available: 50Mi}}\nlogging: {{format: json}}\n"
        );
        let own = format!(
            "apiVersion: polylet.io/v1alpha1\nkind: PolyletConfiguration\npolicyDirectory: {dir}/policies\n\
             cacheDirectory: {dir}/policy-cache\nstateDirectory: {dir}/polylet-state\nadminSocket: {dir}/polylet.sock\n\
             kernelTunables: leave\n"
        );
        std::fs::write(self.dir.join("config.yaml"), kubelet)?;
        std::fs::write(self.dir.join("polylet.yaml"), own)?;
        Ok(())
    }

    /// A value of the node's environment.
    pub(crate) fn fact(&self, name: &str) -> anyhow::Result<&str> {
        self.env.get(name).map(String::as_str).with_context(|| format!("{}/env does not say {name}", self.dir.display()))
    }

    /// A program inside the node's namespaces; the child that is spawned becomes the program.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(SCRIPT);
        command.arg("exec").arg(&self.dir).arg(program).stdin(Stdio::null());
        command
    }

    /// Puts a manifest in its place, whole, in one move.
    pub(crate) fn declare(&self, name: &str, manifest: &str) -> anyhow::Result<()> {
        let hidden = self.dir.join("manifests").join(format!(".{name}"));
        std::fs::write(&hidden, manifest)?;
        std::fs::rename(hidden, self.manifest(name))?;
        Ok(())
    }

    /// Takes a manifest away.
    pub(crate) fn withdraw(&self, name: &str) -> anyhow::Result<()> {
        Ok(std::fs::remove_file(self.manifest(name))?)
    }

    pub(crate) fn manifest(&self, name: &str) -> PathBuf {
        self.dir.join("manifests").join(format!("{name}.yaml"))
    }

    /// The file that the container of this pod writes first of all.
    pub(crate) fn mark(&self, name: &str) -> PathBuf {
        self.dir.join("marks").join(name)
    }

    /// Waits for a pod's container to run.
    pub(crate) async fn marked(&self, name: &str) -> anyhow::Result<()> {
        let mark = self.mark(name);
        until(Duration::from_secs(60), &format!("container of {name} to run"), async || Ok(mark.exists())).await
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        match Command::new(SCRIPT).arg("down").arg(&self.dir).stdout(Stdio::null()).status() {
            Ok(status) if status.success() => {}
            other => eprintln!("bench: {} is not taken down: {other:?}", self.dir.display()),
        }
    }
}

/// Waits until something holds, looking every two milliseconds.
pub(crate) async fn until(
    patience: Duration,
    what: &str,
    mut holds: impl AsyncFnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let deadline = tokio::time::Instant::now() + patience;
    while !holds().await? {
        if tokio::time::Instant::now() >= deadline {
            bail!("waited {} s for {what}", patience.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// Where the agent is: `POLYLET_BIN`, or beside this program.
pub(crate) fn agent_binary() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let bin = std::env::var_os("POLYLET_BIN").map_or_else(|| own.with_file_name("polylet"), PathBuf::from);
    if !Path::new(&bin).exists() {
        bail!("no agent at {}: make build, or set POLYLET_BIN", bin.display());
    }
    Ok(bin)
}
