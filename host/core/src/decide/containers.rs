//! Which containers are stopped, started or removed, the sandbox being there.

use crate::effect::StopCause;
use crate::id::{ContainerId, SandboxId};
use crate::observed::{Container as Attempt, ContainerState, Observed};
use crate::pod::{Container, ContainerKind, Pod, RestartPolicy};
use crate::restart::effective_policy;

use super::{From, Health, Kill, Run, Start, again, is_live};

/// How far the init containers are.
pub(super) enum Init {
    /// App containers may run.
    Done,
    /// Not yet.
    Wait,
    /// One failed and may not be tried again.
    Failed,
}

/// The app containers have all ended for good, and no sidecar runs or is still to run for the first time: the pod is through, whatever
/// it would take to get a sidecar going again.
pub(super) fn ran_out(pod: &Pod, have: &Observed, health: &dyn Fn(&ContainerId) -> Health) -> bool {
    let ended = |container: &Container| {
        let newest = have.newest(container.name.as_str())?;
        let lives =
            have.of(container.name.as_str()).any(|attempt| attempt.state != ContainerState::Exited && !is_late(have, attempt));
        (!lives && newest.state == ContainerState::Exited).then_some(newest)
    };
    pod.app_containers().all(|app| ended(app).is_some_and(|attempt| !again(pod, app, attempt, health)))
        && pod.of_kind(ContainerKind::Sidecar).all(|sidecar| ended(sidecar).is_some())
}

/// Made by a call that was carried out late, when a newer attempt had begun already: it is not started any more.
fn is_late(have: &Observed, attempt: &Attempt) -> bool {
    attempt.state == ContainerState::Created
        && have.newest(attempt.name.as_str()).is_some_and(|newest| newest.attempt > attempt.attempt)
}

/// Of one name, one attempt lives: the running one, the newest, the one made first. Others are late twins.
pub(super) fn duplicates(have: &Observed, run: &mut Run) {
    let mut names: Vec<&str> = have.containers.iter().map(|c| c.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        run.prune.extend(have.of(name).filter(|c| is_late(have, c)).map(|late| late.id.clone()));
        let mut live: Vec<&Attempt> = have.of(name).filter(|c| is_live(c) && !is_late(have, c)).collect();
        live.sort_by_key(|c| (c.state != ContainerState::Running, std::cmp::Reverse(c.attempt), c.created, c.id.clone()));
        for twin in live.into_iter().skip(1) {
            match twin.state {
                ContainerState::Running => run.kill.push(kill(twin, StopCause::Duplicate, "is a second copy")),
                _ => run.prune.push(twin.id.clone()),
            }
        }
    }
}

/// What still lives in an older sandbox goes.
pub(super) fn strays(have: &Observed, sandbox: &SandboxId, run: &mut Run) {
    for stray in have.containers.iter().filter(|c| is_live(c) && c.sandbox != *sandbox) {
        match stray.state {
            ContainerState::Running => run.kill.push(kill(stray, StopCause::SandboxChanged, "is of another sandbox")),
            _ => run.prune.push(stray.id.clone()),
        }
    }
}

/// Ephemeral containers are started once, never again.
pub(super) fn ephemeral(pod: &Pod, have: &Observed, run: &mut Run) {
    for container in pod.of_kind(ContainerKind::Ephemeral) {
        match have.newest(container.name.as_str()) {
            None => run.start.push(start(container, From::Nothing)),
            Some(a) if a.state == ContainerState::Created => run.start.push(start(container, From::Created(a.id.clone()))),
            Some(_) => {}
        }
    }
}

/// Init containers and sidecars, scanned from the last to the first: the first one of which there is something decides how far the pod is.
pub(super) fn init(
    pod: &Pod,
    have: &Observed,
    sandbox: &SandboxId,
    health: &dyn Fn(&ContainerId) -> Health,
    run: &mut Run,
) -> Init {
    let inits: Vec<&Container> = pod.init_containers().collect();
    if inits.is_empty() {
        return Init::Done;
    }
    // An exited app container may be of an older sandbox: it proves nothing. Nor does one that was made and not started: it may have
    // been on its way while all containers were started over.
    let runs = |a: &Attempt| is_live(a) && a.state != ContainerState::Created && a.sandbox == *sandbox;
    let apps_live = pod.app_containers().any(|c| have.newest(c.name.as_str()).is_some_and(runs));
    let mut decided = apps_live;
    let mut outcome = if apps_live { Init::Done } else { Init::Wait };
    let mut next = Vec::new();
    for (i, container) in inits.iter().enumerate().rev() {
        let sidecar = container.kind == ContainerKind::Sidecar;
        let name = container.name.as_str();
        // The one that ended last stays, with its log: what comes after it may be asked how it went.
        let dead = |a: &&Attempt| !is_live(a);
        let last = have.of(name).filter(dead).find(|a| a.sandbox == *sandbox).map(|a| &a.id);
        run.prune.extend(have.of(name).filter(dead).filter(|a| last != Some(&a.id)).map(|a| a.id.clone()));
        let Some(attempt) = live_or_newest(have, name, sandbox) else {
            if decided && sidecar {
                next.push(start(container, From::Nothing));
            }
            continue;
        };
        if decided && !sidecar {
            // One that was made and not started has been passed by.
            if attempt.state == ContainerState::Created {
                run.prune.push(attempt.id.clone());
            }
            continue;
        }
        let mut passed = false;
        match attempt.state {
            ContainerState::Created => next.extend(start_made(container, attempt, run)),
            ContainerState::Unknown => {
                run.kill.push(kill_unknown(attempt, "Init container"));
                if effective_policy(pod, container) == RestartPolicy::Never {
                    return Init::Failed;
                }
            }
            ContainerState::Running if !sidecar => {}
            ContainerState::Running => {
                let found = health(&attempt.id);
                if found.not_started {
                    run.kill.push(kill_sidecar(attempt, StopCause::NotStarted, "failed startup probe"));
                } else if found.started {
                    passed = true;
                    if attempt.hash != container.hash {
                        run.kill.push(kill_sidecar(attempt, StopCause::DefinitionChanged, "definition changed"));
                    } else if found.unhealthy {
                        run.kill.push(kill_sidecar(attempt, StopCause::Unhealthy, "failed liveness probe"));
                    }
                }
            }
            ContainerState::Exited => {
                let failed = attempt.exit_code != 0 || attempt.reason == "OOMKilled";
                if sidecar || health(&attempt.id).owed {
                    next.push(start(container, From::Exited(attempt.id.clone())));
                } else if !failed {
                    passed = true;
                } else if again(pod, container, attempt, health) {
                    next.push(start(container, From::Exited(attempt.id.clone())));
                } else {
                    return Init::Failed;
                }
            }
        }
        if !decided {
            decided = true;
            if passed {
                match inits.get(i + 1) {
                    None => outcome = Init::Done,
                    Some(following) => next.push(start(following, From::Nothing)),
                }
            }
        }
    }
    if !decided {
        next.push(start(inits[0], From::Nothing));
    }
    // Found from the last to the first; started from the first to the last.
    next.sort_by_key(|s| inits.iter().position(|c| c.name == s.name));
    run.start.extend(next);
    outcome
}

/// App containers. False when none runs and none is to be started: the pod has run to its end.
pub(super) fn apps(
    pod: &Pod,
    have: &Observed,
    sandbox: &SandboxId,
    health: &dyn Fn(&ContainerId) -> Health,
    run: &mut Run,
) -> bool {
    let mut kept = false;
    for container in pod.app_containers() {
        let name = container.name.as_str();
        let Some(attempt) = have.of(name).find(|a| is_live(a) && !is_late(have, a)).or_else(|| have.newest(name)) else {
            run.start.push(start(container, From::Nothing));
            continue;
        };
        let here = attempt.sandbox == *sandbox;
        let never = effective_policy(pod, container) == RestartPolicy::Never;
        match attempt.state {
            ContainerState::Created => {
                kept = true;
                // One of another sandbox is being removed: see `strays`.
                let made = if here { start_made(container, attempt, run) } else { None };
                run.start.extend(made);
            }
            ContainerState::Unknown => {
                run.kill.push(kill_unknown(attempt, "Container"));
                kept = true;
            }
            ContainerState::Exited => {
                if again(pod, container, attempt, health) {
                    run.start.push(start(container, From::Exited(attempt.id.clone())));
                }
            }
            ContainerState::Running => {
                let found = health(&attempt.id);
                // One that its probe ends for good does not keep the pod; by which code it ends, and what a rule says to that, shows later.
                let for_good = never && container.restart_rules.is_empty();
                kept |= !(here && for_good && attempt.hash == container.hash && (found.unhealthy || found.not_started));
                if !here {
                    // Being stopped: see `strays`.
                } else if attempt.hash != container.hash {
                    run.kill.push(kill_app(attempt, StopCause::DefinitionChanged, "definition changed", true));
                } else if found.unhealthy {
                    run.kill.push(kill_app(attempt, StopCause::Unhealthy, "failed liveness probe", !never));
                } else if found.not_started {
                    run.kill.push(kill_app(attempt, StopCause::NotStarted, "failed startup probe", !never));
                }
            }
        }
    }
    kept || run.start.iter().any(|s| pod.container(s.name.as_str()).is_some_and(|c| c.kind == ContainerKind::App))
}

/// The attempt in this sandbox that decides; attempts of older sandboxes tell nothing of this one's initialisation.
fn live_or_newest<'a>(have: &'a Observed, name: &str, sandbox: &SandboxId) -> Option<&'a Attempt> {
    let here = || have.of(name).filter(|a| a.sandbox == *sandbox && !is_late(have, a));
    here().find(|a| is_live(a)).or_else(|| here().next())
}

fn start(container: &Container, from: From) -> Start {
    Start { name: container.name.clone(), from }
}

/// The start of one that is made; one that was made after another definition is removed instead.
fn start_made(container: &Container, attempt: &Attempt, run: &mut Run) -> Option<Start> {
    if attempt.hash == container.hash {
        return Some(start(container, From::Created(attempt.id.clone())));
    }
    run.prune.push(attempt.id.clone());
    None
}

fn kill(attempt: &Attempt, cause: StopCause, what: &str) -> Kill {
    let message = format!("Container {} {what}", attempt.name);
    Kill { id: attempt.id.clone(), name: attempt.name.clone(), cause, message }
}

fn kill_unknown(attempt: &Attempt, kind: &str) -> Kill {
    let message = format!("{kind} is in \"unknown\" state, try killing it before restart");
    Kill { id: attempt.id.clone(), name: attempt.name.clone(), cause: StopCause::UnknownState, message }
}

fn kill_app(attempt: &Attempt, cause: StopCause, what: &str, restart: bool) -> Kill {
    let then = if restart { ", will be restarted" } else { "" };
    let message = format!("Container {} {what}{then}", attempt.name);
    Kill { id: attempt.id.clone(), name: attempt.name.clone(), cause, message }
}

fn kill_sidecar(attempt: &Attempt, cause: StopCause, what: &str) -> Kill {
    let message = format!("Init container {} {what}", attempt.name);
    Kill { id: attempt.id.clone(), name: attempt.name.clone(), cause, message }
}
