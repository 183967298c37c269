//! Policies are asked on threads of their own, one for each hook: a slow policy holds up the questions of its own hook, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use polylet_core::effect::Rung;
use polylet_core::event::{Event, Outcome};
use polylet_core::id::EffectId;
use polylet_core::question::{FailureKind, Hook, PolicyFailure, Question, Verdict};
use polylet_policy::{PolicyHost, Writes};
use tokio::sync::mpsc;

/// Questions of one hook that may wait. The node asks one at a time of each probe and container.
const WAITING: usize = 4096;

/// What came of a question, and what the policy wants to remember should its answer be accepted.
pub struct Answered {
    /// For the node.
    pub event: Event,
    /// For the store, should the answer of this rung decide.
    pub writes: Option<(Rung, Writes)>,
}

struct Asked {
    id: EffectId,
    rung: Rung,
    question: Arc<Question>,
}

/// The threads. They end when this is dropped, each after the question that it is at.
pub struct Askers(BTreeMap<Hook, mpsc::Sender<Asked>>);

impl Askers {
    /// Starts them; answers arrive at the receiver.
    ///
    /// # Errors
    /// The system gives no threads.
    pub fn start(policies: &PolicyHost) -> std::io::Result<(Self, mpsc::Receiver<Answered>)> {
        let (answers, answered) = mpsc::channel(WAITING);
        let thread = |hook: Hook| {
            let (ask, mut asked) = mpsc::channel::<Asked>(WAITING);
            let (policies, answers) = (policies.clone(), answers.clone());
            std::thread::Builder::new().name(format!("ask-{}", hook.as_str())).spawn(move || {
                while let Some(Asked { id, rung, question }) = asked.blocking_recv() {
                    let asked = policies.ask(&rung, &question);
                    let event = Event::Done { id, result: Ok(Outcome::Verdict(asked.verdict)) };
                    if answers.blocking_send(Answered { event, writes: Some((rung, asked.writes)) }).is_err() {
                        return;
                    }
                }
            })?;
            Ok((hook, ask))
        };
        Ok((Self(Hook::ALL.into_iter().map(thread).collect::<std::io::Result<_>>()?), answered))
    }

    /// Asks. Some: it cannot be asked, since too many wait, and this is the answer.
    pub fn ask(&self, id: EffectId, rung: Rung, question: Arc<Question>) -> Option<Answered> {
        let hook = question.body.hook();
        let queue = self.0.get(&hook)?;
        queue.try_send(Asked { id, rung, question }).err().map(|_| {
            let message = format!("{WAITING} questions of {} wait already", hook.as_str());
            let failure = PolicyFailure { kind: FailureKind::Host, message };
            let verdict = Verdict { answer: Err(failure), fuel: 0, nanos: 0, store_reads: Vec::new(), log: Vec::new() };
            Answered { event: Event::Done { id, result: Ok(Outcome::Verdict(verdict)) }, writes: None }
        })
    }
}
