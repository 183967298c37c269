//! An example of a policy for `eviction`: by usage over request, weighted by tenant.
//!
//! The kubelet looks at a pod's priority before it looks at how far the pod exceeds its request, and at absolute bytes. This
//! policy ranks by what a pod uses in proportion to what it asked for, divided by the weight of its tenant: a tenant of weight 2
//! may exceed its requests twice as far before its pods are chosen. Priorities decide among equals only, but critical pods stay
//! where the default puts them: last.

mod config;
#[cfg(test)]
mod tests;

use polylet_sdk::Ask;
use polylet_sdk::eviction::{Candidate, Eviction, Shortage, StarvedResource, Victim};
use polylet_sdk::types::{NodeFacts, PodTraits};

pub use config::TenantEviction;

impl Eviction for TenantEviction {
    fn rank(&self, ask: &Ask, _: &NodeFacts, shortage: &Shortage, candidates: &[Candidate]) -> Option<Vec<Victim>> {
        let amounts = Amounts::of(shortage.starved)?;
        let mut weights = Weights { policy: self, ask, by_namespace: Vec::new() };
        let mut ranked: Vec<Ranked> = Vec::with_capacity(candidates.len());
        for pod in candidates {
            let weight = weights.of(pod);
            ranked.push(Ranked { critical: pod.traits.contains(PodTraits::CRITICAL), score: amounts.score(pod, weight), pod });
        }
        // Equals keep the default's order, which knows of priorities.
        ranked.sort_unstable_by_key(|ranked| (ranked.critical, std::cmp::Reverse(ranked.score), ranked.pod.default_place));
        Some(ranked.into_iter().map(Ranked::victim).collect())
    }
}

polylet_sdk::export!(TenantEviction: eviction);

/// A candidate with what it is ranked by.
struct Ranked<'a> {
    critical: bool,
    /// Usage in thousandths of request and weight; `u64::MAX` without statistics.
    score: u64,
    pod: &'a Candidate,
}

impl Ranked<'_> {
    fn victim(self) -> Victim {
        let reason = match self.score {
            u64::MAX => String::new(),
            score => format!("uses {}.{:03} times its weighted request", score / 1000, score % 1000),
        };
        Victim { pod: self.pod.pod, grace: None, reason }
    }
}

/// Which numbers of a candidate are compared.
enum Amounts {
    Memory,
    Disk,
}

impl Amounts {
    /// Inodes and processes are not requested, so nothing can be said of them here.
    fn of(starved: StarvedResource) -> Option<Self> {
        match starved {
            StarvedResource::Memory => Some(Self::Memory),
            StarvedResource::Disk | StarvedResource::ImageDisk | StarvedResource::ContainerDisk => Some(Self::Disk),
            StarvedResource::Inodes | StarvedResource::ImageInodes | StarvedResource::ContainerInodes | StarvedResource::Pids => {
                None
            }
        }
    }

    /// A pod without a request counts as if it had asked for 1 MiB: it exceeds by far, but still in proportion to its usage.
    fn score(&self, pod: &Candidate, weight_thousandths: u64) -> u64 {
        const LEAST_REQUEST: u64 = 1 << 20;
        let (usage, request) = match self {
            Self::Memory => (pod.memory_usage, pod.memory_request),
            Self::Disk => (pod.disk_usage, pod.disk_request),
        };
        let Some(usage) = usage else { return u64::MAX };
        let entitled = u128::from(request.max(LEAST_REQUEST)) * u128::from(weight_thousandths);
        let score = u128::from(usage) * 1_000_000 / entitled;
        u64::try_from(score).unwrap_or(u64::MAX - 1).min(u64::MAX - 1)
    }
}

/// The weights of tenants, each namespace looked up once.
struct Weights<'a> {
    policy: &'a TenantEviction,
    ask: &'a Ask<'a>,
    by_namespace: Vec<(u32, u64)>,
}

impl Weights<'_> {
    /// In thousandths.
    fn of(&mut self, pod: &Candidate) -> u64 {
        if let Some(label) = &self.policy.tenant_label {
            let tenant = self.ask.label(pod.pod, label);
            return self.policy.weight(tenant.as_deref());
        }
        if let Some((_, weight)) = self.by_namespace.iter().find(|(namespace, _)| *namespace == pod.namespace) {
            return *weight;
        }
        let weight = self.policy.weight(self.ask.namespace(pod.namespace).as_deref());
        self.by_namespace.push((pod.namespace, weight));
        weight
    }
}
