//! What is counted, under upstream's names where one exists.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use polylet_core::pod::ContainerKind;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Seconds: upstream's default buckets.
const DEFAULT: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Seconds: 5 ms times 2.5, thirteen times.
fn operations() -> impl Iterator<Item = f64> {
    (0..14).map(|k| 0.005 * 2.5f64.powi(k))
}
/// Seconds: policy calls and steps take microseconds.
const SHORT: [f64; 10] = [2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 5e-4, 1e-3, 1e-2, 0.1];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabel {
    operation_type: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ContainerTypeLabel {
    container_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NotStartedLabel {
    container_type: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SignalLabel {
    eviction_signal: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    container_state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabel {
    hook: String,
    policy: String,
    result: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabel {
    hook: String,
    policy: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HookLabel {
    hook: String,
}

/// How metrics are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, version 0.0.4.
    Text,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// By what an `Accept` header says, as upstream: text for whoever does not ask for the other more than for it.
    pub fn accepted(accept: &str) -> Self {
        let mut best = (0.0, Self::Text);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let fields: Vec<(&str, &str)> =
                parts.filter_map(|part| part.split_once('=')).map(|(k, v)| (k.trim(), v.trim())).collect();
            let field = |name: &str| fields.iter().find(|(k, _)| k.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim_matches('"'));
            let format = match (kind.as_str(), field("version")) {
                ("application/openmetrics-text", None | Some("1.0.0")) => Self::OpenMetrics,
                ("text/plain", None | Some("0.0.4")) | ("text/*" | "*/*", _) => Self::Text,
                _ => continue,
            };
            // Of what is wanted as much, the first.
            let quality = field("q").map_or(1.0, |q| q.parse::<f64>().unwrap_or(0.0));
            if quality > best.0 {
                best = (quality, format);
            }
        }
        best.1
    }

    /// The `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// All metrics of the agent. Every method is cheap and may be called from any thread.
pub struct Metrics {
    registry: Registry,
    operations: Family<OperationLabel, Counter>,
    operation_errors: Family<OperationLabel, Counter>,
    operation_seconds: Histograms<OperationLabel>,
    relist_seconds: Histogram,
    started: Family<ContainerTypeLabel, Counter>,
    start_errors: Family<NotStartedLabel, Counter>,
    /// A gauge that only grows: a counter's name would get a `_total`, which upstream's has not.
    evictions: Family<SignalLabel, Gauge>,
    pods: Gauge,
    containers: Family<StateLabel, Gauge>,
    decisions: Family<DecisionLabel, Counter>,
    decision_seconds: Histograms<PolicyLabel>,
    fuel: Family<PolicyLabel, Counter>,
    clamped: Family<HookLabel, Counter>,
    swaps: Counter,
    step_seconds: Histogram,
    inbox: Gauge,
    store_errors: Counter,
    decisions_lost: Gauge,
    resident: Gauge,
    cpu: Counter<f64, AtomicU64>,
}

impl Metrics {
    /// All at zero.
    pub fn new(node_name: &str) -> Self {
        let mut registry = Registry::default();
        let r = &mut registry;
        let started_at: Gauge<f64, AtomicU64> = Gauge::default();
        started_at.set(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64()));
        let build: Gauge = Gauge::default();
        build.set(1);
        r.sub_registry_with_label(("version".into(), env!("CARGO_PKG_VERSION").into())).register(
            "kubernetes_build_info",
            "Version of the agent",
            build,
        );
        let node: Gauge = Gauge::default();
        node.set(1);
        r.sub_registry_with_label(("node".into(), node_name.to_owned().into())).register(
            "kubelet_node_name",
            "Name of the node",
            node,
        );
        r.register("process_start_time_seconds", "Start of the process, in seconds since the epoch", started_at);
        Self {
            operations: counted(r, "kubelet_runtime_operations", "Calls of the runtime"),
            operation_errors: counted(r, "kubelet_runtime_operations_errors", "Calls of the runtime that failed"),
            operation_seconds: {
                let family: Histograms<OperationLabel> = Family::new_with_constructor(|| Histogram::new(operations()));
                r.register("kubelet_runtime_operations_duration_seconds", "Duration of calls of the runtime", family.clone());
                family
            },
            relist_seconds: histogram(r, "kubelet_pleg_relist_duration_seconds", "Duration of a relist", &DEFAULT),
            started: counted(r, "kubelet_started_containers", "Containers started"),
            start_errors: counted(r, "kubelet_started_containers_errors", "Attempts to start a container that failed, by reason"),
            evictions: registered(r, "kubelet_evictions", "Pods evicted, by what was short"),
            pods: registered(r, "kubelet_running_pods", "Pods with a running sandbox"),
            containers: registered(r, "kubelet_running_containers", "Containers by state"),
            decisions: counted(r, "polylet_policy_decisions", "Answers of policies, by what came of them"),
            decision_seconds: {
                let family: Histograms<PolicyLabel> = Family::new_with_constructor(|| Histogram::new(SHORT));
                r.register("polylet_policy_duration_seconds", "Duration of policy calls", family.clone());
                family
            },
            fuel: counted(r, "polylet_policy_fuel", "Fuel spent by policies"),
            clamped: counted(r, "polylet_policy_clamped", "Answers that the guard changed"),
            swaps: registered(r, "polylet_policy_swaps", "Changes of the bindings"),
            step_seconds: histogram(r, "polylet_step_duration_seconds", "Duration of one step of the node", &SHORT),
            inbox: registered(r, "polylet_inbox_depth", "Events waiting for the loop"),
            store_errors: registered(r, "polylet_store_errors", "Writes that did not reach the disk"),
            decisions_lost: registered(r, "polylet_decisions_lost", "Decision records that were not kept, since the start"),
            resident: registered(r, "process_resident_memory_bytes", "Resident memory of the agent"),
            cpu: registered(r, "process_cpu_seconds", "CPU time of the agent"),
            registry,
        }
    }

    /// A call of the runtime ended.
    pub fn runtime_operation(&self, name: &str, took: Duration, ok: bool) {
        let label = OperationLabel { operation_type: name.to_owned() };
        self.operations.get_or_create(&label).inc();
        if !ok {
            self.operation_errors.get_or_create(&label).inc();
        }
        self.operation_seconds.get_or_create(&label).observe(took.as_secs_f64());
    }

    /// A relist ended.
    pub fn relisted(&self, took: Duration) {
        self.relist_seconds.observe(took.as_secs_f64());
    }

    /// A container started.
    pub fn container_started(&self, kind: ContainerKind) {
        self.started.get_or_create(&ContainerTypeLabel { container_type: container_type(kind) }).inc();
    }

    /// A container could not be started; `code` is upstream's reason, such as `ErrImagePull`.
    pub fn container_failed(&self, kind: ContainerKind, code: &'static str) {
        self.start_errors.get_or_create(&NotStartedLabel { container_type: container_type(kind), code }).inc();
    }

    /// A pod was evicted because this signal was short.
    pub fn evicted(&self, signal: &str) {
        self.evictions.get_or_create(&SignalLabel { eviction_signal: signal.to_owned() }).inc();
    }

    /// Pods with a running sandbox, and containers by state.
    pub fn running(&self, pods: usize, containers: &[(&str, usize)]) {
        self.pods.set(pods as i64);
        for (state, count) in containers {
            self.containers.get_or_create(&StateLabel { container_state: (*state).to_owned() }).set(*count as i64);
        }
    }

    /// A policy answered, or failed to.
    pub fn decided(&self, hook: &str, policy: &str, result: &str, nanos: u64, fuel: u64) {
        let (hook, policy) = (hook.to_owned(), policy.to_owned());
        let label = PolicyLabel { hook: hook.clone(), policy: policy.clone() };
        self.decision_seconds.get_or_create(&label).observe(nanos as f64 / 1e9);
        self.fuel.get_or_create(&label).inc_by(fuel);
        self.decisions.get_or_create(&DecisionLabel { hook, policy, result: result.to_owned() }).inc();
    }

    /// The guard changed an answer.
    pub fn clamped(&self, hook: &str) {
        self.clamped.get_or_create(&HookLabel { hook: hook.to_owned() }).inc();
    }

    /// Bindings changed.
    pub fn policies_swapped(&self) {
        self.swaps.inc();
    }

    /// A step of the node ended.
    pub fn step(&self, took: Duration) {
        self.step_seconds.observe(took.as_secs_f64());
    }

    /// Events that wait.
    pub fn inbox_depth(&self, depth: usize) {
        self.inbox.set(depth as i64);
    }

    /// Decision records lost so far.
    pub fn decisions_lost(&self, count: u64) {
        self.decisions_lost.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A write did not reach the disk.
    pub fn store_failed(&self) {
        self.store_errors.inc();
    }

    /// The text that is scraped.
    pub fn render(&self, format: Format) -> String {
        self.read_process();
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _infallible = match format {
            Format::Text => prometheus_text::encode(&mut out, &self.registry),
            Format::OpenMetrics => text::encode(&mut out, &self.registry),
        };
        out
    }

    fn read_process(&self) {
        let page = rustix::param::page_size() as i64;
        let resident = std::fs::read_to_string("/proc/self/statm").ok();
        if let Some(pages) = resident.as_deref().and_then(|s| s.split(' ').nth(1)).and_then(|n| n.parse::<i64>().ok()) {
            self.resident.set(pages * page);
        }
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // Behind the name, which may hold blanks: utime and stime are the twelfth and thirteenth field.
        let fields: Vec<f64> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|f| f.parse().ok())
            .collect();
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        // The kernel counts: its number is taken over whole, in the form that the counter keeps one.
        self.cpu.inner().store((fields.iter().sum::<f64>() / ticks).to_bits(), Ordering::Relaxed);
    }
}

fn container_type(kind: ContainerKind) -> &'static str {
    match kind {
        ContainerKind::Init | ContainerKind::Sidecar => "init_container",
        ContainerKind::App => "container",
        ContainerKind::Ephemeral => "ephemeral_container",
    }
}

fn registered<M: prometheus_client::registry::Metric + Clone + Default>(r: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    r.register(name, help, metric.clone());
    metric
}

fn counted<L>(r: &mut Registry, name: &str, help: &str) -> Family<L, Counter>
where
    L: Clone + std::hash::Hash + Eq + EncodeLabelSet + std::fmt::Debug + Send + Sync + 'static,
{
    registered(r, name, help)
}

fn histogram(r: &mut Registry, name: &str, help: &str, buckets: &[f64]) -> Histogram {
    let histogram = Histogram::new(buckets.to_vec());
    r.register(name, help, histogram.clone());
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_upstreams() {
        let metrics = Metrics::new("n1");
        metrics.runtime_operation("run_podsandbox", Duration::from_millis(7), false);
        metrics.container_started(ContainerKind::Sidecar);
        metrics.container_failed(ContainerKind::App, "ErrImagePull");
        metrics.evicted("memory.available");
        metrics.decided("restart", "gentle", "answered", 10_000, 500);
        metrics.running(2, &[("running", 3)]);
        let text = metrics.render(Format::OpenMetrics);
        for line in [
            "kubelet_runtime_operations_total{operation_type=\"run_podsandbox\"} 1",
            "kubelet_runtime_operations_errors_total{operation_type=\"run_podsandbox\"} 1",
            "kubelet_started_containers_total{container_type=\"init_container\"} 1",
            "kubelet_started_containers_errors_total{container_type=\"container\",code=\"ErrImagePull\"} 1",
            "kubelet_evictions{eviction_signal=\"memory.available\"} 1",
            "polylet_policy_decisions_total{hook=\"restart\",policy=\"gentle\",result=\"answered\"} 1",
            "kubelet_running_pods 2",
            "kubelet_node_name{node=\"n1\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(text.contains("process_resident_memory_bytes "), "{text}");
        assert!(text.contains("# TYPE process_cpu_seconds counter\n") && text.ends_with("# EOF\n"), "{text}");
        let cpu = text.lines().find_map(|line| line.strip_prefix("process_cpu_seconds_total ")).expect("in the text");
        assert!(cpu.parse::<f64>().is_ok_and(|seconds| (0.0..1e6).contains(&seconds)), "{cpu}");
    }

    #[test]
    fn the_text_format_names_counters_in_full_and_has_nothing_of_the_other() {
        let metrics = Metrics::new("n1");
        metrics.runtime_operation("version", Duration::from_millis(7), true);
        let text = metrics.render(Format::Text);
        for line in [
            "# TYPE kubelet_runtime_operations_total counter\nkubelet_runtime_operations_total{operation_type=\"version\"} 1",
            "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total ",
            "# TYPE kubelet_running_pods gauge\nkubelet_running_pods 0\n",
            "kubelet_runtime_operations_duration_seconds_bucket{operation_type=\"version\",le=\"+Inf\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(text.contains("# HELP process_cpu_seconds_total ") && !text.contains("# HELP process_cpu_seconds "), "{text}");
        assert!(!text.contains("# EOF") && !text.contains("# UNIT"), "{text}");
    }

    #[test]
    fn a_format_is_chosen_by_what_is_accepted() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                          application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,\
                          */*;q=0.1";
        for (accept, expected) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/plain", Format::Text),
            ("text/html, application/json;q=0.9", Format::Text),
            ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;q=0.9, text/plain;q=0.1", Format::Text),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("Application/OpenMetrics-Text; Version=\"1.0.0\"; charset=utf-8", Format::OpenMetrics),
            ("application/openmetrics-text;version=0.0.1", Format::Text),
            ("application/openmetrics-text;q=0", Format::Text),
            ("application/openmetrics-text;q=0.2, text/plain;q=0.8", Format::Text),
            ("text/plain, application/openmetrics-text", Format::Text),
            ("application/openmetrics-text, text/plain", Format::OpenMetrics),
            (prometheus, Format::OpenMetrics),
        ] {
            assert_eq!(Format::accepted(accept), expected, "{accept}");
        }
    }
}
