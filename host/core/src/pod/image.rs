//! What a container's image name stands for, and the hash by which a running container is known again.

use std::fmt::Write;

/// The image with `:latest` appended where it has neither tag nor digest. Textual, as upstream does it: a port is not a tag.
pub fn with_tag(image: &str) -> String {
    let name = image.rsplit_once('/').map_or(image, |(_, name)| name);
    if name.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") }
}

/// Whether this is an image reference at all: `[host[:port]/]path[:tag][@algorithm:hex]`, in the grammar of the distribution
/// specification.
pub fn is_reference(image: &str) -> bool {
    let (rest, digest) = image.split_once('@').map_or((image, None), |(rest, digest)| (rest, Some(digest)));
    let colon = rest.rfind(':').filter(|at| !rest[*at..].contains('/'));
    let (name, tag) = colon.map_or((rest, None), |at| (&rest[..at], Some(&rest[at + 1..])));
    let as_host = |host: &str| host == "localhost" || host.contains(['.', ':']) || host.bytes().any(|b| b.is_ascii_uppercase());
    let path = name.split_once('/').filter(|(host, _)| as_host(host) && is_host(host)).map_or(name, |(_, path)| path);
    name.len() <= 255 && path.split('/').all(is_path_component) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => {
            return address.parse::<std::net::Ipv6Addr>().is_ok()
                && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
        }
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    let is_label = |label: &str| {
        let ends = [label.bytes().next(), label.bytes().last()];
        ends.iter().all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    name.split('.').all(is_label) && port.is_none_or(is_port)
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Lower case letters and digits, joined by `.`, `_`, `__` or any number of `-`.
fn is_path_component(text: &str) -> bool {
    let joins = text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()).filter(|join| !join.is_empty());
    let ends = [text.bytes().next(), text.bytes().last()];
    ends.iter().all(|end| end.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()))
        && joins.into_iter().all(|join| matches!(join, "." | "_" | "__") || join.bytes().all(|byte| byte == b'-'))
}

fn is_tag(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(text: &str) -> bool {
    let is_algorithm =
        |text: &str| text.split(['+', '.', '-', '_']).all(|part| part.bytes().next().is_some_and(|b| b.is_ascii_alphabetic()));
    text.split_once(':').is_some_and(|(algorithm, hex)| {
        is_algorithm(algorithm) && hex.len() >= 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
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
    fn references() {
        let hex = "0123456789abcdef0123456789abcdef";
        let digest = format!("nginx@sha256:{hex}");
        let both = format!("registry.example:5000/team/nginx:1@sha256:{hex}");
        for good in [
            "nginx",
            "nginx:1.27",
            "localhost/a",
            "localhost:5000/a/b-c:_x",
            "[::1]:5000/a",
            "a__b.c--d/e",
            "UPPER/lower",
            &digest,
            &both,
        ] {
            assert!(is_reference(good), "{good}");
        }
        let long = format!("a:{}", "t".repeat(129));
        for bad in [
            "",
            ":1",
            "UPPER/Case",
            "UPPER/Case:::x",
            "a//b",
            "a/",
            "/a",
            "a b",
            "a:",
            "a:-x",
            "a..b",
            "a___b",
            "a@sha256:1",
            "a@b",
            &long,
            "-a.b/c",
            "[::1]é/a:1",
            "[::1]x5000/a",
            "[::1]:/a",
        ] {
            assert!(!is_reference(bad), "{bad}");
        }
    }

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
