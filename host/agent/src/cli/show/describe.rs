//! One pod, all of it: what `kubectl describe` shows, in its form, and what only the node knows.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use polylet_core::node::{ContainerView, PodView};
use serde::Deserialize;
use serde_json::Value;

use super::align::align;
use super::{age, text};
use crate::tell::one_line;

/// What the agent answers of one pod.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct Detail {
    /// As the node sees it.
    #[serde(flatten)]
    pub(in crate::cli) view: PodView,
    /// As it was declared; None where only the runtime knows it.
    pub(in crate::cli) object: Option<v1::Pod>,
    #[serde(default)]
    events: Vec<Value>,
    #[serde(default)]
    node: String,
}

/// Shows it; times in this zone.
pub(in crate::cli) fn describe(detail: &Detail, now: Timestamp, zone: &TimeZone) -> String {
    let mut page = Page { out: String::new(), now, zone };
    page.pod(detail);
    align(&page.out)
}

/// The events of the agent's list, as a table.
pub(in crate::cli) fn events(events: &Value, now: Timestamp, namespace: Option<&str>) -> String {
    let mut out = "LAST SEEN\tTYPE\tREASON\tOBJECT\tMESSAGE\n".to_owned();
    for event in events.as_array().into_iter().flatten() {
        let object = &event["involvedObject"];
        if namespace.is_some_and(|wanted| object["namespace"].as_str() != Some(wanted)) {
            continue;
        }
        let name: Vec<String> =
            ["namespace", "name"].iter().map(|part| text(&object[part])).filter(|part| !part.is_empty()).collect();
        let _ = writeln!(
            out,
            "{}\t{}\t{}\t{}/{}\t{}",
            seen(event, now),
            text(&event["type"]),
            text(&event["reason"]),
            text(&object["kind"]).to_lowercase(),
            name.join("/"),
            one_line(&text(&event["message"]))
        );
    }
    align(&out)
}

/// When an event was seen, and how often: `3s`, or `3s (x4 over 40s)`.
fn seen(event: &Value, now: Timestamp) -> String {
    let since = |field: &str| {
        let at = event[field].as_str().and_then(|at| at.parse::<Timestamp>().ok());
        at.map_or_else(|| "<unknown>".to_owned(), |at| age(now.duration_since(at).as_secs()))
    };
    match event["count"].as_u64() {
        Some(count) if count > 1 => format!("{} (x{count} over {})", since("lastTimestamp"), since("firstTimestamp")),
        _ => since("firstTimestamp"),
    }
}

struct Page<'a> {
    out: String,
    now: Timestamp,
    zone: &'a TimeZone,
}

impl Page<'_> {
    /// A line this deep; a tab ends a cell.
    fn line(&mut self, level: usize, line: impl AsRef<str>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "{:1$}{2}", "", level * 2, line.as_ref());
    }

    fn field(&mut self, level: usize, name: &str, value: impl AsRef<str>) {
        self.line(level, format!("{name}:\t{}", one_line(value.as_ref())));
    }

    /// One name and value a line, the first beside the heading.
    fn map(&mut self, heading: &str, map: Option<&BTreeMap<String, String>>, between: &str) {
        let mut first = heading.to_owned() + ":";
        for (key, value) in map.into_iter().flatten() {
            self.line(0, format!("{first}\t{key}{between}{}", one_line(value)));
            first.clear();
        }
        if !first.is_empty() {
            self.line(0, format!("{first}\t<none>"));
        }
    }

    fn time(&self, time: &Time) -> String {
        // The API's types bring a clock of their own.
        match Timestamp::from_millisecond(time.0.as_millisecond()) {
            Ok(at) => at.to_zoned_datetime(self.zone.clone()).strftime("%a, %d %b %Y %H:%M:%S %z").to_string(),
            Err(_) => time.0.to_string(),
        }
    }

    fn pod(&mut self, detail: &Detail) {
        let Detail { view, object, events, node } = detail;
        let declared = object.clone().unwrap_or_default();
        let spec = declared.spec.clone().unwrap_or_default();
        let status = view.status.as_deref().or(declared.status.as_ref()).cloned().unwrap_or_default();
        self.field(0, "Name", &view.name);
        self.field(0, "Namespace", &view.namespace);
        self.field(0, "UID", view.uid.as_str());
        self.field(0, "Priority", spec.priority.unwrap_or(0).to_string());
        if let Some(class) = spec.priority_class_name.as_deref().filter(|class| !class.is_empty()) {
            self.field(0, "Priority Class Name", class);
        }
        let node = spec.node_name.as_deref().unwrap_or(node);
        self.field(0, "Node", format!("{node}/{}", status.host_ip.as_deref().unwrap_or_default()));
        if let Some(started) = &status.start_time {
            self.field(0, "Start Time", self.time(started));
        }
        self.map("Labels", declared.metadata.labels.as_ref(), "=");
        self.map("Annotations", declared.metadata.annotations.as_ref(), ": ");
        self.field(0, "Status", status.phase.as_deref().unwrap_or("Pending"));
        for (name, value) in [("Reason", &status.reason), ("Message", &status.message)] {
            if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
                self.field(0, name, value);
            }
        }
        self.field(0, "Life", &view.life);
        if let Some(cause) = &view.ending {
            self.field(0, "Ending", cause);
        }
        self.field(0, "IP", status.pod_ip.as_deref().unwrap_or_default());
        let ips: Vec<&str> = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str()).collect();
        if ips.is_empty() {
            self.field(0, "IPs", "<none>");
        } else {
            self.line(0, "IPs:");
            ips.iter().for_each(|ip| self.field(1, "IP", ip));
        }
        let lists = [
            ("Init Containers", spec.init_containers.as_deref().unwrap_or_default(), &status.init_container_statuses),
            ("Containers", spec.containers.as_slice(), &status.container_statuses),
        ];
        for (heading, containers, statuses) in lists {
            if containers.is_empty() {
                continue;
            }
            self.line(0, format!("{heading}:"));
            for container in containers {
                let status = statuses.iter().flatten().find(|status| status.name == container.name);
                self.container(container, status, view.containers.get(&container.name), &declared);
            }
        }
        if object.is_none() {
            self.line(0, "Containers:");
            for (name, beside) in &view.containers {
                self.line(1, format!("{name}:"));
                self.beside(beside);
            }
        }
        self.conditions(status.conditions.as_deref().unwrap_or_default());
        self.volumes(spec.volumes.as_deref().unwrap_or_default());
        self.field(0, "QoS Class", status.qos_class.as_deref().unwrap_or("<unknown>"));
        self.map("Node-Selectors", spec.node_selector.as_ref(), "=");
        let mut heading = "Tolerations:";
        for toleration in spec.tolerations.iter().flatten() {
            self.line(0, format!("{heading}\t{}", tolerated(toleration)));
            heading = "";
        }
        if !heading.is_empty() {
            self.line(0, "Tolerations:\t<none>");
        }
        self.events(events);
    }

    fn container(
        &mut self,
        container: &v1::Container,
        status: Option<&v1::ContainerStatus>,
        beside: Option<&ContainerView>,
        pod: &v1::Pod,
    ) {
        self.line(1, format!("{}:", container.name));
        let told = |field: fn(&v1::ContainerStatus) -> Option<&str>| status.and_then(field).unwrap_or_default();
        self.field(2, "Container ID", told(|status| status.container_id.as_deref()));
        self.field(2, "Image", container.image.as_deref().unwrap_or_default());
        self.field(2, "Image ID", told(|status| Some(&status.image_id)));
        self.ports(container.ports.as_deref().unwrap_or_default());
        for (heading, words) in [("Command", &container.command), ("Args", &container.args)] {
            let words = words.as_deref().unwrap_or_default();
            if !words.is_empty() {
                self.line(2, format!("{heading}:"));
                words.iter().flat_map(|word| word.split('\n')).for_each(|line| self.line(3, one_line(line)));
            }
        }
        if let Some(status) = status {
            self.state("State", status.state.as_ref());
            if let Some(last) = status.last_state.as_ref().filter(|last| last.terminated.is_some()) {
                self.state("Last State", Some(last));
            }
            self.field(2, "Ready", if status.ready { "True" } else { "False" });
            self.field(2, "Restart Count", status.restart_count.to_string());
        }
        if let Some(beside) = beside {
            self.beside(beside);
        }
        let resources = container.resources.clone().unwrap_or_default();
        for (heading, amounts) in [("Limits", resources.limits), ("Requests", resources.requests)] {
            if let Some(amounts) = amounts.filter(|amounts| !amounts.is_empty()) {
                self.line(2, format!("{heading}:"));
                for (name, Quantity(amount)) in &amounts {
                    self.field(3, name, amount);
                }
            }
        }
        for (heading, probe) in [
            ("Liveness", &container.liveness_probe),
            ("Readiness", &container.readiness_probe),
            ("Startup", &container.startup_probe),
        ] {
            if let Some(probe) = probe {
                self.field(2, heading, probed(probe));
            }
        }
        self.environment(container, pod);
        self.mounts(container);
    }

    fn ports(&mut self, ports: &[v1::ContainerPort]) {
        let shown = |number: fn(&v1::ContainerPort) -> i32| {
            let all = ports.iter().map(|port| format!("{}/{}", number(port), port.protocol.as_deref().unwrap_or("TCP")));
            let all: Vec<String> = all.collect();
            if all.is_empty() { "<none>".to_owned() } else { all.join(", ") }
        };
        let plural = if ports.len() > 1 { "s" } else { "" };
        self.field(2, &format!("Port{plural}"), shown(|port| port.container_port));
        self.field(2, &format!("Host Port{plural}"), shown(|port| port.host_port.unwrap_or(0)));
    }

    fn state(&mut self, heading: &str, state: Option<&v1::ContainerState>) {
        let state = state.cloned().unwrap_or_default();
        if let Some(running) = state.running {
            self.field(2, heading, "Running");
            if let Some(at) = &running.started_at {
                self.field(3, "Started", self.time(at));
            }
        } else if let Some(end) = state.terminated {
            self.field(2, heading, "Terminated");
            for (name, value) in [("Reason", &end.reason), ("Message", &end.message)] {
                if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
                    self.field(3, name, value);
                }
            }
            self.field(3, "Exit Code", end.exit_code.to_string());
            if let Some(signal) = end.signal.filter(|signal| *signal > 0) {
                self.field(3, "Signal", signal.to_string());
            }
            for (name, at) in [("Started", &end.started_at), ("Finished", &end.finished_at)] {
                if let Some(at) = at {
                    self.field(3, name, self.time(at));
                }
            }
        } else {
            self.field(2, heading, "Waiting");
            let waiting = state.waiting.unwrap_or_default();
            for (name, value) in [("Reason", &waiting.reason), ("Message", &waiting.message)] {
                if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
                    self.field(3, name, value);
                }
            }
        }
    }

    /// What the status does not tell.
    fn beside(&mut self, beside: &ContainerView) {
        let reason = match beside.restart_reason.as_str() {
            "" => String::new(),
            reason => format!(" ({reason})"),
        };
        let seconds = |ms: u64| format!("{:.1} s", ms as f64 / 1000.0);
        match (beside.next_restart_in, beside.restart_delay) {
            (Some(next), Some(whole)) => {
                self.field(2, "Next Restart", format!("in {} of {}{reason}", seconds(next), seconds(whole)));
            }
            _ if !reason.is_empty() => self.field(2, "Next Restart", &beside.restart_reason),
            _ => {}
        }
        let probes: Vec<String> = beside
            .probes
            .iter()
            .map(|(kind, passed)| {
                let result = match passed {
                    Some(true) => "passes",
                    Some(false) => "fails",
                    None => "not known yet",
                };
                format!("{kind} {result}")
            })
            .collect();
        if !probes.is_empty() {
            self.field(2, "Probes", probes.join(", "));
        }
    }

    fn environment(&mut self, container: &v1::Container, pod: &v1::Pod) {
        let variables = container.env.as_deref().unwrap_or_default();
        if variables.is_empty() {
            return self.line(2, "Environment:\t<none>");
        }
        self.line(2, "Environment:");
        for variable in variables {
            let from = variable.value_from.clone().unwrap_or_default();
            let shown = if let Some(field) = from.field_ref {
                let version = field.api_version.as_deref().unwrap_or("v1");
                format!("{} ({version}:{})", field_of(pod, &field.field_path), field.field_path)
            } else if let Some(resource) = from.resource_field_ref {
                let of = resource.container_name.unwrap_or_default();
                format!("({}{}{})", of, if of.is_empty() { "" } else { ":" }, resource.resource)
            } else if let Some(file) = from.file_key_ref {
                format!("<set to the key {:?} of the file {:?} in volume {:?}>", file.key, file.path, file.volume_name)
            } else {
                variable.value.clone().unwrap_or_default()
            };
            let mut name = format!("{}:", variable.name);
            for line in shown.split('\n') {
                self.line(3, format!("{name}\t{}", one_line(line)));
                name.clear();
            }
        }
    }

    fn mounts(&mut self, container: &v1::Container) {
        let mut mounts: Vec<&v1::VolumeMount> = container.volume_mounts.iter().flatten().collect();
        if mounts.is_empty() {
            return self.line(2, "Mounts:\t<none>");
        }
        self.line(2, "Mounts:");
        mounts.sort_by(|a, b| a.mount_path.cmp(&b.mount_path));
        for mount in mounts {
            let mut how = if mount.read_only == Some(true) { "ro" } else { "rw" }.to_owned();
            let part = mount.sub_path.as_deref().or(mount.sub_path_expr.as_deref()).filter(|part| !part.is_empty());
            if let Some(part) = part {
                let _ = write!(how, ",path={part:?}");
            }
            self.line(3, format!("{} from {} ({how})", mount.mount_path, mount.name));
        }
    }

    fn conditions(&mut self, conditions: &[v1::PodCondition]) {
        if conditions.is_empty() {
            return;
        }
        self.line(0, "Conditions:");
        self.line(1, "Type\tStatus\tReason\tMessage");
        for condition in conditions {
            let (reason, message) =
                (condition.reason.as_deref().unwrap_or_default(), condition.message.as_deref().unwrap_or_default());
            self.line(1, format!("{}\t{}\t{reason}\t{}", condition.type_, condition.status, one_line(message)));
        }
    }

    fn volumes(&mut self, volumes: &[v1::Volume]) {
        if volumes.is_empty() {
            return self.line(0, "Volumes:\t<none>");
        }
        self.line(0, "Volumes:");
        for volume in volumes {
            self.line(1, format!("{}:", volume.name));
            self.volume(volume);
        }
    }

    fn volume(&mut self, volume: &v1::Volume) {
        if let Some(empty) = &volume.empty_dir {
            self.field(2, "Type", "EmptyDir (a temporary directory that shares a pod's lifetime)");
            self.field(2, "Medium", empty.medium.as_deref().unwrap_or_default());
            self.field(2, "SizeLimit", empty.size_limit.as_ref().map_or("<unset>", |limit| limit.0.as_str()));
        } else if let Some(host) = &volume.host_path {
            self.field(2, "Type", "HostPath (bare host directory volume)");
            self.field(2, "Path", &host.path);
            self.field(2, "HostPathType", host.type_.as_deref().unwrap_or_default());
        } else if let Some(downward) = &volume.downward_api {
            self.field(2, "Type", "DownwardAPI (a volume populated by information about the pod)");
            self.items(downward.items.as_deref().unwrap_or_default());
        } else if let Some(projected) = &volume.projected {
            self.field(2, "Type", "Projected (a volume that contains injected data from multiple sources)");
            let parts = projected.sources.iter().flatten().filter_map(|source| source.downward_api.as_ref());
            parts.for_each(|part| self.items(part.items.as_deref().unwrap_or_default()));
        } else if let Some(image) = &volume.image {
            self.field(2, "Type", "Image (a container image or OCI artifact)");
            self.field(2, "Reference", image.reference.as_deref().unwrap_or_default());
            self.field(2, "PullPolicy", image.pull_policy.as_deref().unwrap_or_default());
        } else {
            let fields = serde_json::to_value(volume).unwrap_or_default();
            let kind = fields.as_object().into_iter().flat_map(|fields| fields.keys()).find(|key| *key != "name").cloned();
            self.field(2, "Type", kind.as_deref().unwrap_or("<unknown>"));
        }
    }

    fn items(&mut self, items: &[v1::DownwardAPIVolumeFile]) {
        self.line(2, "Items:");
        for item in items {
            let of = match (&item.field_ref, &item.resource_field_ref) {
                (Some(field), _) => field.field_path.as_str(),
                (None, Some(resource)) => resource.resource.as_str(),
                (None, None) => "",
            };
            self.line(3, format!("{of} -> {}", item.path));
        }
    }

    fn events(&mut self, events: &[Value]) {
        if events.is_empty() {
            return self.line(0, "Events:\t<none>");
        }
        self.line(0, "Events:");
        self.line(1, "Type\tReason\tAge\tFrom\tMessage");
        self.line(1, "----\t------\t----\t----\t-------");
        for event in events {
            let age = seen(event, self.now);
            let [kind, reason, message] = ["type", "reason", "message"].map(|field| one_line(&text(&event[field])));
            self.line(1, format!("{kind}\t{reason}\t{age}\t{}\t{message}", text(&event["source"]["component"])));
        }
    }
}

/// A probe in one line, as kubectl writes it.
fn probed(probe: &v1::Probe) -> String {
    let number = |value: Option<i32>, default: i32| value.filter(|value| *value != 0).unwrap_or(default);
    let attributes = format!(
        "delay={}s timeout={}s period={}s #success={} #failure={}",
        number(probe.initial_delay_seconds, 0),
        number(probe.timeout_seconds, 1),
        number(probe.period_seconds, 10),
        number(probe.success_threshold, 1),
        number(probe.failure_threshold, 3)
    );
    let port = |port: &IntOrString| match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => name.clone(),
    };
    if let Some(exec) = &probe.exec {
        format!("exec [{}] {attributes}", exec.command.as_deref().unwrap_or_default().join(" "))
    } else if let Some(http) = &probe.http_get {
        let scheme = http.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
        let host = http.host.as_deref().unwrap_or_default();
        format!("http-get {scheme}://{host}:{}{} {attributes}", port(&http.port), http.path.as_deref().unwrap_or("/"))
    } else if let Some(tcp) = &probe.tcp_socket {
        format!("tcp-socket {}:{} {attributes}", tcp.host.as_deref().unwrap_or_default(), port(&tcp.port))
    } else if let Some(grpc) = &probe.grpc {
        format!("grpc <pod>:{} {} {attributes}", grpc.port, grpc.service.as_deref().unwrap_or_default())
    } else {
        format!("unknown {attributes}")
    }
}

/// A field of the pod that a variable shows, where the object tells it.
fn field_of(pod: &v1::Pod, path: &str) -> String {
    let meta = &pod.metadata;
    let value = match path {
        "metadata.name" => meta.name.clone(),
        "metadata.namespace" => meta.namespace.clone(),
        "metadata.uid" => meta.uid.clone(),
        "spec.nodeName" => pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        _ => None,
    };
    value.unwrap_or_default()
}

fn tolerated(toleration: &v1::Toleration) -> String {
    let mut shown = toleration.key.clone().unwrap_or_default();
    if let Some(value) = toleration.value.as_deref().filter(|value| !value.is_empty()) {
        let _ = write!(shown, "={value}");
    }
    if let Some(effect) = toleration.effect.as_deref().filter(|effect| !effect.is_empty()) {
        let _ = write!(shown, ":{effect}");
    }
    if toleration.operator.as_deref() == Some("Exists") && toleration.value.as_deref().unwrap_or_default().is_empty() {
        shown.push_str(" op=Exists");
    }
    if let Some(seconds) = toleration.toleration_seconds {
        let _ = write!(shown, " for {seconds}s");
    }
    shown
}

#[cfg(test)]
mod tests;
