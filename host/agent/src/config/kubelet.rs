//! `KubeletConfiguration` v1beta1: every field, its default, and how far this node honours it.
//!
//! The rule of the last column: what a node would do other than it was told to is refused; what has nothing to act on (no HTTPS endpoint, no
//! API server) or only costs comfort is accepted with a warning wherever it is written, unless the value switches it off.

use super::schema::Shape::{
    Bool, BoolMap, Duration, DurationOrNanos, Float, Int, Ints, Ip, Ips, Object, Objects, OneOf, Path, Quantity, Reservation,
    SecretTextsMap, SignalDurations, SignedDuration, SignedQuantity, Text, TextMap, Texts, TextsOf, Thresholds,
};
use super::schema::Stand::{Honoured, Ignored, Only, Refused};
use super::schema::{Field, Shape, Stand};

/// Kind and version of the file.
pub(super) const KIND: (&str, &str) = ("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration");

const SERVER: Stand = Ignored("this node serves no kubelet HTTPS endpoint yet");
const API: Stand = Ignored("this node talks to no API server yet");
const PROFILING: Stand = Ignored("there is nothing to profile in this agent");
const SYNC: Stand = Ignored("a pod is looked at whenever something of it changes, and not from time to time");
const IMAGES: Stand = Ignored("this node collects no unused images yet");
const PORT: Shape = Int(0, 65535);
const I32: Shape = Int(i32::MIN as i64, i32::MAX as i64);
const COUNT: Shape = Int(0, i32::MAX as i64);
const PERCENT: Shape = Int(0, 100);

const fn row(name: &'static str, kind: &'static str, default: &'static str, shape: Shape, stand: Stand) -> Field {
    Field { name, kind, default, shape, stand }
}

/// All fields, in upstream's order.
pub(super) const FIELDS: &[Field] = &[
    row("enableServer", "*bool", "true", Bool, SERVER),
    row("staticPodPath", "string", "''", Path, Honoured),
    row("podLogsDir", "string", "/var/log/pods/", Path, Honoured),
    row("syncFrequency", "metav1.Duration", "1m", Duration, SYNC),
    row("fileCheckFrequency", "metav1.Duration", "20s", Duration, Honoured),
    row("httpCheckFrequency", "metav1.Duration", "20s", Duration, Honoured),
    row("staticPodURL", "string", "''", Text, Honoured),
    row("staticPodURLHeader", "map[string][]string", "null", SecretTextsMap, Honoured),
    row("address", "string", "0.0.0.0", Ip, Honoured),
    row("port", "int32", "10250", PORT, SERVER),
    row("readOnlyPort", "int32", "0", PORT, Honoured),
    row("tlsCertFile", "string", "''", Path, SERVER),
    row("tlsPrivateKeyFile", "string", "''", Path, SERVER),
    row("tlsCipherSuites", "[]string", "null", TextsOf(CIPHER_SUITES), SERVER),
    row("tlsCurvePreferences", "[]int32", "null", Ints, SERVER),
    row("tlsMinVersion", "string", "''", OneOf(TLS_VERSIONS), SERVER),
    row("rotateCertificates", "bool", "false", Bool, API),
    row("serverTLSBootstrap", "bool", "false", Bool, API),
    row("authentication", "KubeletAuthentication", "null", Object(AUTHENTICATION), Honoured),
    row("authorization", "KubeletAuthorization", "null", Object(AUTHORIZATION), Honoured),
    row("registryPullQPS", "*int32", "5", COUNT, Honoured),
    row("registryBurst", "int32", "10", COUNT, Honoured),
    row(
        "imagePullCredentialsVerificationPolicy",
        "ImagePullCredentialsVerificationPolicy",
        "null",
        OneOf(VERIFICATION),
        Only(&["NeverVerify", "NeverVerifyPreloadedImages"], "image pull credentials"),
    ),
    row("preloadedImagesVerificationAllowlist", "[]string", "null", Texts, Refused("image pull credentials")),
    row("eventRecordQPS", "*int32", "50", COUNT, API),
    row("eventBurst", "int32", "100", COUNT, API),
    row("enableDebuggingHandlers", "*bool", "true", Bool, SERVER),
    row("enableContentionProfiling", "bool", "false", Bool, PROFILING),
    row("healthzPort", "*int32", "10248", PORT, Honoured),
    row("healthzBindAddress", "string", "127.0.0.1", Ip, Honoured),
    row("oomScoreAdj", "*int32", "-999", Int(-1000, 1000), Honoured),
    row("clusterDomain", "string", "''", Text, Honoured),
    row("clusterDNS", "[]string", "null", Ips, Honoured),
    row("streamingConnectionIdleTimeout", "metav1.Duration", "4h", Duration, SERVER),
    row("nodeStatusUpdateFrequency", "metav1.Duration", "10s", Duration, API),
    row("nodeStatusReportFrequency", "metav1.Duration", "5m", Duration, API),
    row("nodeLeaseDurationSeconds", "int32", "40", COUNT, API),
    row("imageMinimumGCAge", "metav1.Duration", "2m", Duration, IMAGES),
    row("imageMaximumGCAge", "metav1.Duration", "0s", Duration, IMAGES),
    row("imageGCHighThresholdPercent", "*int32", "85", PERCENT, IMAGES),
    row("imageGCLowThresholdPercent", "*int32", "80", PERCENT, IMAGES),
    row("volumeStatsAggPeriod", "metav1.Duration", "1m", SignedDuration, Honoured),
    row("kubeletCgroups", "string", "''", Text, Refused("a cgroup for the agent")),
    row("systemCgroups", "string", "''", Text, Refused("a cgroup for system processes")),
    row("cgroupRoot", "string", "''", Text, Honoured),
    row("cgroupsPerQOS", "*bool", "true", Bool, Honoured),
    row("cgroupDriver", "string", "cgroupfs", OneOf(&["cgroupfs", "systemd"]), Only(&["cgroupfs"], "systemd slices")),
    row("cpuManagerPolicy", "string", "None", OneOf(&["None", "none", "static"]), Only(&["None", "none"], "exclusive CPUs")),
    row("singleProcessOOMKill", "*bool", "null", Bool, Honoured),
    row("cpuManagerPolicyOptions", "map[string]string", "null", TextMap, Refused("exclusive CPUs")),
    row("cpuManagerReconcilePeriod", "metav1.Duration", "10s", Duration, Ignored("there is no CPU manager yet")),
    row(
        "memoryManagerPolicy",
        "string",
        "None",
        OneOf(&["None", "none", "Static"]),
        Only(&["None", "none"], "the memory manager"),
    ),
    row("topologyManagerPolicy", "string", "none", OneOf(TOPOLOGY), Only(&["none"], "the topology manager")),
    row("topologyManagerScope", "string", "container", OneOf(&["container", "pod"]), Ignored("there is no topology manager yet")),
    row("topologyManagerPolicyOptions", "map[string]string", "null", TextMap, Refused("the topology manager")),
    row("qosReserved", "map[string]string", "null", TextMap, Refused("reserving memory for a class")),
    row("runtimeRequestTimeout", "metav1.Duration", "2m", Duration, Honoured),
    row("hairpinMode", "string", "promiscuous-bridge", OneOf(HAIRPIN), Ignored("the CNI configuration decides it")),
    row("maxPods", "int32", "110", COUNT, Honoured),
    row("podCIDR", "string", "''", Text, Honoured),
    row("podPidsLimit", "*int64", "-1", Int(-1, i64::MAX), Honoured),
    row("resolvConf", "*string", "/etc/resolv.conf", Path, Honoured),
    row("runOnce", "bool", "false", Bool, Refused("running once, which upstream has removed too")),
    row("cpuCFSQuota", "*bool", "true", Bool, Honoured),
    row("cpuCFSQuotaPeriod", "*metav1.Duration", "100ms", Duration, Honoured),
    row("nodeStatusMaxImages", "*int32", "50", I32, API),
    row("maxOpenFiles", "int64", "1000000", Int(0, i64::MAX), Ignored("the agent keeps the limit that it was started with")),
    row("contentType", "string", "application/vnd.kubernetes.protobuf", Text, API),
    row("kubeAPIQPS", "*int32", "50", I32, API),
    row("kubeAPIBurst", "int32", "100", COUNT, API),
    row("serializeImagePulls", "*bool", "true", Bool, Honoured),
    row("maxParallelImagePulls", "*int32", "null", Int(1, i32::MAX as i64), Honoured),
    row("evictionHard", "map[string]string", "null", Thresholds, Honoured),
    row("evictionSoft", "map[string]string", "null", Thresholds, Honoured),
    row("evictionSoftGracePeriod", "map[string]string", "null", SignalDurations, Honoured),
    row("evictionPressureTransitionPeriod", "metav1.Duration", "5m", Duration, Honoured),
    row("evictionMaxPodGracePeriod", "int32", "0", COUNT, Honoured),
    row("evictionMinimumReclaim", "map[string]string", "null", Thresholds, Honoured),
    row("mergeDefaultEvictionSettings", "*bool", "false", Bool, Honoured),
    row("podsPerCore", "int32", "0", COUNT, Refused("a number of pods per core; maxPods is")),
    row("enableControllerAttachDetach", "*bool", "true", Bool, API),
    row("protectKernelDefaults", "bool", "false", Bool, Honoured),
    row("makeIPTablesUtilChains", "*bool", "true", Bool, Ignored("this node makes no iptables chains")),
    row("iptablesMasqueradeBit", "*int32", "14", Int(0, 31), Ignored("this node makes no iptables chains")),
    row("iptablesDropBit", "*int32", "15", Int(0, 31), Ignored("this node makes no iptables chains")),
    row("featureGates", "map[string]bool", "null", BoolMap, Honoured),
    row("failSwapOn", "*bool", "true", Bool, Honoured),
    row("memorySwap", "MemorySwapConfiguration", "null", Object(MEMORY_SWAP), Honoured),
    row("containerLogMaxSize", "string", "10Mi", SignedQuantity, Honoured),
    row("containerLogMaxFiles", "*int32", "5", Int(2, i32::MAX as i64), Honoured),
    row("containerLogMaxWorkers", "*int32", "1", Int(1, i32::MAX as i64), Honoured),
    row("containerLogMonitorInterval", "*metav1.Duration", "10s", Duration, Honoured),
    row(
        "configMapAndSecretChangeDetectionStrategy",
        "ResourceChangeDetectionStrategy",
        "Watch",
        OneOf(&["Cache", "Get", "Watch"]),
        API,
    ),
    row("systemReserved", "map[string]string", "null", Reservation, Honoured),
    row("kubeReserved", "map[string]string", "null", Reservation, Honoured),
    row("reservedSystemCPUs", "string", "''", Text, Refused("reserving CPUs by number")),
    row("showHiddenMetricsForVersion", "string", "''", Text, Ignored("no metric is hidden")),
    row("systemReservedCgroup", "string", "''", Text, Refused("limits on the system's own cgroups")),
    row("kubeReservedCgroup", "string", "''", Text, Refused("limits on the system's own cgroups")),
    row("enforceNodeAllocatable", "[]string", "[pods]", Texts, Honoured),
    row("allowedUnsafeSysctls", "[]string", "[]", Texts, Honoured),
    row("defaultPodSysctls", "map[string]string", "null", TextMap, Refused("default sysctls of pods")),
    row(
        "volumePluginDir",
        "string",
        "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
        Path,
        Ignored("there are no volume plugins yet"),
    ),
    row("providerID", "string", "''", Text, API),
    row("kernelMemcgNotification", "bool", "false", Bool, Ignored("pressure is noticed by sampling")),
    row("logging", "logsapi.LoggingConfiguration", "null", Object(LOGGING), Honoured),
    row("enableSystemLogHandler", "*bool", "true", Bool, SERVER),
    row("enableSystemLogQuery", "*bool", "false", Bool, SERVER),
    row("shutdownGracePeriod", "metav1.Duration", "0s", Duration, Refused("graceful shutdown of the node")),
    row("shutdownGracePeriodCriticalPods", "metav1.Duration", "0s", Duration, Refused("graceful shutdown of the node")),
    row(
        "shutdownGracePeriodByPodPriority",
        "[]ShutdownGracePeriodByPodPriority",
        "null",
        Objects(SHUTDOWN),
        Refused("graceful shutdown of the node"),
    ),
    row("crashLoopBackOff", "CrashLoopBackOffConfig", "null", Object(CRASH_LOOP), Honoured),
    row("reservedMemory", "[]MemoryReservation", "null", Objects(MEMORY_RESERVATION), Refused("the memory manager")),
    row("enableProfilingHandler", "*bool", "true", Bool, SERVER),
    row("enableDebugFlagsHandler", "*bool", "true", Bool, SERVER),
    row("seccompDefault", "*bool", "false", Bool, Honoured),
    row("memoryThrottlingFactor", "*float64", "null", Float, Ignored("a qos policy sets memory.high")),
    row(
        "memoryReservationPolicy",
        "MemoryReservationPolicy",
        "None",
        OneOf(&["None", "TieredReservation"]),
        Only(&["None"], "memory reservation; a qos policy can set memory.min and memory.low"),
    ),
    row("registerWithTaints", "[]v1.Taint", "null", Objects(TAINT), API),
    row("registerNode", "*bool", "true", Bool, API),
    row("tracing", "*tracingapi.TracingConfiguration", "null", Object(TRACING), Honoured),
    row("localStorageCapacityIsolation", "*bool", "true", Bool, Honoured),
    row("containerRuntimeEndpoint", "string", "unix:///run/containerd/containerd.sock", Text, Honoured),
    row("imageServiceEndpoint", "string", "''", Text, Honoured),
    row("failCgroupV1", "*bool", "true", Bool, Honoured),
    row("userNamespaces", "*UserNamespaces", "null", Object(USER_NAMESPACES), Honoured),
];

const VERIFICATION: &[&str] = &["AlwaysVerify", "NeverVerify", "NeverVerifyAllowlistedImages", "NeverVerifyPreloadedImages"];
const TOPOLOGY: &[&str] = &["best-effort", "none", "restricted", "single-numa-node"];
const HAIRPIN: &[&str] = &["hairpin-veth", "none", "promiscuous-bridge"];

const TLS_VERSIONS: &[&str] = &["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"];

/// Those that Go's TLS knows, the insecure ones too.
const CIPHER_SUITES: &[&str] = &[
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

const TAINT: &[Field] = &[
    row("key", "string", "''", Text, Honoured),
    row("value", "string", "''", Text, Honoured),
    row("effect", "v1.TaintEffect", "''", OneOf(&["NoExecute", "NoSchedule", "PreferNoSchedule"]), Honoured),
    row("timeAdded", "*metav1.Time", "null", Text, Honoured),
];

const TRACES: Stand = Ignored("this node exports no traces yet");
const TRACING: &[Field] = &[
    row("endpoint", "*string", "null", Text, TRACES),
    row("samplingRatePerMillion", "*int32", "null", Int(0, 1_000_000), TRACES),
];

const AUTHENTICATION: &[Field] = &[
    row("x509", "KubeletX509Authentication", "null", Object(&[row("clientCAFile", "string", "''", Path, SERVER)]), Honoured),
    row(
        "webhook",
        "KubeletWebhookAuthentication",
        "null",
        Object(&[row("enabled", "*bool", "true", Bool, SERVER), row("cacheTTL", "metav1.Duration", "2m", Duration, SERVER)]),
        Honoured,
    ),
    row(
        "anonymous",
        "KubeletAnonymousAuthentication",
        "null",
        Object(&[row("enabled", "*bool", "false", Bool, SERVER)]),
        Honoured,
    ),
];

const AUTHORIZATION: &[Field] = &[
    row("mode", "KubeletAuthorizationMode", "Webhook", OneOf(&["AlwaysAllow", "Webhook"]), SERVER),
    row(
        "webhook",
        "KubeletWebhookAuthorization",
        "null",
        Object(&[
            row("cacheAuthorizedTTL", "metav1.Duration", "5m", Duration, SERVER),
            row("cacheUnauthorizedTTL", "metav1.Duration", "30s", Duration, SERVER),
        ]),
        Honoured,
    ),
];

const MEMORY_SWAP: &[Field] =
    &[row("swapBehavior", "string", "''", OneOf(&["LimitedSwap", "NoSwap"]), Only(&["", "NoSwap"], "swap for pods"))];

const CRASH_LOOP: &[Field] = &[row("maxContainerRestartPeriod", "*metav1.Duration", "null", Duration, Honoured)];

const MEMORY_RESERVATION: &[Field] =
    &[row("numaNode", "int32", "0", COUNT, Honoured), row("limits", "v1.ResourceList", "null", TextMap, Honoured)];

const SHUTDOWN: &[Field] =
    &[row("priority", "int32", "0", I32, Honoured), row("shutdownGracePeriodSeconds", "int64", "0", COUNT, Honoured)];

const USER_NAMESPACES: &[Field] = &[row("idsPerPod", "*int64", "65536", Int(65536, u32::MAX as i64), Honoured)];

const LOGGING: &[Field] = &[
    row("format", "string", "text", OneOf(&["json", "text"]), Honoured),
    row("flushFrequency", "TimeOrMetaDuration", "5s", DurationOrNanos, AT_ONCE),
    row("verbosity", "uint32", "0", Int(0, 10), Honoured),
    row("vmodule", "VModuleConfiguration", "null", Objects(VMODULE), Ignored("there are no Go files to choose from")),
    row(
        "options",
        "FormatOptions",
        "null",
        Object(&[
            row("text", "TextOptions", "null", Object(OUTPUT), Honoured),
            row("json", "JSONOptions", "null", Object(OUTPUT), Honoured),
        ]),
        Honoured,
    ),
];

const AT_ONCE: Stand = Ignored("log lines are written at once, and all to one stream");
const OUTPUT: &[Field] = &[
    row("splitStream", "bool", "false", Bool, AT_ONCE),
    row("infoBufferSize", "resource.QuantityValue", "'0'", Quantity, AT_ONCE),
];
const VMODULE: &[Field] =
    &[row("filePattern", "string", "''", Text, Honoured), row("verbosity", "uint32", "0", Int(0, 10), Honoured)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::schema::{check, default_of};
    use crate::document::field::{At, Findings};
    use serde_json::{Map, Value};

    /// Upstream's structs that this kind is made of, with the table for each.
    const STRUCTS: &[(&str, &[Field])] = &[
        ("KubeletConfiguration", FIELDS),
        ("KubeletAuthentication", AUTHENTICATION),
        ("KubeletAuthorization", AUTHORIZATION),
        ("MemoryReservation", MEMORY_RESERVATION),
        ("ShutdownGracePeriodByPodPriority", SHUTDOWN),
        ("MemorySwapConfiguration", MEMORY_SWAP),
        ("CrashLoopBackOffConfig", CRASH_LOOP),
        ("UserNamespaces", USER_NAMESPACES),
    ];

    #[test]
    fn the_table_is_upstreams() {
        let facts = include_str!("../../tests/kubelet-config-v1beta1.tsv");
        let mut rows = 0;
        for line in facts.lines().filter(|line| !line.starts_with('#')) {
            let [owner, name, kind, default] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let Some((_, table)) = STRUCTS.iter().find(|(known, _)| *known == owner) else { continue };
            let field = table.iter().find(|field| field.name == name).unwrap_or_else(|| panic!("{owner}.{name} is missing"));
            assert_eq!(field.kind, kind, "{owner}.{name}");
            rows += 1;
            // A default in words, or in several lines of a map, is compared by eye.
            let default = default.split(' ').next().unwrap_or_default();
            if !default.is_empty() && !matches!(name, "evictionHard" | "logging") {
                let default = if default == "nil" { "null" } else { default };
                let upstream: Value = serde_saphyr::from_str(default).unwrap();
                let own = default_of(field);
                let same = own == upstream || own.as_str().map(str::to_lowercase) == upstream.as_str().map(str::to_lowercase);
                assert!(same || own.is_null() && upstream.is_null(), "{owner}.{name}: {own} here, {upstream} there");
            }
        }
        assert_eq!(rows, STRUCTS.iter().map(|(_, table)| table.len()).sum::<usize>());
    }

    #[test]
    fn every_default_is_accepted_and_named_where_it_promises_what_is_not_there() {
        fn promises(fields: &[Field], at: &At) -> Vec<String> {
            let one = |field: &Field| match (&field.shape, &field.stand) {
                (Object(inner), _) => promises(inner, &at.child(field.name)),
                (_, Ignored(_)) if !matches!(field.default, "null" | "''" | "'0'" | "0" | "0s" | "false") => {
                    vec![at.child(field.name).as_str().to_owned()]
                }
                _ => vec![],
            };
            fields.iter().flat_map(one).collect()
        }
        fn all(fields: &[Field]) -> Map<String, Value> {
            let entry = |field: &Field| match field.shape {
                Object(inner) => (field.name.to_owned(), Value::Object(all(inner))),
                _ => (field.name.to_owned(), default_of(field)),
            };
            fields.iter().map(entry).collect()
        }
        let (mut errors, mut warnings) = (Findings::default(), Findings::default());
        check(&all(FIELDS), FIELDS, &At::root(), &mut errors, &mut warnings);
        assert_eq!(errors.0, []);
        let named: Vec<String> = warnings.0.into_iter().map(|warning| warning.field).collect();
        assert_eq!(named, promises(FIELDS, &At::root()));
        assert!(named.iter().any(|name| name == "imageGCHighThresholdPercent"), "{named:?}");
    }
}
