//! What the node does to the runtime, safe to repeat: a call that timed out and was carried out after all is found, not done twice.

use std::fmt;
use std::time::Duration;

use polylet_core::event::{CallError, CallErrorKind};
use polylet_core::id::{ContainerId, PodUid, SandboxId};
use polylet_core::observed::Image;
use polylet_proto::cri;

use crate::client::Client;
use crate::error::{CallError as ClientError, Kind};
use crate::key;
use crate::signal;

/// Most of a command's output that is kept, in bytes.
pub const OUTPUT_MAX: usize = 10 * 1024;

/// What a command came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// None: it did not end in time.
    pub exit_code: Option<i32>,
    /// Standard output, then standard error, cut at [`OUTPUT_MAX`].
    pub output: String,
}

/// Makes and starts a sandbox, or finds the one of the same pod and attempt.
///
/// # Errors
/// The runtime's; `AlreadyExists` where the sandbox of this attempt is there and not ready.
pub async fn run_sandbox(client: &Client, config: cri::PodSandboxConfig, handler: &str) -> Result<SandboxId, CallError> {
    let metadata = config.metadata.clone().unwrap_or_default();
    match client.run_pod_sandbox(config, handler).await {
        Ok(id) => Ok(id.into()),
        Err(error) if is_taken(&error) => {
            let selector = [(key::POD_UID.to_owned(), metadata.uid.clone())].into();
            let filter = cri::PodSandboxFilter { label_selector: selector, ..Default::default() };
            let listed = client.list_pod_sandbox(Some(filter)).await.map_err(core_error)?;
            let mine = listed.into_iter().find(|s| s.metadata.as_ref().is_some_and(|m| m.attempt == metadata.attempt));
            match mine {
                Some(s) if s.state == cri::PodSandboxState::SandboxReady as i32 => Ok(s.id.into()),
                _ => Err(CallError { kind: CallErrorKind::AlreadyExists, ..core_error(error) }),
            }
        }
        Err(error) => {
            let message = error.rpc_text();
            Err(CallError { message, ..core_error(error) })
        }
    }
}

/// The attempt that a sandbox was made as.
///
/// # Errors
/// The runtime's.
pub async fn sandbox_attempt(client: &Client, id: &SandboxId) -> Result<u32, CallError> {
    let answer = client.pod_sandbox_status(id.as_str(), false).await.map_err(core_error)?;
    Ok(answer.status.and_then(|status| status.metadata).map_or(0, |metadata| metadata.attempt))
}

/// Makes a container, or finds the one of the same name and attempt that was made and not started.
///
/// # Errors
/// The runtime's; `AlreadyExists` where the container of this attempt is there and has run.
pub async fn create_container(
    client: &Client,
    pod: &PodUid,
    sandbox: &SandboxId,
    config: cri::ContainerConfig,
    sandbox_config: cri::PodSandboxConfig,
) -> Result<ContainerId, CallError> {
    let metadata = config.metadata.clone().unwrap_or_default();
    match client.create_container(sandbox.as_str(), config, sandbox_config).await {
        Ok(id) => Ok(id.into()),
        Err(error) if is_taken(&error) => {
            let selector = [(key::POD_UID.to_owned(), pod.as_str().to_owned())].into();
            let filter = cri::ContainerFilter { label_selector: selector, ..Default::default() };
            let listed = client.list_containers(Some(filter)).await.map_err(core_error)?;
            let mine = listed.into_iter().find(|c| c.metadata.as_ref() == Some(&metadata));
            // The name is the pod's, not the sandbox's: one that was made late, in a sandbox of before, is of no use.
            match mine.filter(|c| c.pod_sandbox_id == sandbox.as_str()) {
                Some(c) if c.state == cri::ContainerState::ContainerCreated as i32 => Ok(c.id.into()),
                _ => Err(CallError { kind: CallErrorKind::AlreadyExists, ..core_error(error) }),
            }
        }
        Err(error) => Err(core_error(error)),
    }
}

/// A stop signal that was asked for, and that the runtime did not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalNotTaken {
    /// In the API's spelling.
    pub wanted: String,
    /// What the container will be stopped with, in the same spelling; None: the runtime does not tell.
    pub instead: Option<String>,
}

impl fmt::Display for SignalNotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instead = self.instead.as_deref().unwrap_or("the image's STOPSIGNAL, or SIGTERM where it has none");
        let wanted = &self.wanted;
        write!(
            f,
            "lifecycle.stopSignal: {wanted}: the runtime does not take it, and will send {instead}: use a runtime that knows the field, \
             or an image whose STOPSIGNAL it is"
        )
    }
}

/// Whether the runtime took the `stop_signal` that a made container was asked for. One that does not know the field passes over it, which
/// shows in the status alone. None: it did, or none was asked for, or the status cannot be had.
pub async fn stop_signal_not_taken(client: &Client, id: &ContainerId, wanted: i32) -> Option<SignalNotTaken> {
    let wanted = signal::name(wanted)?;
    let status = client.container_status(id.as_str(), false).await.ok()?.status?;
    let instead = signal::name(status.stop_signal);
    (instead.as_ref() != Some(&wanted)).then_some(SignalNotTaken { wanted, instead })
}

/// Starts a made container.
///
/// # Errors
/// The runtime's.
pub async fn start_container(client: &Client, id: &ContainerId) -> Result<(), CallError> {
    client.start_container(id.as_str()).await.map_err(core_error)
}

/// Stops a container; one that is gone counts as stopped.
///
/// # Errors
/// The runtime's.
pub async fn stop_container(client: &Client, id: &ContainerId, timeout: Duration) -> Result<(), CallError> {
    gone_is_done(client.stop_container(id.as_str(), timeout).await)
}

/// Removes a container; one that is gone counts as removed.
///
/// # Errors
/// The runtime's.
pub async fn remove_container(client: &Client, id: &ContainerId) -> Result<(), CallError> {
    gone_is_done(client.remove_container(id.as_str()).await)
}

/// Stops a sandbox; one that is gone counts as stopped.
///
/// # Errors
/// The runtime's.
pub async fn stop_sandbox(client: &Client, id: &SandboxId) -> Result<(), CallError> {
    gone_is_done(client.stop_pod_sandbox(id.as_str()).await)
}

/// Removes a sandbox; one that is gone counts as removed.
///
/// # Errors
/// The runtime's.
pub async fn remove_sandbox(client: &Client, id: &SandboxId) -> Result<(), CallError> {
    gone_is_done(client.remove_pod_sandbox(id.as_str()).await)
}

/// The image, where it is present.
///
/// # Errors
/// The runtime's; `InvalidImageName` where it cannot parse the name.
pub async fn inspect_image(client: &Client, image: &str) -> Result<Option<Image>, CallError> {
    let answer = client.image_status(spec(image), false).await.map_err(image_error)?;
    Ok(answer.image.map(|found| {
        let reference = found.repo_digests.first().cloned().unwrap_or_else(|| found.id.clone());
        Image { id: found.id, reference, size: found.size, uid: found.uid.map(|u| u.value), username: found.username }
    }))
}

/// Pulls an image, for a pod's sandbox configuration where it has one; returns what is there then. With several credentials, the first
/// that opens the registry counts; with none, the registry is asked for what it gives to all.
///
/// # Errors
/// The runtime's, with the registry's and the signature's told apart; of several credentials, what each came to.
pub async fn pull_image(
    client: &Client,
    image: &str,
    credentials: Vec<cri::AuthConfig>,
    sandbox: Option<cri::PodSandboxConfig>,
) -> Result<Image, CallError> {
    let mut tries = if credentials.is_empty() { vec![None] } else { credentials.into_iter().map(Some).collect() }.into_iter();
    let mut failed: Vec<CallError> = Vec::new();
    let pulled = loop {
        let Some(auth) = tries.next() else { return Err(all_of(failed)) };
        match client.pull_image(spec(image), auth, sandbox.clone()).await {
            Ok(pulled) => break pulled,
            Err(error) => failed.push(image_error(error)),
        }
    };
    // By what was pulled; the name may have moved meanwhile.
    match inspect_image(client, &pulled).await? {
        Some(found) => Ok(found),
        None => Ok(Image { id: pulled.clone(), reference: pulled, ..Image::default() }),
    }
}

/// Several failures as one, in upstream's way of listing them: each text once.
fn all_of(failed: Vec<CallError>) -> CallError {
    let mut texts: Vec<String> = Vec::new();
    for error in &failed {
        if !texts.contains(&error.message) {
            texts.push(error.message.clone());
        }
    }
    let message = if let [only] = &texts[..] { only.clone() } else { format!("[{}]", texts.join(", ")) };
    match failed.into_iter().next() {
        Some(first) => CallError { message, ..first },
        None => CallError { operation: "PullImage".into(), object: String::new(), kind: CallErrorKind::Other, message },
    }
}

/// Runs a command in a container.
///
/// # Errors
/// Where it could not be run at all.
pub async fn exec(client: &Client, id: &ContainerId, command: Vec<String>, timeout: Duration) -> Result<Ran, CallError> {
    match client.exec_sync(id.as_str(), command, timeout).await {
        Ok(answer) => {
            let mut bytes = answer.stdout;
            bytes.extend(answer.stderr);
            bytes.truncate(OUTPUT_MAX);
            Ok(Ran { exit_code: Some(answer.exit_code), output: String::from_utf8_lossy(&bytes).into_owned() })
        }
        Err(error) if error.kind == Kind::DeadlineExceeded => Ok(Ran { exit_code: None, output: String::new() }),
        Err(error) => Err(core_error(error)),
    }
}

/// An error of the client as the core sees it.
pub(crate) fn core_error(error: ClientError) -> CallError {
    let kind = match error.kind {
        Kind::Unimplemented => CallErrorKind::Unimplemented,
        Kind::NotFound => CallErrorKind::NotFound,
        Kind::AlreadyExists => CallErrorKind::AlreadyExists,
        Kind::Unavailable => CallErrorKind::Unavailable,
        Kind::DeadlineExceeded => CallErrorKind::DeadlineExceeded,
        Kind::TooLarge | Kind::Unknown => CallErrorKind::Other,
    };
    CallError { operation: error.operation.rpc().to_owned(), object: error.object, kind, message: error.message }
}

/// Upstream tells failures of a pull apart by how the runtime's text begins, and quotes them as Go's gRPC prints them.
fn image_error(error: ClientError) -> CallError {
    let message = error.rpc_text();
    let mut told = core_error(error);
    let text = told.message.as_str();
    if text.starts_with("RegistryUnavailable") {
        told.kind = CallErrorKind::RegistryUnavailable;
    } else if text.starts_with("SignatureValidationFailed") {
        told.kind = CallErrorKind::SignatureInvalid;
    } else if text.contains("invalid reference format") || text.contains("failed to parse image reference") {
        told.kind = CallErrorKind::InvalidImageName;
    }
    CallError { message, ..told }
}

/// The name of a sandbox or container belongs to one made before. containerd and CRI-O say so in words.
fn is_taken(error: &ClientError) -> bool {
    error.kind == Kind::AlreadyExists || error.message.contains("is reserved")
}

fn gone_is_done(result: Result<(), ClientError>) -> Result<(), CallError> {
    match result {
        Err(error) if error.kind == Kind::NotFound => Ok(()),
        other => other.map_err(core_error),
    }
}

fn spec(image: &str) -> cri::ImageSpec {
    cri::ImageSpec { image: image.to_owned(), ..Default::default() }
}
