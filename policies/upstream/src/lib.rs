//! The kubelet's four judgements as a pure library without dependencies.
//!
//! The same code is linked into the node as its last resort and compiled into the default component, so both must agree. It
//! knows plain numbers only: no clock, no Kubernetes types, no WIT types; each of the two sides translates at its own edge.
//!
//! | module | judgement |
//! |---|---|
//! | [`restart`] | how long to wait before a container is started, or an image pulled, again |
//! | [`probe`] | what the outcome of a probe means |
//! | [`qos`] | the class of a pod, and its containers' `oom_score_adj` |
//! | [`cpu`] | millicores as shares, weights and quotas |
//! | [`eviction`] | whose pod goes first when something is short |
//!
//! Behaviour is that of Kubernetes 1.36; where a rule has a quirk that is kept for parity, its documentation says so.

#![forbid(unsafe_code)]

pub mod cpu;
pub mod eviction;
pub mod probe;
pub mod qos;
pub mod restart;
