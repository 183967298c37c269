//! Values that tests of several modules begin with.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::pod::{Pod, Source};
use crate::time::Wall;

/// A pod `web_shop(u1)` of the API with this spec, created at 1 s.
pub(crate) fn pod(spec: Value) -> Pod {
    pod_of(json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": spec}))
}

/// A pod of the API from a whole object, created at 1 s.
pub(crate) fn pod_of(object: Value) -> Pod {
    Pod::parse(Arc::new(serde_json::from_value(object).unwrap()), Source::Api, Wall(1000)).unwrap()
}
