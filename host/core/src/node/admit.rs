//! Admission: whether a declared pod may begin here.
//!
//! **Invariant:** two pods of one name never run together; the later one waits until the earlier one has let go.

use crate::effect::{Effect, StopCause};
use crate::id::PodUid;
use crate::pod::{HostPort, Pod};
use crate::record::{End, Stop};
use crate::time::Now;

use super::Node;
use super::worker::{Life, Worker};

/// Why a pod is turned away: upstream's reason and message.
#[derive(Debug, PartialEq, Eq)]
struct Rejection {
    reason: &'static str,
    message: String,
}

/// What a pod asks for of one resource.
type Amount = fn(&Pod) -> u64;

impl Node {
    /// Lets a queued pod begin, or turns it away.
    pub(super) fn admit(&mut self, now: Now, uid: &PodUid, out: &mut Vec<Effect>) {
        // What a source declares need not wait for the others: one that is away for long would keep the whole node down.
        if !self.shared.runtime_up || !self.relist.heard {
            return;
        }
        let (Some(worker), Some(pod)) = (self.workers.get(uid), self.desired.get(uid).cloned()) else { return };
        if worker.life != Life::Queued || self.name_is_taken(uid, &pod) {
            return;
        }
        // What runs already was let in by somebody before.
        let adopted = !worker.summary.containers.is_empty();
        let rejection = if adopted { None } else { self.rejection(uid, &pod) };
        let Some(worker) = self.workers.get_mut(uid) else { return };
        worker.pod = Some(pod);
        worker.status_due = true;
        let Some(Rejection { reason, message }) = rejection else {
            worker.life = Life::Running;
            self.count_running();
            return;
        };
        let full = format!("Pod was rejected: {message}");
        worker.record.end = Some(End { succeeded: false, reason: Some(reason.into()), message: Some(full) });
        worker.record.stop = Some(Stop { cause: StopCause::Rejected, grace_seconds: 1, since: now.wall });
        worker.life = Life::Stopping;
        let mut worker = self.workers.remove(uid);
        if let Some(worker) = &worker {
            self.with_cx(now, out, |cx| worker.say(cx, None, true, reason, message));
        }
        if let Some(worker) = worker.take() {
            self.workers.insert(uid.clone(), worker);
        }
    }

    fn name_is_taken(&self, uid: &PodUid, pod: &Pod) -> bool {
        let same = |w: &Worker| w.record.name == pod.name && w.record.namespace == pod.namespace;
        // What nobody declares and runs all the same is of a source that has not been heard, or is about to be ended; whose it is, shows
        // only a look at it.
        let may_be_declared = |other: &PodUid, w: &Worker| {
            let may_run = !let_go(w) && w.last_seen().is_none_or(|have| !have.is_empty());
            let is_it = same(w) || !self.shared.heard && w.record.name.is_empty();
            may_run && is_it && self.desired.get(other).is_none()
        };
        let holds = |w: &Worker| same(w) && w.life != Life::Queued && !let_go(w);
        self.workers.iter().any(|(other, w)| other != uid && (holds(w) || may_be_declared(other, w)))
    }

    /// The first reason not to let it in: what the node has too little of, ports that are taken, a profile that cannot be enforced.
    fn rejection(&self, uid: &PodUid, pod: &Pod) -> Option<Rejection> {
        let config = &self.shared.config;
        let others: Vec<&Pod> = self
            .workers
            .iter()
            .filter(|(other, w)| *other != uid && w.life != Life::Queued && !let_go(w))
            .filter_map(|(_, w)| w.pod.as_deref())
            .collect();
        let max = u64::from(config.max_pods);
        let count = others.len() as u64;
        if count + 1 > max {
            return Some(short("pods", "OutOfpods", 1, count, max));
        }
        let cpu: Amount = |p| p.cpu_request();
        let memory: Amount = |p| p.total().memory_request.unwrap_or(0);
        let storage: Amount = |p| p.total().storage_request.unwrap_or(0);
        for (resource, reason, of, capacity) in [
            ("cpu", "OutOfcpu", cpu, config.cpu_allocatable),
            ("memory", "OutOfmemory", memory, config.memory_allocatable),
            ("ephemeral-storage", "OutOfephemeral-storage", storage, config.storage_allocatable),
        ] {
            let (wanted, used) = (of(pod), others.iter().map(|p| of(p)).sum::<u64>());
            if wanted > 0 && used.saturating_add(wanted) > capacity {
                return Some(short(resource, reason, wanted, used, capacity));
            }
        }
        for (size, wanted) in pod.huge_pages() {
            let used = others.iter().filter_map(|p| p.huge_pages().get(&size).copied()).sum::<u64>();
            let capacity = config.huge_pages.get(&size).copied().unwrap_or(0);
            if wanted > 0 && used.saturating_add(wanted) > capacity {
                let (resource, reason) = huge_pages(size);
                return Some(short(resource, reason, wanted, used, capacity));
            }
        }
        let taken: Vec<HostPort<'_>> = others.iter().flat_map(|p| p.host_ports()).collect();
        if pod.host_ports().any(|port| taken.iter().any(|other| port.meets(other))) {
            let message = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports".to_owned();
            return Some(Rejection { reason: "NodePorts", message });
        }
        if !config.apparmor && pod.wants_apparmor() {
            let message = "Cannot enforce AppArmor: AppArmor is not enabled on the host".to_owned();
            return Some(Rejection { reason: "AppArmor", message });
        }
        if !config.supplemental_groups_policy && pod.wants_strict_groups() {
            let message = "supplementalGroupsPolicy is Strict, and the runtime does not support it".to_owned();
            return Some(Rejection { reason: "SupplementalGroupsPolicyNotSupported", message });
        }
        None
    }
}

/// Nothing of it runs, and its address is given back: what is left to be removed is in nobody's way.
fn let_go(worker: &Worker) -> bool {
    matches!(worker.life, Life::Finished | Life::Removing)
}

/// Upstream's names of a size of huge pages: the resource, and the reason when it is short. Linux has no other sizes on the
/// processors that containers run on.
fn huge_pages(size: u64) -> (&'static str, &'static str) {
    match size >> 10 {
        64 => ("hugepages-64Ki", "OutOfhugepages-64Ki"),
        2_048 => ("hugepages-2Mi", "OutOfhugepages-2Mi"),
        32_768 => ("hugepages-32Mi", "OutOfhugepages-32Mi"),
        524_288 => ("hugepages-512Mi", "OutOfhugepages-512Mi"),
        1_048_576 => ("hugepages-1Gi", "OutOfhugepages-1Gi"),
        16_777_216 => ("hugepages-16Gi", "OutOfhugepages-16Gi"),
        _ => ("hugepages", "OutOfhugepages"),
    }
}

fn short(resource: &str, reason: &'static str, requested: u64, used: u64, capacity: u64) -> Rejection {
    let message =
        format!("Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}");
    Rejection { reason, message }
}
