//! Policies are asked on threads of their own, one for each hook: a slow policy holds up the questions of its own hook, and nothing else.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use polylet_core::effect::Rung;
use polylet_core::event::{Event, Outcome};
use polylet_core::id::EffectId;
use polylet_core::question::{FailureKind, Hook, PolicyFailure, Question, Verdict};
use polylet_policy::{PolicyHost, Writes};
use tokio::sync::mpsc;

use crate::tell;

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
        let policies = policies.clone();
        Self::asking(move |rung, question| policies.ask(rung, question))
    }

    fn asking(
        ask_policy: impl Fn(&Rung, &Arc<Question>) -> polylet_policy::Asked + Clone + Send + 'static,
    ) -> std::io::Result<(Self, mpsc::Receiver<Answered>)> {
        let (answers, answered) = mpsc::channel(WAITING);
        let thread = |hook: Hook| {
            let (ask, mut asked) = mpsc::channel::<Asked>(WAITING);
            let (ask_policy, answers) = (ask_policy.clone(), answers.clone());
            std::thread::Builder::new().name(format!("ask-{}", hook.as_str())).spawn(move || {
                while let Some(Asked { id, rung, question }) = asked.blocking_recv() {
                    // A panic of ours ends one question, not the thread: nobody would answer its hook's questions again. What it left
                    // behind a lock is whole between two statements.
                    let asked = std::panic::catch_unwind(AssertUnwindSafe(|| ask_policy(&rung, &question)));
                    let answered = match asked {
                        Ok(asked) => {
                            let event = Event::Done { id, result: Ok(Outcome::Verdict(asked.verdict)) };
                            Answered { event, writes: Some((rung, asked.writes)) }
                        }
                        Err(payload) => {
                            let why = tell::panicked(&*payload);
                            tracing::error!(hook = hook.as_str(), "a question to a policy is not answered: {why}");
                            not_asked(id, format!("the node could not ask: {why}"))
                        }
                    };
                    if answers.blocking_send(answered).is_err() {
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
        queue
            .try_send(Asked { id, rung, question })
            .err()
            .map(|_| not_asked(id, format!("{WAITING} questions of {} wait already", hook.as_str())))
    }
}

/// The answer to a question that no policy got to see.
fn not_asked(id: EffectId, message: String) -> Answered {
    let failure = PolicyFailure { kind: FailureKind::Host, message };
    let verdict = Verdict { answer: Err(failure), fuel: 0, nanos: 0, store_reads: Vec::new(), log: Vec::new() };
    Answered { event: Event::Done { id, result: Ok(Outcome::Verdict(verdict)) }, writes: None }
}

#[cfg(test)]
mod tests {
    use polylet_core::ask::assess_question;
    use polylet_core::question::NodeFacts;

    use super::*;

    #[tokio::test]
    async fn a_question_that_panics_is_answered_and_the_next_one_too() {
        let answer = |_: &Rung, question: &Arc<Question>| {
            assert!(!question.facts.numbers.contains_key("panic"), "of its own making");
            let verdict = Verdict { answer: Ok(None), fuel: 3, nanos: 0, store_reads: Vec::new(), log: Vec::new() };
            polylet_policy::Asked { verdict, writes: Writes::default() }
        };
        let (askers, mut answered) = Askers::asking(answer).unwrap();
        let mut verdict = async |id: u64, question: Arc<Question>| {
            assert!(askers.ask(EffectId(id), Rung::Default, question).is_none());
            match answered.recv().await.unwrap() {
                Answered { event: Event::Done { id: found, result: Ok(Outcome::Verdict(verdict)) }, writes } => {
                    assert_eq!(found, EffectId(id));
                    (verdict, writes.is_some())
                }
                other => panic!("{:?}", other.event),
            }
        };
        for (id, fact) in [(1, "panic"), (2, "load"), (3, "panic"), (4, "load")] {
            let facts = BTreeMap::from([(fact.to_owned(), 1)]);
            let (verdict, has_writes) = verdict(id, Arc::new(assess_question(NodeFacts::default(), Vec::new(), facts))).await;
            if fact == "load" {
                assert_eq!((verdict.answer, verdict.fuel, has_writes), (Ok(None), 3, true), "{id}");
                continue;
            }
            let failure = verdict.answer.unwrap_err();
            assert_eq!((failure.kind, has_writes), (FailureKind::Host, false), "{id}");
            assert_eq!(failure.message, "the node could not ask: panicked: of its own making");
        }
    }
}
