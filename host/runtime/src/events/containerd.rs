//! containerd's own event service.
//!
//! A process that ended is told of by `/tasks/exit`, but the CRI shows the container as exited only after its task has been taken
//! away, which takes some 50 ms, and seconds on a busy machine; a hint that is followed before that is worth nothing until the
//! next relist. So `/tasks/delete` is listened to, which comes just before the CRI's own change, and passed on when its list
//! shows it. That also spares us the exits of execs.

use std::sync::Arc;
use std::time::Duration;

use polylet_core::event::Hint;
use polylet_proto::containerd::events_client::EventsClient;
use polylet_proto::containerd::{Envelope, SubscribeRequest, task};
use polylet_proto::cri::{ContainerFilter, ContainerState, PodSandboxFilter, PodSandboxState};
use prost::Message;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use crate::client::{Client, MESSAGE_LIMIT, Messages};
use crate::error::CallError;
use crate::operation::Operation;

/// The namespace of what came by CRI.
const NAMESPACE: &str = "k8s.io";

/// What may change the state of a container or sandbox. (What follows from our own calls is seen by looking after them.)
const TOPICS: &[&str] = &["/tasks/delete", "/tasks/oom", "/tasks/start", "/tasks/paused"];

/// A list that does not show the end yet is looked at again after a sixth of the time that it has taken so far, so that little is
/// added to it; the first looks are this far apart.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// For so long: one that takes longer is for a relist to find.
const PATIENCE: Duration = Duration::from_secs(15);

/// Ends that may be waited for at once. What is beyond is passed on as it comes.
const WAITING: usize = 64;

pub(super) async fn subscribe(client: &Client) -> Result<Messages<Envelope>, CallError> {
    // It stands in for this call, and is named in errors as what it is.
    const OPERATION: Operation = Operation::GetContainerEvents;
    let filters = TOPICS.iter().map(|topic| format!(r#"topic=="{topic}",namespace=="{NAMESPACE}""#)).collect();
    let mut events = EventsClient::new(client.channel()).max_decoding_message_size(MESSAGE_LIMIT);
    match events.subscribe(SubscribeRequest { filters }).await {
        Ok(stream) => Ok(Messages::new(OPERATION, stream.into_inner())),
        Err(status) => Err(CallError::answered(OPERATION, "by containerd's event service", status)),
    }
}

/// Makes hints of containerd's events.
pub(super) struct Reader {
    client: Client,
    out: mpsc::Sender<Hint>,
    waiting: Arc<Semaphore>,
}

impl Reader {
    pub(super) fn new(client: Client, out: mpsc::Sender<Hint>) -> Self {
        Self { client, out, waiting: Arc::new(Semaphore::new(WAITING)) }
    }

    /// The hint to pass on now. None for what is no change, and for an end, whose hint is sent when it shows.
    pub(super) fn read(&self, envelope: Envelope) -> Option<Hint> {
        let change = change(envelope)?;
        let place = if change.end { self.waiting.clone().try_acquire_owned().ok() } else { None };
        let Some(place) = place else { return Some(Hint::Id(change.id)) };
        let (client, out) = (self.client.clone(), self.out.clone());
        tokio::spawn(async move {
            let hint = async {
                shown(&client, &change.id).await;
                let _ = out.send(Hint::Id(change.id)).await;
            };
            tokio::select! {
                () = hint => {}
                () = out.closed() => {}
            }
            drop(place);
        });
        None
    }
}

/// Something that happened to a container or sandbox.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    id: String,
    end: bool,
}

/// None for what is no change of a container or sandbox.
fn change(envelope: Envelope) -> Option<Change> {
    let event = envelope.event?;
    tracing::trace!(topic = %envelope.topic, "containerd event");
    let name = event.type_url.rsplit('/').next().unwrap_or_default();
    let value = event.value.as_slice();
    let (id, end) = match name {
        "containerd.events.TaskDelete" => {
            let delete = task::TaskDelete::decode(value).ok()?;
            let whole_task = delete.id.is_empty() || delete.id == delete.container_id;
            (whole_task.then_some(delete.container_id)?, true)
        }
        "containerd.events.TaskStart" => (task::TaskStart::decode(value).ok()?.container_id, false),
        "containerd.events.TaskOOM" => (task::TaskOom::decode(value).ok()?.container_id, false),
        "containerd.events.TaskPaused" => (task::TaskPaused::decode(value).ok()?.container_id, false),
        _ => return None,
    };
    (!id.is_empty()).then_some(Change { id, end })
}

/// Returns when the CRI shows the end, or does not know the id any more, or does not get there in time.
async fn shown(client: &Client, id: &str) {
    let begun = Instant::now();
    while runs(client, id).await && begun.elapsed() < PATIENCE {
        tokio::time::sleep(LOOK_AGAIN.max(begun.elapsed() / 6)).await;
    }
}

/// Whether the CRI says that this container, or sandbox, runs. What cannot be had is not waited for.
///
/// The event does not tell which of the two it is about. Lists are asked, since to them an id of the other kind is no error; those
/// would be counted as the runtime's.
async fn runs(client: &Client, id: &str) -> bool {
    let filter = ContainerFilter { id: id.to_owned(), ..Default::default() };
    let Ok(containers) = client.list_containers(Some(filter)).await else { return false };
    if let Some(container) = containers.iter().find(|container| container.id == id) {
        return container.state() == ContainerState::ContainerRunning;
    }
    let filter = PodSandboxFilter { id: id.to_owned(), ..Default::default() };
    let Ok(sandboxes) = client.list_pod_sandbox(Some(filter)).await else { return false };
    sandboxes.iter().any(|sandbox| sandbox.id == id && sandbox.state() == PodSandboxState::SandboxReady)
}

#[cfg(test)]
mod tests {
    use prost_types::Any;

    use super::*;

    fn envelope(type_url: &str, event: &impl Message) -> Envelope {
        Envelope { event: Some(Any { type_url: type_url.to_owned(), value: event.encode_to_vec() }), ..Default::default() }
    }

    fn delete(id: &str) -> task::TaskDelete {
        task::TaskDelete { container_id: "c1".into(), id: id.into(), ..Default::default() }
    }

    #[test]
    fn payloads() {
        let c1 = |end| Some(Change { id: "c1".into(), end });
        let oom = task::TaskOom { container_id: "c1".into() };
        let cases = [
            ("a task is gone", envelope("containerd.events.TaskDelete", &delete("c1")), c1(true)),
            ("no id at all", envelope("containerd.events.TaskDelete", &delete("")), c1(true)),
            ("with a host", envelope("type.googleapis.com/containerd.events.TaskDelete", &delete("c1")), c1(true)),
            ("an exec is gone", envelope("containerd.events.TaskDelete", &delete("probe-7")), None),
            ("out of memory", envelope("containerd.events.TaskOOM", &oom), c1(false)),
            ("of another kind", envelope("containerd.events.TaskCreate", &oom), None),
            ("empty", Envelope::default(), None),
            ("names nothing", envelope("containerd.events.TaskStart", &task::TaskStart::default()), None),
        ];
        for (name, envelope, expected) in cases {
            assert_eq!(change(envelope), expected, "{name}");
        }
    }

    #[test]
    fn nonsense_is_no_change() {
        let event = Some(Any { type_url: "containerd.events.TaskDelete".into(), value: vec![0xff; 9] });
        assert_eq!(change(Envelope { event, ..Default::default() }), None);
    }
}
