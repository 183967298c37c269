//! What the node shows of itself: values, never references.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1;
use serde::{Deserialize, Serialize};

use crate::effect::Rung;
use crate::id::PodUid;
use crate::observed::ContainerState;
use crate::pod::{ContainerKind, ProbeKind};
use crate::question::Hook;
use crate::restart::go_duration;
use crate::time::{Mono, millis};

use super::Node;
use super::worker::{RestartState, Worker};

/// A node whose runtime has not listed its pods for so long is not ready.
const LIST_OVERDUE: Duration = Duration::from_secs(180);

/// One pod, for people and tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    /// `metadata.namespace`
    pub namespace: String,
    /// `metadata.name`
    pub name: String,
    /// `metadata.uid`
    pub uid: PodUid,
    /// Where its life stands: `queued`, `running`, `stopping`, `cleaning`, `finished`, `removing`.
    pub life: String,
    /// As published.
    pub status: Option<Arc<v1::PodStatus>>,
    /// By container.
    pub containers: BTreeMap<String, ContainerView>,
    /// Why the pod is being ended, when it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
}

/// What the status does not tell of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerView {
    /// Which list of the spec it stands in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ContainerKind>,
    /// `running`, `waiting`, `exited`, `created`, `unknown`, or `absent`.
    pub state: String,
    /// Attempts after the first.
    pub restarts: u32,
    /// Milliseconds until the next attempt, where one waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_restart_in: Option<u64>,
    /// The whole delay that the policy gave, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_delay: Option<u64>,
    /// What the policy said about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub restart_reason: String,
    /// By probe: passed, or not yet known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub probes: BTreeMap<String, Option<bool>>,
}

/// The node as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// Name of the node.
    pub name: String,
    /// Ready, by upstream's rules as far as a node without an API server has them.
    pub ready: bool,
    /// Why not.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// Conditions that hold.
    #[serde(default)]
    pub pressure: Vec<String>,
    /// Pods by life.
    pub pods: BTreeMap<String, usize>,
}

/// A pod as it was declared, and the status that this node has given it since; None before the first.
pub type Declared = (Arc<v1::Pod>, Option<Arc<v1::PodStatus>>);

/// One rung of a hook's ladder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RungView {
    /// The hook.
    pub hook: Hook,
    /// The rung.
    pub rung: Rung,
    /// Place from the top.
    pub place: usize,
    /// Consecutive failures.
    pub failures: u32,
    /// Milliseconds until it is asked again, while its breaker is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resting_for: Option<u64>,
}

impl Node {
    /// One pod, or None when the node does not know it.
    pub fn view(&self, uid: &PodUid, now: Mono) -> Option<PodView> {
        self.workers.get(uid).map(|w| w.view(now))
    }

    /// All pods, by namespace and name.
    pub fn views(&self, now: Mono) -> Vec<PodView> {
        let mut all: Vec<PodView> = self.workers.values().map(|w| w.view(now)).collect();
        all.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        all
    }

    /// What a pod was declared as; None of one that only the runtime or the store knows.
    pub fn object(&self, uid: &PodUid) -> Option<Arc<v1::Pod>> {
        self.workers.get(uid)?.pod.as_ref().map(|pod| pod.object.clone())
    }

    /// Every pod that a source declares, by namespace and name.
    pub fn declared(&self) -> Vec<Declared> {
        let mut all: Vec<_> = self.desired.pods().collect();
        all.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        all.into_iter().map(|pod| (pod.object.clone(), self.workers.get(&pod.uid).and_then(|w| w.status.clone()))).collect()
    }

    /// The node.
    pub fn node_view(&self, now: Mono) -> NodeView {
        let mut reasons = Vec::new();
        if !self.shared.runtime_up {
            reasons.push("container runtime is down".to_owned());
        }
        let silent = now.since(self.relist.last);
        if !self.shared.listed {
            reasons.push("pleg has yet to be successful".to_owned());
        } else if silent > LIST_OVERDUE {
            let [ago, most] = [silent, LIST_OVERDUE].map(go_duration);
            reasons.push(format!("pleg was last seen active {ago} ago; threshold is {most}"));
        }
        if let Err(why) = &self.shared.network {
            reasons.push(why.clone());
        }
        if !self.shared.heard {
            reasons.push("pod sources have not been heard yet".to_owned());
        }
        let mut pods = BTreeMap::new();
        for worker in self.workers.values() {
            *pods.entry(life(worker)).or_insert(0) += 1;
        }
        NodeView {
            name: self.shared.config.node_name.clone(),
            ready: reasons.is_empty(),
            reasons,
            pressure: self.pressure.conditions(),
            pods,
        }
    }

    /// The ladder of every hook, best rung first; the native one last.
    pub fn ladder_view(&self, now: Mono) -> Vec<RungView> {
        let ladder = &self.shared.ladder;
        Hook::ALL
            .into_iter()
            .flat_map(|hook| {
                let bound = ladder.bindings().rungs.get(&hook).cloned().unwrap_or_default();
                bound.into_iter().chain([Rung::Native]).enumerate().map(move |(place, rung)| (hook, place, rung))
            })
            .map(|(hook, place, rung)| {
                let breaker = ladder.breaker(hook, &rung);
                let resting_for = breaker.until.map(|u| millis(u.since(now))).filter(|ms| *ms > 0);
                RungView { hook, rung, place, failures: breaker.failures, resting_for }
            })
            .collect()
    }
}

impl Worker {
    fn view(&self, now: Mono) -> PodView {
        let named = self.pod.iter().flat_map(|p| p.containers.iter().map(|c| (c.name.clone(), c.kind)));
        let containers = named
            .map(|(name, kind)| {
                let attempt = self.last_seen().and_then(|have| have.newest(name.as_str()));
                let mut view = ContainerView {
                    kind: Some(kind),
                    state: match attempt.map(|a| a.state) {
                        None => "absent",
                        Some(ContainerState::Created) => "created",
                        Some(ContainerState::Running) => "running",
                        Some(ContainerState::Exited) => "exited",
                        Some(ContainerState::Unknown) => "unknown",
                    }
                    .to_owned(),
                    restarts: attempt
                        .map(|a| a.attempt)
                        .max(self.record.containers.get(&name).and_then(|c| c.attempt))
                        .unwrap_or(0),
                    ..ContainerView::default()
                };
                match self.restarts.get(&name).map(|r| &r.state) {
                    Some(RestartState::Due { at, delay, reason, .. }) => {
                        view.next_restart_in = Some(millis(at.since(now)));
                        view.restart_delay = Some(millis(*delay));
                        view.restart_reason.clone_from(reason);
                    }
                    Some(RestartState::GivenUp { reason }) => view.restart_reason = format!("given up: {reason}"),
                    Some(RestartState::Asking(_)) | None => {}
                }
                view.probes = ProbeKind::ALL
                    .into_iter()
                    .filter_map(|kind| Some((kind.as_str().to_lowercase(), self.probes.get(&(name.clone(), kind))?.passed)))
                    .collect();
                (name.as_str().to_owned(), view)
            })
            .collect();
        PodView {
            namespace: self.record.namespace.clone(),
            name: self.record.name.clone(),
            uid: self.uid.clone(),
            life: life(self),
            status: self.status.clone(),
            containers,
            ending: self.record.stop.as_ref().map(|s| format!("{:?}", s.cause)),
        }
    }
}

fn life(worker: &Worker) -> String {
    format!("{:?}", worker.life).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::effect::{Act, Effect};
    use crate::event::{Event, RuntimeState};
    use crate::observed::Listing;
    use crate::pod::Source;
    use crate::testing;
    use crate::time::{Now, Wall};

    #[test]
    fn a_runtime_that_lists_nothing_any_more_makes_the_node_unready() {
        let at = |seconds: u64| Now { wall: Wall(seconds * 1000), mono: Mono(seconds * 1000) };
        let mut node = Node::new(Config { sources: vec![Source::File], ..testing::config() }, Vec::new(), 1, at(0));
        let began = node.step(at(0), Event::Runtime(RuntimeState::Up { runtime: Ok(()), network: Ok(()) }));
        let list = began.into_iter().find_map(|effect| match effect {
            Effect::Do { id, act: Act::List } => Some(id),
            _ => None,
        });
        node.step(at(0), Event::Desired { source: Source::File, pods: Vec::new() });
        assert_eq!(node.node_view(at(0).mono).reasons, ["pleg has yet to be successful"]);
        node.step(at(1), Event::Listed { id: list.expect("the runtime is listed"), result: Ok(Listing::default()) });
        assert!(node.node_view(at(181).mono).ready);
        assert_eq!(node.node_view(at(182).mono).reasons, ["pleg was last seen active 3m1s ago; threshold is 3m0s"]);
    }
}
