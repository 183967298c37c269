//! Pods that the node fetches from a URL.

use polylet_e2e::{Node, View};

const SLEEP: &str =
    "terminationGracePeriodSeconds: 1, containers: [{name: main, image: 'polylet.local/busybox:1', command: [sleep, '1000']}]";

fn pod(name: &str) -> String {
    format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{{SLEEP}}}}}")
}

pub(crate) fn pods_of_a_url() {
    let node = Node::without_agent();
    let (document, _server) = node.network().serve_document(8080);
    node.append(
        "config.yaml",
        "staticPodURL: http://127.0.0.1:8080/pods?of=e2e\nhttpCheckFrequency: 1s\nstaticPodURLHeader: {Authorization: [Bearer hush]}\n",
    );
    node.spawn_agent();
    let one = |name: &str| {
        let mut all = node.views().into_iter().filter(|view| view.name() == format!("{name}-e2e"));
        (all.next(), all.next())
    };
    let until =
        |what: &str, name: &str, holds: &dyn Fn(&View) -> bool| node.until(what, || one(name).0.filter(|view| holds(view)));

    // The server is not ready: what the directory declares does not wait for it.
    let of_file = node.pod("of-file", &format!("  {}", SLEEP.replacen(", containers", "\n  containers", 1)));
    let before = of_file.until_ready();
    let reasons = node.node()["reasons"].to_string();
    assert!(reasons.contains("pod sources have not been heard yet"), "{reasons}");
    assert!(node.log().contains("manifests at http://127.0.0.1:8080/pods: the answer's status is 503, not 200"));

    document.set(200, &pod("of-url"));
    let first = until("the URL's pod is ready", "of-url", &View::is_ready);
    node.until_ready();
    let sandboxes = node.sandboxes_of(first.uid());
    assert_eq!(sandboxes[0].annotations.get("kubernetes.io/config.source").map(String::as_str), Some("http"));
    let request = document.requests().pop().expect("a request");
    assert!(
        request.starts_with("GET /pods?of=e2e HTTP/1.1\r\n") && request.contains("\r\nAuthorization: Bearer hush\r\n"),
        "{request}"
    );

    // What it cannot be asked for changes nothing.
    document.set(500, "");
    let asked = document.requests().len();
    node.until_true("it was asked twice in vain", || document.requests().len() >= asked + 2);
    assert_eq!(until("it is still there", "of-url", &|_| true).id("main"), first.id("main"));

    let items = ["of-url", "another"].map(pod).join(", ");
    document.set(200, &format!("{{apiVersion: v1, kind: PodList, items: [{items}]}}"));
    until("the other one is ready", "another", &View::is_ready);
    assert_eq!(until("the first is the same", "of-url", &|_| true).id("main"), first.id("main"));

    // One of the same name waits until the name is free.
    let namesake = node.pod("of-url", &format!("  {}", SLEEP.replacen(", containers", "\n  containers", 1)));
    node.until_true("both are known", || one("of-url").1.is_some());
    let waiting = node.views().into_iter().find(|view| view.name() == namesake.name() && view.uid() != first.uid());
    let waiting = waiting.expect("the file's pod").uid().to_owned();
    let asked = document.requests().len();
    node.until_true("time goes by", || document.requests().len() >= asked + 2);
    assert!(node.sandboxes_of(&waiting).is_empty(), "two of one name do not run together");

    document.set(200, "");
    node.until_true("the URL's pods have gone and the namesake runs", || {
        let runs = |view: &View| view.uid() == waiting && view.is_ready();
        one("another").0.is_none() && one("of-url").1.is_none() && one("of-url").0.is_some_and(|view| runs(&view))
    });
    assert_eq!(of_file.until_ready().id("main"), before.id("main"));
    let log = node.log();
    assert!(!log.contains("hush") && !log.contains("of=e2e"), "nothing that may be secret is logged");
}
