use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::pod::Resources;

/// A pod with this spec; whatever is not given is as an API server would leave it out.
fn parse(spec: Value) -> Result<Pod, PodError> {
    let object = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u-1"}, "spec": spec});
    Pod::parse(Arc::new(serde_json::from_value(object).unwrap()), Source::Api, Wall(5))
}

/// The first app container of a pod, given by its fields beside name and image.
fn container(fields: Value) -> Result<Container, PodError> {
    let mut c = json!({"name": "app", "image": "app:1"});
    c.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    parse(json!({"containers": [c]})).map(|pod| pod.containers[0].clone())
}

#[test]
fn a_minimal_pod_gets_the_apis_defaults() {
    let pod = parse(json!({"containers": [{"name": "app", "image": "app"}]})).unwrap();
    assert_eq!(pod.desc(), "web_shop(u-1)");
    assert_eq!((pod.restart_policy, pod.grace, pod.priority), (RestartPolicy::Always, Duration::from_secs(30), 0));
    assert_eq!((pod.created, pod.qos, pod.deletion), (Wall(5), QosClass::BestEffort, None));
    let c = &pod.containers[0];
    assert_eq!((c.image.as_str(), c.pull_policy), ("app:latest", PullPolicy::Always));
    assert_eq!(c.hash, container_hash("app", "app"));
    assert_eq!(c.termination_message_path, "/dev/termination-log");
}

#[test]
fn containers_come_in_the_order_of_their_start() {
    let pod = parse(json!({
        "initContainers": [
            {"name": "prepare", "image": "i"},
            {"name": "proxy", "image": "i", "restartPolicy": "Always"},
            {"name": "retry", "image": "i", "restartPolicy": "OnFailure"},
        ],
        "containers": [{"name": "app", "image": "i"}],
        "ephemeralContainers": [{"name": "debug", "image": "i", "targetContainerName": "app"}],
    }))
    .unwrap();
    let found: Vec<_> = pod.containers.iter().map(|c| (c.name.as_str(), c.kind, c.index)).collect();
    assert_eq!(
        found,
        [
            ("prepare", ContainerKind::Init, 0),
            ("proxy", ContainerKind::Sidecar, 1),
            ("retry", ContainerKind::Init, 2),
            ("app", ContainerKind::App, 0),
            ("debug", ContainerKind::Ephemeral, 0),
        ]
    );
}

#[test]
fn metadata_and_status_are_taken_over() {
    let object = json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u", "generation": 3,
            "creationTimestamp": "1970-01-01T00:00:07Z",
            "deletionTimestamp": "1970-01-01T00:01:00Z", "deletionGracePeriodSeconds": 12,
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"},
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "2", "controller": true},
            ],
        },
        "spec": {"containers": [], "priority": 7, "priorityClassName": "high", "activeDeadlineSeconds": 60},
        "status": {"qosClass": "Guaranteed"},
    });
    let pod = Pod::parse(Arc::new(serde_json::from_value(object).unwrap()), Source::Api, Wall(0)).unwrap();
    assert_eq!((pod.created, pod.generation, pod.qos), (Wall(7000), Some(3), QosClass::Guaranteed));
    assert_eq!(pod.deletion, Some(Deletion { at: Wall(60_000), grace: Some(Duration::from_secs(12)) }));
    assert_eq!(pod.controller, Some(("ReplicaSet".into(), "web-1".into())));
    assert_eq!((pod.priority, pod.priority_class.as_deref()), (7, Some("high")));
    assert_eq!(pod.active_deadline, Some(Duration::from_secs(60)));
}

#[test]
fn handlers_are_read_and_their_ports_resolved() {
    let check = |probe: Value, expected: Handler| {
        let c = container(json!({"ports": [{"name": "http", "containerPort": 8080}], "livenessProbe": probe})).unwrap();
        assert_eq!(c.probes.liveness.unwrap().handler, expected, "{probe}");
    };
    let get = |port, path: &str, tls, headers| Handler::HttpGet { host: None, port, path: path.into(), tls, headers };
    check(json!({"httpGet": {"port": "http"}}), get(8080, "/", false, vec![]));
    check(
        json!({"httpGet": {"port": 1, "path": "/a?b", "scheme": "HTTPS", "httpHeaders": [{"name": "X", "value": "y"}]}}),
        get(1, "/a?b", true, vec![("X".into(), "y".into())]),
    );
    check(json!({"httpGet": {"port": "81", "host": ""}}), get(81, "/", false, vec![]));
    check(json!({"tcpSocket": {"port": "http", "host": "db"}}), Handler::TcpSocket { host: Some("db".into()), port: 8080 });
    check(json!({"grpc": {"port": 9, "service": "s"}}), Handler::Grpc { port: 9, service: "s".into() });
    check(json!({"exec": {"command": ["a", "b"]}}), Handler::Exec { command: vec!["a".into(), "b".into()] });

    let c = container(json!({"lifecycle": {
        "postStart": {"exec": {"command": ["x"]}}, "preStop": {"sleep": {"seconds": 5}},
    }}));
    let c = c.unwrap();
    assert_eq!(c.post_start, Some(Handler::Exec { command: vec!["x".into()] }));
    assert_eq!(c.pre_stop, Some(Handler::Sleep { duration: Duration::from_secs(5) }));
}

#[test]
fn numbers_of_a_probe() {
    let probe = |fields: Value| {
        let mut probe = json!({"tcpSocket": {"port": 1}});
        probe.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let p = container(json!({"readinessProbe": probe})).unwrap().probes.readiness.unwrap();
        let [delay, period, timeout] = [p.initial_delay, p.period, p.timeout].map(|d| d.as_secs());
        (delay, period, timeout, p.success_threshold, p.failure_threshold, p.grace)
    };
    assert_eq!(probe(json!({})), (0, 10, 1, 1, 3, None));
    let given = json!({
        "initialDelaySeconds": 1, "periodSeconds": 2, "timeoutSeconds": 3, "successThreshold": 4, "failureThreshold": 5,
        "terminationGracePeriodSeconds": 6,
    });
    assert_eq!(probe(given), (1, 2, 3, 4, 5, Some(Duration::from_secs(6))));
}

#[test]
fn restart_rules_are_read() {
    let c = container(json!({"restartPolicy": "Never", "restartPolicyRules": [
        {"action": "Restart", "exitCodes": {"operator": "In", "values": [1, 2]}},
        {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0]}},
    ]}));
    let rule = |exit_code_in, exit_codes: &[i32], action| RestartRule { exit_code_in, exit_codes: exit_codes.to_vec(), action };
    let c = c.unwrap();
    assert_eq!(c.restart_policy, Some(RestartPolicy::Never));
    assert_eq!(
        c.restart_rules,
        [rule(true, &[1, 2], RestartAction::Restart), rule(false, &[0], RestartAction::RestartAllContainers)]
    );
}

#[test]
fn pull_policy_follows_the_tag() {
    for (image, given, expected) in [
        ("a", None, PullPolicy::Always),
        ("a:latest", None, PullPolicy::Always),
        ("a:1", None, PullPolicy::IfNotPresent),
        ("a@sha256:00", None, PullPolicy::IfNotPresent),
        ("a", Some("Never"), PullPolicy::Never),
    ] {
        assert_eq!(container(json!({"image": image, "imagePullPolicy": given})).unwrap().pull_policy, expected, "{image}");
    }
}

#[test]
fn amounts_and_totals() {
    let container = |name: &str, policy: Option<&str>, requests: Value, limits: Value| json!({"name": name, "image": "i", "restartPolicy": policy, "resources": {"requests": requests, "limits": limits}});
    let pod = parse(json!({
        "initContainers": [
            container("s", Some("Always"), json!({"cpu": "100m", "memory": "1Ki"}), json!({"memory": "2Ki"})),
            container("i", None, json!({"cpu": "1.5", "memory": "3Ki"}), json!({})),
        ],
        "containers": [
            container("a", None, json!({"cpu": "200m", "memory": "1Mi"}), json!({"memory": "1Mi", "ephemeral-storage": "1k"})),
            container("b", None, json!({}), json!({"memory": "1500m"})),
        ],
        "overhead": {"cpu": "50m", "memory": "10"},
    }))
    .unwrap();
    assert_eq!(pod.containers[3].resources, Resources { memory_limit: Some(2), ..Default::default() });
    assert_eq!(
        pod.total(),
        Resources {
            // The init container beside the sidecar asks for more than what runs later.
            cpu_request: Some(1650),
            cpu_limit: None,
            memory_request: Some((1 << 20) + 1024 + 10),
            // Declared for all: the init container counts with the sidecar before it.
            memory_limit: Some((1 << 20) + 2 + 2048 + 10),
            storage_request: None,
            storage_limit: Some(1000),
        }
    );
    assert_eq!((pod.cpu_request(), pod.memory_request(), pod.storage_request()), (1650, (1 << 20) + 1024 + 10, 0));
    assert_eq!(pod.container_resources().len(), 4);
    assert_eq!(pod.qos, QosClass::Burstable);
}

#[test]
fn pod_level_amounts_replace_those_of_the_containers() {
    let pod = parse(json!({
        "containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        "resources": {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
    }))
    .unwrap();
    let total = pod.total();
    assert_eq!((total.cpu_request, total.cpu_limit), (Some(2000), Some(2000)));
    assert_eq!((total.memory_request, total.memory_limit), (Some(2 << 30), Some(2 << 30)));
    assert_eq!((total.memory_request, pod.memory_request()), (Some(2 << 30), 2 << 30));
    assert_eq!(pod.qos, QosClass::Guaranteed);
    // Where the pod's own resources name no memory, a ranking holds nothing against its use.
    let own = |own: Value| {
        let requests = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
        let pod = parse(json!({"containers": [{"name": "a", "image": "i", "resources": requests}], "resources": own})).unwrap();
        (pod.total().memory_request, pod.memory_request(), pod.qos)
    };
    assert_eq!(own(json!({"requests": {"cpu": "2"}})), (Some(1 << 30), 0, QosClass::Burstable));
    assert_eq!(own(json!({})), (Some(1 << 30), 0, QosClass::BestEffort));
}

#[test]
fn what_is_wrong_is_named() {
    #[track_caller]
    fn check(result: Result<impl std::fmt::Debug, PodError>, expected: &str) {
        let error = result.unwrap_err();
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text += &format!(": {cause}");
            source = cause.source();
        }
        assert_eq!(text, expected);
    }
    check(container(json!({"image": ""})), "spec.containers[0].image: required");
    check(
        container(json!({"resources": {"limits": {"memory": "1Gx"}}})),
        "spec.containers[0].resources.limits.memory: \"1Gx\": not a quantity such as 250m, 1.5 or 64Mi",
    );
    check(
        container(json!({"livenessProbe": {"httpGet": {"port": "web"}}})),
        "spec.containers[0].livenessProbe.httpGet.port: \"web\" is not a port from 1 to 65535, nor the name of one of the container's ports",
    );
    check(
        container(json!({"startupProbe": {"failureThreshold": 1}})),
        "spec.containers[0].startupProbe: exec, httpGet, tcpSocket or grpc: required",
    );
    check(
        container(json!({"startupProbe": {"exec": {}, "periodSeconds": -1}})),
        "spec.containers[0].startupProbe.periodSeconds: \"-1\" is not a number above zero",
    );
    check(
        container(json!({"imagePullPolicy": "Sometimes"})),
        "spec.containers[0].imagePullPolicy: \"Sometimes\" is not one of Always, IfNotPresent, Never",
    );
    check(
        container(json!({"restartPolicyRules": [{"action": "Reboot", "exitCodes": {"operator": "In"}}]})),
        "spec.containers[0].restartPolicyRules[0].action: \"Reboot\" is not one of Restart, RestartAllContainers",
    );
    check(
        parse(json!({"containers": [], "restartPolicy": "Sometimes"})),
        "spec.restartPolicy: \"Sometimes\" is not one of Always, OnFailure, Never",
    );
    check(
        parse(json!({"containers": [], "terminationGracePeriodSeconds": -5})),
        "spec.terminationGracePeriodSeconds: \"-5\" is not a number of seconds of at least zero",
    );
    let nameless = Arc::new(v1::Pod { spec: Some(v1::PodSpec::default()), ..Default::default() });
    check(Pod::parse(nameless, Source::File, Wall(0)), "metadata.name: required");
}

#[test]
fn containers_have_the_images_that_they_mount() {
    let spec = |volume: Value| {
        let mount = json!([{"name": "model", "mountPath": "/a"}, {"name": "model", "mountPath": "/b"}]);
        json!({
            "volumes": [{"name": "model", "image": volume}, {"name": "other", "image": {"reference": "other:1"}}],
            "containers": [{"name": "app", "image": "app:1", "volumeMounts": mount}, {"name": "aside", "image": "app:1"}],
        })
    };
    let pod = parse(spec(json!({"reference": "model"}))).unwrap();
    let (volume, image, image_as_written) = ("model".into(), "model:latest".into(), "model".into());
    let model = ImageVolume { volume, image, image_as_written, pull_policy: PullPolicy::Always };
    assert_eq!(pod.containers[0].image_volumes, [model]);
    assert!(pod.containers[1].image_volumes.is_empty());
    let error = parse(spec(json!({}))).unwrap_err().to_string();
    assert_eq!(error, "spec.volumes[0].image.reference: required");
    let error = parse(spec(json!({"reference": "m:1", "pullPolicy": "Some"}))).unwrap_err().to_string();
    assert_eq!(error, "spec.volumes[0].image.pullPolicy: \"Some\" is not one of Always, IfNotPresent, Never");
}
