//! One policy decision, complete enough to be made again by another policy.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::effect::Rung;
use crate::question::{Answer, Hook, Question, Verdict};
use crate::time::Wall;

/// A record of the ring. Environment values never enter a question; what probes brought back is kept out of the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionRecord {
    /// Grows by one with each decision of this agent's life.
    pub number: u64,
    /// When.
    pub at: Wall,
    /// Which judgement.
    pub hook: Hook,
    /// `<name>_<namespace>(<uid>)` of the pod, empty for the node as a whole.
    #[serde(default)]
    pub pod: String,
    /// Container, where the question is about one.
    #[serde(default)]
    pub container: String,
    /// Each rung asked, from the top, with what it said. The last one decided.
    pub asked: Vec<(Rung, Verdict)>,
    /// The whole question, but for what is withheld.
    pub question: Arc<Question>,
    /// Texts that the policy could see and the record does not hold: `probe.output`, `body-start`, `output-start`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<String>,
    /// What was obeyed, after the guard.
    pub answer: Answer,
    /// What the guard changed, one line each.
    #[serde(default)]
    pub clamped: Vec<String>,
}
