//! Values as text for people.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::Value;

mod align;
mod decision;
mod describe;

pub(super) use decision::decision;
pub(super) use describe::{Detail, describe, events};

/// A table of pods; `wide`: with their addresses.
pub(super) fn pods(pods: &Value, now: Timestamp, wide: bool) -> String {
    let mut rows = vec![
        ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "NEXT RESTART", "WHY", "PROBES", "IP"].map(str::to_owned),
    ];
    for pod in pods.as_array().into_iter().flatten() {
        let status = &pod["status"];
        let statuses: Vec<&Value> = status["containerStatuses"].as_array().into_iter().flatten().collect();
        let Tally { ready, containers, restarts } = tally(pod);
        let views: Vec<(&String, &Value)> = pod["containers"].as_object().into_iter().flatten().collect();
        let next = views.iter().filter_map(|(n, c)| Some((n, c["nextRestartIn"].as_u64()?, c))).min_by_key(|(_, ms, _)| *ms);
        let reason = statuses
            .iter()
            .chain(status["initContainerStatuses"].as_array().into_iter().flatten().collect::<Vec<_>>().iter())
            .find_map(|c| c["state"]["waiting"]["reason"].as_str())
            .filter(|reason| !matches!(*reason, "ContainerCreating" | "PodInitializing"));
        let ended = matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"));
        let ending = matches!(pod["life"].as_str(), Some("stopping" | "cleaning" | "removing")) && !ended;
        let ending = ending.then_some("Terminating");
        let shown = status["reason"].as_str().or(ending).or(reason).or(status["phase"].as_str());
        let started = status["startTime"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
        let probes: Vec<String> = views
            .iter()
            .flat_map(|(_, c)| c["probes"].as_object().into_iter().flatten())
            .map(|(kind, passed)| {
                let mark = match passed.as_bool() {
                    Some(true) => "ok",
                    Some(false) => "failing",
                    None => "?",
                };
                format!("{kind}={mark}")
            })
            .collect();
        rows.push([
            text(&pod["namespace"]),
            text(&pod["name"]),
            format!("{ready}/{containers}"),
            // Nothing is told of a pod before the runtime has been asked.
            shown.unwrap_or("Pending").to_owned(),
            restarts.to_string(),
            started.map(|started| age(now.duration_since(started).as_secs())).unwrap_or_default(),
            next.map(|(name, ms, _)| format!("{name} in {:.1} s", ms as f64 / 1000.0)).unwrap_or_default(),
            next.map(|(_, _, c)| why(c, wide)).unwrap_or_default(),
            probes.join(" "),
            text(&status["podIP"]),
        ]);
    }
    if !wide {
        rows.iter_mut().for_each(|row| row[9].clear());
    }
    table(&rows)
}

/// What a row counts of a pod.
struct Tally {
    ready: usize,
    containers: usize,
    restarts: u64,
}

/// As kubectl counts: sidecars are containers that can be ready, other init containers are not; restarts are those of the init containers
/// until the pod is initialized, from then on those of the others.
fn tally(pod: &Value) -> Tally {
    let status = &pod["status"];
    let list = |name: &str| status[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let (inits, apps) = (list("initContainerStatuses"), list("containerStatuses"));
    let views = pod["containers"].as_object();
    let is_sidecar = |c: &Value| c["name"].as_str().is_some_and(|name| pod["containers"][name]["kind"] == "sidecar");
    let count = |c: &Value| c["restartCount"].as_u64().unwrap_or(0);
    let declared = views.into_iter().flatten().filter(|(_, c)| c["kind"] == "app" || c["kind"] == "sidecar").count();
    // Of a pod that only the runtime knows, no more is known than it has.
    let containers = if declared > 0 { declared } else { apps.len().max(1) };
    let (mut ready, mut restarts, mut of_sidecars) = (0, 0, 0);
    let mut initializing = false;
    for init in inits {
        restarts += count(init);
        of_sidecars += if is_sidecar(init) { count(init) } else { 0 };
        if is_sidecar(init) && init["started"] == true {
            ready += usize::from(init["ready"] == true);
        } else if init["state"]["terminated"]["exitCode"] != 0 {
            initializing = true;
            break;
        }
    }
    if !initializing || list("conditions").iter().any(|c| c["type"] == "Initialized" && c["status"] == "True") {
        restarts = of_sidecars + apps.iter().map(count).sum::<u64>();
        ready += apps.iter().filter(|c| c["ready"] == true).count();
    }
    Tally { ready, containers, restarts }
}

/// As kubectl shows ages: one unit, or two where one would say little.
fn age(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 if seconds % 60 > 0 => format!("{minutes}m{}s", seconds % 60),
        120..10_800 => format!("{minutes}m"),
        10_800..28_800 if minutes % 60 > 0 => format!("{hours}h{}m", minutes % 60),
        10_800..172_800 => format!("{hours}h"),
        172_800..691_200 if hours % 24 > 0 => format!("{days}d{}h", hours % 24),
        _ => format!("{days}d"),
    }
}

/// What the policy said of a wait, its beginning where there is little room; the default says nothing but how long.
fn why(container: &Value, wide: bool) -> String {
    const ROOM: usize = 48;
    match (text(&container["restartReason"]), container["restartDelay"].as_u64()) {
        (reason, Some(ms)) if reason.is_empty() => format!("waits {:.0} s", ms as f64 / 1000.0),
        (reason, _) if !wide && reason.chars().count() > ROOM => reason.chars().take(ROOM - 1).chain(['…']).collect(),
        (reason, _) => reason,
    }
}

/// The node.
pub(super) fn node(node: &Value) -> String {
    let mut out = String::new();
    let ready = if node["ready"] == true { "yes" } else { "no" };
    // Writing to a string cannot fail.
    let _ = writeln!(out, "Name:      {}\nReady:     {ready}", text(&node["name"]));
    for reason in node["reasons"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "           {}", text(reason));
    }
    let pressure: Vec<String> = node["pressure"].as_array().into_iter().flatten().map(text).collect();
    let _ = writeln!(out, "Pressure:  {}", if pressure.is_empty() { "none".to_owned() } else { pressure.join(", ") });
    let pods: Vec<String> = node["pods"].as_object().into_iter().flatten().map(|(life, n)| format!("{n} {life}")).collect();
    let _ = writeln!(out, "Pods:      {}", pods.join(", "));
    for error in node["manifestErrors"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "error: {}", text(error));
    }
    for (signal, reading) in node["sample"]["signals"].as_object().into_iter().flatten() {
        let _ = writeln!(out, "{signal}: {} of {}", reading["available"], reading["capacity"]);
    }
    out
}

/// The ladders.
pub(super) fn policies(policies: &Value) -> String {
    let mut rows = vec![["HOOK", "PLACE", "POLICY", "VERSION", "DIGEST", "STATE"].map(str::to_owned)];
    for rung in policies["rungs"].as_array().into_iter().flatten() {
        let bound = &rung["rung"]["bound"];
        let (name, digest) = match rung["rung"].as_str() {
            Some(plain) => (plain.to_owned(), String::new()),
            None => (text(&bound["name"]), text(&bound["digest"]).chars().take(19).collect()),
        };
        let state = match rung["restingFor"].as_u64() {
            Some(ms) => format!("resting for {:.0} s", ms as f64 / 1000.0),
            None if rung["failures"].as_u64() > Some(0) => format!("{} failures", rung["failures"]),
            None => "good".to_owned(),
        };
        rows.push([text(&rung["hook"]), rung["place"].to_string(), name, text(&rung["policy"]["version"]), digest, state]);
    }
    let mut out = table(&rows);
    for error in policies["errors"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "error: {}", text(error));
    }
    out
}

/// What can be bound of a directory, and what cannot.
pub(super) fn checked(report: &Value) -> String {
    let mut out = String::new();
    for binding in report["bindings"].as_array().into_iter().flatten() {
        let said = if binding["ok"] == true { "can be bound" } else { "cannot be bound" };
        let digest: String = text(&binding["digest"]).chars().take(19).collect();
        let _ = writeln!(out, "{} ({}, {digest}): {said}", text(&binding["name"]), text(&binding["hook"]));
    }
    for error in report["errors"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "error: {}", text(error));
    }
    out
}

/// What a node would do with a pod.
pub(super) fn explained(value: &Value) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "Pod:            {} ({})", text(&value["name"]), text(&value["uid"]));
    let _ = writeln!(out, "Class:          {}", text(&value["class"]));
    let _ = writeln!(out, "Cgroup:         {}", text(&value["cgroup"]["parent"]));
    for (file, written) in value["cgroup"].as_object().into_iter().flatten().filter(|(key, _)| *key != "parent") {
        let _ = writeln!(out, "  {file}: {}", text(written));
    }
    for (title, lines) in [("Warning", &value["warnings"]), ("Note", &value["notes"])] {
        for line in lines.as_array().into_iter().flatten() {
            let _ = writeln!(out, "{:<15} {}", format!("{title}:"), text(line));
        }
    }
    for (title, section) in [("The pod with its defaults", "object"), ("The message for the sandbox", "sandbox")] {
        let _ = write!(out, "\n# {title}\n{}", yaml(&value[section]));
    }
    for container in value["containers"].as_array().into_iter().flatten() {
        let _ = write!(out, "\n# The message for the container {}\n{}", text(&container["metadata"]["name"]), yaml(container));
    }
    out
}

fn yaml(value: &Value) -> String {
    // JSON is YAML too, should the writer meet a value that it cannot write.
    serde_saphyr::to_string(value).unwrap_or_else(|_| format!("{value:#}\n"))
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|i| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0));
    let mut out = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn row(pod: &Value, wide: bool) -> String {
        let table = pods(&json!([pod]), at("2026-03-01T12:00:00Z"), wide);
        table.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn pod(life: &str, status: &Value) -> Value {
        let mut status = status.clone();
        status["startTime"] = json!("2026-03-01T11:58:30Z");
        status["podIP"] = json!("10.0.0.7");
        json!({"namespace": "shop", "name": "web", "life": life, "containers": {}, "status": status})
    }

    #[test]
    fn a_pod_is_shown_with_its_age_and_where_asked_for_its_address() {
        let running = pod("running", &json!({"phase": "Running", "containerStatuses": [{"ready": true}]}));
        assert_eq!(row(&running, false), "shop web 1/1 Running 0 90s");
        assert_eq!(row(&running, true), "shop web 1/1 Running 0 90s 10.0.0.7");
        let title = pods(&json!([]), at("2026-03-01T12:00:00Z"), false);
        assert_eq!(title, "NAMESPACE  NAME  READY  STATUS  RESTARTS  AGE  NEXT RESTART  WHY  PROBES\n");
    }

    #[test]
    fn containers_and_restarts_are_counted_as_kubectl_counts_them() {
        let kinds =
            |all: &[(&str, &str)]| -> Value { all.iter().map(|(n, kind)| ((*n).to_owned(), json!({"kind": kind}))).collect() };
        let status = |name: &str, ready: bool, restarts: u64| json!({"name": name, "ready": ready, "restartCount": restarts});
        let with = |mut status: Value, more: Value| {
            status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            status
        };
        let check = |containers: &Value, status: Value, expected: (usize, usize, u64)| {
            let Tally { ready, containers, restarts } = tally(&json!({"containers": containers, "status": status}));
            assert_eq!((ready, containers, restarts), expected, "{status}");
        };
        let all = kinds(&[("i", "init"), ("s", "sidecar"), ("a", "app"), ("b", "app"), ("e", "ephemeral")]);
        // Nothing is known yet.
        check(&all, Value::Null, (0, 3, 0));
        check(&json!({}), Value::Null, (0, 1, 0));
        check(&json!({}), json!({"containerStatuses": [status("a", true, 2)]}), (1, 1, 2));
        // While it is initialized, the restarts are those of the init containers up to the one that runs.
        let done = with(status("i", true, 4), json!({"state": {"terminated": {"exitCode": 0}}}));
        let failed = with(status("i", false, 4), json!({"state": {"terminated": {"exitCode": 1}}}));
        let started = with(status("s", true, 3), json!({"started": true, "state": {"running": {}}}));
        let starting = with(status("s", false, 3), json!({"started": false, "state": {"running": {}}}));
        let apps = [status("a", true, 1), status("b", false, 5)];
        check(&all, json!({"initContainerStatuses": [failed, starting], "containerStatuses": apps}), (0, 3, 4));
        check(&all, json!({"initContainerStatuses": [done, starting], "containerStatuses": apps}), (0, 3, 7));
        // From then on a sidecar counts as the others do, and init containers no more.
        check(&all, json!({"initContainerStatuses": [done, started], "containerStatuses": apps}), (2, 3, 9));
        let initialized = json!([{"type": "Initialized", "status": "True"}]);
        let restarting = json!({"initContainerStatuses": [done, starting], "containerStatuses": apps, "conditions": initialized});
        check(&all, restarting, (1, 3, 9));
    }

    #[test]
    fn a_pod_that_is_being_ended_is_terminating_unless_its_phase_says_how_it_ended() {
        let check = |life, status, expected| assert_eq!(row(&pod(life, &status), false).split(' ').nth(3), Some(expected));
        for life in ["stopping", "cleaning", "removing"] {
            check(life, json!({"phase": "Running"}), "Terminating");
            check(life, json!({"phase": "Succeeded"}), "Succeeded");
        }
        check("stopping", json!({"phase": "Failed", "reason": "Evicted"}), "Evicted");
        check("finished", json!({"phase": "Failed"}), "Failed");
        check("running", json!({"phase": "Running"}), "Running");
    }

    #[test]
    fn ages_are_as_kubectl_has_them() {
        let cases = [(0, "0s"), (119, "119s"), (120, "2m"), (130, "2m10s"), (700, "11m"), (10_860, "3h1m"), (90_000, "25h")];
        for (seconds, expected) in cases.into_iter().chain([(180_000, "2d2h"), (864_000, "10d"), (-5, "0s")]) {
            assert_eq!(age(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn a_checked_directory_says_of_each_binding_what_becomes_of_it() {
        let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let row = |name, ok| json!({"name": name, "hook": "qos", "digest": digest, "ok": ok});
        let report = json!({"bindings": [row("a", true), row("b", false)], "errors": ["b.yaml: spec.component: no"]});
        let expected = "a (qos, sha256:e3b0c44298fc): can be bound\nb (qos, sha256:e3b0c44298fc): cannot be bound\n\
                        error: b.yaml: spec.component: no\n";
        assert_eq!(checked(&report), expected);
    }
}
