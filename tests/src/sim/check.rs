//! What must hold in every world, at every moment.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1;
use polylet_core::effect::{Act, StopCause};
use polylet_core::id::{ContainerId, EffectId, PodUid, SandboxId};
use polylet_core::observed::{ContainerState, SandboxState};
use polylet_core::pod::{ContainerKind, Pod, ProbeKind, RestartPolicy};
use polylet_core::restart::effective_policy;

use super::graces::Graces;
use super::manifest::ALL_AGAIN;
use super::progress::is_live;
use super::rule::{Kept, Rule};
use super::runtime::Runtime;

/// The clocks of a world do not tick together.
const CLOCKS: u64 = 5;

/// What the checks have to remember.
#[derive(Debug, Default)]
pub(super) struct Check {
    /// Init containers that ended well, by sandbox.
    done: BTreeSet<(SandboxId, String)>,
    /// Containers that have been started, by sandbox.
    started: BTreeSet<(SandboxId, String)>,
    /// Attempts whose liveness or startup probe the world has let fail.
    pub(super) unwell: BTreeSet<(ContainerId, ProbeKind)>,
    /// Attempts whose postStart hook the world has let fail.
    pub(super) hook_failed: BTreeSet<ContainerId>,
    /// Pods that a source has dropped at some time: their end may go on after they are declared again.
    pub(super) dropped: BTreeSet<PodUid>,
    /// Pods that had been dropped before this life of the agent began: it ends them without their spec.
    pub(super) unknown: BTreeSet<PodUid>,
    /// The node has been short of memory.
    pub(super) was_short: bool,
    /// A policy has seen a shortage of its own.
    pub(super) shortage_told: bool,
    /// Pods whose status has said that they were evicted.
    pub(super) evicted: BTreeSet<PodUid>,
    /// Pods whose status has said that their deadline has passed.
    pub(super) late: BTreeSet<PodUid>,
    /// When the node first heard of each pod.
    heard: BTreeMap<PodUid, u64>,
    /// The store has lost something: counts may fall when the agent comes back.
    pub(super) forgetful: bool,
    /// preStop hooks under way: the pod, and the grace that it had then, in seconds, where it was being ended.
    hooks: BTreeMap<EffectId, (PodUid, Option<u64>)>,
    /// What the node gave up in this step.
    pub(super) cancelled: Vec<EffectId>,
    /// Who is given how much time to end.
    pub(super) graces: Graces,
    /// Pods that the node has once let go of.
    back: BTreeSet<PodUid>,
    /// Pods whose image was changed.
    pub(super) edited: BTreeSet<PodUid>,
    /// Containers of which the runtime could not tell the state, at some time.
    pub(super) was_unknown: BTreeSet<ContainerId>,
    /// When containers could not be made lately.
    not_created: BTreeMap<PodUid, Vec<u64>>,
    phases: BTreeMap<PodUid, String>,
    restarts: BTreeMap<(PodUid, String), i32>,
}

impl Check {
    /// The node asks for something.
    pub(super) fn begins(&mut self, id: EffectId, act: &Act, now: u64) -> Kept {
        let Act::Hook { pod, budget: Some(budget), .. } = act else { return Ok(()) };
        self.hooks.insert(id, (pod.clone(), self.graces.of(pod)));
        self.graces.hook(pod, *budget, now)
    }

    /// The agent dies, and what it had under way with it.
    pub(super) fn dies(&mut self) {
        self.hooks.clear();
        self.cancelled.clear();
    }

    /// All effects of a step are done: it gave up a preStop hook only where the grace has become shorter since that began.
    pub(super) fn stepped(&mut self, rt: &Runtime) -> Kept {
        for id in std::mem::take(&mut self.cancelled) {
            let Some((pod, before)) = self.hooks.get(&id) else { continue };
            // A restart of all containers gives none of them any time.
            if rt.containers.iter().any(|c| c.uid == *pod && c.seen.exit_code == ALL_AGAIN) {
                continue;
            }
            match (before, self.graces.of(pod)) {
                (None, Some(_)) => {}
                (Some(before), Some(now)) if now < *before => {}
                (before, now) => {
                    let text = format!("a preStop hook of {pod} is cut off; its grace was {before:?} s and is {now:?} s");
                    return Rule::Hooks.broken(text);
                }
            }
        }
        Ok(())
    }

    /// A container could not be made: tried again, but not at once.
    pub(super) fn not_created(&mut self, pod: &PodUid, now: u64) -> Kept {
        let lately = self.not_created.entry(pod.clone()).or_default();
        lately.retain(|at| at + 10_000 > now);
        lately.push(now);
        if lately.len() > 20 {
            return Rule::Pace.broken(format!("{} containers of {pod} were not made in ten seconds", lately.len()));
        }
        Ok(())
    }

    /// A container starts now.
    pub(super) fn starts(&mut self, rt: &Runtime, pod: &Pod, id: &ContainerId) -> Kept {
        let Some(me) = rt.containers.iter().find(|c| c.seen.id == *id) else { return Ok(()) };
        let name = me.seen.name.as_str();
        let copies = rt
            .containers
            .iter()
            .filter(|c| c.uid == me.uid && c.seen.name == me.seen.name && c.seen.state == ContainerState::Running)
            .count();
        if copies > 1 {
            return Rule::Twice.broken(format!("{copies} copies of {name} of {} run", me.uid));
        }
        let sandbox = &me.seen.sandbox;
        let Some(container) = pod.container(name) else { return Rule::Cause.broken(format!("{name} is not in the spec")) };
        // An ephemeral container waits for nobody.
        let waits = container.kind != ContainerKind::Ephemeral;
        let before =
            pod.init_containers().take_while(|c| waits && (container.kind == ContainerKind::App || c.name != container.name));
        for init in before {
            let key = (sandbox.clone(), init.name.as_str().to_owned());
            let ok = if init.kind == ContainerKind::Sidecar { self.started.contains(&key) } else { self.done.contains(&key) };
            if !ok {
                return Rule::Order.broken(format!("{name} of {} starts before {} is through", me.uid, init.name));
            }
        }
        let again = !self.started.insert((sandbox.clone(), name.to_owned()));
        if again && container.kind == ContainerKind::Ephemeral {
            return Rule::Order.broken(format!("ephemeral {name} of {} starts a second time", me.uid));
        }
        Ok(())
    }

    /// A container is removed because all start over: what came before it must come before it again.
    pub(super) fn starts_over(&mut self, rt: &Runtime, id: &ContainerId) {
        if let Some(me) = rt.containers.iter().find(|c| c.seen.id == *id) {
            let key = (me.seen.sandbox.clone(), me.seen.name.as_str().to_owned());
            self.done.remove(&key);
            self.started.remove(&key);
        }
    }

    /// A container ended well.
    pub(super) fn ended(&mut self, sandbox: &SandboxId, name: &str, code: i32) {
        if code == 0 {
            self.done.insert((sandbox.clone(), name.to_owned()));
        }
    }

    /// The node asks for a stop. `declared` is what it was told last; None before it was told anything. `spec` is the pod as somebody once
    /// declared it.
    pub(super) fn stop(
        &self,
        rt: &Runtime,
        declared: Option<&BTreeMap<PodUid, std::sync::Arc<Pod>>>,
        spec: Option<&Pod>,
        (id, cause, timeout_ms): (&ContainerId, StopCause, u64),
        now: u64,
    ) -> Kept {
        let Some(declared) = declared else {
            return Rule::Heard.broken("something is stopped before the sources have been heard");
        };
        let Some(live) = rt.containers.iter().find(|c| c.seen.id == *id) else { return Ok(()) };
        if live.seen.state != ContainerState::Running {
            return Ok(());
        }
        let (uid, name) = (&live.uid, live.seen.name.as_str());
        let pod = declared.get(uid).map(|pod| &**pod);
        let sandbox = rt.sandboxes.iter().find(|(_, _, s)| s.id == live.seen.sandbox).map(|(_, _, s)| s);
        let newest = rt.sandboxes.iter().filter(|(u, _, _)| u == uid).map(|(_, _, s)| s.attempt).max();
        let just = match cause {
            StopCause::Removed | StopCause::Orphan => pod.is_none() || self.dropped.contains(uid),
            StopCause::Deleted => spec.is_some_and(|p| p.deletion.is_some()),
            StopCause::Unhealthy => self.unwell.contains(&(id.clone(), ProbeKind::Liveness)),
            StopCause::NotStarted => self.unwell.contains(&(id.clone(), ProbeKind::Startup)),
            StopCause::HookFailed => self.hook_failed.contains(id),
            StopCause::DefinitionChanged => pod.and_then(|p| p.container(name)).is_none_or(|c| c.hash != live.seen.hash),
            StopCause::SandboxChanged => sandbox.is_none_or(|s| s.state != SandboxState::Ready || Some(s.attempt) != newest),
            StopCause::Completed => pod.is_none_or(|p| self.nothing_left(rt, p)),
            StopCause::InitFailed => pod.is_none_or(|p| self.nothing_left(rt, p) || self.lost_an_init(rt, p)),
            StopCause::RestartAll => rt.containers.iter().any(|c| c.uid == *uid && c.seen.exit_code == ALL_AGAIN),
            StopCause::Evicted => (self.was_short || self.shortage_told) && pod.is_none_or(|pod| !pod.is_critical()),
            StopCause::DeadlineExceeded => pod.or(spec).is_some_and(|pod| self.deadline_has_passed(pod, now)),
            StopCause::UnknownState => self.was_unknown.contains(id),
            StopCause::Duplicate => rt.containers.iter().filter(|c| c.uid == *uid && c.seen.name == live.seen.name).count() > 1,
            _ => false,
        };
        if !just {
            return Rule::Cause.broken(format!("{name} of {uid} is stopped for {cause:?}, which is not so"));
        }
        if let Some(pod) = pod.or(spec) {
            let lives = rt.containers.iter().filter(|c| c.uid == *uid && c.seen.name == live.seen.name && is_live(&c.seen));
            self.graces.stop(pod, name, cause, timeout_ms, lives.count() == 1, now)?;
        }
        if let Some(pod) = pod {
            let ending = matches!(cause, StopCause::Removed | StopCause::Completed | StopCause::Deleted);
            // Without the spec, a sidecar looks like any other container.
            let sidecar = !self.unknown.contains(uid) && pod.container(name).is_some_and(|c| c.kind == ContainerKind::Sidecar);
            let app_runs = rt.containers.iter().any(|c| {
                c.uid == *uid
                    && c.seen.state == ContainerState::Running
                    && pod.container(c.seen.name.as_str()).is_some_and(|c| c.kind == ContainerKind::App)
            });
            if ending && sidecar && app_runs && timeout_ms > 2_000 {
                return Rule::Order.broken(format!("sidecar {name} of {uid} is stopped while an app container runs"));
            }
        }
        Ok(())
    }

    /// The node hears of a pod.
    pub(super) fn hears_of(&mut self, uid: &PodUid, now: u64) {
        self.heard.entry(uid.clone()).or_insert(now);
    }

    fn deadline_has_passed(&self, pod: &Pod, now: u64) -> bool {
        let deadline = pod.active_deadline.zip(self.heard.get(&pod.uid));
        let passed = deadline.is_some_and(|(deadline, heard)| heard + deadline.as_millis() as u64 <= now + CLOCKS);
        passed || pod.active_deadline.is_some() && self.graces.clock_has_jumped()
    }

    /// No app container runs that the spec wants running: one whose probe failed, and that may not be started again, it does not.
    fn nothing_left(&self, rt: &Runtime, pod: &Pod) -> bool {
        let failed = |id: &ContainerId| {
            [ProbeKind::Liveness, ProbeKind::Startup].into_iter().any(|kind| self.unwell.contains(&(id.clone(), kind)))
        };
        !rt.containers.iter().filter(|c| c.uid == pod.uid && c.seen.state == ContainerState::Running).any(|c| {
            pod.container(c.seen.name.as_str()).is_some_and(|spec| {
                let never = effective_policy(pod, spec) == RestartPolicy::Never;
                spec.kind == ContainerKind::App && !(never && failed(&c.seen.id))
            })
        })
    }

    /// Of an init container the runtime could not tell the state: where it may not be tried again, it counts as failed.
    pub(super) fn lost_an_init(&self, rt: &Runtime, pod: &Pod) -> bool {
        let lost = rt.containers.iter().filter(|c| c.uid == pod.uid && self.was_unknown.contains(&c.seen.id));
        let mut kinds = lost.filter_map(|c| pod.container(c.seen.name.as_str())).map(|c| c.kind);
        kinds.any(|kind| kind == ContainerKind::Init)
    }

    /// A status goes out.
    pub(super) fn status(&mut self, uid: &PodUid, spec: Option<&Pod>, status: &v1::PodStatus, now: u64) -> Kept {
        let phase = status.phase.clone().unwrap_or_default();
        if let Some(old) = self.phases.insert(uid.clone(), phase.clone()) {
            let terminal = |p: &str| p == "Succeeded" || p == "Failed";
            // Of a UID that has come back, remains of its first life may have told of an end that is not the second one's.
            if terminal(&old) && old != phase && !self.forgetful && !self.back.contains(uid) {
                return Rule::Forward.broken(format!("the phase of {uid} goes from {old} to {phase}"));
            }
        }
        if status.reason.as_deref() == Some("DeadlineExceeded") {
            if spec.is_none_or(|pod| !self.deadline_has_passed(pod, now)) {
                return Rule::Cause.broken(format!("{uid} is said to have passed its deadline, which is not so"));
            }
            self.late.insert(uid.clone());
        }
        if status.reason.as_deref() == Some("Evicted") {
            self.evicted.insert(uid.clone());
        }
        for c in status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten()) {
            let old = self.restarts.insert((uid.clone(), c.name.clone()), c.restart_count).unwrap_or(0);
            if c.restart_count < old && !self.forgetful {
                let text = format!("the restart count of {} of {uid} falls from {old} to {}", c.name, c.restart_count);
                return Rule::Forward.broken(text);
            }
        }
        Ok(())
    }

    /// The phase last published.
    pub(super) fn phase(&self, uid: &PodUid) -> Option<&str> {
        self.phases.get(uid).map(String::as_str)
    }

    /// The node has let go of a pod: one under the same UID is a new one.
    pub(super) fn forgotten(&mut self, uid: &PodUid, now: u64) {
        self.phases.remove(uid);
        self.restarts.retain(|(u, _), _| u != uid);
        self.dropped.remove(uid);
        self.evicted.remove(uid);
        self.late.remove(uid);
        // It may have been declared again meanwhile.
        self.heard.insert(uid.clone(), now);
        self.graces.forgotten(uid);
        self.back.insert(uid.clone());
    }
}
