//! Eviction thresholds: defaults, checks, and what the maps of the configuration come to.

use std::time::Duration;

use polylet_core::config::{Quantity, Threshold};
use polylet_core::quantity;
use polylet_core::question::eviction::Starved;
use serde_json::{Map, Value};

use super::duration;
use crate::document::field::{At, Findings};

/// Hard thresholds of a configuration file that names none. Without a file there are none at all, as upstream has it.
pub(super) const DEFAULT_HARD: [(&str, &str); 5] = [
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
    ("imagefs.available", "15%"),
    ("imagefs.inodesFree", "5%"),
];

/// The signals, and what each speaks of.
const SIGNALS: [(&str, Starved); 8] = [
    ("memory.available", Starved::Memory),
    ("nodefs.available", Starved::Disk),
    ("nodefs.inodesFree", Starved::Inodes),
    ("imagefs.available", Starved::ImageDisk),
    ("imagefs.inodesFree", Starved::ImageInodes),
    ("containerfs.available", Starved::ContainerDisk),
    ("containerfs.inodesFree", Starved::ContainerInodes),
    ("pid.available", Starved::Pids),
];

/// Whether there is such a signal.
pub(super) fn check_signal(name: &str, at: &At, errors: &mut Findings) {
    let names: Vec<&str> = SIGNALS.iter().map(|(name, _)| *name).collect();
    errors.one_of(at, Some(name), &names);
}

/// A quantity above zero, or a percentage.
pub(super) fn check_amount(text: &str, at: &At, errors: &mut Findings) {
    if let Err(why) = amount(text) {
        errors.invalid(at, text, why);
    }
}

/// Checks that span several maps.
pub(super) fn check_maps(tree: &Map<String, Value>, errors: &mut Findings) {
    let soft = entries(tree, "evictionSoft");
    let grace = entries(tree, "evictionSoftGracePeriod");
    for (signal, text) in &soft {
        if !grace.iter().any(|(name, _)| name == signal) {
            errors.invalid(&At::of("evictionSoft").key(signal), *text, "needs a grace period: set evictionSoftGracePeriod too");
        }
    }
    for field in ["evictionHard", "evictionSoft"] {
        for (signal, text) in entries(tree, field) {
            if signal.starts_with("containerfs.") {
                let detail = "cannot be set: it follows nodefs or imagefs, whichever holds the writable layers";
                errors.invalid(&At::of(field).key(signal), text, detail);
            }
            if amount(text) == Ok(Some(Quantity::Amount(0))) {
                errors.invalid(&At::of(field).key(signal), text, "must be above zero; 0% switches the signal off");
            }
        }
    }
}

/// The thresholds that the maps come to, hard ones first; `0%` and `100%` switch a signal off.
pub(super) fn thresholds(tree: &Map<String, Value>) -> Vec<Threshold> {
    let reclaim = entries(tree, "evictionMinimumReclaim");
    let grace = entries(tree, "evictionSoftGracePeriod");
    let read =
        |map: &[(&str, &str)], signal: &str| map.iter().find(|(name, _)| *name == signal).map(|(_, text)| (*text).to_owned());
    let mut out = Vec::new();
    for (field, soft) in [("evictionHard", false), ("evictionSoft", true)] {
        for (signal, text) in entries(tree, field) {
            let starved = SIGNALS.iter().find(|(name, _)| *name == signal).map(|(_, starved)| *starved);
            // What could not be read has stopped the start before.
            let (Some(starved), Ok(Some(below))) = (starved, amount(text)) else { continue };
            let reclaim = read(&reclaim, signal).and_then(|text| amount(&text).ok().flatten());
            let grace = read(&grace, signal).and_then(|text| duration::parse(&text).ok()).unwrap_or(Duration::ZERO);
            out.push(Threshold {
                signal: signal.to_owned(),
                starved,
                below,
                reclaim: reclaim.unwrap_or(Quantity::Amount(0)),
                grace: soft.then_some(grace),
            });
        }
    }
    out
}

/// An amount, or None where the literal switches the signal off.
fn amount(text: &str) -> Result<Option<Quantity>, String> {
    if matches!(text, "0%" | "100%") {
        return Ok(None);
    }
    if let Some(percent) = text.strip_suffix('%') {
        return match percent.parse::<f32>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Some(Quantity::Percent(percent))),
            _ => Err("must be a percentage between 0% and 100%".to_owned()),
        };
    }
    match quantity::whole(text) {
        Ok(amount) => Ok(Some(Quantity::Amount(amount))),
        Err(why) => Err(format!("{why}; or a percentage such as 10%")),
    }
}

fn entries<'a>(tree: &'a Map<String, Value>, field: &str) -> Vec<(&'a str, &'a str)> {
    let map = tree.get(field).and_then(Value::as_object);
    map.into_iter().flatten().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn amounts() {
        for (text, read) in [
            ("100Mi", Some(Quantity::Amount(100 << 20))),
            ("10%", Some(Quantity::Percent(10.0))),
            ("1.5%", Some(Quantity::Percent(1.5))),
            ("0%", None),
            ("100%", None),
        ] {
            assert_eq!(amount(text), Ok(read), "{text}");
        }
        for text in ["", "101%", "-1%", "x%", "1Gx", "-1", "%"] {
            assert!(amount(text).is_err(), "{text}");
        }
    }

    #[test]
    fn maps_become_thresholds() {
        let tree = json!({
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "0%"},
            "evictionSoft": {"memory.available": "10%"},
            "evictionSoftGracePeriod": {"memory.available": "1m30s"},
            "evictionMinimumReclaim": {"memory.available": "50Mi"},
        });
        let found = thresholds(tree.as_object().unwrap());
        let reclaim = Quantity::Amount(50 << 20);
        let hard = Threshold {
            signal: "memory.available".into(),
            starved: Starved::Memory,
            below: Quantity::Amount(100 << 20),
            reclaim,
            grace: None,
        };
        let soft = Threshold { below: Quantity::Percent(10.0), grace: Some(Duration::from_secs(90)), ..hard.clone() };
        assert_eq!(found, [hard, soft]);
    }
}
