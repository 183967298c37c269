//! Which policy answers: the ladder of trust and its breaker.
//!
//! active policy → last good policy → embedded default component → the same code linked natively.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::effect::Rung;
use crate::question::Hook;

/// What is bound now. Made by the policy host from the policy directory; a new value replaces the old one at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bindings {
    /// Grows with each change of the directory.
    pub generation: u64,
    /// Rungs above the native one, best first, per hook: the active policy, the last good one, the default component.
    pub rungs: BTreeMap<Hook, Vec<Rung>>,
}
