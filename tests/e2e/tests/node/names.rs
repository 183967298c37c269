//! How a pod finds others, and by what name it knows itself.

use polylet_e2e::{Node, Pod};

const SLEEP: &str = "
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: busybox, command: [sleep, '1000']}";

fn named<'n>(node: &'n Node, name: &str, fields: &str) -> Pod<'n> {
    node.pod(name, &format!("\n  {}{SLEEP}", fields.trim()))
}

pub(crate) fn resolv_conf() {
    let node = Node::without_agent();
    let file = node.dir().join("resolv.conf");
    let text = "nameserver 192.0.2.53\nnameserver 192.0.2.54\nsearch example.com example.org.\noptions timeout:1\n";
    std::fs::write(&file, text).expect("write a resolver's configuration");
    node.append("config.yaml", &format!("clusterDNS: [10.96.0.10]\nresolvConf: {}\n", file.display()));
    node.start_agent();

    let of_node = "search example.com example.org\nnameserver 192.0.2.53\nnameserver 192.0.2.54\noptions timeout:1\n";
    let of_cluster = "search default.svc.cluster.local svc.cluster.local cluster.local example.com example.org\n\
                      nameserver 10.96.0.10\noptions ndots:5\n";
    let own = "dnsPolicy: None
  dnsConfig:
    nameservers: [198.51.100.1, 198.51.100.2]
    searches: [own.example]
    options: [{name: ndots, value: '2'}, {name: edns0}]";
    let of_own = "search own.example\nnameserver 198.51.100.1\nnameserver 198.51.100.2\noptions ndots:2 edns0\n";
    let more =
        "dnsConfig: {nameservers: [198.51.100.1], searches: [example.com, own.example], options: [{name: ndots, value: '2'}]}";
    let with_more = "search default.svc.cluster.local svc.cluster.local cluster.local example.com example.org own.example\n\
                     nameserver 10.96.0.10\nnameserver 198.51.100.1\noptions ndots:2\n";
    let pods = [
        (named(&node, "dns-default", "dnsPolicy: Default"), of_node),
        (named(&node, "dns-unsaid", ""), of_cluster),
        (named(&node, "dns-first", "dnsPolicy: ClusterFirst\n  hostNetwork: true"), of_node),
        (named(&node, "dns-hostnet", "dnsPolicy: ClusterFirstWithHostNet\n  hostNetwork: true"), of_cluster),
        (named(&node, "dns-own", own), of_own),
        (named(&node, "dns-more", more), with_more),
    ];
    // One server too many, and two domains.
    let searches: Vec<String> = (0..32).map(|n| format!("d{n}.example")).collect();
    let many = format!(
        "dnsPolicy: Default\n  dnsConfig: {{nameservers: [198.51.100.1, 198.51.100.2], searches: [{}]}}",
        searches.join(", ")
    );
    let many = named(&node, "dns-many", &many);
    for (pod, expected) in &pods {
        assert_eq!(pod.exec_ok("main", &["cat", "/etc/resolv.conf"]), *expected, "{}", pod.name());
        assert!(!pod.said().iter().any(|line| line.contains("DNSConfigForming")), "{}", pod.name());
    }

    let servers = "192.0.2.53 192.0.2.54 198.51.100.1";
    let searches = format!("example.com example.org {}", searches[..30].join(" "));
    let text = many.exec_ok("main", &["cat", "/etc/resolv.conf"]);
    let expected = format!("search {searches}\nnameserver {}\noptions timeout:1\n", servers.replace(' ', "\nnameserver "));
    assert_eq!(text, expected);
    for message in [
        format!("Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {servers}"),
        format!("Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {searches}"),
    ] {
        many.until_said(&message);
        let line = many.said().into_iter().find(|line| line.contains(&message)).expect("a line");
        assert!(line.contains("WARN") && line.contains("DNSConfigForming"), "{line}");
    }
}

pub(crate) fn hosts_and_names(node: &Node) {
    let aliases = "hostAliases: [{ip: 198.51.100.7, hostnames: [db, db.example.com]}, {ip: '2001:db8::7', hostnames: [six]}]";
    let of_aliases = "\n\n# Entries added by HostAliases.\n198.51.100.7\tdb\tdb.example.com\n2001:db8::7\tsix\n";
    let front = "hostname: front\n  subdomain: shop";
    let whole = "front.shop.default.svc.cluster.local";
    let long = "a".repeat(62);
    let pods = [
        (named(node, "name-parts", &format!("{front}\n  {aliases}")), "front", format!("{whole}\tfront")),
        (named(node, "name-whole", &format!("{front}\n  setHostnameAsFQDN: true")), whole, format!("{whole}\tfront")),
        (
            named(node, "name-other", &format!("{front}\n  hostnameOverride: web.example.com")),
            "web.example.com",
            "web.example.com".to_owned(),
        ),
        (named(node, &long, "subdomain: shop"), &long, format!("{long}.shop.default.svc.cluster.local\t{long}")),
    ];
    let on_node = named(node, "name-of-node", &format!("hostNetwork: true\n  {front}\n  {aliases}"));
    let too_long = format!("hostname: {}\n  subdomain: shop\n  setHostnameAsFQDN: true", "b".repeat(40));
    let too_long = named(node, "name-too-long", &too_long);

    for (pod, host, line) in &pods {
        let view = pod.until_ready();
        assert_eq!(pod.exec_ok("main", &["hostname"]).trim_end(), *host);
        let hosts = pod.exec_ok("main", &["cat", "/etc/hosts"]);
        assert!(hosts.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"), "{hosts}");
        assert!(hosts.contains(&format!("\n{}\t{line}\n", view.ip())), "{line}: {hosts}");
        assert_eq!(hosts.ends_with(of_aliases), pod.name() == "name-parts-e2e", "{hosts}");
    }
    let dns = pods[0].0.exec_ok("main", &["cat", "/etc/resolv.conf"]);
    let of_node = std::fs::read_to_string("/etc/resolv.conf").expect("the node's resolver configuration");
    let servers = |text: &str| text.lines().filter(|line| line.starts_with("nameserver")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(servers(&dns), servers(&of_node), "there is no cluster's");
    let why = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. Falling back to \
               \"Default\" policy.";
    pods[0].0.until_said(why);

    on_node.until_ready();
    let of_node = std::fs::read_to_string("/etc/hosts").expect("the node's hosts");
    let hosts = format!("# Kubernetes-managed hosts file (host network).\n{of_node}{}", &of_aliases[1..]);
    assert_eq!(on_node.exec_ok("main", &["cat", "/etc/hosts"]), hosts);
    let of_node = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("the node's name");
    assert_eq!(on_node.exec_ok("main", &["hostname"]), of_node);

    let fqdn = format!("{}.shop.default.svc.cluster.local", "b".repeat(40));
    too_long.until_said(&format!(
        "Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long (64 \
         characters is the max, {} characters requested)",
        fqdn.len()
    ));
}
