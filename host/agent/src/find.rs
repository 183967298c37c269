//! Which pod is meant: by its name, with or without the node's behind it, or by its UID; and which of its containers.

use k8s_openapi::api::core::v1;
use polylet_core::node::PodView;

use crate::document::suggest;

/// Names that an error lists at most.
const NAMES: usize = 5;

/// A pod that is not found, or not the only one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// There is none of this name.
    #[error("{0}")]
    Unknown(String),
    /// There are several.
    #[error("{0}")]
    Ambiguous(String),
}

/// The pod of this name in the namespace. Of two, while one takes the other's place, the one that is not ending.
///
/// # Errors
/// None or several, with what could have been meant.
pub fn pod(pods: Vec<PodView>, namespace: &str, wanted: &str, node: &str) -> Result<PodView, FindError> {
    let full = format!("{wanted}-{node}");
    let names: [&dyn Fn(&PodView) -> bool; 3] =
        [&|pod| pod.uid.as_str() == wanted, &|pod| pod.name == wanted, &|pod| pod.name == full];
    for is_meant in names {
        let of_name: Vec<&PodView> = pods.iter().filter(|pod| pod.namespace == namespace && is_meant(pod)).collect();
        let lasting: Vec<&PodView> = of_name.iter().copied().filter(|pod| pod.ending.is_none()).collect();
        let meant = if lasting.is_empty() { of_name } else { lasting };
        match meant.as_slice() {
            [] => {}
            [found] => return Ok((*found).clone()),
            several => {
                let uids: Vec<&str> = several.iter().map(|pod| pod.uid.as_str()).collect();
                let count = several.len();
                let uids = uids.join(", ");
                return Err(FindError::Ambiguous(format!("{count} pods are called {wanted:?}: name one by its UID: {uids}")));
            }
        }
    }
    Err(FindError::Unknown(unknown(&pods, namespace, wanted, node)))
}

fn unknown(pods: &[PodView], namespace: &str, wanted: &str, node: &str) -> String {
    let mut said = format!("no pod {wanted:?} in namespace {namespace:?}");
    let suffix = format!("-{node}");
    let short = |pod: &PodView| pod.name.strip_suffix(&suffix).unwrap_or(&pod.name).to_owned();
    let here: Vec<&PodView> = pods.iter().filter(|pod| pod.namespace == namespace).collect();
    let elsewhere = pods.iter().find(|pod| pod.namespace != namespace && (pod.name == wanted || short(pod) == wanted));
    let short_names: Vec<String> = here.iter().map(|pod| short(pod)).collect();
    let candidates = here.iter().map(|pod| pod.name.as_str()).chain(short_names.iter().map(String::as_str));
    if let Some(other) = elsewhere {
        said.push_str(&format!("; there is one in namespace {:?}: -n {}", other.namespace, other.namespace));
    } else if let Some(near) = suggest::closest(wanted, candidates).filter(|_| wanted.len() <= 253) {
        said.push_str(&format!("; did you mean {near:?}?"));
    } else if here.is_empty() {
        said.push_str(", nor any other");
    } else {
        let shown: Vec<&str> = here.iter().take(NAMES).map(|pod| pod.name.as_str()).collect();
        let more = if here.len() > NAMES { ", …" } else { "" };
        said.push_str(&format!("; there are {}{more}", shown.join(", ")));
    }
    said
}

/// The status of a container of whichever kind.
pub fn container<'a>(status: &'a v1::PodStatus, name: &str) -> Option<&'a v1::ContainerStatus> {
    let lists = [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    lists.into_iter().flatten().flatten().find(|container| container.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(all: &[(&str, &str, &str, Option<&str>)]) -> Vec<PodView> {
        let view = |(namespace, name, uid, ending): &(&str, &str, &str, Option<&str>)| PodView {
            namespace: (*namespace).into(),
            name: (*name).into(),
            uid: (*uid).into(),
            life: "running".into(),
            status: None,
            containers: Default::default(),
            ending: ending.map(str::to_owned),
        };
        all.iter().map(view).collect()
    }

    #[test]
    fn a_pod_is_found_by_its_names() {
        let all = pods(&[
            ("default", "web-n1", "u1", None),
            ("default", "web-n1-n1", "u2", None),
            ("default", "db-n1", "u3", Some("DefinitionChanged")),
            ("default", "db-n1", "u4", None),
            ("default", "two-n1", "u5", None),
            ("default", "two-n1", "u6", None),
            ("default", "old-n1", "u7", Some("Removed")),
            ("kube-system", "etcd-n1", "u8", None),
        ]);
        let check = |namespace: &str, wanted: &str, expected: Result<&str, &str>| {
            let found = pod(all.clone(), namespace, wanted, "n1").map(|pod| pod.uid.as_str().to_owned());
            assert_eq!(found.as_deref().map_err(ToString::to_string), expected.map_err(str::to_owned), "{namespace}/{wanted}");
        };
        check("default", "web-n1", Ok("u1"));
        check("default", "web", Ok("u1"));
        check("default", "web-n1-n1", Ok("u2"));
        check("default", "db", Ok("u4"));
        check("default", "u3", Ok("u3"));
        check("default", "old", Ok("u7"));
        check("kube-system", "etcd", Ok("u8"));
        check("default", "two", Err("2 pods are called \"two\": name one by its UID: u5, u6"));
        check("default", "u6", Ok("u6"));
        check(
            "default",
            "etcd",
            Err("no pod \"etcd\" in namespace \"default\"; there is one in namespace \"kube-system\": -n kube-system"),
        );
        check("default", "wbe", Err("no pod \"wbe\" in namespace \"default\"; did you mean \"web\"?"));
        check("default", "wbe-n1", Err("no pod \"wbe-n1\" in namespace \"default\"; did you mean \"web-n1\"?"));
        check("kube-system", "frobnicate", Err("no pod \"frobnicate\" in namespace \"kube-system\"; there are etcd-n1"));
        check(
            "default",
            "frobnicate",
            Err("no pod \"frobnicate\" in namespace \"default\"; there are web-n1, web-n1-n1, db-n1, db-n1, two-n1, …"),
        );
        check("empty", "web2", Err("no pod \"web2\" in namespace \"empty\", nor any other"));
    }
}
