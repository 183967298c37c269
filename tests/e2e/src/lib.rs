//! A node to test: containerd from `tests/lab`, the agent on it, pods from manifests, and ways to look at what became of them.
//!
//! ```text
//! Node   tests/lab/node.sh up … down, the agent as a child process; gone when it is dropped, even by a panic
//!  └ Pod     one manifest in the static directory; removed when it is dropped
//!     ├ View      what the agent says of it: its status, and what stands beside it
//!     └ Real      what the runtime says: containers, their processes, cgroups, logs
//! ```
//!
//! Whoever waits says for what, and is told on failure what the agent saw and logged. Needs root and what
//! `tests/lab/install.sh` installs; the agent is `POLYLET_BIN`, or the one built beside the tests.

mod agent;
mod cgroup;
mod kubelet;
mod net;
mod node;
mod pod;
mod policy;
mod real;
mod registry;
mod terminal;
mod view;
mod wait;

pub use cgroup::Cgroup;
pub use kubelet::{Kubelet, kubelet};
pub use net::{Document, Health, Listening, Network};
pub use node::{Node, down_on_signals};
pub use pod::{Pod, broken_manifests};
pub use policy::{Decisions, policy_file};
pub use polylet_runtime::cri;
pub use real::{Process, Ran};
pub use registry::{ANN, Registry};
pub use terminal::Terminal;
pub use view::View;
pub use wait::{patience, wait};
