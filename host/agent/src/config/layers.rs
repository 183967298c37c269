//! Files into one tree: the base, its drop-ins, the flags on top. Each layer is checked by itself, so that an error names its file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::schema::{self, Field, Shape};
use super::{Layer, Problem, eviction, kubelet};
use crate::document::field::{At, FieldError, Findings};
use crate::document::{self, MAX_BYTES};
use crate::flags::Flags;

/// What was found while the layers were read.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) errors: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
    /// Who wrote a value last, by the steps to it with dots between them.
    written: BTreeMap<String, Layer>,
}

impl Found {
    /// What is wrong within one layer.
    pub(super) fn add(&mut self, layer: &Layer, errors: Findings, warnings: Findings) {
        let tell = |error: FieldError| Problem { layer: layer.clone(), what: error.to_string() };
        self.errors.extend(errors.0.into_iter().map(tell));
        self.warnings.extend(warnings.0.into_iter().map(tell));
    }

    /// What only the merged tree shows: each is laid to whoever wrote the value last.
    pub(super) fn add_by_place(&mut self, errors: Findings, warnings: Findings) {
        let tell = |error: FieldError| Problem { layer: self.writer(&error.field), what: error.to_string() };
        let (errors, warnings): (Vec<_>, Vec<_>) =
            (errors.0.into_iter().map(tell).collect(), warnings.0.into_iter().map(tell).collect());
        self.errors.extend(errors);
        self.warnings.extend(warnings);
    }

    /// The last writer of a field, or of the nearest field around it.
    fn writer(&self, field: &str) -> Layer {
        let steps = field.replace('[', ".").replace(']', "");
        let mut place = steps.as_str();
        loop {
            match (self.written.get(place), place.rfind('.')) {
                (Some(layer), _) => return layer.clone(),
                (None, Some(end)) => place = &place[..end],
                (None, None) => return Layer::Merged,
            }
        }
    }

    fn note(&mut self, layer: &Layer, map: &Map<String, Value>, below: &str) {
        for (name, value) in map {
            let place = format!("{below}{name}");
            if let Value::Object(inner) = value {
                self.note(layer, inner, &format!("{place}."));
            }
            self.written.insert(place, layer.clone());
        }
    }

    fn refuse(&mut self, layer: &Layer, what: String) {
        self.errors.push(Problem { layer: layer.clone(), what });
    }
}

/// Reads a file of one kind and checks it; None where it is none, which `found` then says.
pub(super) fn read(path: &Path, kind: (&str, &str), fields: &[Field], found: &mut Found) -> Option<Map<String, Value>> {
    let layer = Layer::File(path.to_owned());
    let bytes = match fs::metadata(path) {
        Ok(meta) if meta.len() > MAX_BYTES as u64 => Err("larger than 10 MiB".to_owned()),
        Ok(meta) if !meta.is_file() => Err("not a file".to_owned()),
        Ok(_) => fs::read(path).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let parsed = bytes.and_then(|bytes| document::parse(&bytes).map_err(|error| error.to_string()));
    let mut map = match parsed {
        Ok(map) => map,
        Err(what) => {
            found.refuse(&layer, what);
            return None;
        }
    };
    let (mut errors, mut warnings) = (Findings::default(), Findings::default());
    for (name, expected) in [("apiVersion", kind.0), ("kind", kind.1)] {
        match map.shift_remove(name) {
            Some(Value::String(value)) if value == expected => {}
            None | Some(Value::Null) => errors.required(&At::of(name), &format!("this file holds {expected:?}")),
            Some(value) => errors.unsupported(&At::of(name), value, &[expected]),
        }
    }
    // Of another kind: its fields are not ours to judge.
    if errors.0.is_empty() {
        schema::check(&map, fields, &At::root(), &mut errors, &mut warnings);
    }
    let good = errors.0.is_empty();
    found.add(&layer, errors, warnings);
    good.then_some(map)
}

/// The base file with its defaults, or the defaults of a node that is given flags only.
pub(super) fn base(path: Option<&Path>, found: &mut Found) -> Map<String, Value> {
    let Some(path) = path else { return Map::new() };
    let Some(mut map) = read(path, kubelet::KIND, kubelet::FIELDS, found) else { return Map::new() };
    found.note(&Layer::File(path.to_owned()), &map, "");
    rebase(&mut map, kubelet::FIELDS, path);
    // Hard thresholds have defaults only here; drop-ins and flags then build on them.
    let merge = map.get("mergeDefaultEvictionSettings").and_then(Value::as_bool) == Some(true);
    let hard = map.entry("evictionHard").or_insert(Value::Null);
    if hard.is_null() || merge {
        let own = hard.as_object().cloned().unwrap_or_default();
        let defaults = eviction::DEFAULT_HARD.iter().map(|(signal, amount)| ((*signal).to_owned(), Value::from(*amount)));
        let mut all: Map<String, Value> = defaults.collect();
        all.extend(own);
        *hard = Value::Object(all);
    }
    map
}

/// Merges every `*.conf` below the directory into the tree, in the order of their paths.
pub(super) fn drop_ins(dir: &Path, tree: &mut Map<String, Value>, found: &mut Found) {
    let mut files = Vec::new();
    if let Err(error) = walk(dir, &mut files) {
        found.refuse(&Layer::File(dir.to_owned()), error.to_string());
    }
    files.sort();
    for path in files {
        if let Some(map) = read(&path, kubelet::KIND, kubelet::FIELDS, found) {
            found.note(&Layer::File(path), &map, "");
            merge(tree, map);
        }
    }
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        // Links are not followed into directories: a circle of them would have no end.
        if entry.file_type()?.is_dir() {
            walk(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "conf") {
            files.push(path);
        }
    }
    Ok(())
}

/// Puts the flags on top. Each replaces its field; only feature gates add up, and `--seccomp-default` can only switch on.
pub(super) fn flags(flags: &Flags, tree: &mut Map<String, Value>, found: &mut Found) {
    for (name, path, text) in &flags.fields {
        let layer = Layer::Flag((*name).to_owned());
        let mut steps = path.split('.').collect::<Vec<_>>();
        let Some(field) = find(kubelet::FIELDS, &steps) else { continue };
        let mut value = schema::from_text(field, text);
        if let (Shape::Path, Value::String(path)) = (&field.shape, &mut value)
            && !path.is_empty()
            && let Ok(absolute) = std::path::absolute(&*path)
        {
            *path = absolute.to_string_lossy().into_owned();
        }
        let mut patch = Map::new();
        while let Some(step) = steps.pop() {
            patch = Map::from_iter([(step.to_owned(), value)]);
            value = Value::Object(patch.clone());
        }
        let (mut errors, mut warnings) = (Findings::default(), Findings::default());
        schema::check(&patch, kubelet::FIELDS, &At::root(), &mut errors, &mut warnings);
        let good = errors.0.is_empty();
        found.add(&layer, errors, warnings);
        let weaker = *name == "seccomp-default" && text != "true";
        if good && !weaker {
            if !path.contains('.') && *name != "feature-gates" {
                tree.shift_remove(*path);
            }
            found.note(&layer, &patch, "");
            merge(tree, patch);
        }
    }
    for (other, text) in &flags.others {
        let problem =
            Problem { layer: Layer::Flag(other.name.to_owned()), what: format!("{text:?} has no effect: {}", other.why) };
        if other.refused && !text.is_empty() {
            found.refuse(&problem.layer, format!("{text:?} is not supported yet: {}", other.why));
        } else {
            found.warnings.push(problem);
        }
    }
}

/// The row of a field by the steps to it.
pub(super) fn find<'a>(fields: &'a [Field], steps: &[&str]) -> Option<&'a Field> {
    let (first, rest) = steps.split_first()?;
    let field = fields.iter().find(|field| field.name == *first)?;
    match &field.shape {
        _ if rest.is_empty() => Some(field),
        Shape::Object(inner) => find(inner, rest),
        _ => None,
    }
}

/// JSON merge patch: mappings merge, null takes away, everything else replaces.
pub(super) fn merge(tree: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, value) in patch {
        match (value, tree.get_mut(&name)) {
            (Value::Null, _) => {
                tree.shift_remove(&name);
            }
            (Value::Object(patch), Some(Value::Object(own))) => merge(own, patch),
            (Value::Object(patch), _) => {
                let mut fresh = Map::new();
                merge(&mut fresh, patch);
                tree.insert(name, Value::Object(fresh));
            }
            (value, _) => {
                tree.insert(name, value);
            }
        }
    }
}

/// Makes relative paths of a file relative to where the file is.
pub(super) fn rebase(map: &mut Map<String, Value>, fields: &[Field], file: &Path) {
    for field in fields {
        match (&field.shape, map.get_mut(field.name)) {
            (Shape::Path, Some(Value::String(text))) if !text.is_empty() && Path::new(text).is_relative() => {
                let dir = file.parent().unwrap_or(Path::new(""));
                let path = dir.join(&*text);
                *text = std::path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned();
            }
            (Shape::Object(inner), Some(Value::Object(own))) => rebase(own, inner, file),
            _ => {}
        }
    }
}
