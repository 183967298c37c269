//! Who a policy is.

use crate::Config;

/// A policy. It is made anew for every question, so it holds its configuration and nothing else; what must be remembered from
/// one question to the next goes to [`crate::Ask::store`].
pub trait Policy: Sized {
    /// A DNS label, such as "gentle-restart".
    const NAME: &str;

    /// Its semantic version; usually `env!("CARGO_PKG_VERSION")`.
    const VERSION: &str;

    /// One sentence for people.
    const SUMMARY: &str;

    /// A JSON schema of the configuration, for tools.
    const CONFIG_SCHEMA: Option<&str> = None;

    /// Makes the policy, for every question.
    ///
    /// # Errors
    /// The configuration is not acceptable. The operator is shown the error before such a configuration is bound; so it names the
    /// field and says what would be right, as the errors of [`crate::config`] do.
    fn configure(config: &Config) -> Result<Self, String>;

    /// Whether the policy accepts a configuration: unless overridden, if it can be made from it.
    ///
    /// # Errors
    /// As [`Policy::configure`].
    fn validate(config: &Config) -> Result<(), String> {
        Self::configure(config).map(drop)
    }
}
