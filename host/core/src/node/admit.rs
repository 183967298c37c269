//! Admission: whether a declared pod may begin here.
//!
//! **Invariant:** two pods of one name never run together; the later one waits until the earlier one has let go.

use crate::effect::{Effect, StopCause};
use crate::id::PodUid;
use crate::pod::Pod;
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

impl Node {
    /// Lets a queued pod begin, or turns it away.
    pub(super) fn admit(&mut self, now: Now, uid: &PodUid, out: &mut Vec<Effect>) {
        if !self.knows_all() {
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
        let holds = |w: &Worker| !matches!(w.life, Life::Queued | Life::Finished);
        self.workers
            .iter()
            .any(|(other, w)| other != uid && w.record.name == pod.name && w.record.namespace == pod.namespace && holds(w))
    }

    /// The first thing that the node has too little of.
    fn rejection(&self, uid: &PodUid, pod: &Pod) -> Option<Rejection> {
        let config = &self.shared.config;
        let others: Vec<&Pod> = self
            .workers
            .iter()
            .filter(|(other, w)| *other != uid && !matches!(w.life, Life::Queued | Life::Finished | Life::Removing))
            .filter_map(|(_, w)| w.pod.as_deref())
            .collect();
        let max = u64::from(config.max_pods);
        let count = others.len() as u64;
        if count + 1 > max {
            return Some(short("pods", "OutOfpods", 1, count, max));
        }
        let sum = |f: fn(&Pod) -> u64| others.iter().map(|p| f(p)).sum::<u64>();
        let memory_request = |p: &Pod| p.total().memory_request.unwrap_or(0);
        let (cpu, memory) = (pod.cpu_request(), memory_request(pod));
        let used = sum(Pod::cpu_request);
        if cpu > 0 && used + cpu > config.cpu_allocatable {
            return Some(short("cpu", "OutOfcpu", cpu, used, config.cpu_allocatable));
        }
        let used = sum(memory_request);
        if memory > 0 && used + memory > config.memory_allocatable {
            return Some(short("memory", "OutOfmemory", memory, used, config.memory_allocatable));
        }
        None
    }
}

fn short(resource: &str, reason: &'static str, requested: u64, used: u64, capacity: u64) -> Rejection {
    let message =
        format!("Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}");
    Rejection { reason, message }
}
