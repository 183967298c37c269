//! Images from a registry.

use polylet_e2e::{ANN, Node, Pod, View};
use rustix::process::Signal;

const REGISTRY: &str = "127.0.0.1:5000";

fn spec(image: &str, policy: &str) -> String {
    format!(
        "\n  terminationGracePeriodSeconds: 1\n  containers:\n  - {{name: main, image: '{REGISTRY}/{image}', imagePullPolicy: {policy}, \
         command: [sleep, '1000']}}"
    )
}

/// `why`: in the words of one runtime or another.
fn backs_off(pod: &Pod<'_>, why: &[&str]) -> View {
    let view = pod.until("it backs off", |view| view.waits("main") == "ImagePullBackOff");
    let message = view.wait_message("main");
    assert!(message.starts_with("Back-off pulling image \"") && message.contains(": ErrImagePull: "), "{message}");
    assert!(why.iter().any(|words| message.contains(words)), "{message}");
    view
}

pub(crate) fn pulled_from_a_registry() {
    let node = Node::up();
    let (registry, _server) = node.network().serve_registry(5000);

    // By tag, which is then there, unless it is to be looked for always.
    let by_tag = node.pod("by-tag", &spec("team/busybox:1", "IfNotPresent"));
    by_tag.until_ready();
    let image = format!("{REGISTRY}/team/busybox:1");
    by_tag.until_said(&format!("Pulling image \"{image}\""));
    by_tag.until_said(&format!("Successfully pulled image \"{image}\" in "));
    let asked = registry.asked("team/busybox");
    assert!(asked > 0);
    let present = node.pod("present", &spec("team/busybox:1", "IfNotPresent"));
    present.until_ready();
    present.until_said("already present on machine");
    assert_eq!(registry.asked("team/busybox"), asked);
    node.pod("always", &spec("team/busybox:1", "Always")).until_ready();
    assert!(registry.asked("team/busybox") > asked);

    let digest = registry.digest("1-user").to_owned();
    let by_digest = node.pod("by-digest", &spec(&format!("team/by-digest@{digest}"), "IfNotPresent"));
    let image_id = by_digest.until_ready().container("main")["imageID"].to_string();
    assert!(image_id.contains(&digest), "{image_id}");

    // What fails is tried again, when the backoff is over.
    let fails = node.pod("fails", &spec("failing/busybox:1", "IfNotPresent"));
    let private = node.pod("private", &spec("private/busybox:1", "IfNotPresent"));
    fails.until_said("Error: ErrImagePull");
    backs_off(&fails, &["500 Internal Server Error"]);
    backs_off(&private, &["401 Unauthorized", "authorization failed"]);
    assert_eq!(registry.asked("private/busybox"), 0, "nobody is let in");
    registry.mend();
    // The longer place comes first, and does not open it.
    let (wrong, right) = (r#"{"username": "ben", "password": "guess"}"#, format!(r#"{{"auth": "{ANN}"}}"#));
    let credentials = format!(r#"{{"auths": {{"http://{REGISTRY}/private": {wrong}, "{REGISTRY}": {right}}}}}"#);
    std::fs::write(node.dir().join("kubelet/config.json"), credentials).expect("write credentials");
    fails.until_ready();
    private.until_ready();
    let log = node.log();
    assert!(!log.contains(ANN) && !log.contains("sesame") && !log.contains("guess"), "no secret is logged");

    one_after_the_other(&node, &registry);
    several_at_once(&node, &registry);
    not_too_often(&node);
}

fn one_after_the_other(node: &Node, registry: &polylet_e2e::Registry) {
    let slow = ["a", "b"].map(|name| node.pod(&format!("slow-{name}"), &spec(&format!("slow/{name}:1"), "IfNotPresent")));
    node.until_true("one is being pulled", || registry.waiting().len() == 1);
    // Whatever needs no pull waits for none.
    node.pod("beside", &spec("team/busybox:1", "IfNotPresent")).until_ready();
    slow.iter().for_each(|pod| drop(pod.until("it is let in", |view| view.life() == "running")));
    assert_eq!(registry.waiting().len(), 1, "the other one waits for it");
    let image = format!("{REGISTRY}/{}:1", registry.waiting()[0]);
    let told =
        |line: &str| line.contains("an image is still being pulled") && line.contains(&image) && line.contains("seconds=3");
    node.until_true("the log tells of a pull that takes half a minute", || node.log().lines().any(told));
    registry.let_go(true);
    slow.iter().for_each(|pod| drop(pod.until_ready()));
    registry.let_go(false);
}

fn several_at_once(node: &Node, registry: &polylet_e2e::Registry) {
    node.end_agent(Signal::TERM);
    node.append("config.yaml", "serializeImagePulls: false\nmaxParallelImagePulls: 2\nregistryPullQPS: 1\nregistryBurst: 3\n");
    let slow = ["c", "d", "e"].map(|name| node.pod(&format!("slow-{name}"), &spec(&format!("slow/{name}:1"), "IfNotPresent")));
    node.start_agent();
    node.until_true("two are being pulled", || registry.waiting().len() == 2);
    slow.iter().for_each(|pod| drop(pod.until("it is let in", |view| view.life() == "running")));
    assert_eq!(registry.waiting().len(), 2, "the third waits for one of them");
    registry.let_go(true);
    slow.iter().for_each(|pod| drop(pod.until_ready()));
}

fn not_too_often(node: &Node) {
    // All at once: however slow each is, they cannot all be within the rate.
    node.end_agent(Signal::TERM);
    let config = node.dir().join("config.yaml");
    let text = std::fs::read_to_string(&config).expect("the configuration");
    let text =
        text.replace("maxParallelImagePulls: 2", "maxParallelImagePulls: 5").replace("registryBurst: 3", "registryBurst: 1");
    std::fs::write(&config, text).expect("write the configuration");
    node.start_agent();
    let many = [1, 2, 3].map(|n| node.pod(&format!("many-{n}"), &spec("team/busybox:1", "Always")));
    node.until_true("a pull is one too many", || node.log().contains("pull QPS exceeded"));
    many.iter().for_each(|pod| drop(pod.until_ready()));
}
