//! Removing what is no longer needed: dead attempts beyond the limit, superseded ones, old sandboxes.

use std::collections::BTreeMap;

use crate::effect::Act;
use crate::event::CallError;
use crate::id::{ContainerId, SandboxId};
use crate::observed::{ContainerState, Observed, SandboxState};

use super::cx::{Cx, What};
use super::lane::LATER;
use super::worker::{Life, Worker};

impl Worker {
    /// Removes attempts, unless their removal is under way.
    pub(super) fn remove(&mut self, cx: &mut Cx<'_>, ids: &[ContainerId], keep_log: bool) {
        if self.retry.is_some_and(|at| !cx.reached(at)) {
            return;
        }
        for id in ids {
            if !self.removing.contains_key(id) {
                let act = Act::RemoveContainer { id: id.clone(), keep_log };
                let effect = cx.act(Some(&self.uid), What::Remove(id.clone()), act);
                self.removing.insert(id.clone(), effect);
            }
        }
    }

    /// Stops sandboxes, unless that is done or under way. A stop also gives back the pod's address, so that one that is not ready is stopped too.
    pub(super) fn stop_sandboxes(&mut self, cx: &mut Cx<'_>, ids: &[SandboxId]) {
        if self.retry.is_some_and(|at| !cx.reached(at)) {
            return;
        }
        for id in ids {
            if !self.stopped_sandboxes.contains(id) && !self.stopping_sandboxes.contains_key(id) {
                let effect = cx.act(Some(&self.uid), What::StopSandbox(id.clone()), Act::StopSandbox { id: id.clone() });
                self.stopping_sandboxes.insert(id.clone(), effect);
            }
        }
    }

    fn remove_sandboxes(&mut self, cx: &mut Cx<'_>, ids: &[SandboxId]) {
        if self.retry.is_some_and(|at| !cx.reached(at)) {
            return;
        }
        for id in ids {
            if !self.removing_sandboxes.contains_key(id) && !cx.shared.removed.contains_key(id.as_str()) {
                let effect = cx.act(Some(&self.uid), What::RemoveSandbox(id.clone()), Act::RemoveSandbox { id: id.clone() });
                self.removing_sandboxes.insert(id.clone(), effect);
            }
        }
    }

    /// Dead attempts beyond the limit, and sandboxes that nothing lives in but the newest.
    pub(super) fn sweep(&mut self, cx: &mut Cx<'_>, have: &Observed) {
        let keep = cx.config().dead.per_container.max(1);
        let mut dead: BTreeMap<&str, usize> = BTreeMap::new();
        let surplus: Vec<ContainerId> = have
            .containers
            .iter()
            .filter(|c| c.state == ContainerState::Exited)
            .filter(|c| {
                let count = dead.entry(c.name.as_str()).or_default();
                *count += 1;
                *count > keep
            })
            .map(|c| c.id.clone())
            .collect();
        self.remove(cx, &surplus, false);
        let old: Vec<SandboxId> = have
            .sandboxes
            .iter()
            .skip(1)
            .filter(|s| s.state == SandboxState::NotReady && have.containers.iter().all(|c| c.sandbox != s.id))
            .map(|s| s.id.clone())
            .collect();
        self.stop_sandboxes(cx, &old);
        let stopped: Vec<SandboxId> = old.into_iter().filter(|id| self.stopped_sandboxes.contains(id)).collect();
        self.remove_sandboxes(cx, &stopped);
    }

    /// Everything of the pod in the runtime, in order: containers, then sandboxes. True when nothing is left.
    pub(super) fn remove_all(&mut self, cx: &mut Cx<'_>, have: &Observed) -> bool {
        let containers: Vec<ContainerId> = have.containers.iter().map(|c| c.id.clone()).collect();
        let there = have.sandboxes.iter().map(|s| s.id.clone()).filter(|id| !cx.shared.removed.contains_key(id.as_str()));
        let sandboxes: Vec<SandboxId> = there.collect();
        self.remove(cx, &containers, false);
        self.stop_sandboxes(cx, &sandboxes);
        if containers.is_empty() {
            let stopped: Vec<SandboxId> = sandboxes.iter().filter(|id| self.stopped_sandboxes.contains(*id)).cloned().collect();
            self.remove_sandboxes(cx, &stopped);
        }
        containers.is_empty() && sandboxes.is_empty()
    }

    pub(super) fn removed(&mut self, cx: &mut Cx<'_>, id: &ContainerId, result: Result<(), CallError>) {
        self.removing.remove(id);
        if result.is_ok() {
            cx.gone(&self.uid, id.as_str());
        }
        self.later_if_failed(cx, result);
    }

    pub(super) fn sandbox_stopped(&mut self, cx: &mut Cx<'_>, id: &SandboxId, result: Result<(), CallError>) {
        self.stopping_sandboxes.remove(id);
        match &result {
            Ok(()) => drop(self.stopped_sandboxes.insert(id.clone())),
            Err(error) if self.life == Life::Stopping => {
                self.say(cx, None, true, "FailedKillPod", format!("error killing pod: {error}"));
            }
            Err(_) => {}
        }
        self.later_if_failed(cx, result);
    }

    pub(super) fn sandbox_removed(&mut self, cx: &mut Cx<'_>, id: &SandboxId, result: Result<(), CallError>) {
        self.removing_sandboxes.remove(id);
        if result.is_ok() {
            cx.gone(&self.uid, id.as_str());
        }
        self.later_if_failed(cx, result);
    }

    fn later_if_failed(&mut self, cx: &mut Cx<'_>, result: Result<(), CallError>) {
        self.retry = result.is_err().then(|| cx.now.mono + LATER);
    }
}
