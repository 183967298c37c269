//! Answers in time, and absurdly: beyond every bound, and of pods and containers that are not there.
#![allow(missing_docs)]

use polylet_sdk::eviction::{Candidate, Eviction, Shortage, Signal, StarvedResource, Victim};
use polylet_sdk::types::{NodeFacts, QosClass};
use polylet_sdk::{Ask, Config, Policy, probe, qos, restart};

struct Absurd;

impl Policy for Absurd {
    const NAME: &str = "hostile-absurd";
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &str = "Answers absurdly, for tests of the node.";

    fn configure(_: &Config) -> Result<Self, String> {
        Ok(Self)
    }
}

impl restart::Restart for Absurd {
    fn decide(&self, _: &Ask, _: &restart::Question) -> Option<restart::Answer> {
        Some(restart::Answer { action: restart::Action::Wait(u64::MAX), reason: "never".to_owned() })
    }
}

impl probe::Probe for Absurd {
    fn interpret(&self, _: &Ask, _: &probe::Question) -> Option<probe::Answer> {
        let verdict = probe::Verdict::Success;
        Some(probe::Answer { verdict, next_in: Some(0), grace: Some(u64::MAX), reason: "\u{1b}[31mhealthy\0".to_owned() })
    }
}

impl qos::Qos for Absurd {
    fn classify(&self, _: &Ask, question: &qos::Question) -> Option<qos::Answer> {
        let container = qos::ContainerPlacement { oom_score: i32::MIN, memory_high: Some(0) };
        let placement = qos::Placement {
            tier: QosClass::Guaranteed,
            cpu_weight: Some(u32::MAX),
            memory_min: Some(u64::MAX),
            memory_low: Some(u64::MAX),
            memory_high: Some(0),
            containers: vec![container; question.containers.len() + 1],
        };
        Some(qos::Answer { placement, reason: String::new() })
    }
}

impl Eviction for Absurd {
    fn assess(&self, _: &Ask, _: &NodeFacts, _: &[Signal]) -> Vec<Shortage> {
        let shortage = Shortage { starved: StarvedResource::Pids, hard: true, reclaim: u64::MAX, reason: String::new() };
        vec![shortage; 1000]
    }

    fn rank(&self, _: &Ask, _: &NodeFacts, _: &Shortage, candidates: &[Candidate]) -> Option<Vec<Victim>> {
        let victim = |pod| Victim { pod, grace: Some(u64::MAX), reason: String::new() };
        let first = candidates.first().map_or(0, |candidate| candidate.pod);
        Some(vec![victim(u32::MAX), victim(first), victim(first)])
    }
}

polylet_sdk::export!(Absurd: restart, probe, qos, eviction);
