//! The name by which a pod knows itself.

use polylet_core::pod::Pod;

use super::TranslateError;

/// The longest label of a DNS name, and the longest name that the kernel takes.
const LONGEST_LABEL: usize = 63;
const LONGEST_NAME: usize = 64;

/// The name by which a pod with a network of its own knows itself, and `<subdomain>.<namespace>.svc.<cluster domain>` where the
/// spec has a subdomain. This is what its `/etc/hosts` says; what the runtime is given may be both together.
pub fn hostname(pod: &Pod, cluster_domain: &str) -> Result<(String, Option<String>), TranslateError> {
    let spec = pod.object.spec.as_ref();
    let bad = |what, value: &str, wanted| TranslateError::BadName { what, value: value.to_owned(), wanted };
    if let Some(name) = spec.and_then(|spec| spec.hostname_override.as_deref()) {
        if !is_subdomain(name) {
            return Err(bad("HostnameOverride", name, "subdomain"));
        }
        return Ok((truncated(name), None));
    }
    let label = |what, name: Option<&String>| match name.filter(|name| !name.is_empty()) {
        Some(name) if is_label(name) && name.len() <= LONGEST_LABEL => Ok(Some(name.clone())),
        Some(name) => Err(bad(what, name, "label")),
        None => Ok(None),
    };
    let own = label("Hostname", spec.and_then(|spec| spec.hostname.as_ref()))?;
    let subdomain = label("Subdomain", spec.and_then(|spec| spec.subdomain.as_ref()))?;
    let domain = subdomain.map(|subdomain| format!("{subdomain}.{}.svc.{cluster_domain}", pod.namespace));
    Ok((own.unwrap_or_else(|| truncated(&pod.name)), domain))
}

/// What the runtime is given: empty for a pod on the node's network.
pub(super) fn of_sandbox(pod: &Pod, cluster_domain: &str) -> Result<String, TranslateError> {
    if pod.host_network {
        return Ok(String::new());
    }
    let whole = pod.object.spec.as_ref().and_then(|spec| spec.set_hostname_as_fqdn).unwrap_or(false);
    match hostname(pod, cluster_domain)? {
        (host, Some(domain)) if whole => {
            let fqdn = format!("{host}.{domain}");
            if fqdn.len() > LONGEST_NAME { Err(TranslateError::HostnameTooLong { fqdn }) } else { Ok(fqdn) }
        }
        (host, _) => Ok(host),
    }
}

/// Cut to a label's length, without what a label must not end in.
fn truncated(name: &str) -> String {
    let end = name.floor_char_boundary(LONGEST_LABEL);
    let cut = if name.len() > LONGEST_LABEL { name[..end].trim_end_matches(['-', '.']) } else { name };
    cut.to_owned()
}

fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let inside = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    !label.is_empty() && label.bytes().all(inside) && !label.starts_with('-') && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::translate::testing::pod_of;

    fn of(name: &str, mut spec: Value) -> Result<String, TranslateError> {
        spec["containers"] = json!([{"name": "app", "image": "app"}]);
        let pod = pod_of(json!({"metadata": {"name": name, "namespace": "shop", "uid": "u1"}, "spec": spec}));
        let sent = of_sandbox(&pod, "cluster.local")?;
        hostname(&pod, "cluster.local").map(|(host, domain)| format!("{host} {domain:?} {sent}"))
    }

    #[test]
    fn names() {
        let long = "a".repeat(62) + "-b";
        let cases = [
            ("the pod's", "web", json!({}), "web None web".into()),
            ("the spec's", "web", json!({"hostname": "shop"}), "shop None shop".into()),
            ("in a subdomain", "web", json!({"subdomain": "db"}), r#"web Some("db.shop.svc.cluster.local") web"#.to_owned()),
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
        for (spec, what, value, wanted) in [
            (json!({"hostnameOverride": "Not_a_name"}), "HostnameOverride", "Not_a_name", "subdomain"),
            (json!({"hostname": "a.b"}), "Hostname", "a.b", "label"),
            (json!({"subdomain": "-x"}), "Subdomain", "-x", "label"),
        ] {
            assert_eq!(of("web", spec), Err(TranslateError::BadName { what, value: value.into(), wanted }));
        }
        let fqdn = format!("{}.db.shop.svc.cluster.local", "a".repeat(50));
        let spec = json!({"subdomain": "db", "setHostnameAsFQDN": true});
        assert_eq!(of(&"a".repeat(50), spec), Err(TranslateError::HostnameTooLong { fqdn }));
    }

    #[test]
    fn the_nodes_network_has_the_nodes_name() {
        let spec = json!({"hostNetwork": true, "hostname": "x", "containers": [{"name": "app", "image": "app"}]});
        let pod = pod_of(json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": spec}));
        assert_eq!(of_sandbox(&pod, "cluster.local"), Ok(String::new()));
    }
}
