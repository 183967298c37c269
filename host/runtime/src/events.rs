//! Hints from the runtime: something happened to this pod, look at it again.
//!
//! A hint is never data, and may be lost: after every gap comes one [`Hint::Everything`]. The ways to get hints are tried in
//! turn at every connection, since what listens there may have been replaced meanwhile:
//!
//! 1. the CRI's own `GetContainerEvents`;
//! 2. containerd's event service, on the same socket;
//! 3. none: then the relist alone has to notice.

mod containerd;
mod follow;

use std::time::Duration;

use polylet_core::event::Hint;
use polylet_proto::cri::ContainerEventResponse;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::client::Client;
use crate::error::CallError;
use follow::{Ended, follow};

/// The wait after a first failure; it doubles up to [`LAST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait between two attempts to connect.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// A stream that lived for this long was healthy: the next failure is a first one.
const HEALTHY: Duration = Duration::from_secs(10);
/// How long until a runtime without events is asked again: it may have been replaced.
const ASK_AGAIN: Duration = Duration::from_secs(60);
/// Hints that may wait to be taken. What is beyond counts as lost.
const QUEUE: usize = 256;

/// The hints, and how they are got.
#[derive(Debug)]
pub struct Hints {
    /// Ends never; to drop it ends the subscription.
    pub hints: mpsc::Receiver<Hint>,
    /// Which way is in use.
    pub way: watch::Receiver<Way>,
}

/// How hints are got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// The runtime has not been reached yet.
    #[default]
    Undecided,
    /// `GetContainerEvents`.
    Cri,
    /// containerd's event service.
    Containerd {
        /// Why not `GetContainerEvents`.
        because: String,
    },
    /// Not at all.
    None {
        /// Why neither way works.
        because: String,
    },
}

/// Subscribes. The subscription outlives the runtime's restarts. Must be called within a Tokio runtime.
pub fn hints(client: Client) -> Hints {
    let (out, hints) = mpsc::channel(QUEUE);
    let (decided, way) = watch::channel(Way::default());
    tokio::spawn(subscribe(client, out, decided));
    Hints { hints, way }
}

async fn subscribe(client: Client, out: mpsc::Sender<Hint>, way: watch::Sender<Way>) {
    let mut wait = FIRST_WAIT;
    loop {
        let begun = Instant::now();
        let pause = match one_connection(&client, &out, &way).await {
            Ended::Unwanted => return,
            Ended::Refused(_) => ASK_AGAIN,
            Ended::Broken(error) => {
                if begun.elapsed() >= HEALTHY {
                    wait = FIRST_WAIT;
                }
                tracing::debug!(error = error.as_ref().map(tracing::field::display), retry_in = ?wait, "runtime events broke off");
                let pause = wait;
                wait = (wait * 2).min(LAST_WAIT);
                pause
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = out.closed() => return,
        }
    }
}

/// Tries the ways in turn and follows the first that works, until it breaks.
async fn one_connection(client: &Client, out: &mpsc::Sender<Hint>, way: &watch::Sender<Way>) -> Ended {
    let announce_cri = || announce(way, Way::Cri);
    let because = match follow(client.version(), client.get_container_events(), out, announce_cri, cri_hint).await {
        Ended::Refused(error) => error.to_string(),
        other => return other,
    };
    let announce_containerd = || announce(way, Way::Containerd { because: because.clone() });
    let reader = containerd::Reader::new(client.clone(), out.clone());
    let subscription = containerd::subscribe(client);
    match follow(client.version(), subscription, out, announce_containerd, |event| reader.read(event)).await {
        Ended::Refused(error) => {
            announce(way, Way::None { because: format!("{because}; {error}") });
            Ended::Refused(error)
        }
        other => other,
    }
}

fn announce(way: &watch::Sender<Way>, now: Way) {
    way.send_if_modified(|current| {
        let changed = *current != now;
        if changed {
            tracing::info!(way = ?now, "runtime events");
            *current = now;
        }
        changed
    });
}

fn cri_hint(event: ContainerEventResponse) -> Option<Hint> {
    let kind = event.container_event_type();
    tracing::trace!(id = %event.container_id, kind = kind.as_str_name(), "runtime event");
    let uid = event.pod_sandbox_status.and_then(|status| status.metadata).map(|metadata| metadata.uid);
    match uid {
        Some(uid) if !uid.is_empty() => Some(Hint::Pod(uid.into())),
        _ => Some(Hint::Id(event.container_id)),
    }
}

/// A refusal that will stand until the runtime is replaced, as opposed to a connection that may heal by itself.
fn is_refusal(error: &CallError) -> bool {
    matches!(error.kind, crate::Kind::Unimplemented | crate::Kind::Unknown)
}
