//! Class and oom scores.

use polylet_sdk::Ask;
use polylet_sdk::qos::{Answer, ContainerPlacement, Placement, Qos, Question};
use polylet_sdk::types::{ContainerFacts, ContainerKind, PodTraits, QosClass, Resources};
use polylet_upstream::qos as upstream;

impl Qos for crate::Default {
    fn classify(&self, ask: &Ask, question: &Question) -> Option<Answer> {
        let containers: Vec<_> = question.containers.iter().map(container).collect();
        let pod = upstream::Pod {
            reported: reported(ask),
            node_critical: question.pod.traits.contains(PodTraits::NODE_CRITICAL),
            containers: &containers,
            pod_level: question.pod_level.as_ref().map(resources),
        };
        let placed = upstream::place(&pod, question.node.memory_capacity);
        let placement = Placement {
            tier: match placed.tier {
                upstream::QosClass::BestEffort => QosClass::BestEffort,
                upstream::QosClass::Burstable => QosClass::Burstable,
                upstream::QosClass::Guaranteed => QosClass::Guaranteed,
            },
            cpu_weight: None,
            memory_min: None,
            memory_low: None,
            memory_high: None,
            containers: placed.oom_scores.into_iter().map(placed_at).collect(),
        };
        Some(Answer { placement, reason: String::new() })
    }
}

fn placed_at(oom_score: i32) -> ContainerPlacement {
    ContainerPlacement { oom_score, memory_high: None }
}

fn reported(ask: &Ask) -> Option<upstream::QosClass> {
    match ask.facts().pod_class_reported()? {
        0 => Some(upstream::QosClass::BestEffort),
        1 => Some(upstream::QosClass::Burstable),
        2 => Some(upstream::QosClass::Guaranteed),
        _ => None,
    }
}

fn container(container: &ContainerFacts) -> upstream::Container {
    let kind = match container.kind {
        ContainerKind::App => upstream::Kind::App,
        ContainerKind::Init => upstream::Kind::Init,
        ContainerKind::Sidecar => upstream::Kind::Sidecar,
        ContainerKind::Ephemeral => upstream::Kind::Ephemeral,
    };
    upstream::Container { kind, resources: resources(&container.resources) }
}

fn resources(resources: &Resources) -> upstream::Resources {
    upstream::Resources {
        cpu_request: resources.cpu_request,
        cpu_limit: resources.cpu_limit,
        memory_request: resources.memory_request,
        memory_limit: resources.memory_limit,
    }
}
