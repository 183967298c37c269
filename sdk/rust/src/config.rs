//! Reading a configuration, with messages that name the field and say what would be right.

use std::cell::OnceCell;
use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::ask::{Imports, Node};
use crate::json::{self, Json};

/// The policy's configuration. It is fetched from the node only when it is looked at.
#[derive(Clone, Debug, Default)]
pub struct Config(OnceCell<String>);

impl Config {
    /// A configuration by its text.
    #[must_use]
    pub fn of(text: impl Into<String>) -> Self {
        Self(OnceCell::from(text.into()))
    }

    /// What the policy is bound with.
    pub(crate) fn bound() -> Self {
        Self(OnceCell::new())
    }

    /// The JSON text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.get_or_init(|| Node.config())
    }

    /// The fields of the configuration. An empty text has none.
    ///
    /// # Errors
    /// The text is not JSON, or not an object.
    pub fn fields(&self) -> Result<Fields, String> {
        let text = self.text().trim();
        if text.is_empty() {
            return Ok(Fields { path: String::new(), entries: Vec::new() });
        }
        match json::parse(text)? {
            Json::Object(entries) => Ok(Fields { path: String::new(), entries }),
            other => Err(format!("expected an object such as {{}}, found {}", other.kind())),
        }
    }
}

/// The fields of an object. All readers answer `None` for a field that is absent or null.
#[derive(Clone, Debug)]
pub struct Fields {
    path: String,
    entries: Vec<(String, Json)>,
}

impl Fields {
    /// Refuses fields that are not among `known`.
    ///
    /// # Errors
    /// Names the first unknown field, and those that there are.
    pub fn only(&self, known: &[&str]) -> Result<(), String> {
        match self.names().find(|name| !known.contains(name)) {
            None => Ok(()),
            Some(name) => Err(format!("unknown field `{}`; the fields are: {}", self.path_of(name), known.join(", "))),
        }
    }

    /// The names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| name.as_str())
    }

    /// A whole number within a range.
    ///
    /// # Errors
    /// The field is not a whole number, or is out of range.
    pub fn integer(&self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, String> {
        self.read(name, |value| integer(value, &range), integer_wanted(&range))
    }

    /// A list of whole numbers within a range.
    ///
    /// # Errors
    /// The field is not a list, or an element is not a whole number or out of range.
    pub fn integers(&self, name: &str, range: RangeInclusive<i64>) -> Result<Option<Vec<i64>>, String> {
        let Some(list) = self.read(name, Json::as_list, "a list")? else { return Ok(None) };
        let element = |(index, value)| {
            let error = || wrong(&format!("{}[{index}]", self.path_of(name)), integer_wanted(&range), value);
            integer(value, &range).ok_or_else(error)
        };
        list.iter().enumerate().map(element).collect::<Result<_, _>>().map(Some)
    }

    /// A text.
    ///
    /// # Errors
    /// The field is not a text.
    pub fn text(&self, name: &str) -> Result<Option<&str>, String> {
        self.read(name, Json::as_text, "a text")
    }

    /// True or false.
    ///
    /// # Errors
    /// The field is neither.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, String> {
        self.read(name, Json::as_flag, "true or false")
    }

    /// An object, whose fields are named with their path in messages.
    ///
    /// # Errors
    /// The field is not an object.
    pub fn object(&self, name: &str) -> Result<Option<Fields>, String> {
        let entries = self.read(name, Json::as_object, "an object")?;
        Ok(entries.map(|entries| Fields { path: self.path_of(name), entries: entries.to_vec() }))
    }

    /// The message about a field that does not hold what is wanted.
    #[must_use]
    pub fn wrong(&self, name: &str, wanted: impl Display) -> String {
        wrong(&self.path_of(name), wanted, self.value(name).unwrap_or(&Json::Null))
    }

    fn read<'a, T>(
        &'a self,
        name: &str,
        reader: impl FnOnce(&'a Json) -> Option<T>,
        wanted: impl Display,
    ) -> Result<Option<T>, String> {
        match self.value(name) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => reader(value).map(Some).ok_or_else(|| wrong(&self.path_of(name), wanted, value)),
        }
    }

    fn value(&self, name: &str) -> Option<&Json> {
        self.entries.iter().find(|(entry, _)| entry == name).map(|(_, value)| value)
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

fn integer(value: &Json, range: &RangeInclusive<i64>) -> Option<i64> {
    value.as_integer().filter(|number| range.contains(number))
}

fn integer_wanted(range: &RangeInclusive<i64>) -> String {
    format!("a whole number from {} to {}", range.start(), range.end())
}

fn wrong(path: &str, wanted: impl Display, found: &Json) -> String {
    format!("field `{path}`: expected {wanted}, found {found}")
}
