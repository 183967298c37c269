//! Questions to policies and their answers: the core's own copy of the contract in `wit/`.
//!
//! Units everywhere: instants are milliseconds since the Unix epoch, durations milliseconds, memory and storage bytes,
//! CPU millicores, shares of time hundredths of a percent. The JSON form (camelCase) is what `polylet policy ask` reads and the decision log shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::pod::{ContainerKind, QosClass, RestartPolicy};

pub mod eviction;
pub mod probe;
pub mod qos;
pub mod restart;
mod unknown;

/// The four judgements. `Assess` and `Rank` are the two functions of the eviction hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hook {
    /// When to try again.
    Restart,
    /// What a probe attempt means.
    Probe,
    /// Where a pod stands among the others.
    Qos,
    /// Who goes when something is short.
    Eviction,
}

impl Hook {
    /// All four, in the contract's order.
    pub const ALL: [Hook; 4] = [Self::Restart, Self::Probe, Self::Qos, Self::Eviction];

    /// Name in bindings, records and commands.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Probe => "probe",
            Self::Qos => "qos",
            Self::Eviction => "eviction",
        }
    }
}

/// One question, complete: a policy can see nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// The typed part.
    pub body: Body,
    /// What is read by name through the `facts` import.
    #[serde(default)]
    pub facts: Facts,
    /// What is read through the `words` import.
    #[serde(default)]
    pub words: Words,
}

/// The typed part of a question, one variant per function of the contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Body {
    /// `restart.decide`
    Restart(restart::Question),
    /// `probe.interpret`
    Probe(probe::Question),
    /// `qos.classify`
    Qos(qos::Question),
    /// `eviction.assess`
    Assess(eviction::Assess),
    /// `eviction.rank`
    Rank(eviction::Rank),
}

impl Body {
    /// The hook that the function belongs to.
    pub fn hook(&self) -> Hook {
        match self {
            Self::Restart(_) => Hook::Restart,
            Self::Probe(_) => Hook::Probe,
            Self::Qos(_) => Hook::Qos,
            Self::Assess(_) | Self::Rank(_) => Hook::Eviction,
        }
    }
}

/// One answer, of the same variant as the question's body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// To `restart.decide`.
    Restart(restart::Answer),
    /// To `probe.interpret`.
    Probe(probe::Answer),
    /// To `qos.classify`.
    Qos(qos::Answer),
    /// To `eviction.assess`: shortages beyond the thresholds.
    Assess(Vec<eviction::Shortage>),
    /// To `eviction.rank`: victims in order.
    Rank(Vec<eviction::Victim>),
}

/// Why a policy gave no usable answer. Told apart because operators act on them differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{kind}: {message}")]
pub struct PolicyFailure {
    /// Which kind.
    pub kind: FailureKind,
    /// What happened, in one line: a panic message, the trap, the limit.
    pub message: String,
}

/// Kinds of [`PolicyFailure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The guest trapped (a panic, unreachable, division by zero, stack overflow).
    Trap,
    /// The fuel budget ran out.
    Fuel,
    /// The wall-clock backstop fired.
    Timeout,
    /// It wanted more memory than allowed.
    Memory,
    /// It answered, with something that cannot be used.
    BadAnswer,
    /// The host could not ask (no free instance, not loaded): not the policy's fault, and not held against it.
    Host,
}

impl std::fmt::Display for FailureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Trap => "trap",
            Self::Fuel => "fuel",
            Self::Timeout => "timeout",
            Self::Memory => "memory",
            Self::BadAnswer => "bad-answer",
            Self::Host => "host",
        })
    }
}

/// What came back from one call of a policy component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// None inside `Ok` is an abstention: the default stands.
    pub answer: Result<Option<Answer>, PolicyFailure>,
    /// Fuel spent.
    pub fuel: u64,
    /// Wall time of the call in nanoseconds.
    pub nanos: u64,
    /// What it read from its store, in order: bucket, key, value (None: absent).
    #[serde(default)]
    pub store_reads: Vec<StoreRead>,
    /// What it logged: level and message, within the quota.
    #[serde(default)]
    pub log: Vec<(String, String)>,
}

/// One read of a policy's store, recorded so that the decision can be made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreRead {
    /// Pod index of the bucket; None is the policy's own bucket.
    pub pod: Option<u32>,
    /// Key.
    pub key: String,
    /// Value read; None where there was none.
    pub value: Option<Vec<u8>>,
}

/// Facts by name: numbers of the pod or node asked about, and columns of the question's tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// By name; a name that is not there is not known.
    #[serde(default)]
    pub numbers: BTreeMap<String, i64>,
    /// By table, then column; every column of a table has one value per row. `i64::MIN` stands for "not known"; in JSON it is null.
    #[serde(default, with = "unknown")]
    pub tables: BTreeMap<String, BTreeMap<String, Vec<i64>>>,
}

/// The words of a question's pods, looked up when wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Words {
    /// By pod index.
    #[serde(default)]
    pub pods: Vec<PodWords>,
    /// By namespace id.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// By controller id: kind and name.
    #[serde(default)]
    pub controllers: Vec<(String, String)>,
    /// Name of the container asked about.
    #[serde(default)]
    pub container: Option<String>,
    /// Names of the rows of a qos question, in its order.
    #[serde(default)]
    pub containers: Vec<String>,
    /// Facts that are texts, by name.
    #[serde(default)]
    pub texts: BTreeMap<String, String>,
}

/// Words of one pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodWords {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`.
    #[serde(default)]
    pub labels: Arc<BTreeMap<String, String>>,
    /// `metadata.annotations`.
    #[serde(default)]
    pub annotations: Arc<BTreeMap<String, String>>,
}

/// What nearly every policy wants to know of a pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFacts {
    /// Index into [`Words::pods`].
    pub pod: u32,
    /// Index into [`Words::namespaces`].
    pub namespace: u32,
    /// Index into [`Words::controllers`].
    pub controller: Option<u32>,
    /// `spec.priority`.
    pub priority: i32,
    /// As the API reports it.
    pub class: QosClass,
    /// See [`PodTraits`].
    pub traits: PodTraits,
    /// Creation instant.
    pub created: u64,
    /// When the agent first acted on it.
    pub started: Option<u64>,
}

/// Flags of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTraits {
    /// Declared by the node itself, or standing in the API for such a pod.
    pub static_pod: bool,
    /// Priority class `system-cluster-critical`.
    pub cluster_critical: bool,
    /// Priority class `system-node-critical`.
    pub node_critical: bool,
    /// Owned by a DaemonSet.
    pub daemon: bool,
    /// On the node's network.
    pub host_network: bool,
    /// Being ended.
    pub terminating: bool,
}

/// What nearly every policy wants to know of a container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerFacts {
    /// Which list of the spec.
    pub kind: ContainerKind,
    /// The policy that applies to it: its own, else the pod's.
    pub restart_policy: RestartPolicy,
    /// Restarts so far.
    pub restarts: u32,
    /// Millicores.
    pub cpu_request: Option<u64>,
    /// Millicores.
    pub cpu_limit: Option<u64>,
    /// Bytes.
    pub memory_request: Option<u64>,
    /// Bytes.
    pub memory_limit: Option<u64>,
}

/// The node at the moment of the question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeFacts {
    /// The present.
    pub now: u64,
    /// MemoryPressure holds.
    pub memory_pressure: bool,
    /// DiskPressure holds.
    pub disk_pressure: bool,
    /// PIDPressure holds.
    pub pid_pressure: bool,
    /// The runtime's network is not ready.
    pub network_not_ready: bool,
    /// Pods with a running container.
    pub running_pods: u32,
    /// Millicores.
    pub cpu_capacity: u64,
    /// Millicores.
    pub cpu_allocatable: u64,
    /// Bytes.
    pub memory_capacity: u64,
    /// Bytes.
    pub memory_allocatable: u64,
    /// Bytes; None before the first sampling.
    pub memory_available: Option<u64>,
    /// PSI "some" over ten seconds, hundredths of a percent.
    pub cpu_stall: Option<u32>,
    /// Likewise.
    pub memory_stall: Option<u32>,
    /// Likewise.
    pub io_stall: Option<u32>,
}
