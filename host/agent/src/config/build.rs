//! The merged tree → settings, and the checks that span several fields.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use polylet_core::config::Rate;
use polylet_core::quantity;
use polylet_machine::userns::IDS_PER_POD;
use serde_json::{Map, Value};

use super::schema::{self, Field};
use super::{duration, eviction, gates, kubelet};
use crate::document::field::{At, Findings};
use crate::settings::{LogRotation, Settings};
use crate::source::fetch::{self, ManifestUrl};
use crate::source::sysctls;

/// Checks what no field shows alone.
pub(super) fn check(tree: &Map<String, Value>, errors: &mut Findings, warnings: &mut Findings) {
    let tree = &Tree(tree);
    gates::check(tree.0, errors, warnings);
    eviction::check_maps(tree.0, errors);
    if tree.flag("serializeImagePulls") && tree.int("maxParallelImagePulls").is_some_and(|pulls| pulls > 1) {
        let detail = "cannot be larger than 1 unless serializeImagePulls is false";
        errors.invalid(&At::of("maxParallelImagePulls"), tree.int("maxParallelImagePulls"), detail);
    }
    image_thresholds(tree, errors);
    let period = tree.duration("cpuCFSQuotaPeriod");
    if !(Duration::from_millis(1)..=Duration::from_secs(1)).contains(&period) {
        errors.invalid(&At::of("cpuCFSQuotaPeriod"), tree.text("cpuCFSQuotaPeriod"), "must be between 1ms and 1s, inclusive");
    }
    if let Some(text) = tree.inner("crashLoopBackOff", "maxContainerRestartPeriod") {
        let period = duration::parse(&text).unwrap_or_default();
        if !(Duration::from_secs(1)..=Duration::from_secs(300)).contains(&period) {
            errors.invalid(&At::of("crashLoopBackOff.maxContainerRestartPeriod"), text, "must be between 1s and 300s, inclusive");
        }
    }
    if let Some(Err((at, value, detail))) = tree.manifest_url() {
        errors.invalid(&at, value, detail);
    }
    let size = tree.0.get("containerLogMaxSize").and_then(Value::as_str).unwrap_or_default();
    if !size.is_empty() && quantity::whole(size) == Ok(0) {
        let detail = "must be above zero; a negative amount, such as -1, switches the rotation of logs off";
        errors.invalid(&At::of("containerLogMaxSize"), size, detail);
    }
    if tree.duration("containerLogMonitorInterval") < Duration::from_secs(3) {
        let detail = "must be 3s or more";
        errors.invalid(&At::of("containerLogMonitorInterval"), tree.text("containerLogMonitorInterval"), detail);
    }
    let enforced = tree.texts("enforceNodeAllocatable");
    if !matches!(enforced.iter().map(String::as_str).collect::<Vec<_>>()[..], ["pods"] | ["none"] | []) {
        let detail = "not supported yet (limits on the system's own cgroups): only [\"pods\"] and [\"none\"] are";
        errors.invalid(&At::of("enforceNodeAllocatable"), Value::from(enforced.clone()), detail);
    }
    if !tree.flag("cgroupsPerQOS") {
        if enforced.iter().any(|level| level == "pods") {
            let detail = "needs cgroupsPerQOS: true; without it, it must be [\"none\"]";
            errors.invalid(&At::of("enforceNodeAllocatable"), Value::from(enforced), detail);
        }
        if let Some(limit) = tree.int("podPidsLimit").filter(|limit| *limit > 0) {
            warnings.ignored(&At::of("podPidsLimit"), limit, "pods have no cgroups of their own with cgroupsPerQOS: false");
        }
    }
    for field in ["podLogsDir", "staticPodPath", "resolvConf"] {
        let path = tree.text(field);
        if !path.is_empty() && !path.starts_with('/') {
            errors.invalid(&At::of(field), path, "must be an absolute path");
        }
    }
    for field in ["containerRuntimeEndpoint", "imageServiceEndpoint"] {
        let endpoint = tree.text(field);
        let socket = endpoint.strip_prefix("unix://").unwrap_or(&endpoint);
        if !endpoint.is_empty() && !socket.starts_with('/') {
            errors.invalid(&At::of(field), endpoint, "must be a Unix socket such as unix:///run/containerd/containerd.sock");
        }
    }
    let root = tree.text("cgroupRoot");
    if root.split('/').any(|part| matches!(part, "." | "..")) {
        errors.invalid(&At::of("cgroupRoot"), root, "must be a cgroup such as /node, without \".\" and \"..\" in its path");
    }
    if let Some(ids) = tree.ids_per_pod().filter(|ids| ids % i64::from(IDS_PER_POD) != 0) {
        errors.invalid(&At::of("userNamespaces.idsPerPod"), ids, format!("must be a multiple of {IDS_PER_POD}"));
    }
    for (i, pattern) in tree.texts("allowedUnsafeSysctls").iter().enumerate() {
        if let Err(detail) = sysctls::check_pattern(pattern) {
            errors.invalid(&At::of("allowedUnsafeSysctls").index(i), pattern.as_str(), detail);
        }
    }
    let ranges = tree.text("podCIDR");
    let families: Vec<Option<bool>> = ranges.split(',').map(family).collect();
    if !ranges.is_empty() && !matches!(families[..], [Some(_)] | [Some(true), Some(false)] | [Some(false), Some(true)]) {
        let detail = "must be a range of addresses such as 10.244.1.0/24, or one of each family with a comma between them";
        errors.invalid(&At::of("podCIDR"), ranges, detail);
    }
    let domain = tree.text("clusterDomain");
    if !domain.is_empty()
        && !domain.split('.').all(|l| !l.is_empty() && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
    {
        errors.invalid(&At::of("clusterDomain"), domain, "must be a DNS domain such as cluster.local");
    }
}

/// Laid to the one that was written, where the other is a default.
fn image_thresholds(tree: &Tree<'_>, errors: &mut Findings) {
    let (low, high) = ("imageGCLowThresholdPercent", "imageGCHighThresholdPercent");
    let (least, most) = (tree.int(low).unwrap_or_default(), tree.int(high).unwrap_or_default());
    if least < most {
        return;
    }
    let own = |name| tree.own(name).is_some();
    let (at, value, detail) = match (own(low), own(high)) {
        (false, true) => (high, most, format!("must be more than {low}, which is {least} unless it is set: set both")),
        (true, false) => (low, least, format!("must be less than {high}, which is {most} unless it is set: set both")),
        _ => (low, least, format!("must be less than {high}, which is {most}")),
    };
    errors.invalid(&At::of(at), value, detail);
}

/// Whether a range of addresses is of IPv4; None where it is none.
fn family(range: &str) -> Option<bool> {
    let (address, length) = range.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    length.parse::<u8>().is_ok_and(|length| length <= most).then(|| address.is_ipv4())
}

/// Takes a checked tree over into the settings.
pub(super) fn apply(tree: &Map<String, Value>, settings: &mut Settings) {
    let tree = Tree(tree);
    let number = |name: &str| tree.int(name).unwrap_or_default();
    let path = tree.text("staticPodPath");
    settings.static_pod_path = (!path.is_empty()).then(|| PathBuf::from(path));
    settings.static_pod_url = tree.manifest_url().and_then(Result::ok);
    settings.http_check = tree.duration("httpCheckFrequency");
    settings.paths.pod_logs = tree.text("podLogsDir").trim_end_matches('/').into();
    settings.file_check = tree.duration("fileCheckFrequency");
    settings.runtime_endpoint = tree.text("containerRuntimeEndpoint");
    settings.image_endpoint = Some(tree.text("imageServiceEndpoint")).filter(|endpoint| !endpoint.is_empty());
    settings.runtime_timeout = tree.duration("runtimeRequestTimeout");
    let root = tree.text("cgroupRoot");
    settings.cgroup_root = if root.is_empty() { "/".to_owned() } else { root };
    settings.cgroups_per_qos = tree.flag("cgroupsPerQOS");
    settings.enforce_pods = tree.texts("enforceNodeAllocatable").iter().any(|level| level == "pods");
    settings.cluster_dns = tree.texts("clusterDNS");
    settings.cluster_domain = tree.text("clusterDomain");
    settings.resolv_conf = tree.text("resolvConf");
    settings.cpu_quota = tree.flag("cpuCFSQuota");
    settings.cpu_period_us = u64::try_from(tree.duration("cpuCFSQuotaPeriod").as_micros()).unwrap_or(100_000);
    settings.pod_cidr = tree.text("podCIDR");
    settings.pids_limit = u64::try_from(number("podPidsLimit")).ok().filter(|limit| *limit > 0);
    settings.seccomp_default = tree.flag("seccompDefault");
    settings.single_process_oom_kill = tree.get("singleProcessOOMKill").as_bool();
    settings.unsafe_sysctls = tree.texts("allowedUnsafeSysctls");
    settings.ids_per_pod = tree.ids_per_pod().and_then(|ids| u32::try_from(ids).ok()).unwrap_or(IDS_PER_POD);
    settings.fail_cgroup_v1 = tree.flag("failCgroupV1");
    settings.fail_swap_on = tree.flag("failSwapOn");
    settings.protect_kernel_defaults = tree.flag("protectKernelDefaults");
    settings.oom_score_adj = i32::try_from(number("oomScoreAdj")).unwrap_or(-999);
    settings.max_pods = u32::try_from(number("maxPods")).unwrap_or(110);
    let count = |name: &str| u32::try_from(number(name)).unwrap_or(0);
    let rate = Rate { per_second: count("registryPullQPS"), burst: count("registryBurst") };
    settings.pull_rate = (rate.per_second > 0).then_some(rate);
    settings.parallel_pulls = match (tree.flag("serializeImagePulls"), tree.int("maxParallelImagePulls")) {
        (true, _) => 1,
        (false, Some(pulls)) => usize::try_from(pulls).unwrap_or(1).max(1),
        // Upstream sets no bound then.
        (false, None) => usize::MAX,
    };
    // A negative one is none: rotation is off.
    settings.log_rotation = quantity::whole(&tree.text("containerLogMaxSize")).ok().map(|max_size| {
        let count = |name: &str, least: usize| usize::try_from(number(name)).unwrap_or(least).max(least);
        let (max_files, workers) = (count("containerLogMaxFiles", 2), count("containerLogMaxWorkers", 1));
        LogRotation { max_size, max_files, workers, interval: tree.duration("containerLogMonitorInterval") }
    });
    if let Some(Ok(period)) = tree.inner("crashLoopBackOff", "maxContainerRestartPeriod").map(|text| duration::parse(&text)) {
        settings.crash_backoff_max = period;
    }
    let reserved = |resource: &str, read: fn(&str) -> Result<u64, quantity::QuantityError>| {
        let amounts = ["kubeReserved", "systemReserved"].iter().filter_map(|map| tree.inner(map, resource));
        amounts.filter_map(|text| read(&text).ok()).fold(0u64, u64::saturating_add)
    };
    settings.reserved_cpu = reserved("cpu", quantity::milli);
    settings.reserved_memory = reserved("memory", quantity::whole);
    settings.reserved_pids = reserved("pid", quantity::whole);
    settings.reserved_storage = reserved("ephemeral-storage", quantity::whole);
    settings.thresholds = eviction::thresholds(tree.0);
    settings.local_storage_limits = tree.flag("localStorageCapacityIsolation");
    // A negative one is none: volumes are not measured.
    settings.volume_stats = duration::parse(&tree.text("volumeStatsAggPeriod")).ok();
    settings.pressure_transition = tree.duration("evictionPressureTransitionPeriod");
    settings.eviction_max_grace = Duration::from_secs(u64::try_from(number("evictionMaxPodGracePeriod")).unwrap_or(0));
    let place = |address: &str, port: &str| {
        let port = u16::try_from(number(port)).ok().filter(|port| *port > 0)?;
        Some(SocketAddr::new(tree.text(address).parse().ok()?, port))
    };
    settings.health = place("healthzBindAddress", "healthzPort");
    settings.read_only = place("address", "readOnlyPort");
    settings.log_json = tree.inner("logging", "format").as_deref() == Some("json");
    let verbosity = tree.0.get("logging").and_then(|logging| logging.get("verbosity")).and_then(Value::as_u64);
    settings.verbosity = verbosity.and_then(|level| u8::try_from(level).ok()).unwrap_or(0);
}

/// A checked tree, read with the table's defaults.
struct Tree<'a>(&'a Map<String, Value>);

impl Tree<'_> {
    /// The value, or the default where there is none.
    fn get(&self, name: &str) -> Value {
        let Some(field) = Self::field(name) else { return Value::Null };
        self.own(name).cloned().unwrap_or_else(|| schema::default_of(field))
    }

    /// The value that was written.
    fn own(&self, name: &str) -> Option<&Value> {
        let field = Self::field(name)?;
        let absent = |value: &Value| value.is_null() || schema::zero_is_absent(field) && schema::is_zero(value);
        self.0.get(name).filter(|value| !absent(value))
    }

    fn field(name: &str) -> Option<&'static Field> {
        kubelet::FIELDS.iter().find(|field| field.name == name)
    }

    fn text(&self, name: &str) -> String {
        self.get(name).as_str().unwrap_or_default().to_owned()
    }

    fn flag(&self, name: &str) -> bool {
        self.get(name).as_bool().unwrap_or_default()
    }

    fn int(&self, name: &str) -> Option<i64> {
        self.get(name).as_i64()
    }

    fn duration(&self, name: &str) -> Duration {
        duration::parse(&self.text(name)).unwrap_or_default()
    }

    fn texts(&self, name: &str) -> Vec<String> {
        let list = self.get(name);
        list.as_array().into_iter().flatten().filter_map(|entry| Some(entry.as_str()?.to_owned())).collect()
    }

    /// None where there is none; the error is place, value and what would be right.
    fn manifest_url(&self) -> Option<Result<ManifestUrl, (At, String, String)>> {
        let text = self.text("staticPodURL");
        if text.is_empty() {
            return None;
        }
        let url = match ManifestUrl::parse(&text) {
            Ok(url) => url,
            Err(detail) => return Some(Err((At::of("staticPodURL"), fetch::shown(&text), detail))),
        };
        let texts = |list: &Value| list.as_array().into_iter().flatten().filter_map(|v| Some(v.as_str()?.to_owned())).collect();
        let headers = self.get("staticPodURLHeader");
        let headers: BTreeMap<String, Vec<String>> =
            headers.as_object().into_iter().flatten().map(|(name, list)| (name.clone(), texts(list))).collect();
        Some(url.with_headers(&headers).map_err(|(name, at, detail)| {
            let place = At::of("staticPodURLHeader").key(&name);
            (at.map_or(place.clone(), |at| place.index(at)), schema::NOT_SHOWN.to_owned(), detail)
        }))
    }

    fn ids_per_pod(&self) -> Option<i64> {
        self.0.get("userNamespaces")?.get("idsPerPod")?.as_i64()
    }

    /// A text within a mapping.
    fn inner(&self, name: &str, key: &str) -> Option<String> {
        Some(self.0.get(name)?.get(key)?.as_str()?.to_owned())
    }
}
