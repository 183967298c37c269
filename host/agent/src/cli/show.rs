//! Values as text for people.

use std::fmt::Write as _;

use serde_json::Value;

/// A table of pods.
pub(super) fn pods(pods: &Value) -> String {
    let mut rows = vec![["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "NEXT RESTART", "WHY", "PROBES"].map(str::to_owned)];
    for pod in pods.as_array().into_iter().flatten() {
        let status = &pod["status"];
        let statuses: Vec<&Value> = status["containerStatuses"].as_array().into_iter().flatten().collect();
        let ready = statuses.iter().filter(|c| c["ready"] == true).count();
        let views: Vec<(&String, &Value)> = pod["containers"].as_object().into_iter().flatten().collect();
        let restarts: u64 = views.iter().filter_map(|(_, c)| c["restarts"].as_u64()).sum();
        let next = views.iter().filter_map(|(n, c)| Some((n, c["nextRestartIn"].as_u64()?, c))).min_by_key(|(_, ms, _)| *ms);
        let reason = statuses
            .iter()
            .chain(status["initContainerStatuses"].as_array().into_iter().flatten().collect::<Vec<_>>().iter())
            .find_map(|c| c["state"]["waiting"]["reason"].as_str())
            .filter(|reason| !matches!(*reason, "ContainerCreating" | "PodInitializing"));
        let shown = status["reason"].as_str().or(reason).or(status["phase"].as_str());
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
            format!("{ready}/{}", statuses.len().max(usize::from(statuses.is_empty()))),
            shown.unwrap_or_else(|| pod["life"].as_str().unwrap_or("?")).to_owned(),
            restarts.to_string(),
            next.map(|(name, ms, _)| format!("{name} in {:.1} s", ms as f64 / 1000.0)).unwrap_or_default(),
            next.map(|(_, _, c)| why(c)).unwrap_or_default(),
            probes.join(" "),
        ]);
    }
    table(&rows)
}

/// What the policy said of a wait; the default says nothing but how long.
fn why(container: &Value) -> String {
    match (text(&container["restartReason"]), container["restartDelay"].as_u64()) {
        (reason, Some(ms)) if reason.is_empty() => format!("waits {:.0} s", ms as f64 / 1000.0),
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
    table(&rows)
}

/// One decision record in a line.
pub(super) fn decision(line: &str) -> String {
    let Ok(record) = serde_json::from_str::<Value>(line) else { return line.to_owned() };
    let last = record["asked"].as_array().and_then(|asked| asked.last()).cloned().unwrap_or_default();
    let rung = match last[0].as_str() {
        Some(plain) => plain.to_owned(),
        None => text(&last[0]["bound"]["name"]),
    };
    let nanos = last[1]["nanos"].as_u64().unwrap_or(0);
    let clamped: Vec<String> = record["clamped"].as_array().into_iter().flatten().map(text).collect();
    let mut out = format!(
        "#{} {} {} {}/{} by {rung} in {:.1} µs: {}",
        record["seq"],
        record["at"],
        text(&record["hook"]),
        text(&record["pod"]),
        text(&record["container"]),
        nanos as f64 / 1000.0,
        record["answer"]
    );
    if !clamped.is_empty() {
        let _ = write!(out, " (changed: {})", clamped.join("; "));
    }
    out
}

/// What a node would do with a pod.
pub(super) fn explained(value: &Value) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "Pod:            {} ({})", text(&value["name"]), text(&value["uid"]));
    let _ = writeln!(out, "Class:          {}", text(&value["class"]));
    let _ = writeln!(out, "Cgroup:         {}", text(&value["cgroup"]["parent"]));
    for (key, amount) in value["cgroup"].as_object().into_iter().flatten().filter(|(k, v)| *k != "parent" && !v.is_null()) {
        let _ = writeln!(out, "  {key}: {amount}");
    }
    for section in ["object", "sandbox", "containers"] {
        let _ = writeln!(out, "\n{section}:\n{}", serde_json::to_string_pretty(&value[section]).unwrap_or_default());
    }
    out
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
