//! The node's settings in every world.

use std::collections::BTreeMap;
use std::time::Duration;

use polylet_core::config::{Config, DeadLimits, Quantity, Rate, Threshold};
use polylet_core::pod::Source;
use polylet_core::question::eviction::Starved;
use polylet_core::question::restart::Bounds;

use super::Rng;

/// Bytes that are kept free.
pub(super) const LEAST_MEMORY: u64 = 1 << 30;

/// Settings of one world: pulls one by one or side by side, as often as they are wanted or not; dead containers kept as usual, or few.
pub(super) fn draw(rng: &mut Rng) -> Config {
    Config {
        parallel_pulls: if rng.chance(70) { 1 } else { 3 },
        pull_rate: rng.chance(20).then_some(Rate { per_second: 1, burst: 2 }),
        dead: if rng.chance(20) { few(rng) } else { DeadLimits::default() },
        ..config()
    }
}

fn few(rng: &mut Rng) -> DeadLimits {
    let (per_container, total) = (rng.below(2) as usize, rng.below(4) as usize);
    DeadLimits { per_container, total: Some(total), least_age: Duration::ZERO }
}

pub(crate) fn config() -> Config {
    let bounds = Bounds { initial: 10_000, maximum: 300_000, reset_after: 600_000 };
    Config {
        node_name: "sim".into(),
        node_ips: vec!["192.0.2.1".into()],
        sources: vec![Source::File, Source::Api],
        restart: bounds,
        image_backoff: bounds,
        relist: Duration::from_secs(1),
        relist_with_events: Duration::from_secs(10),
        sampling: Duration::from_secs(10),
        max_pods: 110,
        parallel_pulls: 1,
        pull_rate: None,
        dead: DeadLimits::default(),
        allow_give_up: false,
        allow_tier: false,
        evict_static: false,
        local_storage_limits: true,
        probe_mercy: Duration::from_secs(60),
        memory_capacity: 8 << 30,
        memory_allocatable: 8 << 30,
        cpu_capacity: 4_000,
        cpu_allocatable: 4_000,
        storage_allocatable: 100 << 30,
        huge_pages: BTreeMap::new(),
        apparmor: false,
        supplemental_groups_policy: false,
        thresholds: vec![Threshold {
            signal: "memory.available".into(),
            starved: Starved::Memory,
            below: Quantity::Amount(LEAST_MEMORY),
            reclaim: Quantity::Amount(0),
            grace: None,
        }],
        pressure_transition: Duration::from_secs(300),
        eviction_max_grace: Duration::ZERO,
        runtime_name: "sim".into(),
    }
}
