//! What goes wrong in a world, and what people change in it.

use polylet_core::effect::Act;
use polylet_core::event::Event;
use polylet_core::id::{ContainerId, PodUid};
use polylet_core::observed::{ContainerState, SandboxState};
use polylet_core::pod::Source;

use super::CALM;
use super::manifest;
use super::policy;
use super::runtime::Live;
use super::world::{Fault, Todo, World};

impl World {
    pub(super) fn fault(&mut self, fault: Fault) {
        self.say(|| format!("!! {fault:?}"));
        match fault {
            Fault::KillContainer => {
                let running: Vec<ContainerId> = self
                    .rt
                    .containers
                    .iter()
                    .filter(|c| c.seen.state == ContainerState::Running)
                    .map(|c| c.seen.id.clone())
                    .collect();
                if !running.is_empty() {
                    let id = running[self.rng.below(running.len() as u64) as usize].clone();
                    self.exit(&id, 137, None);
                }
            }
            Fault::KillSandbox => {
                let n = self.rt.sandboxes.len() as u64;
                if n > 0 {
                    let id = self.rt.sandboxes[self.rng.below(n) as usize].2.id.clone();
                    let wall = self.clock().wall;
                    let _ = self.rt.carry_out(&Act::StopSandbox { id }, wall);
                }
            }
            Fault::Crash => self.crash(),
            Fault::Reboot => {
                let wall = self.clock().wall;
                self.rt.reboot(wall);
                self.booted = self.now;
                self.crash();
            }
            Fault::ClockJump => {
                self.check.graces.jumps(self.now);
                let by = self.rng.below(7_200_000) as i64 - 3_600_000;
                self.jump += by;
            }
            Fault::Edit => self.edit(),
            Fault::Swap => {
                self.generation += 1;
                let calm = self.calm();
                let bindings = policy::draw(&mut self.rng, self.generation, calm);
                self.step(Event::Policies(bindings));
            }
            Fault::RuntimeAway => {
                let life = self.life;
                self.at(self.now, Todo::Runtime { life, up: false });
                let back = self.now + self.rng.below(10_000);
                self.at(back, Todo::Runtime { life, up: true });
            }
            Fault::NetworkAway => {
                let life = self.life;
                self.at(self.now, Todo::Network { life, up: false });
                let back = self.now + self.rng.below(10_000);
                self.at(back, Todo::Network { life, up: true });
            }
            Fault::UnknownContainer => self.lose_container(),
            Fault::UnknownSandbox => self.lose_sandbox(),
            Fault::DiskFull(full) => {
                self.disk_full = full;
                // A full disk costs memory of the past.
                self.check.forgetful = true;
            }
            Fault::RegistryAway(away) => self.registry_away = away,
            Fault::MemoryShort(short) => {
                self.memory_short = short;
                self.check.was_short |= short;
            }
        }
    }

    /// The newest attempt of some container, running or not: the runtime cannot tell.
    fn lose_container(&mut self) {
        let newest = |live: &&Live| {
            let same = self.rt.containers.iter().filter(|c| c.uid == live.uid && c.seen.name == live.seen.name);
            same.map(|c| c.seen.attempt).max() == Some(live.seen.attempt)
        };
        // In a sandbox that is gone, nothing runs.
        let ready =
            |live: &&Live| self.rt.sandboxes.iter().any(|(_, _, s)| s.id == live.seen.sandbox && s.state == SandboxState::Ready);
        let runs = |live: &&Live| matches!(live.seen.state, ContainerState::Running | ContainerState::Exited) && ready(live);
        let all = self.rt.containers.iter().filter(runs).filter(newest).filter(|c| !self.rt.ghosts.contains(&c.seen.id));
        let all: Vec<ContainerId> = all.map(|c| c.seen.id.clone()).collect();
        if all.is_empty() {
            return;
        }
        let id = all[self.rng.below(all.len() as u64) as usize].clone();
        self.say(|| format!("!! {id} is unknown"));
        self.rt.unknown.insert(id.clone());
        self.check.was_unknown.insert(id.clone());
        let back = (self.now + 1_000 + self.rng.below(30_000)).min(CALM);
        self.at(back, Todo::Known(id));
    }

    fn lose_sandbox(&mut self) {
        let n = self.rt.sandboxes.len() as u64;
        if n > 0 {
            let id = self.rt.sandboxes[self.rng.below(n) as usize].2.id.clone();
            self.say(|| format!("!! {id} is unknown"));
            self.rt.hidden.insert(id.clone(), "no such task".into());
            let back = (self.now + 1_000 + self.rng.below(20_000)).min(CALM);
            self.at(back, Todo::Found(id));
        }
    }

    pub(super) fn crash(&mut self) {
        self.say(|| "!! the agent dies".into());
        self.check.dies();
        self.begin_life();
    }

    fn edit(&mut self) {
        let uids: Vec<PodUid> = self.declared.keys().cloned().collect();
        match self.rng.below(6) {
            0 => self.add_pod(),
            1 if !uids.is_empty() => {
                let uid = &uids[self.rng.below(uids.len() as u64) as usize];
                self.declared.remove(uid);
            }
            2 if !uids.is_empty() => {
                let uid = &uids[self.rng.below(uids.len() as u64) as usize];
                let image = format!("img{}:1", self.rng.below(3));
                let new = manifest::edited(&self.declared[uid], &image);
                self.check.edited.insert(uid.clone());
                self.ever.insert(uid.clone(), new.clone());
                self.declared.insert(uid.clone(), new);
            }
            3 => {
                let pods: Vec<PodUid> = uids.into_iter().filter(|u| self.declared[u].pod.source == Source::Api).collect();
                if !pods.is_empty() {
                    let uid = pods[self.rng.below(pods.len() as u64) as usize].clone();
                    let new = manifest::debugged(&mut self.rng, &self.declared[&uid]);
                    self.ever.insert(uid.clone(), new.clone());
                    self.declared.insert(uid, new);
                }
            }
            4 => {
                let pods: Vec<PodUid> = uids.into_iter().filter(|u| self.declared[u].pod.source == Source::Api).collect();
                if !pods.is_empty() {
                    let uid = pods[self.rng.below(pods.len() as u64) as usize].clone();
                    let new = manifest::deleted(&mut self.rng, &self.declared[&uid]);
                    self.ever.insert(uid.clone(), new.clone());
                    self.declared.insert(uid.clone(), new);
                    let at = self.now + self.rng.below(30_000);
                    self.at(at, Todo::Gone(uid));
                }
            }
            _ => {
                // A UID that was dropped comes back.
                let gone: Vec<PodUid> = self
                    .ever
                    .keys()
                    .filter(|u| !self.declared.contains_key(*u) && self.ever[*u].pod.deletion.is_none())
                    .filter(|u| !self.declared.values().any(|p| p.pod.name == self.ever[*u].pod.name))
                    .cloned()
                    .collect();
                if !gone.is_empty() {
                    let uid = gone[self.rng.below(gone.len() as u64) as usize].clone();
                    let pod = self.ever[&uid].clone();
                    self.declared.insert(uid, pod);
                }
            }
        }
        let at = self.now + self.rng.below(300);
        let life = self.life;
        self.at(at, Todo::Sync { life });
    }
}
