//! A whole pod, as text.

use serde_json::json;

use super::*;

fn detail() -> Value {
    let probe = json!({"httpGet": {"port": "web", "path": "/ok"}, "periodSeconds": 3, "initialDelaySeconds": 5});
    let container = json!({
        "name": "main", "image": "busybox:1", "command": ["sh", "-c", "echo one\nsleep 9"], "args": ["x"],
        "ports": [{"name": "web", "containerPort": 80, "hostPort": 8080, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}],
        "resources": {"limits": {"cpu": "100m", "memory": "32Mi"}, "requests": {"cpu": "50m"}},
        "livenessProbe": probe, "readinessProbe": {"exec": {"command": ["cat", "/ok"]}, "timeoutSeconds": 2},
        "startupProbe": {"grpc": {"port": 9, "service": "s"}},
        "env": [
            {"name": "A", "value": "b"},
            {"name": "LINES", "value": "1\n2"},
            {"name": "POD", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
            {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
        ],
        "volumeMounts": [
            {"name": "scratch", "mountPath": "/z", "readOnly": true, "subPath": "part"}, {"name": "host", "mountPath": "/host"},
        ],
    });
    let ended = json!({
        "reason": "Error", "exitCode": 3, "message": "out of\nluck\u{1b}[31m",
        "startedAt": "2026-03-01T11:00:00Z", "finishedAt": "2026-03-01T11:00:05Z",
    });
    let status = |name: &str, state: &Value, last: &Value, count: i32| {
        json!({
            "name": name, "containerID": format!("containerd://{name}-id"), "image": "busybox:1", "imageID": "sha256:1",
            "ready": false, "restartCount": count, "state": state, "lastState": last,
        })
    };
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}});
    let event = |kind: &str, reason: &str, count: u64, message: &str| {
        json!({
            "type": kind, "reason": reason, "message": message, "count": count, "source": {"component": "kubelet"},
            "firstTimestamp": "2026-03-01T11:58:00Z", "lastTimestamp": "2026-03-01T11:59:57Z",
            "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web-n1"},
        })
    };
    json!({
        "namespace": "shop", "name": "web-n1", "uid": "u-1", "life": "running", "ending": "Removed", "node": "n1",
        "status": {
            "phase": "Running", "startTime": "2026-03-01T10:00:00Z", "hostIP": "10.0.0.1", "podIP": "10.244.0.7",
            "podIPs": [{"ip": "10.244.0.7"}], "qosClass": "Burstable",
            "conditions": [
                {"type": "Initialized", "status": "True"},
                {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [main]"},
            ],
            "initContainerStatuses": [status("init", &json!({"terminated": {"reason": "Completed", "exitCode": 0}}), &json!({}), 0)],
            "containerStatuses": [status("main", &waiting, &json!({"terminated": ended}), 2)],
        },
        "containers": {
            "init": {"state": "exited"},
            "main": {
                "state": "exited", "restarts": 2, "nextRestartIn": 12_300, "restartDelay": 20_000, "restartReason": "kind",
                "probes": {"liveness": true, "readiness": false, "startup": null},
            },
        },
        "object": {
            "metadata": {
                "name": "web-n1", "namespace": "shop", "labels": {"app": "web", "tier": "one"},
                "annotations": {"kubernetes.io/config.source": "file"},
            },
            "spec": {
                "nodeName": "n1", "initContainers": [{"name": "init", "image": "busybox:1"}], "containers": [container],
                "volumes": [
                    {"name": "scratch", "emptyDir": {}}, {"name": "host", "hostPath": {"path": "/srv", "type": "Directory"}},
                    {"name": "odd", "nfs": {"server": "s", "path": "/"}},
                ],
                "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
            },
        },
        "events": [event("Normal", "Pulled", 1, "there"), event("Warning", "BackOff", 4, "again\n")],
    })
}

const EXPECTED: &str = r#"Name:         web-n1
Namespace:    shop
UID:          u-1
Priority:     0
Node:         n1/10.0.0.1
Start Time:   Sun, 01 Mar 2026 10:00:00 +0000
Labels:       app=web
              tier=one
Annotations:  kubernetes.io/config.source: file
Status:       Running
Life:         running
Ending:       Removed
IP:           10.244.0.7
IPs:
  IP:  10.244.0.7
Init Containers:
  init:
    Container ID:   containerd://init-id
    Image:          busybox:1
    Image ID:       sha256:1
    Port:           <none>
    Host Port:      <none>
    State:          Terminated
      Reason:       Completed
      Exit Code:    0
    Ready:          False
    Restart Count:  0
    Environment:    <none>
    Mounts:         <none>
Containers:
  main:
    Container ID:  containerd://main-id
    Image:         busybox:1
    Image ID:      sha256:1
    Ports:         80/TCP, 53/UDP
    Host Ports:    8080/TCP, 0/UDP
    Command:
      sh
      -c
      echo one
      sleep 9
    Args:
      x
    State:          Waiting
      Reason:       CrashLoopBackOff
      Message:      back-off 20s
    Last State:     Terminated
      Reason:       Error
      Message:      out of\nluck\u{1b}[31m
      Exit Code:    3
      Started:      Sun, 01 Mar 2026 11:00:00 +0000
      Finished:     Sun, 01 Mar 2026 11:00:05 +0000
    Ready:          False
    Restart Count:  2
    Next Restart:   in 12.3 s of 20.0 s (kind)
    Probes:         liveness passes, readiness fails, startup not known yet
    Limits:
      cpu:     100m
      memory:  32Mi
    Requests:
      cpu:      50m
    Liveness:   http-get http://:web/ok delay=5s timeout=1s period=3s #success=1 #failure=3
    Readiness:  exec [cat /ok] delay=0s timeout=2s period=10s #success=1 #failure=3
    Startup:    grpc <pod>:9 s delay=0s timeout=1s period=10s #success=1 #failure=3
    Environment:
      A:      b
      LINES:  1
              2
      POD:    web-n1 (v1:metadata.name)
      LIMIT:  (limits.memory)
    Mounts:
      /host from host (rw)
      /z from scratch (ro,path="part")
Conditions:
  Type         Status  Reason              Message
  Initialized  True
  Ready        False   ContainersNotReady  containers with unready status: [main]
Volumes:
  scratch:
    Type:       EmptyDir (a temporary directory that shares a pod's lifetime)
    Medium:
    SizeLimit:  <unset>
  host:
    Type:          HostPath (bare host directory volume)
    Path:          /srv
    HostPathType:  Directory
  odd:
    Type:        nfs
QoS Class:       Burstable
Node-Selectors:  <none>
Tolerations:     :NoExecute op=Exists
Events:
  Type     Reason   Age              From     Message
  ----     ------   ----             ----     -------
  Normal   Pulled   2m               kubelet  there
  Warning  BackOff  3s (x4 over 2m)  kubelet  again
"#;

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

#[test]
fn a_pod_is_described_as_kubectl_does() {
    let detail: Detail = serde_json::from_value(detail()).unwrap();
    let text = describe(&detail, now(), &TimeZone::UTC);
    assert_eq!(text, EXPECTED);
}

#[test]
fn a_pod_of_which_only_the_runtime_knows_is_described_too() {
    let mut value = detail();
    value["object"] = Value::Null;
    value["status"] = Value::Null;
    value["events"] = json!([]);
    let detail: Detail = serde_json::from_value(value).unwrap();
    let text = describe(&detail, now(), &TimeZone::UTC);
    for words in [
        "Node:         n1/\n",
        "Status:       Pending\n",
        "\n  main:\n    Next Restart:  in 12.3 s",
        "Events:            <none>\n",
    ] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
}

#[test]
fn events_are_a_table() {
    let list = detail()["events"].clone();
    let expected = "\
LAST SEEN        TYPE     REASON   OBJECT           MESSAGE\n\
2m               Normal   Pulled   pod/shop/web-n1  there\n\
3s (x4 over 2m)  Warning  BackOff  pod/shop/web-n1  again\n";
    assert_eq!(events(&list, now(), None), expected);
    assert_eq!(events(&list, now(), Some("shop")), expected);
    assert_eq!(events(&list, now(), Some("other")).lines().count(), 1);
}
