//! The hooks: what a policy implements. The types are those of the contract; their units and meanings are documented there.

/// When to try again.
pub mod restart {
    pub use crate::bindings::restart::{Action, Answer, Bounds, Cause, Question, Termination};
    use crate::{Ask, Policy};

    /// Answers when a container ended, or something failed that must happen before it can run.
    pub trait Restart: Policy {
        /// How long to wait, or not to try again; `None` leaves it to the default.
        fn decide(&self, ask: &Ask, question: &Question) -> Option<Answer>;
    }
}

/// What the result of a probe means.
pub mod probe {
    pub use crate::bindings::probe::{Answer, Failure, HttpAnswer, Kind, Outcome, Question, Spec, Verdict};
    use crate::{Ask, Policy};

    /// Answers when a probe attempt has returned.
    pub trait Probe: Policy {
        /// What the outcome means; `None` leaves it to the default.
        fn interpret(&self, ask: &Ask, question: &Question) -> Option<Answer>;
    }
}

/// How important a pod is to the kernel.
pub mod qos {
    pub use crate::bindings::qos::{Answer, ContainerPlacement, Placement, Question};
    use crate::{Ask, Policy};

    /// Answers when a pod is admitted or resized.
    pub trait Qos: Policy {
        /// Where the pod stands; `None` leaves it to the default.
        fn classify(&self, ask: &Ask, question: &Question) -> Option<Answer>;
    }
}

/// What is short, and who must go.
pub mod eviction {
    pub use crate::bindings::eviction::{Candidate, Shortage, Signal, StarvedResource, Victim};
    use crate::types::NodeFacts;
    use crate::{Ask, Policy};

    /// Answers at each sampling, and when something is short.
    pub trait Eviction: Policy {
        /// Shortages beyond the configured thresholds. Most policies see none.
        fn assess(&self, _ask: &Ask, _node: &NodeFacts, _signals: &[Signal]) -> Vec<Shortage> {
            Vec::new()
        }

        /// Who goes first; candidates left out are not to be evicted. `None` leaves it to the default.
        fn rank(&self, ask: &Ask, node: &NodeFacts, shortage: &Shortage, candidates: &[Candidate]) -> Option<Vec<Victim>>;
    }
}
