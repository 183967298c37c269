//! Policies that misbehave, for tests of the node: each in `examples/` is a component of its own, and says what it does.
//!
//! | component | misbehaviour | what the node must do |
//! |---|---|---|
//! | `loop` | never answers | stop it when its fuel is spent |
//! | `memory` | allocates without end | refuse the growth beyond the cap, and survive the abort that follows |
//! | `recursion` | recurses without end | catch the overflow of its stack |
//! | `panic` | panics, with a message | show the message, and that it trapped |
//! | `huge` | answers with a reason of 1 MiB, and logs as much | refuse the answer, cut the log |
//! | `absurd` | answers beyond every bound, and of pods that are not there | clamp what can be, refuse the rest |
//! | `wrong-type` | exports `restart` with another signature | refuse to load it, and say what differs |
//! | `forbidden-import` | imports a clock | refuse to load it, and name the import |
//! | `costly` | takes a compiler very long | end the compilation at its limit |
//!
//! All but the last three export `restart`, `probe`, `qos` and `eviction`, and misbehave in each; `about` behaves.
//! `costly` is the default component with a module beside it that nobody instantiates; `policies/build` makes it.

use std::marker::PhantomData;

use polylet_sdk::eviction::{Candidate, Eviction, Shortage, Signal, Victim};
use polylet_sdk::types::NodeFacts;
use polylet_sdk::{Ask, Config, Policy, probe, qos, restart};

/// One way to misbehave.
pub trait Misbehave {
    /// The policy's name.
    const NAME: &str;

    /// Misbehaves; should it return, then with the reason of an answer.
    fn misbehave(ask: &Ask) -> String;
}

/// A policy that misbehaves whatever it is asked.
#[derive(Debug)]
pub struct Hostile<M>(PhantomData<M>);

impl<M: Misbehave> Policy for Hostile<M> {
    const NAME: &str = M::NAME;
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &str = "Misbehaves, for tests of the node.";

    fn configure(_: &Config) -> Result<Self, String> {
        Ok(Self(PhantomData))
    }
}

impl<M: Misbehave> restart::Restart for Hostile<M> {
    fn decide(&self, ask: &Ask, question: &restart::Question) -> Option<restart::Answer> {
        let reason = M::misbehave(ask);
        Some(restart::Answer { action: restart::Action::Wait(question.default_delay), reason })
    }
}

impl<M: Misbehave> probe::Probe for Hostile<M> {
    fn interpret(&self, ask: &Ask, question: &probe::Question) -> Option<probe::Answer> {
        let reason = M::misbehave(ask);
        let verdict = question.default_verdict;
        Some(probe::Answer { verdict, next_in: None, grace: None, reason })
    }
}

impl<M: Misbehave> qos::Qos for Hostile<M> {
    fn classify(&self, ask: &Ask, question: &qos::Question) -> Option<qos::Answer> {
        let reason = M::misbehave(ask);
        Some(qos::Answer { placement: question.default_placement.clone(), reason })
    }
}

impl<M: Misbehave> Eviction for Hostile<M> {
    fn assess(&self, ask: &Ask, _: &NodeFacts, _: &[Signal]) -> Vec<Shortage> {
        M::misbehave(ask);
        Vec::new()
    }

    fn rank(&self, ask: &Ask, _: &NodeFacts, _: &Shortage, candidates: &[Candidate]) -> Option<Vec<Victim>> {
        let reason = M::misbehave(ask);
        let victim = |pod: &Candidate| Victim { pod: pod.pod, grace: None, reason: reason.clone() };
        Some(candidates.iter().take(1).map(victim).collect())
    }
}
