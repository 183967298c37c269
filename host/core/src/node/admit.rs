//! Admission: whether a declared pod may begin here. What runs already comes first, then the pod that was created first.
//!
//! **Invariant:** two pods of one name never run together; the later one waits until the earlier one has let go.
//! **Invariant:** a pod is turned away only for what others hold that are declared and have been looked at: that is for good.

use std::collections::BTreeMap;

use crate::effect::{Effect, StopCause};
use crate::id::PodUid;
use crate::pod::{Claim, HostPort, Pod, allocated};
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

/// What a pod holds of one resource.
type Amount = fn(&Claim) -> u64;

/// What a pod holds that nobody has let in.
static NOTHING: Claim = Claim { cpu: 0, memory: 0, storage: 0, huge_pages: BTreeMap::new(), host_ports: Vec::new() };

impl Node {
    /// Lets queued pods begin, or turns them away, one after the other.
    pub(super) fn admit_queued(&mut self, now: Now, out: &mut Vec<Effect>) {
        self.admission_due = false;
        // What a source declares need not wait for the others: one that is away for long would keep the whole node down.
        if !self.shared.runtime_up || !self.shared.listed {
            return;
        }
        let queued = self.workers.iter().filter(|(_, worker)| worker.life == Life::Queued);
        let mut all: Vec<_> = queued
            .filter_map(|(uid, worker)| Some((worker.summary.containers.is_empty(), self.desired.get(uid)?.created, uid.clone())))
            .collect();
        all.sort();
        for (_, _, uid) in all {
            self.admit(now, &uid, out);
        }
    }

    fn admit(&mut self, now: Now, uid: &PodUid, out: &mut Vec<Effect>) {
        let (Some(worker), Some(pod)) = (self.workers.get(uid), self.desired.get(uid).cloned()) else { return };
        if worker.life != Life::Queued || !worker.is_of(&pod) || self.name_is_taken(uid, &pod) {
            return;
        }
        // What runs already was let in by somebody before.
        let adopted = !worker.summary.containers.is_empty();
        let rejection = if adopted { None } else { self.rejection(uid, &pod) };
        // What nobody declares so far may go as soon as all sources are heard.
        let stays = |other: &Worker| other.seen.is_some() && self.desired.get(&other.uid).is_some();
        if rejection.is_some() && !self.others(uid).all(stays) {
            return;
        }
        self.dirty.insert(uid.clone());
        let Some(worker) = self.workers.get_mut(uid) else { return };
        worker.status_due = true;
        let Some(Rejection { reason, message }) = rejection else {
            (worker.record.claim, worker.record.allocated) = (Some(pod.claim()), Some(allocated::resources(&pod)));
            worker.pod = Some(pod);
            worker.life = Life::Running;
            // Its time begins now, however long it has waited for it.
            if !adopted && worker.summary.sandboxes.is_empty() {
                worker.record.started = now.wall;
            }
            self.count_running();
            return;
        };
        worker.pod = Some(pod);
        let full = format!("Pod was rejected: {message}");
        worker.record.end = Some(End { succeeded: false, reason: Some(reason.into()), message: Some(full) });
        worker.record.stop = Some(Stop { cause: StopCause::Rejected, grace_seconds: 1, since: now.wall });
        worker.life = Life::Stopping;
        if let Some(worker) = self.workers.remove(uid) {
            self.with_cx(now, out, |cx| worker.say(cx, None, true, reason, message));
            self.workers.insert(uid.clone(), worker);
        }
    }

    fn name_is_taken(&self, uid: &PodUid, pod: &Pod) -> bool {
        let same = |w: &Worker| w.record.name == pod.name && w.record.namespace == pod.namespace;
        // What nobody declares and runs all the same is of a source that has not been heard, or is about to be ended.
        let may_be_declared = |other: &PodUid, w: &Worker| {
            let may_run = !let_go(w) && w.last_seen().is_none_or(|have| !have.is_empty());
            may_run && same(w) && self.desired.get(other).is_none()
        };
        let holds = |w: &Worker| same(w) && w.life != Life::Queued && !let_go(w);
        self.workers.iter().any(|(other, w)| other != uid && (holds(w) || may_be_declared(other, w)))
    }

    /// Those that hold a share of the node beside this one. Once all sources are heard, one that nobody declares gives its share up at
    /// once, as upstream: what takes its place need not wait for its end.
    fn others(&self, uid: &PodUid) -> impl Iterator<Item = &Worker> {
        let declared = |other: &PodUid| !self.shared.heard || self.desired.get(other).is_some();
        let holds = |w: &Worker| matches!(w.life, Life::Running | Life::Stopping) && !w.record.over && !w.record.was_refused();
        self.workers.iter().filter(move |(other, w)| *other != uid && holds(w) && declared(other)).map(|(_, w)| w)
    }

    /// The first reason not to let it in: what it is not for, what the node has too little of, ports that are taken, a profile that cannot
    /// be enforced.
    fn rejection(&self, uid: &PodUid, pod: &Pod) -> Option<Rejection> {
        let config = &self.shared.config;
        if pod.labels.get("kubernetes.io/os").is_some_and(|os| os != "linux") {
            let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label".to_owned();
            return Some(Rejection { reason: "PodOSSelectorNodeLabelDoesNotMatch", message });
        }
        if !config.supplemental_groups_policy && pod.wants_strict_groups() {
            let message = "SupplementalGroupsPolicy=Strict is not supported in this node".to_owned();
            return Some(Rejection { reason: "SupplementalGroupsPolicyNotSupported", message });
        }
        let own = pod.claim();
        // Let in by an earlier life of the agent, if by none of this one: what it holds is remembered.
        let others: Vec<&Claim> = self.others(uid).map(|w| w.record.claim.as_ref().unwrap_or(&NOTHING)).collect();
        let max = u64::from(config.max_pods);
        let count = others.len() as u64;
        if count + 1 > max {
            return Some(short("pods", "OutOfpods", 1, count, max));
        }
        let (cpu, memory, storage): (Amount, Amount, Amount) = (|c| c.cpu, |c| c.memory, |c| c.storage);
        for (resource, reason, of, capacity) in [
            ("cpu", "OutOfcpu", cpu, config.cpu_allocatable),
            ("memory", "OutOfmemory", memory, config.memory_allocatable),
            ("ephemeral-storage", "OutOfephemeral-storage", storage, config.storage_allocatable),
        ] {
            let (wanted, used) = (of(&own), sum(others.iter().map(|claim| of(claim))));
            if wanted > 0 && used.saturating_add(wanted) > capacity {
                return Some(short(resource, reason, wanted, used, capacity));
            }
        }
        for (size, wanted) in &own.huge_pages {
            let used = sum(others.iter().filter_map(|claim| claim.huge_pages.get(size).copied()));
            let capacity = config.huge_pages.get(size).copied().unwrap_or(0);
            if *wanted > 0 && used.saturating_add(*wanted) > capacity {
                let (resource, reason) = huge_pages(*size);
                return Some(short(resource, reason, *wanted, used, capacity));
            }
        }
        let taken = |port: &HostPort| others.iter().flat_map(|claim| &claim.host_ports).any(|other| port.meets(other));
        if own.host_ports.iter().any(taken) {
            let message = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports".to_owned();
            return Some(Rejection { reason: "NodePorts", message });
        }
        if !config.apparmor && pod.wants_apparmor() {
            let message = "Cannot enforce AppArmor: AppArmor is not enabled on the host".to_owned();
            return Some(Rejection { reason: "AppArmor", message });
        }
        None
    }
}

/// Amounts are anybody's: their sum may be too large.
fn sum(amounts: impl Iterator<Item = u64>) -> u64 {
    amounts.fold(0, u64::saturating_add)
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
