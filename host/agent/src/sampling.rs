//! Readings for eviction and statistics, from the machine's own files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use polylet_core::id::PodUid;
use polylet_core::paths::Paths;
use polylet_core::pod::{Pod, QosClass};
use polylet_core::sample::Sample;
use polylet_machine::cgroup::CgroupTree;
use polylet_machine::facts;
use polylet_machine::stats::{self, Places, PodDisk, measure_disk};

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

    /// One sampling of the pods that have been prepared. Blocks. Without cgroups nothing can be told.
    pub fn sample(&self, cgroups: Option<&CgroupTree>, prepared: &Prepared) -> Sample {
        let now = facts::now();
        let Some(cgroups) = cgroups else { return Sample { at: now.wall, ..Sample::default() } };
        let known: Vec<(Arc<Pod>, QosClass)> = locked(prepared).values().cloned().collect();
        let disk = self.disk(&known);
        let pods: Vec<(PodUid, QosClass)> = known.into_iter().map(|(pod, tier)| (pod.uid.clone(), tier)).collect();
        match locked(&self.0.sampler).sample(cgroups, &self.0.places, &pods, &disk, now) {
            Ok(sample) => sample,
            Err(error) => {
                tracing::warn!(error = chain(&error), "no sampling");
                Sample { at: now.wall, ..Sample::default() }
            }
        }
    }

    fn disk(&self, known: &[(Arc<Pod>, QosClass)]) -> BTreeMap<PodUid, PodDisk> {
        let mut disk = locked(&self.0.disk);
        if disk.measured.is_none_or(|at| at.elapsed() >= DISK_EVERY) {
            let pods: Vec<Arc<Pod>> = known.iter().map(|(pod, _)| pod.clone()).collect();
            *disk = Disk { measured: Some(Instant::now()), pods: measure_disk(&self.0.paths, &pods) };
        }
        disk.pods.clone()
    }
}
