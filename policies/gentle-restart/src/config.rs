//! What an operator can set.

use polylet_sdk::{Config, Policy};

const HOUR_MS: i64 = 3_600_000;

/// The policy, as its configuration makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GentleRestart {
    /// Exit codes that mean no harm, besides 0.
    pub(crate) codes: Vec<i64>,
    /// How long to wait after such an exit, in milliseconds.
    pub(crate) delay_ms: u64,
    /// How many gentle exits are tolerated within the window; the node is bound to remember 32.
    pub(crate) burst: u64,
    /// The length of that window, in milliseconds.
    pub(crate) burst_window_ms: u64,
}

impl Policy for GentleRestart {
    const NAME: &str = "gentle-restart";
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &str = "Restarts containers that ended with code 0 or a configured one after a short, constant delay.";
    const CONFIG_SCHEMA: Option<&str> = Some(include_str!("../config.schema.json"));

    fn configure(config: &Config) -> Result<Self, String> {
        let fields = config.fields()?;
        fields.only(&["gentleCodes", "delayMs", "burst", "burstWindowMs"])?;
        let number = |name, default: u64, most| -> Result<u64, String> {
            Ok(fields.integer(name, 0..=most)?.map_or(default, i64::unsigned_abs))
        };
        Ok(Self {
            codes: fields.integers("gentleCodes", 0..=255)?.unwrap_or_default(),
            delay_ms: number("delayMs", 1000, HOUR_MS)?,
            burst: number("burst", 20, 31)?,
            burst_window_ms: number("burstWindowMs", 60_000, 24 * HOUR_MS)?,
        })
    }
}
