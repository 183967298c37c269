//! Policies of a node: bound by the command line, seen through the socket; the decisions as they are made.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::node::{Node, krate, locked};

/// A component that `policies/build.sh` has built: `gentle-restart`, `hostile/loop`, …
///
/// # Panics
/// When it has not.
pub fn policy_file(name: &str) -> String {
    let default = || krate().join("../../target/policies");
    let directory = std::env::var_os("POLYLET_POLICIES_DIR").map_or_else(default, PathBuf::from);
    let path = directory.join(format!("{name}.wasm"));
    assert!(path.is_file(), "{} is not there: policies/build.sh", path.display());
    path.to_string_lossy().into_owned()
}

impl Node {
    /// Binds a component; what the command line says.
    ///
    /// # Panics
    /// When it is refused.
    pub fn load(&self, hook: &str, name: &str, component: &str, config: &str) -> Value {
        let arguments = ["policy", "load", "--hook", hook, "--name", name, component, "--config", config, "-o", "json"];
        serde_json::from_str(&self.cli_ok(&arguments)).expect("JSON")
    }

    /// Brings back what was bound before.
    ///
    /// # Panics
    /// When that cannot be.
    pub fn revert(&self, hook: &str) -> Value {
        serde_json::from_str(&self.cli_ok(&["policy", "revert", hook, "-o", "json"])).expect("JSON")
    }

    /// Binds nothing.
    ///
    /// # Panics
    /// When nothing was bound.
    pub fn unbind(&self, hook: &str) -> Value {
        serde_json::from_str(&self.cli_ok(&["policy", "unbind", hook, "-o", "json"])).expect("JSON")
    }

    /// Has the agent read the policy directory now; what is wrong in it.
    ///
    /// # Panics
    /// When the agent does not answer.
    pub fn reload(&self) -> Vec<String> {
        let answer = self.runtime.block_on(self.admin.post("/v1/policies/reload")).expect("the agent reads the directory");
        answer["errors"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The ladder of a hook, best rung first.
    pub fn ladder(&self, hook: &str) -> Vec<Value> {
        let policies = self.ask("/v1/policies").unwrap_or_default();
        policies["rungs"].as_array().into_iter().flatten().filter(|rung| rung["hook"] == hook).cloned().collect()
    }

    /// The rung of a binding, where it is in its hook's ladder.
    pub fn rung(&self, hook: &str, name: &str) -> Option<Value> {
        self.ladder(hook).into_iter().find(|rung| rung["rung"]["bound"]["name"] == name)
    }

    /// Collects decisions, from now on.
    ///
    /// # Panics
    /// When the agent does not answer.
    pub fn follow(&self) -> Decisions {
        let client = self.admin.clone();
        let mut lines = self.runtime.block_on(client.lines("/v1/decisions?limit=0&follow=true")).expect("follow decisions");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let task = self.runtime.spawn(async move {
            while let Some(Ok(line)) = lines.recv().await {
                locked(&kept).push(line.into());
            }
        });
        Decisions { seen, task }
    }
}

/// Decision records of an agent, as they come.
#[derive(Debug)]
pub struct Decisions {
    seen: Arc<Mutex<Vec<Arc<str>>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Decisions {
    /// How many have come.
    pub fn count(&self) -> usize {
        locked(&self.seen).len()
    }

    /// Those that have come, one at a time: ten thousand records at once take hundreds of megabytes.
    ///
    /// # Panics
    /// When a record is not JSON.
    pub fn each(&self) -> impl Iterator<Item = Value> + use<> {
        let seen = locked(&self.seen).clone();
        seen.into_iter().map(|line| serde_json::from_str(&line).expect("a record is JSON"))
    }

    /// Whether the agent has let go of this follower, or ended.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Those of a hook.
    pub fn of(&self, hook: &str) -> Vec<Value> {
        self.each().filter(|record| record["hook"] == hook).collect()
    }
}

impl Drop for Decisions {
    fn drop(&mut self) {
        self.task.abort();
    }
}
