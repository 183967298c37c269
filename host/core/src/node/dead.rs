//! Dead containers beyond what the operator keeps of all pods together, once a minute: the limits that the kubelet has as flags. What has
//! been superseded in one pod goes at once: see `sweep`.
//!
//! **Invariant:** the newest attempt of a container of a running pod stays: it tells whether the container is to run again.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::DeadLimits;
use crate::id::{ContainerId, ContainerName, PodUid};
use crate::observed::{Container, ContainerState};
use crate::time::{Mono, Now, Wall};

use super::Node;
use super::worker::{Life, Worker};
use crate::effect::Effect;

/// Between two counts.
const EVERY: Duration = Duration::from_secs(60);

/// When to count again.
#[derive(Debug, Default)]
pub(super) struct Dead {
    next: Mono,
}

/// A container that may be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    pod: PodUid,
    name: ContainerName,
    id: ContainerId,
    created: Wall,
    /// The newest of a running pod's container.
    needed: bool,
}

impl Node {
    /// When dead containers are counted next, where anything asks for it.
    pub(super) fn next_count_of_dead(&self) -> Option<Mono> {
        let limits = self.shared.config.dead;
        (limits.total.is_some() || limits.per_container == 0).then_some(self.dead.next)
    }

    pub(super) fn collect_dead_if_due(&mut self, now: Now, out: &mut Vec<Effect>) {
        let due = self.next_count_of_dead().is_some_and(|next| next <= now.mono);
        if !due || !self.knows_all() {
            return;
        }
        self.dead.next = now.mono + EVERY;
        let limits = self.shared.config.dead;
        // Where any age will do, the clock, which may have been set back, is not asked.
        let old = |c: &Container| limits.least_age.is_zero() || c.created + limits.least_age <= now.wall;
        let all: Vec<Candidate> = self
            .workers
            .values()
            .flat_map(|w| dead_of(w).filter(|(c, _)| old(c)).map(|(c, needed)| candidate(w, c, needed)))
            .collect();
        for (pod, ids) in surplus(&limits, all) {
            let Some(mut worker) = self.workers.remove(&pod) else { continue };
            self.with_cx(now, out, |cx| worker.remove(cx, &ids, false));
            self.workers.insert(pod, worker);
        }
    }
}

/// Dead containers of a pod that runs or is over, of one name the newest first; and whether each is needed. One that is being stopped or
/// removed sees to its own.
fn dead_of(worker: &Worker) -> impl Iterator<Item = (&Container, bool)> {
    let have = worker.fresh().filter(|_| matches!(worker.life, Life::Running | Life::Finished));
    have.into_iter().flat_map(move |have| {
        let dead = have.containers.iter().filter(|c| c.state == ContainerState::Exited);
        dead.map(move |c| {
            (c, worker.life == Life::Running && have.newest(c.name.as_str()).is_some_and(|newest| newest.id == c.id))
        })
    })
}

fn candidate(worker: &Worker, container: &Container, needed: bool) -> Candidate {
    let (pod, name, id) = (worker.uid.clone(), container.name.clone(), container.id.clone());
    Candidate { pod, name, id, created: container.created, needed }
}

/// What is to go, by pod. Each container keeps as many as it may, the newest; of all together an even share is kept, then the newest.
fn surplus(limits: &DeadLimits, all: Vec<Candidate>) -> BTreeMap<PodUid, Vec<ContainerId>> {
    let mut units: BTreeMap<(PodUid, ContainerName), Vec<Candidate>> = BTreeMap::new();
    for one in all {
        units.entry((one.pod.clone(), one.name.clone())).or_default().push(one);
    }
    let mut gone: Vec<Candidate> = Vec::new();
    let mut cut = |units: &mut BTreeMap<_, Vec<Candidate>>, keep: usize| {
        for unit in units.values_mut() {
            let (stay, go) = unit.drain(..).enumerate().partition::<Vec<_>, _>(|(place, one)| *place < keep || one.needed);
            *unit = stay.into_iter().map(|(_, one)| one).collect();
            gone.extend(go.into_iter().map(|(_, one)| one));
        }
    };
    cut(&mut units, limits.per_container);
    if let Some(total) = limits.total {
        let count = |units: &BTreeMap<_, Vec<Candidate>>| units.values().map(Vec::len).sum::<usize>();
        if count(&units) > total {
            let share = total / units.len().max(1);
            cut(&mut units, share.max(1));
        }
        let over = count(&units).saturating_sub(total);
        let mut left: Vec<Candidate> = units.into_values().flatten().filter(|one| !one.needed).collect();
        left.sort_by_key(|one| one.created);
        gone.extend(left.into_iter().take(over));
    }
    let mut by_pod: BTreeMap<PodUid, Vec<ContainerId>> = BTreeMap::new();
    for one in gone {
        by_pod.entry(one.pod).or_default().push(one.id);
    }
    by_pod
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pod/container age`, the newest of each container first; with `!` where it is needed.
    fn dead(all: &[&str]) -> Vec<Candidate> {
        let parse = |text: &&str| {
            let (needed, text) = text.strip_prefix('!').map_or((false, *text), |rest| (true, rest));
            let (place, age) = text.split_once(' ').unwrap();
            let (pod, name) = place.split_once('/').unwrap();
            let created = Wall(1000 - age.parse::<u64>().unwrap());
            Candidate { pod: pod.into(), name: name.into(), id: text.into(), created, needed }
        };
        all.iter().map(parse).collect()
    }

    #[track_caller]
    fn goes(per_container: usize, total: Option<usize>, all: &[&str], expected: &[&str]) {
        let limits = DeadLimits { per_container, total, least_age: Duration::ZERO };
        let mut gone: Vec<ContainerId> = surplus(&limits, dead(all)).into_values().flatten().collect();
        gone.sort();
        let mut expected: Vec<ContainerId> = expected.iter().map(|id| (*id).into()).collect();
        expected.sort();
        assert_eq!(gone, expected);
    }

    #[test]
    fn of_a_running_pod_the_newest_stays() {
        goes(0, None, &["!a/x 1", "a/x 2", "b/x 1", "b/y 5"], &["a/x 2", "b/x 1", "b/y 5"]);
        goes(0, Some(0), &["!a/x 1"], &[]);
    }

    #[test]
    fn of_one_container_the_newest_stay() {
        goes(2, None, &["a/x 1", "a/x 2", "a/x 3", "b/x 9"], &["a/x 3"]);
    }

    #[test]
    fn of_all_each_keeps_its_share_then_the_oldest_go() {
        goes(9, Some(4), &["a/x 1", "a/x 2", "a/x 3", "b/x 9", "b/x 10", "b/x 11"], &["a/x 3", "b/x 11"]);
        // One each, and still one too many.
        goes(9, Some(2), &["a/x 1", "a/x 2", "b/x 9", "c/x 4"], &["a/x 2", "b/x 9"]);
        goes(9, Some(6), &["a/x 1", "a/x 2", "a/x 3", "b/x 9", "b/x 10", "b/x 11"], &[]);
        goes(9, Some(0), &["!a/x 1", "a/x 2", "b/x 9"], &["a/x 2", "b/x 9"]);
    }
}
