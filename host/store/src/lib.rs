//! What must survive the agent, and the ring of decision records.
//!
//! Two things under one directory, each with one owner:
//!
//! ```text
//! <dir>/polylet.redb        Store   pod records, and what policies remember
//! <dir>/decisions/*.jsonl   Ring    the newest policy decisions, for people and for asking another policy
//! ```
//!
//! Reading order:
//! - [`store`]: the memory that every write also leaves on disk. [`Store::open`], then [`Store::remember`] before the act.
//!   - `store/database`: the file: what makes one usable, and how a commit is made.
//!   - `store/backend`: why a commit costs microseconds: the file is synced behind its back.
//!   - `store/aside`: where a file goes that cannot be used.
//! - [`ring`]: appended to by a thread of its own, so that the loop never waits. [`Ring::append`], [`Ring::follow`].
//!   - `ring/lane`: the segment files of one hook.
//!
//! **Invariant:** nothing here ends the agent or keeps it from starting. A full disk, a damaged file or a newer one costs
//! memory of the past, is told, and that is all.
//!
//! **Invariant:** nothing here holds what the kernel or the runtime knows; they are asked.

pub mod ring;
pub mod store;

pub use ring::{Entry, Line, Ring};

pub use store::{Opened, Store, StoreError};
