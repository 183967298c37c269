//! A binding's file as a binding. Every error names the field, the value and what would be right.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use polylet_core::question::Hook;
use serde_json::{Map, Value, json};

use super::field::{Fields, Findings, invalid};
use super::{API_VERSION, Binding, BindingError, KIND};
use crate::digest::is_digest;
use crate::limits::{LimitSpec, Limits, MEMORY_MAX, bytes_of, duration_of};

/// Bounds of what a binding may allow its policy; those above of fuel and time are the hook's: [`Limits::most`].
const FUEL_LEAST: u64 = 1_000;
const TIMEOUT_LEAST: Duration = Duration::from_millis(1);
const MEMORY: std::ops::RangeInclusive<u64> = (64 << 10)..=MEMORY_MAX as u64;
const STORE: std::ops::RangeInclusive<u64> = 0..=(1 << 20);
const LOG: std::ops::RangeInclusive<u64> = 0..=(256 << 10);

/// `is_named`: the binding must have the name of its file. A generation that is kept aside lies under the name of its hook.
pub(super) fn binding(file: &Path, bytes: &[u8], is_named: bool) -> Result<Binding, Vec<BindingError>> {
    let whole = |problem: String| vec![BindingError { file: file.into(), field: String::new(), problem, hooks: Vec::new() }];
    let document = document(bytes).map_err(whole)?;
    let mut found = Findings::new();
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    match walk(is_named.then_some(stem), &document, &mut found) {
        Some(binding) if found.is_empty() => Ok(binding),
        _ => {
            let hook = document.get("spec").and_then(|spec| spec.get("hook")).and_then(Value::as_str).and_then(hook);
            let error = |(field, problem)| BindingError { file: file.into(), field, problem, hooks: hook.into_iter().collect() };
            Err(found.into_iter().map(error).collect())
        }
    }
}

fn document(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("is not UTF-8 text: byte {}", error.valid_up_to()))?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 64,
            max_nodes: 50_000,
            max_documents: 1,
            max_anchors: 100,
            max_aliases: 100,
            // One anchor and a hundred aliases are no bomb: what they stand for is counted.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 50_000 },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options(text, options) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(Value::Null) => Err(format!("is empty: it must hold a {KIND}")),
        Ok(_) => Err(format!("must be a mapping with apiVersion: {API_VERSION} and kind: {KIND}")),
        Err(error) => Err(format!("is neither YAML nor JSON: {}", words(&error))),
    }
}

/// The parser's words, but where they are about its own ways.
fn words(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error;
    use serde_saphyr::budget::BudgetBreach::{Depth, Documents};
    // What is wrong below an alias is told with the alias's place.
    let mut inner = error.without_snippet();
    while let Error::AliasError { error, .. } = inner {
        inner = error.without_snippet();
    }
    let said = match inner {
        Error::NullIntoString { .. } => "a key is empty: it must be a text",
        Error::RecursiveReferencesRequireWeakTypes { .. } => "an alias stands within its own anchor: it would never end",
        Error::Budget { breach: Depth { .. }, .. } => "nested deeper than 64 levels",
        Error::Budget { breach: Documents { .. }, .. } => "several documents: a binding is one",
        Error::Budget { .. } => "larger than any binding: at most 50000 values, 100 anchors and 100 aliases",
        Error::AliasReplayLimitExceeded { .. } | Error::AliasReplayStackDepthExceeded { .. } => {
            "aliases stand for too much: at most 50000 values, written out"
        }
        other => return other.to_string(),
    };
    let place = error.location().map(|at| format!(" at line {}, column {}", at.line(), at.column()));
    format!("{said}{}", place.unwrap_or_default())
}

fn walk(stem: Option<&str>, document: &Map<String, Value>, found: &mut Findings) -> Option<Binding> {
    let mut root = Fields::root(document);
    constant(&mut root, "apiVersion", API_VERSION, found);
    constant(&mut root, "kind", KIND, found);
    let name = root.object("metadata", true, found).and_then(|mut metadata| {
        let name = metadata.text("name", "the name of the file without its extension", found);
        let at = metadata.at("name");
        metadata.finish(found);
        named(stem, at, name?, found)
    });
    let spec = root.object("spec", true, found).and_then(|mut spec| {
        let hooks = Hook::ALL.map(|hook| format!("{:?}", hook.as_str())).join(", ");
        let at = spec.at("hook");
        let hook = spec.text("hook", &format!("one of {hooks}"), found).and_then(|text| {
            hook(text).or_else(|| {
                found.push((at, format!("Unsupported value: {text:?}: supported values: {hooks}")));
                None
            })
        });
        let at = spec.at("component");
        let component = spec.text("component", "the component's file, a path below this directory", found).and_then(|text| {
            let right = "must be a path below this directory, relative to it and without \"..\"";
            if is_below(text) { Some(PathBuf::from(text)) } else { invalid(found, at, &json!(text), right) }
        });
        let at = spec.at("digest");
        let digest =
            spec.text("digest", "the component's digest: \"sha256:\" and what `sha256sum` prints", found).and_then(|text| {
                let right = "must be \"sha256:\" and 64 hexadecimal digits in lower case";
                if is_digest(text) { Some(text) } else { invalid(found, at, &json!(text), right) }
            });
        let config = spec.get("config").cloned().unwrap_or_else(|| json!({}));
        let limits = spec.object("limits", false, found).map(|limits| limit_spec(limits, hook, found)).unwrap_or_default();
        spec.finish(found);
        Some((hook?, component?, digest?, config, limits))
    });
    root.finish(found);
    let (hook, component, digest, config, limits) = spec?;
    Some(Binding { name: name?, hook, component, digest: digest.into(), config, limits })
}

fn constant(root: &mut Fields<'_>, field: &'static str, value: &str, found: &mut Findings) {
    let right = format!("must be {value:?}");
    root.text(field, &right, found)
        .filter(|text| *text != value)
        .map(|text| invalid::<()>(found, field.into(), &json!(text), &right));
}

fn named(stem: Option<&str>, at: String, name: &str, found: &mut Findings) -> Option<String> {
    match (name, stem) {
        (name, _) if !is_label(name) => {
            invalid(found, at, &json!(name), "must be a DNS label: up to 63 of a-z, 0-9 and '-', a letter or digit at each end")
        }
        (name, Some(stem)) if name != stem => {
            invalid(found, at, &json!(name), &format!("must be the name of the file without its extension: {stem:?}"))
        }
        (name, _) => Some(name.to_owned()),
    }
}

/// Of a hook that is not known nothing is said beyond what no hook may have.
fn limit_spec(mut limits: Fields<'_>, hook: Option<Hook>, found: &mut Findings) -> LimitSpec {
    let (fuel, timeout) = Limits::most(hook.unwrap_or(Hook::Eviction));
    let of = hook.map(|hook| format!(" for {}", hook.as_str())).unwrap_or_default();
    let within = |range: &std::ops::RangeInclusive<u64>| format!("from {} to {}", range.start(), range.end());
    let bytes = |range: std::ops::RangeInclusive<u64>| {
        move |value: &Value| amount(value).filter(|n| range.contains(n)).and_then(|n| usize::try_from(n).ok())
    };
    let right = |range| format!("must be a number of bytes, or one with Ki or Mi, {}", within(range));
    let right_fuel = format!("must be a whole number from {FUEL_LEAST} to {fuel}{of}");
    let right_timeout = format!("must be a duration like \"250ms\" or \"1s\", from 1ms to {}s{of}", timeout.as_secs());
    let spec = LimitSpec {
        fuel: limits
            .optional("fuel", &right_fuel, found, |value| value.as_u64().filter(|found| (FUEL_LEAST..=fuel).contains(found))),
        timeout: limits.optional("timeout", &right_timeout, found, |value| {
            duration_of(value.as_str()?).filter(|found| (TIMEOUT_LEAST..=timeout).contains(found))
        }),
        memory: limits.optional("memory", &right(&MEMORY), found, bytes(MEMORY)),
        store_bytes: limits.optional("storeBytes", &right(&STORE), found, bytes(STORE)),
        log_bytes: limits.optional("logBytes", &right(&LOG), found, bytes(LOG)),
    };
    limits.finish(found);
    spec
}

/// What a binding for the hook may not say of its limits.
pub(super) fn wrong_limits(limits: &LimitSpec, hook: Hook) -> Findings {
    let mut found = Findings::new();
    let written = Map::from_iter([("spec".to_owned(), json!({ "limits": limits.written() }))]);
    let spec = Fields::root(&written).object("spec", true, &mut found);
    if let Some(limits) = spec.and_then(|mut spec| spec.object("limits", true, &mut found)) {
        limit_spec(limits, Some(hook), &mut found);
    }
    found
}

fn hook(text: &str) -> Option<Hook> {
    Hook::ALL.into_iter().find(|hook| hook.as_str() == text)
}

fn amount(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| bytes_of(value.as_str()?))
}

/// Whether a path leads nowhere but below the directory that it starts from, links aside.
fn is_below(path: &str) -> bool {
    Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// A label as DNS and the API have it.
pub(super) fn is_label(text: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}
