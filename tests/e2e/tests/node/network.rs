//! Addresses of pods, and ports of the node that lead to them.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use polylet_e2e::Node;
use rustix::process::Signal;

const SLEEP: &str = "
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: busybox, command: [sleep, '1000']}";

/// The last of a chain of plugins: fails while a file is there.
const BREAKS: &str = r#"#!/bin/sh
case $CNI_COMMAND in
VERSION) echo '{"cniVersion": "0.4.0", "supportedVersions": ["0.3.1", "0.4.0"]}' ;;
ADD)
    if [ -e DIR/cni/broken ]; then
        echo '{"cniVersion": "0.4.0", "code": 100, "msg": "broken on purpose"}'
        exit 1
    fi
    jq .prevResult
    ;;
esac
"#;

/// A node whose containerd has another configuration of its networks: `change` gets what there is.
fn with_networks(change: impl FnOnce(&Node, String) -> String) -> Node {
    let node = Node::without_agent();
    node.kill_containerd();
    let file = node.dir().join("containerd.toml");
    let text = std::fs::read_to_string(&file).expect("containerd's configuration");
    std::fs::write(&file, change(&node, text)).expect("change containerd's configuration");
    node.start_containerd();
    node
}

pub(crate) fn both_families_and_a_failure() {
    let node = with_networks(|node, text| {
        let (dir, found) = (node.dir().display().to_string(), node.env("CNI_BIN_DIR"));
        let own = node.dir().join("cni/bin");
        std::fs::create_dir(&own).expect("make a directory");
        for plugin in std::fs::read_dir(found).expect("list the plugins") {
            let plugin = plugin.expect("a plugin");
            symlink(plugin.path(), own.join(plugin.file_name())).expect("link a plugin");
        }
        std::fs::write(own.join("breaks"), BREAKS.replace("DIR", &dir)).expect("write a plugin");
        std::fs::set_permissions(own.join("breaks"), std::fs::Permissions::from_mode(0o755)).expect("make it executable");
        let network = r#"{"cniVersion": "0.4.0", "name": "polylet", "plugins": [
            {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": {"type": "host-local", "dataDir": "DIR/cni/ipam",
             "ranges": [[{"subnet": "fd00:10:244::/64"}], [{"subnet": "10.244.0.0/24"}]],
             "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
            {"type": "breaks"}]}"#;
        let file = Path::new(node.env("CNI_CONF_DIR")).join("10-polylet.conflist");
        std::fs::write(file, network.replace("DIR", &dir)).expect("write the network");
        text.replace(&format!("bin_dir = \"{found}\""), &format!("bin_dir = \"{}\"", own.display()))
    });
    node.start_agent();
    // Addresses that are given out: each is a file of its name.
    let given = || {
        let entries = std::fs::read_dir(node.dir().join("cni/ipam/polylet")).into_iter().flatten().filter_map(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.parse::<std::net::IpAddr>().is_ok()).collect::<Vec<_>>()
    };

    let good = node.pod("good", SLEEP);
    let view = good.until_ready();
    let ips: Vec<&str> = view.status()["podIPs"].as_array().into_iter().flatten().filter_map(|ip| ip["ip"].as_str()).collect();
    // Whichever the network gives first: that of the node's own family leads.
    assert!(ips.len() == 2 && ips[0].starts_with("10.244.0.") && ips[1].starts_with("fd00:10:244::"), "{ips:?}");
    assert_eq!(view.ip(), ips[0]);
    let hosts = good.exec_ok("main", &["cat", "/etc/hosts"]);
    assert!(ips.iter().all(|ip| hosts.contains(&format!("\n{ip}\tgood-e2e"))), "{hosts}");
    assert_eq!(given().len(), 2, "{:?}", given());

    std::fs::write(node.dir().join("cni/broken"), "").expect("break the network");
    let bad = node.pod("bad", SLEEP);
    bad.until_said("broken on purpose");
    let tried = || bad.said().iter().filter(|line| line.contains("FailedCreatePodSandBox")).count();
    let before = tried();
    node.until_true("it was tried again", || tried() > before);
    node.until_true("no address is kept for what failed", || given().len() == 2);
    std::fs::remove_file(node.dir().join("cni/broken")).expect("mend the network");
    bad.until_ready();
    assert_eq!(given().len(), 4, "{:?}", given());
    bad.remove();
    bad.until_gone();
    assert_eq!(given().len(), 2, "{:?}", given());
}

pub(crate) fn the_runtime_is_told_the_range() {
    let node = with_networks(|node, text| {
        let template = r#"{"cniVersion": "0.4.0", "name": "ranged", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
            "forceAddress": true, "ipam": {"type": "host-local", "dataDir": "DIR/cni/ipam",
                     "ranges": [{{range $i, $range := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$range}}"}]{{end}}]}}]}"#;
        let file = node.dir().join("cni/template");
        std::fs::write(&file, template.replace("DIR", &node.dir().display().to_string())).expect("write a template");
        let network = Path::new(node.env("CNI_CONF_DIR")).join("10-polylet.conflist");
        std::fs::remove_file(network).expect("remove the lab's network");
        let (before, own) = ("conf_dir = ", format!("conf_template = \"{}\"\n", file.display()));
        text.replacen(before, &format!("{own}{before}"), 1)
    });
    node.append("config.yaml", "podCIDR: 10.99.7.0/24\n");
    node.start_agent();
    let ranged = node.pod("ranged", SLEEP);
    let view = ranged.until_ready();
    assert!(view.ip().starts_with("10.99.7."), "{}", view.ip());
    ranged.remove();
    ranged.until_gone();

    // Another range is told too; containerd takes one only while it has no network.
    for file in std::fs::read_dir(node.env("CNI_CONF_DIR")).expect("list the networks").flatten() {
        std::fs::remove_file(file.path()).expect("remove the network");
    }
    node.until_true("the network is gone", || node.node()["ready"] == false);
    node.end_agent(Signal::TERM);
    let config = node.dir().join("config.yaml");
    let text = std::fs::read_to_string(&config).expect("the configuration");
    std::fs::write(&config, text.replace("10.99.7.0/24", "10.99.8.0/24")).expect("write the configuration");
    node.start_agent();
    let view = node.pod("ranged-anew", SLEEP).until_ready();
    assert!(view.ip().starts_with("10.99.8."), "{}", view.ip());
}

pub(crate) fn written_of_a_template() {
    let node = Node::without_agent();
    let networks = Path::new(node.env("CNI_CONF_DIR"));
    std::fs::remove_file(networks.join("10-polylet.conflist")).expect("remove the lab's network");
    let template = node.dir().join("network.j2");
    let ranges = r#"{"cniVersion": "0.4.0", "name": "{{ nodeName }}", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
        "forceAddress": true, "ipam": {"type": "host-local", "dataDir": "DIR/cni/ipam",
         "ranges": [{% for cidr in podCIDRs %}[{"subnet": "{{ cidr }}"}]{% if not loop.last %}, {% endif %}{% endfor %}]}}]}"#;
    let ranges = ranges.replace("DIR", &node.dir().display().to_string());
    std::fs::write(&template, ranges.replace("podCIDRs", "podCIDR")).expect("write a template");
    node.append("polylet.yaml", "network: {template: network.j2}\n");
    node.append("config.yaml", "podCIDR: 10.99.5.0/24\n");

    let refused = node.agent_command().output().expect("start an agent");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    let expected = format!("{} (network.template): line 3: undefined value", template.display());
    assert!(!refused.status.success() && told.contains(&expected), "{told}");
    assert_eq!(std::fs::read_dir(networks).expect("list the networks").count(), 0);

    std::fs::write(&template, ranges).expect("write a template");
    node.start_agent();
    let first = node.pod("templated", SLEEP);
    let view = first.until_ready();
    assert!(view.ip().starts_with("10.99.5."), "{}", view.ip());
    first.remove();
    first.until_gone();

    // Another range replaces it, and containerd takes it up.
    node.end_agent(Signal::TERM);
    let config = node.dir().join("config.yaml");
    let text = std::fs::read_to_string(&config).expect("the configuration");
    std::fs::write(&config, text.replace("10.99.5.0/24", "10.99.6.0/24")).expect("write the configuration");
    node.start_agent();
    node.until_true("containerd has loaded it", || node.runtime_info("cniconfig").contains("10.99.6.0/24"));
    let view = node.pod("templated-anew", SLEEP).until_ready();
    assert!(view.ip().starts_with("10.99.6."), "{}", view.ip());
    assert_eq!(std::fs::read_dir(networks).expect("list the networks").count(), 1);
}

pub(crate) fn two_nodes() {
    let [one, two] = [1, 2].map(Node::numbered);
    one.link(&two);
    let serves = "
  containers:
  - {name: main, image: busybox, command: [httpd, -f, -p, '8080', -h, /etc]}
  terminationGracePeriodSeconds: 1";
    let [there, here] = [&two, &one].map(|node| {
        node.start_agent();
        node.pod("server", serves)
    });
    let [there, here] = [there, here].map(|pod| (pod.until_ready().ip().to_owned(), pod));
    assert!(there.0.starts_with("10.244.2.") && here.0.starts_with("10.244.1."), "{} {}", there.0, here.0);
    for ((_, from), (to, _)) in [(&here, &there), (&there, &here)] {
        let request = format!("printf 'GET /hostname HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {to} 8080");
        let answer = from.exec_ok("main", &["sh", "-c", &request]);
        assert!(answer.contains("200 OK") && answer.trim_end().ends_with("server-e2e"), "{answer}");
    }
}

pub(crate) fn host_ports(node: &Node) {
    let one = |port: u16| {
        format!(
            "
  terminationGracePeriodSeconds: 1
  containers:
  - {{name: main, image: busybox, command: [httpd, -f, -p, '8080', -h, /etc], ports: [{{containerPort: 8080, hostPort: {port}}}]}}"
        )
    };
    let url = format!("http://{}:18080/passwd", node.env("NODE_IP"));
    let answers = || node.inside(&["curl", "--silent", "--fail", "--max-time", "5", &url]).status.success();
    let first = node.pod("hostport", &one(18080));
    first.until_ready();
    node.until_true("the port leads to the pod", answers);
    let second = node.pod("same-hostport", &one(18080));
    let view = second.until("it is turned away", |view| view.phase() == "Failed");
    assert_eq!(view.status()["reason"], "NodePorts");
    assert!(answers(), "the first one keeps the port");
    first.remove();
    first.until_gone();
    assert!(!answers(), "the port leads nowhere");
}
