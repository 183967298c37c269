//! A walk over a document that remembers where it is, and what it has not been asked about.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// What is wrong with which field, in the API's words.
pub(super) type Findings = Vec<(String, String)>;

/// An object of the document.
pub(super) struct Fields<'a> {
    path: String,
    map: &'a Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub(super) fn root(map: &'a Map<String, Value>) -> Self {
        Self { path: String::new(), map, known: Vec::new() }
    }

    /// A field's value; None also where it is null.
    pub(super) fn get(&mut self, name: &'static str) -> Option<&'a Value> {
        self.known.push(name);
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn at(&self, name: &str) -> String {
        match self.path.is_empty() {
            true => name.to_owned(),
            false => format!("{}.{name}", self.path),
        }
    }

    /// An object; None, with a finding where it is something else or missing though required.
    pub(super) fn object(&mut self, name: &'static str, required: bool, found: &mut Findings) -> Option<Fields<'a>> {
        let path = self.at(name);
        match self.get(name) {
            Some(Value::Object(map)) => Some(Fields { path, map, known: Vec::new() }),
            Some(other) => invalid(found, path, other, "must be a mapping"),
            None if required => missing(found, path, "a mapping"),
            None => None,
        }
    }

    /// A text that must be there.
    pub(super) fn text(&mut self, name: &'static str, right: &str, found: &mut Findings) -> Option<&'a str> {
        let path = self.at(name);
        match self.get(name) {
            Some(Value::String(text)) if !text.is_empty() => Some(text),
            Some(other) => invalid(found, path, other, right),
            None => missing(found, path, right),
        }
    }

    /// A value that may be missing, read by `read`.
    pub(super) fn optional<T>(
        &mut self,
        name: &'static str,
        right: &str,
        found: &mut Findings,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let path = self.at(name);
        let value = self.get(name)?;
        read(value).or_else(|| invalid(found, path, value, right))
    }

    /// To be called last: names what nobody asked about.
    pub(super) fn finish(self, found: &mut Findings) {
        for name in self.map.keys().filter(|name| !self.known.contains(&name.as_str())) {
            let mut problem = "Unknown field".to_owned();
            let near = self.known.iter().find(|known| known.eq_ignore_ascii_case(name) || near(known, name));
            let _ = match near {
                Some(near) => write!(problem, ": did you mean {near:?}?"),
                None => write!(problem, ": known here are {}", self.known.join(", ")),
            };
            found.push((self.at(name), problem));
        }
    }
}

pub(super) fn invalid<T>(found: &mut Findings, path: String, value: &Value, right: &str) -> Option<T> {
    let mut shown = value.to_string();
    if shown.len() > 100 {
        shown.truncate(shown.floor_char_boundary(100));
        shown.push('…');
    }
    found.push((path, format!("Invalid value: {shown}: {right}")));
    None
}

fn missing<T>(found: &mut Findings, path: String, right: &str) -> Option<T> {
    found.push((path, format!("Required value: {right}")));
    None
}

/// One letter added, left out or changed, or two neighbours swapped.
fn near(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[head..], &b[head..]);
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[..a.len() - tail], &b[..b.len() - tail]);
    matches!((a.len(), b.len()), (0 | 1, 0 | 1)) || (a.len() == 2 && b.len() == 2 && a[0] == b[1] && a[1] == b[0])
}
