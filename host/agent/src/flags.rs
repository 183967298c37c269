//! The kubelet's flags, and one of our own. A flag that mirrors a field of the configuration file goes the field's way: the same types, the
//! same word on what is not supported yet. `_` in a name is `-`: [`normalize`].

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};

/// Where the agent's files are, unless it is told otherwise.
pub const ROOT_DIR: &str = "/var/lib/kubelet";

/// The flags as given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--config-dir`.
    pub config_dir: Option<PathBuf>,
    /// `--polylet-config`.
    pub polylet_config: Option<PathBuf>,
    /// `--root-dir`.
    pub root_dir: PathBuf,
    /// `--hostname-override`.
    pub hostname_override: Option<String>,
    /// `--node-ip`.
    pub node_ip: Option<String>,
    /// `--maximum-dead-containers-per-container`.
    pub dead_per_container: Option<String>,
    /// `--maximum-dead-containers`.
    pub dead_in_total: Option<String>,
    /// `--minimum-container-ttl-duration`.
    pub dead_least_age: Option<String>,
    /// Flags that mirror a field: name of the flag, path of the field, the text given.
    pub fields: Vec<(&'static str, &'static str, String)>,
    /// Known flags of the kubelet that this node has no use for yet, and the text given.
    pub others: Vec<(&'static Other, String)>,
}

/// A known flag of the kubelet that mirrors no field and does nothing here yet.
#[derive(Debug, PartialEq, Eq)]
pub struct Other {
    /// Without dashes.
    pub name: &'static str,
    /// Given alone it means true.
    pub switch: bool,
    /// Going on without it would be something else than what was asked for.
    pub refused: bool,
    /// What is missing, or why there is nothing to do.
    pub why: &'static str,
}

/// Arguments with `_` in the names of flags turned into `-`, as the kubelet takes them. What follows `--` stays as it is.
pub fn normalize(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut literal = false;
    let one = |arg: OsString| {
        literal |= arg == "--";
        match arg.to_str() {
            Some(text) if text.starts_with("--") && !literal => {
                let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
                OsString::from(format!("{}{value}", name.replace('_', "-")))
            }
            _ => arg,
        }
    };
    args.into_iter().map(one).collect()
}

impl clap::Args for Flags {
    fn augment_args(command: Command) -> Command {
        let own = OWN.iter().map(|(name, help)| value(name).help(*help).help_heading("Configuration"));
        let fields = FIELDS.iter().map(|field| {
            let arg = if field.2.is_empty() { value(field.0) } else { value(field.0).help(field.2) };
            let arg = if SWITCHES.contains(&field.0) { switch(arg) } else { arg };
            arg.hide(field.2.is_empty()).help_heading("Flags that mirror the configuration file and win over it")
        });
        let others =
            OTHERS.iter().map(|other| if other.switch { switch(value(other.name)) } else { value(other.name) }.hide(true));
        command.args(own).args(fields).args(others)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        // Given several times, the last one counts; of lists, all do.
        let last = |name: &str| Some(matches.get_many::<String>(name)?.next_back()?.clone());
        let all = |name: &str| Some(matches.get_many::<String>(name)?.cloned().collect::<Vec<_>>().join(","));
        let text = |name: &'static str| if LISTS.contains(&name) { all(name) } else { last(name) };
        Ok(Self {
            config: last("config").map(PathBuf::from),
            config_dir: last("config-dir").map(PathBuf::from),
            polylet_config: last("polylet-config").map(PathBuf::from),
            root_dir: last("root-dir").map_or_else(|| ROOT_DIR.into(), PathBuf::from),
            hostname_override: last("hostname-override"),
            node_ip: last("node-ip"),
            dead_per_container: last(DEAD_PER_CONTAINER),
            dead_in_total: last(DEAD_IN_TOTAL),
            dead_least_age: last(DEAD_LEAST_AGE),
            fields: FIELDS.iter().filter_map(|(name, path, _)| Some((*name, *path, text(name)?))).collect(),
            others: OTHERS.iter().filter_map(|other| Some((other, last(other.name)?))).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn value(name: &'static str) -> Arg {
    let arg = Arg::new(name).long(name).action(ArgAction::Append).allow_hyphen_values(true).value_name("VALUE");
    if name == "v" { arg.short('v') } else { arg }
}

/// `--flag` and `--flag=false`, but not `--flag false`, as the kubelet has it.
fn switch(arg: Arg) -> Arg {
    arg.num_args(0..=1).require_equals(true).default_missing_value("true").allow_hyphen_values(false)
}

/// Names of the flags that say how many dead containers are kept.
pub(crate) const DEAD_PER_CONTAINER: &str = "maximum-dead-containers-per-container";
pub(crate) const DEAD_IN_TOTAL: &str = "maximum-dead-containers";
pub(crate) const DEAD_LEAST_AGE: &str = "minimum-container-ttl-duration";

const OWN: &[(&str, &str)] = &[
    ("config", "KubeletConfiguration (kubelet.config.k8s.io/v1beta1), YAML or JSON"),
    ("config-dir", "Directory of drop-ins (*.conf), merged into it in the order of their paths"),
    ("polylet-config", "PolyletConfiguration (polylet.io/v1alpha1): policies and the agent's own directories"),
    ("root-dir", "Directory of pods' files and of the agent's own [default: /var/lib/kubelet]"),
    ("hostname-override", "Name of the node, instead of the machine's"),
    ("node-ip", "Address of the node, or one of each family; found on the machine where not given"),
    (DEAD_PER_CONTAINER, "Dead attempts kept of each container of a pod [default: 1]"),
    (DEAD_IN_TOTAL, "Dead containers kept in all; below zero: any number [default: -1]"),
    (DEAD_LEAST_AGE, "Dead containers that are younger stay [default: 0s]"),
];

/// Flags that mirror a field: name, field, help; without help it is not listed. Every one is checked as its field is.
pub const FIELDS: &[(&str, &str, &str)] = &[
    ("pod-manifest-path", "staticPodPath", "File or directory of static pods"),
    ("container-runtime-endpoint", "containerRuntimeEndpoint", "Socket of the container runtime"),
    ("image-service-endpoint", "imageServiceEndpoint", "Socket of the image service, where it is another"),
    ("cgroup-driver", "cgroupDriver", "cgroupfs"),
    ("cgroup-root", "cgroupRoot", "Cgroup below which those of pods stand"),
    ("max-pods", "maxPods", "Number of pods that may run"),
    ("cluster-dns", "clusterDNS", "Addresses of the cluster's name servers, with commas between them"),
    ("cluster-domain", "clusterDomain", "Domain of the cluster"),
    ("resolv-conf", "resolvConf", "Resolver configuration that pods' own is based on"),
    ("eviction-hard", "evictionHard", "Thresholds, such as memory.available<100Mi,nodefs.available<10%"),
    ("healthz-port", "healthzPort", "Port of health and metrics; 0 is none"),
    ("healthz-bind-address", "healthzBindAddress", "Address of health and metrics"),
    ("read-only-port", "readOnlyPort", "Port at which anybody may read pods and metrics; 0 is none"),
    ("address", "address", "Address of that port"),
    ("fail-cgroupv1", "failCgroupV1", "Refuse to start on a machine with cgroup v1"),
    ("fail-swap-on", "failSwapOn", "Refuse to start where swap is on"),
    ("feature-gates", "featureGates", "Such as A=true,B=false; none can be changed yet"),
    ("logging-format", "logging.format", "text or json"),
    ("v", "logging.verbosity", "How much is logged: 0 is info, from 4 on debug, from 8 on trace"),
    // The rest of the kubelet's.
    ("allowed-unsafe-sysctls", "allowedUnsafeSysctls", ""),
    ("anonymous-auth", "authentication.anonymous.enabled", ""),
    ("authentication-token-webhook", "authentication.webhook.enabled", ""),
    ("authentication-token-webhook-cache-ttl", "authentication.webhook.cacheTTL", ""),
    ("authorization-mode", "authorization.mode", ""),
    ("authorization-webhook-cache-authorized-ttl", "authorization.webhook.cacheAuthorizedTTL", ""),
    ("authorization-webhook-cache-unauthorized-ttl", "authorization.webhook.cacheUnauthorizedTTL", ""),
    ("cgroups-per-qos", "cgroupsPerQOS", ""),
    ("client-ca-file", "authentication.x509.clientCAFile", ""),
    ("container-log-max-files", "containerLogMaxFiles", ""),
    ("container-log-max-size", "containerLogMaxSize", ""),
    ("contention-profiling", "enableContentionProfiling", ""),
    ("cpu-cfs-quota", "cpuCFSQuota", ""),
    ("cpu-cfs-quota-period", "cpuCFSQuotaPeriod", ""),
    ("cpu-manager-policy", "cpuManagerPolicy", ""),
    ("cpu-manager-policy-options", "cpuManagerPolicyOptions", ""),
    ("cpu-manager-reconcile-period", "cpuManagerReconcilePeriod", ""),
    ("enable-controller-attach-detach", "enableControllerAttachDetach", ""),
    ("enable-debugging-handlers", "enableDebuggingHandlers", ""),
    ("enable-server", "enableServer", ""),
    ("enforce-node-allocatable", "enforceNodeAllocatable", ""),
    ("event-burst", "eventBurst", ""),
    ("event-qps", "eventRecordQPS", ""),
    ("eviction-max-pod-grace-period", "evictionMaxPodGracePeriod", ""),
    ("eviction-minimum-reclaim", "evictionMinimumReclaim", ""),
    ("eviction-pressure-transition-period", "evictionPressureTransitionPeriod", ""),
    ("eviction-soft", "evictionSoft", ""),
    ("eviction-soft-grace-period", "evictionSoftGracePeriod", ""),
    ("file-check-frequency", "fileCheckFrequency", ""),
    ("hairpin-mode", "hairpinMode", ""),
    ("http-check-frequency", "httpCheckFrequency", ""),
    ("image-gc-high-threshold", "imageGCHighThresholdPercent", ""),
    ("image-gc-low-threshold", "imageGCLowThresholdPercent", ""),
    ("iptables-drop-bit", "iptablesDropBit", ""),
    ("iptables-masquerade-bit", "iptablesMasqueradeBit", ""),
    ("kernel-memcg-notification", "kernelMemcgNotification", ""),
    ("kube-api-burst", "kubeAPIBurst", ""),
    ("kube-api-content-type", "contentType", ""),
    ("kube-api-qps", "kubeAPIQPS", ""),
    ("kube-reserved", "kubeReserved", ""),
    ("kube-reserved-cgroup", "kubeReservedCgroup", ""),
    ("kubelet-cgroups", "kubeletCgroups", ""),
    ("local-storage-capacity-isolation", "localStorageCapacityIsolation", ""),
    ("make-iptables-util-chains", "makeIPTablesUtilChains", ""),
    ("manifest-url", "staticPodURL", ""),
    ("manifest-url-header", "staticPodURLHeader", ""),
    ("max-open-files", "maxOpenFiles", ""),
    ("memory-manager-policy", "memoryManagerPolicy", ""),
    ("minimum-image-ttl-duration", "imageMinimumGCAge", ""),
    ("node-status-max-images", "nodeStatusMaxImages", ""),
    ("node-status-update-frequency", "nodeStatusUpdateFrequency", ""),
    ("oom-score-adj", "oomScoreAdj", ""),
    ("pod-cidr", "podCIDR", ""),
    ("pod-max-pids", "podPidsLimit", ""),
    ("pods-per-core", "podsPerCore", ""),
    ("port", "port", ""),
    ("protect-kernel-defaults", "protectKernelDefaults", ""),
    ("provider-id", "providerID", ""),
    ("qos-reserved", "qosReserved", ""),
    ("register-node", "registerNode", ""),
    ("register-with-taints", "registerWithTaints", ""),
    ("registry-burst", "registryBurst", ""),
    ("registry-qps", "registryPullQPS", ""),
    ("reserved-cpus", "reservedSystemCPUs", ""),
    ("rotate-certificates", "rotateCertificates", ""),
    ("rotate-server-certificates", "serverTLSBootstrap", ""),
    ("runonce", "runOnce", ""),
    ("runtime-request-timeout", "runtimeRequestTimeout", ""),
    ("seccomp-default", "seccompDefault", ""),
    ("serialize-image-pulls", "serializeImagePulls", ""),
    ("streaming-connection-idle-timeout", "streamingConnectionIdleTimeout", ""),
    ("sync-frequency", "syncFrequency", ""),
    ("system-cgroups", "systemCgroups", ""),
    ("system-reserved", "systemReserved", ""),
    ("system-reserved-cgroup", "systemReservedCgroup", ""),
    ("tls-cert-file", "tlsCertFile", ""),
    ("tls-cipher-suites", "tlsCipherSuites", ""),
    ("tls-min-version", "tlsMinVersion", ""),
    ("tls-private-key-file", "tlsPrivateKeyFile", ""),
    ("topology-manager-policy", "topologyManagerPolicy", ""),
    ("topology-manager-policy-options", "topologyManagerPolicyOptions", ""),
    ("topology-manager-scope", "topologyManagerScope", ""),
    ("volume-plugin-dir", "volumePluginDir", ""),
    ("volume-stats-agg-period", "volumeStatsAggPeriod", ""),
];

/// Flags of [`FIELDS`] that mean true when given alone: those of booleans (a test holds it).
pub(crate) const SWITCHES: &[&str] = &[
    "anonymous-auth",
    "authentication-token-webhook",
    "cgroups-per-qos",
    "contention-profiling",
    "cpu-cfs-quota",
    "enable-controller-attach-detach",
    "enable-debugging-handlers",
    "enable-server",
    "fail-cgroupv1",
    "fail-swap-on",
    "kernel-memcg-notification",
    "local-storage-capacity-isolation",
    "make-iptables-util-chains",
    "protect-kernel-defaults",
    "register-node",
    "rotate-certificates",
    "rotate-server-certificates",
    "runonce",
    "seccomp-default",
    "serialize-image-pulls",
];

/// Flags that add up when they are repeated.
const LISTS: &[&str] = &[
    "allowed-unsafe-sysctls",
    "cluster-dns",
    "enforce-node-allocatable",
    "feature-gates",
    "manifest-url-header",
    "register-with-taints",
];

const fn other(name: &'static str, switch: bool, refused: bool, why: &'static str) -> Other {
    Other { name, switch, refused, why }
}

const NO_API: &str = "this node talks to no API server yet and runs static pods only";

/// Flags that mirror no field.
pub const OTHERS: &[Other] = &[
    other("bootstrap-kubeconfig", false, true, NO_API),
    other("cert-dir", false, false, "this node has no certificates yet"),
    other("cloud-provider", false, false, NO_API),
    other("exit-on-lock-contention", true, false, "the agent has a lock of its own and does not start where it is taken"),
    other("experimental-allocatable-ignore-eviction", true, true, "leaving thresholds out of what pods may use"),
    other("experimental-mounter-path", false, true, "another program for mounting"),
    other("housekeeping-interval", false, false, "there is no cadvisor here"),
    other("image-credential-provider-bin-dir", false, true, "image credential providers"),
    other("image-credential-provider-config", false, true, "image credential providers"),
    other("kubeconfig", false, true, NO_API),
    other("lock-file", false, false, "the agent has a lock of its own, below its root directory"),
    other("log-flush-frequency", false, false, "log lines are written at once"),
    other("max-housekeeping-interval", false, false, "there is no cadvisor here"),
    other("node-labels", false, true, NO_API),
    other("reserved-memory", false, true, "the memory manager"),
    other("runtime-cgroups", false, false, "the runtime's own use is not measured yet"),
    other("vmodule", false, false, "there are no Go files to choose from"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    #[track_caller]
    fn parse(args: &[&str]) -> Flags {
        let all = std::iter::once("polylet").chain(args.iter().copied()).map(OsString::from);
        let matches = Flags::augment_args(Command::new("polylet")).try_get_matches_from(normalize(all)).unwrap();
        Flags::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn the_command_is_sound() {
        Flags::augment_args(Command::new("polylet")).debug_assert();
        assert_eq!(parse(&[]).root_dir, PathBuf::from(ROOT_DIR));
    }

    #[test]
    fn underscores_are_dashes_and_switches_need_an_equals_sign() {
        let flags = parse(&["--max_pods=5", "--fail_cgroupv1=false", "--cgroups-per-qos", "-v", "4", "--root_dir", "/a_b"]);
        assert_eq!(flags.root_dir, PathBuf::from("/a_b"));
        let fields: Vec<(&str, &str)> = flags.fields.iter().map(|(name, _, text)| (*name, text.as_str())).collect();
        assert_eq!(fields, [("max-pods", "5"), ("fail-cgroupv1", "false"), ("v", "4"), ("cgroups-per-qos", "true")]);
    }

    #[test]
    fn the_last_one_counts_and_lists_add_up() {
        let flags = parse(&[
            "--max-pods=5",
            "--max-pods=6",
            "--cluster-dns=1.1.1.1",
            "--cluster-dns=2.2.2.2,3.3.3.3",
            "--oom-score-adj",
            "-5",
        ]);
        let texts: Vec<&str> = flags.fields.iter().map(|(_, _, text)| text.as_str()).collect();
        assert_eq!(texts, ["6", "1.1.1.1,2.2.2.2,3.3.3.3", "-5"]);
    }

    #[test]
    fn known_flags_without_use_are_told_apart_from_unknown_ones() {
        let flags = parse(&["--kubeconfig=/etc/kubernetes/kubelet.conf", "--exit-on-lock-contention"]);
        let others: Vec<&str> = flags.others.iter().map(|(other, _)| other.name).collect();
        assert_eq!(others, ["exit-on-lock-contention", "kubeconfig"]);
        let unknown = Flags::augment_args(Command::new("polylet")).try_get_matches_from(["polylet", "--frobnicate"]);
        assert!(unknown.unwrap_err().to_string().contains("--frobnicate"));
    }
}
