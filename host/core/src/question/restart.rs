//! When to try again: asked when a container ended, or when something that must happen before it can run has failed.

use polylet_upstream::restart as upstream;
use serde::{Deserialize, Serialize};

use super::{ContainerFacts, NodeFacts, PodFacts};

/// What ended, or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The process ended by itself.
    Exited,
    /// The node ended it after a liveness or startup probe.
    Unhealthy,
    /// It is gone and nobody saw how.
    Lost,
    /// Creating or starting the container failed.
    StartFailed,
    /// Its postStart hook failed.
    HookFailed,
    /// Its image could not be pulled.
    ImagePullFailed,
    /// The pod's sandbox could not be made.
    SandboxFailed,
}

/// One end or failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Termination {
    /// When.
    pub at: u64,
    /// How long it had run; zero where it never ran.
    pub ran_for: u64,
    /// Exit code; zero where there is none.
    pub exit_code: i32,
    /// Signal that ended it, where the exit code says so (128 + signal).
    pub signal: Option<u32>,
    /// The kernel's OOM killer did.
    pub out_of_memory: bool,
    /// What ended or failed.
    pub cause: Cause,
}

/// The operator's bounds; an answer outside is clamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bounds {
    /// First delay of the default backoff.
    pub initial: u64,
    /// Longest delay of any policy.
    pub maximum: u64,
    /// A run longer than this forgets the backoff.
    pub reset_after: u64,
}

impl Bounds {
    /// Of image pulls.
    pub const IMAGE_PULL: Self = Self::of(upstream::Bounds::IMAGE_PULL);

    /// Of a pod whose sandbox or container could not be made: always the same wait.
    pub const POD_RETRY: Self = Self::of(upstream::Bounds::POD_RETRY);

    /// Of containers, up to the configured maximum in milliseconds.
    pub const fn crash_up_to(maximum: u64) -> Self {
        Self::of(upstream::Bounds::crash_up_to(maximum))
    }

    const fn of(bounds: upstream::Bounds) -> Self {
        Self { initial: bounds.initial_ms, maximum: bounds.maximum_ms, reset_after: bounds.reset_after_ms }
    }
}

/// The question. Older terminations are the table `history`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// The pod.
    pub pod: PodFacts,
    /// The container.
    pub container: ContainerFacts,
    /// The node.
    pub node: NodeFacts,
    /// The newest termination.
    pub last: Termination,
    /// The operator's bounds.
    pub bounds: Bounds,
    /// How long the default policy waits from the termination.
    pub default_delay: u64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Wait this long from the termination; zero is at once.
    pub delay: u64,
    /// Do not try again, where the operator allows a policy to say so.
    #[serde(default)]
    pub give_up: bool,
    /// Why, for people.
    #[serde(default)]
    pub reason: String,
}
