//! Static pods that another agent began: each takes over the UID that it runs under, so that nothing of it is started again.
//!
//! The kubelet makes the UID of a static pod out of a dump of its own types, which differs from one of its versions to the next: it
//! cannot be computed here. A pod is known again by its name, and by the hash that each of its containers carries (of name and image, as
//! for the kubelet: whatever else was changed in the manifest while no agent ran does not show). Under that UID the kubelet knows it again
//! as well, once the node is handed back.
//!
//! **Invariant:** only the first reading of the manifests adopts: what none of them declares is being ended from then on.
//!
//! **Invariant:** one content of a manifest adopts a pod, and keeps it; another content is another pod, as ever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1;
use polylet_core::id::PodUid;
use polylet_core::pod::{Source, container_hash};
use polylet_runtime::cri;
use polylet_runtime::key::{CONTAINER_NAME, HASH, POD_NAME, POD_NAMESPACE, POD_UID, RESTART_COUNT};
use polylet_store::Store;
use polylet_store::store::Records;

use super::identity::{SOURCE_ANNOTATION, set_uid, source_name};
use crate::tell;

/// Namespace and name.
type Name = (String, String);

/// Who may adopt what, and who has.
pub struct Adoption {
    foreign: BTreeMap<Name, Foreign>,
    store: Arc<Store>,
}

/// A static pod that another agent began.
#[derive(Debug, PartialEq, Eq)]
struct Foreign {
    uid: PodUid,
    /// Of the newest attempt of each container, by name.
    hashes: BTreeMap<String, String>,
}

impl Adoption {
    /// For the pods of one source. `sandboxes` and `containers` are all that the runtime has, `records` all that the store remembers.
    /// Adoptions of pods that neither knows any more are dropped from the store.
    pub fn new(
        source: Source,
        store: Arc<Store>,
        records: &Records,
        sandboxes: &[cri::PodSandbox],
        containers: &[cri::Container],
    ) -> Self {
        let remembered = records.pods.iter().map(|record| &record.uid).chain(records.unreadable.iter().map(|(uid, _)| uid));
        let mut known: BTreeSet<PodUid> = remembered.cloned().collect();
        let labels = sandboxes.iter().map(|s| &s.labels).chain(containers.iter().map(|c| &c.labels));
        let there: BTreeSet<&str> = labels.filter_map(|labels| labels.get(POD_UID)).map(String::as_str).collect();
        for (own, uid) in store.adopted() {
            if known.contains(&uid) || there.contains(uid.as_str()) {
                known.insert(uid);
            } else if let Err(error) = store.adopt(&own, None) {
                tell::not_kept("a pod that is gone is not forgotten", &error);
            }
        }
        Self { foreign: foreign(source_name(source), sandboxes, containers, &known), store }
    }

    /// Gives the pod of a manifest, which bears the UID that its content gives, the UID of the pod that it is already.
    pub(super) fn adopt(&mut self, pod: &mut v1::Pod) {
        let own = PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default());
        let taken = self.foreign_as(pod, &own).or_else(|| self.store.adopted().remove(&own));
        if let Some(uid) = taken {
            set_uid(pod, uid.as_str());
        }
    }

    /// The UID of another agent's pod that is this one.
    fn foreign_as(&mut self, pod: &v1::Pod, own: &PodUid) -> Option<PodUid> {
        let name = (pod.metadata.namespace.clone()?, pod.metadata.name.clone()?);
        // Our own UID: the store has lost its memory.
        let foreign = self.foreign.get(&name).filter(|foreign| foreign.uid != *own)?;
        let (uid, object) = (foreign.uid.clone(), format!("{}/{}", name.0, name.1));
        if let Some(why) = foreign.differs_from(pod) {
            tracing::warn!(object, running = %uid, declared = %own, "{why}: the pod that another agent began is replaced");
            return None;
        }
        if let Err(error) = self.store.adopt(own, Some(&uid)) {
            tell::not_kept("that a pod was adopted is only in memory", &error);
        }
        self.foreign.remove(&name);
        tracing::info!(object, running = %uid, declared = %own, "adopted: another agent began it, and its containers are the manifest's");
        Some(uid)
    }

    /// The manifests have been read: who was not adopted is not to be.
    pub(super) fn close(&mut self) {
        self.foreign.clear();
    }
}

impl Foreign {
    /// Why the manifest's pod is not this one.
    fn differs_from(&self, pod: &v1::Pod) -> Option<String> {
        let spec = pod.spec.as_ref()?;
        let declared = |name: &str| spec.init_containers.iter().flatten().chain(&spec.containers).find(|c| c.name == name);
        self.hashes.iter().find_map(|(name, hash)| {
            let Some(container) = declared(name) else {
                return Some(format!("it has a container {name}, the manifest has none"));
            };
            let wanted = container_hash(name, container.image.as_deref().unwrap_or_default());
            (wanted != *hash).then(|| format!("its container {name} has the hash {hash:?}, the manifest's has {wanted:?}"))
        })
    }
}

/// Static pods of a source that are not known here: of each name the one whose sandbox is ready, or else was made last, since one that has
/// finished is not to run again either. None where one that is known here comes before it.
fn foreign(
    source: &str,
    sandboxes: &[cri::PodSandbox],
    containers: &[cri::Container],
    known: &BTreeSet<PodUid>,
) -> BTreeMap<Name, Foreign> {
    let mut newest: BTreeMap<Name, ((bool, bool, i64), &str)> = BTreeMap::new();
    for sandbox in sandboxes {
        let label = |key: &str| sandbox.labels.get(key);
        let (Some(namespace), Some(name), Some(uid)) = (label(POD_NAMESPACE), label(POD_NAME), label(POD_UID)) else { continue };
        let of_source = sandbox.annotations.get(SOURCE_ANNOTATION).is_some_and(|of| of == source);
        let ours = known.contains(uid.as_str());
        if of_source || ours {
            let ready = sandbox.state == cri::PodSandboxState::SandboxReady as i32;
            let one = ((ready, ours, sandbox.created_at), uid.as_str());
            newest.entry((namespace.clone(), name.clone())).and_modify(|other| *other = one.max(*other)).or_insert(one);
        }
    }
    newest.retain(|_, (_, uid)| !known.contains(*uid));
    newest.into_iter().map(|(name, (_, uid))| (name, Foreign { uid: uid.into(), hashes: hashes(containers, uid) })).collect()
}

fn hashes(containers: &[cri::Container], uid: &str) -> BTreeMap<String, String> {
    let mut newest: BTreeMap<&str, ((u32, i64), &cri::Container)> = BTreeMap::new();
    for container in containers.iter().filter(|container| container.labels.get(POD_UID).is_some_and(|of| of == uid)) {
        let attempt = container.annotations.get(RESTART_COUNT).and_then(|count| count.parse().ok());
        let attempt = attempt.or(container.metadata.as_ref().map(|metadata| metadata.attempt)).unwrap_or(0);
        let age = (attempt, container.created_at);
        let name = container.labels.get(CONTAINER_NAME).map_or("", String::as_str);
        let kept = newest.entry(name).or_insert((age, container));
        if kept.0 < age {
            *kept = (age, container);
        }
    }
    let hash = |container: &cri::Container| container.annotations.get(HASH).cloned().unwrap_or_default();
    newest.into_iter().map(|(name, (_, container))| (name.to_owned(), hash(container))).collect()
}

#[cfg(test)]
mod tests;
