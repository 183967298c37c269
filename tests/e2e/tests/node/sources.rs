//! Where manifests are, and which of them are refused.

use polylet_e2e::{Node, broken_manifests};

const SLEEP: &str = "
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sleep, '1000']";

/// Bytes that the agent may have taken in for all broken manifests.
const GROWTH: u64 = 64 << 20;

pub(crate) fn a_single_file() {
    let node = Node::without_agent();
    let config = node.dir().join("config.yaml");
    let text = std::fs::read_to_string(&config).expect("the configuration");
    std::fs::write(&config, text.replace("/manifests\n", "/manifests/single.yaml\n")).expect("write the configuration");
    let (single, beside) = (node.pod("single", SLEEP), node.pod("beside", SLEEP));
    node.start_agent();
    let first = single.until_ready();
    // By renaming, as an editor does it.
    single.change(&SLEEP.replace("1000", "2000"));
    let second = single.until("another is ready", |view| view.is_ready() && view.uid() != first.uid());
    node.until_true("nothing is left of the first", || node.containers_of(first.uid()).is_empty());
    single.remove();
    single.until_gone();
    node.until_true("nothing is left of the second", || node.containers_of(second.uid()).is_empty());
    single.change(SLEEP);
    single.until_ready();
    assert!(beside.now().is_none(), "what lies beside the file is nobody's");
}

pub(crate) fn a_reference_to_a_secret(node: &Node) {
    let steady = node.pod("beside-secret", SLEEP);
    let before = steady.until_ready();
    let spec = format!("{SLEEP}\n    env: [{{name: A, valueFrom: {{secretKeyRef: {{name: s, key: k}}}}}}]");
    let secret = node.pod("secret", &spec);
    let why = "/secret.yaml: spec.containers[0].env[0].valueFrom.secretKeyRef: Forbidden: static pods may not reference secrets";
    let told = || node.log().lines().any(|line| line.contains("ERROR") && line.contains(why));
    node.until_true("the agent names the field", told);
    node.pod("after-secret", SLEEP).until_ready();
    assert!(secret.now().is_none(), "it is not taken");
    let listed = || {
        node.node()["manifestErrors"].as_array().is_some_and(|all| all.iter().any(|told| told.as_str().unwrap().contains(why)))
    };
    assert!(listed(), "{}", node.node());
    let missed = String::from_utf8(node.cli(&["describe", "secret"]).stderr).expect("text");
    assert!(missed.ends_with("; not every manifest is used: polylet node says which\n"), "{missed}");
    secret.remove();
    node.until_true("it is not listed any more", || !listed());
    assert_eq!(steady.now().map(|view| view.picture()), Some(before.picture()));
}

pub(crate) fn all_that_is_broken_at_once() {
    let node = Node::up();
    let steady = node.pod("steady", SLEEP);
    let before = steady.until_ready();
    let memory = node.agent_memory();
    let broken = broken_manifests();
    broken.iter().for_each(|(file, bytes)| node.write_manifest(file, bytes));
    for file in broken.keys() {
        let named = format!("/{file}: ");
        node.until_true(&format!("the agent names {file}"), || {
            node.log().lines().any(|line| line.contains("ERROR") && line.contains(&named))
        });
    }
    let now = node.agent_memory();
    assert!(now < memory + GROWTH, "the agent has grown from {memory} to {now} bytes");
    broken.keys().for_each(|file| node.remove_manifest(file));
    let good = node.pod("good", SLEEP);
    good.until_ready();
    assert_eq!(node.node()["ready"], true, "the agent goes on");
    assert_eq!(steady.now().map(|view| view.picture()), Some(before.picture()));
    let names: Vec<String> = node.views().iter().map(|view| view.name().to_owned()).collect();
    assert_eq!(names, [good.name(), steady.name()], "no other pod is taken");
}
