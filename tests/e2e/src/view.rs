//! What the agent says of a pod, and how a test reads it.

use serde_json::Value;

/// A pod of `polylet pods -o json`. What is not there reads as null, zero or the empty text, as it would for `jq`.
#[derive(Clone, Debug, PartialEq)]
pub struct View(pub(crate) Value);

impl View {
    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.0["name"].as_str().unwrap_or_default()
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.0["uid"].as_str().unwrap_or_default()
    }

    /// A field beside the status: `life`, `ending`, ….
    pub fn own(&self, field: &str) -> &Value {
        &self.0[field]
    }

    /// The status, as the API shows it.
    pub fn status(&self) -> &Value {
        &self.0["status"]
    }

    /// `status.phase`.
    pub fn phase(&self) -> &str {
        self.status()["phase"].as_str().unwrap_or_default()
    }

    /// `status.podIP`.
    pub fn ip(&self) -> &str {
        self.status()["podIP"].as_str().unwrap_or_default()
    }

    /// A condition, whole.
    pub fn condition(&self, kind: &str) -> &Value {
        let conditions = self.status()["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
    }

    /// Whether a condition is True.
    pub fn is(&self, condition: &str) -> bool {
        self.condition(condition)["status"] == "True"
    }

    /// Ready.
    pub fn is_ready(&self) -> bool {
        self.is("Ready")
    }

    /// The status of a container of any kind.
    pub fn container(&self, name: &str) -> &Value {
        let lists = ["containerStatuses", "initContainerStatuses"];
        let all = lists.iter().filter_map(|list| self.status()[list].as_array()).flatten();
        all.into_iter().find(|container| container["name"] == name).unwrap_or(&Value::Null)
    }

    /// What the agent says beside a container's status: `restartDelay`, `nextRestartIn`, `probes`, …
    pub fn beside(&self, container: &str) -> &Value {
        &self.0["containers"][container]
    }

    /// Where the pod is in its inner life: `running`, `stopping`, …, `finished`.
    pub fn life(&self) -> &str {
        self.0["life"].as_str().unwrap_or_default()
    }

    /// Whether a container runs.
    pub fn runs(&self, container: &str) -> bool {
        self.container(container)["state"]["running"].is_object()
    }

    /// Why a container waits.
    pub fn waits(&self, container: &str) -> &str {
        self.container(container)["state"]["waiting"]["reason"].as_str().unwrap_or_default()
    }

    /// The message that goes with why a container waits.
    pub fn wait_message(&self, container: &str) -> &str {
        self.container(container)["state"]["waiting"]["message"].as_str().unwrap_or_default()
    }

    /// How a container has ended.
    pub fn ended(&self, container: &str) -> &Value {
        &self.container(container)["state"]["terminated"]
    }

    /// How the attempt before this one ended.
    pub fn last(&self, container: &str) -> &Value {
        &self.container(container)["lastState"]["terminated"]
    }

    /// `restartCount`.
    pub fn restarts(&self, container: &str) -> u64 {
        self.container(container)["restartCount"].as_u64().unwrap_or_default()
    }

    /// The runtime's id of the container that the status speaks of.
    pub fn id(&self, container: &str) -> &str {
        let id = self.container(container)["containerID"].as_str().unwrap_or_default();
        id.split_once("://").map_or("", |(_, id)| id)
    }

    /// What must stay as it is when nothing happens to the pod: containers, their starts, counts, readiness.
    pub fn picture(&self) -> Value {
        let conditions: Vec<&Value> = self.status()["conditions"].as_array().into_iter().flatten().collect();
        let conditions: Vec<(&Value, &Value)> = conditions.into_iter().map(|c| (&c["type"], &c["status"])).collect();
        serde_json::json!({
            "uid": self.uid(), "phase": self.phase(), "ip": self.ip(), "conditions": conditions,
            "containers": self.status()["containerStatuses"], "init": self.status()["initContainerStatuses"],
        })
    }

    /// For messages.
    pub fn pretty(&self) -> String {
        serde_json::to_string_pretty(&self.0).unwrap_or_default()
    }
}
