//! What a configuration file may hold: a table of fields, each with its type, its default and how far this node honours it. One walk over a
//! document finds all that is wrong with it.

use std::net::IpAddr;

use polylet_core::quantity;
use serde_json::{Map, Value};

use super::duration;
use super::eviction;
use crate::document::field::{At, Findings, kind_of};
use crate::document::suggest;

/// Stands for a value that may be secret.
pub(super) const NOT_SHOWN: &str = "(not shown)";

/// One row: a field of a configuration.
#[derive(Debug)]
pub(super) struct Field {
    /// As the file writes it.
    pub(super) name: &'static str,
    /// The type upstream gives it; one with `*` tells zero from absent.
    pub(super) kind: &'static str,
    /// The default, as YAML.
    pub(super) default: &'static str,
    /// What values it takes.
    pub(super) shape: Shape,
    /// How far it is honoured.
    pub(super) stand: Stand,
}

/// What values a field takes.
#[derive(Debug)]
pub(super) enum Shape {
    Bool,
    /// Between two bounds, both included.
    Int(i64, i64),
    Float,
    Text,
    /// A text out of a closed list; case counts.
    OneOf(&'static [&'static str]),
    /// Go's notation.
    Duration,
    /// The same, or a number of nanoseconds.
    DurationOrNanos,
    /// Go's notation, with a sign or without.
    SignedDuration,
    /// The API's notation, not negative.
    Quantity,
    /// The API's notation.
    SignedQuantity,
    /// An address.
    Ip,
    /// Relative to the file that states it.
    Path,
    Texts,
    /// Texts out of a closed list; case counts.
    TextsOf(&'static [&'static str]),
    Ips,
    Ints,
    /// Texts by name.
    TextMap,
    /// Lists of texts by name, which no message shows.
    SecretTextsMap,
    BoolMap,
    /// Amounts of `cpu`, `memory`, `ephemeral-storage`, `pid`.
    Reservation,
    /// Amounts or shares by eviction signal.
    Thresholds,
    /// Durations by eviction signal.
    SignalDurations,
    Object(&'static [Field]),
    Objects(&'static [Field]),
}

/// How far a field is honoured.
#[derive(Debug)]
pub(super) enum Stand {
    /// In full.
    Honoured,
    /// These values are; any other is an error that names what is missing.
    Only(&'static [&'static str], &'static str),
    /// Not yet, and a node that went on would do something else than it was told: another value than the default is an error.
    Refused(&'static str),
    /// Not yet, or it has nothing to act on: whatever is written is a warning, but for a value that asks for nothing.
    Ignored(&'static str),
}

/// Checks a document against its table; `warnings` gets what is accepted without effect.
pub(super) fn check(map: &Map<String, Value>, fields: &[Field], at: &At, errors: &mut Findings, warnings: &mut Findings) {
    for (name, value) in map {
        let here = at.child(name);
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            errors.unknown(&here, suggest::did_you_mean(name, fields.iter().map(|field| field.name)));
            continue;
        };
        if value.is_null() {
            continue;
        }
        let found = errors.0.len();
        check_value(value, field, &here, errors, warnings);
        if errors.0.len() == found {
            check_stand(value, field, &here, errors, warnings);
        }
    }
}

fn check_stand(value: &Value, field: &Field, at: &At, errors: &mut Findings, warnings: &mut Findings) {
    let default = default_of(field);
    let is_default = same(field, value, &default) || zero_is_absent(field) && is_zero(value);
    let only_default = match &default {
        Value::Null => "only leaving it out is".to_owned(),
        default => format!("only the default {default} is"),
    };
    match &field.stand {
        Stand::Honoured => {}
        Stand::Only(values, _) if value.as_str().is_some_and(|text| values.contains(&text)) || is_default => {}
        Stand::Only(values, missing) => {
            let list: Vec<String> = values.iter().filter(|v| !v.is_empty()).map(|v| format!("{v:?}")).collect();
            errors.invalid(at, value.clone(), format!("not supported yet ({missing}): only {} is", list.join(", ")));
        }
        Stand::Refused(_) if is_default => {}
        Stand::Refused(missing) => errors.invalid(at, value.clone(), format!("not supported yet ({missing}): {only_default}")),
        Stand::Ignored(_) if asks_for_nothing(value) => {}
        // At its default too: whoever writes it counts on it.
        Stand::Ignored(reason) => warnings.ignored(at, value.clone(), *reason),
    }
}

/// The default of a field; null where it has none.
pub(super) fn default_of(field: &Field) -> Value {
    // The tables are ours and a test parses every default: nothing is lost here.
    serde_saphyr::from_str(field.default).unwrap_or_default()
}

/// Upstream cannot tell a zero from absence in a type without `*`, and takes the default.
pub(super) fn zero_is_absent(field: &Field) -> bool {
    !field.kind.starts_with('*') && field.kind != "bool"
}

/// What an encoding without presence cannot tell from absence.
pub(super) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty() || duration::parse(text).is_ok_and(|d| d.is_zero()),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// Off, none, zero: what a node that does not have the feature does anyway.
fn asks_for_nothing(value: &Value) -> bool {
    is_zero(value) || matches!(value, Value::Bool(false)) || value.as_str().is_some_and(|text| quantity::milli(text) == Ok(0))
}

fn same(field: &Field, a: &Value, b: &Value) -> bool {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if a == b || empty(a) && empty(b) {
        return true;
    }
    let (Some(a), Some(b)) = (a.as_str(), b.as_str()) else { return false };
    match field.shape {
        Shape::Duration => duration::parse(a).ok() == duration::parse(b).ok(),
        Shape::Quantity => quantity::milli(a).ok() == quantity::milli(b).ok(),
        Shape::Path => a.trim_end_matches('/') == b.trim_end_matches('/'),
        // `None` and `none` are both about.
        Shape::OneOf(_) => a.eq_ignore_ascii_case(b),
        _ => false,
    }
}

fn check_value(value: &Value, field: &Field, at: &At, errors: &mut Findings, warnings: &mut Findings) {
    match &field.shape {
        Shape::Object(fields) => match value {
            Value::Object(map) => check(map, fields, at, errors, warnings),
            _ => wrong_type(value, at, "a mapping", errors),
        },
        Shape::Objects(fields) => each(value, at, errors, |entry, at, errors| match entry {
            Value::Object(map) => check(map, fields, at, errors, warnings),
            _ => wrong_type(entry, at, "a mapping", errors),
        }),
        Shape::Texts => each(value, at, errors, |entry, at, errors| scalar(entry, &Shape::Text, at, errors)),
        Shape::TextsOf(list) => each(value, at, errors, |entry, at, errors| scalar(entry, &Shape::OneOf(list), at, errors)),
        Shape::Ips => each(value, at, errors, |entry, at, errors| scalar(entry, &Shape::Ip, at, errors)),
        Shape::Ints => each(value, at, errors, |entry, at, errors| scalar(entry, &Shape::Int(i64::MIN, i64::MAX), at, errors)),
        Shape::TextMap => every(value, at, errors, |_, entry, at, errors| scalar(entry, &Shape::Text, at, errors)),
        Shape::BoolMap => every(value, at, errors, |_, entry, at, errors| scalar(entry, &Shape::Bool, at, errors)),
        Shape::SecretTextsMap => secret_texts(value, at, errors),
        Shape::Reservation => every(value, at, errors, |name, entry, at, errors| {
            if !matches!(name, "cpu" | "memory" | "ephemeral-storage" | "pid") {
                errors.unsupported(at, name, &["cpu", "ephemeral-storage", "memory", "pid"]);
            }
            scalar(entry, &Shape::Quantity, at, errors);
        }),
        Shape::Thresholds => every(value, at, errors, |name, entry, at, errors| {
            eviction::check_signal(name, at, errors);
            match entry {
                Value::String(text) => eviction::check_amount(text, at, errors),
                _ => wrong_type(entry, at, "a quantity or a percentage, in quotes", errors),
            }
        }),
        Shape::SignalDurations => every(value, at, errors, |name, entry, at, errors| {
            eviction::check_signal(name, at, errors);
            scalar(entry, &Shape::Duration, at, errors);
        }),
        shape => scalar(value, shape, at, errors),
    }
}

/// What is wrong is told without what was written.
fn secret_texts(value: &Value, at: &At, errors: &mut Findings) {
    let hidden = |value: &Value, at: &At, wanted: &str, errors: &mut Findings| {
        errors.invalid(at, NOT_SHOWN, format!("must be {wanted}, not {}", kind_of(value)));
    };
    let Value::Object(map) = value else { return hidden(value, at, "a mapping of lists", errors) };
    for (name, list) in map {
        let at = at.key(name);
        match list {
            // In a drop-in, null takes an entry away.
            Value::Null => {}
            Value::Array(entries) => {
                for (i, entry) in entries.iter().enumerate().filter(|(_, entry)| !entry.is_string()) {
                    hidden(entry, &at.index(i), "a string", errors);
                }
            }
            other => hidden(other, &at, "a list of strings", errors),
        }
    }
}

fn each(value: &Value, at: &At, errors: &mut Findings, mut check: impl FnMut(&Value, &At, &mut Findings)) {
    match value {
        Value::Array(list) => list.iter().enumerate().for_each(|(i, entry)| check(entry, &at.index(i), errors)),
        _ => wrong_type(value, at, "a list", errors),
    }
}

fn every(value: &Value, at: &At, errors: &mut Findings, mut check: impl FnMut(&str, &Value, &At, &mut Findings)) {
    match value {
        Value::Object(map) => {
            // In a drop-in, null takes an entry away.
            for (name, entry) in map.iter().filter(|(_, entry)| !entry.is_null()) {
                check(name, entry, &at.key(name), errors);
            }
        }
        _ => wrong_type(value, at, "a mapping", errors),
    }
}

fn scalar(value: &Value, shape: &Shape, at: &At, errors: &mut Findings) {
    match (shape, value) {
        (Shape::Bool, Value::Bool(_)) | (Shape::Float, Value::Number(_)) | (Shape::Text | Shape::Path, Value::String(_)) => {}
        (Shape::Int(low, high), Value::Number(number)) => match number.as_i64() {
            Some(number) => errors.between(at, number, *low, *high),
            None => wrong_type(value, at, "a whole number", errors),
        },
        (Shape::OneOf(list), Value::String(text)) => {
            // Empty is absent.
            if !text.is_empty() && !list.contains(&text.as_str()) {
                errors.unsupported(at, text.as_str(), list);
            }
        }
        (Shape::DurationOrNanos, Value::Number(number)) if number.is_u64() => {}
        (Shape::Duration | Shape::DurationOrNanos | Shape::SignedDuration, Value::String(text)) => {
            let signed = matches!(shape, Shape::SignedDuration);
            let amount = text.strip_prefix('-').filter(|_| signed).unwrap_or(text);
            if let Err(why) = duration::parse(amount) {
                errors.invalid(at, text.as_str(), why);
            }
        }
        (Shape::Quantity | Shape::SignedQuantity, Value::String(text)) => {
            let text =
                if matches!(shape, Shape::SignedQuantity) { text.strip_prefix('-').unwrap_or(text) } else { text.as_str() };
            // Of a text, empty is absent.
            let absent = matches!(shape, Shape::SignedQuantity) && value.as_str() == Some("");
            if let Err(why) = quantity::milli(text)
                && !absent
            {
                errors.invalid(at, value.clone(), why.to_string());
            }
        }
        (Shape::Ip, Value::String(text)) => {
            if text.parse::<IpAddr>().is_err() && !text.is_empty() {
                errors.invalid(at, text.as_str(), "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
            }
        }
        (Shape::Bool, _) => wrong_type(value, at, "true or false", errors),
        (Shape::Int(..), _) => wrong_type(value, at, "a whole number", errors),
        (Shape::Float, _) => wrong_type(value, at, "a number", errors),
        (Shape::DurationOrNanos, _) => wrong_type(value, at, "a duration such as 5s, or a number of nanoseconds", errors),
        (Shape::Duration | Shape::SignedDuration, _) => wrong_type(value, at, "a duration such as 30s or 1m30s", errors),
        (Shape::Quantity | Shape::SignedQuantity, _) => {
            wrong_type(value, at, "a quantity such as 500m or 1Gi, in quotes", errors)
        }
        _ => wrong_type(value, at, "a string", errors),
    }
}

fn wrong_type(value: &Value, at: &At, wanted: &str, errors: &mut Findings) {
    errors.invalid(at, value.clone(), format!("must be {wanted}, not {}", kind_of(value)));
}

/// A flag's text as the value of its field. What does not fit stays a text, for [`check`] to complain about.
pub(super) fn from_text(field: &Field, text: &str) -> Value {
    let pairs = |separators: &[&str], convert: fn(&str) -> Value| {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let entries = parts.map(|part| {
            let (name, value) = separators.iter().find_map(|s| part.split_once(s)).unwrap_or((part, ""));
            (name.trim().to_owned(), convert(value.trim()))
        });
        Value::Object(entries.collect())
    };
    let bool_or_text = |text: &str| text.to_lowercase().parse().map_or_else(|_| Value::from(text), Value::Bool);
    match field.shape {
        Shape::Bool => bool_or_text(text),
        Shape::Int(..) => text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from),
        Shape::Float => text.parse::<f64>().map_or_else(|_| Value::from(text), Value::from),
        Shape::Texts | Shape::TextsOf(_) | Shape::Ips => {
            text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(Value::from).collect()
        }
        Shape::SecretTextsMap => header_lists(text),
        Shape::BoolMap => pairs(&["="], |value| value.to_lowercase().parse().map_or_else(|_| Value::from(value), Value::Bool)),
        Shape::TextMap | Shape::Reservation | Shape::SignalDurations => pairs(&["="], |value| Value::from(value)),
        Shape::Thresholds => pairs(&["<", "="], |value| Value::from(value)),
        // `--register-with-taints`: key=value:effect, the value being optional.
        Shape::Objects(_) => text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(taint).collect(),
        _ => Value::from(text),
    }
}

/// `--manifest-url-header`: `name:value`, with commas between them; a name may come again.
fn header_lists(text: &str) -> Value {
    let mut lists = Map::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        // Without a colon it is no list, for the check to complain about.
        let Some((name, value)) = pair.split_once(':') else { return Value::from(text) };
        let list = lists.entry(name.trim()).or_insert_with(|| Value::Array(Vec::new()));
        list.as_array_mut().into_iter().for_each(|list| list.push(Value::from(value.trim())));
    }
    Value::Object(lists)
}

fn taint(text: &str) -> Value {
    let Some((rest, effect)) = text.rsplit_once(':') else { return Value::from(text) };
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    serde_json::json!({ "key": key, "value": value, "effect": effect })
}
