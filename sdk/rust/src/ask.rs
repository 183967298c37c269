//! What a policy may ask of the node while it answers.

use crate::bindings::imports::polylet::policy as wit;
use crate::types::{ControllerId, NamespaceId, PodIndex};
pub use wit::log::Level;
pub use wit::store::{Bucket, Refusal};

use crate::facts::{Column, Facts};

/// The way to everything that is not in the question. In a component it is the node that answers, in a native test a
/// [`crate::harness::Harness`].
#[derive(Clone, Copy)]
pub struct Ask<'a>(&'a dyn Imports);

impl<'a> Ask<'a> {
    /// Asks whoever answers in the node's place.
    #[must_use]
    pub fn of(imports: &'a dyn Imports) -> Self {
        Self(imports)
    }

    /// The facts that have a typed accessor.
    #[must_use]
    pub fn facts(self) -> Facts<'a> {
        Facts(self)
    }

    /// A fact by name, about the node or what the question is about; `None` if the node does not know it.
    #[must_use]
    pub fn number(self, name: &str) -> Option<i64> {
        self.0.number(name)
    }

    /// One value per row of a table of the question; `None` if the node does not know the name.
    #[must_use]
    pub fn column(self, table: &str, name: &str) -> Option<Column> {
        self.0.column(table, name).map(Column::of)
    }

    /// A text by name about what the question is about.
    #[must_use]
    pub fn text(self, name: &str) -> Option<String> {
        self.0.text(name)
    }

    /// The UID of a pod.
    #[must_use]
    pub fn uid(self, of: PodIndex) -> Option<String> {
        self.0.uid(of)
    }

    /// The name of a pod.
    #[must_use]
    pub fn name(self, of: PodIndex) -> Option<String> {
        self.0.name(of)
    }

    /// The name of a namespace.
    #[must_use]
    pub fn namespace(self, id: NamespaceId) -> Option<String> {
        self.0.namespace(id)
    }

    /// Kind and name of a controller.
    #[must_use]
    pub fn controller(self, id: ControllerId) -> Option<(String, String)> {
        self.0.controller(id)
    }

    /// A label of a pod.
    #[must_use]
    pub fn label(self, of: PodIndex, key: &str) -> Option<String> {
        self.0.label(of, key)
    }

    /// An annotation of a pod.
    #[must_use]
    pub fn annotation(self, of: PodIndex, key: &str) -> Option<String> {
        self.0.annotation(of, key)
    }

    /// The name of the container asked about (index 0), or of a row of `qos`.
    #[must_use]
    pub fn container(self, index: u32) -> Option<String> {
        self.0.container(index)
    }

    /// What the policy remembers in a bucket.
    #[must_use]
    pub fn store(self, bucket: Bucket) -> Store<'a> {
        Store { imports: self.0, bucket }
    }

    /// Writes a line to the node's log.
    pub fn log(self, level: Level, message: &str) {
        self.0.log(level, message);
    }

    /// As [`Ask::log`], at this level.
    pub fn debug(self, message: &str) {
        self.log(Level::Debug, message);
    }

    /// As [`Ask::log`], at this level.
    pub fn info(self, message: &str) {
        self.log(Level::Info, message);
    }

    /// As [`Ask::log`], at this level.
    pub fn warn(self, message: &str) {
        self.log(Level::Warn, message);
    }

    /// As [`Ask::log`], at this level.
    pub fn error(self, message: &str) {
        self.log(Level::Error, message);
    }
}

impl Ask<'static> {
    /// Asks the node; outside a component there is none, and asking panics.
    pub(crate) fn node() -> Self {
        Self(&Node)
    }
}

impl std::fmt::Debug for Ask<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Ask")
    }
}

/// One bucket of the policy's memory. Writes hold only if the answer is accepted.
#[derive(Clone, Copy)]
pub struct Store<'a> {
    imports: &'a dyn Imports,
    bucket: Bucket,
}

impl Store<'_> {
    /// What was last set under a key.
    #[must_use]
    pub fn get(self, key: &str) -> Option<Vec<u8>> {
        self.imports.get(self.bucket, key)
    }

    /// Remembers a value.
    ///
    /// # Errors
    /// Key or value are too long, the bucket is full, or the question holds no such pod.
    pub fn set(self, key: &str, value: &[u8]) -> Result<(), Refusal> {
        self.imports.set(self.bucket, key, value)
    }

    /// Forgets a key.
    pub fn remove(self, key: &str) {
        self.imports.remove(self.bucket, key);
    }
}

impl std::fmt::Debug for Store<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Store({:?})", self.bucket)
    }
}

/// The imports of the contract, one method for each function there.
#[allow(missing_docs, reason = "each is documented at its function in the contract, and at its method of `Ask`")]
pub trait Imports {
    fn number(&self, name: &str) -> Option<i64>;
    fn column(&self, table: &str, name: &str) -> Option<Vec<i64>>;
    fn uid(&self, of: PodIndex) -> Option<String>;
    fn name(&self, of: PodIndex) -> Option<String>;
    fn namespace(&self, id: NamespaceId) -> Option<String>;
    fn controller(&self, id: ControllerId) -> Option<(String, String)>;
    fn label(&self, of: PodIndex, key: &str) -> Option<String>;
    fn annotation(&self, of: PodIndex, key: &str) -> Option<String>;
    fn container(&self, index: u32) -> Option<String>;
    fn text(&self, name: &str) -> Option<String>;
    fn config(&self) -> String;
    fn get(&self, of: Bucket, key: &str) -> Option<Vec<u8>>;
    fn set(&self, of: Bucket, key: &str, value: &[u8]) -> Result<(), Refusal>;
    fn remove(&self, of: Bucket, key: &str);
    fn log(&self, level: Level, message: &str);
}

/// The node itself, by the component's imports.
pub(crate) struct Node;

impl Imports for Node {
    fn number(&self, name: &str) -> Option<i64> {
        wit::facts::number(name)
    }

    fn column(&self, table: &str, name: &str) -> Option<Vec<i64>> {
        wit::facts::column(table, name)
    }

    fn uid(&self, of: PodIndex) -> Option<String> {
        wit::words::uid(of)
    }

    fn name(&self, of: PodIndex) -> Option<String> {
        wit::words::name(of)
    }

    fn namespace(&self, id: NamespaceId) -> Option<String> {
        wit::words::namespace(id)
    }

    fn controller(&self, id: ControllerId) -> Option<(String, String)> {
        wit::words::controller(id)
    }

    fn label(&self, of: PodIndex, key: &str) -> Option<String> {
        wit::words::label(of, key)
    }

    fn annotation(&self, of: PodIndex, key: &str) -> Option<String> {
        wit::words::annotation(of, key)
    }

    fn container(&self, index: u32) -> Option<String> {
        wit::words::container(index)
    }

    fn text(&self, name: &str) -> Option<String> {
        wit::words::text(name)
    }

    fn config(&self) -> String {
        wit::settings::config()
    }

    fn get(&self, of: Bucket, key: &str) -> Option<Vec<u8>> {
        wit::store::get(of, key)
    }

    fn set(&self, of: Bucket, key: &str, value: &[u8]) -> Result<(), Refusal> {
        wit::store::set(of, key, value)
    }

    fn remove(&self, of: Bucket, key: &str) {
        wit::store::remove(of, key);
    }

    fn log(&self, level: Level, message: &str) {
        wit::log::write(level, message);
    }
}
