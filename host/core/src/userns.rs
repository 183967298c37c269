//! User namespaces: which ids of the node a pod's ids stand for.

/// Ids of the node, users' and groups' alike, that stand for a pod's ids from zero on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdRange {
    /// The node's id that is the pod's root.
    pub first: u32,
    /// How many.
    pub length: u32,
}
