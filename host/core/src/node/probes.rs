//! Probing running containers: when an attempt is due, what came of it, what it means, what follows.
//!
//! **Invariant:** a probe speaks of one attempt of one container; the next attempt begins with nothing known.

use std::time::Duration;

use crate::ask::{self, ProbeAttempt};
use crate::effect::Act;
use crate::event::{CallError, Outcome};
use crate::id::{ContainerId, ContainerName, EffectId};
use crate::observed::ContainerState;
use crate::pod::{Container, ContainerKind, Pod, ProbeKind};
use crate::probe::{Change, ProbeWorker, first_tick, next_due};
use crate::question::probe::{self, Meaning};
use crate::question::{Body, Question};
use crate::record::ProbeRecord;
use crate::time::{Mono, Wall, millis};

use super::asks::Target;
use super::cx::{Cx, What};
use super::worker::{Life, Probing, Worker};

/// Attempts kept for the table `history`.
const HISTORY: usize = 32;

impl Worker {
    /// Keeps one prober for each declared probe of each running attempt, and begins the attempts that are due. While the pod or
    /// the container ends, readiness is still looked after.
    pub(super) fn tend_probes(&mut self, cx: &mut Cx<'_>, pod: &Pod) {
        self.begin_ticking(cx, pod);
        let Some(have) = self.last_seen() else { return };
        let mut wanted: Vec<(ContainerName, ProbeKind, ContainerId, Option<Wall>)> = Vec::new();
        for container in pod.containers.iter().filter(|c| matches!(c.kind, ContainerKind::App | ContainerKind::Sidecar)) {
            let running = have.of(container.name.as_str()).find(|a| a.state == ContainerState::Running);
            if let Some(attempt) = running {
                let ends = self.life == Life::Stopping || self.stops.contains_key(&attempt.id);
                let kinds = ProbeKind::ALL.into_iter().filter(|kind| container.probes.get(*kind).is_some());
                let kinds = kinds.filter(|kind| !ends || *kind == ProbeKind::Readiness);
                wanted.extend(kinds.map(|kind| (container.name.clone(), kind, attempt.id.clone(), attempt.started)));
            }
        }
        let stale: Vec<(ContainerName, ProbeKind)> = self
            .probes
            .iter()
            .filter(|((name, kind), p)| !wanted.iter().any(|(n, k, id, _)| n == name && k == kind && *id == p.id))
            .map(|(key, _)| key.clone())
            .collect();
        for key in stale {
            self.drop_probe(cx, &key);
        }
        for (name, kind, id, started) in wanted {
            if !self.probes.contains_key(&(name.clone(), kind)) {
                self.begin_probing(cx, pod, &name, kind, id, started);
            }
            self.attempt_if_due(cx, pod, &name, kind);
        }
    }

    /// Probes tick from the first look at a pod on, whatever becomes of its containers.
    fn begin_ticking(&mut self, cx: &mut Cx<'_>, pod: &Pod) {
        let uptime = cx.now.mono.since(cx.shared.born.mono);
        for container in &pod.containers {
            for (kind, spec) in ProbeKind::ALL.into_iter().filter_map(|kind| Some((kind, container.probes.get(kind)?))) {
                self.ticks.entry((container.name.clone(), kind)).or_insert_with(|| {
                    let random = cx.shared.rng.below(u64::MAX);
                    first_tick(cx.now.mono, spec, uptime, random)
                });
            }
        }
    }

    /// A container has started: its liveness is looked at from the next tick on.
    fn liveness_from_now(&mut self, now: Mono, container: &Container) {
        let key = (container.name.clone(), ProbeKind::Liveness);
        let spec = container.probes.liveness.as_ref();
        if let (Some(spec), Some(first), Some(probing)) = (spec, self.ticks.get(&key), self.probes.get_mut(&key)) {
            // The initial delay was counted from the start of the container.
            probing.worker.put_off(next_due(now, ProbeKind::Liveness, spec, spec.initial_delay, *first));
        }
    }

    fn begin_probing(
        &mut self,
        cx: &mut Cx<'_>,
        pod: &Pod,
        name: &ContainerName,
        kind: ProbeKind,
        id: ContainerId,
        started: Option<Wall>,
    ) {
        let Some(spec) = pod.container(name.as_str()).and_then(|c| c.probes.get(kind)) else { return };
        // What an earlier life of the agent found of this attempt holds on.
        let known = self.record.containers.get(name).and_then(|c| c.probes.as_ref()).filter(|p| p.id == id);
        let passed = match kind {
            ProbeKind::Startup => known.filter(|p| p.started).map(|_| true),
            ProbeKind::Readiness => known.and_then(|p| p.ready),
            ProbeKind::Liveness => None,
        };
        let passed = passed.or(crate::probe::initial(kind));
        let running_for = started.map_or(Duration::ZERO, |s| cx.now.wall.since(s));
        let first = self.ticks.get(&(name.clone(), kind)).copied().unwrap_or(cx.now.mono);
        let worker = ProbeWorker::new(kind, spec, passed, next_due(cx.now.mono, kind, spec, running_for, first));
        let probing =
            Probing { id, worker, passed, asking: false, first_failure: None, grace: None, attempts: 0, history: Vec::new() };
        self.probes.insert((name.clone(), kind), probing);
    }

    /// Startup comes first; once it has succeeded it rests and the other two begin.
    fn attempt_if_due(&mut self, cx: &mut Cx<'_>, pod: &Pod, name: &ContainerName, kind: ProbeKind) {
        let key = (name.clone(), kind);
        let Some(id) = self.probes.get(&key).map(|p| p.id.clone()) else { return };
        let started = self.health(&id).started;
        let ips = self.ips(cx);
        let Some(probing) = self.probes.get(&key).filter(|p| !p.asking) else { return };
        let Some(due) = probing.worker.due(started) else { return };
        if !cx.reached(due) {
            return;
        }
        let Some(pod) = self.pod.clone().filter(|p| p.uid == pod.uid) else { return };
        let act = Act::Probe { pod, container: name.clone(), id, kind, ips };
        let effect = cx.act(Some(&self.uid), What::Probe(name.clone(), kind), act);
        if let Some(probing) = self.probes.get_mut(&key) {
            probing.worker.begin(cx.now.mono, effect);
        }
    }

    /// An attempt returned: the policy is asked what it means.
    pub(super) fn probed(
        &mut self,
        cx: &mut Cx<'_>,
        effect: EffectId,
        key: (ContainerName, ProbeKind),
        result: Result<Outcome, CallError>,
    ) {
        let (outcome, text, latency) = match result {
            Ok(Outcome::Probed { outcome, text, latency }) => (outcome, text, latency),
            Ok(_) => (probe::Outcome::Failed(probe::Failure::Internal), String::new(), Duration::ZERO),
            Err(error) => (probe::Outcome::Failed(probe::Failure::Internal), error.message, Duration::ZERO),
        };
        let Some(pod) = self.pod.clone() else { return };
        let (Some(container), Some(probing)) = (pod.container(key.0.as_str()), self.probes.get(&key)) else { return };
        let Some(spec) = container.probes.get(key.1).filter(|_| probing.worker.in_flight() == Some(effect)) else { return };
        let started =
            self.last_seen().and_then(|have| have.containers.iter().find(|c| c.id == probing.id)).and_then(|c| c.started);
        let mercy = probing.first_failure.is_none_or(|since| cx.now.mono.since(since) < cx.config().probe_mercy);
        let question = ask::probe_question(&ask::Probe {
            pod: &pod,
            container,
            record: &self.record,
            node: cx.node_facts(),
            kind: key.1,
            spec,
            outcome,
            text: &text,
            latency: millis(latency),
            started,
            ready: self.probe_views().get(&key.0).is_some_and(|view| view.ready),
            streak: probing.worker.streak(),
            attempts: probing.attempts + 1,
            history: &probing.history,
        });
        let target = Target::Probe {
            pod: self.uid.clone(),
            container: key.0.clone(),
            kind: key.1,
            id: probing.id.clone(),
            text,
            mercy,
            longest_grace: millis(spec.grace.unwrap_or(pod.grace)),
        };
        if let Some(probing) = self.probes.get_mut(&key) {
            probing.asking = true;
        }
        self.ask_about_probe(cx, question, target, key.0.as_str());
    }

    /// The policy has said what an attempt means.
    pub(super) fn probe_judged(
        &mut self,
        cx: &mut Cx<'_>,
        key: (ContainerName, ProbeKind),
        id: &ContainerId,
        question: &Question,
        answer: &probe::Answer,
        text: &str,
    ) {
        let Body::Probe(asked) = &question.body else { return };
        let Some(probing) = self.probes.get_mut(&key).filter(|p| p.id == *id && p.asking) else { return };
        probing.asking = false;
        probing.attempts += 1;
        probing.history.push(ProbeAttempt::new(cx.now.wall, answer.verdict, asked.latency, &asked.outcome));
        let surplus = probing.history.len().saturating_sub(HISTORY);
        probing.history.drain(..surplus);
        match asked.default_verdict {
            Meaning::Failure => probing.first_failure = probing.first_failure.or(Some(cx.now.mono)),
            Meaning::Success | Meaning::Warning => probing.first_failure = None,
            Meaning::Unknown => {}
        }
        probing.grace = answer.grace.map(Duration::from_millis);
        let Change { published, say, .. } =
            probing.worker.finish(cx.now.mono, answer.verdict, answer.next_in.map(Duration::from_millis), text);
        if let Some(passed) = published {
            probing.passed = Some(passed);
            self.status_due = true;
        }
        let passed = probing.passed;
        if published == Some(true)
            && key.1 == ProbeKind::Startup
            && let Some(pod) = self.pod.clone()
            && let Some(container) = pod.container(key.0.as_str())
        {
            self.liveness_from_now(cx.now.mono, container);
        }
        if published.is_some() {
            self.note_probe(&key, id, passed);
        }
        if let Some((reason, message)) = say {
            self.say(cx, Some(&key.0), true, reason, message);
        }
    }

    /// What a restart of the agent must not forget: whether the container has started and is ready.
    fn note_probe(&mut self, key: &(ContainerName, ProbeKind), id: &ContainerId, passed: Option<bool>) {
        let started = self.health(id).started;
        let entry = self.remembered(&key.0);
        let known = entry.probes.take().filter(|p| p.id == *id);
        let ready = if key.1 == ProbeKind::Readiness { passed } else { known.and_then(|p| p.ready) };
        entry.probes = Some(ProbeRecord { id: id.clone(), started, ready });
    }

    /// Lets a prober go, with its attempt under way.
    pub(super) fn drop_probe(&mut self, cx: &mut Cx<'_>, key: &(ContainerName, ProbeKind)) {
        if let Some(effect) = self.probes.remove(key).and_then(|p| p.worker.in_flight()) {
            cx.cancel(effect);
        }
        self.status_due = true;
    }
}
