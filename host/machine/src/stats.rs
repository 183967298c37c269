//! Readings of the node and its pods: signals for eviction, usage for rankings, facts for policies.
//!
//! [`Sampler::sample`] only reads a few small files for each pod, so that it may be called every ten seconds. What takes a walk through
//! directories, [`measure_logs`] and [`measure_volumes`], is separate: it is to be called once a minute.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use polylet_core::id::{ContainerId, PodUid};
use polylet_core::pod::QosClass;
use polylet_core::sample::{ContainerUsage, PodUsage, Reading, Sample};
use polylet_core::time::{Mono, Now};

use crate::cgroup::{CgroupTree, Hierarchies};
use crate::facts;

mod disk;
mod file_system;
mod memory;
mod pressure;
mod processes;

pub use crate::walk::Usage;
pub use disk::{PodDisk, PodLogs, PodVolumes, measure_logs, measure_volumes};

use file_system::Space;

/// The file systems that signals speak of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// nodefs: the agent's root directory.
    pub node: PathBuf,
    /// imagefs: where the runtime keeps images, as it says itself.
    pub images: Option<PathBuf>,
    /// containerfs: where the runtime keeps writable layers. None: beside its images, as with every runtime that tells no other place.
    pub containers: Option<PathBuf>,
}

/// A reading without which there is no sampling.
#[derive(Debug, thiserror::Error)]
#[error("sample {path}")]
pub struct StatsError {
    /// The file or file system.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub cause: io::Error,
}

/// Takes samples; remembers the last counters, since use of cpu is a difference.
#[derive(Debug, Default)]
pub struct Sampler {
    /// When, and nanoseconds of cpu used until then: by the machine, by each pod, and by each container.
    machine: Option<Used>,
    pods: BTreeMap<PodUid, Used>,
    containers: BTreeMap<ContainerId, Used>,
}

type Used = (Mono, u64);

impl Sampler {
    /// Nothing sampled yet: the first sampling has no cpu figures.
    pub fn new() -> Self {
        Self::default()
    }

    /// One sampling: `pods` with the tiers that their cgroups stand in, and what was last found on disk. Without `tree`
    /// (`cgroupsPerQOS: false`) pods have no cgroups whose statistics could be read; the machine's and those of disks are the same.
    pub fn sample(
        &mut self,
        machine: &Hierarchies,
        tree: Option<&CgroupTree>,
        places: &Places,
        pods: &[(PodUid, QosClass)],
        disk: &BTreeMap<PodUid, PodDisk>,
        now: Now,
    ) -> Result<Sample, StatsError> {
        let mut sample = Sample { at: now.wall, ..Sample::default() };
        Self::memory(machine, &mut sample)?;
        if let Some(tree) = tree {
            Self::memory_of_pods(tree, &mut sample);
        }
        Self::file_systems(places, &mut sample)?;
        Self::processes(&mut sample)?;
        pressure::of_machine(&mut sample);
        self.cpu(machine, now, &mut sample);
        sample.facts.insert("node.uptime".to_owned(), signed(now.mono.0));

        let before = std::mem::take(self);
        self.machine = before.machine;
        for (uid, tier) in pods {
            let mut usage = tree.map(|tree| self.pod(tree, uid, *tier, &before, now.mono)).unwrap_or_default();
            if let Some(disk) = disk.get(uid) {
                add_disk(&mut usage, disk);
            }
            sample.pods.insert(uid.clone(), usage);
        }
        Ok(sample)
    }

    /// What a pod and its containers use; their counters of cpu are kept for the next time.
    fn pod(&mut self, tree: &CgroupTree, uid: &PodUid, tier: QosClass, before: &Self, now: Mono) -> PodUsage {
        let dir = |controller| tree.pod_dir(controller, uid.as_str(), tier);
        let (memory_dir, cpu_dir, io_dir) = (dir("memory"), dir(processes::CPU), dir("io"));
        let stall = |dir: &Option<PathBuf>, file| pressure::some_10s(&dir.as_ref()?.join(file));
        let memory = memory_dir.as_ref().and_then(|dir| memory::of_cgroup(tree.version(), dir).ok());
        let used = cpu_dir.as_ref().and_then(|dir| processes::cpu_nanos(tree.version(), dir)).map(|nanos| (now, nanos));
        self.pods.extend(used.map(|used| (uid.clone(), used)));

        let mut containers = BTreeMap::new();
        for (id, dir) in memory_dir.iter().flat_map(|dir| containers_below(dir)) {
            let memory = memory::of_cgroup(tree.version(), &dir).ok();
            let cpu_dir = cpu_dir.as_ref().map(|dir| dir.join(id.as_str()));
            let used = cpu_dir.and_then(|dir| processes::cpu_nanos(tree.version(), &dir)).map(|nanos| (now, nanos));
            let usage = ContainerUsage {
                cpu: before.containers.get(&id).copied().zip(used).and_then(|(before, used)| rate(before, used)),
                memory_working_set: memory.map(|memory| memory.working_set),
                memory_rss: memory.map(|memory| memory.rss),
                memory_swap: memory.and_then(|memory| memory.swap),
                disk_rootfs: None,
            };
            self.containers.extend(used.map(|used| (id.clone(), used)));
            containers.insert(id, usage);
        }
        PodUsage {
            memory_working_set: memory.map(|memory| memory.working_set),
            memory_rss: memory.map(|memory| memory.rss),
            memory_swap: memory.and_then(|memory| memory.swap),
            cpu: before.pods.get(uid).copied().zip(used).and_then(|(before, used)| rate(before, used)),
            processes: memory_dir.as_ref().and_then(|dir| processes::of_cgroup(dir)),
            cpu_stall: stall(&cpu_dir, "cpu.pressure"),
            memory_stall: stall(&memory_dir, "memory.pressure"),
            io_stall: stall(&io_dir, "io.pressure"),
            containers,
            ..PodUsage::default()
        }
    }

    fn memory(machine: &Hierarchies, sample: &mut Sample) -> Result<(), StatsError> {
        let meminfo = read("/proc/meminfo".as_ref())?;
        let of = |key| facts::kilobytes(&meminfo, key).unwrap_or(0);
        let dir = machine.point("memory").unwrap_or(Path::new("/sys/fs/cgroup"));
        let machine = memory::of_machine(machine.version(), dir)?;
        let (capacity, working_set) = (of("MemTotal"), machine.working_set);
        let available = capacity.saturating_sub(working_set);
        sample.signals.insert("memory.available".to_owned(), Reading { available, capacity: available + working_set });
        fact(sample, "node.memory.usage", machine.usage);
        fact(sample, "node.memory.working-set", working_set);
        fact(sample, "node.memory.rss", machine.rss);
        let (swap, swap_free) = (of("SwapTotal"), of("SwapFree"));
        fact(sample, "node.memory.swap.capacity", swap);
        fact(sample, "node.memory.swap.available", swap_free);
        fact(sample, "node.memory.swap.usage", swap.saturating_sub(swap_free));
        Ok(())
    }

    fn memory_of_pods(tree: &CgroupTree, sample: &mut Sample) {
        let Some(pods) = tree.pods_root_dir("memory").and_then(|dir| memory::of_cgroup(tree.version(), &dir).ok()) else {
            return;
        };
        fact(sample, "node.memory.pods.working-set", pods.working_set);
        if let Some(limit) = pods.limit {
            fact(sample, "node.memory.pods.limit", limit);
            let available = limit.saturating_sub(pods.working_set);
            let reading = Reading { available, capacity: available + pods.working_set };
            sample.signals.insert("allocatableMemory.available".to_owned(), reading);
        }
    }

    fn file_systems(places: &Places, sample: &mut Sample) -> Result<(), StatsError> {
        let node = Space::of(&places.node)?;
        put_space(sample, "nodefs", "disk", &node);
        // The runtime may be down and its directory not there yet: those signals are then left out.
        let containers = places.containers.as_ref().or(places.images.as_ref());
        let [images, containers] = [places.images.as_ref(), containers].map(|path| Space::of(path?).ok());
        for (signal, name, space) in [("imagefs", "image-disk", &images), ("containerfs", "container-disk", &containers)] {
            if let Some(space) = space {
                put_space(sample, signal, name, space);
            }
        }
        if let (Some(images), Some(containers)) = (&images, &containers) {
            let layout = match images.device != node.device {
                false => 0,
                true if images.device == containers.device => 1,
                true => 2,
            };
            fact(sample, "node.disk.layout", layout);
        }
        Ok(())
    }

    fn processes(sample: &mut Sample) -> Result<(), StatsError> {
        let (running, maximum, load) = processes::of_machine()?;
        let available = maximum.saturating_sub(running);
        sample.signals.insert("pid.available".to_owned(), Reading { available, capacity: maximum });
        fact(sample, "node.processes", running);
        fact(sample, "node.processes.maximum", maximum);
        fact(sample, "node.cpu.load.1m", load);
        Ok(())
    }

    fn cpu(&mut self, machine: &Hierarchies, now: Now, sample: &mut Sample) {
        let used = machine.point(processes::CPU).and_then(|dir| processes::cpu_nanos(machine.version(), dir));
        if let (Some(before), Some(used)) = (self.machine, used)
            && let Some(millicores) = rate(before, (now.mono, used))
        {
            fact(sample, "node.cpu.usage", millicores);
        }
        self.machine = used.map(|used| (now.mono, used));
        if let Ok(cpus) = facts::cpus() {
            fact(sample, "node.cpus", cpus);
        }
    }
}

/// What the pod and its containers have on disk. A container that has ended has no cgroup, and a layer all the same.
fn add_disk(usage: &mut PodUsage, disk: &PodDisk) {
    let (layers, logs, volumes) = (disk.all_layers(), &disk.logs, disk.volumes.as_ref());
    usage.disk_rootfs = layers.map(|layers| layers.bytes);
    usage.inodes_rootfs = layers.map(|layers| layers.inodes);
    usage.disk_logs = Some(logs.all.bytes);
    usage.inodes_logs = Some(logs.all.inodes);
    usage.disk_hosts = Some(logs.hosts.bytes);
    usage.disk_volumes = volumes.map(|volumes| volumes.on_disk.bytes);
    usage.inodes_volumes = volumes.map(|volumes| volumes.on_disk.inodes);
    for (id, layer) in &disk.layers {
        usage.containers.entry(id.clone()).or_default().disk_rootfs = Some(layer.bytes);
    }
    usage.logs = logs.containers.iter().map(|(name, used)| (name.clone(), used.bytes)).collect();
    let empty_dirs = volumes.into_iter().flat_map(|volumes| &volumes.empty_dirs);
    usage.empty_dirs = empty_dirs.map(|(name, used)| (name.clone(), used.bytes)).collect();
}

/// The cgroups below a pod's: the runtime names them by the identifiers of its containers, and of the sandbox.
fn containers_below(pod: &Path) -> Vec<(ContainerId, PathBuf)> {
    let entries = std::fs::read_dir(pod).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.filter_map(|entry| Some((ContainerId::from(entry.file_name().to_str()?), entry.path()))).collect()
}

/// Millicores between two counters; None where no time has passed, or the counter began anew.
fn rate(before: Used, now: Used) -> Option<u64> {
    let nanos = now.1.checked_sub(before.1)?;
    let elapsed = u64::try_from(now.0.since(before.0).as_nanos()).ok().filter(|elapsed| *elapsed > 0)?;
    u64::try_from(u128::from(nanos) * 1000 / u128::from(elapsed)).ok()
}

fn put_space(sample: &mut Sample, signal: &str, name: &str, space: &Space) {
    sample.signals.insert(format!("{signal}.available"), space.bytes);
    fact(sample, &format!("node.{name}.capacity"), space.bytes.capacity);
    fact(sample, &format!("node.{name}.available"), space.bytes.available);
    // Some file systems have no fixed number of inodes, and never run out of them.
    if space.inodes.capacity > 0 {
        sample.signals.insert(format!("{signal}.inodesFree"), space.inodes);
        fact(sample, &format!("node.{name}.inodes"), space.inodes.capacity);
        fact(sample, &format!("node.{name}.inodes.available"), space.inodes.available);
    }
}

fn fact(sample: &mut Sample, name: &str, value: u64) {
    sample.facts.insert(name.to_owned(), signed(value));
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn read(path: &Path) -> Result<String, StatsError> {
    std::fs::read_to_string(path).map_err(|cause| StatsError { path: path.to_owned(), cause })
}

#[cfg(test)]
mod tests;
