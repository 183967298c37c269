//! The simulated runtime: what it has, and what its calls do to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use polylet_core::effect::Act;
use polylet_core::event::{CallError, CallErrorKind, Leftover, Outcome};
use polylet_core::id::{ContainerId, PodUid, SandboxId};
use polylet_core::observed::{Container, ContainerState, Image, Listing, Observed, Sandbox, SandboxState};
use polylet_core::time::Wall;

/// A container with what the node cannot see of it.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) uid: PodUid,
    pub(crate) seen: Container,
    /// It will end by itself then (virtual time), with this code.
    pub(crate) ends: Option<(u64, i32)>,
    /// TERM was sent: it will be gone by then.
    pub(crate) dying: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Runtime {
    pub(crate) sandboxes: Vec<(PodUid, String, Sandbox)>,
    pub(crate) containers: Vec<Live>,
    pub(crate) images: BTreeMap<String, u32>,
    /// Containers that it lists, and does not find when they are to be removed.
    pub(crate) ghosts: BTreeSet<ContainerId>,
    /// Containers whose state it cannot tell, whatever it is.
    pub(crate) unknown: BTreeSet<ContainerId>,
    /// Sandboxes that it lists, and whose status it does not give: why.
    pub(crate) hidden: BTreeMap<SandboxId, String>,
    /// Pods that have directories and cgroups on the machine.
    pub(crate) prepared: BTreeSet<PodUid>,
    next: u64,
}

impl Runtime {
    pub(crate) fn listing(&self) -> Listing {
        let mut listing = Listing::default();
        for (uid, name, sandbox) in &self.sandboxes {
            let summary = listing.pods.entry(uid.clone()).or_default();
            summary.name.clone_from(name);
            summary.sandboxes.insert(sandbox.id.clone(), sandbox.state);
        }
        for live in &self.containers {
            let summary = listing.pods.entry(live.uid.clone()).or_default();
            summary.containers.insert(live.seen.id.clone(), self.shown(&live.seen).state);
        }
        for summary in listing.pods.values_mut() {
            "default".clone_into(&mut summary.namespace);
        }
        listing
    }

    pub(crate) fn observe(&self, uid: &PodUid) -> Observed {
        let mine = |u: &PodUid| u == uid;
        let mut sandboxes: Vec<Sandbox> =
            self.sandboxes.iter().filter(|(u, _, _)| mine(u)).map(|(_, _, s)| self.status_of(s)).collect();
        sandboxes.sort_by_key(|s| std::cmp::Reverse((s.attempt, s.created)));
        let mut containers: Vec<Container> =
            self.containers.iter().filter(|c| mine(&c.uid)).map(|c| self.shown(&c.seen)).collect();
        containers.sort_by_key(|c| std::cmp::Reverse((c.attempt, c.created)));
        let name = self.sandboxes.iter().find(|(u, _, _)| mine(u)).map(|(_, n, _)| n.clone()).unwrap_or_default();
        Observed { name, namespace: "default".into(), sandboxes, containers }
    }

    /// A container as the runtime reports it.
    fn shown(&self, container: &Container) -> Container {
        if !self.unknown.contains(&container.id) {
            return container.clone();
        }
        let (reason, message) = (String::new(), String::new());
        Container { state: ContainerState::Unknown, finished: None, exit_code: 0, reason, message, ..container.clone() }
    }

    /// A sandbox as a look at its status shows it.
    fn status_of(&self, sandbox: &Sandbox) -> Sandbox {
        let Some(trouble) = self.hidden.get(&sandbox.id) else { return sandbox.clone() };
        Sandbox {
            state: SandboxState::Unknown,
            ips: Vec::new(),
            has_network: false,
            host_network: false,
            trouble: Some(trouble.clone()),
            ..sandbox.clone()
        }
    }

    /// Carries a call out. Calls are idempotent, as the adapter makes them.
    pub(crate) fn carry_out(&mut self, act: &Act, wall: Wall) -> Result<Outcome, CallError> {
        match act {
            Act::InspectImage { image } => Ok(Outcome::Image(self.images.contains_key(image).then(|| picture(image)))),
            Act::PullImage { image, .. } => {
                *self.images.entry(image.clone()).or_default() += 1;
                Ok(Outcome::Pulled { image: picture(image), took: Duration::from_millis(5) })
            }
            Act::RunSandbox { pod, attempt, .. } => {
                let known = self.sandboxes.iter().find(|(u, _, s)| *u == pod.uid && s.attempt == *attempt);
                if let Some((_, _, sandbox)) = known {
                    return match sandbox.state {
                        SandboxState::Ready => Ok(Outcome::Sandbox(sandbox.id.clone())),
                        _ => Err(error("RunPodSandbox", pod.uid.as_str(), CallErrorKind::AlreadyExists)),
                    };
                }
                let id = SandboxId::from(format!("s{}", self.number()));
                self.sandboxes.push((
                    pod.uid.clone(),
                    pod.name.clone(),
                    Sandbox {
                        id: id.clone(),
                        attempt: *attempt,
                        state: SandboxState::Ready,
                        created: wall,
                        ips: if pod.host_network { vec![] } else { vec!["10.0.0.1".into()] },
                        has_network: !pod.host_network,
                        trouble: None,
                        host_network: pod.host_network,
                        runtime_handler: String::new(),
                    },
                ));
                Ok(Outcome::Sandbox(id))
            }
            Act::CreateContainer { pod, container, attempt, sandbox, image, target, .. } => {
                if !self.sandboxes.iter().any(|(_, _, s)| s.id == *sandbox && s.state == SandboxState::Ready) {
                    return Err(error("CreateContainer", container.as_str(), CallErrorKind::NotFound));
                }
                let same = |c: &&Live| c.uid == pod.uid && c.seen.name == *container && c.seen.attempt == *attempt;
                if let Some(known) = self.containers.iter().find(same) {
                    return match known.seen.state {
                        ContainerState::Created => Ok(Outcome::Container(known.seen.id.clone())),
                        _ => Err(error("CreateContainer", container.as_str(), CallErrorKind::AlreadyExists)),
                    };
                }
                let spec = pod.container(container.as_str()).expect("created from the spec");
                let shared = pod.object.spec.as_ref().and_then(|spec| spec.share_process_namespace) == Some(true);
                if pod.target_of(spec).is_some() && target.is_none() && !shared {
                    return Err(error("CreateContainer", container.as_str(), CallErrorKind::Config));
                }
                let id = ContainerId::from(format!("k{}", self.number()));
                self.containers.push(Live {
                    uid: pod.uid.clone(),
                    seen: Container {
                        id: id.clone(),
                        name: container.clone(),
                        sandbox: sandbox.clone(),
                        attempt: *attempt,
                        state: ContainerState::Created,
                        created: wall,
                        started: None,
                        finished: None,
                        exit_code: 0,
                        reason: String::new(),
                        message: String::new(),
                        image: spec.image.clone(),
                        image_ref: image.reference.clone(),
                        hash: spec.hash.clone(),
                        annotations: BTreeMap::new(),
                        pre_stop: None,
                        stop_signal: None,
                        recursively_read_only: Default::default(),
                        user: None,
                    },
                    ends: None,
                    dying: None,
                });
                Ok(Outcome::Container(id))
            }
            Act::RemoveContainer { id, .. } => {
                if self.find(id).is_some_and(|c| c.seen.state == ContainerState::Running) {
                    return Err(error("RemoveContainer", id.as_str(), CallErrorKind::Other));
                }
                self.containers.retain(|c| c.seen.id != *id || self.ghosts.contains(id));
                Ok(Outcome::Unit)
            }
            Act::StopSandbox { id } => {
                for (_, _, sandbox) in self.sandboxes.iter_mut().filter(|(_, _, s)| s.id == *id) {
                    sandbox.state = SandboxState::NotReady;
                }
                for live in self.containers.iter_mut().filter(|c| c.seen.sandbox == *id) {
                    live.end(wall, 137);
                    self.unknown.remove(&live.seen.id);
                }
                Ok(Outcome::Unit)
            }
            Act::RemoveSandbox { id } => {
                if !self.is_haunted(id) {
                    self.sandboxes.retain(|(_, _, s)| s.id != *id);
                    self.containers.retain(|c| c.seen.sandbox != *id);
                }
                Ok(Outcome::Unit)
            }
            Act::Prepare { pod, .. } => {
                self.prepared.insert(pod.uid.clone());
                Ok(Outcome::Prepared { logged: BTreeMap::new() })
            }
            Act::CleanUp { pod, .. } => {
                self.prepared.remove(pod);
                Ok(Outcome::Unit)
            }
            Act::FindLeftovers => {
                let left = |uid: &PodUid| (uid.clone(), Leftover::default());
                Ok(Outcome::Leftovers(self.prepared.iter().map(left).collect()))
            }
            _ => Ok(Outcome::Unit),
        }
    }

    pub(crate) fn find(&mut self, id: &ContainerId) -> Option<&mut Live> {
        self.containers.iter_mut().find(|c| c.seen.id == *id)
    }

    /// A sandbox with such a container in it cannot be removed either.
    pub(crate) fn is_haunted(&self, id: &SandboxId) -> bool {
        self.containers.iter().any(|c| c.seen.sandbox == *id && self.ghosts.contains(&c.seen.id))
    }

    /// Power is lost: nothing runs any more.
    pub(crate) fn reboot(&mut self, wall: Wall) {
        for (_, _, sandbox) in &mut self.sandboxes {
            sandbox.state = SandboxState::NotReady;
        }
        for live in &mut self.containers {
            live.end(wall, 255);
        }
        self.unknown.clear();
        self.hidden.clear();
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Live {
    /// The process is gone.
    pub(crate) fn end(&mut self, wall: Wall, code: i32) {
        if matches!(self.seen.state, ContainerState::Running | ContainerState::Unknown) {
            self.seen.state = ContainerState::Exited;
            self.seen.finished = Some(wall);
            self.seen.exit_code = code;
            self.seen.reason = if code == 0 { "Completed" } else { "Error" }.into();
            self.ends = None;
            self.dying = None;
        }
    }
}

pub(crate) fn error(operation: &str, object: &str, kind: CallErrorKind) -> CallError {
    CallError { operation: operation.into(), object: object.into(), kind, message: format!("simulated {kind:?}") }
}

fn picture(image: &str) -> Image {
    Image { id: format!("sha256:{image}"), reference: image.into(), size: 1, uid: None, username: String::new() }
}
