//! The name by which a pod knows itself.

use polylet_core::pod::Pod;

use super::TranslateError;

/// The longest label of a DNS name, and the longest name that the kernel takes.
const LONGEST_LABEL: usize = 63;
const LONGEST_NAME: usize = 64;

/// A pod's name on the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hostname {
    /// Its own name.
    pub host: String,
    /// `<subdomain>.<namespace>.svc.<cluster domain>`, where the spec has a subdomain.
    pub domain: Option<String>,
    /// The kernel is to know the whole name (`setHostnameAsFQDN`).
    pub as_fqdn: bool,
}

impl Hostname {
    /// What the runtime is given.
    pub fn sent(&self) -> String {
        match &self.domain {
            Some(domain) if self.as_fqdn => format!("{}.{domain}", self.host),
            _ => self.host.clone(),
        }
    }
}

/// The name of a pod that has a network of its own; also the one in its `/etc/hosts`.
pub fn hostname(pod: &Pod, cluster_domain: &str) -> Result<Hostname, TranslateError> {
    let spec = pod.object.spec.as_ref();
    if let Some(name) = spec.and_then(|spec| spec.hostname_override.as_deref()) {
        if !is_subdomain(name) {
            return Err(TranslateError::BadHostname { hostname: name.to_owned() });
        }
        return Ok(Hostname { host: truncated(name), domain: None, as_fqdn: false });
    }
    let own = spec.and_then(|spec| spec.hostname.as_deref()).filter(|name| !name.is_empty());
    let subdomain = spec.and_then(|spec| spec.subdomain.as_deref()).filter(|name| !name.is_empty());
    let name = Hostname {
        host: truncated(own.unwrap_or(&pod.name)),
        domain: subdomain.map(|subdomain| format!("{subdomain}.{}.svc.{cluster_domain}", pod.namespace)),
        as_fqdn: spec.and_then(|spec| spec.set_hostname_as_fqdn).unwrap_or(false),
    };
    let sent = name.sent();
    if name.as_fqdn && sent.len() > LONGEST_NAME { Err(TranslateError::HostnameTooLong { fqdn: sent }) } else { Ok(name) }
}

/// Cut to a label's length, without what a label must not end in.
fn truncated(name: &str) -> String {
    let end = name.floor_char_boundary(LONGEST_LABEL);
    let cut = if name.len() > LONGEST_LABEL { name[..end].trim_end_matches(['-', '.']) } else { name };
    cut.to_owned()
}

fn is_subdomain(name: &str) -> bool {
    let label = |label: &str| {
        let inside = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        !label.is_empty() && label.bytes().all(inside) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::translate::testing::pod_of;

    fn of(name: &str, mut spec: Value) -> Result<String, TranslateError> {
        spec["containers"] = json!([{"name": "app", "image": "app"}]);
        let pod = pod_of(json!({"metadata": {"name": name, "namespace": "shop", "uid": "u1"}, "spec": spec}));
        hostname(&pod, "cluster.local").map(|name| format!("{} {:?} {}", name.host, name.domain, name.sent()))
    }

    #[test]
    fn names() {
        let long = "a".repeat(62) + "-b";
        let cases = [
            ("the pod's", "web", json!({}), "web None web".into()),
            ("the spec's", "web", json!({"hostname": "shop"}), "shop None shop".into()),
            (
                "in a subdomain",
                "web",
                json!({"subdomain": "db"}),
                r#"web Some("db.shop.svc.cluster.local") web"#.to_owned(),
            ),
            (
                "as a whole",
                "web",
                json!({"subdomain": "db", "setHostnameAsFQDN": true}),
                r#"web Some("db.shop.svc.cluster.local") web.db.shop.svc.cluster.local"#.into(),
            ),
            ("as a whole, without a domain", "web", json!({"setHostnameAsFQDN": true}), "web None web".into()),
            ("too long", &long, json!({}), format!("{0} None {0}", "a".repeat(62))),
            (
                "overridden",
                "web",
                json!({"hostnameOverride": "x.example.com", "hostname": "h", "subdomain": "db"}),
                "x.example.com None x.example.com".into(),
            ),
        ];
        for (case, name, spec, expected) in cases {
            assert_eq!(of(name, spec), Ok(expected), "{case}");
        }
    }

    #[test]
    fn refused() {
        let override_ = TranslateError::BadHostname { hostname: "Not_a_name".into() };
        assert_eq!(of("web", json!({"hostnameOverride": "Not_a_name"})), Err(override_));
        let fqdn = format!("{}.db.shop.svc.cluster.local", "a".repeat(50));
        let spec = json!({"subdomain": "db", "setHostnameAsFQDN": true});
        assert_eq!(of(&"a".repeat(50), spec), Err(TranslateError::HostnameTooLong { fqdn }));
    }
}
