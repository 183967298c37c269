//! Pods for the simulated world, and what their containers do when they run.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1;
use polylet_core::pod::{Pod, Source};
use polylet_core::time::Wall;

use super::Rng;

/// What a container's process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// Runs until it is stopped.
    Serves,
    /// Ends by itself.
    Ends { after: u64, code: i32 },
    /// Fails this many times in this world with this code, then ends well or serves on.
    FailsFirst { times: u32, code: i32, then_serves: bool },
}

/// Exit code that a restart rule answers with another try.
const AGAIN: i32 = 42;
/// Exit code that a restart rule answers with a restart of all containers.
pub(super) const ALL_AGAIN: i32 = 77;

/// A pod of the world: the object and its programs by container.
#[derive(Clone, Debug)]
pub(super) struct SimPod {
    pub(super) pod: Arc<Pod>,
    pub(super) programs: BTreeMap<String, Program>,
    /// Liveness fails until this many restarts have happened.
    pub(super) sick: BTreeMap<String, u32>,
}

/// A pod drawn at random.
pub(super) fn draw(rng: &mut Rng, uid: &str, name: &str, api: bool) -> SimPod {
    let restart = ["Always", "Always", "OnFailure", "Never"][rng.below(4) as usize];
    let mut programs = BTreeMap::new();
    let mut sick = BTreeMap::new();
    let mut init = Vec::new();
    for i in 0..rng.below(3) {
        let name = format!("i{i}");
        let sidecar = rng.chance(35);
        let program = match (sidecar, restart) {
            (true, _) => Program::Serves,
            (false, "Never") => Program::Ends { after: rng.below(3_000), code: i32::from(rng.chance(15)) },
            (false, _) => Program::FailsFirst { times: rng.below(3) as u32, code: 1, then_serves: false },
        };
        programs.insert(name.clone(), program);
        init.push(container(rng, &name, sidecar.then_some("Always"), &mut sick, sidecar));
    }
    let mut apps = Vec::new();
    for i in 0..1 + rng.below(2) {
        let name = format!("c{i}");
        let program = match restart {
            "Always" if rng.chance(20) => Program::FailsFirst { times: 1 + rng.below(3) as u32, code: 1, then_serves: true },
            "Always" => Program::Serves,
            "OnFailure" => Program::FailsFirst { times: rng.below(3) as u32, code: 1, then_serves: false },
            _ => Program::Ends { after: 500 + rng.below(20_000), code: rng.below(2) as i32 },
        };
        let mut app = container(rng, &name, None, &mut sick, restart == "Always");
        let program = if restart != "Always" && rng.chance(20) { ruled(rng, &mut app) } else { program };
        programs.insert(name.clone(), program);
        apps.push(app);
    }
    let mut volumes = Vec::new();
    if rng.chance(15) {
        let policy = if rng.chance(20) { "Always" } else { "IfNotPresent" };
        volumes.push(serde_json::json!({"name": "mounted", "image": {"reference": image(rng), "pullPolicy": policy}}));
        apps[0]["volumeMounts"] = serde_json::json!([{"name": "mounted", "mountPath": "/mounted"}]);
    }
    let object: v1::Pod = serde_json::from_value(serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": uid},
        "spec": {
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 1 + rng.below(8),
            "hostNetwork": rng.chance(20),
            "activeDeadlineSeconds": rng.chance(10).then(|| 5 + rng.below(60)),
            "volumes": volumes,
            "initContainers": init,
            "containers": apps,
        }
    }))
    .expect("a pod made here parses");
    let source = if api { Source::Api } else { Source::File };
    let pod = Pod::parse(Arc::new(object), source, Wall(0)).expect("a pod made here is valid");
    SimPod { pod: Arc::new(pod), programs, sick }
}

/// Gives a container a policy of its own with a rule for one exit code, and a program that ends with it.
fn ruled(rng: &mut Rng, container: &mut serde_json::Value) -> Program {
    let (action, code) = if rng.chance(50) { ("Restart", AGAIN) } else { ("RestartAllContainers", ALL_AGAIN) };
    container["restartPolicy"] = "Never".into();
    container["restartPolicyRules"] = serde_json::json!([{"action": action, "exitCodes": {"operator": "In", "values": [code]}}]);
    Program::FailsFirst { times: 1 + rng.below(2) as u32, code, then_serves: false }
}

/// The same pod with one more ephemeral container, which ends by itself.
pub(super) fn debugged(rng: &mut Rng, pod: &SimPod) -> SimPod {
    let mut object = (*pod.pod.object).clone();
    let mut programs = pod.programs.clone();
    if let Some(spec) = &mut object.spec {
        let all = spec.ephemeral_containers.get_or_insert_default();
        let name = format!("e{}", all.len());
        programs.insert(name.clone(), Program::Ends { after: rng.below(5_000), code: rng.below(2) as i32 });
        all.push(v1::EphemeralContainer { name, image: Some("img0:1".into()), ..Default::default() });
    }
    let parsed = Pod::parse(Arc::new(object), pod.pod.source, Wall(0)).expect("a pod with an ephemeral container is valid");
    SimPod { pod: Arc::new(parsed), programs, sick: pod.sick.clone() }
}

/// The same pod, marked for deletion by the API.
pub(super) fn deleted(rng: &mut Rng, pod: &SimPod) -> SimPod {
    let mut object = serde_json::to_value(&*pod.pod.object).expect("a pod is JSON");
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    object["metadata"]["deletionGracePeriodSeconds"] = (1 + rng.below(pod.pod.grace.as_secs())).into();
    let object: v1::Pod = serde_json::from_value(object).expect("a pod marked for deletion parses");
    let parsed = Pod::parse(Arc::new(object), pod.pod.source, Wall(0)).expect("a pod marked for deletion is valid");
    SimPod { pod: Arc::new(parsed), ..pod.clone() }
}

/// The same pod with another image in its first app container.
pub(super) fn edited(pod: &SimPod, image: &str) -> SimPod {
    let mut object = (*pod.pod.object).clone();
    if let Some(spec) = &mut object.spec {
        spec.containers[0].image = Some(image.to_owned());
    }
    let pod_new = Pod::parse(Arc::new(object), pod.pod.source, Wall(0)).expect("an edited pod is valid");
    SimPod { pod: Arc::new(pod_new), ..pod.clone() }
}

/// One of those that every world has, or one that is to be pulled.
fn image(rng: &mut Rng) -> String {
    format!("img{}:1", rng.below(3))
}

fn container(
    rng: &mut Rng,
    name: &str,
    restart: Option<&str>,
    sick: &mut BTreeMap<String, u32>,
    may_be_sick: bool,
) -> serde_json::Value {
    let mut c = serde_json::json!({
        "name": name, "image": image(rng),
        "imagePullPolicy": if rng.chance(20) { "Always" } else { "IfNotPresent" },
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    });
    let probe = |period: u64| {
        serde_json::json!({"tcpSocket": {"port": 80}, "periodSeconds": period, "timeoutSeconds": 1,
            "successThreshold": 1, "failureThreshold": 2})
    };
    let grace = |rng: &mut Rng, mut probe: serde_json::Value| {
        if rng.chance(30) {
            probe["terminationGracePeriodSeconds"] = (1 + rng.below(6)).into();
        }
        probe
    };
    if let Some(policy) = restart {
        c["restartPolicy"] = policy.into();
    }
    if may_be_sick {
        if rng.chance(30) {
            c["livenessProbe"] = probe(2 + rng.below(5));
            c["livenessProbe"] = grace(rng, c["livenessProbe"].take());
            if rng.chance(30) {
                sick.insert(name.to_owned(), 1 + rng.below(2) as u32);
            }
        }
        if rng.chance(30) {
            c["readinessProbe"] = probe(1 + rng.below(5));
        }
        if rng.chance(20) {
            c["startupProbe"] = probe(1 + rng.below(3));
            c["startupProbe"] = grace(rng, c["startupProbe"].take());
        }
    }
    if rng.chance(20) {
        c["lifecycle"] = serde_json::json!({"preStop": {"exec": {"command": ["true"]}}});
    }
    if rng.chance(10) {
        c["lifecycle"]["postStart"] = serde_json::json!({"exec": {"command": ["true"]}});
    }
    c
}
