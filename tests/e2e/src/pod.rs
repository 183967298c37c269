//! A pod by its manifest: declared, waited for, changed, removed.

use std::collections::BTreeMap;

use crate::node::{Node, krate};
use crate::view::View;
use crate::wait::{patience, wait};

/// A manifest in the static directory. Dropped, it is removed, and the pod ends when the agent has seen that.
#[derive(Debug)]
pub struct Pod<'n> {
    pub(crate) node: &'n Node,
    name: String,
    labels: String,
}

impl<'n> Pod<'n> {
    pub(crate) fn declare(node: &'n Node, name: &str, labels: &str, spec: &str) -> Self {
        let pod = Self { node, name: name.to_owned(), labels: labels.to_owned() };
        pod.change(spec);
        pod
    }

    pub(crate) fn declare_whole(node: &'n Node, name: &str, manifest: &str) -> Self {
        let pod = Self { node, name: name.to_owned(), labels: String::new() };
        node.write_manifest(&pod.file(), manifest);
        pod
    }

    /// Writes the manifest anew, with another spec: another pod of the same name.
    pub fn change(&self, spec: &str) {
        let spec = spec.replace("image: busybox", "image: polylet.local/busybox:1");
        let head = "apiVersion: v1\nkind: Pod\nmetadata:";
        let labels = format!("labels: {{from: e2e, {}}}, annotations: {{example.com/note: kept}}", self.labels);
        let text = format!("{head} {{name: {}, {labels}}}\nspec:\n{}\n", self.name, spec.trim_matches('\n'));
        self.node.write_manifest(&self.file(), &text);
    }

    fn file(&self) -> String {
        format!("{}.yaml", self.name)
    }

    /// The pod's name: the manifest's, and the node's.
    pub fn name(&self) -> String {
        format!("{}-e2e", self.name)
    }

    /// What the agent says of it now; None while it knows none of this name. Of two, while one replaces the other, the one that
    /// is not ending.
    pub fn now(&self) -> Option<View> {
        let mut all: Vec<View> = self.node.views().into_iter().filter(|view| view.name() == self.name()).collect();
        all.sort_by_key(|view| !view.own("ending").is_null());
        all.into_iter().next()
    }

    /// Waits until the condition holds of what the agent says, and answers that.
    ///
    /// # Panics
    /// When it does not come, with what the agent says instead, and its log.
    pub fn until(&self, what: &str, mut holds: impl FnMut(&View) -> bool) -> View {
        let what = format!("{}: {what}", self.name);
        wait(&what, patience(), || self.now().filter(|view| holds(view)), || self.state())
    }

    /// Waits until the pod is ready.
    ///
    /// # Panics
    /// As [`Pod::until`].
    pub fn until_ready(&self) -> View {
        self.until("it is ready", View::is_ready)
    }

    /// Waits until a container runs.
    ///
    /// # Panics
    /// As [`Pod::until`].
    pub fn until_runs(&self, container: &str) -> View {
        self.until(&format!("{container} runs"), |view| view.runs(container))
    }

    /// Removes the manifest.
    pub fn remove(&self) {
        self.node.remove_manifest(&self.file());
    }

    /// Waits until the agent knows the pod no more.
    ///
    /// # Panics
    /// When it still does.
    pub fn until_gone(&self) {
        let what = format!("{}: the agent has forgotten it", self.name);
        wait(&what, patience(), || self.now().is_none().then_some(()), || self.state());
    }

    /// Lines of the agent's log that name the pod.
    pub fn said(&self) -> Vec<String> {
        self.node.log().lines().filter(|line| line.contains(&self.name())).map(str::to_owned).collect()
    }

    /// Waits until the agent has said this of the pod: the reason and message of an event.
    ///
    /// # Panics
    /// When it does not.
    pub fn until_said(&self, text: &str) {
        let what = format!("{}: the agent says {text:?}", self.name);
        wait(&what, patience(), || self.said().iter().any(|line| line.contains(text)).then_some(()), || self.state());
    }

    fn state(&self) -> String {
        let view = self.now().map_or_else(|| "the agent knows no such pod".to_owned(), |view| view.pretty());
        format!("{view}\n{}", self.node.state())
    }
}

/// The files of `host/agent/tests/bad/manifests`, by name: each of them must be refused.
///
/// # Panics
/// When they cannot be read.
pub fn broken_manifests() -> BTreeMap<String, Vec<u8>> {
    let dir = krate().join("../../host/agent/tests/bad/manifests");
    let files = std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let read = |file: std::io::Result<std::fs::DirEntry>| {
        let file = file.expect("list the broken manifests");
        (file.file_name().into_string().expect("UTF-8"), std::fs::read(file.path()).expect("read a broken manifest"))
    };
    files.map(read).collect()
}

impl Drop for Pod<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}
