//! Limits of local storage that a pod declares and this node does not enforce on it: told, so that nobody counts on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use polylet_core::id::PodUid;
use polylet_core::pod::{CRITICAL_PRIORITY, Pod};
use polylet_core::quantity;

use crate::document::field::{At, FieldError, Findings};
use crate::settings::Settings;

/// On whom the node enforces such limits.
#[derive(Clone, Copy, Debug)]
pub struct StorageLimits {
    enforced: bool,
    evict_static: bool,
    volumes_are_measured: bool,
}

impl StorageLimits {
    /// As a node with these settings does it.
    pub fn of(settings: &Settings) -> Self {
        Self {
            enforced: settings.local_storage_limits,
            evict_static: settings.policy_bounds.evict_static,
            volumes_are_measured: settings.volume_stats.is_some(),
        }
    }

    /// The fields of a pod that have no effect, and why.
    pub fn not_enforced(self, pod: &Pod) -> Vec<FieldError> {
        let mut findings = Findings::default();
        let Some(spec) = &pod.object.spec else { return findings.0 };
        let why = if !self.enforced {
            Some("localStorageCapacityIsolation is false")
        } else if pod.may_be_evicted(self.evict_static) {
            None
        } else if pod.priority >= CRITICAL_PRIORITY {
            Some("it is not enforced on pods of a critical priority")
        } else {
            Some(
                "it is not enforced on static pods, as with the kubelet, unless policies.evictStatic of Polylet's own configuration \
                 is true",
            )
        };
        let at = At::of("spec");
        let unmeasured =
            (!self.volumes_are_measured).then_some("volumeStatsAggPeriod is negative, so that volumes are not measured");
        for (i, volume) in spec.volumes.iter().flatten().enumerate() {
            let Some(source) = &volume.empty_dir else { continue };
            let why = match source.medium.as_deref().unwrap_or_default() {
                "" => why.or(unmeasured),
                // One in memory cannot grow beyond its size.
                "Memory" => None,
                _ => Some("what bounds huge pages are the limits of them in resources"),
            };
            // Zero is no limit.
            let limit = source.size_limit.as_ref().filter(|limit| quantity::whole(&limit.0) != Ok(0));
            if let Some((limit, why)) = limit.zip(why) {
                findings.ignored(&at.child("volumes").index(i).child("emptyDir").child("sizeLimit"), limit.0.as_str(), why);
            }
        }
        let Some(why) = why else { return findings.0 };
        for (list, containers) in
            [("initContainers", spec.init_containers.as_deref()), ("containers", Some(&spec.containers[..]))]
        {
            for (i, container) in containers.into_iter().flatten().enumerate() {
                let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
                if let Some(limit) = limits.and_then(|limits| limits.get("ephemeral-storage")) {
                    let at = at.child(list).index(i).child("resources").child("limits").key("ephemeral-storage");
                    findings.ignored(&at, limit.0.as_str(), why);
                }
            }
        }
        findings.0
    }
}

/// Tells of each pod once, and again where something else is to be told.
#[derive(Debug)]
pub struct Notes {
    limits: StorageLimits,
    told: BTreeMap<PodUid, Vec<FieldError>>,
}

impl Notes {
    /// Nothing has been told.
    pub fn new(limits: StorageLimits) -> Self {
        Self { limits, told: BTreeMap::new() }
    }

    /// What is new of these pods, which are all that there are.
    pub fn news<'a>(&mut self, pods: &'a [Arc<Pod>]) -> Vec<(&'a Pod, FieldError)> {
        let before = std::mem::take(&mut self.told);
        let mut news = Vec::new();
        for pod in pods {
            let found = self.limits.not_enforced(pod);
            if before.get(&pod.uid) != Some(&found) {
                news.extend(found.iter().cloned().map(|found| (&**pod, found)));
            }
            self.told.insert(pod.uid.clone(), found);
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1;
    use polylet_core::pod::Source;
    use polylet_core::time::Wall;
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, priority: i32, limit: &str) -> Arc<Pod> {
        let limits = |limit: &str| json!({"limits": {"ephemeral-storage": limit}});
        let object = json!({
            "metadata": {"name": "web", "namespace": "default", "uid": uid},
            "spec": {
                "priority": priority,
                "initContainers": [{"name": "first", "image": "i", "resources": limits("2Gi")}],
                "containers": [{"name": "free", "image": "i"}, {"name": "app", "image": "i", "resources": limits(limit)}],
                "volumes": [
                    {"name": "free", "emptyDir": {}},
                    {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
                    {"name": "zero", "emptyDir": {"sizeLimit": "0"}},
                    {"name": "disk", "emptyDir": {"sizeLimit": "1Mi"}},
                ],
            },
        });
        Arc::new(Pod::parse(Arc::new(serde_json::from_value(object).unwrap()), Source::File, Wall(0)).unwrap())
    }

    fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
        let mut settings = Settings::below("/root", "node");
        change(&mut settings);
        settings
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Settings), priority: i32, expected: &[String]) {
        let found = StorageLimits::of(&settings(change)).not_enforced(&pod("uid-1", priority, "1Gi"));
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn limits_without_effect_are_named_with_the_reason() {
        let volume = |why: &str| format!("spec.volumes[3].emptyDir.sizeLimit: \"1Mi\" has no effect: {why}");
        let all = |why: &str| {
            let containers = [("initContainers[0]", "2Gi"), ("containers[1]", "1Gi")];
            let of =
                |(place, limit)| format!("spec.{place}.resources.limits[ephemeral-storage]: \"{limit}\" has no effect: {why}");
            [vec![volume(why)], containers.into_iter().map(of).collect()].concat()
        };
        let as_kubelet = "it is not enforced on static pods, as with the kubelet, unless policies.evictStatic of Polylet's own \
                          configuration is true";
        check(|_| {}, 0, &all(as_kubelet));
        check(|s| s.policy_bounds.evict_static = true, 0, &[]);
        let critical = "it is not enforced on pods of a critical priority";
        check(|s| s.policy_bounds.evict_static = true, 2_000_000_000, &all(critical));
        let off = |s: &mut Settings| {
            s.policy_bounds.evict_static = true;
            s.local_storage_limits = false;
        };
        check(off, 0, &all("localStorageCapacityIsolation is false"));
        let unmeasured = |s: &mut Settings| {
            s.policy_bounds.evict_static = true;
            s.volume_stats = None;
        };
        check(unmeasured, 0, &[volume("volumeStatsAggPeriod is negative, so that volumes are not measured")]);
    }

    #[test]
    fn huge_pages_are_bounded_elsewhere() {
        let mut pod = Pod::clone(&pod("uid-1", 0, "1Gi"));
        let mut object = v1::Pod::clone(&pod.object);
        let pages = json!([{"name": "pages", "emptyDir": {"medium": "HugePages-2Mi", "sizeLimit": "2Mi"}}]);
        object.spec.as_mut().unwrap().volumes = serde_json::from_value(pages).unwrap();
        pod.object = Arc::new(object);
        let limits = StorageLimits::of(&settings(|s| s.policy_bounds.evict_static = true));
        let told: Vec<String> = limits.not_enforced(&pod).iter().map(ToString::to_string).collect();
        let why = "what bounds huge pages are the limits of them in resources";
        assert_eq!(told, [format!("spec.volumes[0].emptyDir.sizeLimit: \"2Mi\" has no effect: {why}")]);
    }

    #[test]
    fn each_is_told_once() {
        let mut notes = Notes::new(StorageLimits::of(&settings(|_| {})));
        let [one, other, changed] = [pod("uid-1", 0, "1Gi"), pod("uid-2", 0, "1Gi"), pod("uid-1", 0, "3Gi")];
        let mut told = |pods: &[&Arc<Pod>]| {
            let pods: Vec<Arc<Pod>> = pods.iter().map(|pod| (*pod).clone()).collect();
            notes.news(&pods).iter().map(|(pod, _)| pod.uid.as_str().to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(told(&[&one]), "uid-1 uid-1 uid-1");
        assert_eq!(told(&[&one, &other]), "uid-2 uid-2 uid-2");
        assert_eq!(told(&[&changed, &other]), "uid-1 uid-1 uid-1");
        assert_eq!(told(&[&other]), "");
        assert_eq!(told(&[&other, &changed]), "uid-1 uid-1 uid-1");
    }
}
