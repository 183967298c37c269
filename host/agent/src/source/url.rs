//! The pods that a URL declares: `staticPodURL`.
//!
//! **Invariants:** an answer that cannot be had, or is no manifest, changes nothing; an empty one declares no pod. What is wrong is told
//! once, until something else is.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use polylet_core::pod::{Pod, Source};
use tokio::sync::mpsc;

use super::adoption::Adoption;
use super::fetch::{FetchError, Fetcher, ManifestUrl};
use super::{Origin, Report, SourceError, complete, decode, guarded, parsed};
use crate::perform::chain;

/// A URL, and what it has declared so far.
pub struct Url {
    url: ManifestUrl,
    node_name: String,
    sysctls: Vec<String>,
    adoption: Option<Adoption>,
    /// Stands for the bytes of the last answer.
    content: Option<u64>,
    /// What was told last; None before there was an answer that could be used.
    told: Option<Vec<Arc<Pod>>>,
    /// Why there was no content last time.
    trouble: Option<String>,
    /// What was wrong with the last content.
    faults: Vec<String>,
    /// What is wrong now, as told last.
    standing: Vec<String>,
}

impl Url {
    /// Fetches nothing yet.
    pub fn new(url: ManifestUrl, node_name: &str, sysctls: &[String]) -> Self {
        Self {
            url,
            node_name: node_name.to_owned(),
            sysctls: sysctls.to_vec(),
            adoption: None,
            content: None,
            told: None,
            trouble: None,
            faults: Vec::new(),
            standing: Vec::new(),
        }
    }

    /// Where pods that run already may be what the URL declares.
    pub fn adopting(self, adoption: Adoption) -> Self {
        Self { adoption: Some(adoption), ..self }
    }

    /// Takes an answer; None where there is no news.
    pub fn take(&mut self, fetched: Result<Vec<u8>, FetchError>, now: Timestamp) -> Option<Report> {
        let mut problems = Vec::new();
        let pods = self.answered(fetched, now, &mut problems);
        let trouble = self.trouble.iter().map(|cause| self.kept(self.fetch_error(cause)).to_string());
        let standing: Vec<String> = trouble.chain(self.faults.iter().cloned()).collect();
        let other = self.standing != standing;
        self.standing.clone_from(&standing);
        (pods.is_some() || other || !problems.is_empty()).then_some(Report { pods, problems, standing })
    }

    /// The pods, where they are news.
    fn answered(
        &mut self,
        fetched: Result<Vec<u8>, FetchError>,
        now: Timestamp,
        problems: &mut Vec<SourceError>,
    ) -> Option<Vec<Arc<Pod>>> {
        let bytes = match fetched {
            Ok(bytes) if bytes.is_empty() => {
                self.content = None;
                self.faults.clear();
                problems.extend(self.troubled("the answer is empty: no pod is declared".to_owned()));
                let news = self.told.as_ref().is_none_or(|told| !told.is_empty());
                return news.then(|| self.tell(Vec::new()));
            }
            Ok(bytes) => bytes,
            Err(error) => {
                problems.extend(self.troubled(chain(&error)).map(|problem| self.kept(problem)));
                return None;
            }
        };
        if self.trouble.take().is_some() {
            tracing::info!(url = self.url.shown(), "manifests can be fetched again");
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        let content = hasher.finish();
        if self.content.replace(content) == Some(content) {
            return None;
        }
        let mut left_out = Vec::new();
        let pods = match guarded(&self.url.shown(), || self.pods_of(&bytes, now, &mut left_out)) {
            Ok(pods) => Some(self.tell(pods)),
            Err(error) => {
                left_out = vec![self.kept(error)];
                None
            }
        };
        self.faults = left_out.iter().map(ToString::to_string).collect();
        problems.append(&mut left_out);
        pods
    }

    /// The pods of an answer. Of two that are the same pod the later one is left out; anything else that is wrong makes the whole
    /// answer none.
    fn pods_of(&mut self, bytes: &[u8], now: Timestamp, problems: &mut Vec<SourceError>) -> Result<Vec<Arc<Pod>>, SourceError> {
        let shown = self.url.shown();
        let objects = decode::decode_all(bytes, &shown)?;
        let place = self.url.text();
        let origin = Origin { source: Source::Http, place, node_name: &self.node_name, seen: now, sysctls: &self.sysctls };
        let several = objects.len() > 1;
        let mut pods: Vec<Arc<Pod>> = Vec::with_capacity(objects.len());
        let mut taken: BTreeMap<String, PathBuf> = BTreeMap::new();
        for (i, object) in objects.into_iter().enumerate() {
            let file = if several { format!("{shown} items[{i}]") } else { shown.clone() };
            let object = complete(object, &origin, &file, self.adoption.as_mut())?;
            let uid = object.metadata.uid.as_deref();
            let before = self.told.iter().flatten().find(|pod| Some(pod.uid.as_str()) == uid).cloned();
            let file = PathBuf::from(file);
            let pod = parsed(object, &origin, &file, before.as_ref())?;
            let keys = [("metadata.name", format!("{}/{}", pod.namespace, pod.name)), ("metadata.uid", pod.uid.to_string())];
            let other =
                keys.iter().find_map(|(field, key)| Some((*field, key.clone(), taken.get(&format!("{field} {key}"))?.clone())));
            if let Some((field, value, other)) = other {
                problems.push(SourceError::Taken { file, field, value, other, pod });
                continue;
            }
            taken.extend(keys.map(|(field, key)| (format!("{field} {key}"), file.clone())));
            pods.push(pod);
        }
        Ok(pods)
    }

    fn tell(&mut self, pods: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
        self.told = Some(pods.clone());
        // What none of them declares is ended from now on.
        self.adoption.iter_mut().for_each(Adoption::close);
        pods
    }

    /// The problem, where it is another than before.
    fn troubled(&mut self, cause: String) -> Option<SourceError> {
        let known = self.trouble.as_ref() == Some(&cause);
        self.trouble = Some(cause.clone());
        (!known).then(|| self.fetch_error(&cause))
    }

    fn fetch_error(&self, cause: &str) -> SourceError {
        SourceError::Fetch { url: self.url.shown(), cause: cause.to_owned() }
    }

    fn kept(&self, error: SourceError) -> SourceError {
        match &self.told {
            Some(told) if !told.is_empty() => SourceError::Stay { cause: Box::new(error) },
            _ => error,
        }
    }
}

/// Fetches now and each `every` from then on, and sends what is new, until nobody listens any more.
pub async fn watch(mut url: Url, fetcher: Fetcher, every: Duration, out: mpsc::Sender<Report>) {
    loop {
        let fetched = fetcher.fetch().await;
        if let Some(report) = url.take(fetched, Timestamp::now())
            && out.send(report).await.is_err()
        {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = out.closed() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://10.0.0.1/pods?token=hidden";

    struct World {
        url: Url,
        now: i64,
    }

    impl World {
        fn new() -> Self {
            Self { url: Url::new(ManifestUrl::parse(URL).unwrap(), "n1", &[]), now: 0 }
        }

        /// Names of the pods (`=` where they are as before) and the problems.
        fn take(&mut self, fetched: Result<&str, FetchError>) -> (String, Vec<String>) {
            self.now += 1;
            let fetched = fetched.map(|text| text.as_bytes().to_vec());
            let Some(report) = self.url.take(fetched, Timestamp::from_second(self.now).unwrap()) else {
                return ("=".to_owned(), Vec::new());
            };
            assert!(report.problems.iter().all(|problem| report.standing.contains(&problem.to_string())), "{report:?}");
            let names = |pods: Vec<Arc<Pod>>| pods.iter().map(|pod| pod.name.clone()).collect::<Vec<_>>().join(" ");
            (report.pods.map_or("=".to_owned(), names), report.problems.iter().map(ToString::to_string).collect())
        }

        #[track_caller]
        fn check(&mut self, fetched: Result<&str, FetchError>, pods: &str, problems: &[&str]) {
            let taken = self.take(fetched);
            assert_eq!(
                (taken.0.as_str(), &taken.1[..]),
                (pods, &problems.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>()[..])
            );
        }
    }

    fn pod(name: &str, image: &str) -> String {
        format!("{{metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: {image}}}]}}}}")
    }

    fn list(pods: &[String]) -> String {
        format!("{{apiVersion: v1, kind: PodList, items: [{}]}}", pods.join(", "))
    }

    fn single(name: &str) -> String {
        pod(name, "i").replacen('{', "{apiVersion: v1, kind: Pod, ", 1)
    }

    #[test]
    fn answers_become_pods() {
        let mut world = World::new();
        world.check(Ok(&single("a")), "a-n1", &[]);
        let first = world.url.told.clone().unwrap()[0].clone();
        world.check(Ok(&single("a")), "=", &[]);
        world.check(Ok(&list(&[pod("a", "i"), pod("b", "i")])), "a-n1 b-n1", &[]);
        let again = world.url.told.clone().unwrap()[0].clone();
        assert!(Arc::ptr_eq(&first, &again), "it is the same pod, first seen when it was first seen");
        assert_eq!(first.annotations["kubernetes.io/config.source"], "http");
        assert_eq!((first.source, first.object.spec.as_ref().unwrap().tolerations.as_ref()), (Source::Http, None));
        world.check(Ok(&list(&[pod("a", "j")])), "a-n1", &[]);
        assert_ne!(world.url.told.clone().unwrap()[0].uid, first.uid, "another content is another pod");
        world.check(Ok(&list(&[])), "", &[]);
    }

    #[test]
    fn what_cannot_be_used_changes_nothing_and_an_empty_answer_ends_all() {
        let refused = || FetchError::Status { status: http::StatusCode::NOT_FOUND };
        let mut world = World::new();
        let told = "manifests at http://10.0.0.1/pods: the answer's status is 404, not 200";
        world.check(Err(refused()), "=", &[told]);
        world.check(Err(refused()), "=", &[]);
        world.check(Ok(&single("a")), "a-n1", &[]);
        let stay = "; the pods that were declared there stay";
        world.check(Err(refused()), "=", &[&format!("{told}{stay}")]);
        world.check(Err(FetchError::Timeout), "=", &[&format!("manifests at http://10.0.0.1/pods: no answer within 10 s{stay}")]);
        world.check(Ok(&single("a")), "=", &[]);

        let bad = "manifest http://10.0.0.1/pods: items[0].kind: Unsupported value: \"Job\": supported values: \"Pod\"";
        world.check(Ok("{apiVersion: v1, kind: PodList, items: [{kind: Job}]}"), "=", &[&format!("{bad}{stay}")]);
        world.check(Ok("{apiVersion: v1, kind: PodList, items: [{kind: Job}]}"), "=", &[]);
        let (same, problems) = world.take(Ok(&list(&[pod("b", "i"), pod("C_", "i")])));
        assert_eq!((same.as_str(), problems.len()), ("=", 1));
        assert!(problems[0].starts_with("manifest http://10.0.0.1/pods items[1]: metadata.name: "), "{problems:?}");

        let empty = "manifests at http://10.0.0.1/pods: the answer is empty: no pod is declared";
        world.check(Ok(""), "", &[empty]);
        world.check(Ok(""), "=", &[]);
        world.check(Ok(&single("a")), "a-n1", &[]);
    }

    #[test]
    fn of_two_that_are_one_the_first_stays() {
        let told = "manifest http://10.0.0.1/pods items[1]: metadata.name \"default/a-n1\" is declared by http://10.0.0.1/pods items[0] \
                    already; each pod needs its own";
        World::new().check(Ok(&list(&[pod("a", "i"), pod("a", "j"), pod("b", "i")])), "a-n1 b-n1", &[told]);
        let stated = |name: &str| pod(name, "i").replacen("{name: ", "{uid: u-1, name: ", 1);
        let (pods, problems) = World::new().take(Ok(&list(&[stated("a"), stated("b")])));
        assert_eq!((pods.as_str(), problems.len()), ("a-n1", 1));
        assert!(problems[0].contains("metadata.uid \"u-1\" is declared by"), "{problems:?}");
    }
}
