//! Acts under way: each a task of its own, whose end is an event whatever becomes of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use polylet_core::effect::Act;
use polylet_core::event::{CallError, CallErrorKind, Event};
use polylet_core::id::{EffectId, PodUid};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::{Performer, other};
use crate::tell;

/// Acts under way, for cancelling.
#[derive(Default)]
pub struct UnderWay(BTreeMap<EffectId, (AbortHandle, bool)>);

impl UnderWay {
    /// Begins an act; its end arrives in `inbox`.
    pub fn begin(&mut self, performer: &Arc<Performer>, inbox: &mpsc::Sender<Event>, id: EffectId, act: Act) {
        let performer = performer.clone();
        let (changes, failed) = (changes_runtime(&act), failure_of(id, &act));
        let task = spawn(async move { performer.perform(id, act).await }, failed, inbox.clone());
        self.0.insert(id, (task, changes));
    }

    /// An act has ended.
    pub fn ended(&mut self, id: EffectId) {
        self.0.remove(&id);
    }

    /// A call is under way that the runtime may leave half done.
    pub fn changes_something(&self) -> bool {
        self.0.values().any(|(_, changes)| *changes)
    }

    /// Drops an act's future; returns the event that ends it, unless it has ended by itself.
    pub fn cancel(&mut self, id: EffectId) -> Option<Event> {
        let (task, _) = self.0.remove(&id)?;
        task.abort();
        let error = CallError {
            operation: "cancel".into(),
            object: id.to_string(),
            kind: CallErrorKind::Cancelled,
            message: "no longer wanted".into(),
        };
        Some(Event::Done { id, result: Err(error) })
    }
}

/// Does the work of an act in a task: what comes of it arrives in `inbox`, or what `failed` makes of the error, should the work panic. The
/// core waits for an answer to whatever it asked for.
fn spawn(
    work: impl Future<Output = Event> + Send + 'static,
    failed: impl FnOnce(CallError) -> Event + Send + 'static,
    inbox: mpsc::Sender<Event>,
) -> AbortHandle {
    let task = tokio::spawn(async move {
        // A set ends its tasks when it is dropped: who aborts this one ends the work.
        let mut set = JoinSet::new();
        set.spawn(work);
        let event = match set.join_next().await {
            Some(Ok(event)) => event,
            Some(Err(error)) if error.is_panic() => {
                let why = tell::panicked(&*error.into_panic());
                tracing::error!("an act panicked, and is answered as failed: {why}");
                failed(other("act", "node", why))
            }
            // Nothing else ends it.
            Some(Err(_)) | None => return,
        };
        // A closed inbox: the agent is on its way out.
        let _closed = inbox.send(event).await;
    });
    task.abort_handle()
}

/// The answer to an act that came to nothing.
fn failure_of(id: EffectId, act: &Act) -> impl FnOnce(CallError) -> Event + Send + 'static {
    enum Answers {
        Listed,
        Observed(PodUid),
        Sampled,
        Done,
    }
    let answers = match act {
        Act::List => Answers::Listed,
        Act::Observe(pod) => Answers::Observed(pod.clone()),
        Act::Sample => Answers::Sampled,
        _ => Answers::Done,
    };
    move |error| match answers {
        Answers::Listed => Event::Listed { id, result: Err(error) },
        Answers::Observed(pod) => Event::Observed { id, pod, result: Err(error) },
        Answers::Sampled => Event::Sampled { id, result: Err(error) },
        Answers::Done => Event::Done { id, result: Err(error) },
    }
}

/// What a runtime may leave half done for good when its caller goes away. Not so a pull, which goes on from where it was and may take
/// minutes; nor a stop, which may last as long as the pod's grace and is asked for again by the next agent.
fn changes_runtime(act: &Act) -> bool {
    matches!(
        act,
        Act::RunSandbox { .. }
            | Act::CreateContainer { .. }
            | Act::StartContainer { .. }
            | Act::RemoveContainer { .. }
            | Act::RemoveSandbox { .. }
            | Act::StopSandbox { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn panics(text: &str) -> Event {
        assert_eq!(text, "", "of its own making");
        Event::Tick
    }

    #[tokio::test]
    async fn an_act_that_panics_is_answered() {
        for act in [Act::List, Act::Observe("u".into()), Act::Sample, Act::FindLeftovers] {
            let id = EffectId(7);
            let (inbox, mut events) = mpsc::channel(1);
            spawn(panics("one\ntwo"), failure_of(id, &act), inbox);
            let error = match events.recv().await {
                Some(Event::Listed { id: EffectId(7), result: Err(error) }) if act == Act::List => error,
                Some(Event::Observed { id: EffectId(7), pod, result: Err(error) }) if act == Act::Observe(pod.clone()) => error,
                Some(Event::Sampled { id: EffectId(7), result: Err(error) }) if act == Act::Sample => error,
                Some(Event::Done { id: EffectId(7), result: Err(error) }) if act == Act::FindLeftovers => error,
                other => panic!("{act:?}: {other:?}"),
            };
            assert_eq!(error.kind, CallErrorKind::Other);
            assert!(error.message.starts_with("panicked: ") && error.message.contains("of its own making"), "{error}");
            assert!(!error.message.contains('\n'), "{error}");
        }
    }

    #[tokio::test]
    async fn who_ends_the_task_ends_the_work() {
        let (inbox, mut events) = mpsc::channel(1);
        let (held, gone) = tokio::sync::oneshot::channel::<()>();
        let work = async move {
            let _held = held;
            std::future::pending().await
        };
        spawn(work, failure_of(EffectId(1), &Act::List), inbox).abort();
        gone.await.unwrap_err();
        assert!(events.recv().await.is_none(), "nobody answers twice");
    }
}
