//! What all sources together declare. "Not heard yet" is not "empty": see [`Desired::all_heard`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::id::PodUid;
use crate::pod::{Pod, Source};

/// The newest full set of each source.
#[derive(Debug)]
pub struct Desired {
    /// None: the source has not been heard.
    sources: BTreeMap<Source, Option<BTreeMap<PodUid, Arc<Pod>>>>,
}

impl Desired {
    /// Nothing heard yet of these sources.
    pub fn new(sources: &[Source]) -> Self {
        Self { sources: sources.iter().map(|s| (*s, None)).collect() }
    }

    /// Takes a source's full set; returns the pods that it adds, changes or no longer declares.
    pub fn replace(&mut self, source: Source, pods: Vec<Arc<Pod>>) -> BTreeSet<PodUid> {
        let new: BTreeMap<PodUid, Arc<Pod>> = pods.into_iter().map(|p| (p.uid.clone(), p)).collect();
        let old = self.sources.insert(source, Some(new)).flatten().unwrap_or_default();
        let new = self.sources[&source].iter().flatten();
        let mut touched: BTreeSet<PodUid> =
            new.clone().filter(|(uid, pod)| old.get(*uid) != Some(*pod)).map(|(uid, _)| uid.clone()).collect();
        let kept: BTreeSet<&PodUid> = new.map(|(uid, _)| uid).collect();
        touched.extend(old.into_keys().filter(|uid| !kept.contains(uid)));
        touched
    }

    /// Every configured source has delivered a set. Nothing is ended before that.
    pub fn all_heard(&self) -> bool {
        self.sources.values().all(Option::is_some)
    }

    /// The pod as declared, by whichever source.
    pub fn get(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.sources.values().flatten().find_map(|pods| pods.get(uid))
    }

    /// All declared pods.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.sources.values().flatten().flat_map(BTreeMap::values)
    }
}
