//! Who a static pod is: the API server gives it no name and no UID, so the node does.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use polylet_core::pod::Source;

use super::Origin;

/// Where the pod came from: `file` or `http`.
pub const SOURCE_ANNOTATION: &str = "kubernetes.io/config.source";
/// When this content was first seen, RFC 3339 with nanoseconds.
pub const SEEN_ANNOTATION: &str = "kubernetes.io/config.seen";
/// The UID again: what a mirror pod is compared by.
pub const HASH_ANNOTATION: &str = "kubernetes.io/config.hash";

/// Gives a decoded pod its UID, name, namespace, node, annotations and first phase.
///
/// The UID is made from the pod as decoded, before anything is filled in: the same manifest keeps its UID when its comments, its layout or
/// our defaults change, and gets another one when its content, its node or its place does. A UID that the manifest states is kept.
pub fn identify(pod: &mut v1::Pod, origin: &Origin<'_>) -> UidBy {
    let stated = pod.metadata.uid.take().filter(|uid| !uid.is_empty());
    let by = if stated.is_some() { UidBy::Manifest } else { UidBy::Content };
    let uid = stated.unwrap_or_else(|| uid(pod, origin));

    let meta = &mut pod.metadata;
    // A missing name stays missing, for validation to name it.
    if let Some(name) = meta.name.as_mut().filter(|name| !name.is_empty()) {
        *name = format!("{name}-{}", origin.node_name);
    }
    if meta.namespace.as_deref().unwrap_or_default().is_empty() {
        meta.namespace = Some("default".to_owned());
    }
    let annotations = meta.annotations.get_or_insert_with(BTreeMap::new);
    annotations.insert(SOURCE_ANNOTATION.to_owned(), source_name(origin.source).to_owned());
    annotations.insert(SEEN_ANNOTATION.to_owned(), origin.seen.to_string());
    set_uid(pod, &uid);

    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(origin.node_name.to_owned());
    // Pods from files stay whatever befalls the node; upstream leaves those from a URL out.
    if origin.source == Source::File {
        spec.tolerations.get_or_insert_default().push(v1::Toleration {
            operator: Some("Exists".to_owned()),
            effect: Some("NoExecute".to_owned()),
            ..v1::Toleration::default()
        });
    }
    pod.status = Some(v1::PodStatus { phase: Some("Pending".to_owned()), ..v1::PodStatus::default() });
    by
}

/// What [`SOURCE_ANNOTATION`] calls a source.
pub fn source_name(source: Source) -> &'static str {
    match source {
        Source::File => "file",
        Source::Http => "http",
        Source::Api => "api",
    }
}

/// Where a pod's UID comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UidBy {
    /// The manifest states it.
    Manifest,
    /// It is made from the manifest's content.
    Content,
}

/// Gives the pod this UID, at both places that show it.
pub fn set_uid(pod: &mut v1::Pod, uid: &str) {
    pod.metadata.uid = Some(uid.to_owned());
    pod.metadata.annotations.get_or_insert_default().insert(HASH_ANNOTATION.to_owned(), uid.to_owned());
}

/// 32 hex digits, as the kubelet's, but others: it hashes a dump of its own types, which differs from one of its versions to the next.
/// [`super::adoption`] is why its pods run on all the same. FNV-1a (128 bits) over the pod's canonical JSON (fields and map keys in a
/// fixed order), the node and the place.
fn uid(pod: &v1::Pod, origin: &Origin<'_>) -> String {
    let mut hash = Fnv1a128::default();
    // A pod that was read from JSON can be written as JSON; if it could not, place and node would still tell pods apart.
    hash.write(serde_json::to_value(pod).unwrap_or_default().to_string().as_bytes());
    hash.write(format!("host:{}", origin.node_name).as_bytes());
    let kind = if origin.source == Source::Http { "url" } else { "file" };
    hash.write(format!("{kind}:{}", origin.place).as_bytes());
    format!("{:032x}", hash.0)
}

struct Fnv1a128(u128);

impl Default for Fnv1a128 {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Fnv1a128 {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::decode::decode;

    fn identified(manifest: &str, place: &str, node_name: &str) -> v1::Pod {
        let mut pod = decode(manifest.as_bytes(), place).unwrap();
        let seen = "2026-01-02T03:04:05.678901234Z".parse().unwrap();
        identify(&mut pod, &Origin { source: Source::File, place, node_name, seen, sysctls: &[] });
        pod
    }

    const WEB: &str = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}";

    #[test]
    fn fnv_is_the_published_one() {
        for (text, hash) in [
            ("", "6c62272e07bb014262b821756295c58d"),
            ("a", "d228cb696f1a8caf78912b704e4a8964"),
            ("foobar", "343e1662793c64bf6f0d3597ba446f18"),
        ] {
            let mut fnv = Fnv1a128::default();
            fnv.write(text.as_bytes());
            assert_eq!(format!("{:032x}", fnv.0), hash, "{text:?}");
        }
    }

    #[test]
    fn the_uid_follows_content_node_and_place_and_nothing_else() {
        let uid = |manifest: &str, place: &str, node: &str| identified(manifest, place, node).metadata.uid.unwrap();
        let first = uid(WEB, "/m/web.yaml", "n1");
        assert_eq!(first.len(), 32);
        let same =
            "# a comment\nkind: Pod\napiVersion: v1\nspec:\n  containers:\n  - image: i\n    name: c\nmetadata:\n  name: web\n";
        assert_eq!(uid(same, "/m/web.yaml", "n1"), first);
        assert_ne!(uid(WEB, "/m/other.yaml", "n1"), first);
        assert_ne!(uid(WEB, "/m/web.yaml", "n2"), first);
        assert_ne!(uid(&WEB.replace("image: i", "image: j"), "/m/web.yaml", "n1"), first);
        assert_eq!(uid(&WEB.replace("name: web", "name: web, uid: u-1"), "/m/web.yaml", "n1"), "u-1");
    }

    #[test]
    fn a_static_pod_is_named_and_marked() {
        let pod = identified(WEB, "/m/web.yaml", "n1");
        let meta = &pod.metadata;
        assert_eq!((meta.name.as_deref(), meta.namespace.as_deref()), (Some("web-n1"), Some("default")));
        let annotations = meta.annotations.as_ref().unwrap();
        assert_eq!(annotations[SOURCE_ANNOTATION], "file");
        assert_eq!(annotations[SEEN_ANNOTATION], "2026-01-02T03:04:05.678901234Z");
        assert_eq!(Some(&annotations[HASH_ANNOTATION]), meta.uid.as_ref());
        let spec = pod.spec.as_ref().unwrap();
        assert_eq!(spec.node_name.as_deref(), Some("n1"));
        let toleration = &spec.tolerations.as_ref().unwrap()[0];
        assert_eq!((toleration.operator.as_deref(), toleration.effect.as_deref()), (Some("Exists"), Some("NoExecute")));
        assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));
    }
}
