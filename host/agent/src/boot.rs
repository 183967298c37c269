//! Builds the agent out of its settings: the lock, the machine, the store, the runtime, the policy host, the node.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use polylet_core::id::PodUid;
use polylet_core::node::Node;
use polylet_core::pod::Source;
use polylet_machine::cgroup::{CgroupTree, Driver, Hierarchies, LimitOptions, NodeLimits, Version};
use polylet_machine::facts::{self, MachineFacts};
use polylet_machine::lock::{LockError, NodeLock};
use polylet_machine::root;
use polylet_machine::tunables::{self, Difference};
use polylet_machine::userns::IdRanges;
use polylet_policy::store::{BucketName, Entries};
use polylet_policy::{Persist, PolicyHost};
use polylet_runtime::cri::{Container, PodSandbox};
use polylet_runtime::{Capabilities, CgroupDriver, Client, Endpoint, Hints, hints};
use polylet_server::Metrics;
use polylet_store::store::PolicyWrite;
use polylet_store::{Ring, Store};
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::sync::mpsc;

use crate::allocatable;
use crate::askers::{Answered, Askers};
use crate::context::{Current, RuntimeFeatures, node_context, storage_of_root};
use crate::events::Events;
use crate::network;
use crate::perform::{Performer, Prepared, chain};
use crate::resolv_conf;
use crate::sampling::Sampler;
use crate::settings::{Found, KernelTunables, Settings};
use crate::source::adoption::Adoption;

/// The agent's parts.
pub struct Booted {
    /// Held as long as the agent runs.
    pub lock: [NodeLock; 2],
    /// Carries out acts.
    pub performer: Arc<Performer>,
    /// Memory.
    pub store: Arc<Store>,
    /// Decisions.
    pub ring: Arc<Ring>,
    /// Policies.
    pub policies: PolicyHost,
    /// The node, knowing only what the store remembered.
    pub node: Node,
    /// Static pods that another agent began: those of files, and those of a URL.
    pub adoptions: [Adoption; 2],
    /// `name version`, for people.
    pub runtime_version: String,
    /// Hints from the runtime.
    pub hints: Hints,
    /// What the pods together could not be limited to yet.
    pub unlimited: Option<NodeLimits>,
    /// The threads that ask policies, and where their answers arrive.
    pub askers: (Askers, mpsc::Receiver<Answered>),
    /// The administration socket.
    pub admin: UnixListener,
    /// Where `address` and `readOnlyPort` say.
    pub read_only: Option<TcpListener>,
}

/// Builds them.
///
/// # Errors
/// What keeps the agent from starting, naming what would be right.
pub async fn boot(settings: &Settings, metrics: &Arc<Metrics>) -> anyhow::Result<Booted> {
    boot_on(settings, metrics, Path::new(tunables::ROOT)).await
}

/// What can refuse comes first. Up to there nothing is made but the agent's own files: the locks, which need their directories (the root
/// directory is one), then what of the store, of the policies' cache and of the socket lies in it. What comes then changes the machine,
/// and what still refuses it, the kernel or a file in the place of a directory, is known only by trying.
async fn boot_on(settings: &Settings, metrics: &Arc<Metrics>, kernel: &Path) -> anyhow::Result<Booted> {
    let Machine { machine, storage, version, cgroups, tunables } = look_at_machine(settings, kernel)?;
    // It is read again for each sandbox: a node whose file is bad from the beginning says so at once.
    resolv_conf::read(&settings.resolv_conf)?;
    let network = network::render(settings)?;
    let id_ranges = Arc::new(IdRanges::find(&settings.paths, settings.ids_per_pod, settings.max_pods)?);
    let client = connect(settings, metrics)?;
    let of_root = lock_root(settings).await?;
    let read_only = match settings.read_only {
        Some(address) => Some((address, reserve(address).map_err(|error| not_served(address, error))?)),
        None => None,
    };
    // What waits comes last.
    let lock = [of_root, lock_runtime(settings).await?];
    let mut hints = hints(client.clone());
    let capabilities = reach(&client, &mut hints, settings.runtime_timeout).await?;
    if capabilities.cgroup_driver == Some(CgroupDriver::Systemd) {
        bail!(
            "the runtime at {} says that its cgroup driver is systemd; pods are only placed by cgroupfs: configure the runtime for \
             that (containerd: SystemdCgroup = false)",
            client.endpoint()
        );
    }
    let network = network::plan(settings, network, &client).await?;
    for degraded in &capabilities.degraded {
        tracing::info!("{degraded}");
    }
    let listed = list(&client, settings.runtime_timeout).await?;

    let store = open_store(settings);
    let records = store.load_all();
    for (uid, why) in &records.unreadable {
        tracing::warn!(%uid, why, "a stored record cannot be read: what it remembered is lost");
    }
    let ring = Arc::new(Ring::open(&settings.state_dir.join("decisions"), polylet_store::ring::Limits::default()));
    let mut policy_settings = polylet_policy::Settings::new(&settings.policy_cache);
    policy_settings.persist = Some(Arc::new(PolicyMemory(store.clone())));
    let policies = PolicyHost::new(policy_settings).context("start the policy host")?;
    let askers = Askers::start(&policies).context("start the threads that ask policies")?;
    let read_only = match read_only {
        Some((address, socket)) => Some(socket.listen(BACKLOG).map_err(|error| not_served(address, error))?),
        None => None,
    };
    let admin = polylet_server::bind_admin(&settings.admin_socket)
        .with_context(|| format!("open the administration socket {}", settings.admin_socket.display()))?;

    root::make(&settings.paths)?;
    set_tunables(settings, &tunables, kernel)?;
    let events = Arc::new(Events::default());
    let mut unlimited = None;
    if let Some(cgroups) = &cgroups {
        let limits = allocatable::limits(settings, &machine);
        if !allocatable::enforce(cgroups, &limits, &events).context("make the cgroups of pods")? {
            unlimited = Some(limits);
        }
    }
    if let Err(error) = root::share(&settings.paths) {
        tracing::warn!(error = chain(&error), "mounts are not propagated to containers that ask for it");
    }
    adjust_oom_score(settings.oom_score_adj);
    if let Some(planned) = network {
        network::write(planned).await?;
    }
    // As upstream has it: a node goes on without, its runtime may know a range of its own.
    if !settings.pod_cidr.is_empty()
        && let Err(error) = client.update_runtime_config(&settings.pod_cidr).await
    {
        tracing::error!(%error, "the runtime is not told the range of the pods' addresses (podCIDR)");
    }
    let adoptions = [Source::File, Source::Http]
        .map(|source| Adoption::new(source, store.clone(), &records, &listed.sandboxes, &listed.containers));
    let found = Found {
        memory: machine.memory,
        cpus: machine.cpus,
        storage,
        huge_pages: machine.huge_pages.clone(),
        apparmor: machine.apparmor,
        supplemental_groups_policy: capabilities.supplemental_groups_policy,
        node_ips: node_ips(settings),
        runtime_name: capabilities.runtime_name.clone(),
    };
    let core = settings.core(&found);

    let runtime = RuntimeFeatures { handlers: capabilities.handlers.clone(), image_mounts: capabilities.image_mounts.clone() };
    let node = node_context(settings, &machine, &found, &core, Some(version), runtime);
    let performer = Performer {
        client: client.clone(),
        node: Current::new(node, capabilities.clone()),
        cgroups,
        cgroup_root: settings.cgroup_root.clone(),
        id_ranges,
        resolv_conf: settings.resolv_conf.clone(),
        limits: LimitOptions { cpu_quota: settings.cpu_quota, cpu_period_us: settings.cpu_period_us, pids: settings.pids_limit },
        sampler: Sampler::new(&settings.paths, image_places(&client).await, settings.volume_stats),
        prepared: Prepared::default(),
        events,
    };
    let seed = facts::now().wall.0 ^ u64::from(std::process::id());
    let node = Node::new(core, records.pods, seed, facts::now());
    Ok(Booted {
        lock,
        performer: Arc::new(performer),
        store,
        ring,
        policies,
        node,
        adoptions,
        runtime_version: format!("{} {}", capabilities.runtime_name, capabilities.runtime_version),
        hints,
        unlimited,
        askers,
        admin,
        read_only,
    })
}

/// The machine as it is found.
struct Machine {
    machine: MachineFacts,
    /// Bytes of the file system of the root directory.
    storage: u64,
    /// Of the cgroups.
    version: Version,
    /// None with `cgroupsPerQOS: false`.
    cgroups: Option<CgroupTree>,
    /// Settings of the kernel that are not as a node needs them.
    tunables: Vec<Difference>,
}

/// Whether the agent can run here. Changes nothing: a machine that is refused stays as it was.
fn look_at_machine(settings: &Settings, kernel: &Path) -> anyhow::Result<Machine> {
    let machine = MachineFacts::read()?;
    if settings.fail_swap_on && machine.swap > 0 {
        bail!("running with swap on is not supported, please disable swap or set failSwapOn to false in the configuration");
    }
    // Containers have cgroups where pods have none, too.
    let version = Hierarchies::find()?.version();
    if settings.fail_cgroup_v1 && version == Version::V1 {
        bail!("kubelet is configured to not run on a host using cgroup v1; set failCgroupV1 to false to run on it all the same");
    }
    check_oom_kill(settings, version)?;
    let cgroups = match settings.cgroups_per_qos {
        true => Some(CgroupTree::open(&settings.cgroup_root, Driver::Cgroupfs)?),
        false => None,
    };
    let tunables = look_at_tunables(settings, kernel)?;
    let storage = storage_of_root(settings)?;
    settings.check_reserved(&machine, storage)?;
    Ok(Machine { machine, storage, version, cgroups, tunables })
}

/// Only version 2 can kill all processes of a container at once. Upstream refuses what cannot be had, too.
fn check_oom_kill(settings: &Settings, version: Version) -> anyhow::Result<()> {
    if version == Version::V1 && settings.single_process_oom_kill == Some(false) {
        bail!("singleProcessOOMKill must not be explicitly set to false when using cgroup v1");
    }
    Ok(())
}

/// What of the kernel is to be set, or left with a word.
fn look_at_tunables(settings: &Settings, root: &Path) -> anyhow::Result<Vec<Difference>> {
    let left = settings.kernel_tunables == KernelTunables::Leave && !settings.protect_kernel_defaults;
    let differing = match tunables::differing(root) {
        Err(error) if left => {
            tracing::info!(error = chain(&error), "a setting of the kernel is not known, and left as it is");
            return Ok(Vec::new());
        }
        differing => differing?,
    };
    if settings.protect_kernel_defaults && !differing.is_empty() {
        let differing: Vec<String> = differing.iter().map(Difference::to_string).collect();
        bail!(
            "protectKernelDefaults is true, and {}: set this with sysctl, or protectKernelDefaults to false",
            differing.join(", ")
        );
    }
    Ok(differing)
}

fn set_tunables(settings: &Settings, differing: &[Difference], kernel: &Path) -> anyhow::Result<()> {
    for difference in differing {
        match settings.kernel_tunables {
            KernelTunables::Leave => tracing::info!("{difference}: it is left as it is"),
            KernelTunables::Set => {
                tunables::set(kernel, difference)
                    .with_context(|| format!("{difference}; kernelTunables: leave goes on all the same"))?;
                tracing::info!("{difference}: it is set");
            }
        }
    }
    Ok(())
}

fn open_store(settings: &Settings) -> Arc<Store> {
    let (store, opened) = Store::open(&settings.state_dir);
    if opened.is_trouble() {
        tracing::warn!("{opened}");
    } else {
        tracing::info!("{opened}");
    }
    Arc::new(store)
}

/// An agent that was killed may hold its locks for a moment yet.
const LOCKED_FOR: Duration = Duration::from_secs(2);

async fn lock_root(settings: &Settings) -> Result<NodeLock, LockError> {
    let began = tokio::time::Instant::now();
    loop {
        match NodeLock::of_root(&settings.paths.root) {
            Err(error) if error.may_go() && began.elapsed() < LOCKED_FOR => tokio::time::sleep(Duration::from_millis(50)).await,
            done => return done,
        }
    }
}

/// The lock lies beside the socket itself: it is waited for, as the runtime's answer is.
async fn lock_runtime(settings: &Settings) -> anyhow::Result<NodeLock> {
    let endpoint = runtime_endpoint(settings)?;
    let began = tokio::time::Instant::now();
    let mut said = false;
    loop {
        match NodeLock::of_runtime(endpoint.path()) {
            Err(error) if error.may_come() && began.elapsed() < settings.runtime_timeout => {
                if !std::mem::replace(&mut said, true) {
                    tracing::warn!(error = chain(&error), %endpoint, "waiting for the runtime");
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            Err(error) if error.may_go() && began.elapsed() < LOCKED_FOR => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error @ (LockError::NoSocket { .. } | LockError::NotASocket { .. })) => {
                return Err(error).with_context(|| format!("no CRI v1 runtime answers at {endpoint} (containerRuntimeEndpoint)"));
            }
            done => return Ok(done?),
        }
    }
}

fn runtime_endpoint(settings: &Settings) -> anyhow::Result<Endpoint> {
    settings.runtime_endpoint.parse().context("containerRuntimeEndpoint")
}

fn connect(settings: &Settings, metrics: &Arc<Metrics>) -> anyhow::Result<Client> {
    let mut config = polylet_runtime::Config::new(runtime_endpoint(settings)?);
    if let Some(images) = &settings.image_endpoint {
        config.images = Some(images.parse().context("imageServiceEndpoint")?);
    }
    config.request_timeout = settings.runtime_timeout;
    config.observer = Arc::new(Observed(metrics.clone()));
    Ok(Client::new(config))
}

/// The runtime must answer once before the agent begins, within its request timeout.
async fn reach(client: &Client, hints: &mut Hints, within: Duration) -> anyhow::Result<Capabilities> {
    let answer = patiently(client, within, async || Capabilities::ask(client, &mut hints.way).await).await;
    answer.with_context(|| format!("no CRI v1 runtime answers at {} (containerRuntimeEndpoint)", client.endpoint()))
}

/// All that the runtime has.
struct Listed {
    sandboxes: Vec<PodSandbox>,
    containers: Vec<Container>,
}

/// What runs is listed once before any manifest is read: without it, pods of another agent would be ended and started again.
async fn list(client: &Client, within: Duration) -> anyhow::Result<Listed> {
    let list = async || tokio::try_join!(client.list_pod_sandbox(None), client.list_containers(None));
    let listed = patiently(client, within, list).await;
    let (sandboxes, containers) = listed.with_context(|| format!("list the pods of the runtime at {}", client.endpoint()))?;
    Ok(Listed { sandboxes, containers })
}

/// Calls of the read-only port that may wait.
const BACKLOG: u32 = 1024;

/// Takes an address, so that nobody else can have it. Whoever calls there is turned away until the agent listens.
fn reserve(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // An agent that was here before may have left connections behind.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn not_served(address: SocketAddr, error: std::io::Error) -> anyhow::Error {
    anyhow::Error::new(error).context(format!("listen at {address} (address and readOnlyPort of the configuration)"))
}

/// Asks until there is an answer, or until the time is up.
async fn patiently<T>(
    client: &Client,
    within: Duration,
    mut ask: impl AsyncFnMut() -> Result<T, polylet_runtime::CallError>,
) -> Result<T, polylet_runtime::CallError> {
    const SAY_EVERY: Duration = Duration::from_secs(10);
    let deadline = tokio::time::Instant::now() + within;
    let mut said: Option<tokio::time::Instant> = None;
    loop {
        let mut asking = std::pin::pin!(ask());
        let answer = loop {
            match tokio::time::timeout(SAY_EVERY, &mut asking).await {
                Ok(answer) => break answer,
                Err(_) => {
                    tracing::warn!(endpoint = %client.endpoint(), "waiting for the runtime, which accepts calls and does not answer")
                }
            }
        };
        match answer {
            Err(error) if tokio::time::Instant::now() < deadline => {
                if said.is_none_or(|at| at.elapsed() >= SAY_EVERY) {
                    tracing::warn!(%error, endpoint = %client.endpoint(), "waiting for the runtime");
                    said = Some(tokio::time::Instant::now());
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            answer => return answer,
        }
    }
}

/// Configured ones, else the address that this machine would speak to the world from.
fn node_ips(settings: &Settings) -> Vec<String> {
    if !settings.node_ips.is_empty() {
        return settings.node_ips.iter().map(IpAddr::to_string).collect();
    }
    // Nothing is sent: connecting a datagram socket only asks the kernel for a route.
    let found = std::net::UdpSocket::bind(("0.0.0.0", 0))
        .and_then(|socket| socket.connect(("192.0.2.1", 9)).and_then(|()| socket.local_addr()));
    match found {
        Ok(address) if !address.ip().is_unspecified() => vec![address.ip().to_string()],
        _ => {
            tracing::warn!("no address of this node was found: --node-ip names one; 127.0.0.1 is used");
            vec!["127.0.0.1".to_owned()]
        }
    }
}

/// Where the runtime keeps images and writable layers, as it says itself.
async fn image_places(client: &Client) -> (Option<PathBuf>, Option<PathBuf>) {
    let Ok(info) = client.image_fs_info().await else { return (None, None) };
    let place = |all: &[polylet_runtime::cri::FilesystemUsage]| {
        all.first().and_then(|fs| fs.fs_id.as_ref()).map(|id| PathBuf::from(&id.mountpoint)).filter(|p| p.exists())
    };
    (place(&info.image_filesystems), place(&info.container_filesystems))
}

/// Best effort, as upstream does it.
fn adjust_oom_score(score: i32) {
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", score.to_string()) {
        tracing::warn!(%error, score, "oom_score_adj of the agent stays as it is");
    }
}

/// Counts the runtime's calls.
struct Observed(Arc<Metrics>);

impl polylet_runtime::Observer for Observed {
    fn called(&self, operation: polylet_runtime::Operation, took: Duration, outcome: Result<(), polylet_runtime::Kind>) {
        self.0.runtime_operation(operation.name(), took, outcome.is_ok());
    }
}

/// Keeps what policies remember in the store.
struct PolicyMemory(Arc<Store>);

impl Persist for PolicyMemory {
    fn load(&self) -> Vec<(BucketName, Entries)> {
        let mut buckets: BTreeMap<BucketName, Entries> = BTreeMap::new();
        for ((policy, bucket, key), value) in self.0.policy_all() {
            let pod = (!bucket.is_empty()).then(|| PodUid::from(bucket));
            buckets.entry(BucketName { policy: policy.into(), pod }).or_default().insert(key, value);
        }
        buckets.into_iter().collect()
    }

    fn save(&self, bucket: &BucketName, entries: &Entries) {
        let name = bucket.pod.as_ref().map(ToString::to_string).unwrap_or_default();
        let kept = self.0.policy_get_all(&bucket.policy);
        let gone = kept.keys().filter(|(b, key)| *b == name && !entries.contains_key(key));
        let mut writes: Vec<PolicyWrite> =
            gone.map(|(_, key)| PolicyWrite { bucket: name.clone(), key: key.clone(), value: None }).collect();
        writes.extend(entries.iter().map(|(key, value)| PolicyWrite {
            bucket: name.clone(),
            key: key.clone(),
            value: Some(value.clone()),
        }));
        if let Err(error) = self.0.policy_commit(&bucket.policy, writes) {
            tracing::warn!(error = crate::perform::chain(&error), "what a policy remembers is only in memory");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that is not set as a node needs it, and a node whose runtime is away.
    fn away(dir: &Path) -> (Settings, PathBuf) {
        let kernel = dir.join("sys");
        for (file, value) in [
            ("vm/overcommit_memory", "0"),
            ("vm/panic_on_oom", "1"),
            ("kernel/panic", "0"),
            ("kernel/panic_on_oops", "0"),
            ("kernel/keys/root_maxkeys", "200"),
            ("kernel/keys/root_maxbytes", "20000"),
        ] {
            std::fs::create_dir_all(kernel.join(file).parent().unwrap()).unwrap();
            std::fs::write(kernel.join(file), value).unwrap();
        }
        let mut settings = Settings::below(dir.join("kubelet"), "n1");
        (settings.paths.pod_logs, settings.paths.container_logs) = (dir.join("logs"), dir.join("links"));
        settings.runtime_endpoint = format!("unix://{}", dir.join("runtime.sock").display());
        settings.runtime_timeout = Duration::from_millis(1);
        settings.resolv_conf = String::new();
        // Nothing of a real machine is to be touched if this should fail.
        (settings.cgroups_per_qos, settings.fail_cgroup_v1, settings.fail_swap_on) = (false, false, false);
        (settings, kernel)
    }

    #[test]
    fn all_processes_of_a_container_are_killed_at_once_by_version_2_alone() {
        for (set, version, right) in [
            (None, Version::V1, true),
            (Some(true), Version::V1, true),
            (Some(false), Version::V1, false),
            (Some(false), Version::V2, true),
        ] {
            let settings = Settings { single_process_oom_kill: set, ..Settings::below(Path::new("/nowhere"), "n1") };
            assert_eq!(check_oom_kill(&settings, version).is_ok(), right, "{set:?} {version:?}");
        }
    }

    /// Whatever can refuse does so first.
    async fn check_refused(dir: &Path, settings: &Settings, kernel: &Path, why: &str) {
        let metrics = Arc::new(Metrics::new("n1"));
        let Err(error) = boot_on(settings, &metrics, kernel).await else { panic!("there is no runtime") };
        assert!(format!("{error:#}").contains(why), "{error:#}");
        assert_eq!(std::fs::read_to_string(kernel.join("vm/overcommit_memory")).unwrap(), "0");
        assert_eq!(tunables::differing(kernel).unwrap().len(), 6);
        let names = |dir: &Path| {
            let mut names: Vec<String> =
                std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        assert_eq!(names(dir), ["kubelet", "sys"]);
        assert_eq!(names(&settings.paths.root), ["polylet.lock"]);
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(&*settings.paths.root.to_string_lossy()), "{mounts}");
    }

    #[tokio::test]
    async fn a_start_without_a_runtime_leaves_the_machine_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let (settings, kernel) = away(dir.path());
        check_refused(dir.path(), &settings, &kernel, "no CRI v1 runtime answers at").await;
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_refused_before_anything_is_changed_or_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (mut settings, kernel) = away(dir.path());
        settings.runtime_timeout = Duration::from_secs(3600);
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        settings.read_only = Some(taken.local_addr().unwrap());
        check_refused(dir.path(), &settings, &kernel, "(address and readOnlyPort of the configuration)").await;
    }

    #[test]
    fn a_kernel_that_is_not_set_as_a_node_needs_it_is_set_or_left_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = Settings::below("/var/lib/kubelet", "n1");
        let look = |settings: &Settings| look_at_tunables(settings, dir.path());
        assert_eq!(look(&settings).unwrap_err().to_string(), "read the kernel's setting vm.overcommit_memory");
        settings.kernel_tunables = KernelTunables::Leave;
        assert!(look(&settings).unwrap().is_empty(), "what is left need not be known");

        std::fs::create_dir_all(dir.path().join("vm")).unwrap();
        std::fs::create_dir_all(dir.path().join("kernel/keys")).unwrap();
        for (file, value) in [
            ("vm/overcommit_memory", "1"),
            ("vm/panic_on_oom", "0"),
            ("kernel/panic", "0"),
            ("kernel/panic_on_oops", "1"),
            ("kernel/keys/root_maxkeys", "1000000"),
            ("kernel/keys/root_maxbytes", "5"),
        ] {
            std::fs::write(dir.path().join(file), value).unwrap();
        }
        assert_eq!(look(&settings).unwrap().len(), 2);
        settings.kernel_tunables = KernelTunables::Set;
        assert_eq!(look(&settings).unwrap().len(), 2);
        settings.protect_kernel_defaults = true;
        assert_eq!(
            look(&settings).unwrap_err().to_string(),
            "protectKernelDefaults is true, and kernel.panic is 0 and has to be 10, kernel.keys.root_maxbytes is 5 and has to be \
             25000000: set this with sysctl, or protectKernelDefaults to false"
        );
        std::fs::write(dir.path().join("kernel/panic"), "10").unwrap();
        std::fs::write(dir.path().join("kernel/keys/root_maxbytes"), "25000000").unwrap();
        assert!(look(&settings).unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_runtime_that_is_mistyped_leaves_nothing_and_one_that_comes_late_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = Settings::below("/var/lib/kubelet", "n1");
        let socket = dir.path().join("runtime.sock");
        settings.runtime_endpoint = format!("unix://{}", socket.display());
        settings.runtime_timeout = Duration::ZERO;
        let error = format!("{:#}", lock_runtime(&settings).await.err().unwrap());
        let told = format!("no CRI v1 runtime answers at {} (containerRuntimeEndpoint): look for", settings.runtime_endpoint);
        assert!(error.starts_with(&told), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        std::fs::write(&socket, "").unwrap();
        let error = format!("{:#}", lock_runtime(&settings).await.err().unwrap());
        assert!(error.contains(&format!("{} is not a socket: it must be ", socket.display())), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);

        std::fs::remove_file(&socket).unwrap();
        settings.runtime_timeout = Duration::MAX;
        let comes = async {
            tokio::task::yield_now().await;
            tokio::net::UnixListener::bind(&socket).unwrap()
        };
        let (lock, _listener) = tokio::join!(lock_runtime(&settings), comes);
        assert!(lock.is_ok() && dir.path().join("runtime.sock.polylet.lock").exists());
    }
}
