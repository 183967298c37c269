//! Readings for eviction and statistics, from the machine's own files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use polylet_core::id::PodUid;
use polylet_core::paths::Paths;
use polylet_core::pod::{Pod, QosClass};
use polylet_core::sample::Sample;
use polylet_machine::cgroup::{CgroupTree, Hierarchies};
use polylet_machine::facts;
use polylet_machine::stats::{self, Places, PodDisk, Usage, measure_disk};

use crate::perform::{Prepared, chain, locked};

/// Walking directories is dear: this often.
const DISK_EVERY: Duration = Duration::from_secs(60);

/// Takes samples. Clones share what was read before.
#[derive(Clone)]
pub struct Sampler(Arc<Inner>);

struct Inner {
    paths: Paths,
    places: Places,
    sampler: Mutex<stats::Sampler>,
    disk: Mutex<Disk>,
}

#[derive(Default)]
struct Disk {
    measured: Option<Instant>,
    pods: BTreeMap<PodUid, PodDisk>,
}

impl Sampler {
    /// `places`: where the runtime keeps images and writable layers, where it says so.
    pub fn new(paths: &Paths, places: (Option<PathBuf>, Option<PathBuf>)) -> Self {
        let (images, containers) = places;
        Self(Arc::new(Inner {
            paths: paths.clone(),
            places: Places { node: paths.root.clone(), images, containers },
            sampler: Mutex::new(stats::Sampler::new()),
            disk: Mutex::default(),
        }))
    }

    /// Disks are to be measured with the next sampling, which wants to be told of writable layers.
    pub fn disk_is_due(&self) -> bool {
        locked(&self.0.disk).measured.is_none_or(|at| at.elapsed() >= DISK_EVERY)
    }

    /// One sampling of the pods that have been prepared. Disks are measured where `layers` are there: the pods' writable layers, as
    /// the runtime tells them. Blocks. Without pods' cgroups (`cgroupsPerQOS: false`) all but their statistics can be told.
    pub fn sample(&self, cgroups: Option<&CgroupTree>, prepared: &Prepared, layers: Option<&BTreeMap<PodUid, Usage>>) -> Sample {
        let now = facts::now();
        let known: Vec<(Arc<Pod>, QosClass)> = locked(prepared).values().cloned().collect();
        let disk = self.disk(&known, layers);
        let pods: Vec<(PodUid, QosClass)> = known.into_iter().map(|(pod, tier)| (pod.uid.clone(), tier)).collect();
        let nothing = |error: &dyn std::error::Error| {
            tracing::warn!(error = chain(error), "no sampling");
            Sample { at: now.wall, ..Sample::default() }
        };
        let found;
        let machine = match cgroups {
            Some(cgroups) => cgroups.hierarchies(),
            None => match Hierarchies::find() {
                Ok(machine) => {
                    found = machine;
                    &found
                }
                Err(error) => return nothing(&error),
            },
        };
        let sampled = locked(&self.0.sampler).sample(machine, cgroups, &self.0.places, &pods, &disk, now);
        sampled.unwrap_or_else(|error| nothing(&error))
    }

    fn disk(&self, known: &[(Arc<Pod>, QosClass)], layers: Option<&BTreeMap<PodUid, Usage>>) -> BTreeMap<PodUid, PodDisk> {
        let mut disk = locked(&self.0.disk);
        if let Some(layers) = layers {
            let pods: Vec<Arc<Pod>> = known.iter().map(|(pod, _)| pod.clone()).collect();
            let mut measured = measure_disk(&self.0.paths, &pods);
            for (uid, pod) in &mut measured {
                pod.layers = layers.get(uid).copied();
            }
            *disk = Disk { measured: Some(Instant::now()), pods: measured };
        }
        disk.pods.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_need_no_cgroups_of_pods() {
        let dir = tempfile::tempdir().unwrap();
        let paths =
            Paths { root: dir.path().into(), pod_logs: dir.path().join("pods"), container_logs: dir.path().join("containers") };
        let sampler = Sampler::new(&paths, (Some(dir.path().into()), None));
        let sample = sampler.sample(None, &Prepared::default(), None);
        for signal in ["memory.available", "nodefs.available", "imagefs.available", "pid.available"] {
            assert!(sample.signals.contains_key(signal), "{signal}: {sample:?}");
        }
        assert_eq!(sample.facts.get("node.disk.layout"), Some(&0));
    }
}
