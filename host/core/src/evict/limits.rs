//! Limits of local storage that pods declare for themselves: who exceeds one, and what is said of it, in upstream's words.

use k8s_openapi::api::core::v1;

use crate::observed::Observed;
use crate::pod::{Container, ContainerKind, Pod};
use crate::quantity::{self, Style};
use crate::sample::PodUsage;

/// What a pod exceeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverLimit {
    /// Upstream's signal name, for metrics.
    pub signal: &'static str,
    /// For the event and the pod's status.
    pub message: String,
}

/// The first limit that a pod exceeds, as far as its use was measured: the size of a volume, what its containers together may have,
/// then what one of them may. `layout` is the fact `node.disk.layout`: writable layers count for one container only where images do not
/// lie on a file system of their own.
pub fn over_limit(pod: &Pod, usage: &PodUsage, seen: Option<&Observed>, layout: Option<i64>) -> Option<OverLimit> {
    volume(pod, usage).or_else(|| whole_pod(pod, usage)).or_else(|| one_container(pod, usage, seen?, layout == Some(0)))
}

fn volume(pod: &Pod, usage: &PodUsage) -> Option<OverLimit> {
    let volumes = pod.object.spec.as_ref()?.volumes.iter().flatten();
    volumes.into_iter().find_map(|volume| {
        // Of whatever medium, as upstream.
        let limit = Amount::read(&volume.empty_dir.as_ref()?.size_limit.as_ref()?.0)?;
        let used = *usage.empty_dirs.get(&volume.name)?;
        let message = || format!("Usage of EmptyDir volume \"{}\" exceeds the limit \"{}\". ", volume.name, limit.text());
        (limit.bytes > 0 && used > limit.bytes).then(|| OverLimit { signal: "emptydirfs.limit", message: message() })
    })
}

fn whole_pod(pod: &Pod, usage: &PodUsage) -> Option<OverLimit> {
    let limit = pod_limit(pod)?;
    let used = usage.disk()?.saturating_add(usage.disk_hosts.unwrap_or(0));
    let message = || format!("Pod ephemeral local storage usage exceeds the total limit of containers {}. ", limit.text());
    (used > limit.bytes).then(|| OverLimit { signal: "ephemeralpodfs.limit", message: message() })
}

fn one_container(pod: &Pod, usage: &PodUsage, seen: &Observed, with_layer: bool) -> Option<OverLimit> {
    pod.app_containers().find_map(|container| {
        let limit = container_limit(pod, container)?;
        let newest = seen.newest(container.name.as_str())?;
        let layer = usage.containers.get(&newest.id).and_then(|own| own.disk_rootfs).filter(|_| with_layer);
        let logs = usage.logs.get(&container.name).copied();
        let used = logs.unwrap_or(0).saturating_add(layer.unwrap_or(0));
        let message =
            || format!("Container {} exceeded its local ephemeral storage limit \"{}\". ", container.name, limit.text());
        (limit.bytes > 0 && used > limit.bytes).then(|| OverLimit { signal: "ephemeralcontainerfs.limit", message: message() })
    })
}

/// Of all containers together, where any declares one; a declared zero is one.
fn pod_limit(pod: &Pod) -> Option<Amount> {
    // The sum is written in the style of what was added first.
    let order = [ContainerKind::App, ContainerKind::Sidecar, ContainerKind::Init];
    let declared = order.into_iter().flat_map(|kind| pod.of_kind(kind)).filter_map(|container| container_limit(pod, container));
    let style = declared.reduce(|first, next| if first.bytes > 0 { first } else { next })?.style;
    Some(Amount { bytes: pod.total().storage_limit.unwrap_or(0), style })
}

fn container_limit(pod: &Pod, container: &Container) -> Option<Amount> {
    let spec = pod.object.spec.as_ref()?;
    let list: &[v1::Container] = match container.kind {
        ContainerKind::App => &spec.containers,
        ContainerKind::Init | ContainerKind::Sidecar => spec.init_containers.as_deref()?,
        // The API allows it no resources.
        ContainerKind::Ephemeral => return None,
    };
    let limits = list.get(container.index)?.resources.as_ref()?.limits.as_ref()?;
    Amount::read(&limits.get("ephemeral-storage")?.0)
}

/// Bytes, and how they were written.
#[derive(Clone, Copy)]
struct Amount {
    bytes: u64,
    style: Style,
}

impl Amount {
    /// None for what is no amount: parsing a pod refuses it.
    fn read(text: &str) -> Option<Self> {
        Some(Self { bytes: quantity::whole(text).ok()?, style: Style::of(text) })
    }

    fn text(self) -> String {
        self.style.write(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::sample::ContainerUsage;
    use crate::testing::{self, attempt};

    const MIB: u64 = 1 << 20;

    fn limited(name: &str, limit: &str) -> Value {
        json!({"name": name, "image": "i", "resources": {"limits": {"ephemeral-storage": limit}}})
    }

    /// What is said of a pod with this spec and use: its signal, and its message.
    #[track_caller]
    fn check(spec: Value, usage: &PodUsage, layout: i64, expected: Option<(&str, &str)>) {
        let seen = Observed { containers: vec![attempt("a#1=run"), attempt("a=run"), attempt("b=run")], ..Observed::default() };
        let pod = testing::pod(spec.clone());
        let found = over_limit(&pod, usage, Some(&seen), Some(layout));
        assert_eq!(found.as_ref().map(|over| (over.signal, over.message.as_str())), expected, "{spec} {usage:?}");
    }

    fn empty_dirs(used: &[(&str, u64)]) -> PodUsage {
        PodUsage { empty_dirs: used.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect(), ..PodUsage::default() }
    }

    #[test]
    fn volumes_have_sizes_whatever_their_medium() {
        let spec = json!({"containers": [], "volumes": [
            {"name": "free", "emptyDir": {}},
            {"name": "zero", "emptyDir": {"sizeLimit": "0"}},
            {"name": "disk", "emptyDir": {"sizeLimit": "1024Ki"}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1e3"}},
        ]});
        let over = |name: &str, limit: &str| format!("Usage of EmptyDir volume \"{name}\" exceeds the limit \"{limit}\". ");
        let most = [("free", MIB * 9), ("zero", MIB), ("disk", MIB), ("memory", 1000)];
        check(spec.clone(), &empty_dirs(&most), 0, None);
        let signal = "emptydirfs.limit";
        check(spec.clone(), &empty_dirs(&[("disk", MIB + 1), ("memory", 9999)]), 0, Some((signal, &over("disk", "1Mi"))));
        check(spec.clone(), &empty_dirs(&[("memory", 1001)]), 0, Some((signal, &over("memory", "1e3"))));
        check(spec, &PodUsage::default(), 0, None);
    }

    #[test]
    fn a_pod_may_have_what_its_containers_may_together() {
        let used = |rootfs, logs, volumes, hosts| PodUsage {
            disk_rootfs: Some(rootfs),
            disk_logs: Some(logs),
            disk_volumes: Some(volumes),
            disk_hosts: hosts,
            ..PodUsage::default()
        };
        let over = |limit: &str| format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}. ");
        let signal = "ephemeralpodfs.limit";
        // Whoever declares none adds nothing to it.
        let spec = json!({"containers": [limited("a", "2Mi"), limited("b", "1024Ki"), {"name": "c", "image": "i"}]});
        check(spec.clone(), &used(MIB, MIB, MIB, None), 0, None);
        check(spec.clone(), &used(MIB, MIB, MIB, Some(1)), 0, Some((signal, &over("3Mi"))));
        check(spec.clone(), &used(MIB, MIB, MIB + 1, None), 2, Some((signal, &over("3Mi"))));
        check(spec, &PodUsage::default(), 0, None);
        check(json!({"containers": [{"name": "c", "image": "i"}]}), &used(MIB, MIB, MIB, None), 0, None);
        let init = json!({"initContainers": [limited("first", "5M")], "containers": [limited("a", "0")]});
        check(init, &used(5_000_001, 0, 0, None), 0, Some((signal, &over("5M"))));
        check(json!({"containers": [limited("a", "0")]}), &used(0, 1, 0, None), 0, Some((signal, &over("0"))));
    }

    #[test]
    fn a_container_may_have_so_much_in_logs_and_layer() {
        let used = |layer: u64, logs: u64| {
            let own = |bytes| ContainerUsage { disk_rootfs: Some(bytes), ..ContainerUsage::default() };
            PodUsage {
                // Of the older attempt nothing counts.
                containers: [("a-0".into(), own(MIB * 99)), ("a-1".into(), own(layer))].into(),
                logs: [("a".into(), logs), ("first".into(), MIB * 99)].into(),
                ..PodUsage::default()
            }
        };
        let spec = json!({"initContainers": [limited("first", "1Mi")], "containers": [limited("b", "9Mi"), limited("a", "2Mi")]});
        let over = Some(("ephemeralcontainerfs.limit", "Container a exceeded its local ephemeral storage limit \"2Mi\". "));
        check(spec.clone(), &used(MIB, MIB), 0, None);
        check(spec.clone(), &used(MIB, MIB + 1), 0, over);
        // Images lie elsewhere, and writable layers with them or not.
        check(spec.clone(), &used(MIB, MIB + 1), 1, None);
        check(spec.clone(), &used(MIB, MIB + 1), 2, None);
        check(spec, &used(0, MIB * 2 + 1), 1, over);
    }

    #[test]
    fn the_first_that_is_exceeded_is_told() {
        let volumes = json!([{"name": "v", "emptyDir": {"sizeLimit": "1"}}]);
        let spec = |volumes: &Value| json!({"containers": [limited("a", "1")], "volumes": volumes});
        let mut usage = empty_dirs(&[("v", 2)]);
        usage.disk_logs = Some(2);
        usage.logs = [("a".into(), 2)].into();
        let signal = |spec: Value, usage: &PodUsage| {
            let seen = Observed { containers: vec![attempt("a=run")], ..Observed::default() };
            over_limit(&testing::pod(spec), usage, Some(&seen), Some(0)).map(|over| over.signal)
        };
        assert_eq!(signal(spec(&volumes), &usage), Some("emptydirfs.limit"));
        assert_eq!(signal(spec(&json!([])), &usage), Some("ephemeralpodfs.limit"));
        usage.disk_logs = None;
        assert_eq!(signal(spec(&json!([])), &usage), Some("ephemeralcontainerfs.limit"));
    }
}
