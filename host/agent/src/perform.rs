//! Carries out what the core asks for: one match from [`Act`] to an adapter, each act a task of its own, its end an event.
//!
//! **Invariant:** nothing here decides. An act is done as it was asked for, or fails with an error that names operation and object.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polylet_core::effect::Act;
use polylet_core::event::{CallError, CallErrorKind, Event, Leftover, Outcome};
use polylet_core::id::{ContainerId, ContainerName, EffectId, PodUid, SandboxId};
use polylet_core::observed::Image;
use polylet_core::pod::{Handler, Pod, ProbeKind, QosClass};
use polylet_core::question::qos::Placement;
use polylet_core::sample::Sample;
use polylet_core::say::{About, Say};
use polylet_core::userns::IdRange;
use polylet_core::volume::{EnvFiles, SubPath};
use polylet_machine::cgroup::{CgroupName, CgroupTree, Driver, LimitOptions, pod_limits};
use polylet_machine::stats::Usage;
use polylet_machine::userns::IdRanges;
use polylet_machine::{facts, hosts, logs, volume};
use polylet_probe::{ExecEnd, exec_outcome, hook_http, probe};
use polylet_runtime::cri::PodSandboxConfig;
use polylet_runtime::{
    Client, ContainerInputs, Layer, NodeContext, Operation, ResolvConf, TranslateError, Translated, container_config, env_files,
    exec_probe_command, has_own_users, hostname, key, sandbox_config, spec_container, sub_paths, verbs, volume_files,
};

use crate::context::Current;
use crate::credentials;
use crate::events::Events;
use crate::sampling::{Layers, Sampler};
use crate::{resolv_conf, tell};

mod under_way;

pub use under_way::UnderWay;

/// Everything that acts need. Shared by all tasks.
pub struct Performer {
    /// The runtime.
    pub client: Client,
    /// What translation needs of the node, and what its runtime can do now. Each act takes it once, so that it is of one mind.
    pub node: Current,
    /// None with `cgroupsPerQOS: false`.
    pub cgroups: Option<CgroupTree>,
    /// `cgroupRoot`: parent of all that pods are where there are no cgroups per class.
    pub cgroup_root: String,
    /// Ids for pods with a user namespace of their own.
    pub id_ranges: Arc<IdRanges>,
    /// `resolvConf`; empty: none.
    pub resolv_conf: String,
    /// Bears on pods' cgroups.
    pub limits: LimitOptions,
    /// Reads statistics.
    pub sampler: Sampler,
    /// Pods that have been prepared, with the tier they stand in: for the tiers' shares and for sampling.
    pub prepared: Prepared,
    /// What has happened, to be shown.
    pub events: Arc<Events>,
}

/// Pods that have been prepared.
pub type Prepared = Arc<Mutex<BTreeMap<PodUid, (Arc<Pod>, QosClass)>>>;

/// Locks, whatever a thread that panicked left: the map is whole between two statements.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// After so long, and each time again, a pull that goes on is told of.
const LONG_PULL: Duration = Duration::from_secs(30);

impl Performer {
    async fn perform(&self, id: EffectId, act: Act) -> Event {
        let result = match act {
            Act::List => return Event::Listed { id, result: polylet_runtime::list(&self.client).await },
            Act::Observe(pod) => {
                let result = polylet_runtime::observe(&self.client, &pod).await;
                return Event::Observed { id, pod, result };
            }
            Act::Sample => return Event::Sampled { id, result: Ok(Arc::new(self.sample().await)) },
            Act::InspectImage { image } => verbs::inspect_image(&self.client, &image).await.map(Outcome::Image),
            Act::PullImage { pod, image } => self.pull(&pod, &image).await,
            Act::Prepare { pod, placement } => self.prepare(&pod, &placement).await,
            Act::RunSandbox { pod, attempt, placement } => self.run_sandbox(&pod, attempt, &placement).await,
            Act::CreateContainer { pod, container, attempt, sandbox, image, mounted_images, ips, placement, target } => {
                self.create(&pod, &container, attempt, &sandbox, image, mounted_images, ips, &placement, target).await
            }
            Act::StartContainer { pod, container, id } => self.start(&pod, &container, &id).await,
            Act::Hook { pod, container, handler, ips, budget } => self.hook(&pod, &container, handler, &ips, budget).await,
            Act::StopContainer { id, timeout, .. } => unit(verbs::stop_container(&self.client, &id, timeout).await),
            Act::RemoveContainer { id, keep_log } => self.remove(&id, keep_log).await,
            Act::StopSandbox { id } => unit(verbs::stop_sandbox(&self.client, &id).await),
            Act::RemoveSandbox { id } => unit(verbs::remove_sandbox(&self.client, &id).await),
            Act::CleanUp { pod, namespace, name, gone } => self.clean_up(pod, namespace, name, gone).await,
            Act::FindLeftovers => self.find_leftovers().await,
            Act::Probe { pod, container, id, kind, ips } => self.probe(&pod, &container, &id, kind, &ips).await,
            // Each hook has a thread of its own that asks its policies.
            Act::Ask { .. } => Err(other("ask", "policy", "asked in a task")),
        };
        Event::Done { id, result }
    }

    async fn pull(&self, pod: &Arc<Pod>, image: &str) -> Result<Outcome, CallError> {
        let began = std::time::Instant::now();
        let (node, dns) = (self.node.now(), self.host_dns().await.unwrap_or_default());
        let sandbox = sandbox_of_pull(&node, pod, dns.as_ref());
        let (root, wanted) = (node.paths.root.clone(), image.to_owned());
        let credentials = blocking("PullImage", image, move || Ok(credentials::of_node(&root).lookup(&wanted))).await?;
        let mut pull = std::pin::pin!(verbs::pull_image(&self.client, image, credentials, sandbox));
        let image = loop {
            match tokio::time::timeout(LONG_PULL, &mut pull).await {
                Ok(pulled) => break pulled?,
                // How far it is, no runtime tells.
                Err(_) => {
                    tracing::info!(pod = %pod.desc(), image, seconds = began.elapsed().as_secs(), "an image is still being pulled")
                }
            }
        };
        Ok(Outcome::Pulled { image, took: began.elapsed() })
    }

    async fn prepare(&self, pod: &Arc<Pod>, placement: &Arc<Placement>) -> Result<Outcome, CallError> {
        let uid = pod.uid.clone();
        let limits = pod_limits(pod, placement, &self.limits);
        locked(&self.prepared).insert(uid.clone(), (pod.clone(), placement.tier));
        let burstable = self.burstable_cpu();
        let node = self.node.now();
        let (cgroups, pod, paths) = (self.cgroups.clone(), pod.clone(), node.paths.clone());
        let (memory, files) = (node.memory_allocatable, volume_files(&node, &pod));
        blocking("prepare", uid.as_str(), move || {
            if let Some(cgroups) = cgroups {
                let failed = |error: polylet_machine::cgroup::CgroupError| other("cgroup", pod.uid.as_str(), chain(&error));
                cgroups.update_tiers(burstable).map_err(failed)?;
                cgroups.ensure_pod(pod.uid.as_str(), &limits).map_err(failed)?;
            }
            let failed = |error: logs::LogError| other("directories", pod.uid.as_str(), chain(&error));
            let dir = logs::create_pod_dir(&paths, &pod.namespace, &pod.name, pod.uid.as_str()).map_err(failed)?;
            let mut logged = BTreeMap::new();
            for container in &pod.containers {
                let attempt = logs::newest_attempt(&dir, container.name.as_str()).map_err(failed)?;
                logged.extend(attempt.map(|attempt| (container.name.clone(), attempt)));
            }
            volume::prepare(&paths, &pod, memory, &files).map_err(|error| {
                let operation = if matches!(error, volume::VolumeError::Directories(_)) { "directories" } else { "volumes" };
                other(operation, pod.uid.as_str(), error.to_string())
            })?;
            Ok(Outcome::Prepared { logged })
        })
        .await
    }

    /// Millicores that the pods of the Burstable tier ask for together.
    fn burstable_cpu(&self) -> u64 {
        let prepared = locked(&self.prepared);
        burstable_cpu(&prepared)
    }

    async fn run_sandbox(&self, pod: &Arc<Pod>, attempt: u32, placement: &Placement) -> Result<Outcome, CallError> {
        let node = self.node.now();
        let users = self.user_namespace(&node, pod, Operation::RunPodSandbox, &pod.desc()).await?;
        let dns = self.host_dns().await.map_err(|why| other("RunPodSandbox", &pod.desc(), why))?;
        let parent = self.cgroup_parent(pod, placement.tier);
        let translated = sandbox_message(&node, pod, attempt, &parent, users, dns.as_ref())?;
        // Told once for each sandbox, not for each container in it.
        for (reason, text) in &translated.warnings {
            for about in told_of(pod, reason) {
                self.say(about, reason, text);
            }
        }
        verbs::run_sandbox(&self.client, translated.message, "").await.map(Outcome::Sandbox)
    }

    /// What pods inherit now. A sandbox is not made without it; it has its own from then on, so that whatever only mentions the sandbox
    /// does not depend on the file.
    async fn host_dns(&self) -> Result<Option<ResolvConf>, String> {
        let path = self.resolv_conf.clone();
        let read = tokio::task::spawn_blocking(move || resolv_conf::read(&path).map_err(|error| chain(&error))).await;
        read.map_err(|error| error.to_string())?
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one act")]
    async fn create(
        &self,
        pod: &Arc<Pod>,
        container: &ContainerName,
        attempt: u32,
        sandbox: &SandboxId,
        image: Image,
        mounted_images: BTreeMap<String, Image>,
        ips: Vec<String>,
        placement: &Placement,
        target: Option<ContainerId>,
    ) -> Result<Outcome, CallError> {
        let (node, object) = (self.node.now(), format!("{container} of {}", pod.desc()));
        let bad = |error: TranslateError| error.into_call_error(Operation::CreateContainer, object.clone());
        let (host, domain) = hostname(pod, &node.cluster_domain).map_err(bad)?;
        let users = self.user_namespace(&node, pod, Operation::CreateContainer, &object).await?;
        let spec = pod.container(container.as_str()).ok_or_else(|| other("CreateContainer", &object, "not in the spec"))?;
        let wanted_files = env_files(pod, spec);
        let (hosts_file, termination_log, env_files) = {
            let (pod, paths, name, ips) = (pod.clone(), node.paths.clone(), container.clone(), ips.clone());
            blocking("CreateContainer", &object.clone(), move || {
                let failed = |text: String| other("CreateContainer", name.as_str(), text);
                let known = pod.host_network || !ips.is_empty();
                let hostname = hosts::Hostname { host: &host, domain: domain.as_deref() };
                let hosts_file = known.then(|| hosts::write(&paths, &pod, hostname, &ips)).transpose();
                let hosts_file = hosts_file.map_err(|e| failed(chain(&e)))?;
                let dir = logs::create_pod_dir(&paths, &pod.namespace, &pod.name, pod.uid.as_str());
                let dir = dir.map_err(|e| failed(chain(&e)))?;
                logs::create_container_dir(&dir, name.as_str()).map_err(|e| failed(chain(&e)))?;
                let wanted = pod.container(name.as_str()).is_some_and(|c| !c.termination_message_path.is_empty());
                let file = wanted.then(|| logs::termination_log(&paths, pod.uid.as_str(), name.as_str())).transpose();
                let mut env_files = EnvFiles::new();
                for (volume, path) in wanted_files {
                    let read = volume::read_in_empty_dir(&paths, &pod, &volume, &path).map_err(|error| {
                        tracing::warn!(pod = %pod.desc(), volume, path, %error, "no file of variables");
                        error.to_string()
                    });
                    env_files.insert((volume, path), read);
                }
                Ok((hosts_file, file.map_err(|e| failed(chain(&e)))?, env_files))
            })
            .await?
        };
        let place = placement_of(pod, container, placement);
        let (config, parts) = {
            let inputs = ContainerInputs {
                pod,
                container: spec,
                attempt,
                image: &image,
                ips: &ips,
                oom_score_adj: place.map_or_else(|| ephemeral_oom_score(placement.tier), |p| i64::from(p.oom_score)),
                memory_high: place.and_then(|p| p.memory_high),
                hosts_file: hosts_file.as_deref(),
                termination_log: termination_log.as_deref(),
                volumes: &|name| volume::volume_path(&node.paths, pod, name),
                mounted_images: &mounted_images,
                env_files: &env_files,
                user_namespace: users,
                target: target.as_ref().map(ContainerId::as_str),
            };
            let config = container_config(&node, &inputs).map_err(bad)?.message;
            (config, sub_paths(&node, &inputs).map_err(bad)?)
        };
        if !parts.is_empty() {
            self.sub_paths(pod, container, parts).await?;
        }
        // A sandbox of which nothing can be learnt: why no container can be made in it, the runtime says when it is asked to.
        let (dns, of_sandbox) = tokio::join!(self.host_dns(), verbs::sandbox_attempt(&self.client, sandbox));
        let (dns, of_sandbox) = (dns.unwrap_or_default(), of_sandbox.unwrap_or(0));
        let parent = self.cgroup_parent(pod, placement.tier);
        let sandbox_config = sandbox_message(&node, pod, of_sandbox, &parent, users, dns.as_ref())?.message;
        let signal = config.stop_signal;
        let made = verbs::create_container(&self.client, &pod.uid, sandbox, config, sandbox_config).await?;
        self.watch_stop_signal(pod, container, &made, signal);
        Ok(Outcome::Container(made))
    }

    /// Says once for each container where the runtime passes over its stop signal. Nothing waits for it.
    fn watch_stop_signal(&self, pod: &Arc<Pod>, container: &ContainerName, id: &ContainerId, wanted: i32) {
        let (client, pod, name, id) = (self.client.clone(), pod.clone(), container.clone(), id.clone());
        tokio::spawn(async move {
            if let Some(passed_over) = verbs::stop_signal_not_taken(&client, &id, wanted).await {
                tracing::warn!(pod = %pod.desc(), container = %name, "{passed_over}");
            }
        });
    }

    /// Makes the parts of volumes ready that a container mounts. What a tenant may see of an error names no path of the node.
    async fn sub_paths(&self, pod: &Arc<Pod>, container: &ContainerName, parts: Vec<SubPath>) -> Result<(), CallError> {
        let (pod, name, paths) = (pod.clone(), container.clone(), self.node.now().paths.clone());
        blocking("CreateContainer", container.as_str(), move || {
            for part in &parts {
                volume::prepare_sub_path(&paths, &pod, name.as_str(), part).map_err(|error| {
                    tracing::warn!(pod = %pod.desc(), error = chain(&error), "no part of a volume");
                    let kind = CallErrorKind::Config;
                    CallError { kind, ..other("CreateContainer", &format!("{name} of {}", pod.desc()), error.to_string()) }
                })?;
            }
            Ok(())
        })
        .await
    }

    async fn start(&self, pod: &Arc<Pod>, container: &ContainerName, id: &ContainerId) -> Result<Outcome, CallError> {
        verbs::start_container(&self.client, id).await?;
        // For collectors of logs, which find containers by these links; nothing waits for it.
        let (client, paths, pod, name, id) =
            (self.client.clone(), self.node.now().paths.clone(), pod.clone(), container.clone(), id.clone());
        tokio::spawn(async move {
            let Ok(answer) = client.container_status(id.as_str(), false).await else { return };
            let Some(log) = answer.status.map(|s| PathBuf::from(s.log_path)).filter(|p| !p.as_os_str().is_empty()) else {
                return;
            };
            let link = logs::link_name(&pod.namespace, &pod.name, name.as_str(), id.as_str());
            let linked = tokio::task::spawn_blocking(move || logs::link_log(&paths, &link, &log)).await;
            if let Ok(Err(error)) = linked {
                tracing::warn!(container = %name, pod = %pod.desc(), error = chain(&error), "no link to a container's log");
            }
        });
        Ok(Outcome::Unit)
    }

    async fn hook(
        &self,
        pod: &PodUid,
        container: &ContainerId,
        handler: Handler,
        ips: &[String],
        budget: Option<Duration>,
    ) -> Result<Outcome, CallError> {
        let object = format!("{container} of pod {pod}");
        match handler {
            Handler::Exec { command } => {
                let shown = command.join(" ");
                let ran = verbs::exec(&self.client, container, command, budget.unwrap_or(Duration::ZERO)).await?;
                match ran.exit_code {
                    Some(0) => Ok(Outcome::Unit),
                    Some(code) => Err(other("hook", &object, format!("command '{shown}' exited with {code}: {}", ran.output))),
                    None => Err(other("hook", &object, format!("command '{shown}' did not end in time"))),
                }
            }
            Handler::Sleep { duration } => {
                let cut = budget.is_some_and(|most| most < duration);
                tokio::time::sleep(budget.map_or(duration, |most| most.min(duration))).await;
                if cut { Err(other("hook", &object, "the pause was cut short")) } else { Ok(Outcome::Unit) }
            }
            Handler::HttpGet { .. } => {
                let done = hook_http(&handler, ips, budget).await.map_err(|error| other("hook", &object, error.text))?;
                if let Some(text) = done.fallback {
                    self.warn(pod, "LifecycleHTTPFallback", &text);
                }
                Ok(Outcome::Unit)
            }
            Handler::TcpSocket { .. } | Handler::Grpc { .. } => Err(other("hook", &object, "invalid handler")),
        }
    }

    /// An event that only carrying out an act brings up.
    fn warn(&self, pod: &PodUid, reason: &'static str, message: &str) {
        let known = locked(&self.prepared).get(pod).map(|(pod, _)| (pod.namespace.clone(), pod.name.clone()));
        let (namespace, name) = known.unwrap_or_default();
        self.say(About::Pod { uid: pod.clone(), namespace, name, container: None }, reason, message);
    }

    fn say(&self, about: About, reason: &'static str, message: &str) {
        let say = Say { about, warning: true, reason, message: message.to_owned() };
        tell::event(&say, &self.events, facts::now().wall);
    }

    async fn remove(&self, id: &ContainerId, keep_log: bool) -> Result<Outcome, CallError> {
        // Where its log lies is known only as long as it is there.
        let status = self.client.container_status(id.as_str(), false).await.ok().and_then(|answer| answer.status);
        verbs::remove_container(&self.client, id).await?;
        let Some(status) = status.filter(|s| !keep_log && !s.log_path.is_empty()) else { return Ok(Outcome::Unit) };
        let label = |key: &str| status.labels.get(key).map(String::as_str).unwrap_or_default();
        let link = logs::link_name(label(key::POD_NAMESPACE), label(key::POD_NAME), label(key::CONTAINER_NAME), id.as_str());
        let (paths, log) = (self.node.now().paths.clone(), PathBuf::from(&status.log_path));
        blocking("RemoveContainer", id.as_str(), move || {
            logs::remove_container_log(&paths, &log, &link)
                .map(|()| Outcome::Unit)
                .map_err(|error| other("RemoveContainer", &link, chain(&error)))
        })
        .await
    }

    async fn clean_up(&self, pod: PodUid, namespace: String, name: String, gone: bool) -> Result<Outcome, CallError> {
        locked(&self.prepared).remove(&pod);
        let burstable = self.burstable_cpu();
        let (cgroups, paths) = (self.cgroups.clone(), self.node.now().paths.clone());
        let object = pod.to_string();
        blocking("clean up", &object, move || {
            let failed = |text: String| other("clean up", pod.as_str(), text);
            volume::tear_down(&paths, pod.as_str()).map_err(|e| failed(chain(&e)))?;
            if let Some(cgroups) = cgroups {
                cgroups.remove_pod(pod.as_str()).map_err(|e| failed(chain(&e)))?;
                cgroups.update_tiers(burstable).map_err(|e| failed(chain(&e)))?;
            }
            if gone && !name.is_empty() {
                logs::remove_pod_logs(&paths, &namespace, &name, pod.as_str()).map_err(|e| failed(chain(&e)))?;
            }
            Ok(Outcome::Unit)
        })
        .await
    }

    async fn find_leftovers(&self) -> Result<Outcome, CallError> {
        let (cgroups, paths) = (self.cgroups.clone(), self.node.now().paths.clone());
        blocking("find leftovers", "pods", move || {
            let failed = |error: &dyn std::error::Error| other("find leftovers", "pods", chain(error));
            let mut found: BTreeMap<PodUid, Leftover> = BTreeMap::new();
            for other in volume::list_others(&paths).map_err(|e| failed(&e))? {
                tell::no_pod(&paths.root.join("pods").join(other));
            }
            for [namespace, name, uid] in logs::list_pods(&paths).map_err(|e| failed(&e))? {
                found.insert(uid.into(), Leftover { namespace, name });
            }
            for uid in volume::list_pods(&paths).map_err(|e| failed(&e))? {
                found.entry(uid.into()).or_default();
            }
            if let Some(cgroups) = cgroups {
                for (uid, _) in cgroups.list_pods().map_err(|e| failed(&e))? {
                    found.entry(uid.into()).or_default();
                }
            }
            found.retain(|uid, _| volume::is_pod_uid(uid.as_str()));
            // Nothing is lost with a link to nothing.
            logs::remove_dangling_links(&paths).map_err(|e| failed(&e))?;
            Ok(Outcome::Leftovers(found))
        })
        .await
    }

    async fn probe(
        &self,
        pod: &Arc<Pod>,
        name: &ContainerName,
        id: &ContainerId,
        kind: ProbeKind,
        ips: &[String],
    ) -> Result<Outcome, CallError> {
        let spec = pod.container(name.as_str()).and_then(|c| c.probes.get(kind));
        let spec = spec.ok_or_else(|| other("probe", name.as_str(), "the spec has no such probe"))?;
        let Handler::Exec { command } = &spec.handler else {
            let done = probe(&spec.handler, ips, spec.timeout).await;
            return Ok(Outcome::Probed { outcome: done.outcome, text: done.text, latency: done.latency });
        };
        let began = std::time::Instant::now();
        let declared = pod.container(name.as_str()).and_then(|c| spec_container(pod, c));
        let command = declared.map_or_else(|| command.clone(), |c| exec_probe_command(&c, command));
        let ran = verbs::exec(&self.client, id, command.clone(), spec.timeout).await;
        let (outcome, text) = match &ran {
            Ok(verbs::Ran { exit_code: Some(code), output }) => {
                exec_outcome(&command, spec.timeout, ExecEnd::Exited { code: *code, output: output.as_bytes() })
            }
            Ok(verbs::Ran { exit_code: None, .. }) => exec_outcome(&command, spec.timeout, ExecEnd::TimedOut),
            Err(error) => exec_outcome(&command, spec.timeout, ExecEnd::Failed { message: &error.message }),
        };
        Ok(Outcome::Probed { outcome, text, latency: began.elapsed() })
    }

    async fn sample(&self) -> Sample {
        let (sampler, cgroups, prepared) = (self.sampler.clone(), self.cgroups.clone(), self.prepared.clone());
        let at = facts::now().wall;
        let layers = match sampler.disk_is_due() {
            true => Some(self.writable_layers().await.unwrap_or_else(|error| {
                tracing::warn!(error = chain(&error), "writable layers are not known");
                Layers::new()
            })),
            false => None,
        };
        let taken = tokio::task::spawn_blocking(move || sampler.sample(cgroups.as_ref(), &prepared, layers.as_ref())).await;
        taken.unwrap_or_else(|_| Sample { at, ..Sample::default() })
    }

    async fn writable_layers(&self) -> Result<Layers, polylet_runtime::CallError> {
        let pods = polylet_runtime::writable_layers(&self.client).await?;
        let layers = |of: BTreeMap<ContainerId, Layer>| {
            of.into_iter().map(|(id, layer)| (id, Usage { bytes: layer.bytes, inodes: layer.inodes })).collect()
        };
        Ok(pods.into_iter().map(|(uid, of)| (uid, layers(of))).collect())
    }

    /// The ids of a pod with a user namespace of its own; None for others, and where the runtime has none: that is told by whoever
    /// translates the pod.
    async fn user_namespace(
        &self,
        node: &NodeContext,
        pod: &Arc<Pod>,
        operation: Operation,
        object: &str,
    ) -> Result<Option<IdRange>, CallError> {
        let supported = node.runtime_handlers.get("").is_some_and(|features| features.user_namespaces);
        if !supported || !has_own_users(pod) {
            return Ok(None);
        }
        let (ranges, uid, object) = (self.id_ranges.clone(), pod.uid.clone(), object.to_owned());
        blocking(operation.rpc(), &object.clone(), move || {
            ranges.of_pod(uid.as_str()).map(Some).map_err(|error| other(operation.rpc(), &object, chain(&error)))
        })
        .await
    }

    fn cgroup_parent(&self, pod: &Pod, tier: QosClass) -> String {
        cgroup_parent(&self.cgroup_root, self.cgroups.is_some(), pod, tier)
    }
}

fn sandbox_message(
    node: &NodeContext,
    pod: &Pod,
    attempt: u32,
    parent: &str,
    users: Option<IdRange>,
    dns: Option<&ResolvConf>,
) -> Result<Translated<PodSandboxConfig>, CallError> {
    sandbox_config(node, pod, attempt, parent, users, dns)
        .map_err(|error| error.into_call_error(Operation::RunPodSandbox, pod.desc()))
}

/// For whom an image is pulled. It is told to plugins only: neither a cgroup nor ids are taken for it. None where the pod can have no
/// sandbox: that is no fault of its image, and told where the sandbox is to be made.
fn sandbox_of_pull(node: &NodeContext, pod: &Pod, dns: Option<&ResolvConf>) -> Option<PodSandboxConfig> {
    sandbox_config(node, pod, 0, "", None, dns).ok().map(|translated| translated.message)
}

/// What a warning of a pod's translation is about: the pod, and the node too where it lacks what the pod wants.
fn told_of(pod: &Pod, reason: &str) -> Vec<About> {
    let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
    let of_pod = About::Pod { uid: pod.uid.clone(), namespace, name, container: None };
    if reason == "MissingClusterDNS" { vec![About::Node, of_pod] } else { vec![of_pod] }
}

fn burstable_cpu(pods: &BTreeMap<PodUid, (Arc<Pod>, QosClass)>) -> u64 {
    let burstable = pods.values().filter(|(_, tier)| *tier == QosClass::Burstable);
    burstable.map(|(pod, _)| pod.cpu_request()).fold(0, u64::saturating_add)
}

/// The container's own entry of the placement, which leaves ephemeral ones out.
fn placement_of<'a>(
    pod: &Pod,
    name: &ContainerName,
    placement: &'a Placement,
) -> Option<&'a polylet_core::question::qos::ContainerPlacement> {
    let place = pod.init_containers().chain(pod.app_containers()).position(|c| c.name == *name)?;
    placement.containers.get(place)
}

async fn blocking<T: Send + 'static>(
    operation: &str,
    object: &str,
    work: impl FnOnce() -> Result<T, CallError> + Send + 'static,
) -> Result<T, CallError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(other(operation, object, error.to_string())),
    }
}

fn unit(result: Result<(), CallError>) -> Result<Outcome, CallError> {
    result.map(|()| Outcome::Unit)
}

fn other(operation: &str, object: &str, message: impl Into<String>) -> CallError {
    CallError { operation: operation.into(), object: object.into(), kind: CallErrorKind::Other, message: message.into() }
}

/// The cgroup below which the runtime makes those of a pod: the pod's own where pods have some, else the configured root.
pub fn cgroup_parent(root: &str, per_qos: bool, pod: &Pod, tier: QosClass) -> String {
    let root = CgroupName::from_cgroupfs(root);
    let parent = if per_qos { CgroupName::pod(&root, pod.uid.as_str(), tier) } else { root };
    parent.path(Driver::Cgroupfs)
}

/// Ephemeral containers ask for nothing, so that the kernel takes them first within their class.
fn ephemeral_oom_score(tier: QosClass) -> i64 {
    match tier {
        QosClass::Guaranteed => -997,
        QosClass::Burstable => 999,
        QosClass::BestEffort => 1000,
    }
}

/// An error with all its causes, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use polylet_core::pod::Source;
    use polylet_core::time::Wall;
    use polylet_runtime::HandlerFeatures;

    use super::*;
    use crate::context::tests::node;

    fn pod(uid: &str, cpu: &str) -> Arc<Pod> {
        let object = serde_json::json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": uid},
            "spec": {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
        });
        Arc::new(Pod::parse(Arc::new(serde_json::from_value(object).unwrap()), Source::File, Wall(0)).unwrap())
    }

    #[test]
    fn an_image_is_pulled_for_a_pod_that_can_have_no_sandbox_too() {
        let of = |spec: serde_json::Value, node: &NodeContext| {
            let mut spec = spec;
            spec["containers"] = serde_json::json!([{"name": "a", "image": "i"}]);
            let object = serde_json::json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "spec": spec});
            let pod = Pod::parse(Arc::new(serde_json::from_value(object).unwrap()), Source::File, Wall(0)).unwrap();
            sandbox_of_pull(node, &pod, None).and_then(|sandbox| sandbox.metadata).map(|metadata| metadata.uid)
        };
        let users = |user_namespaces| node(HandlerFeatures { user_namespaces, ..HandlerFeatures::default() });
        let own_users = || serde_json::json!({"hostUsers": false});
        assert_eq!(of(own_users(), &users(true)).as_deref(), Some("u"));
        assert_eq!(of(own_users(), &users(false)), None);
        let long = serde_json::json!({"hostname": "a".repeat(60), "subdomain": "b".repeat(60), "setHostnameAsFQDN": true});
        assert_eq!(of(long, &users(true)), None);
    }

    #[test]
    fn absurd_requests_are_the_most_that_there_is() {
        let most = format!("{}m", i64::MAX);
        let pods = (0..3).map(|n| (PodUid::from(n.to_string()), (pod("u", &most), QosClass::Burstable)));
        assert_eq!(burstable_cpu(&pods.collect()), u64::MAX);
    }

    #[test]
    fn the_node_is_told_of_too_where_it_lacks_something() {
        let pod = pod("u", "1");
        let of_pod = About::Pod { uid: "u".into(), namespace: "shop".into(), name: "web".into(), container: None };
        assert_eq!(told_of(&pod, "MissingClusterDNS"), [About::Node, of_pod.clone()]);
        assert_eq!(told_of(&pod, "DNSConfigForming"), [of_pod]);
    }

    #[test]
    fn pods_without_cgroups_of_their_own_stand_below_the_configured_root() {
        let pod = pod("u", "1");
        let parent = |root, per_qos| cgroup_parent(root, per_qos, &pod, QosClass::Burstable);
        assert_eq!(parent("/", true), "/kubepods/burstable/podu");
        assert_eq!(parent("/node", true), "/node/kubepods/burstable/podu");
        assert_eq!(parent("/", false), "/");
        assert_eq!(parent("node/a/", false), "/node/a");
    }
}
