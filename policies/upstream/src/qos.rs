//! The class of a pod and what the kernel is told of it.

/// The API's quality-of-service classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QosClass {
    /// Nothing is requested.
    BestEffort,
    /// Something is requested, but not everything limited to it.
    Burstable,
    /// Every container has limits equal to its requests, for CPU and memory.
    Guaranteed,
}

/// What a container is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular container.
    App,
    /// An init container that ends.
    Init,
    /// An init container that stays.
    Sidecar,
    /// A container attached for debugging; it counts nowhere.
    Ephemeral,
}

/// Requests and limits of a container or a pod. Zero and absent are the same everywhere but in upstream's defaulting, which has
/// happened before. Storage, hugepages, devices and overhead never count for the class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Millicores.
    pub cpu_request: Option<u64>,
    /// Millicores.
    pub cpu_limit: Option<u64>,
    /// Bytes.
    pub memory_request: Option<u64>,
    /// Bytes.
    pub memory_limit: Option<u64>,
}

/// A container of the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Container {
    /// What it is for.
    pub kind: Kind,
    /// What it asks for.
    pub resources: Resources,
}

/// All that placing a pod takes.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a> {
    /// The class that the API reports; it is trusted over the spec.
    pub reported: Option<QosClass>,
    /// Critical, and of the priority class `system-node-critical`.
    pub node_critical: bool,
    /// Init containers in the spec's order, then the others.
    pub containers: &'a [Container],
    /// `spec.resources`: present even where it is empty or names neither CPU nor memory.
    pub pod_level: Option<Resources>,
}

/// Where a pod stands. Weights and memory protection are left to the node, which writes them by the formulas of [`crate::cpu`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The tier of the pod's cgroup.
    pub tier: QosClass,
    /// `oom_score_adj` of each container, in the pod's order.
    pub oom_scores: Vec<i32>,
}

/// The default placement: the tier is the class. `memory_capacity` is all memory of the machine, in bytes.
#[must_use]
pub fn place(pod: &Pod, memory_capacity: u64) -> Placement {
    let tier = class(pod);
    let share = pod_level_share(pod);
    let floor = smallest_app_request(pod);
    let score = |container| oom_score_adj(pod, tier, container, share, floor, memory_capacity);
    Placement { tier, oom_scores: pod.containers.iter().map(score).collect() }
}

/// The class of a pod: as reported, else from `spec.resources` alone if that is there, else from the sums over its containers.
///
/// Sums are compared, not containers, so that two containers with unequal requests and limits may add up to Guaranteed.
#[must_use]
pub fn class(pod: &Pod) -> QosClass {
    if let Some(reported) = pod.reported {
        return reported;
    }
    let sums = match pod.pod_level {
        Some(resources) => Sums::of([resources].into_iter()),
        None => Sums::of(counted(pod).map(|container| container.resources)),
    };
    sums.class()
}

/// The sum over the pod's containers as upstream adds up a pod: apps and sidecars run together, but an init container only with
/// the sidecars before it; the larger counts. `amount` takes the resource of interest, zero if it is absent.
#[must_use]
pub fn total(containers: &[Container], amount: impl Fn(&Resources) -> u64) -> u64 {
    let (mut running, mut sidecars, mut starting) = (0u64, 0u64, 0u64);
    for container in containers {
        let amount = amount(&container.resources);
        match container.kind {
            Kind::App => running = running.saturating_add(amount),
            Kind::Sidecar => {
                running = running.saturating_add(amount);
                sidecars = sidecars.saturating_add(amount);
                starting = starting.max(sidecars);
            }
            Kind::Init => starting = starting.max(sidecars.saturating_add(amount)),
            Kind::Ephemeral => {}
        }
    }
    running.max(starting)
}

/// `oom_score_adj` of what may not be killed before all else is.
const GUARANTEED_SCORE: i64 = -997;
const BEST_EFFORT_SCORE: i64 = 1000;
/// A Burstable container never comes down to what a Guaranteed pod that uses all memory would have.
const BURSTABLE_FLOOR: i64 = 1000 + GUARANTEED_SCORE;

fn oom_score_adj(pod: &Pod, tier: QosClass, container: &Container, share: i64, floor: i64, capacity: u64) -> i32 {
    let score = match tier {
        _ if pod.node_critical => GUARANTEED_SCORE,
        QosClass::Guaranteed => GUARANTEED_SCORE,
        QosClass::BestEffort => BEST_EFFORT_SCORE,
        QosClass::Burstable => {
            let by_request = |request: i64| 1000 - request.saturating_add(share).saturating_mul(1000) / signed(capacity).max(1);
            let own = by_request(signed(container.resources.memory_request.unwrap_or(0)));
            // A sidecar must not die before the containers that it serves.
            let score = if container.kind == Kind::Sidecar { own.min(by_request(floor)) } else { own };
            score.clamp(BURSTABLE_FLOOR, BEST_EFFORT_SCORE - 1)
        }
    };
    score as i32
}

/// What each container gets of the pod's own memory request beyond its containers' requests, in bytes.
fn pod_level_share(pod: &Pod) -> i64 {
    let Some(request) = pod.pod_level.and_then(|resources| resources.memory_request).filter(|request| *request > 0) else {
        return 0;
    };
    let assigned = total(pod.containers, |resources| resources.memory_request.unwrap_or(0));
    let containers = counted(pod).count() as i64;
    (signed(request) - signed(assigned)) / containers.max(1)
}

fn smallest_app_request(pod: &Pod) -> i64 {
    let apps = pod.containers.iter().filter(|container| container.kind == Kind::App);
    apps.map(|container| signed(container.resources.memory_request.unwrap_or(0))).min().unwrap_or(0)
}

fn counted<'a>(pod: &Pod<'a>) -> impl Iterator<Item = &'a Container> {
    pod.containers.iter().filter(|container| container.kind != Kind::Ephemeral)
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// Requests and limits of CPU and memory, added up; zero is "none given".
struct Sums {
    requests: [u64; 2],
    limits: [u64; 2],
    all_limited: bool,
}

impl Sums {
    fn of(parts: impl Iterator<Item = Resources>) -> Self {
        let mut sums = Self { requests: [0; 2], limits: [0; 2], all_limited: true };
        for part in parts {
            let requests = [part.cpu_request, part.memory_request].map(|amount| amount.unwrap_or(0));
            let limits = [part.cpu_limit, part.memory_limit].map(|amount| amount.unwrap_or(0));
            for resource in 0..2 {
                sums.requests[resource] = sums.requests[resource].saturating_add(requests[resource]);
                sums.limits[resource] = sums.limits[resource].saturating_add(limits[resource]);
            }
            sums.all_limited &= !limits.contains(&0);
        }
        sums
    }

    fn class(&self) -> QosClass {
        if self.requests == [0; 2] && self.limits == [0; 2] {
            QosClass::BestEffort
        } else if self.all_limited && self.requests == self.limits {
            QosClass::Guaranteed
        } else {
            QosClass::Burstable
        }
    }
}
