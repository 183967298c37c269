//! Content digests as bindings and records write them.

use polylet_core::id::PolicyDigest;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// `sha256:` and 64 hex digits.
pub fn digest_of(bytes: &[u8]) -> PolicyDigest {
    format!("sha256:{}", hex(&Sha256::digest(bytes))).into()
}

/// Digest of a configuration: of its JSON with sorted keys and no spaces, so that neither order nor layout of the file counts.
pub fn config_digest(config: &Value) -> PolicyDigest {
    digest_of(canonical(config).as_bytes())
}

/// JSON with sorted keys and no spaces.
pub(crate) fn canonical(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let mut pairs: Vec<_> = map.iter().collect();
                pairs.sort_by_key(|(key, _)| *key);
                Value::Object(pairs.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
            }
            Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
            other => other.clone(),
        }
    }
    sorted(value).to_string()
}

/// Whether the text is `sha256:` and 64 lower-case hex digits.
pub(crate) fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

/// The hex digits of a digest, for file names.
pub(crate) fn hex_of(digest: &PolicyDigest) -> &str {
    digest.as_str().strip_prefix("sha256:").unwrap_or(digest.as_str())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_keeps_its_digest_when_its_keys_move() {
        let (a, b) = (r#"{"b":[{"y":1,"x":2}],"a":null}"#, r#"{ "a": null, "b": [ {"x":2, "y":1} ] }"#);
        let parse = |text| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(config_digest(&parse(a)), config_digest(&parse(b)));
        assert_eq!(canonical(&parse(a)), r#"{"a":null,"b":[{"x":2,"y":1}]}"#);
    }

    #[test]
    fn digests_are_recognised() {
        assert!(is_digest(digest_of(b"").as_str()));
        assert!(!is_digest("sha256:XYZ"));
        assert!(!is_digest("md5:00"));
    }
}
