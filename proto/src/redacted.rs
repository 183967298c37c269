//! `Debug` of the messages that hold secrets.

use std::fmt;

use crate::cri::{AuthConfig, KeyValue};

/// Stands for a secret that is there.
struct Redacted;

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("AuthConfig");
        out.field("username", &self.username).field("server_address", &self.server_address);
        let secrets = [
            ("password", &self.password),
            ("auth", &self.auth),
            ("identity_token", &self.identity_token),
            ("registry_token", &self.registry_token),
        ];
        for (name, _) in secrets.into_iter().filter(|(_, secret)| !secret.is_empty()) {
            out.field(name, &Redacted);
        }
        out.finish()
    }
}

impl fmt::Debug for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyValue").field("key", &self.key).field("value", &Redacted).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::{ContainerConfig, PullImageRequest};

    #[test]
    fn secrets_do_not_show() {
        let auth = AuthConfig {
            username: "ann".into(),
            password: "hush".into(),
            auth: "aHVzaA==".into(),
            server_address: "registry.example".into(),
            identity_token: "hush".into(),
            registry_token: "hush".into(),
        };
        let pull = PullImageRequest { auth: Some(auth), ..Default::default() };
        let config =
            ContainerConfig { envs: vec![KeyValue { key: "TOKEN".into(), value: b"hush".to_vec() }], ..Default::default() };
        let shown = format!("{pull:?} {pull:#?} {config:?} {config:#?}");
        assert!(shown.contains("ann") && shown.contains("TOKEN") && shown.contains("password"), "{shown}");
        assert!(!shown.contains("hush") && !shown.contains("aHVz") && !shown.contains("104"), "{shown}");
    }
}
