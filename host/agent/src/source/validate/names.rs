//! Formats of names and values, each check with the API's complaint; an empty list is praise.

use std::net::IpAddr;

/// RFC 1123 label: container, volume and host names.
pub(super) fn dns_label(text: &str) -> Vec<String> {
    let mut complaints = at_most(text, 63);
    if !is_label(text) {
        complaints.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
             alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    complaints
}

/// RFC 1123 subdomain: pod names, host names with dots.
pub(super) fn dns_subdomain(text: &str) -> Vec<String> {
    let mut complaints = at_most(text, 253);
    if !is_subdomain(text) {
        complaints.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with \
             an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    complaints
}

/// `[prefix/]name`: keys of labels and annotations, names of resources and conditions.
pub(super) fn qualified_name(text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((prefix, name)) if !name.contains('/') => {
            if prefix.is_empty() {
                complaints.push("prefix part must be non-empty".to_owned());
            } else {
                complaints.extend(dns_subdomain(prefix).into_iter().map(|complaint| format!("prefix part {complaint}")));
            }
            name
        }
        Some(_) => {
            return vec![
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                 character, with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
                    .to_owned(),
            ];
        }
    };
    if name.is_empty() {
        complaints.push("name part must be non-empty".to_owned());
    }
    complaints.extend(at_most(name, 63).into_iter().map(|complaint| format!("name part {complaint}")));
    if !name.is_empty() && !is_word(name) {
        complaints.push(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
             (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
                .to_owned(),
        );
    }
    complaints
}

/// Value of a label.
pub(super) fn label_value(text: &str) -> Vec<String> {
    let mut complaints = at_most(text, 63);
    if !text.is_empty() && !is_word(text) {
        complaints.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    complaints
}

/// Name of an environment variable.
pub(super) fn env_name(text: &str) -> Vec<String> {
    if text.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=') && !text.is_empty() {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
}

/// Name of a port (RFC 6335).
pub(super) fn port_name(text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if text.len() > 15 {
        complaints.push("must be no more than 15 characters".to_owned());
    }
    if !text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-')) {
        complaints.push("must contain only lowercase alphanumeric characters (a-z, 0-9), and hyphens ('-')".to_owned());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        complaints.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        complaints.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        complaints.push("must not begin or end with a hyphen".to_owned());
    }
    complaints
}

/// An IP address, v4 or v6. Leading zeros are refused.
pub(super) fn ip(text: &str) -> Vec<String> {
    if text.parse::<IpAddr>().is_ok() {
        return Vec::new();
    }
    vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()]
}

/// Name of an HTTP header.
pub(super) fn header_name(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    vec![
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is \
         '[-A-Za-z0-9]+')"
            .to_owned(),
    ]
}

/// Name of a kernel setting, with `.` or `/` between its parts.
pub(in crate::source) fn is_sysctl(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.len() <= 253
        && text.split(['.', '/']).all(|part| {
            let bytes = part.as_bytes();
            matches!((bytes.first(), bytes.last()), (Some(a), Some(z)) if plain(*a) && plain(*z))
                && bytes.iter().all(|b| plain(*b) || matches!(b, b'-' | b'_'))
        })
}

/// A path below its base: neither absolute nor with `..` in it.
pub(super) fn relative_path(text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if text.starts_with('/') {
        complaints.push("must be a relative path".to_owned());
    }
    complaints.extend(no_backsteps(text));
    complaints
}

/// A path below a directory whose own files begin with two dots.
pub(super) fn unreserved_path(text: &str) -> Vec<String> {
    let mut complaints = relative_path(text);
    if text.starts_with("..") && !text.starts_with("../") && text != ".." {
        complaints.push("must not start with '..'".to_owned());
    }
    complaints
}

/// Path of a file that the node writes into such a directory; in addition, one that a file can have.
pub(super) fn file_path(text: &str) -> Vec<String> {
    let mut complaints = unreserved_path(text);
    let first = text.split('/').find(|part| !matches!(*part, "" | "."));
    if first.is_none() && !text.is_empty() {
        complaints.push("must name a file".to_owned());
    }
    // `./..x` is such a name as well.
    if first.is_some_and(|first| first.starts_with("..") && first != "..") && !text.starts_with("..") {
        complaints.push("must not start with '..'".to_owned());
    }
    complaints.extend(at_most(text, 4096));
    if text.split('/').any(|part| part.len() > 255) {
        complaints.push("every part must be no more than 255 bytes".to_owned());
    }
    if text.contains('\0') {
        complaints.push("must not contain a byte of zero".to_owned());
    }
    complaints
}

/// No `..` in the path.
pub(super) fn no_backsteps(text: &str) -> Vec<String> {
    if text.split('/').any(|part| part == "..") { vec!["must not contain '..'".to_owned()] } else { Vec::new() }
}

fn at_most(text: &str, bytes: usize) -> Vec<String> {
    if text.len() > bytes { vec![format!("must be no more than {bytes} bytes")] } else { Vec::new() }
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_label(text: &str) -> bool {
    let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(plain) && bytes.last().is_some_and(plain) && bytes.iter().all(|b| plain(b) || *b == b'-')
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: fn(&str) -> Vec<String>, right: &[&str], wrong: &[&str]) {
        for text in right {
            assert_eq!(format(text), Vec::<String>::new(), "{text:?}");
        }
        for text in wrong {
            assert_ne!(format(text), Vec::<String>::new(), "{text:?}");
        }
    }

    #[test]
    fn formats() {
        check(dns_label, &["a", "a-b", "0"], &["", "-a", "a-", "A", "a.b", "a_b", "ä", &"a".repeat(64)]);
        check(dns_subdomain, &["a", "a.b-c.0"], &["", ".a", "a..b", "a.-b", "A.b", &"a".repeat(254)]);
        check(qualified_name, &["a", "A_b.c", "x.y/Z"], &["", "/", "a/", "/a", "a/b/c", "-a", "a b", "X/y", &"a".repeat(64)]);
        check(label_value, &["", "a", "A_b.c-9"], &["-", "a b", "a/b", &"a".repeat(64)]);
        check(env_name, &["A", "a.b-c", "1 2"], &["", "A=B", "ä", "a\nb"]);
        check(port_name, &["http", "a1-b"], &["", "1", "-a", "a-", "a--b", "HTTP", "abcdefghijklmnop"]);
        check(ip, &["1.2.3.4", "::1"], &["", "1.2.3", "1.2.3.400", "01.2.3.4", "host"]);
        check(header_name, &["X-A"], &["", "X A", "X:"]);
        check(relative_path, &["a/b", "a..b", ""], &["/a", "a/../b", ".."]);
        let (part, path) = ("n".repeat(255), "d/".repeat(2048));
        check(
            file_path,
            &["a/b", "./a", "a/", "a/./b", "b/..c", "", &part, &path],
            &["/a", "..", "..a", "./..a", ".", "./.", "/", "a\0b", &format!("a/{part}n"), &format!("{path}d")],
        );
        for (text, is) in [
            ("net.core.somaxconn", true),
            ("net/core/a_b", true),
            ("", false),
            ("net..a", false),
            ("Net.a", false),
            ("a_", false),
        ] {
            assert_eq!(is_sysctl(text), is, "{text}");
        }
    }
}
