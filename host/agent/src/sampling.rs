//! Readings for eviction and statistics, from the machine's own files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use polylet_core::id::{ContainerId, PodUid};
use polylet_core::paths::Paths;
use polylet_core::pod::{Pod, QosClass};
use polylet_core::sample::Sample;
use polylet_machine::cgroup::{CgroupTree, Hierarchies};
use polylet_machine::facts;
use polylet_machine::stats::{self, Places, PodDisk, Usage, measure_logs, measure_volumes};

use crate::perform::{Prepared, chain, locked};

/// Walking directories is dear: logs and layers are measured this often, or as often as volumes are.
const DISK_EVERY: Duration = Duration::from_secs(60);

/// Writable layers by pod and container, as the runtime tells them.
pub type Layers = BTreeMap<PodUid, BTreeMap<ContainerId, Usage>>;

/// Takes samples. Clones share what was read before.
#[derive(Clone)]
pub struct Sampler(Arc<Inner>);

struct Inner {
    paths: Paths,
    places: Places,
    volumes: Option<Duration>,
    sampler: Mutex<stats::Sampler>,
    disk: Mutex<Disk>,
}

#[derive(Default)]
struct Disk {
    /// When logs and layers were measured.
    measured: Option<Instant>,
    /// When volumes were, those of all pods.
    volumes: Option<Instant>,
    pods: BTreeMap<PodUid, PodDisk>,
}

impl Sampler {
    /// `places`: where the runtime keeps images and writable layers, where it says so. `volumes`: how often volumes are measured, where
    /// they are.
    pub fn new(paths: &Paths, places: (Option<PathBuf>, Option<PathBuf>), volumes: Option<Duration>) -> Self {
        let (images, containers) = places;
        Self(Arc::new(Inner {
            paths: paths.clone(),
            places: Places { node: paths.root.clone(), images, containers },
            volumes,
            sampler: Mutex::new(stats::Sampler::new()),
            disk: Mutex::default(),
        }))
    }

    /// Disks are to be measured with the next sampling, which wants to be told of writable layers.
    pub fn disk_is_due(&self) -> bool {
        is_due(locked(&self.0.disk).measured, self.0.volumes.map_or(DISK_EVERY, |period| period.min(DISK_EVERY)))
    }

    /// One sampling of the pods that have been prepared. Disks are measured where `layers` are there. Blocks. Without pods' cgroups (`cgroupsPerQOS: false`) all but their statistics can be told.
    pub fn sample(&self, cgroups: Option<&CgroupTree>, prepared: &Prepared, layers: Option<&Layers>) -> Sample {
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

    fn disk(&self, known: &[(Arc<Pod>, QosClass)], layers: Option<&Layers>) -> BTreeMap<PodUid, PodDisk> {
        let Inner { paths, volumes: period, .. } = &*self.0;
        let mut disk = locked(&self.0.disk);
        if let Some(layers) = layers {
            let due = period.is_some_and(|period| is_due(disk.volumes, period));
            let mut before = std::mem::take(&mut disk.pods);
            for (pod, _) in known {
                // Those of a new pod do not wait for the others'.
                let found = before.remove(&pod.uid).and_then(|disk| disk.volumes).filter(|_| !due);
                let volumes = found.or_else(|| period.map(|_| measure_volumes(paths, pod)));
                let layers = layers.get(&pod.uid).cloned().unwrap_or_default();
                disk.pods.insert(pod.uid.clone(), PodDisk { layers, logs: measure_logs(paths, pod), volumes });
            }
            let now = Instant::now();
            disk.measured = Some(now);
            if due {
                disk.volumes = Some(now);
            }
        }
        disk.pods.clone()
    }
}

fn is_due(last: Option<Instant>, period: Duration) -> bool {
    last.is_none_or(|at| at.elapsed() >= period)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use polylet_core::pod::Source;
    use polylet_core::time::Wall;
    use serde_json::json;

    use super::*;

    fn paths(dir: &Path) -> Paths {
        Paths { root: dir.into(), pod_logs: dir.join("pods"), container_logs: dir.join("containers") }
    }

    fn put(path: PathBuf, bytes: usize) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, vec![b'x'; bytes]).unwrap();
    }

    fn pod(uid: &str) -> Arc<Pod> {
        let object = json!({
            "metadata": {"name": "web", "namespace": "default", "uid": uid},
            "spec": {"containers": [{"name": "app", "image": "i"}], "volumes": [{"name": "v", "emptyDir": {}}]},
        });
        Arc::new(Pod::parse(Arc::new(serde_json::from_value(object).unwrap()), Source::File, Wall(0)).unwrap())
    }

    #[test]
    fn volumes_are_measured_in_a_period_of_their_own() {
        const KIB_100: u64 = 100 << 10;
        let measured = |period: Option<Duration>| {
            let dir = tempfile::tempdir().unwrap();
            let paths = paths(dir.path());
            let sampler = Sampler::new(&paths, (None, None), period);
            let prepared = Prepared::default();
            locked(&prepared).insert("uid-1".into(), (pod("uid-1"), QosClass::Burstable));
            let layers = Layers::from([("uid-1".into(), BTreeMap::from([("id".into(), Usage { bytes: 7, inodes: 1 })]))]);
            let used = |uid: &str, layers| {
                let sample = sampler.sample(None, &prepared, layers);
                let usage = &sample.pods[&PodUid::from(uid)];
                let layer = usage.containers.get(&ContainerId::from("id")).and_then(|own| own.disk_rootfs);
                (
                    usage.empty_dirs.get("v").map(|bytes| *bytes >= KIB_100),
                    usage.logs.get("app").map(|bytes| *bytes >= KIB_100),
                    layer,
                )
            };
            assert!(sampler.disk_is_due());
            assert_eq!(used("uid-1", None), (None, None, None));
            let first = used("uid-1", Some(&layers));
            assert_eq!(first, (period.map(|_| false), Some(false), Some(7)), "nothing is there yet");
            for uid in ["uid-1", "uid-2"] {
                put(paths.empty_dir(uid, "v").join("data"), KIB_100 as usize);
                put(paths.logs_of_pod("default", "web", uid).join("app/0.log"), KIB_100 as usize);
            }
            locked(&prepared).insert("uid-2".into(), (pod("uid-2"), QosClass::Burstable));
            let due = sampler.disk_is_due();
            let kept = used("uid-1", None);
            assert_eq!(kept, first, "what was measured holds until the next time");
            let [again, new] = [used("uid-1", Some(&layers)), used("uid-2", Some(&layers))];
            assert_eq!((again.1, new.1), (Some(true), Some(true)), "logs are measured whenever layers are there");
            (due, again.0, new.0)
        };
        assert_eq!(measured(Some(Duration::ZERO)), (true, Some(true), Some(true)));
        // A new pod's are measured at once.
        assert_eq!(measured(Some(Duration::from_secs(3600))), (false, Some(false), Some(true)));
        assert_eq!(measured(None), (false, None, None));
    }

    #[test]
    fn signals_need_no_cgroups_of_pods() {
        let dir = tempfile::tempdir().unwrap();
        let sampler = Sampler::new(&paths(dir.path()), (Some(dir.path().into()), None), None);
        let sample = sampler.sample(None, &Prepared::default(), None);
        for signal in ["memory.available", "nodefs.available", "imagefs.available", "pid.available"] {
            assert!(sample.signals.contains_key(signal), "{signal}: {sample:?}");
        }
        assert_eq!(sample.facts.get("node.disk.layout"), Some(&0));
    }
}
