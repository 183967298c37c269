//! The pod's `resolv.conf`.

use k8s_openapi::api::core::v1::PodDNSConfig;
use polylet_core::pod::Pod;
use polylet_proto::cri::DnsConfig;

use super::{NodeContext, Warnings};

/// What resolvers honour at most.
const MOST_SERVERS: usize = 3;
const MOST_SEARCHES: usize = 32;
const LONGEST_SEARCH: usize = 253;
const LONGEST_SEARCH_LINE: usize = 2048;

/// What clusters rely on: names with fewer dots are tried in the search domains first.
const CLUSTER_OPTION: &str = "ndots:5";

/// A resolver's configuration, as a file like `/etc/resolv.conf` gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvConf {
    /// Addresses, in the order of the file.
    pub servers: Vec<String>,
    /// Search domains, without a trailing dot.
    pub searches: Vec<String>,
    /// Such as `ndots:5`; one of each name.
    pub options: Vec<String>,
}

impl ResolvConf {
    /// Reads what a resolver would: of several `search` lines the last counts, and so of several options of one name. Lines that
    /// are not understood are passed over.
    pub fn parse(text: &str) -> Self {
        let mut out = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => out.servers.extend(words.next().map(str::to_owned)),
                Some("search") => {
                    let searches = words.map(|word| word.strip_suffix('.').unwrap_or(word));
                    out.searches = searches.filter(|word| !word.is_empty()).map(str::to_owned).collect();
                }
                Some("options") => words.for_each(|word| set_option(&mut out.options, word.to_owned())),
                _ => {}
            }
        }
        out
    }
}

/// The pod's configuration; `warnings` gets upstream's reasons and messages where something had to be left out.
pub(super) fn config(pod: &Pod, node: &NodeContext, host: Option<&ResolvConf>, warnings: &mut Warnings) -> DnsConfig {
    let spec = pod.object.spec.as_ref();
    let mut dns = match spec.and_then(|spec| spec.dns_policy.as_deref()) {
        Some("None") => ResolvConf::default(),
        Some("Default") => of_host(node, host),
        Some("ClusterFirstWithHostNet") => of_cluster(pod, node, host, warnings),
        // ClusterFirst, which is also what an unknown policy means.
        _ if pod.host_network => of_host(node, host),
        _ => of_cluster(pod, node, host, warnings),
    };
    if let Some(own) = spec.and_then(|spec| spec.dns_config.as_ref()) {
        append(&mut dns, own);
    }
    limit_servers(&mut dns.servers, warnings);
    limit_searches(&mut dns.searches, warnings);
    DnsConfig { servers: dns.servers, searches: dns.searches, options: dns.options }
}

fn of_host(node: &NodeContext, host: Option<&ResolvConf>) -> ResolvConf {
    host.cloned().unwrap_or_else(|| {
        // Nothing to inherit: the pod's own loopback, which keeps the runtime from falling back to the node's file.
        let loopback = |ip: &String| if ip.contains(':') { "::1" } else { "127.0.0.1" };
        let mut servers: Vec<String> = node.node_ips.iter().map(|ip| loopback(ip).to_owned()).collect();
        if servers.is_empty() {
            servers.push("127.0.0.1".to_owned());
        }
        ResolvConf { servers, searches: vec![".".to_owned()], options: Vec::new() }
    })
}

fn of_cluster(pod: &Pod, node: &NodeContext, host: Option<&ResolvConf>, warnings: &mut Warnings) -> ResolvConf {
    if node.cluster_dns.is_empty() {
        let message = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. \
                       Falling back to \"Default\" policy.";
        warnings.push(("MissingClusterDNS", format!("pod: {:?}. {message}", pod.desc())));
        return of_host(node, host);
    }
    let host = host.map(|conf| conf.searches.clone()).unwrap_or_default();
    let domain = &node.cluster_domain;
    let cluster = match domain.is_empty() {
        true => Vec::new(),
        false => vec![format!("{}.svc.{domain}", pod.namespace), format!("svc.{domain}"), domain.clone()],
    };
    let mut searches = Vec::new();
    add_new(&mut searches, cluster.into_iter().chain(host));
    ResolvConf { servers: node.cluster_dns.clone(), searches, options: vec![CLUSTER_OPTION.to_owned()] }
}

fn append(dns: &mut ResolvConf, own: &PodDNSConfig) {
    add_new(&mut dns.servers, own.nameservers.iter().flatten().cloned());
    add_new(&mut dns.searches, own.searches.iter().flatten().cloned());
    for option in own.options.iter().flatten() {
        let Some(name) = &option.name else { continue };
        let value = option.value.as_deref().filter(|value| !value.is_empty());
        set_option(&mut dns.options, value.map_or_else(|| name.clone(), |value| format!("{name}:{value}")));
    }
}

fn add_new(list: &mut Vec<String>, more: impl Iterator<Item = String>) {
    for word in more {
        if !list.contains(&word) {
            list.push(word);
        }
    }
}

/// The option takes the place of the one of its name.
fn set_option(options: &mut Vec<String>, option: String) {
    let name = |option: &str| option.split(':').next().unwrap_or_default().to_owned();
    match options.iter_mut().find(|known| name(known) == name(&option)) {
        Some(known) => *known = option,
        None => options.push(option),
    }
}

fn limit_servers(servers: &mut Vec<String>, warnings: &mut Warnings) {
    if servers.len() > MOST_SERVERS {
        servers.truncate(MOST_SERVERS);
        let applied = servers.join(" ");
        let message = "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is:";
        warnings.push(("DNSConfigForming", format!("{message} {applied}")));
    }
}

fn limit_searches(searches: &mut Vec<String>, warnings: &mut Warnings) {
    let before = searches.len();
    searches.truncate(MOST_SEARCHES);
    searches.retain(|search| search.len() <= LONGEST_SEARCH);
    let mut length = 0;
    let fitting = searches.iter().take_while(|search| {
        length += search.len() + usize::from(length > 0);
        length <= LONGEST_SEARCH_LINE
    });
    let fitting = fitting.count();
    searches.truncate(fitting);
    if searches.len() < before {
        let applied = searches.join(" ");
        let message = "Search Line limits were exceeded, some search paths have been omitted, the applied search line is:";
        warnings.push(("DNSConfigForming", format!("{message} {applied}")));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::translate::testing::{node, pod, strings};

    #[track_caller]
    fn check(node: &NodeContext, spec: Value, expected: [&[&str]; 3], warned: &[&str]) {
        let host = ResolvConf::parse("nameserver 192.0.2.53\nsearch example.com\noptions timeout:1\n");
        check_on(node, Some(&host), spec, expected, warned);
    }

    #[track_caller]
    fn check_on(node: &NodeContext, host: Option<&ResolvConf>, mut spec: Value, expected: [&[&str]; 3], warned: &[&str]) {
        spec["containers"] = json!([{"name": "app", "image": "app"}]);
        let mut warnings = Vec::new();
        let dns = config(&pod(spec), node, host, &mut warnings);
        assert_eq!([dns.servers, dns.searches, dns.options], expected.map(strings));
        assert_eq!(warnings.iter().map(|(reason, _)| *reason).collect::<Vec<_>>(), warned);
    }

    const CLUSTER: [&[&str]; 3] =
        [&["10.96.0.10"], &["shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.com"], &["ndots:5"]];
    const HOST: [&[&str]; 3] = [&["192.0.2.53"], &["example.com"], &["timeout:1"]];

    #[test]
    fn policies() {
        for (spec, expected) in [
            (json!({"dnsPolicy": "ClusterFirst"}), CLUSTER),
            (json!({}), CLUSTER),
            (json!({"dnsPolicy": "FromTheFuture"}), CLUSTER),
            (json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true}), HOST),
            (json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}), CLUSTER),
            (json!({"dnsPolicy": "Default"}), HOST),
            (json!({"dnsPolicy": "None"}), [&[], &[], &[]]),
        ] {
            check(&node(), spec, expected, &[]);
        }
    }

    #[test]
    fn what_a_node_lacks() {
        let cluster_first = || json!({"dnsPolicy": "ClusterFirst"});
        check(&NodeContext { cluster_dns: vec![], ..node() }, cluster_first(), HOST, &["MissingClusterDNS"]);
        let searches: [&[&str]; 3] = [&["10.96.0.10"], &["example.com"], &["ndots:5"]];
        check(&NodeContext { cluster_domain: String::new(), ..node() }, cluster_first(), searches, &[]);
        let default = || json!({"dnsPolicy": "Default"});
        check_on(&node(), None, default(), [&["127.0.0.1", "::1"], &["."], &[]], &[]);
    }

    #[test]
    fn the_pods_own_settings_are_added() {
        let own = json!({"dnsPolicy": "Default", "dnsConfig": {
            "nameservers": ["192.0.2.53", "198.51.100.1"],
            "searches": ["example.com", "example.org"],
            "options": [{"name": "timeout", "value": "3"}, {"name": "edns0"}, {"value": "nameless"}],
        }});
        let expected: [&[&str]; 3] = [&["192.0.2.53", "198.51.100.1"], &["example.com", "example.org"], &["timeout:3", "edns0"]];
        check(&node(), own, expected, &[]);
    }

    #[test]
    fn limits() {
        let servers = json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4"]}});
        check(&node(), servers, [&["1.0.0.1", "1.0.0.2", "1.0.0.3"], &[], &[]], &["DNSConfigForming"]);

        let searches = |searches: Vec<String>| {
            let pod = pod(json!({"containers": [{"name": "app", "image": "app"}], "dnsPolicy": "None",
                                 "dnsConfig": {"searches": searches}}));
            let mut warnings = Vec::new();
            (config(&pod, &node(), None, &mut warnings).searches.len(), warnings.len())
        };
        assert_eq!(searches((0..33).map(|n| format!("d{n}")).collect()), (32, 1));
        assert_eq!(searches(vec!["a".repeat(253), "b".repeat(254)]), (1, 1));
        let line = |count: usize| (0..count).map(|n| format!("{n:03}{}", "x".repeat(197))).collect();
        assert_eq!(searches(line(10)), (10, 0), "10 × 200 and 9 blanks");
        assert_eq!(searches(line(11)), (10, 1));
    }

    #[test]
    fn files() {
        let text = "# nameserver 1.1.1.1\nnameserver 192.0.2.1\n nameserver\t192.0.2.2 \nsearch a.\nsearch b. . c\n\
                    options ndots:2 rotate\noptions ndots:3\nsortlist 1.2.3.4\nnameserver\n";
        let expected = ResolvConf {
            servers: strings(&["192.0.2.1", "192.0.2.2"]),
            searches: strings(&["b", "c"]),
            options: strings(&["ndots:3", "rotate"]),
        };
        assert_eq!(ResolvConf::parse(text), expected);
    }
}
