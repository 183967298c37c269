//! The kubelet's judgements as a component.
//!
//! It answers every question by itself from what the question and the facts say, and never by the default's answer that the
//! question carries: so that a node which compares the two finds out when they differ.
//!
//! All four hooks are one component, because they are bound, verified and embedded together and share their support code; each
//! can still be bound by itself, since a binding names component and hook.

mod eviction;
mod probe;
mod qos;
mod restart;
#[cfg(test)]
mod tests;

use polylet_sdk::{Config, Policy};

/// The default policy. It has no configuration.
#[derive(Clone, Copy, Debug)]
pub struct Default;

impl Policy for Default {
    const NAME: &str = "default";
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &str = "The kubelet's own judgements.";
    const CONFIG_SCHEMA: Option<&str> = Some(r#"{"type":"object","additionalProperties":false}"#);

    fn configure(_: &Config) -> Result<Self, String> {
        Ok(Self)
    }

    fn validate(config: &Config) -> Result<(), String> {
        match config.fields()?.names().next() {
            None => Ok(()),
            Some(name) => Err(format!("unknown field `{name}`; the default policy has no configuration")),
        }
    }
}

polylet_sdk::export!(Default: restart, probe, qos, eviction);
