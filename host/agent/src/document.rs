//! Bytes that an operator wrote, as one tree: YAML or JSON, with every limit set, before anything is made of it.
//!
//! Bounds: 10 MiB, one document, 64 levels, 200,000 nodes, 10,000 anchors, aliases and merge keys each, aliases replayed for at most
//! 100,000 nodes and 16 MiB of text. A duplicate key, an unknown tag and a number that is none are errors. Booleans and octal numbers are
//! read as the kubelet reads them (YAML 1.1: `yes` is true, `0644` is 420).

pub mod field;
pub mod suggest;

use serde_json::Value;
use serde_saphyr::Error;
use serde_saphyr::budget::BudgetBreach;

/// Largest document that is read.
pub const MAX_BYTES: usize = 10 << 20;

/// Why bytes are not one document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// Larger than [`MAX_BYTES`].
    #[error("larger than 10 MiB")]
    TooLarge,
    /// Not text.
    #[error("not UTF-8 text: byte {offset} is not valid")]
    NotText {
        /// Of the first wrong byte.
        offset: usize,
    },
    /// Nothing but white space and comments.
    #[error("empty: expected one YAML or JSON document")]
    Empty,
    /// More than one.
    #[error("{count} documents, separated by `---`: expected one")]
    Several {
        /// How many.
        count: usize,
    },
    /// Neither YAML nor JSON, or over a bound.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// From 1.
        line: u64,
        /// From 1.
        column: u64,
        /// The parser's text.
        message: String,
    },
    /// A scalar or a list.
    #[error("expected a mapping with apiVersion and kind, found {found}")]
    NotMapping {
        /// What there is.
        found: &'static str,
    },
}

/// The one mapping that the bytes hold.
pub fn parse(bytes: &[u8]) -> Result<serde_json::Map<String, Value>, DocumentError> {
    if bytes.len() > MAX_BYTES {
        return Err(DocumentError::TooLarge);
    }
    let text = std::str::from_utf8(bytes).map_err(|e| DocumentError::NotText { offset: e.valid_up_to() })?;
    let mut documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options(false)).map_err(syntax)?;
    if documents.len() > 1 {
        return Err(DocumentError::Several { count: documents.len() });
    }
    match documents.pop().ok_or(DocumentError::Empty)? {
        Value::Object(map) => Ok(map),
        other => Err(DocumentError::NotMapping { found: field::kind_of(&other) }),
    }
}

/// The same with the booleans that only YAML 1.1 has (`y`, `on`, …) as the words that they are, for errors to show what stands there.
pub fn as_written(bytes: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_BYTES)?;
    serde_saphyr::from_multiple_with_options(text, options(true)).ok()?.pop()
}

fn options(strict_booleans: bool) -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 64,
            max_nodes: 200_000,
            max_events: 500_000,
            max_aliases: 10_000,
            max_anchors: 10_000,
            max_documents: 16,
            max_total_scalar_bytes: 16 << 20,
            max_merge_keys: 10_000,
            // One anchor and a hundred aliases are no bomb: what they stand for is counted.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        strict_booleans: strict_booleans,
        legacy_octal_numbers: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

fn syntax(error: Error) -> DocumentError {
    let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
    let error = error.without_snippet();
    let message = in_our_words(error).unwrap_or_else(|| {
        let text = error.to_string();
        // The parser ends its text with the place, which stands in front here.
        match text.split(" at line ").next().unwrap_or(&text) {
            // Of flow collections, the scanner keeps a count of its own.
            "recursion limit exceeded" => DEEPER.to_owned(),
            words => field::legible(words, 300),
        }
    });
    DocumentError::Syntax { line, column, message }
}

const DEEPER: &str = "nested deeper than 64 levels";

/// What the parser says in words of its own ways.
fn in_our_words(error: &Error) -> Option<String> {
    let words = match error {
        Error::AliasError { error, .. } => return in_our_words(error),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            return Some(format!("duplicate key {}", field::shown(&Value::from(key.as_str()))));
        }
        Error::NonFiniteFloat { value, .. } => return Some(format!("{} is no finite number", field::shown_name(value))),
        // The parser asks for a text where a key is, and nowhere else.
        Error::Unexpected { expected: "string scalar", .. } => "a key is a mapping or a list: it must be a text",
        Error::InvalidScalar { .. } | Error::InvalidBinaryBase64 { .. } | Error::BinaryNotUtf8 { .. } => {
            "a value is not what its tag says"
        }
        Error::TaggedScalarCannotDeserializeIntoString { .. } => "a tag says that a text is none: leave it out",
        Error::NullIntoString { .. } => "a key is empty: it must be a text",
        Error::RecursiveReferencesRequireWeakTypes { .. } => "an alias stands within its own anchor: it would never end",
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => DEEPER,
        Error::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            "more than 16 documents, separated by `---`: expected one"
        }
        Error::Budget {
            breach: BudgetBreach::RecordedAnchorEvents { .. } | BudgetBreach::RecordedAnchorBytes { .. }, ..
        } => "too much in one document: anchors within anchors hold too much",
        Error::Budget { .. } => {
            "too much in one document: at most 200000 values, 10000 anchors, 10000 aliases, 10000 merge keys and 16 MiB of text"
        }
        Error::AliasReplayLimitExceeded { .. } | Error::AliasReplayStackDepthExceeded { .. } => {
            "aliases stand for too much: at most 100000 values, written out"
        }
        _ => return None,
    };
    Some(words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let found = parse(text.as_bytes()).map(|map| Value::Object(map).to_string()).map_err(|e| e.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{}", &text[..text.len().min(200)]);
    }

    #[test]
    fn yaml_and_json_are_read_as_the_kubelet_reads_them() {
        check("a: yes\nb: 0644\nc: \"yes\"\nd: 1:30", Ok(r#"{"a":true,"b":420,"c":"yes","d":"1:30"}"#));
        check("{\n\t\"a\": [1, null]\n}", Ok(r#"{"a":[1,null]}"#));
        check("\u{feff}---\na: 1\r\n---\n# nothing more\n", Ok(r#"{"a":1}"#));
        check("x: &x {a: 1}\ny:\n  <<: *x\n  b: 2", Ok(r#"{"x":{"a":1},"y":{"b":2,"a":1}}"#));
    }

    #[test]
    fn booleans_of_yaml_1_1_can_be_seen_as_written() {
        let written = as_written(b"a: y\nb: [true, Off]").map(|value| value.to_string());
        assert_eq!(written.as_deref(), Some(r#"{"a":"y","b":[true,"Off"]}"#));
        assert_eq!(as_written(b"a: ["), None);
    }

    #[test]
    fn what_is_not_one_mapping_says_what_it_is() {
        check("", Err("empty: expected one YAML or JSON document"));
        check("# hello\n", Err("empty: expected one YAML or JSON document"));
        check("a: 1\n---\nb: 2", Err("2 documents, separated by `---`: expected one"));
        check("hello", Err("expected a mapping with apiVersion and kind, found a string"));
        check("- 1", Err("expected a mapping with apiVersion and kind, found a list"));
        check("a: 1\na: 2", Err("line 2, column 1: duplicate key \"a\""));
        check("a: 1\n: x", Err("line 2, column 1: a key is empty: it must be a text"));
        check("a: &a [*a]", Err("line 1, column 8: an alias stands within its own anchor: it would never end"));
        check("a:\n\tb: 1", Err("line 2, column 2: tabs disallowed within this context (block indentation)"));
        check("a: .nan", Err("line 1, column 4: .nan is no finite number"));
        check("a: 1\n{b: 1}: x", Err("line 2, column 1: a key is a mapping or a list: it must be a text"));
        check("a: !!int x", Err("line 1, column 10: a value is not what its tag says"));
        check("a: !!binary '***'", Err("line 1, column 13: a value is not what its tag says"));
        check("a: !!timestamp x", Err("line 1, column 16: a tag says that a text is none: leave it out"));
        let long = format!("a: !{} x", "t".repeat(1000));
        assert!(parse(long.as_bytes()).unwrap_err().to_string().len() < 400);
        let many = format!("a: &a x\nb: [{}]", vec!["*a"; 1000].join(","));
        assert!(parse(many.as_bytes()).is_ok(), "one anchor may have many aliases");
        assert_eq!(parse(b"a: \xff").unwrap_err().to_string(), "not UTF-8 text: byte 3 is not valid");
        assert_eq!(parse(&vec![b' '; MAX_BYTES + 1]), Err(DocumentError::TooLarge));
    }

    #[test]
    fn bombs_are_cut_off_early() {
        let mut laughs = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
        for level in 1..12 {
            laughs += &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 9].join(","));
        }
        let strings = format!("a: &a \"{}\"\nb: [{}]", "x".repeat(1 << 20), vec!["*a"; 5000].join(","));
        let flow = "[".repeat(100_000);
        let blocks: String = (0..3000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        let dashes = "- ".repeat(50_000);
        let itself = "a: &a [*a]".to_owned();
        for bomb in [laughs, strings, flow, blocks, dashes, itself] {
            let error = parse(bomb.as_bytes()).unwrap_err();
            assert!(matches!(error, DocumentError::Syntax { .. }), "{error}");
            let words = ["aliases stand for too much", "too much in one document", "nested deeper", "within its own anchor"];
            assert!(words.iter().any(|words| error.to_string().contains(words)), "{error}");
        }
    }
}
