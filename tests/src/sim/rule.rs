//! The invariants by name, and what it is to break one.

use std::fmt;

/// What must hold in every world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Nothing is ended before every source has been heard.
    Heard,
    /// Nothing is stopped but for a cause that is so.
    Cause,
    /// Init containers, sidecars, app containers and their ends come in their order.
    Order,
    /// No container runs twice.
    Twice,
    /// The life of a pod moves only on a look that was begun after the last act on it had ended.
    Fresh,
    /// What the runtime cannot tell is found out, or stopped, before anything new is begun in its place.
    Unknown,
    /// Nobody is given less grace than was promised.
    LeastGrace,
    /// Nobody is given more grace than the pod has.
    MostGrace,
    /// A preStop hook is cut off only by a grace that became shorter.
    Hooks,
    /// What ended or failed is not tried again before the time that was decided.
    Delay,
    /// What ended is tried again once that time has come.
    Late,
    /// A pod that has something to do and nothing to wait for does it, whatever becomes of its neighbours.
    Idle,
    /// A pod has ended once its deadline has passed.
    Deadline,
    /// Phases and restart counts only advance.
    Forward,
    /// So many acts in so much time, and no more.
    Pace,
    /// In the end every pod is as its spec wants it.
    Converged,
    /// In the end nothing is left of pods that nobody declares.
    Left,
}

/// An invariant that broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which.
    pub rule: Rule,
    /// How.
    pub what: String,
}

/// Whether an invariant holds.
pub(super) type Kept = Result<(), Breach>;

impl Rule {
    /// It does not hold.
    pub(super) fn broken(self, what: impl Into<String>) -> Kept {
        Err(Breach { rule: self, what: what.into() })
    }
}

/// A world that ended before its time, or badly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The world.
    pub seed: u64,
    /// Milliseconds of its time.
    pub at: u64,
    /// What broke.
    pub breach: Breach,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, at, breach: Breach { rule, what } } = self;
        writeln!(f, "seed {seed}: at {at} ms: {rule:?}: {what}")?;
        write!(f, "replay: SEED={seed} cargo test -p polylet-tests --test sim -- --nocapture replay")
    }
}
