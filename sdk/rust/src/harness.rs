//! A node for native tests: it answers with what the test has told it, and keeps what the policy says.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::ask::{Bucket, Imports, Level, Refusal};
use crate::facts::Column;
use crate::types::{ControllerId, NamespaceId, PodIndex};
use crate::{Ask, Config, Policy};

/// A stand-in for the node. What it was not told, it does not know.
///
/// ```
/// use polylet_sdk::harness::Harness;
///
/// let node = Harness::new().fact("backoff.current", 20_000).label(0, "tenant", "blue");
/// assert_eq!(node.ask().facts().backoff_current(), Some(20_000));
/// assert_eq!(node.ask().label(0, "tenant").as_deref(), Some("blue"));
/// assert_eq!(node.ask().label(0, "team"), None);
/// ```
#[derive(Debug, Default)]
pub struct Harness {
    config: String,
    facts: BTreeMap<String, i64>,
    columns: BTreeMap<(String, String), Vec<i64>>,
    texts: BTreeMap<String, String>,
    pods: BTreeMap<PodIndex, PodWords>,
    namespaces: BTreeMap<NamespaceId, String>,
    controllers: BTreeMap<ControllerId, (String, String)>,
    containers: Vec<String>,
    store: RefCell<BTreeMap<Slot, Vec<u8>>>,
    log: RefCell<Vec<(Level, String)>>,
}

/// A bucket (none is the policy's own) and a key in it.
type Slot = (Option<PodIndex>, String);

#[derive(Debug, Default)]
struct PodWords {
    uid: String,
    name: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Harness {
    /// A node that knows nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy's configuration, as JSON.
    #[must_use]
    pub fn config(mut self, json: &str) -> Self {
        self.config = json.to_owned();
        self
    }

    /// A fact by name.
    #[must_use]
    pub fn fact(mut self, name: &str, value: i64) -> Self {
        self.facts.insert(name.to_owned(), value);
        self
    }

    /// A column of a table of the question; `None` is "not known".
    #[must_use]
    pub fn column(mut self, table: &str, name: &str, rows: impl IntoIterator<Item = Option<i64>>) -> Self {
        let values = rows.into_iter().map(|row| row.unwrap_or(Column::UNKNOWN)).collect();
        self.columns.insert((table.to_owned(), name.to_owned()), values);
        self
    }

    /// A text by name.
    #[must_use]
    pub fn text(mut self, name: &str, text: &str) -> Self {
        self.texts.insert(name.to_owned(), text.to_owned());
        self
    }

    /// UID and name of a pod of the question.
    #[must_use]
    pub fn pod(mut self, of: PodIndex, uid: &str, name: &str) -> Self {
        let words = self.pods.entry(of).or_default();
        words.uid = uid.to_owned();
        words.name = name.to_owned();
        self
    }

    /// A label of a pod of the question.
    #[must_use]
    pub fn label(mut self, of: PodIndex, key: &str, value: &str) -> Self {
        self.pods.entry(of).or_default().labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// An annotation of a pod of the question.
    #[must_use]
    pub fn annotation(mut self, of: PodIndex, key: &str, value: &str) -> Self {
        self.pods.entry(of).or_default().annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The name of a namespace.
    #[must_use]
    pub fn namespace(mut self, id: NamespaceId, name: &str) -> Self {
        self.namespaces.insert(id, name.to_owned());
        self
    }

    /// Kind and name of a controller.
    #[must_use]
    pub fn controller(mut self, id: ControllerId, kind: &str, name: &str) -> Self {
        self.controllers.insert(id, (kind.to_owned(), name.to_owned()));
        self
    }

    /// The name of the next container of the question.
    #[must_use]
    pub fn container(mut self, name: &str) -> Self {
        self.containers.push(name.to_owned());
        self
    }

    /// What to give a policy to ask.
    #[must_use]
    pub fn ask(&self) -> Ask<'_> {
        Ask::of(self)
    }

    /// The policy, made from the configuration.
    ///
    /// # Errors
    /// What the policy says about its configuration.
    pub fn policy<P: Policy>(&self) -> Result<P, String> {
        P::configure(&Config::of(self.config.clone()))
    }

    /// What the policy has written to the log.
    #[must_use]
    pub fn logged(&self) -> Vec<(Level, String)> {
        self.log.borrow().clone()
    }
}

impl Imports for Harness {
    fn number(&self, name: &str) -> Option<i64> {
        self.facts.get(name).copied()
    }

    fn column(&self, table: &str, name: &str) -> Option<Vec<i64>> {
        self.columns.get(&(table.to_owned(), name.to_owned())).cloned()
    }

    fn uid(&self, of: PodIndex) -> Option<String> {
        self.pods.get(&of).map(|words| words.uid.clone())
    }

    fn name(&self, of: PodIndex) -> Option<String> {
        self.pods.get(&of).map(|words| words.name.clone())
    }

    fn namespace(&self, id: NamespaceId) -> Option<String> {
        self.namespaces.get(&id).cloned()
    }

    fn controller(&self, id: ControllerId) -> Option<(String, String)> {
        self.controllers.get(&id).cloned()
    }

    fn label(&self, of: PodIndex, key: &str) -> Option<String> {
        self.pods.get(&of)?.labels.get(key).cloned()
    }

    fn annotation(&self, of: PodIndex, key: &str) -> Option<String> {
        self.pods.get(&of)?.annotations.get(key).cloned()
    }

    fn container(&self, index: u32) -> Option<String> {
        self.containers.get(index as usize).cloned()
    }

    fn text(&self, name: &str) -> Option<String> {
        self.texts.get(name).cloned()
    }

    fn config(&self) -> String {
        self.config.clone()
    }

    fn get(&self, of: Bucket, key: &str) -> Option<Vec<u8>> {
        self.store.borrow().get(&slot(of, key)).cloned()
    }

    fn set(&self, of: Bucket, key: &str, value: &[u8]) -> Result<(), Refusal> {
        if key.len() > 128 {
            return Err(Refusal::KeyTooLong);
        }
        self.store.borrow_mut().insert(slot(of, key), value.to_vec());
        Ok(())
    }

    fn remove(&self, of: Bucket, key: &str) {
        self.store.borrow_mut().remove(&slot(of, key));
    }

    fn log(&self, level: Level, message: &str) {
        self.log.borrow_mut().push((level, message.to_owned()));
    }
}

fn slot(of: Bucket, key: &str) -> Slot {
    let pod = match of {
        Bucket::Policy => None,
        Bucket::Pod(pod) => Some(pod),
    };
    (pod, key.to_owned())
}
