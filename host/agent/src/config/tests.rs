//! Files and flags written, settings and problems compared.

use std::fs;
use std::time::Duration;

use super::*;
use crate::config::schema::Shape;
use crate::flags::{FIELDS, SWITCHES};
use crate::settings::{Found, KernelTunables, LogRotation, NetworkTemplate};
use crate::source::fetch::ManifestUrl;
use polylet_core::config::{Quantity, Rate};
use polylet_machine::facts::MachineFacts;

/// A place for configuration files, and flags that point there.
struct World {
    dir: tempfile::TempDir,
    flags: Flags,
}

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

impl World {
    fn new() -> Self {
        let flags = Flags { root_dir: "/var/lib/kubelet".into(), hostname_override: Some("N1".into()), ..Flags::default() };
        Self { dir: tempfile::tempdir().unwrap(), flags }
    }

    fn config(mut self, text: &str) -> Self {
        let path = self.dir.path().join("config.yaml");
        fs::write(&path, format!("{HEAD}{text}")).unwrap();
        self.flags.config = Some(path);
        self
    }

    fn polylet(mut self, text: &str) -> Self {
        let path = self.dir.path().join("polylet.yaml");
        fs::write(&path, format!("apiVersion: polylet.io/v1alpha1\nkind: PolyletConfiguration\n{text}")).unwrap();
        self.flags.polylet_config = Some(path);
        self
    }

    fn drop_in(mut self, name: &str, text: &str) -> Self {
        let dir = self.dir.path().join("conf.d");
        fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        fs::write(dir.join(name), format!("{HEAD}{text}")).unwrap();
        self.flags.config_dir = Some(dir);
        self
    }

    fn flag(mut self, name: &str, text: &str) -> Self {
        let (name, path, _) = FIELDS.iter().find(|(known, _, _)| *known == name).unwrap();
        self.flags.fields.push((name, path, text.to_owned()));
        self
    }

    #[track_caller]
    fn settings(&self) -> Settings {
        load(&self.flags).unwrap().settings
    }

    #[track_caller]
    fn problems(&self, expected: &[&str]) {
        let told = match load(&self.flags) {
            Ok(loaded) => loaded.warnings,
            Err(error) => error.problems,
        };
        let place = format!("{}/", self.dir.path().display());
        let told: Vec<String> = told.iter().map(|problem| problem.to_string().replace(&place, "")).collect();
        assert_eq!(told, expected);
    }
}

#[test]
fn an_empty_root_directory_is_no_place() {
    let mut world = World::new();
    world.flags.root_dir = "".into();
    world.problems(&["flag --root-dir: value: Invalid value: \"\": must be a directory, such as /var/lib/kubelet"]);
}

#[test]
fn without_a_file_the_flags_defaults_hold() {
    let settings = World::new().settings();
    let mut expected = Settings::below("/var/lib/kubelet", "n1");
    expected.verbosity = 0;
    assert_eq!(settings, expected);
    assert_eq!(settings.thresholds, []);
}

#[test]
fn an_empty_file_brings_the_default_thresholds() {
    let settings = World::new().config("").settings();
    let found: Vec<(&str, Quantity)> = settings.thresholds.iter().map(|t| (t.signal.as_str(), t.below)).collect();
    assert_eq!(
        found,
        [
            ("memory.available", Quantity::Amount(100 << 20)),
            ("nodefs.available", Quantity::Percent(10.0)),
            ("nodefs.inodesFree", Quantity::Percent(5.0)),
            ("imagefs.available", Quantity::Percent(15.0)),
            ("imagefs.inodesFree", Quantity::Percent(5.0)),
        ]
    );
}

#[test]
fn thresholds_replace_or_merge() {
    let signals = |world: World| world.settings().thresholds.iter().map(|t| t.signal.clone()).collect::<Vec<_>>().join(" ");
    assert_eq!(signals(World::new().config("evictionHard: {pid.available: '5%'}")), "pid.available");
    let merged = "mergeDefaultEvictionSettings: true\nevictionHard: {memory.available: 1Gi}";
    assert_eq!(signals(World::new().config(merged)).split(' ').count(), 5);
    assert_eq!(World::new().config(merged).settings().thresholds[0].below, Quantity::Amount(1 << 30));
    let dropped = World::new().config("").drop_in("a.conf", "evictionHard: {memory.available: 1Gi, nodefs.available: null}");
    assert_eq!(signals(dropped), "memory.available nodefs.inodesFree imagefs.available imagefs.inodesFree");
    // Without a file there is nothing to merge with; a flag replaces.
    assert_eq!(signals(World::new().drop_in("a.conf", "evictionHard: {memory.available: 1Gi}")), "memory.available");
    let flag = World::new().config("").flag("eviction-hard", "memory.available<5%,pid.available<10");
    assert_eq!(signals(flag), "memory.available pid.available");
    let soft = World::new()
        .config("evictionHard: {}\nevictionSoft: {memory.available: 10%}\nevictionSoftGracePeriod: {memory.available: 1m}");
    assert_eq!(soft.settings().thresholds[0].grace, Some(Duration::from_secs(60)));
}

#[test]
fn later_layers_win() {
    let world = World::new()
        .config("maxPods: 10\nclusterDNS: [10.0.0.1]\npodPidsLimit: 5")
        .drop_in("10.conf", "maxPods: 20\nclusterDNS: [10.0.0.2]")
        .drop_in("20/x.conf", "maxPods: 30")
        .drop_in("30.txt", "maxPods: 99")
        .drop_in("40.conf", "podPidsLimit: null");
    let settings = world.settings();
    assert_eq!((settings.max_pods, settings.cluster_dns, settings.pids_limit), (30, vec!["10.0.0.2".to_owned()], None));
    let world = world.flag("max-pods", "40").flag("logging-format", "json").flag("v", "4");
    let settings = world.settings();
    assert_eq!((settings.max_pods, settings.log_json, settings.verbosity), (40, true, 4));
}

#[test]
fn fields_become_settings() {
    let settings = World::new()
        .config(
            "staticPodPath: manifests/\npodLogsDir: /logs/\nhealthzPort: 0\ncgroupRoot: /test\nserializeImagePulls: false\n\
             maxParallelImagePulls: 4\nkubeReserved: {cpu: 100m, memory: 1Gi}\nsystemReserved: {cpu: 200m, pid: '100'}\n\
             crashLoopBackOff: {maxContainerRestartPeriod: 5s}\ncpuCFSQuotaPeriod: 50ms\nenforceNodeAllocatable: [none]\nlogging: {format: json}\n\
             resolvConf: ''\nmaxPods: 0\ncontainerLogMaxSize: 1Mi\ncontainerLogMaxFiles: 3\ncontainerLogMaxWorkers: 2\n\
             containerLogMonitorInterval: 3s\nregistryPullQPS: 7\nregistryBurst: 0\nsingleProcessOOMKill: false\n",
        )
        .settings();
    let path = settings.static_pod_path.unwrap();
    assert!(path.is_absolute() && path.ends_with("manifests"), "{}", path.display());
    assert_eq!(settings.paths.pod_logs, PathBuf::from("/logs"));
    assert_eq!((settings.health, settings.cgroup_root.as_str()), (None, "/test"));
    assert_eq!((settings.parallel_pulls, settings.cpu_period_us, settings.enforce_pods), (4, 50_000, false));
    assert_eq!(settings.single_process_oom_kill, Some(false));
    assert_eq!(World::new().config("").settings().single_process_oom_kill, None);
    assert_eq!(settings.pull_rate, Some(Rate { per_second: 7, burst: 10 }));
    assert_eq!(World::new().config("registryPullQPS: 0").settings().pull_rate, None);
    assert_eq!((settings.reserved_cpu, settings.reserved_memory, settings.reserved_pids), (300, 1 << 30, 100));
    assert_eq!((settings.crash_backoff_max, settings.log_json), (Duration::from_secs(5), true));
    assert_eq!((settings.resolv_conf.as_str(), settings.max_pods), ("", 110));
    let rotation = LogRotation { max_size: 1 << 20, max_files: 3, workers: 2, interval: Duration::from_secs(3) };
    assert_eq!(settings.log_rotation, Some(rotation));
}

#[test]
fn manifests_from_a_url_and_what_may_be_secret_about_them() {
    let settings = World::new()
        .config(
            "staticPodURL: https://pods.example/n1?key=5\nstaticPodURLHeader: {Authorization: [Bearer x], X-A: ['1', '2']}\n\
                 httpCheckFrequency: 5s\n",
        )
        .settings();
    let headers = [("Authorization", &["Bearer x"][..]), ("X-A", &["1", "2"][..])];
    let headers = headers.map(|(name, values)| (name.to_owned(), values.iter().map(|v| (*v).to_owned()).collect())).into();
    let url = ManifestUrl::parse("https://pods.example/n1?key=5").unwrap().with_headers(&headers).unwrap();
    assert_eq!((settings.static_pod_url.as_ref(), settings.http_check), (Some(&url), Duration::from_secs(5)));
    let found = crate::settings::Found::default();
    assert_eq!(settings.core(&found).sources, [polylet_core::pod::Source::File, polylet_core::pod::Source::Http]);
    let flags = World::new()
        .flag("manifest-url", "https://pods.example/n1?key=5")
        .flag("manifest-url-header", "Authorization:Bearer x,X-A:1,X-A: 2");
    assert_eq!(flags.settings().static_pod_url, Some(url));

    let text = "staticPodURLHeader: {a: secret, b: [secret, 5], c: {d: secret}}\n";
    World::new().config(text).problems(&[
        "config.yaml: staticPodURLHeader[a]: Invalid value: \"(not shown)\": must be a list of strings, not a string",
        "config.yaml: staticPodURLHeader[b][1]: Invalid value: \"(not shown)\": must be a string, not a number",
        "config.yaml: staticPodURLHeader[c]: Invalid value: \"(not shown)\": must be a list of strings, not a mapping",
    ]);
    World::new()
        .config("staticPodURL: http://h/\nstaticPodURLHeader: {a b: [secret]}\n")
        .problems(&["config.yaml: staticPodURLHeader[a b]: Invalid value: \"(not shown)\": must be the name of an HTTP header"]);
    World::new().flag("manifest-url-header", "secret").problems(&[
        "flag --manifest-url-header: staticPodURLHeader: Invalid value: \"(not shown)\": must be a mapping of lists, not a string",
    ]);
    World::new().config("staticPodURL: http://me:secret@h/x\n").problems(&[
        "config.yaml: staticPodURL: Invalid value: \"(not shown)\": must name a host, and no user before it: what authenticates \
         stands in staticPodURLHeader",
    ]);
    World::new().config("staticPodURL: h/x?key=5\n").problems(&[
        "config.yaml: staticPodURL: Invalid value: \"h/x\": must be a URL such as http://10.0.0.1:8080/pods.yaml: invalid format",
    ]);
}

#[test]
fn ranges_of_pods_are_of_different_families() {
    for good in ["", "10.244.1.0/24", "fd00::/64", "10.244.1.0/24,fd00::/64", "fd00::/64,10.244.1.0/24"] {
        assert_eq!(World::new().config(&format!("podCIDR: '{good}'")).settings().pod_cidr, good);
    }
    for bad in [
        "10.244.1.0",
        "10.244.1.0/33",
        "fd00::/129",
        "10.1.0.0/24,10.2.0.0/24",
        "10.1.0.0/24,",
        "10.1.0.0/24,fd00::/64,fd01::/64",
    ] {
        let detail = "must be a range of addresses such as 10.244.1.0/24, or one of each family with a comma between them";
        World::new()
            .config(&format!("podCIDR: '{bad}'"))
            .problems(&[&format!("config.yaml: podCIDR: Invalid value: \"{bad}\": {detail}")]);
    }
}

#[test]
fn rotation_of_logs_is_on_unless_it_is_switched_off() {
    assert_eq!(World::new().settings().log_rotation, Some(LogRotation::default()));
    assert_eq!(World::new().config("containerLogMaxSize: ''").settings().log_rotation, Some(LogRotation::default()));
    assert_eq!(World::new().config("containerLogMaxSize: '-1'").settings().log_rotation, None);
    assert_eq!(World::new().flag("container-log-max-size", "-1Gi").settings().log_rotation, None);
    let wrong = "containerLogMaxSize: much\ncontainerLogMaxFiles: 1\ncontainerLogMaxWorkers: 0\ncontainerLogMonitorInterval: 5\n";
    World::new().config(wrong).problems(&[
        "config.yaml: containerLogMaxSize: Invalid value: \"much\": not a quantity such as 250m, 1.5 or 64Mi",
        "config.yaml: containerLogMaxFiles: Invalid value: 1: must be between 2 and 2147483647, inclusive",
        "config.yaml: containerLogMaxWorkers: Invalid value: 0: must be between 1 and 2147483647, inclusive",
        "config.yaml: containerLogMonitorInterval: Invalid value: 5: must be a duration such as 30s or 1m30s, not a number",
    ]);
    World::new().config("containerLogMaxSize: '0'\ncontainerLogMonitorInterval: 2s\n").problems(&[
        "config.yaml: containerLogMaxSize: Invalid value: \"0\": must be above zero; a negative amount, such as -1, switches the \
         rotation of logs off",
        "config.yaml: containerLogMonitorInterval: Invalid value: \"2s\": must be 3s or more",
    ]);
}

#[test]
fn volumes_are_measured_unless_that_is_switched_off() {
    let of = |config: &str| {
        let world = World::new().config(config);
        world.problems(&[]);
        let settings = world.settings();
        (settings.volume_stats.map(|period| period.as_secs()), settings.local_storage_limits)
    };
    assert_eq!(of(""), (Some(60), true));
    assert_eq!(of("volumeStatsAggPeriod: 1m0s\nlocalStorageCapacityIsolation: true\n"), (Some(60), true));
    assert_eq!(of("volumeStatsAggPeriod: 0s\n"), (Some(60), true));
    assert_eq!(of("volumeStatsAggPeriod: 5s\nlocalStorageCapacityIsolation: false\n"), (Some(5), false));
    assert_eq!(of("volumeStatsAggPeriod: -1s\n"), (None, true));
    let flags = World::new().flag("volume-stats-agg-period", "-1m").flag("local-storage-capacity-isolation", "false").settings();
    assert_eq!((flags.volume_stats, flags.local_storage_limits), (None, false));
    World::new().config("volumeStatsAggPeriod: '-'\n").problems(&[
        "config.yaml: volumeStatsAggPeriod: Invalid value: \"-\": \"\" is not a duration such as 30s, 1m30s or 100ms",
    ]);
    World::new().config("volumeStatsAggPeriod: 5\n").problems(&[
        "config.yaml: volumeStatsAggPeriod: Invalid value: 5: must be a duration such as 30s or 1m30s, not a number",
    ]);
}

#[test]
fn without_isolation_there_is_no_ephemeral_storage_to_ask_for() {
    let kept = "systemReserved: {ephemeral-storage: 1Gi}\n";
    let machine = MachineFacts::read().unwrap();
    for (config, allocatable, refused) in [("", 9 << 30, true), ("localStorageCapacityIsolation: false\n", 0, false)] {
        let settings = World::new().config(&format!("{kept}{config}evictionHard: {{memory.available: 1Mi}}\n")).settings();
        let found = Found { storage: 10 << 30, ..Found::default() };
        assert_eq!(settings.core(&found).storage_allocatable, allocatable, "{config}");
        assert_eq!(settings.check_reserved(&machine, 1 << 20).is_err(), refused, "{config}");
    }
}

#[test]
fn our_own_file() {
    let settings = World::new()
        .polylet("policyDirectory: policies\npolicies: {allowTier: true, evictStatic: true, probeMercy: 5s}")
        .settings();
    assert!(settings.policy_dir.is_absolute() && settings.policy_dir.ends_with("policies"));
    assert_eq!(settings.state_dir, PathBuf::from("/var/lib/kubelet/polylet"));
    let bounds = settings.policy_bounds;
    assert_eq!((bounds.allow_give_up, bounds.allow_tier, bounds.evict_static), (false, true, true));
    assert_eq!(bounds.probe_mercy, Duration::from_secs(5));
}

#[test]
fn a_network_is_written_of_a_template_only() {
    assert_eq!(World::new().polylet("network: {}").settings().network, None);
    World::new()
        .polylet("network: {file: /etc/cni/net.d/10-pods.conflist}")
        .problems(&["polylet.yaml: network.template: Required value: it is what network.file is made of"]);
    World::new().polylet("network: {template: pods.j2, file: net.d/pods.yaml}").problems(&[
        "polylet.yaml: network.file: Invalid value: \"net.d/pods.yaml\": must end in .conflist, .conf or .json, or no runtime reads it",
    ]);
    let world = World::new().polylet("network: {template: pods.j2}");
    let template = world.dir.path().join("pods.j2");
    assert_eq!(world.settings().network, Some(NetworkTemplate { template, file: None }));
}

#[test]
fn the_kernel_is_set_as_upstream_sets_it_unless_it_is_to_be_left() {
    let settings = World::new().settings();
    assert_eq!((settings.protect_kernel_defaults, settings.kernel_tunables), (false, KernelTunables::Set));
    assert_eq!(World::new().polylet("kernelTunables: leave").settings().kernel_tunables, KernelTunables::Leave);
    assert!(World::new().config("protectKernelDefaults: true").settings().protect_kernel_defaults);
    World::new()
        .polylet("kernelTunables: keep")
        .problems(&["polylet.yaml: kernelTunables: Unsupported value: \"keep\": supported values: \"leave\", \"set\""]);
}

#[test]
fn all_problems_come_together_and_name_their_layer() {
    let world = World::new()
        .config("maxpods: 5\ncgroupDriver: systemd\nsyncFrequency: 5\n")
        .drop_in("a.conf", "evictionHard: {memory.free: 5%}\n")
        .polylet("probeMercy: 5s\n")
        .flag("max-pods", "many");
    world.problems(&[
        "config.yaml: maxpods: Unknown field: did you mean \"maxPods\"?",
        "config.yaml: cgroupDriver: Invalid value: \"systemd\": not supported yet (systemd slices): only \"cgroupfs\" is",
        "config.yaml: syncFrequency: Invalid value: 5: must be a duration such as 30s or 1m30s, not a number",
        "conf.d/a.conf: evictionHard[memory.free]: Unsupported value: \"memory.free\": supported values: \"memory.available\", \
         \"nodefs.available\", \"nodefs.inodesFree\", \"imagefs.available\", \"imagefs.inodesFree\", \"containerfs.available\", \
         \"containerfs.inodesFree\", \"pid.available\"",
        "flag --max-pods: maxPods: Invalid value: \"many\": must be a whole number, not a string",
        "polylet.yaml: probeMercy: Unknown field",
    ]);
}

#[test]
fn what_has_no_effect_is_a_warning() {
    let world = World::new().config("rotateCertificates: true\nauthentication: {x509: {clientCAFile: ca.crt}}\n");
    world.problems(&[
        "config.yaml: rotateCertificates: true has no effect: this node talks to no API server yet",
        "config.yaml: authentication.x509.clientCAFile: \"ca.crt\" has no effect: this node serves no kubelet HTTPS endpoint yet",
    ]);
    let world = World::new().config(
        "port: 10251\nregisterWithTaints: [{key: a, effect: NoSchedule}]\ntracing: {endpoint: 'x:1', samplingRatePerMillion: 0}\n\
         tlsMinVersion: VersionTLS12\ntlsCipherSuites: [TLS_AES_128_GCM_SHA256]\n\
         logging: {flushFrequency: 10000000000, vmodule: [{filePattern: a, verbosity: 1}], options: {json: {infoBufferSize: '1'}}}\n",
    );
    world.problems(&[
        "config.yaml: port: 10251 has no effect: this node serves no kubelet HTTPS endpoint yet",
        "config.yaml: registerWithTaints: [{\"key\":\"a\",\"effect\":\"NoSchedule\"}] has no effect: this node talks to no API server yet",
        "config.yaml: tracing.endpoint: \"x:1\" has no effect: this node exports no traces yet",
        "config.yaml: tlsMinVersion: \"VersionTLS12\" has no effect: this node serves no kubelet HTTPS endpoint yet",
        "config.yaml: tlsCipherSuites: [\"TLS_AES_128_GCM_SHA256\"] has no effect: this node serves no kubelet HTTPS endpoint yet",
        "config.yaml: logging.flushFrequency: 10000000000 has no effect: log lines are written at once, and all to one stream",
        "config.yaml: logging.vmodule: [{\"filePattern\":\"a\",\"verbosity\":1}] has no effect: there are no Go files to choose from",
        "config.yaml: logging.options.json.infoBufferSize: \"1\" has no effect: log lines are written at once, and all to one stream",
    ]);
}

#[test]
fn what_has_no_effect_is_named_at_its_default_too_unless_it_is_switched_off() {
    let world = World::new().config("imageGCHighThresholdPercent: 85\nenableServer: true\nstreamingConnectionIdleTimeout: 4h\n");
    world.problems(&[
        "config.yaml: imageGCHighThresholdPercent: 85 has no effect: this node collects no unused images yet",
        "config.yaml: enableServer: true has no effect: this node serves no kubelet HTTPS endpoint yet",
        "config.yaml: streamingConnectionIdleTimeout: \"4h\" has no effect: this node serves no kubelet HTTPS endpoint yet",
    ]);
    let off = "enableServer: false\nregisterNode: false\nimageMaximumGCAge: 0s\npodCIDR: ''\ntlsCipherSuites: []\n\
               readOnlyPort: 0\nauthentication: {anonymous: {enabled: false}, x509: {clientCAFile: ''}}\n\
               logging: {options: {json: {infoBufferSize: '0'}}}\n";
    World::new().config(off).problems(&[]);
}

#[test]
fn the_read_only_port_is_opened_where_it_is_asked_for() {
    let at = |text: &str| Some(text.parse().unwrap());
    assert_eq!(World::new().config("").settings().read_only, None);
    assert_eq!(World::new().config("address: 10.0.0.7\n").settings().read_only, None);
    assert_eq!(World::new().config("readOnlyPort: 10255\n").settings().read_only, at("0.0.0.0:10255"));
    let both = World::new().config("address: '::1'\nreadOnlyPort: 10255\n");
    both.problems(&[]);
    assert_eq!(both.settings().read_only, at("[::1]:10255"));
    let flags = World::new().config("readOnlyPort: 1\n").flag("read-only-port", "2").flag("address", "127.0.0.1");
    assert_eq!(flags.settings().read_only, at("127.0.0.1:2"));
    assert_eq!(World::new().config("readOnlyPort: 1\n").flag("read-only-port", "0").settings().read_only, None);
    World::new()
        .config("readOnlyPort: 70000\n")
        .problems(&["config.yaml: readOnlyPort: Invalid value: 70000: must be between 0 and 65535, inclusive"]);
}

#[test]
fn taints_are_read_from_their_flag_too() {
    World::new().flag("register-with-taints", "a=b:NoSchedule,c:NoExecute").problems(&[
        "flag --register-with-taints: registerWithTaints: \
         [{\"key\":\"a\",\"value\":\"b\",\"effect\":\"NoSchedule\"},{\"key\":\"c\",\"value\":\"\",\"effect\":\"NoExecute\"}] has no effect: \
         this node talks to no API server yet",
    ]);
    World::new().flag("register-with-taints", "a:Never").problems(&[
        "flag --register-with-taints: registerWithTaints[0].effect: Unsupported value: \"Never\": supported values: \"NoExecute\", \
         \"NoSchedule\", \"PreferNoSchedule\"",
    ]);
}

#[test]
fn gates_of_what_is_not_there_may_be_off_and_are_told_when_on() {
    let gates = |text: &str| World::new().config(&format!("featureGates: {{{text}}}\n"));
    gates("InPlacePodVerticalScaling: false, EventedPLEG: false, PodLevelResources: true").problems(&[]);
    gates("InPlacePodVerticalScaling: true").problems(&[
        "config.yaml: featureGates[InPlacePodVerticalScaling]: true has no effect: this node does not have this feature yet",
    ]);
    gates("GracefulNodeShutdown: true, KubeletPSI: false, PodAndContainerStatsFromCRI: false, NodeDeclaredFeatures: false")
        .problems(&[
            "config.yaml: featureGates[GracefulNodeShutdown]: true has no effect: this node does not have this feature yet",
        ]);
    gates("ContainerStopSignals: true, ImageVolume: true, UserNamespacesSupport: true").problems(&[]);
    gates("EmptyDirVolumeMode: false").problems(&[
        "config.yaml: featureGates[EmptyDirVolumeMode]: false has no effect: this node has this feature all the same",
    ]);
    let said = "not supported yet: this node behaves as with";
    gates("EventedPLEG: true")
        .problems(&[&format!("config.yaml: featureGates[EventedPLEG]: Invalid value: true: {said} EventedPLEG=false")]);
}

#[test]
fn without_cgroups_of_pods_what_needs_them_is_refused_or_named() {
    let refused = |value: &str| {
        format!("enforceNodeAllocatable: Invalid value: {value}: needs cgroupsPerQOS: true; without it, it must be [\"none\"]")
    };
    // Nobody wrote it: it is the default.
    World::new().config("cgroupsPerQOS: false\n").problems(&[&format!("configuration: {}", refused("[\"pods\"]"))]);
    let world = World::new().config("cgroupsPerQOS: false\nenforceNodeAllocatable: [pods]\n");
    world.problems(&[&format!("config.yaml: {}", refused("[\"pods\"]"))]);
    let world = World::new().config("cgroupsPerQOS: false\nenforceNodeAllocatable: [none]\npodPidsLimit: -1\n");
    world.problems(&[]);
    assert!(!world.settings().cgroups_per_qos && !world.settings().enforce_pods);
    World::new()
        .config("cgroupsPerQOS: false\nenforceNodeAllocatable: [none]\npodPidsLimit: 100\n")
        .problems(&["config.yaml: podPidsLimit: 100 has no effect: pods have no cgroups of their own with cgroupsPerQOS: false"]);
    World::new().config("podPidsLimit: 100\n").problems(&[]);
}

#[test]
fn what_only_the_whole_shows_is_laid_to_whoever_wrote_it_last() {
    World::new()
        .config("crashLoopBackOff: {maxContainerRestartPeriod: 10m}\ncgroupRoot: /a/..\nevictionHard: {pid.available: 5%}\n")
        .drop_in("a.conf", "cgroupRoot: /../b\nevictionHard: {memory.available: '0'}\n")
        .flag("cluster-domain", "a..b")
        .problems(&[
            "conf.d/a.conf: evictionHard[memory.available]: Invalid value: \"0\": must be above zero; 0% switches the signal off",
            "config.yaml: crashLoopBackOff.maxContainerRestartPeriod: Invalid value: \"10m\": must be between 1s and 300s, inclusive",
            "conf.d/a.conf: cgroupRoot: Invalid value: \"/../b\": must be a cgroup such as /node, without \".\" and \"..\" in its path",
            "flag --cluster-domain: clusterDomain: Invalid value: \"a..b\": must be a DNS domain such as cluster.local",
        ]);
}

#[test]
fn flags_without_use_are_refused_or_named() {
    let mut world = World::new();
    let other = |name: &str| crate::flags::OTHERS.iter().find(|other| other.name == name).unwrap();
    world.flags.others = vec![(other("vmodule"), "a=1".into())];
    world.problems(&["flag --vmodule: \"a=1\" has no effect: there are no Go files to choose from"]);
    world.flags.others.push((other("kubeconfig"), "/k".into()));
    world.problems(&[
        "flag --kubeconfig: \"/k\" is not supported yet: this node talks to no API server yet and runs static pods only",
    ]);
}

#[test]
fn every_flag_has_its_field_and_switches_are_the_booleans() {
    for (name, path, _) in FIELDS {
        let steps: Vec<&str> = path.split('.').collect();
        let field = layers::find(kubelet::FIELDS, &steps).unwrap_or_else(|| panic!("--{name}: no field {path}"));
        assert_eq!(matches!(field.shape, Shape::Bool), SWITCHES.contains(name), "--{name}");
    }
}

#[test]
fn dead_containers_are_kept_as_flags_say() {
    let limits = |each: &str, all: &str, age: &str| {
        let mut world = World::new();
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        (world.flags.dead_per_container, world.flags.dead_in_total, world.flags.dead_least_age) =
            (given(each), given(all), given(age));
        let dead = world.settings().dead;
        (dead.per_container, dead.total, dead.least_age.as_secs())
    };
    assert_eq!(limits("", "", ""), (1, None, 0));
    assert_eq!(limits("0", "7", "1m30s"), (0, Some(7), 90));
    assert_eq!(limits("-1", "-1", "0"), (1, None, 0));
}
