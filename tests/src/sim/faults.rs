//! What goes wrong in a world, what people change in it, and what must have become of it in the end.

use std::collections::BTreeSet;

use polylet_core::effect::Act;
use polylet_core::event::Event;
use polylet_core::id::{ContainerId, PodUid};
use polylet_core::observed::ContainerState;
use polylet_core::pod::Source;

use super::END;
use super::manifest::{self, Program};
use super::policy;
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

    pub(super) fn crash(&mut self) {
        self.say(|| "!! the agent dies".into());
        self.check.dies();
        self.begin_life();
    }

    fn edit(&mut self) {
        let uids: Vec<PodUid> = self.declared.keys().cloned().collect();
        match self.rng.below(5) {
            0 => self.add_pod(),
            1 if !uids.is_empty() => {
                let uid = &uids[self.rng.below(uids.len() as u64) as usize];
                self.declared.remove(uid);
            }
            2 if !uids.is_empty() => {
                let uid = &uids[self.rng.below(uids.len() as u64) as usize];
                let image = format!("img{}:1", self.rng.below(3));
                let new = manifest::edited(&self.declared[uid], &image);
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
            _ => {
                // A UID that was dropped comes back.
                let gone: Vec<PodUid> = self
                    .ever
                    .keys()
                    .filter(|u| !self.declared.contains_key(*u))
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

    /// Faults have long stopped: the node must have come to rest where the spec wants it.
    pub(super) fn converged(&self) -> Result<(), String> {
        for (uid, sim) in &self.declared {
            let pod = &sim.pod;
            let running = |name: &str| {
                self.rt
                    .containers
                    .iter()
                    .filter(|c| c.uid == *uid && c.seen.name.as_str() == name && c.seen.state == ContainerState::Running)
                    .count()
            };
            let phase = self.check.phase(uid).unwrap_or("none");
            let ended = phase == "Succeeded" || phase == "Failed";
            let evicted = phase == "Failed" && self.check.evicted.contains(uid);
            for container in pod.containers.iter() {
                let name = container.name.as_str();
                let serves = match sim.programs[name] {
                    Program::Serves => true,
                    Program::FailsFirst { then_serves, .. } => then_serves,
                    Program::Ends { .. } => false,
                };
                let want = usize::from(serves && !ended);
                if running(name) != want {
                    return Err(format!("{name} of {uid} ({phase}) runs {} times, not {want}", running(name)));
                }
                let listed = self.rt.containers.iter().filter(|c| !self.rt.ghosts.contains(&c.seen.id));
                let dead = listed.filter(|c| c.uid == *uid && c.seen.name.as_str() == name).count();
                if dead > want + 1 {
                    return Err(format!("{dead} attempts of {name} of {uid} are kept"));
                }
            }
            let must_serve = pod.restart_policy == polylet_core::pod::RestartPolicy::Always;
            if must_serve && phase != "Running" && !evicted {
                return Err(format!("{uid} should be Running, is {phase}"));
            }
            if !must_serve && !ended {
                return Err(format!("{uid} should have ended, is {phase}"));
            }
        }
        let left: BTreeSet<&PodUid> = self
            .rt
            .containers
            .iter()
            .filter(|c| !self.rt.ghosts.contains(&c.seen.id))
            .map(|c| &c.uid)
            .chain(self.rt.sandboxes.iter().filter(|(_, _, s)| !self.rt.is_haunted(&s.id)).map(|(u, _, _)| u))
            .chain(self.store.keys())
            .chain(&self.rt.prepared)
            .chain(self.node.pods())
            .filter(|u| !self.declared.contains_key(*u))
            .collect();
        if !left.is_empty() {
            return Err(format!("of pods that nobody declares, something is left: {left:?}"));
        }
        if self.recent.iter().any(|t| t + 10_000 > END) {
            return Err("the node does not come to rest".into());
        }
        Ok(())
    }
}
