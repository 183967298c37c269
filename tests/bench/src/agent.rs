//! An agent under measurement: what it says in its log and when, and what the kernel says of it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::node::{Node, agent_binary, until};

/// A running agent; killed when dropped.
pub(crate) struct Agent {
    child: Child,
    said: mpsc::UnboundedReceiver<Published>,
}

/// A status of a pod that the agent has published: from then on it knows.
#[derive(Debug)]
pub(crate) struct Published {
    /// When, by the agent's own clock, which is the machine's.
    pub(crate) at: Timestamp,
    pub(crate) pod: String,
    pub(crate) ready: bool,
}

impl Agent {
    /// Starts one on a node, and waits until it serves.
    pub(crate) async fn start(node: &Node) -> anyhow::Result<Self> {
        let file = |name: &str| node.dir.join(name);
        let mut child = node
            .command(agent_binary()?)
            .arg("run")
            .arg("--config")
            .arg(file("config.yaml"))
            .arg("--polylet-config")
            .arg(file("polylet.yaml"))
            .arg("--root-dir")
            .arg(file("kubelet"))
            .args(["--hostname-override", "bench"])
            // Of details, only the statuses: they are rare.
            .env("POLYLET_LOG", "info,status=debug")
            .env("TMPDIR", file("tmp"))
            .stderr(Stdio::piped())
            .spawn()
            .context("start the agent")?;
        let (out, said) = mpsc::unbounded_channel();
        let stderr = child.stderr.take().context("no stderr")?;
        let mut log = std::fs::File::options().create(true).append(true).open(file("agent.log"))?;
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                // Read by people after a failure; the bench may be on its way out.
                let _ = writeln!(log, "{line}");
                if let Some(published) = published(&line) {
                    let _ = out.send(published);
                }
            }
        });
        let mut agent = Self { child, said };
        let socket = file("polylet.sock");
        until(Duration::from_secs(30), "agent to serve", async || {
            if let Some(status) = agent.child.try_wait()? {
                bail!("the agent ended with {status}");
            }
            Ok(tokio::net::UnixStream::connect(&socket).await.is_ok())
        })
        .await
        .with_context(|| tail(node))?;
        Ok(agent)
    }

    /// Waits for a status to be published by which a pod is not ready any more, after `from`; when it was.
    pub(crate) async fn knows_of_end(&mut self, pod: &str, from: Timestamp) -> anyhow::Result<Timestamp> {
        let wanted = async {
            loop {
                match self.said.recv().await {
                    Some(p) if p.pod == pod && !p.ready && p.at >= from => return Ok(p.at),
                    Some(_) => {}
                    None => bail!("the agent ended"),
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wanted)
            .await
            .with_context(|| format!("20 s, and pod {pod} still counts as ready"))?
    }

    /// Ends it as an operator would.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), rustix::process::Signal::TERM)?;
        until(Duration::from_secs(20), "agent to end", async || Ok(self.child.try_wait()?.is_some())).await
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Ended already, or ended now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn published(line: &str) -> Option<Published> {
    let line: Value = serde_json::from_str(line).ok()?;
    if line["target"] != "status" {
        return None;
    }
    Some(Published {
        at: line["timestamp"].as_str()?.parse().ok()?,
        pod: line["fields"]["pod"].as_str()?.to_owned(),
        ready: line["fields"]["ready"].as_bool()?,
    })
}

/// The end of the agent's log, for an error.
pub(crate) fn tail(node: &Node) -> String {
    let log = std::fs::read_to_string(node.dir.join("agent.log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    format!("the agent's last words:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"))
}

/// Resident memory of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// `VmRSS`, in bytes.
    pub(crate) resident: f64,
    /// `RssAnon`, in bytes: what only this process could give back.
    pub(crate) anonymous: f64,
}

/// Of a process, now.
pub(crate) fn memory(pid: u32) -> anyhow::Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).context(path.clone())?;
    let of = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let kilobytes: Option<f64> = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        kilobytes.map(|k| k * 1024.0).with_context(|| format!("{path} does not say {key}"))
    };
    Ok(Memory { resident: of("VmRSS")?, anonymous: of("RssAnon")? })
}

/// CPU time that a process has used, its ended threads among it.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).context(path.clone())?;
    // After the name, which may hold anything: state is field 3, utime and stime are 14 and 15.
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or_default().split_whitespace().collect();
    let ticks = |n: usize| fields.get(n - 3).and_then(|f| f.parse::<u64>().ok()).with_context(|| format!("{path}: no field {n}"));
    let ticks = ticks(14)? + ticks(15)?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}
