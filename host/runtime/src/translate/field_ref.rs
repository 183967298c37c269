//! Fields of the pod that its containers may read (`fieldRef`).

use std::collections::BTreeMap;
use std::fmt::Write;

use polylet_core::pod::Pod;

use super::{ContainerInputs, NodeContext, TranslateError};

/// The field of this path, as a variable holds it.
pub(super) fn value(node: &NodeContext, inputs: &ContainerInputs<'_>, path: &str) -> Result<String, TranslateError> {
    let pod = inputs.pod;
    if let Some(value) = of_metadata(pod, path) {
        return Ok(value);
    }
    let spec = pod.object.spec.as_ref();
    let named = |name: Option<&String>| name.filter(|name| !name.is_empty()).cloned();
    // A pod on the node's network has the node's addresses.
    let ips = if inputs.ips.is_empty() && pod.host_network { &node.node_ips } else { inputs.ips };
    Ok(match path {
        "spec.nodeName" | "spec.host" => named(spec.and_then(|spec| spec.node_name.as_ref())).unwrap_or(node.node_name.clone()),
        "spec.serviceAccountName" => named(spec.and_then(|spec| spec.service_account_name.as_ref())).unwrap_or_default(),
        "status.hostIP" => node.node_ips.first().cloned().unwrap_or_default(),
        "status.hostIPs" => node.node_ips.join(","),
        "status.podIP" => ips.first().cloned().unwrap_or_default(),
        "status.podIPs" => ips.join(","),
        _ => return Err(TranslateError::BadField { path: path.to_owned() }),
    })
}

/// A field of the metadata: all that a volume may show. None: not one of them.
pub(super) fn of_metadata(pod: &Pod, path: &str) -> Option<String> {
    Some(match path {
        "metadata.name" => pod.name.clone(),
        "metadata.namespace" => pod.namespace.clone(),
        "metadata.uid" => pod.uid.as_str().to_owned(),
        "metadata.labels" => lines(&pod.labels),
        "metadata.annotations" => lines(&pod.annotations),
        _ => {
            let (map, key) = match subscript(path) {
                Some(("metadata.labels", key)) => (&pod.labels, key),
                Some(("metadata.annotations", key)) => (&pod.annotations, key),
                _ => return None,
            };
            map.get(key).cloned().unwrap_or_default()
        }
    })
}

/// `map['key']`
fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(map, _)| !map.is_empty())
}

/// One line for each entry, `key="value"`, without a newline at the end.
fn lines(map: &BTreeMap<String, String>) -> String {
    let lines: Vec<String> = map.iter().map(|(key, value)| format!("{key}={}", go_quoted(value))).collect();
    lines.join("\n")
}

/// A string literal of Go, as its `%q` prints it.
fn go_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            '"' | '\\' => write!(out, "\\{c}"),
            '\u{7}' => write!(out, "\\a"),
            '\u{8}' => write!(out, "\\b"),
            '\u{b}' => write!(out, "\\v"),
            '\u{c}' => write!(out, "\\f"),
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            c if is_printable(c) => write!(out, "{c}"),
            c if u32::from(c) < 0x80 => write!(out, "\\x{:02x}", u32::from(c)),
            c if u32::from(c) < 0x10000 => write!(out, "\\u{:04x}", u32::from(c)),
            c => write!(out, "\\U{:08x}", u32::from(c)),
        };
    }
    out + "\""
}

/// Rust's tables say the same as Go's, but call marks unprintable where they begin a string.
fn is_printable(c: char) -> bool {
    c == '\'' || format!("a{c}").escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::translate::testing::{node, pod_of, strings, with_inputs};

    #[test]
    fn fields() {
        let pod = pod_of(json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1",
                         "labels": {"b": "2", "a": "1"}, "annotations": {"x/y": "say \"hi\"\n", "z": "é\u{1}\u{301}'"}},
            "spec": {"serviceAccountName": "robot", "containers": [{"name": "app", "image": "app"}]},
        }));
        let ips = strings(&["10.0.0.7", "fd00::7"]);
        let of = |path: &str| {
            let node = node();
            with_inputs(&pod, "app", |inputs| value(&node, &ContainerInputs { ips: &ips, ..*inputs }, path))
        };
        for (path, expected) in [
            ("metadata.name", "web"),
            ("metadata.namespace", "shop"),
            ("metadata.uid", "u1"),
            ("metadata.labels", "a=\"1\"\nb=\"2\""),
            ("metadata.annotations", "x/y=\"say \\\"hi\\\"\\n\"\nz=\"é\\x01\u{301}'\""),
            ("metadata.labels['a']", "1"),
            ("metadata.labels['none']", ""),
            ("metadata.annotations['x/y']", "say \"hi\"\n"),
            ("spec.nodeName", "node-1"),
            ("spec.serviceAccountName", "robot"),
            ("status.hostIP", "192.0.2.1"),
            ("status.hostIPs", "192.0.2.1,2001:db8::1"),
            ("status.podIP", "10.0.0.7"),
            ("status.podIPs", "10.0.0.7,fd00::7"),
        ] {
            assert_eq!(of(path).as_deref(), Ok(expected), "{path}");
        }
        for path in ["metadata.labels['a", "spec['a']", "status.phase", "", "['a']"] {
            assert_eq!(of(path), Err(TranslateError::BadField { path: path.into() }));
        }
    }

    #[test]
    fn the_nodes_network_has_the_nodes_addresses() {
        let spec = json!({"hostNetwork": true, "nodeName": "other", "containers": [{"name": "app", "image": "app"}]});
        let pod = pod_of(json!({"metadata": {"name": "web", "uid": "u1"}, "spec": spec}));
        let node = node();
        let of = |path: &str| with_inputs(&pod, "app", |inputs| value(&node, inputs, path)).unwrap();
        assert_eq!(of("status.podIP"), "192.0.2.1");
        assert_eq!(of("spec.nodeName"), "other");
    }
}
