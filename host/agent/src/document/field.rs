//! Errors about one field, in the API's words: `spec.containers[0].name: Required value`.

use std::fmt;

use serde_json::Value;

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path from the document's root.
    pub field: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What can be wrong with a field. Values are rendered: strings in quotes, the rest as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It must be there.
    Required(String),
    /// It must not be there, or not so.
    Forbidden(String),
    /// The value is wrong.
    Invalid {
        /// The value.
        value: String,
        /// What would be right.
        detail: String,
    },
    /// The value is not one of a closed list.
    Unsupported {
        /// The value.
        value: String,
        /// The list.
        supported: Vec<String>,
    },
    /// The value stands elsewhere already.
    Duplicate(String),
    /// What the value names is not there.
    NotFound(String),
    /// Too many or too long.
    TooLong(String),
    /// No such field.
    Unknown(String),
    /// The value is right, and changes nothing.
    Ignored {
        /// The value.
        value: String,
        /// Why it changes nothing.
        why: String,
    },
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (words, detail) = match &self.problem {
            Problem::Required(detail) => ("Required value".to_owned(), detail.clone()),
            Problem::Forbidden(detail) => ("Forbidden".to_owned(), detail.clone()),
            Problem::Invalid { value, detail } => (format!("Invalid value: {value}"), detail.clone()),
            Problem::Unsupported { value, supported } => {
                let list: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
                (format!("Unsupported value: {value}"), format!("supported values: {}", list.join(", ")))
            }
            Problem::Duplicate(value) => (format!("Duplicate value: {value}"), String::new()),
            Problem::NotFound(value) => (format!("Not found: {value}"), String::new()),
            Problem::TooLong(detail) => ("Too long".to_owned(), detail.clone()),
            Problem::Unknown(detail) => ("Unknown field".to_owned(), detail.clone()),
            Problem::Ignored { value, why } => (format!("{value} has no effect"), why.clone()),
        };
        write!(f, "{}: {words}", self.field)?;
        if !detail.is_empty() {
            write!(f, ": {}", legible(&detail, LONGEST_DETAIL))?;
        }
        Ok(())
    }
}

/// A place in a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At(String);

impl At {
    /// The root.
    pub fn root() -> Self {
        Self::default()
    }

    /// A place by its written path.
    pub fn of(path: &str) -> Self {
        Self(path.to_owned())
    }

    /// A field of it.
    pub fn child(&self, name: &str) -> Self {
        let name = legible(name, LONGEST_NAME);
        if self.0.is_empty() { Self(name) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// An entry of the list.
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// An entry of the map.
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{}]", self.0, legible(key, LONGEST_NAME)))
    }

    /// The written path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a check has found so far.
#[derive(Debug, Default)]
pub struct Findings(pub Vec<FieldError>);

impl Findings {
    /// The field must be there.
    pub fn required(&mut self, at: &At, detail: &str) {
        self.add(at, Problem::Required(detail.to_owned()));
    }

    /// The field must not be there, or not so.
    pub fn forbidden(&mut self, at: &At, detail: impl Into<String>) {
        self.add(at, Problem::Forbidden(detail.into()));
    }

    /// The value is wrong; `detail` says what would be right.
    pub fn invalid(&mut self, at: &At, value: impl Into<Value>, detail: impl Into<String>) {
        self.add(at, Problem::Invalid { value: shown(&value.into()), detail: detail.into() });
    }

    /// Likewise for a value that the file writes in other words.
    pub fn invalid_as_written(&mut self, at: &At, value: &Value, written: &str, detail: impl Into<String>) {
        self.add(at, Problem::Invalid { value: format!("{} (written {written})", shown(value)), detail: detail.into() });
    }

    /// The value is right, and changes nothing: a warning.
    pub fn ignored(&mut self, at: &At, value: impl Into<Value>, why: impl Into<String>) {
        self.add(at, Problem::Ignored { value: shown(&value.into()), why: why.into() });
    }

    /// The value is not in the list.
    pub fn unsupported(&mut self, at: &At, value: impl Into<Value>, supported: &[&str]) {
        let supported = supported.iter().map(|s| (*s).to_owned()).collect();
        self.add(at, Problem::Unsupported { value: shown(&value.into()), supported });
    }

    /// The value stands elsewhere already.
    pub fn duplicate(&mut self, at: &At, value: impl Into<Value>) {
        self.add(at, Problem::Duplicate(shown(&value.into())));
    }

    /// What the value names is not there.
    pub fn not_found(&mut self, at: &At, value: impl Into<Value>) {
        self.add(at, Problem::NotFound(shown(&value.into())));
    }

    /// Too many or too long.
    pub fn too_long(&mut self, at: &At, detail: impl Into<String>) {
        self.add(at, Problem::TooLong(detail.into()));
    }

    /// No such field.
    pub fn unknown(&mut self, at: &At, detail: impl Into<String>) {
        self.add(at, Problem::Unknown(detail.into()));
    }

    /// A value out of a closed list; absent counts as right.
    pub fn one_of(&mut self, at: &At, value: Option<&str>, supported: &[&str]) {
        if let Some(value) = value.filter(|v| !supported.contains(v)) {
            self.unsupported(at, value, supported);
        }
    }

    /// A number between two bounds, both included.
    pub fn between(&mut self, at: &At, value: i64, low: i64, high: i64) {
        if !(low..=high).contains(&value) {
            self.invalid(at, value, format!("must be between {low} and {high}, inclusive"));
        }
    }

    /// A number of zero or more; absent counts as right.
    pub fn not_negative(&mut self, at: &At, value: Option<i64>) {
        if let Some(value) = value.filter(|v| *v < 0) {
            self.invalid(at, value, "must be greater than or equal to 0");
        }
    }

    /// Every complaint of a format check becomes an invalid value.
    pub fn format(&mut self, at: &At, value: &str, complaints: Vec<String>) {
        for complaint in complaints {
            self.invalid(at, value, complaint);
        }
    }

    fn add(&mut self, at: &At, problem: Problem) {
        self.0.push(FieldError { field: at.0.clone(), problem });
    }
}

/// Characters of a name or a value that errors show: a message stays readable.
const LONGEST_NAME: usize = 100;
/// Characters of what would be right: it may list all that a field knows, and may quote what the file says.
const LONGEST_DETAIL: usize = 2000;

/// A value as errors show it.
pub fn shown(value: &Value) -> String {
    legible(&value.to_string(), LONGEST_NAME)
}

/// A name out of a document as errors show it.
pub fn shown_name(name: &str) -> String {
    legible(name, LONGEST_NAME)
}

/// The beginning of a text that somebody else wrote. It is to be one line of a log, moves no cursor and turns no text around.
pub fn legible(text: &str, most: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(most));
    for (n, c) in text.chars().enumerate() {
        if n == most {
            shown.push('…');
            break;
        }
        if c.is_control() || turns(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// Characters that are not seen, but change how those beside them are: ends of lines, and directions of writing.
fn turns(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What a value is, for people.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says_neither_floods_a_line_nor_ends_it() {
        let at = At::root().child("a\u{1b}[31m").child(&"k".repeat(101)).key("x\ny\u{202e}\u{9b}");
        assert_eq!(at.as_str(), format!("a\\u{{1b}}[31m.{}…[x\\ny\\u{{202e}}\\u{{9b}}]", "k".repeat(100)));
        assert_eq!(at.index(3).child("ä").as_str(), format!("{}[3].ä", at.as_str()));
        let mut findings = Findings::default();
        findings.invalid(&At::of("a"), format!("\u{7f}{}", "x".repeat(200)), format!("{:?}\n", "y".repeat(5000)));
        let told = findings.0[0].to_string();
        assert!(told.starts_with("a: Invalid value: \"\\u{7f}xxx") && told.ends_with("yyy…"), "{told}");
        assert!(told.chars().count() < 2200, "{}", told.len());
    }
}
