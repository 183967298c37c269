//! The kernel side: cgroups, statistics, volumes, CNI configuration. Everything here is synchronous: the agent calls it on threads
//! that may block.
//!
//! Reading order:
//! - what a pod is given: [`cgroup`], [`volume`], [`userns`], [`hosts`], [`logs`]
//! - what it uses: [`stats`]
//! - what the node is: [`facts`], [`network`], [`root`], [`lock`], [`tunables`]
//!
//! **Invariant:** nothing here decides about a pod, remembers one, or talks to a peer other than the kernel.

mod mountinfo;
mod walk;

pub mod cgroup;
pub mod facts;
pub mod hosts;
pub mod lock;
pub mod logs;
pub mod network;
pub mod root;
pub mod stats;
pub mod tunables;
pub mod userns;
pub mod volume;

#[cfg(test)]
mod testing;
