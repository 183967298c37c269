//! Names and addresses: host name, hosts file, DNS.

use k8s_openapi::api::core::v1;

use super::names;
use crate::document::field::{At, Findings};

/// Most name servers, and most search domains, of a pod.
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
/// Longest list of search domains, with a space between each two.
const MAX_SEARCH_CHARS: usize = 2048;

/// Checks everything about names.
pub(super) fn network(spec: &v1::PodSpec, at: &At, findings: &mut Findings) {
    for (field, label) in [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)] {
        if let Some(label) = label.as_deref().filter(|label| !label.is_empty()) {
            findings.format(&at.child(field), label, names::dns_label(label));
        }
    }
    hostname_override(spec, at, findings);
    for (i, alias) in spec.host_aliases.iter().flatten().enumerate() {
        let at = at.child("hostAliases").index(i);
        findings.format(&at.child("ip"), &alias.ip, names::ip(&alias.ip));
        for (j, name) in alias.hostnames.iter().flatten().enumerate() {
            findings.format(&at.child("hostnames").index(j), name, names::dns_subdomain(name));
        }
    }
    dns(spec, at, findings);
}

fn hostname_override(spec: &v1::PodSpec, at: &At, findings: &mut Findings) {
    let Some(name) = spec.hostname_override.as_deref() else { return };
    let at = at.child("hostnameOverride");
    findings.format(&at, name, names::dns_subdomain(name));
    if name.len() > 64 {
        findings.too_long(&at, "may not be more than 64 bytes");
    }
    if spec.set_hostname_as_fqdn == Some(true) {
        findings.invalid(&at, name, "may not be set when setHostnameAsFQDN is true");
    }
    if spec.host_network == Some(true) {
        findings.invalid(&at, name, "may not be set when hostNetwork is true");
    }
}

fn dns(spec: &v1::PodSpec, at: &At, findings: &mut Findings) {
    let policy = spec.dns_policy.as_deref();
    findings.one_of(&at.child("dnsPolicy"), policy, &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]);
    let at = at.child("dnsConfig");
    let config = spec.dns_config.clone().unwrap_or_default();
    let servers = config.nameservers.unwrap_or_default();
    if policy == Some("None") && spec.dns_config.is_none() {
        findings.required(&at, "must provide `dnsConfig` when `dnsPolicy` is None");
    } else if policy == Some("None") && servers.is_empty() {
        findings.required(&at.child("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None");
    }
    if servers.len() > MAX_NAMESERVERS {
        findings.too_long(&at.child("nameservers"), format!("must not have more than {MAX_NAMESERVERS} nameservers"));
    }
    for (i, server) in servers.iter().enumerate() {
        findings.format(&at.child("nameservers").index(i), server, names::ip(server));
    }
    let searches = config.searches.unwrap_or_default();
    if searches.len() > MAX_SEARCHES {
        findings.too_long(&at.child("searches"), format!("must not have more than {MAX_SEARCHES} search paths"));
    }
    if searches.join(" ").len() > MAX_SEARCH_CHARS {
        let detail = format!("must not have more than {MAX_SEARCH_CHARS} characters (including spaces) in the search list");
        findings.too_long(&at.child("searches"), detail);
    }
    for (i, search) in searches.iter().enumerate() {
        // A lone dot, a trailing dot and underscores are for those who know.
        let name = search.strip_suffix('.').unwrap_or(search).replace('_', "a");
        if search != "." {
            findings.format(&at.child("searches").index(i), search, names::dns_subdomain(&name));
        }
    }
    for (i, option) in config.options.iter().flatten().enumerate() {
        if option.name.as_deref().unwrap_or_default().is_empty() {
            findings.required(&at.child("options").index(i).child("name"), "must not be empty");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::source::validate::tests::check;

    #[test]
    fn names_and_addresses() {
        check(
            "{hostname: a_b, hostNetwork: true, hostnameOverride: x.y, hostAliases: [{ip: here, hostnames: [ok, 'not ok']}], \
             containers: [{name: c, image: i}]}",
            &[
                "spec.hostname: Invalid value: \"a_b\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
                 '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.hostnameOverride: Invalid value: \"x.y\": may not be set when hostNetwork is true",
                "spec.hostAliases[0].ip: Invalid value: \"here\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "spec.hostAliases[0].hostnames[1]: Invalid value: \"not ok\": a lowercase RFC 1123 subdomain must consist of lower case \
                 alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex \
                 used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        );
    }

    #[test]
    fn dns_is_checked() {
        check(
            "{dnsPolicy: None, containers: [{name: c, image: i}]}",
            &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        );
        check(
            "{dnsPolicy: First, dnsConfig: {nameservers: [1.1.1.1, 1.1.1.2, 1.1.1.3, x], options: [{value: v}]}, containers: [{name: c, image: i}]}",
            &[
                "spec.dnsPolicy: Unsupported value: \"First\": supported values: \"ClusterFirst\", \"ClusterFirstWithHostNet\", \
                 \"Default\", \"None\"",
                "spec.dnsConfig.nameservers: Too long: must not have more than 3 nameservers",
                "spec.dnsConfig.nameservers[3]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "spec.dnsConfig.options[0].name: Required value: must not be empty",
            ],
        );
        check("{dnsConfig: {searches: [., a.b., _srv.x]}, containers: [{name: c, image: i}]}", &[]);
    }
}
