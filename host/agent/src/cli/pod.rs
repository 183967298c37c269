//! `polylet describe`, `polylet events` and `polylet logs`: what is known of one pod, and what its containers print.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::core::v1;
use polylet_server::{AdminClient, LogPart, escaped};
use serde_json::Value;

use super::show::{self, Detail};
use super::{AskArgs, Output, SocketArgs, print, written};
use crate::config::duration;

/// Which pod.
#[derive(Args, Clone)]
pub(crate) struct PodArgs {
    /// The pod: its name, with or without the node's name behind it, or its UID
    #[arg(value_parser = name)]
    pub(crate) pod: String,
    /// Its namespace
    #[arg(short, long, default_value = "default", value_parser = name)]
    pub(crate) namespace: String,
}

impl PodArgs {
    fn path(&self) -> String {
        format!("/v1/pods/{}/{}", escaped(&self.namespace), escaped(&self.pod))
    }
}

/// A name as an argument.
pub(super) fn name(text: &str) -> Result<String, &'static str> {
    if text.is_empty() { Err("it must not be empty; `polylet pods` shows the names") } else { Ok(text.to_owned()) }
}

#[derive(Args)]
pub(crate) struct DescribeArgs {
    #[command(flatten)]
    pod: PodArgs,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Args)]
pub(crate) struct EventsArgs {
    /// Of this pod only; one that is gone is known for a while
    #[arg(value_parser = name)]
    pod: Option<String>,
    /// Of this namespace only; with a pod: its namespace [default: default]
    #[arg(short, long, value_parser = name)]
    namespace: Option<String>,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    pod: PodArgs,
    /// The container; where nothing is said, the one of the annotation kubectl.kubernetes.io/default-container, or the first
    #[arg(short, long)]
    container: Option<String>,
    /// Go on with what is to come, until the container ends
    #[arg(short, long)]
    follow: bool,
    /// Of the attempt before
    #[arg(short, long)]
    previous: bool,
    /// The last so many lines; -1: all of them
    #[arg(long, default_value_t = -1, allow_negative_numbers = true, hide_default_value = true, value_name = "LINES",
        value_parser = clap::value_parser!(i64).range(-1..))]
    tail: i64,
    /// Only what is younger, such as 5s, 2m or 3h
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", conflicts_with = "since_time")]
    since: Option<Duration>,
    /// Only what came since then, such as 2026-03-01T12:00:00Z
    #[arg(long, value_name = "TIME")]
    since_time: Option<String>,
    /// Put its time before each line
    #[arg(long)]
    timestamps: bool,
    /// Stop after so many bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    limit_bytes: Option<u64>,
    #[command(flatten)]
    socket: SocketArgs,
}

pub(crate) async fn describe(args: DescribeArgs) -> anyhow::Result<()> {
    let value = AdminClient::new(&args.ask.socket).get(&args.pod.path()).await?;
    if args.ask.output == Output::Json {
        return print(&args.ask, &value, |_| String::new());
    }
    let detail = parsed(value)?;
    print(&args.ask, &Value::Null, |_| show::describe(&detail, Timestamp::now(), &TimeZone::system()))
}

pub(crate) async fn events(args: EventsArgs) -> anyhow::Result<()> {
    let client = AdminClient::new(&args.ask.socket);
    let all = match args.pod {
        Some(pod) => {
            let namespace = args.namespace.clone().unwrap_or_else(|| "default".to_owned());
            client.get(&format!("{}/events", PodArgs { pod, namespace }.path())).await?
        }
        None => client.get("/v1/events").await?,
    };
    print(&args.ask, &all, |all| show::events(all, Timestamp::now(), args.namespace.as_deref()))
}

pub(crate) async fn logs(args: LogsArgs) -> anyhow::Result<()> {
    let client = AdminClient::new(&args.socket.socket);
    let (name, container) = container(&client, &args.pod, args.container).await?;
    let part = LogPart {
        container,
        previous: args.previous,
        follow: args.follow,
        timestamps: args.timestamps,
        tail_lines: u64::try_from(args.tail).ok(),
        since_seconds: args.since.map(|since| (since.as_secs_f64().round() as u64).max(1)),
        since_time: args.since_time,
        limit_bytes: args.limit_bytes,
    };
    let part = serde_json::to_value(part)?;
    let fields = part.as_object().into_iter().flatten().map(|(field, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{field}={}", escaped(&value))
    });
    let query: Vec<String> = fields.collect();
    let path = format!("/v1/pods/{}/{}/log?{}", escaped(&args.pod.namespace), escaped(&name), query.join("&"));
    let mut pieces = client.pieces(&path).await?;
    let mut stdout = std::io::stdout().lock();
    while let Some(piece) = pieces.recv().await {
        written(stdout.write_all(&piece?).and_then(|()| stdout.flush()))?;
    }
    Ok(())
}

/// The pod's UID, and the container that is meant, by kubectl's rules; what was chosen is told where there was a choice.
pub(super) async fn container(client: &AdminClient, pod: &PodArgs, named: Option<String>) -> anyhow::Result<(String, String)> {
    let detail = parsed(client.get(&pod.path()).await?)?;
    // From here on it is this pod, whatever takes its place meanwhile.
    let uid = detail.view.uid.as_str().to_owned();
    if let Some(named) = named {
        return Ok((uid, named));
    }
    let (chosen, others) = default_container(&detail);
    let Some(chosen) = chosen else { bail!("pod {:?} has no container yet: name one with -c", detail.view.name) };
    if others > 0 {
        let all = all_containers(&detail).join(", ");
        // Nobody may be left to read it.
        let _ = writeln!(std::io::stderr(), "Defaulted container {chosen:?} out of: {all}");
    }
    Ok((uid, chosen))
}

fn parsed(value: Value) -> anyhow::Result<Detail> {
    serde_json::from_value(value).context("the agent answers with something else than a pod")
}

/// The container that is meant where none is named, and how many others there are.
fn default_container(detail: &Detail) -> (Option<String>, usize) {
    const ANNOTATION: &str = "kubectl.kubernetes.io/default-container";
    let all = names(detail);
    let annotated = detail.object.as_ref().and_then(|object| object.metadata.annotations.as_ref()?.get(ANNOTATION));
    let annotated = annotated.filter(|name| all.iter().any(|(known, _)| known == *name));
    // One that is asked for in the manifest is no surprise.
    if let Some(name) = annotated {
        return (Some(name.clone()), 0);
    }
    let first = all.iter().find(|(_, kind)| kind.is_empty()).or(all.first());
    (first.map(|(name, _)| name.clone()), all.len().saturating_sub(1))
}

fn all_containers(detail: &Detail) -> Vec<String> {
    names(detail).into_iter().map(|(name, kind)| if kind.is_empty() { name } else { format!("{name} ({kind})") }).collect()
}

/// Names of containers, each with what kind it is unless it is of the ordinary one; that kind first.
fn names(detail: &Detail) -> Vec<(String, &'static str)> {
    let Some(spec) = detail.object.as_ref().and_then(|object| object.spec.as_ref()) else {
        return detail.view.containers.keys().map(|name| (name.clone(), "")).collect();
    };
    let plain = |list: &[v1::Container], kind| list.iter().map(|c| (c.name.clone(), kind)).collect::<Vec<_>>();
    let mut all = plain(&spec.containers, "");
    all.extend(spec.ephemeral_containers.iter().flatten().map(|c| (c.name.clone(), "ephem")));
    all.extend(plain(spec.init_containers.as_deref().unwrap_or_default(), "init"));
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn detail(annotation: &Value, spec: &Value) -> Detail {
        let object = json!({"metadata": {"annotations": annotation}, "spec": spec});
        let object = if spec.is_null() { Value::Null } else { object };
        parsed(json!({
            "namespace": "default", "name": "web-n1", "uid": "u", "life": "running", "status": null,
            "containers": {"x": {}, "y": {}}, "object": object, "events": [], "node": "n1",
        }))
        .unwrap()
    }

    #[test]
    fn a_container_is_chosen_as_kubectl_chooses() {
        let two = json!({"containers": [{"name": "b"}, {"name": "a"}], "initContainers": [{"name": "i"}]});
        let check = |annotation: Value, spec: &Value, expected: (&str, usize)| {
            let (chosen, others) = default_container(&detail(&annotation, spec));
            assert_eq!((chosen.as_deref(), others), (Some(expected.0), expected.1), "{annotation} {spec}");
        };
        check(json!({}), &two, ("b", 2));
        check(json!({"kubectl.kubernetes.io/default-container": "a"}), &two, ("a", 0));
        check(json!({"kubectl.kubernetes.io/default-container": "i"}), &two, ("i", 0));
        check(json!({"kubectl.kubernetes.io/default-container": "gone"}), &two, ("b", 2));
        check(json!({}), &json!({"containers": [{"name": "only"}]}), ("only", 0));
        check(json!({}), &Value::Null, ("x", 1));
        assert_eq!(all_containers(&detail(&json!({}), &two)), ["b", "a", "i (init)"]);
    }
}
