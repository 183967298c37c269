//! An agent with fifty pods: what it costs when nothing happens, and how soon it knows when something does.

use std::time::{Duration, Instant};

use anyhow::Context;

use crate::agent::{Agent, cpu, memory, tail};
use crate::deaf;
use crate::figures::Figures;
use crate::node::{Node, until};
use crate::pods::{Kind, container_of, kill, manifest, since};

/// Pods.
const PODS: usize = 50;
/// Quiet windows of ten seconds: a minute.
const WINDOWS: usize = 6;
const WINDOW: Duration = Duration::from_secs(10);
/// Crashes that are noticed with events, and without.
const CRASHES: usize = 25;
/// Between two crashes: what the one before gave the agent to do is done.
const BETWEEN: Duration = Duration::from_millis(700);

/// Measures on a node without an agent, and leaves it without one.
pub(crate) async fn measure(figures: &mut Figures, node: &Node) -> anyhow::Result<()> {
    let mut agent = Agent::start(node).await?;
    settle().await;
    figures.put("rss_0_mb", megabytes(memory(agent.pid())?.resident));
    let took = fill(node, Kind::Quiet).await.with_context(|| tail(node))?;
    figures.put("start_50_pods_s", (took.as_secs_f64() * 100.0).round() / 100.0);
    settle().await;
    rest(figures, node, &agent, "", WINDOWS).await?;

    eprintln!("bench: crashes, with events");
    let times = crashes(node, &mut agent, 0..CRASHES).await.with_context(|| tail(node))?;
    figures.spread("crash_notice_p50_ms", times);
    agent.stop().await?;

    eprintln!("bench: crashes, without events");
    let proxy = deaf::serve(&node.dir.join("deaf.sock"), node.dir.join("containerd.sock"))?;
    node.configure("deaf.sock")?;
    let mut agent = Agent::start(node).await?;
    settle().await;
    let times = crashes(node, &mut agent, CRASHES..2 * CRASHES).await.with_context(|| tail(node))?;
    figures.spread("crash_notice_no_events_ms", times);
    agent.stop().await?;
    proxy.abort();

    node.configure("containerd.sock")?;
    let agent = Agent::start(node).await?;
    empty(node).await.with_context(|| tail(node))?;
    fill(node, Kind::Probed).await.with_context(|| tail(node))?;
    settle().await;
    rest(figures, node, &agent, "_probed", WINDOWS / 2).await?;
    agent.stop().await
}

/// Long enough for what follows a change to be over.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

fn megabytes(bytes: f64) -> f64 {
    (bytes / 1e5).round() / 10.0
}

fn name(n: usize) -> String {
    format!("crowd-{n}")
}

/// Declares all pods at once, and waits until all of them run.
async fn fill(node: &Node, kind: Kind) -> anyhow::Result<Duration> {
    eprintln!("bench: {PODS} pods, {kind:?}");
    let began = Instant::now();
    for n in 0..PODS {
        node.declare(&name(n), &manifest(node, &name(n), kind))?;
    }
    for n in 0..PODS {
        until(Duration::from_secs(120), "all pods to run", async || Ok(node.mark(&name(n)).exists())).await?;
    }
    Ok(began.elapsed())
}

/// Withdraws all pods, and waits until they are gone.
async fn empty(node: &Node) -> anyhow::Result<()> {
    for n in 0..PODS {
        node.withdraw(&name(n))?;
        std::fs::remove_file(node.mark(&name(n)))?;
    }
    until(Duration::from_secs(120), "all pods to go", async || Ok(node.client.list_pod_sandbox(None).await?.is_empty())).await
}

/// Nothing happens for some windows of ten seconds.
async fn rest(figures: &mut Figures, node: &Node, agent: &Agent, what: &str, windows: usize) -> anyhow::Result<()> {
    eprintln!("bench: {} s of rest", windows * 10);
    let containerd: u32 = std::fs::read_to_string(node.dir.join("containerd.pid"))?.trim().parse()?;
    let (mut own, mut runtimes, mut resident, mut anonymous) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut before = (cpu(agent.pid())?, cpu(containerd)?, Instant::now());
    for _ in 0..windows {
        tokio::time::sleep(WINDOW).await;
        let now = (cpu(agent.pid())?, cpu(containerd)?, Instant::now());
        let seconds = (now.2 - before.2).as_secs_f64();
        own.push((now.0 - before.0).as_secs_f64() / seconds * 100.0);
        runtimes.push((now.1 - before.1).as_secs_f64() / seconds * 100.0);
        before = now;
        let memory = memory(agent.pid())?;
        resident.push(memory.resident / 1e6);
        anonymous.push(memory.anonymous / 1e6);
    }
    // Of the whole time, not of the middle window: what is done once a minute counts.
    let mean = |all: &[f64]| (all.iter().sum::<f64>() / all.len() as f64 * 100.0).round() / 100.0;
    for (name, values) in [("idle_cpu_50", own), ("idle_containerd_cpu_50", runtimes)] {
        let (name, mean) = (format!("{name}{what}_pct"), mean(&values));
        figures.spread(&name, values);
        figures.put(&name, mean);
    }
    figures.spread(&format!("rss_50{what}_mb"), resident);
    figures.spread(&format!("rss_anon_50{what}_mb"), anonymous);
    Ok(())
}

/// Kills the containers of these pods one after the other; milliseconds until the agent has published each end.
async fn crashes(node: &Node, agent: &mut Agent, pods: std::ops::Range<usize>) -> anyhow::Result<Vec<f64>> {
    let mut times = Vec::new();
    for n in pods {
        let (container, uid) = container_of(&node.client, &name(n)).await?;
        // Not in step with anything that is periodic.
        tokio::time::sleep(BETWEEN + Duration::from_millis(n as u64 * 37 % 300)).await;
        let killed = kill(&node.client, &container).await?;
        let known = agent.knows_of_end(&uid, killed).await?;
        times.push(since(killed, known)?.as_secs_f64() * 1e3);
    }
    Ok(times)
}
