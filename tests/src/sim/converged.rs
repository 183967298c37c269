//! What must have become of a world in the end.

use std::collections::BTreeSet;

use polylet_core::id::PodUid;
use polylet_core::observed::ContainerState;

use super::END;
use super::manifest::Program;
use super::rule::{Kept, Rule};
use super::world::World;

impl World {
    /// Faults have long stopped: the node must have come to rest where the spec wants it.
    pub(super) fn converged(&self) -> Kept {
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
                    return Rule::Converged.broken(format!("{name} of {uid} ({phase}) runs {} times, not {want}", running(name)));
                }
                let listed = self.rt.containers.iter().filter(|c| !self.rt.ghosts.contains(&c.seen.id));
                let dead = listed.filter(|c| c.uid == *uid && c.seen.name.as_str() == name).count();
                if dead > want + 1 {
                    return Rule::Left.broken(format!("{dead} attempts of {name} of {uid} are kept"));
                }
            }
            let has_deadline = pod.active_deadline.is_some() && !self.check.graces.clock_has_jumped();
            if has_deadline && !ended {
                return Rule::Deadline.broken(format!("the deadline of {uid} has passed, and it is {phase}"));
            }
            let must_serve = pod.restart_policy == polylet_core::pod::RestartPolicy::Always && !self.check.late.contains(uid);
            if must_serve && phase != "Running" && !evicted {
                return Rule::Converged.broken(format!("{uid} should be Running, is {phase}"));
            }
            if pod.restart_policy != polylet_core::pod::RestartPolicy::Always && !ended {
                return Rule::Converged.broken(format!("{uid} should have ended, is {phase}"));
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
            return Rule::Left.broken(format!("of pods that nobody declares, something is left: {left:?}"));
        }
        if self.recent.iter().any(|t| t + 10_000 > END) {
            return Rule::Pace.broken("the node does not come to rest");
        }
        Ok(())
    }
}
