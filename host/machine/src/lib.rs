//! The kernel side: cgroups, statistics, volumes, CNI configuration. Everything here is synchronous: the agent calls it on threads
//! that may block.

mod mountinfo;

pub mod cgroup;
pub mod facts;

#[cfg(test)]
mod testing;
