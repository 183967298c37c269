//! The signal that asks a container to end.

use k8s_openapi::api::core::v1::Container;
use polylet_proto::cri::Signal;

/// `lifecycle.stopSignal`; the runtime's choice, which is the image's, where the spec names none.
pub(super) fn stop_signal(spec: &Container) -> Signal {
    let name = spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.as_deref());
    name.and_then(by_name).unwrap_or(Signal::RuntimeDefault)
}

/// `SIGRTMIN+1` in the API is `SIGNAL_SIGRTMINPLUS1` in the CRI.
fn by_name(name: &str) -> Option<Signal> {
    let spelt_out = name.replace('+', "PLUS").replace('-', "MINUS");
    Signal::from_str_name(&format!("SIGNAL_{spelt_out}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::translate::testing::{pod_with, spec};

    #[test]
    fn names() {
        for (name, expected) in [
            (json!("SIGTERM"), Signal::Sigterm),
            (json!("SIGRTMIN+3"), Signal::Sigrtminplus3),
            (json!("SIGRTMAX-14"), Signal::Sigrtmaxminus14),
            (json!("SIGWHATEVER"), Signal::RuntimeDefault),
            (json!(null), Signal::RuntimeDefault),
        ] {
            let pod = pod_with(json!({"lifecycle": {"stopSignal": name}}));
            assert_eq!(stop_signal(&spec(&pod, "app")), expected, "{name}");
        }
    }
}
