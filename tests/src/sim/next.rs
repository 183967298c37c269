//! What a look says is to be begun of a pod next: written anew here, and for the plainest kind of pod only, so that the core is measured
//! by something else than itself.

use polylet_core::observed::{Container as Attempt, ContainerState, Observed, SandboxState};
use polylet_core::pod::{Container, ContainerKind, Pod, PullPolicy, RestartAction, RestartPolicy};

use super::progress::is_live;

/// Images that every world has from its beginning: nobody waits for them.
pub(super) const PRESENT: [&str; 2] = ["img0:1", "img1:1"];

/// Something to be begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// An attempt of it has ended: its delay has been decided, or is about to be.
    pub(super) ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Sandbox,
    Container,
}

/// A rule of the pod may ask for a restart of all containers: what was decided of one is void then.
pub(super) fn starts_over(pod: &Pod) -> bool {
    pod.containers.iter().any(|c| c.restart_rules.iter().any(|r| r.action == RestartAction::RestartAllContainers))
}

/// What comes after a sidecar waits until its hook and its startup probe have succeeded.
pub(super) fn waits_for_startup(pod: &Pod) -> bool {
    pod.of_kind(ContainerKind::Sidecar).any(|c| c.probes.startup.is_some() || c.post_start.is_some())
}

/// What may be begun at once, each by itself. Empty where nothing is to be begun, or something is waited for.
pub(super) fn next(pod: &Pod, have: &Observed) -> Vec<Next> {
    let ends = pod.deletion.is_some() || pod.active_deadline.is_some();
    if pod.restart_policy != RestartPolicy::Always || ends || waits_for_startup(pod) {
        return Vec::new();
    }
    // What cannot be told is looked at again.
    let unknown = have.containers.iter().any(|c| c.state == ContainerState::Unknown)
        || have.sandboxes.iter().any(|s| s.state == SandboxState::Unknown);
    let ready: Vec<_> = have.sandboxes.iter().filter(|s| s.state == SandboxState::Ready).collect();
    if unknown || ready.len() > 1 {
        return Vec::new();
    }
    let live = |c: &&Attempt| is_live(c);
    let Some(sandbox) = ready.first() else {
        let ending = have.containers.iter().any(|c| is_live(c) && c.state != ContainerState::Created);
        let next = Next { kind: Kind::Sandbox, name: "the sandbox".into(), ended: false };
        return if ending { Vec::new() } else { vec![next] };
    };
    // Strays and twins are being stopped.
    let stray = have.containers.iter().any(|c| is_live(c) && c.sandbox != sandbox.id);
    let twin = pod.containers.iter().any(|c| have.of(c.name.as_str()).filter(live).count() > 1);
    if stray || twin {
        return Vec::new();
    }
    let mut all = Vec::new();
    let here = |c: &Container| {
        let mine = || have.of(c.name.as_str()).filter(|a| a.sandbox == sandbox.id);
        mine().find(live).or_else(|| mine().next())
    };
    let runs = |c: &Container| here(c).is_some_and(|a| a.state == ContainerState::Running);
    let inits: Vec<&Container> = pod.init_containers().collect();
    let initialised = pod.app_containers().any(runs);
    let reached = if initialised { Some(inits.len()) } else { inits.iter().rposition(|c| here(c).is_some()) };
    let Some(reached) = reached else {
        if let Some(first) = inits.first() {
            let _ = add(&mut all, first, None);
            return all;
        }
        apps(pod, have, &mut all);
        return all;
    };
    for sidecar in inits.iter().take(reached).filter(|c| c.kind == ContainerKind::Sidecar) {
        if !runs(sidecar) && !add(&mut all, sidecar, here(sidecar)) {
            return all;
        }
    }
    let mut through = true;
    if let Some((last, attempt)) = inits.get(reached).and_then(|c| Some((c, here(c)?))) {
        through = match attempt.state {
            ContainerState::Running => last.kind == ContainerKind::Sidecar,
            ContainerState::Exited => last.kind == ContainerKind::Init && attempt.exit_code == 0,
            ContainerState::Created | ContainerState::Unknown => false,
        };
        if through && let Some(following) = inits.get(reached + 1) {
            let _ = add(&mut all, following, None);
            return all;
        }
        if !through && attempt.state != ContainerState::Running {
            let _ = add(&mut all, last, Some(attempt));
        }
    }
    if through {
        apps(pod, have, &mut all);
    }
    all
}

fn apps(pod: &Pod, have: &Observed, all: &mut Vec<Next>) {
    for app in pod.app_containers() {
        let newest = have.of(app.name.as_str()).find(|a| is_live(a)).or_else(|| have.newest(app.name.as_str()));
        if newest.is_none_or(|a| a.state != ContainerState::Running) && !add(all, app, newest) {
            return;
        }
    }
}

/// All images that a container needs, with their pull policies.
pub(super) fn images(container: &Container) -> impl Iterator<Item = (&str, PullPolicy)> {
    let mounted = container.image_volumes.iter().map(|v| (v.image.as_str(), v.pull_policy));
    std::iter::once((container.image.as_str(), container.pull_policy)).chain(mounted)
}

/// False where what follows may have to wait for it.
fn add(all: &mut Vec<Next>, container: &Container, from: Option<&Attempt>) -> bool {
    let made = from.is_some_and(|a| a.state == ContainerState::Created);
    let pulls = images(container).any(|(image, policy)| policy == PullPolicy::Always || !PRESENT.contains(&image));
    let ended = from.is_some_and(|a| a.state == ContainerState::Exited);
    if made || !pulls {
        all.push(Next { kind: Kind::Container, name: container.name.as_str().to_owned(), ended });
        return true;
    }
    ended
}
