use std::fs;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::source::directory::{Directory, Scope};
use crate::source::identity::HASH_ANNOTATION;

/// What the kubelet called the pod.
const THEIRS: &str = "0123456789abcdef0123456789abcdef";

const WEB: &str = "apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  initContainers: [{name: first, image: tool}]
  containers: [{name: main, image: 'web:1'}, {name: log, image: 'log:1'}]
";

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn sandbox(uid: &str) -> cri::PodSandbox {
    cri::PodSandbox {
        id: format!("sandbox of {uid}"),
        labels: map(&[(POD_NAMESPACE, "default"), (POD_NAME, "web-n1"), (POD_UID, uid)]),
        annotations: map(&[(SOURCE_ANNOTATION, "file")]),
        ..cri::PodSandbox::default()
    }
}

fn container(uid: &str, name: &str, image: &str, attempt: u32) -> cri::Container {
    cri::Container {
        id: format!("{name} {attempt} of {uid}"),
        labels: map(&[(POD_UID, uid), (CONTAINER_NAME, name)]),
        annotations: map(&[(HASH, &container_hash(name, image)), (RESTART_COUNT, &attempt.to_string())]),
        ..cri::Container::default()
    }
}

/// A node whose agent begins, once or more often.
struct World {
    dir: tempfile::TempDir,
    sandboxes: Vec<cri::PodSandbox>,
    containers: Vec<cri::Container>,
}

impl World {
    /// On which a kubelet began the pod of [`WEB`].
    fn of_a_kubelet() -> Self {
        let containers = [("first", "tool"), ("main", "web:1"), ("log", "log:1")];
        let containers = containers.map(|(name, image)| container(THEIRS, name, image, 0)).to_vec();
        let world = Self { dir: tempfile::tempdir().unwrap(), sandboxes: vec![sandbox(THEIRS)], containers };
        fs::create_dir(world.dir.path().join("manifests")).unwrap();
        world.write(WEB);
        world
    }

    fn write(&self, manifest: &str) {
        fs::write(self.dir.path().join("manifests/web.yaml"), manifest).unwrap();
    }

    fn store(&self) -> Arc<Store> {
        Arc::new(Store::open(&self.dir.path().join("state")).0)
    }

    /// An agent begins, and has read nothing yet.
    fn begin(&self) -> Directory {
        let store = self.store();
        let adoption = Adoption::new(Source::File, store.clone(), &store.load_all(), &self.sandboxes, &self.containers);
        Directory::new(&self.dir.path().join("manifests"), "n1").adopting(adoption)
    }

    /// UIDs of the pods that the next agent declares.
    fn declared(&self) -> Vec<String> {
        look(&mut self.begin())
    }

    /// The UID that is ours.
    fn own(&self) -> Vec<String> {
        look(&mut Directory::new(&self.dir.path().join("manifests"), "n1"))
    }

    /// The core remembers a pod.
    fn remember(&self, uid: &str) {
        let record: Value = json!({"uid": uid, "namespace": "default", "name": "web-n1", "started": 1});
        self.store().remember(&serde_json::from_value(record).unwrap()).unwrap();
    }

    #[track_caller]
    fn is_adopted(&self) {
        assert_eq!(self.declared(), [THEIRS]);
    }

    #[track_caller]
    fn is_replaced(&self) {
        assert_eq!(self.declared(), self.own());
        assert_eq!(self.store().adopted(), BTreeMap::new());
    }
}

fn look(directory: &mut Directory) -> Vec<String> {
    let report = directory.refresh(&Scope::All, Timestamp::UNIX_EPOCH).expect("news");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let pods = report.pods.expect("another set of pods");
    for pod in &pods {
        assert_eq!(pod.annotations[HASH_ANNOTATION], pod.uid.as_str());
    }
    pods.iter().map(|pod| pod.uid.to_string()).collect()
}

#[test]
fn a_pod_of_the_kubelet_keeps_its_uid_from_start_to_start() {
    let mut world = World::of_a_kubelet();
    world.is_adopted();
    // The core has not remembered it yet; then it has, and the runtime may have lost what it had.
    world.is_adopted();
    world.remember(THEIRS);
    world.is_adopted();
    world.containers.clear();
    world.is_adopted();
    world.sandboxes.clear();
    world.is_adopted();
}

#[test]
fn layout_may_change_and_content_may_not() {
    let world = World::of_a_kubelet();
    world.is_adopted();
    world.write(&format!("# a comment\n{WEB}"));
    world.is_adopted();
    // Not known to the core when the agent was killed, and the same images: still it is the other content's.
    world.write(&WEB.replace("name: main,", "name: main, args: [a],"));
    assert_eq!(world.declared(), world.own());
}

#[test]
fn a_change_while_the_agent_runs_replaces_the_pod() {
    let world = World::of_a_kubelet();
    let mut directory = world.begin();
    assert_eq!(look(&mut directory), [THEIRS]);
    world.write(&WEB.replace("name: main,", "name: main, args: [a],"));
    assert_eq!(look(&mut directory), world.own());
    world.write(WEB);
    assert_eq!(look(&mut directory), [THEIRS], "the same content is the same pod");
}

#[test]
fn only_the_first_reading_adopts() {
    let world = World::of_a_kubelet();
    fs::remove_file(world.dir.path().join("manifests/web.yaml")).unwrap();
    let mut directory = world.begin();
    assert!(look(&mut directory).is_empty());
    world.write(WEB);
    assert_eq!(look(&mut directory), world.own());
}

#[test]
fn what_differs_is_replaced() {
    let edit = |change: fn(&mut World)| {
        let mut world = World::of_a_kubelet();
        change(&mut world);
        world.is_replaced();
    };
    edit(|world| world.containers[1] = container(THEIRS, "main", "web:2", 0));
    edit(|world| world.containers[0] = container(THEIRS, "first", "another", 0));
    edit(|world| world.containers.push(container(THEIRS, "more", "web:1", 0)));
    edit(|world| drop(world.containers[2].annotations.remove(HASH)));
    edit(|world| world.containers.push(container(THEIRS, "main", "web:2", 1)));
    edit(|world| drop(world.sandboxes[0].annotations.insert(SOURCE_ANNOTATION.into(), "api".into())));
    edit(|world| drop(world.sandboxes[0].labels.insert(POD_NAMESPACE.into(), "other".into())));
    edit(|world| world.remember(THEIRS));
    // An older attempt may have been anything, and a container may be missing.
    let mut world = World::of_a_kubelet();
    world.containers.push(container(THEIRS, "main", "web:1", 2));
    world.containers[1] = container(THEIRS, "main", "web:0", 1);
    world.containers.remove(0);
    world.is_adopted();
}

#[test]
fn one_that_has_finished_is_adopted_unless_another_runs() {
    let mut world = World::of_a_kubelet();
    world.sandboxes[0].state = cri::PodSandboxState::SandboxNotready as i32;
    world.is_adopted();
    let mut world = World::of_a_kubelet();
    world.sandboxes[0].state = cri::PodSandboxState::SandboxNotready as i32;
    world.sandboxes.push(cri::PodSandbox { created_at: 0, ..sandbox("runs") });
    assert_eq!(world.declared(), ["runs"]);
}

#[test]
fn a_stated_uid_stays() {
    let world = World::of_a_kubelet();
    world.write(&WEB.replace("name: web}", "name: web, uid: u-1}"));
    assert_eq!(world.declared(), ["u-1"]);
    assert_eq!(world.store().adopted(), BTreeMap::new());
}

#[test]
fn of_two_the_newer_and_ours_before_any() {
    let mut world = World::of_a_kubelet();
    world.sandboxes.push(cri::PodSandbox { created_at: 7, ..sandbox("newer") });
    assert_eq!(world.declared(), ["newer"]);

    let mut world = World::of_a_kubelet();
    let own = world.own().remove(0);
    world.remember(&own);
    world.sandboxes.push(sandbox(&own));
    world.is_replaced();
}

#[test]
fn without_its_memory_the_agent_knows_its_own_pod() {
    let mut world = World::of_a_kubelet();
    let own = world.own().remove(0);
    world.sandboxes = vec![sandbox(&own)];
    world.containers.clear();
    world.is_replaced();
}

/// Handed back to a kubelet of another version, which began the pod anew, and taken over once more.
#[test]
fn what_runs_counts_more_than_what_ran() {
    let mut world = World::of_a_kubelet();
    world.is_adopted();
    world.remember(THEIRS);
    world.sandboxes = vec![sandbox("of-another-version")];
    world.containers = vec![container("of-another-version", "main", "web:1", 0)];
    assert_eq!(world.declared(), ["of-another-version"]);
    assert_eq!(world.declared(), ["of-another-version"]);
}

#[test]
fn what_nobody_knows_any_more_is_dropped() {
    let mut world = World::of_a_kubelet();
    world.is_adopted();
    assert_eq!(world.store().adopted().len(), 1);
    world.sandboxes.clear();
    assert_eq!(world.declared(), [THEIRS], "a container is left");
    world.containers.clear();
    world.is_replaced();
}
