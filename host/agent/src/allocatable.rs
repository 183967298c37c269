//! What all pods together may have: the limits of their cgroup, set at start, and again for as long as the kernel refuses them.

use std::sync::Arc;
use std::time::Duration;

use polylet_core::say::{About, Say};
use polylet_machine::cgroup::{CgroupError, CgroupTree, NodeLimits};
use polylet_machine::facts::{self, MachineFacts};
use tokio_util::sync::CancellationToken;

use crate::events::Events;
use crate::perform::chain;
use crate::settings::Settings;
use crate::tell;

const AGAIN: Duration = Duration::from_secs(60);

/// What the machine has, less what is reserved where `enforceNodeAllocatable` holds `pods`. What hard thresholds of eviction keep free
/// is not taken off.
pub fn limits(settings: &Settings, machine: &MachineFacts) -> NodeLimits {
    let less = |capacity: u64, reserved: u64| if settings.enforce_pods { capacity.saturating_sub(reserved) } else { capacity };
    NodeLimits {
        cpu: less(machine.cpus * 1000, settings.reserved_cpu),
        memory: less(machine.memory, settings.reserved_memory),
        pids: less(machine.max_pids, settings.reserved_pids),
        huge_pages: machine.huge_pages.clone(),
    }
}

/// Makes the cgroups of pods and sets the limits: whether they hold. Blocks.
///
/// # Errors
/// The cgroups cannot be made.
pub fn enforce(tree: &CgroupTree, limits: &NodeLimits, events: &Events) -> Result<bool, CgroupError> {
    let tried = tree.ensure_node(limits);
    let (reason, message) = match &tried {
        Ok(()) => ("NodeAllocatableEnforced", "Updated Node Allocatable limit across pods".to_owned()),
        Err(error @ CgroupError::Limits(_)) => {
            ("FailedNodeAllocatableEnforcement", format!("Failed to update Node Allocatable Limits: {}", chain(error)))
        }
        Err(_) => return tried.map(|()| false),
    };
    let say = Say { about: About::Node, warning: tried.is_err(), reason, message };
    tell::event(&say, events, facts::now().wall);
    Ok(tried.is_ok())
}

/// Tries again each minute, until the limits hold or the agent stops: pods that use too much are evicted meanwhile.
pub async fn enforce_later(tree: CgroupTree, limits: NodeLimits, events: Arc<Events>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(AGAIN) => {}
        }
        let (tree, limits, events) = (tree.clone(), limits.clone(), events.clone());
        match tokio::task::spawn_blocking(move || enforce(&tree, &limits, &events)).await {
            Ok(Ok(false)) => {}
            Ok(Err(error)) => tracing::warn!(error = chain(&error), "the pods together are not limited yet"),
            Ok(Ok(true)) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_is_taken_off_where_it_is_enforced() {
        let machine = MachineFacts {
            memory: 8 << 30,
            swap: 0,
            cpus: 4,
            page_size: 4096,
            boot_id: String::new(),
            max_pids: 30_000,
            huge_pages: [(2 << 20, 64 << 20)].into(),
            apparmor: false,
        };
        let mut settings = Settings::below("/var/lib/kubelet", "n1");
        (settings.reserved_cpu, settings.reserved_memory, settings.reserved_pids) = (500, 1 << 30, 1000);
        let huge_pages = machine.huge_pages.clone();
        let enforced = NodeLimits { cpu: 3500, memory: 7 << 30, pids: 29_000, huge_pages };
        assert_eq!(limits(&settings, &machine), enforced);
        settings.enforce_pods = false;
        assert_eq!(limits(&settings, &machine), NodeLimits { cpu: 4000, memory: 8 << 30, pids: 30_000, ..enforced });
    }
}
