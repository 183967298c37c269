//! containerd's own event service.

use polylet_core::event::Hint;
use polylet_proto::containerd::events_client::EventsClient;
use polylet_proto::containerd::{Envelope, SubscribeRequest, task};
use prost::Message;

use crate::client::{Client, MESSAGE_LIMIT, Messages};
use crate::error::CallError;
use crate::operation::Operation;

/// The namespace of what came by CRI.
const NAMESPACE: &str = "k8s.io";

/// What may change the state of a container or sandbox. (What follows from our own calls is seen by looking after them.)
const TOPICS: &[&str] = &["/tasks/exit", "/tasks/oom", "/tasks/start", "/tasks/paused"];

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

/// None for what is no change of a container or sandbox.
pub(super) fn hint(envelope: Envelope) -> Option<Hint> {
    let event = envelope.event?;
    tracing::trace!(topic = %envelope.topic, "containerd event");
    let name = event.type_url.rsplit('/').next().unwrap_or_default();
    let value = event.value.as_slice();
    let id = match name {
        "containerd.events.TaskExit" => {
            let exit = task::TaskExit::decode(value).ok()?;
            // Execs end, too: probes, for the most part.
            let whole_task = exit.id.is_empty() || exit.id == exit.container_id;
            whole_task.then_some(exit.container_id)?
        }
        "containerd.events.TaskStart" => task::TaskStart::decode(value).ok()?.container_id,
        "containerd.events.TaskOOM" => task::TaskOom::decode(value).ok()?.container_id,
        "containerd.events.TaskPaused" => task::TaskPaused::decode(value).ok()?.container_id,
        _ => return None,
    };
    (!id.is_empty()).then_some(Hint::Id(id))
}

#[cfg(test)]
mod tests {
    use prost_types::Any;

    use super::*;

    fn envelope(type_url: &str, event: &impl Message) -> Envelope {
        Envelope { event: Some(Any { type_url: type_url.to_owned(), value: event.encode_to_vec() }), ..Default::default() }
    }

    fn exit(id: &str) -> task::TaskExit {
        task::TaskExit { container_id: "c1".into(), id: id.into(), ..Default::default() }
    }

    #[test]
    fn payloads() {
        let c1 = Some(Hint::Id("c1".into()));
        let oom = task::TaskOom { container_id: "c1".into() };
        let cases = [
            ("first process ended", envelope("containerd.events.TaskExit", &exit("c1")), c1.clone()),
            ("no id at all", envelope("containerd.events.TaskExit", &exit("")), c1.clone()),
            ("with a host", envelope("type.googleapis.com/containerd.events.TaskExit", &exit("c1")), c1.clone()),
            ("an exec ended", envelope("containerd.events.TaskExit", &exit("probe-7")), None),
            ("out of memory", envelope("containerd.events.TaskOOM", &oom), c1),
            ("of another kind", envelope("containerd.events.TaskDelete", &oom), None),
            ("empty", Envelope::default(), None),
            ("names nothing", envelope("containerd.events.TaskStart", &task::TaskStart::default()), None),
        ];
        for (name, envelope, expected) in cases {
            assert_eq!(hint(envelope), expected, "{name}");
        }
    }

    #[test]
    fn nonsense_is_no_hint() {
        let event = Some(Any { type_url: "containerd.events.TaskExit".into(), value: vec![0xff; 9] });
        assert_eq!(hint(Envelope { event, ..Default::default() }), None);
    }
}
