//! What this runtime can do, and what follows where it cannot.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use polylet_core::event::RuntimeState;
use polylet_proto::cri::{self, StatusResponse, VersionResponse};
use tokio::sync::watch;

use crate::client::Client;
use crate::error::{CallError, Kind};
use crate::events::Way;

/// How long the trial of event streams may delay the answer.
const TRIAL: Duration = Duration::from_secs(3);

/// What a runtime said of itself when it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The scheme of container ids in the API, such as `containerd`.
    pub runtime_name: String,
    /// Its version, in its own spelling.
    pub runtime_version: String,
    /// The cgroup driver it wants the agent to adopt; None: it did not say.
    pub cgroup_driver: Option<CgroupDriver>,
    /// By name of the handler; the default one has the empty name. Empty: it did not say.
    pub handlers: BTreeMap<String, HandlerFeatures>,
    /// `supplementalGroupsPolicy: Strict` is honoured.
    pub supplemental_groups_policy: bool,
    /// Images can be mounted as volumes; else why not. No runtime says so of itself: known are versions that cannot.
    pub image_mounts: Result<(), String>,
    /// Parts of such images can be mounted (`subPath`); else why not. Known in the same way: a runtime that cannot mounts the whole image,
    /// and does not say so.
    pub image_parts: Result<(), String>,
    /// How changes are heard of.
    pub events: Way,
    /// Ready or not, when asked.
    pub state: RuntimeState,
    /// What it cannot do, each with the reason and what is done instead.
    pub degraded: Vec<Degraded>,
}

/// Who owns the cgroup tree, and so how its paths are spelt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupDriver {
    /// Slices.
    Systemd,
    /// Plain directories.
    Cgroupfs,
}

/// What one runtime handler can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandlerFeatures {
    /// `recursiveReadOnly` mounts.
    pub recursive_read_only_mounts: bool,
    /// `hostUsers: false`.
    pub user_namespaces: bool,
}

/// Something that the runtime cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degraded {
    /// What is missing, in the field's words.
    pub what: &'static str,
    /// Why, as the runtime put it.
    pub because: String,
    /// What is done instead.
    pub instead: &'static str,
}

impl fmt::Display for Degraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.what, self.because, self.instead)
    }
}

impl Capabilities {
    /// Asks the runtime. `way` is that of [`hints`](crate::hints): its subscription is the trial of the event streams, as a trial
    /// of our own would take events away from it on some runtimes.
    pub async fn ask(client: &Client, way: &mut watch::Receiver<Way>) -> Result<Self, CallError> {
        let (version, status, config) =
            tokio::try_join!(client.version(), client.status(false), tolerate_unimplemented(client.runtime_config()))?;
        let decided = way.wait_for(|way| *way != Way::Undecided);
        let events = match tokio::time::timeout(TRIAL, decided).await {
            Ok(Ok(way)) => way.clone(),
            _ => Way::Undecided,
        };

        let mut degraded = Vec::new();
        let cgroup_driver = match config {
            Ok(config) => config.linux.map(|linux| match linux.cgroup_driver() {
                cri::CgroupDriver::Systemd => CgroupDriver::Systemd,
                cri::CgroupDriver::Cgroupfs => CgroupDriver::Cgroupfs,
            }),
            Err(because) => {
                let instead = "the configured driver is used";
                degraded.push(Degraded { what: "cgroup driver by runtime", because, instead });
                None
            }
        };
        let handlers = handlers(&status);
        if handlers.is_empty() {
            degraded.push(Degraded {
                what: "runtime handler features",
                because: "Status names no handlers".to_owned(),
                instead: "recursive read-only mounts and user namespaces count as unsupported",
            });
        }
        degraded.extend(degraded_events(&events));

        let image_mounts = image_mounts(&version.runtime_name, &version.runtime_version);
        let image_parts = image_parts(&version.runtime_name, &version.runtime_version);
        if let Err(because) = &image_mounts {
            let instead = "containers that mount images are refused";
            degraded.push(Degraded { what: "images as volumes", because: because.clone(), instead });
        } else if let Err(because) = &image_parts {
            let instead = "containers that mount them are refused";
            degraded.push(Degraded { what: "parts of images as volumes", because: because.clone(), instead });
        }
        let features = status.features.unwrap_or_default();
        Ok(Self {
            runtime_name: version.runtime_name,
            runtime_version: version.runtime_version,
            cgroup_driver,
            handlers,
            supplemental_groups_policy: features.supplemental_groups_policy,
            image_mounts,
            image_parts,
            events,
            state: runtime_state(&status),
            degraded,
        })
    }

    /// Features of one handler; those of an unknown one are none.
    pub fn handler(&self, name: &str) -> HandlerFeatures {
        self.handlers.get(name).copied().unwrap_or_default()
    }

    /// Whether a runtime that says this of itself is the one that was asked, as far as it shows. Else it should be asked anew.
    pub fn hold(&self, version: &VersionResponse, status: &StatusResponse) -> bool {
        let features = status.features.unwrap_or_default();
        self.runtime_name == version.runtime_name
            && self.runtime_version == version.runtime_version
            && self.handlers == handlers(status)
            && self.supplemental_groups_policy == features.supplemental_groups_policy
    }
}

/// What the conditions of a status say, in upstream's words.
pub fn runtime_state(status: &StatusResponse) -> RuntimeState {
    let conditions = status.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let holds = |name: &str, prefix: &str| match conditions.iter().find(|condition| condition.r#type == name) {
        Some(condition) if condition.status => Ok(()),
        Some(cri::RuntimeCondition { reason, message, .. }) => {
            Err(format!("{prefix}: {name}=false reason:{reason} message:{message}"))
        }
        None => Err(format!("{prefix}: the runtime does not report {name}")),
    };
    RuntimeState::Up {
        runtime: holds("RuntimeReady", "container runtime not ready"),
        network: holds("NetworkReady", "container runtime network not ready"),
    }
}

/// Outer error: the call failed. Inner error: the runtime has no such call, and why we think so.
async fn tolerate_unimplemented<A>(call: impl Future<Output = Result<A, CallError>>) -> Result<Result<A, String>, CallError> {
    match call.await {
        Ok(answer) => Ok(Ok(answer)),
        Err(error) if error.kind == Kind::Unimplemented => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Whether images can be mounted: in containerd from 2.1 on, in CRI-O from 1.31 on.
fn image_mounts(runtime: &str, version: &str) -> Result<(), String> {
    learnt(runtime, version, (2, 1), (1, 31))
}

/// Whether parts of images can be mounted: in containerd from 2.2 on, in CRI-O from 1.33 on.
fn image_parts(runtime: &str, version: &str) -> Result<(), String> {
    learnt(runtime, version, (2, 2), (1, 33))
}

/// Whether the runtime is of the version, or a later one, in which containerd or CRI-O learnt something.
fn learnt(runtime: &str, version: &str, containerd: (u32, u32), crio: (u32, u32)) -> Result<(), String> {
    let since = match runtime {
        "containerd" => containerd,
        "cri-o" => crio,
        // Of no other is a version known that lacks it. To refuse would take it for ever from those that have it, since none can say so.
        _ => return Ok(()),
    };
    let mut numbers = version.trim_start_matches('v').split(['.', '-', '+', '~']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < since => {
            Err(format!("{runtime} has them from {}.{} on, and this is {version}", since.0, since.1))
        }
        // A version without numbers is of a build of one's own, and hardly an old one.
        _ => Ok(()),
    }
}

fn handlers(status: &StatusResponse) -> BTreeMap<String, HandlerFeatures> {
    let features = |handler: &cri::RuntimeHandler| {
        let features = handler.features.unwrap_or_default();
        HandlerFeatures {
            recursive_read_only_mounts: features.recursive_read_only_mounts,
            user_namespaces: features.user_namespaces,
        }
    };
    status.runtime_handlers.iter().map(|handler| (handler.name.clone(), features(handler))).collect()
}

fn degraded_events(way: &Way) -> Option<Degraded> {
    let what = "container events";
    match way {
        Way::Cri => None,
        Way::Containerd { because } => {
            Some(Degraded { what, because: because.clone(), instead: "containerd's own event service is listened to" })
        }
        Way::None { because } => {
            Some(Degraded { what, because: because.clone(), instead: "changes are noticed by the relist alone" })
        }
        Way::Undecided => Some(Degraded {
            what,
            because: "no stream could be opened yet".to_owned(),
            instead: "changes are noticed by the relist alone until one is",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_mount_images_and_parts_of_them() {
        for (runtime, version, images, parts) in [
            ("containerd", "1.6.20~ds1", Some("2.1"), Some("2.2")),
            ("containerd", "v1.7.24", Some("2.1"), Some("2.2")),
            ("containerd", "2.0.5", Some("2.1"), Some("2.2")),
            ("containerd", "v2.1.0-beta.1", None, Some("2.2")),
            ("containerd", "v2.2.0", None, None),
            ("containerd", "2.10.0", None, None),
            ("containerd", "unknown", None, None),
            ("cri-o", "1.30.4", Some("1.31"), Some("1.33")),
            ("cri-o", "1.32.0", None, Some("1.33")),
            ("cri-o", "1.33.0", None, None),
            ("other", "0.1.0", None, None),
        ] {
            let expected = |since: Option<&str>| match since {
                Some(since) => Err(format!("{runtime} has them from {since} on, and this is {version}")),
                None => Ok(()),
            };
            let found = (image_mounts(runtime, version), image_parts(runtime, version));
            assert_eq!(found, (expected(images), expected(parts)), "{runtime} {version}");
        }
    }
}
