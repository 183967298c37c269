//! `PolyletConfiguration` v1alpha1: what this agent has beyond the kubelet. Every field may be left out. CONFIGURATION.md tells operators.

use std::path::Path;

use serde_json::{Map, Value};

use super::duration;
use super::schema::Shape::{Bool, Duration, Object, OneOf, Path as PathShape};
use super::schema::Stand::Honoured;
use super::schema::{Field, Shape};
use crate::document::field::{At, Findings};
use crate::settings::{KernelTunables, NetworkTemplate, Settings};

/// Kind and version of the file.
pub(super) const KIND: (&str, &str) = ("polylet.io/v1alpha1", "PolyletConfiguration");

const fn row(name: &'static str, kind: &'static str, default: &'static str, shape: Shape) -> Field {
    Field { name, kind, default, shape, stand: Honoured }
}

/// All fields. Directories are below the root directory by default.
pub(super) const FIELDS: &[Field] = &[
    row("policyDirectory", "string", "''", PathShape),
    row("cacheDirectory", "string", "''", PathShape),
    row("stateDirectory", "string", "''", PathShape),
    row("adminSocket", "string", "''", PathShape),
    row("kernelTunables", "string", "set", OneOf(&["leave", "set"])),
    row("policies", "PolicyBounds", "null", Object(BOUNDS)),
    row("network", "NetworkTemplate", "null", Object(NETWORK)),
];

/// What policies may do.
const BOUNDS: &[Field] = &[
    row("allowGiveUp", "*bool", "false", Bool),
    row("allowTier", "*bool", "false", Bool),
    row("evictStatic", "*bool", "false", Bool),
    row("probeMercy", "*duration", "1m", Duration),
];

/// The CNI configuration that this node writes.
const NETWORK: &[Field] =
    &[row("template", "string", "''", PathShape), row("file", "string", NetworkTemplate::DEFAULT_NAME, PathShape)];

/// Checks what no field shows alone. `map` is as it was written.
pub(super) fn check(map: &Map<String, Value>, errors: &mut Findings) {
    let Some(network) = map.get("network").and_then(Value::as_object) else { return };
    let given = |name: &str| network.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let at = |name: &str| At::of("network").child(name);
    match (given("template"), given("file")) {
        (None, Some(_)) => errors.required(&at("template"), "it is what network.file is made of"),
        (_, Some(file)) if !polylet_machine::network::is_configuration(Path::new(file)) => {
            errors.invalid(&at("file"), file, "must end in .conflist, .conf or .json, or no runtime reads it");
        }
        _ => {}
    }
}

/// Takes a checked document over into the settings.
pub(super) fn apply(map: &Map<String, Value>, settings: &mut Settings) {
    let path =
        |name: &str| map.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(|text| Path::new(text).to_owned());
    let directories = [
        ("policyDirectory", &mut settings.policy_dir),
        ("cacheDirectory", &mut settings.policy_cache),
        ("stateDirectory", &mut settings.state_dir),
        ("adminSocket", &mut settings.admin_socket),
    ];
    for (name, slot) in directories {
        if let Some(path) = path(name) {
            *slot = path;
        }
    }
    let network = map.get("network").and_then(Value::as_object).cloned().unwrap_or_default();
    let path = |name: &str| {
        network.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(|text| Path::new(text).to_owned())
    };
    settings.network = path("template").map(|template| NetworkTemplate { template, file: path("file") });
    settings.kernel_tunables = match map.get("kernelTunables").and_then(Value::as_str) {
        Some("leave") => KernelTunables::Leave,
        _ => KernelTunables::Set,
    };
    let bounds = map.get("policies").and_then(Value::as_object).cloned().unwrap_or_default();
    let flag = |name: &str, default: bool| bounds.get(name).and_then(Value::as_bool).unwrap_or(default);
    let own = &mut settings.policy_bounds;
    own.allow_give_up = flag("allowGiveUp", own.allow_give_up);
    own.allow_tier = flag("allowTier", own.allow_tier);
    own.evict_static = flag("evictStatic", own.evict_static);
    if let Some(mercy) = bounds.get("probeMercy").and_then(Value::as_str).and_then(|text| duration::parse(text).ok()) {
        own.probe_mercy = mercy;
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Fields that hold no others, by their place in the file.
    fn leaves(fields: &[Field], before: &str) -> Vec<(String, &'static str)> {
        let below = |field: &Field| match field.shape {
            Object(inner) => leaves(inner, &format!("{before}{}.", field.name)),
            _ => vec![(format!("{before}{}", field.name), field.default)],
        };
        fields.iter().flat_map(below).collect()
    }

    #[test]
    fn every_field_is_in_the_document_with_its_default() {
        let document = include_str!("../../../../CONFIGURATION.md");
        let rows: Vec<Vec<&str>> =
            document.lines().filter_map(|line| line.strip_prefix("| `")).map(|row| row.split(" | ").collect()).collect();
        let found: Vec<(&str, &str)> = rows.iter().map(|row| (row[0].trim_end_matches('`'), row[1].trim_matches('`'))).collect();
        let settings = Settings::below("/var/lib/kubelet", "n1");
        let below = |path: &PathBuf| path.strip_prefix("/var/lib/kubelet").unwrap().display().to_string();
        let paths = [&settings.policy_dir, &settings.policy_cache, &settings.state_dir, &settings.admin_socket].map(below);
        let mut paths = paths.iter().map(String::as_str);
        let expected = leaves(FIELDS, "");
        let expected = expected.iter().map(|(name, default)| match *default {
            "''" if !name.contains('.') => (name.as_str(), paths.next().unwrap()),
            default => (name.as_str(), default),
        });
        assert_eq!(found, expected.collect::<Vec<_>>());
    }
}
