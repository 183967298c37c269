//! How long a pod takes to run: by the agent, and by bare calls with the same messages, by turns; and how long an exit takes to show.
//!
//! Both are measured by the time that the runtime itself gives as the container's start, against the machine's clock: for the agent from
//! the manifest's appearance, for the bare peer from its first call. They have a node each, so that the agent's watching costs the
//! peer nothing.

use std::time::Duration;

use jiff::Timestamp;
use polylet_runtime::cri::{ContainerState, PodSandboxFilter};

use crate::agent::{Agent, tail};
use crate::figures::Figures;
use crate::node::{Node, until};
use crate::pods::{Kind, container_of, kill, make, manifest, since, started};

use anyhow::Context;

/// Pairs that are measured, and pairs before that.
const PAIRS: usize = 30;
const WARM: usize = 2;

/// Measures. The first node has an agent, the second has none.
pub(crate) async fn measure(figures: &mut Figures, node: &Node, bare: &Node) -> anyhow::Result<()> {
    let agent = Agent::start(node).await?;
    let (mut by_agent, mut by_hand, mut ratios, mut shows) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for pair in 0..WARM + PAIRS {
        let name = format!("start-{pair}");
        let (first, second);
        let showed;
        if pair % 2 == 0 {
            first = agent_pod(node, &name).await.with_context(|| tail(node))?;
            (second, showed) = bare_pod(bare, &name).await?;
        } else {
            (second, showed) = bare_pod(bare, &name).await?;
            first = agent_pod(node, &name).await.with_context(|| tail(node))?;
        }
        if pair >= WARM {
            ratios.push(first.as_secs_f64() / second.as_secs_f64());
            by_agent.push(first.as_secs_f64() * 1e3);
            by_hand.push(second.as_secs_f64() * 1e3);
            shows.push(showed.as_secs_f64() * 1e3);
        }
    }
    figures.spread("pod_start_ratio", ratios);
    figures.spread("pod_start_ms", by_agent);
    figures.spread("pod_start_bare_ms", by_hand);
    figures.spread("crash_runtime_shows_ms", shows);
    agent.stop().await
}

/// By the agent: from the manifest's appearance to the container's start. The pod is gone when this returns.
async fn agent_pod(node: &Node, name: &str) -> anyhow::Result<Duration> {
    let text = manifest(node, name, Kind::Quiet);
    let began = Timestamp::now();
    node.declare(name, &text)?;
    node.marked(name).await?;
    let (container, uid) = container_of(&node.client, name).await?;
    let mut at = None;
    until(Duration::from_secs(10), "start of a container to be known", async || {
        at = Some(started(&node.client, &container).await?).filter(|at| at.as_nanosecond() > 0);
        Ok(at.is_some())
    })
    .await?;
    let took = since(began, at.context("no start")?)?;
    node.withdraw(name)?;
    let selector = [("io.kubernetes.pod.uid".to_owned(), uid.clone())].into();
    let filter = PodSandboxFilter { label_selector: selector, ..Default::default() };
    until(Duration::from_secs(30), "a pod to go", async || {
        Ok(node.client.list_pod_sandbox(Some(filter.clone())).await?.is_empty())
    })
    .await?;
    // The directories are the last thing to go.
    let left = node.dir.join("kubelet/pods").join(uid);
    until(Duration::from_secs(10), "a pod's directory to go", async || Ok(!left.exists())).await?;
    Ok(took)
}

/// By bare calls, then a crash of the container: how long the runtime takes to show it to one who asks each millisecond.
async fn bare_pod(node: &Node, name: &str) -> anyhow::Result<(Duration, Duration)> {
    std::fs::write(node.manifest(name), manifest(node, name, Kind::Quiet))?;
    let pod = make(node, name).await?;
    node.marked(name).await?;
    let killed = kill(&node.client, &pod.container).await?;
    let shown = loop {
        let answer = node.client.container_status(&pod.container, false).await?;
        let now = Timestamp::now();
        if answer.status.is_some_and(|s| s.state() == ContainerState::ContainerExited) {
            break since(killed, now)?;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    node.client.stop_pod_sandbox(&pod.sandbox).await?;
    node.client.remove_pod_sandbox(&pod.sandbox).await?;
    node.withdraw(name)?;
    Ok((pod.took, shown))
}
