//! The pods that are measured, as manifests, and the same pod made by bare calls.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use polylet_agent::config;
use polylet_agent::explain::{Plan, plan};
use polylet_agent::flags::Flags;
use polylet_agent::settings::Settings;
use polylet_machine::logs;
use polylet_runtime::Client;
use polylet_runtime::cri::{self, Mount};

use crate::node::Node;

/// Label with the pod's name.
const POD_NAME: &str = "io.kubernetes.pod.name";
/// Label with the pod's UID.
const POD_UID: &str = "io.kubernetes.pod.uid";

/// What a pod of the bench does once it has left its mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Waits to be ended.
    Quiet,
    /// Serves HTTP, and is asked by a readiness and a liveness probe every ten seconds.
    Probed,
}

/// A pod with one container on the pod network, which never comes again when it has ended.
pub(crate) fn manifest(node: &Node, name: &str, kind: Kind) -> String {
    let marks = node.dir.join("marks");
    let marks = marks.display();
    let (serve, probes) = match kind {
        Kind::Quiet => ("", ""),
        Kind::Probed => (
            "httpd -p 8080 -h /etc; ",
            "    readinessProbe: {httpGet: {path: /hostname, port: 8080}}\n    livenessProbe: {tcpSocket: {port: 8080}}\n",
        ),
    };
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: Never\n  dnsPolicy: Default\n  \
         terminationGracePeriodSeconds: 5\n  volumes:\n  - {{name: marks, hostPath: {{path: {marks}}}}}\n  containers:\n  \
         - name: main\n    image: polylet.local/busybox:1\n    imagePullPolicy: IfNotPresent\n    \
         resources: {{requests: {{cpu: 1m, memory: 4Mi}}}}\n    volumeMounts: [{{name: marks, mountPath: /marks}}]\n    \
         command: [sh, -c, 'trap \"exit 0\" TERM; : >/marks/{name}; {serve}while :; do sleep 3600 & wait $!; done']\n{probes}"
    )
}

/// How this node would make the pod of a manifest.
pub(crate) fn planned(node: &Node, manifest: &Path) -> anyhow::Result<(Plan, Settings)> {
    let flags = Flags {
        config: Some(node.dir.join("config.yaml")),
        polylet_config: Some(node.dir.join("polylet.yaml")),
        root_dir: node.dir.join("kubelet"),
        hostname_override: Some("bench".into()),
        ..Flags::default()
    };
    let settings = config::load(&flags)?.settings;
    Ok((plan(manifest, &settings)?, settings))
}

/// A pod made by bare calls.
pub(crate) struct Bare {
    pub(crate) sandbox: String,
    pub(crate) container: String,
    /// From the first call to the runtime's own time of the start.
    pub(crate) took: Duration,
}

/// Makes the pod by RunPodSandbox, CreateContainer and StartContainer, one after the other, with the messages that the agent would
/// send. What the agent prepares on disk is there before the clock starts.
pub(crate) async fn make(node: &Node, name: &str) -> anyhow::Result<Bare> {
    let (plan, settings) = planned(node, &node.manifest(name))?;
    let (container, mut config) = plan.containers.into_iter().next().context("a pod has a container")?;
    let pod = &plan.pod;
    let logs = logs::create_pod_dir(&settings.paths, &pod.namespace, &pod.name, pod.uid.as_str())?;
    logs::create_container_dir(&logs, container.as_str())?;
    for (file, place) in [("hosts", "/etc/hosts"), ("termination-log", "/dev/termination-log")] {
        let host = node.mark(&format!("{name}.{file}"));
        std::fs::write(&host, "")?;
        let host_path = host.to_string_lossy().into_owned();
        config.mounts.push(Mount { container_path: place.to_owned(), host_path, ..Mount::default() });
    }
    let (client, sandbox_config) = (&node.client, plan.sandbox.message);
    let began = Timestamp::now();
    let sandbox = client.run_pod_sandbox(sandbox_config.clone(), "").await?;
    let container = client.create_container(&sandbox, config, sandbox_config).await?;
    client.start_container(&container).await?;
    let took = since(began, started(client, &container).await?)?;
    Ok(Bare { sandbox, container, took })
}

/// When the runtime says that a container started.
pub(crate) async fn started(client: &Client, container: &str) -> anyhow::Result<Timestamp> {
    let status = client.container_status(container, false).await?.status.context("no status")?;
    Ok(Timestamp::from_nanosecond(status.started_at.into())?)
}

/// Time between two readings of the machine's clock.
pub(crate) fn since(began: Timestamp, ended: Timestamp) -> anyhow::Result<Duration> {
    Duration::try_from(ended.duration_since(began)).with_context(|| format!("{ended} is before {began}: the clock was set"))
}

/// The newest container of a pod of the agent's: its id, and the pod's UID.
pub(crate) async fn container_of(client: &Client, pod: &str) -> anyhow::Result<(String, String)> {
    let selector = [(POD_NAME.to_owned(), format!("{pod}-bench"))].into();
    let filter = cri::ContainerFilter { label_selector: selector, ..Default::default() };
    let listed = client.list_containers(Some(filter)).await?;
    let newest = listed.into_iter().max_by_key(|c| c.created_at).with_context(|| format!("no container of {pod}"))?;
    let uid = newest.labels.get(POD_UID).cloned().with_context(|| format!("container of {pod} without a UID"))?;
    Ok((newest.id, uid))
}

/// Kills a container's process, as a crash would end it; the time just before.
pub(crate) async fn kill(client: &Client, container: &str) -> anyhow::Result<Timestamp> {
    let answer = client.container_status(container, true).await?;
    let info: serde_json::Value = serde_json::from_str(answer.info.get("info").context("no info")?)?;
    let pid = info["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
    let pid = pid.with_context(|| format!("no pid of container {container}"))?;
    let before = Timestamp::now();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    Ok(before)
}
