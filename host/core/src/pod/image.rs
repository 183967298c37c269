//! What a container's image name stands for, and the hash by which a running container is known again.

use std::fmt::Write;

/// The image with `:latest` appended where it has neither tag nor digest. Textual, as upstream does it: a port is not a tag.
pub fn with_tag(image: &str) -> String {
    let name = image.rsplit_once('/').map_or(image, |(_, name)| name);
    if name.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") }
}

/// The hash that upstream writes into a container's annotations (`io.kubernetes.container.hash`), in lower hex: over name and
/// image of the spec only, so that nothing else makes a running container a different one. Nodes switched over from the kubelet
/// keep their containers because it is the same down to the byte: FNV-1a (32 bits) over the way in which Go prints the bytes
/// of the JSON object.
pub fn container_hash(name: &str, image: &str) -> String {
    let json = format!("{{\"image\":{},\"name\":{}}}", go_json(image), go_json(name));
    let bytes: Vec<String> = json.bytes().map(|byte| byte.to_string()).collect();
    format!("{:x}", fnv1a_32(format!("([]uint8)[{}]", bytes.join(" ")).as_bytes()))
}

/// A string as Go's `encoding/json` writes it, with its HTML escapes.
pub(crate) fn go_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tag_is_latest() {
        for (image, expected) in [
            ("nginx", "nginx:latest"),
            ("nginx:1.27", "nginx:1.27"),
            ("localhost:5000/nginx", "localhost:5000/nginx:latest"),
            ("localhost:5000/team/nginx:1", "localhost:5000/team/nginx:1"),
            ("nginx@sha256:00", "nginx@sha256:00"),
            ("registry.example/nginx:1@sha256:00", "registry.example/nginx:1@sha256:00"),
        ] {
            assert_eq!(with_tag(image), expected);
        }
    }

    #[test]
    fn the_hash_is_upstreams() {
        assert_eq!(container_hash("test_container", "foo/image:v1"), "8e45cbd0");
        assert_ne!(container_hash("test_container", "foo/image:v2"), "8e45cbd0");
    }

    #[test]
    fn strings_are_escaped_as_go_does() {
        for (text, expected) in [
            ("plain/é", "\"plain/é\""),
            ("a<b>&\"c\\", "\"a\\u003cb\\u003e\\u0026\\\"c\\\\\""),
            ("\u{1}\n\u{2028}\u{7f}", "\"\\u0001\\n\\u2028\u{7f}\""),
        ] {
            assert_eq!(go_json(text), expected);
        }
    }
}
