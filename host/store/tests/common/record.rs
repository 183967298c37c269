//! Records for tests, of this crate's own too.

use polylet_core::record::PodRecord;

/// A small record.
pub(crate) fn record(uid: &str, name: &str) -> PodRecord {
    serde_json::from_value(serde_json::json!({ "uid": uid, "namespace": "default", "name": name, "started": 1 })).unwrap()
}
