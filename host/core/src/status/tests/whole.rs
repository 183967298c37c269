//! Conditions, addresses and statuses in full.

use super::*;

#[test]
fn conditions_say_what_is_missing() {
    let check = |containers: &str, attempts: &str, initialized: &str, ready: &str| {
        let world = World::new("OnFailure", containers).have(attempts);
        world.condition("Initialized", initialized);
        world.condition("ContainersReady", ready);
        world.condition("Ready", ready);
        world.condition("PodScheduled", "True");
    };
    let unready = |names: &str| format!("False ContainersNotReady containers with unready status: [{names}]");
    let incomplete = |names: &str| format!("False ContainersNotInitialized containers with incomplete status: [{names}]");
    check("a b", "", "True", &unready("a b"));
    check("a b", "b=run", "True", &unready("a"));
    check("a b", "a=run b=run", "True", "True");
    check("i:init j:init a", "i=0", &incomplete("j"), &unready("a"));
    check("i:init s:sidecar a", "", &incomplete("i s"), &unready("s a"));
    check("i:init s:sidecar a", "i=0 s=run", "True", &unready("a"));
    check("i:init s:sidecar a", "i=0 s=run a=run", "True", "True");
    // Once initialised, a sidecar takes nothing back.
    check("s:sidecar a", "s=1 a=run", "True", &unready("s"));
    check("s:sidecar a", "s=1 a=0", "True PodCompleted", "False PodCompleted");
    World::new("Never", "a").have("a=1").stopped().condition("ContainersReady", "False PodFailed");
    World::new("Never", "i:init a").have("i=0 a=0").stopped().condition("Initialized", "True PodCompleted");
    World::new("Never", "a").condition("PodReadyToStartContainers", "False");
    World::new("Never", "a").have("").condition("PodReadyToStartContainers", "True");
}

#[test]
fn gates_keep_a_pod_out_of_service() {
    let with = |conditions: Value| {
        let object = json!({
            "spec": {"readinessGates": [{"conditionType": "x/a"}, {"conditionType": "x/b"}]},
            "status": {"conditions": conditions},
        });
        World::with("Always", "a", object, json!({})).have("a=run")
    };
    let closed = with(json!([{"type": "x/b", "status": "False"}]));
    let missing = "corresponding condition of pod readiness gate \"x/a\" does not exist.";
    let text =
        format!("False ReadinessGatesNotReady {missing}, the status of pod readiness gate \"x/b\" is not \"True\", but False");
    closed.condition("Ready", &text);
    closed.condition("ContainersReady", "True");
    // Others' conditions are passed on.
    closed.condition("x/b", "False");
    with(json!([{"type": "x/a", "status": "True"}, {"type": "x/b", "status": "True"}])).condition("Ready", "True");
}

#[test]
fn a_condition_keeps_its_instant_while_it_holds() {
    let at = |w: &World, type_: &str| {
        let status = w.status();
        let found = status.conditions.iter().flatten().find(|c| c.type_ == type_).unwrap().clone();
        (found.last_transition_time.unwrap().0.as_second(), found.observed_generation)
    };
    let world = World::new("Always", "a").have("a=run");
    assert_eq!(at(&world, "Ready"), (100, Some(3)));
    let later = world.told().change(|w| w.now = Wall(200_999));
    assert_eq!(at(&later, "Ready"), (100, Some(3)));
    let fell = later.have("a=1");
    assert_eq!(at(&fell, "Ready"), (200, Some(3)));
    assert_eq!(at(&fell, "PodScheduled"), (100, Some(3)));
    // Before this node has shown anything, the API's instants count.
    let status = json!({"status": {"conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:07Z"},
    ]}});
    assert_eq!(at(&World::with("Always", "a", status, json!({})), "PodScheduled"), (7, Some(3)));
}

#[test]
fn an_eviction_is_told_at_its_end() {
    let going = |cause| {
        let stop = Stop { cause, grace_seconds: 1, since: Wall(0) };
        let end = End { succeeded: false, reason: Some("Evicted".into()), message: Some("low on memory".into()) };
        World::new("Always", "a").have("a=run").told().change(|w| (w.record.stop, w.record.end) = (Some(stop), Some(end)))
    };
    let disturbed = |world: &World| world.status().conditions.unwrap().iter().any(|c| c.type_ == "DisruptionTarget");
    going(StopCause::Evicted).phase("Running");
    assert!(!disturbed(&going(StopCause::Evicted)));
    let ended = going(StopCause::Evicted).told().have("a=137").stopped();
    ended.condition("DisruptionTarget", "True TerminationByKubelet low on memory");
    // Not where the pod exceeded a limit of its own.
    let ended = going(StopCause::OverLimit).told().have("a=137").stopped();
    ended.phase("Failed");
    assert!(!disturbed(&ended));
}

#[test]
fn addresses_come_from_the_sandbox_that_serves() {
    let ips = |w: &World| {
        let status = w.settled();
        let all: Vec<String> = status.pod_ips.iter().flatten().map(|ip| ip.ip.clone()).collect();
        assert_eq!(status.pod_ip.as_ref(), all.first());
        all.join(" ")
    };
    let with = |ips: &[&str]| {
        let ips: Vec<String> = ips.iter().map(|ip| (*ip).to_owned()).collect();
        World::new("Always", "a").have("").change(|w| w.have.as_mut().unwrap().sandboxes[0].ips = ips)
    };
    assert_eq!(ips(&World::new("Always", "a")), "");
    assert_eq!(ips(&with(&["10.1.0.7"])), "10.1.0.7");
    // The node's family leads; one of each.
    assert_eq!(ips(&with(&["fd00::7", "10.1.0.7", "10.1.0.8"])), "10.1.0.7 fd00::7");
    assert_eq!(ips(&with(&["fd00::7"])), "fd00::7");
    // Kept while no sandbox serves.
    let dead = with(&["10.1.0.7"]).told().stopped_sandbox();
    assert_eq!(ips(&dead), "10.1.0.7");
    assert_eq!(ips(&dead.clone().told().change(|w| w.have = Some(Observed::default()))), "10.1.0.7");
    assert_eq!(ips(&dead.change(|w| w.have = None)), "10.1.0.7");
    // On the node's network: the node's, once.
    let host = World::with("Always", "a", json!({"spec": {"hostNetwork": true}}), json!({})).have("a=run");
    assert_eq!(ips(&host), "10.0.0.1 fd00::1");
    let one = host.change(|w| w.config.node_ips = vec!["10.0.0.1".into()]).told();
    assert_eq!(ips(&one.clone().change(|w| w.config.node_ips = vec!["10.0.0.9".into(), "fd00::9".into()])), "10.0.0.1 fd00::9");
    assert_eq!(ips(&one.change(|w| w.config.node_ips = vec!["10.0.0.9".into()])), "10.0.0.1");
}

#[test]
fn a_status_in_full() {
    let fields = json!({
        "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}},
        "volumeMounts": [
            {"name": "v", "mountPath": "/v"},
            {"name": "r", "mountPath": "/r", "readOnly": true},
            {"name": "q", "mountPath": "/q", "readOnly": true, "recursiveReadOnly": "Enabled"},
            {"name": "p", "mountPath": "p", "readOnly": true, "recursiveReadOnly": "IfPossible"},
            {"name": "n", "mountPath": "/n", "readOnly": true, "recursiveReadOnly": "IfPossible"},
        ],
    });
    let world = World::with("Always", "a", json!({}), fields).have("a#0=1 a#1=run");
    let world = world.change(|w| {
        let have = w.have.as_mut().unwrap();
        have.containers[0].user = Some((1000, 1000, vec![1000, 5]));
        have.containers[0].recursively_read_only = ["/p".to_owned()].into();
        have.containers[0].stop_signal = Some("SIGUSR1".to_owned());
        have.containers[1].message = "x".repeat(20_000);
    });
    let condition = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": "1970-01-01T00:01:40Z", "observedGeneration": 3});
    let order = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    assert_eq!(
        serde_json::to_value(world.settled()).unwrap(),
        json!({
            "phase": "Running",
            "conditions": order.map(condition),
            "hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
            "podIP": "10.1.0.7", "podIPs": [{"ip": "10.1.0.7"}],
            "startTime": "1970-01-01T00:00:05Z",
            "qosClass": "Burstable",
            "observedGeneration": 3,
            "containerStatuses": [{
                "name": "a",
                "image": "registry.example/img:1", "imageID": "img@sha256:00", "containerID": "containerd://a-1",
                "state": {"running": {"startedAt": "1970-01-01T00:00:20Z"}},
                "lastState": {"terminated": {
                    "containerID": "containerd://a-0", "exitCode": 1, "reason": "Error", "message": "x".repeat(12_288),
                    "startedAt": "1970-01-01T00:00:10Z", "finishedAt": "1970-01-01T00:00:15Z",
                }},
                "ready": true, "started": true, "restartCount": 1,
                "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}},
                "allocatedResources": {"cpu": "100m"},
                "volumeMounts": [
                    {"name": "v", "mountPath": "/v"},
                    {"name": "r", "mountPath": "/r", "readOnly": true, "recursiveReadOnly": "Disabled"},
                    {"name": "q", "mountPath": "/q", "readOnly": true, "recursiveReadOnly": "Enabled"},
                    {"name": "p", "mountPath": "p", "readOnly": true, "recursiveReadOnly": "Enabled"},
                    {"name": "n", "mountPath": "/n", "readOnly": true, "recursiveReadOnly": "Disabled"},
                ],
                "stopSignal": "SIGUSR1",
                "user": {"linux": {"uid": 1000, "gid": 1000, "supplementalGroups": [1000, 5]}},
            }],
        })
    );
}

#[test]
fn other_peoples_fields_do_not_count_as_changes() {
    let world = World::new("Always", "a").have("a=run");
    let told = world.status();
    let change = |change: fn(&mut v1::PodStatus)| {
        let mut other = told.clone();
        change(&mut other);
        unchanged(&told, &other)
    };
    assert!(change(|s| s.resource_claim_statuses = Some(Vec::new())));
    assert!(change(|s| s.conditions.as_mut().unwrap()[0].last_transition_time = None));
    assert!(change(|s| s.conditions.as_mut().unwrap().push(v1::PodCondition { type_: "x/y".into(), ..Default::default() })));
    assert!(change(|s| s.message = Some(String::new())));
    assert!(change(|s| s.container_statuses.as_mut().unwrap()[0].last_state = None));
    assert!(!change(|s| s.conditions.as_mut().unwrap()[0].message = Some("m".into())));
    assert!(!change(|s| s.conditions.as_mut().unwrap().truncate(2)));
    assert!(!change(|s| s.phase = Some("Pending".into())));
    assert!(!change(|s| s.observed_generation = Some(4)));
    assert!(!change(|s| s.container_statuses.as_mut().unwrap()[0].ready = false));
}
