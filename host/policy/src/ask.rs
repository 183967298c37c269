//! One question to one policy: a fresh instance, its limits, its answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use polylet_core::question::{Answer, Body, PolicyFailure, Question, Verdict};
use wasmtime::Store;

use crate::call::Call;
use crate::engine::Engine;
use crate::limits::{Limits, TRANSFER_MAX};
use crate::loaded::LoadedPolicy;
use crate::store::{PolicyStore, Writes};
use crate::ticker::Ticker;
use crate::{answer, failure, question as asked};

/// What came back from a policy.
#[derive(Debug)]
pub struct Asked {
    /// What the core is told.
    pub verdict: Verdict,
    /// What the policy wants to remember, should the answer be accepted: for [`crate::PolicyHost::commit`]. Dropped, it is forgotten.
    pub writes: Writes,
}

impl Asked {
    /// The host could not ask.
    pub(crate) fn not_asked(why: impl Into<String>) -> Self {
        let answer = Err(failure::host(why));
        Self {
            verdict: Verdict { answer, fuel: 0, nanos: 0, store_reads: Vec::new(), log: Vec::new() },
            writes: Writes::default(),
        }
    }
}

/// A store for one call, with everything that limits it.
pub(crate) fn store(engine: &Engine, call: Call) -> wasmtime::Result<Store<Call>> {
    let limits = call.limits;
    let mut store = Store::new(engine.wasmtime(), call);
    store.limiter(|call| call);
    store.set_fuel(limits.fuel)?;
    store.set_epoch_deadline(Ticker::ticks(limits.timeout));
    store.set_hostcall_fuel(TRANSFER_MAX);
    Ok(store)
}

/// Asks.
pub(crate) fn ask(engine: &Engine, memory: &Arc<PolicyStore>, policy: &LoadedPolicy, question: &Arc<Question>) -> Asked {
    let began = Instant::now();
    let limits = policy.limits(question.body.hook());
    let call =
        Call::new(Arc::clone(&policy.name), Arc::clone(&policy.config), Some(Arc::clone(question)), limits, Arc::clone(memory));
    let mut store = match store(engine, call) {
        Ok(store) => store,
        Err(error) => return Asked::not_asked(format!("{error:#}")),
    };
    let answered = {
        let _ticking = engine.ticker().begin();
        instantiate_and_call(&mut store, policy, question)
    };
    let left = store.get_fuel().unwrap_or_default();
    let answer = match answered {
        Ok(answer) => answer,
        Err(error) => Err(failure::of(&error, store.data())),
    };
    let mut call = store.into_data();
    let fuel = limits.fuel - left + call.import_fuel;
    let answer = within(answer, fuel, &limits);
    if answer.is_ok() {
        policy.answered.store(true, Ordering::Relaxed);
    }
    let log = std::mem::take(&mut call.log);
    let (store_reads, writes) = call.into_memory();
    let writes = if answer.is_ok() { writes } else { Writes::default() };
    let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Asked { verdict: Verdict { answer, fuel, nanos, store_reads, log }, writes }
}

/// The guest's fuel and the host's on its behalf each have the budget while the call runs; together they must not exceed it.
fn within(answer: Result<Option<Answer>, PolicyFailure>, fuel: u64, limits: &Limits) -> Result<Option<Answer>, PolicyFailure> {
    match answer {
        Ok(_) if fuel > limits.fuel => Err(failure::spent(limits.fuel)),
        answer => answer,
    }
}

type Answered = wasmtime::Result<Result<Option<Answer>, PolicyFailure>>;

fn instantiate_and_call(store: &mut Store<Call>, policy: &LoadedPolicy, question: &Question) -> Answered {
    let code = &policy.code;
    let instance = code.pre.instantiate(&mut *store)?;
    let usable = |answer: Option<Result<Answer, answer::Unusable>>| answer.transpose().map_err(|why| failure::unusable(&why));
    let missing = || Ok(Err(failure::host(format!("policy {} does not answer for this hook", policy.name))));
    match &question.body {
        Body::Restart(body) => {
            let Some(indices) = &code.restart else { return missing() };
            let said = indices.load(&mut *store, &instance)?.call_decide(store, asked::restart(body))?;
            Ok(usable(said.map(|said| answer::restart(body, said))))
        }
        Body::Probe(body) => {
            let Some(indices) = &code.probe else { return missing() };
            let said = indices.load(&mut *store, &instance)?.call_interpret(store, asked::probe(body))?;
            Ok(usable(said.map(answer::probe)))
        }
        Body::Qos(body) => {
            let Some(indices) = &code.qos else { return missing() };
            let said = indices.load(&mut *store, &instance)?.call_classify(store, &asked::qos(body))?;
            Ok(usable(said.map(|said| answer::qos(body, said))))
        }
        Body::Assess(body) => {
            let Some(indices) = &code.eviction else { return missing() };
            let guest = indices.load(&mut *store, &instance)?;
            let said = guest.call_assess(store, asked::node(&body.node), &asked::signals(&body.signals))?;
            Ok(usable(Some(answer::shortages(said))))
        }
        Body::Rank(body) => {
            let Some(indices) = &code.eviction else { return missing() };
            let guest = indices.load(&mut *store, &instance)?;
            let (shortage, candidates) = (asked::shortage(&body.shortage), asked::candidates(&body.candidates));
            let said = guest.call_rank(store, asked::node(&body.node), &shortage, &candidates)?;
            Ok(usable(said.map(|said| answer::victims(body, said))))
        }
    }
}
