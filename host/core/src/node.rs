//! All pods of the node: folds events into state and returns effects.
//!
//! ```text
//! Desired · Listed · Observed · Hint · Done · Policies · Runtime · Sampled · Tick ──► Node::step ──► effects, in an order that counts
//! ```
//!
//! **Invariant:** one step touches only the pods that changed or whose time has come. What it does for all of them (counting, names) looks
//! at no more than a field of each.
//! **Invariant:** an effect's answer is matched by its id; an answer nobody waits for changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::Config;
use crate::desired::Desired;
use crate::effect::{Act, Effect};
use crate::event::{CallError, Event, Hint, Outcome, RuntimeState};
use crate::id::{EffectId, PodUid};
use crate::ladder::Ladder;
use crate::observed::{Listing, Observed};
use crate::question::{Hook, NodeFacts};
use crate::record::PodRecord;
use crate::say::{About, Say};
use crate::time::{Mono, Now};

mod admit;
mod asks;
mod cx;
mod dead;
mod ending;
mod images;
mod lane;
mod leftovers;
mod life;
mod pressure;
mod probes;
mod rate;
mod stops;
mod sweep;
mod view;
mod worker;

pub use view::{ContainerView, Declared, NodeView, PodView, RungView};

use asks::Settled;
use cx::{Cx, Flight, Pulls, Removed, Rng, Shared, What};
use dead::Dead;
use leftovers::Leftovers;
use life::After;
use pressure::Pressure;
use worker::{Life, Worker};

/// The node.
#[derive(Debug)]
pub struct Node {
    shared: Shared,
    desired: Desired,
    workers: BTreeMap<PodUid, Worker>,
    dirty: BTreeSet<PodUid>,
    timers: BTreeSet<(Mono, PodUid)>,
    /// Container and sandbox ids as last observed.
    index: BTreeMap<String, PodUid>,
    relist: Relist,
    pressure: Pressure,
    leftovers: Leftovers,
    dead: Dead,
    /// Something has come or changed that lets a queued pod begin, or keeps it from it.
    admission_due: bool,
    /// Pods that were let go of, with the last effect begun before: what was asked for up to then is not of a later life under the UID.
    forgotten: BTreeMap<PodUid, u64>,
}

/// The generic relist.
#[derive(Debug, Default)]
struct Relist {
    next: Mono,
    flight: Option<EffectId>,
    /// A hint came that names nothing we know.
    wanted: bool,
    /// A hint has come since the last gap, so hints do arrive: the list is only a safety net.
    hints_arrive: bool,
    /// When a list last came.
    last: Mono,
}

impl Node {
    /// A node that remembers `records` and knows nothing else yet. `seed` feeds the jitter.
    pub fn new(config: Config, records: Vec<PodRecord>, seed: u64, now: Now) -> Self {
        let facts = NodeFacts {
            cpu_capacity: config.cpu_capacity,
            cpu_allocatable: config.cpu_allocatable,
            memory_capacity: config.memory_capacity,
            memory_allocatable: config.memory_allocatable,
            ..NodeFacts::default()
        };
        let desired = Desired::new(&config.sources);
        let workers: BTreeMap<PodUid, Worker> =
            records.into_iter().map(|r| (r.uid.clone(), Worker::new(r.uid.clone(), r, true, 0))).collect();
        Self {
            dirty: workers.keys().cloned().collect(),
            shared: Shared {
                config,
                last_id: 0,
                flights: BTreeMap::new(),
                ladder: Ladder::default(),
                pulls: Pulls::default(),
                rng: Rng::new(seed),
                decisions: 0,
                node: facts,
                sample: Arc::default(),
                heard: desired.all_heard(),
                listed: false,
                runtime_up: false,
                network: Err("network state unknown".into()),
                removed: BTreeMap::new(),
                born: now,
            },
            desired,
            workers,
            timers: BTreeSet::new(),
            index: BTreeMap::new(),
            relist: Relist::default(),
            pressure: Pressure::default(),
            leftovers: Leftovers::default(),
            dead: Dead::default(),
            admission_due: true,
            forgotten: BTreeMap::new(),
        }
    }

    /// Takes one event and the time; returns what is to be done, in order.
    pub fn step(&mut self, now: Now, event: Event) -> Vec<Effect> {
        let mut out = Vec::new();
        self.take(now, event, &mut out);
        self.on_time(now, &mut out);
        self.advance(now, &mut out);
        out
    }

    /// When to call [`Node::step`] with [`Event::Tick`] at the latest.
    pub fn next_wakeup(&self) -> Option<Mono> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let list = (self.shared.runtime_up && self.relist.flight.is_none()).then_some(self.relist.next);
        let sample = self.pressure.next().filter(|_| self.ready_to_sample());
        let leftovers = self.leftovers.next().filter(|_| self.knows_all());
        let dead = self.next_count_of_dead().filter(|_| self.knows_all());
        [timer, list, sample, leftovers, dead].into_iter().flatten().min()
    }

    fn take(&mut self, now: Now, event: Event, out: &mut Vec<Effect>) {
        match event {
            Event::Desired { source, pods } => {
                for pod in &pods {
                    self.worker_for(&pod.uid, now, Some((&pod.namespace, &pod.name)));
                }
                let touched = self.desired.replace(source, pods);
                self.dirty.extend(touched);
                if !self.shared.heard && self.desired.all_heard() {
                    self.shared.heard = true;
                    self.dirty.extend(self.workers.keys().cloned());
                }
            }
            Event::Listed { id, result } => self.listed(now, id, result, out),
            Event::Observed { id, pod, result } => self.observed(now, id, &pod, result, out),
            Event::Hint(Hint::Pod(uid)) => {
                self.relist.hints_arrive = true;
                self.hint(&uid);
            }
            Event::Hint(Hint::Id(id)) => {
                self.relist.hints_arrive = true;
                match self.index.get(&id).cloned() {
                    Some(uid) => self.hint(&uid),
                    None => self.relist.wanted = true,
                }
            }
            Event::Hint(Hint::Everything) => {
                // After a gap it has yet to be seen that more come.
                self.relist.hints_arrive = false;
                self.relist.wanted = true;
                for uid in self.workers.keys().cloned().collect::<Vec<_>>() {
                    self.hint(&uid);
                }
            }
            Event::Done { id, result } => self.done(now, id, result, out),
            Event::Policies(bindings) => {
                let changed = self.shared.ladder.bind(bindings);
                if changed.contains(&Hook::Restart) {
                    self.each(now, out, |worker, cx| worker.ask_again(cx));
                }
            }
            Event::Runtime(state) => self.runtime(state),
            Event::Sampled { id, result } => {
                self.shared.flights.remove(&id);
                self.sampled(now, result, out);
            }
            Event::Tick => {}
        }
    }

    fn worker_for(&mut self, uid: &PodUid, now: Now, name: Option<(&str, &str)>) -> &mut Worker {
        let last_id = self.forgotten.get(uid).copied().unwrap_or(0);
        self.workers.entry(uid.clone()).or_insert_with(|| {
            let (namespace, name) = name.unwrap_or_default();
            let record = PodRecord::new(uid.clone(), namespace, name, now.wall);
            Worker::new(uid.clone(), record, false, last_id)
        })
    }

    fn hint(&mut self, uid: &PodUid) {
        if let Some(worker) = self.workers.get_mut(uid) {
            worker.hinted = true;
            self.dirty.insert(uid.clone());
        }
    }

    fn runtime(&mut self, state: RuntimeState) {
        let (up, network) = match state {
            RuntimeState::Up { runtime, network } => (runtime.is_ok(), network),
            RuntimeState::Down(_) => (false, self.shared.network.clone()),
        };
        if up != self.shared.runtime_up || network != self.shared.network {
            // What happened while it was away is not known.
            if up && !self.shared.runtime_up {
                self.relist.wanted = true;
                for worker in self.workers.values_mut() {
                    worker.hinted = true;
                }
            }
            self.shared.runtime_up = up;
            self.shared.network = network;
            self.dirty.extend(self.workers.keys().cloned());
        }
    }

    /// A relist: pods whose states differ from what was last seen are looked at.
    fn listed(&mut self, now: Now, id: EffectId, result: Result<Listing, CallError>, out: &mut Vec<Effect>) {
        self.shared.flights.remove(&id);
        self.relist.flight = None;
        let Ok(mut listing) = result else { return };
        self.relist.last = now.mono;
        self.leave_out_what_is_gone(id, &mut listing, out);
        let flights = &self.shared.flights;
        self.forgotten.retain(|uid, last| {
            id.0 <= *last || flights.iter().any(|(id, flight)| id.0 <= *last && flight.pod.as_ref() == Some(uid))
        });
        for (uid, summary) in &listing.pods {
            let worker = self.worker_for(uid, now, Some((&summary.namespace, &summary.name)));
            if id > worker.stale_up_to && worker.summary != *summary {
                worker.summary = summary.clone();
                worker.hinted = true;
                self.dirty.insert(uid.clone());
            }
        }
        for (uid, worker) in &mut self.workers {
            if listing.pods.contains_key(uid) || id <= worker.stale_up_to {
                continue;
            }
            let known_empty = worker.last_seen().is_some_and(Observed::is_empty) && worker.fresh().is_some();
            if !known_empty {
                // Listed, and nothing there: as good as a look.
                for gone in worker.last_seen().map(life::ids).unwrap_or_default() {
                    self.index.remove(&gone);
                }
                worker.observe(id, Observed::default());
                worker.hinted = false;
                self.dirty.insert(uid.clone());
            }
        }
        self.admission_due = true;
        if !self.shared.listed {
            self.shared.listed = true;
            self.dirty.extend(self.workers.keys().cloned());
        }
        self.look_while_unheard();
    }

    /// What was said to be removed and is listed still, is told once. Where it is all that there is of a pod, nobody is made to see to it.
    fn leave_out_what_is_gone(&mut self, id: EffectId, listing: &mut Listing, out: &mut Vec<Effect>) {
        let removed = &mut self.shared.removed;
        let lists = |listing: &Listing, of: &Removed, id: &str| {
            let pod = listing.pods.get(&of.pod);
            pod.is_some_and(|p| p.containers.contains_key(id) || p.sandboxes.contains_key(id))
        };
        removed.retain(|gone, of| id.0 <= of.last_id || lists(listing, of, gone));
        for (gone, of) in removed.iter_mut().filter(|(_, of)| id.0 > of.last_id && !of.told) {
            of.told = true;
            let message =
                format!("the runtime lists {gone} of pod {}, and has said that it is removed: it counts as gone", of.pod);
            out.push(Effect::Say(Say { about: About::Node, warning: true, reason: "FailedToRemove", message }));
        }
        listing.pods.retain(|uid, pod| {
            let there = pod.containers.keys().map(|id| id.as_str()).chain(pod.sandboxes.keys().map(|id| id.as_str()));
            self.workers.contains_key(uid) || there.into_iter().any(|id| !removed.contains_key(id))
        });
    }

    fn observed(&mut self, now: Now, id: EffectId, uid: &PodUid, result: Result<Observed, CallError>, out: &mut Vec<Effect>) {
        self.shared.flights.remove(&id);
        let Some(worker) = self.workers.get_mut(uid) else { return };
        if worker.look == Some(id) {
            worker.look = None;
        }
        self.dirty.insert(uid.clone());
        match result {
            Ok(mut have) => {
                let removed = &self.shared.removed;
                for gone in have.containers.extract_if(.., |container| removed.contains_key(container.id.as_str())) {
                    // Its name stays taken.
                    let known = &mut worker.remembered(&gone.name).attempt;
                    *known = (*known).max(Some(gone.attempt));
                }
                let new = life::ids(&have);
                if let Some(old) = worker.last_seen() {
                    for gone in life::ids(old).difference(&new) {
                        self.index.remove(gone);
                    }
                }
                self.index.extend(new.into_iter().map(|id| (id, uid.clone())));
                // Whoever waits to be let in may have waited for this look.
                self.admission_due |= worker.seen.is_none();
                worker.observe(id, have);
            }
            Err(error) => {
                worker.hinted = true;
                worker.look_not_before = now.mono + std::time::Duration::from_secs(1);
                if self.shared.runtime_up
                    && let Some(mut worker) = self.workers.remove(uid)
                {
                    self.with_cx(now, out, |cx| worker.say_that_a_look_failed(cx, &error));
                    self.workers.insert(uid.clone(), worker);
                }
            }
        }
        self.look_while_unheard();
    }

    /// Until all sources have been heard, a pod may wait for what a look at another one shows.
    fn look_while_unheard(&mut self) {
        if !self.shared.heard {
            self.let_the_queued_look();
        }
    }

    fn done(&mut self, now: Now, id: EffectId, result: Result<Outcome, CallError>, out: &mut Vec<Effect>) {
        let Some(Flight { pod, what }) = self.shared.flights.remove(&id) else { return };
        if self.shared.pulls.running.remove(&id)
            && let Some((next, _)) = self.shared.pulls.queue.front()
        {
            self.dirty.insert(next.clone());
        }
        if what == What::Leftovers {
            return self.found_leftovers(now, result);
        }
        if let What::Ask(asked) = what {
            let settled = self.with_cx(now, out, |cx| asks::answered(cx, *asked, result));
            return self.settle(now, settled, out);
        }
        let Some(uid) = pod else { return };
        let Some(mut worker) = self.workers.remove(&uid) else { return };
        self.with_cx(now, out, |cx| worker.done(cx, id, what, result));
        self.workers.insert(uid.clone(), worker);
        self.dirty.insert(uid);
    }

    fn settle(&mut self, now: Now, settled: Option<Settled>, out: &mut Vec<Effect>) {
        let Some(settled) = settled else { return };
        let Some(uid) = settled.target.pod().cloned() else { return self.pressure_settled(now, settled, out) };
        let Some(mut worker) = self.workers.remove(&uid) else { return };
        self.with_cx(now, out, |cx| worker.settled(cx, settled));
        self.workers.insert(uid.clone(), worker);
        self.dirty.insert(uid);
    }

    /// Does something to every worker.
    fn each(&mut self, now: Now, out: &mut Vec<Effect>, mut f: impl FnMut(&mut Worker, &mut Cx<'_>)) {
        let mut workers = std::mem::take(&mut self.workers);
        for (uid, worker) in &mut workers {
            self.with_cx(now, out, |cx| f(worker, cx));
            self.dirty.insert(uid.clone());
        }
        self.workers = workers;
    }

    fn with_cx<T>(&mut self, now: Now, out: &mut Vec<Effect>, f: impl FnOnce(&mut Cx<'_>) -> T) -> T {
        let mut cx = Cx { now, shared: &mut self.shared, out, wake: None, touched: &mut self.dirty };
        f(&mut cx)
    }

    /// Whatever is due by the clock.
    fn on_time(&mut self, now: Now, out: &mut Vec<Effect>) {
        while let Some((at, _)) = self.timers.first()
            && *at <= now.mono
            && let Some((_, uid)) = self.timers.pop_first()
        {
            if let Some(worker) = self.workers.get_mut(&uid) {
                worker.timer = None;
            }
            self.dirty.insert(uid);
        }
        let due = self.relist.next <= now.mono || self.relist.wanted;
        if self.shared.runtime_up && self.relist.flight.is_none() && due {
            let config = &self.shared.config;
            let period = if self.relist.hints_arrive { config.relist_with_events } else { config.relist };
            self.relist.next = now.mono + period;
            self.relist.wanted = false;
            let id = self.with_cx(now, out, |cx| cx.act(None, What::List, Act::List));
            self.relist.flight = Some(id);
        }
        self.sample_if_due(now, out);
        self.find_leftovers_if_due(now, out);
        self.collect_dead_if_due(now, out);
    }

    /// Looks at every pod that changed until none does.
    fn advance(&mut self, now: Now, out: &mut Vec<Effect>) {
        self.admission_due |= self.dirty.iter().any(|uid| self.workers.get(uid).is_some_and(|w| w.life == Life::Queued));
        loop {
            if self.admission_due {
                self.admit_queued(now, out);
            }
            let Some(uid) = self.dirty.pop_first() else { break };
            let Some(mut worker) = self.workers.remove(&uid) else { continue };
            let wanted = self.desired.get(&uid).cloned();
            let old_timer = worker.timer.take();
            let before = worker.life;
            let (after, wake) = {
                let mut cx = Cx { now, shared: &mut self.shared, out, wake: None, touched: &mut self.dirty };
                let after = worker.advance(&mut cx, wanted.as_ref());
                (after, cx.wake)
            };
            if let Some(at) = old_timer {
                self.timers.remove(&(at, uid.clone()));
            }
            let moved = before != worker.life;
            match after {
                After::Keep => {
                    if let Some(at) = wake {
                        worker.timer = Some(at);
                        self.timers.insert((at, uid.clone()));
                    }
                    self.workers.insert(uid.clone(), worker);
                }
                After::Forget => {
                    self.forgotten.insert(uid.clone(), self.shared.last_id);
                    for id in worker.last_seen().map(life::ids).unwrap_or_default() {
                        self.index.remove(&id);
                    }
                    if let Some(pod) = wanted {
                        // Declared again while it was being removed: a new life.
                        self.worker_for(&uid, now, Some((&pod.namespace, &pod.name)));
                        self.dirty.insert(uid.clone());
                    }
                }
            }
            if moved || after == After::Forget {
                self.count_running();
                self.let_the_queued_look();
            }
        }
    }

    /// Pods that have been let in and are not through, for questions.
    fn count_running(&mut self) {
        let running = self.workers.values().filter(|w| matches!(w.life, Life::Running | Life::Stopping));
        self.shared.node.running_pods = running.count() as u32;
    }

    /// A pod moved on: one that waits behind its name may go.
    fn let_the_queued_look(&mut self) {
        let queued = self.workers.iter().filter(|(_, w)| w.life == Life::Queued).map(|(uid, _)| uid.clone());
        self.dirty.extend(queued);
        self.admission_due = true;
    }
}

impl Worker {
    /// An act ended.
    fn done(&mut self, cx: &mut Cx<'_>, id: EffectId, what: What, result: Result<Outcome, CallError>) {
        let last_id = cx.shared.last_id;
        let unit = |r: Result<Outcome, CallError>| r.map(|_| ());
        // Everything that may have changed the runtime makes older looks stale.
        if !matches!(what, What::Inspect(_) | What::Pull(_) | What::Probe(..) | What::Prepare | What::Ask(_)) {
            self.acted(last_id);
        }
        self.free_lane(id);
        self.status_due = true;
        match what {
            What::Prepare => self.prepare_done(cx, result),
            What::Sandbox => self.sandbox_done(cx, result),
            What::Create(name) => self.create_done(cx, &name, result),
            What::Start(name, container) => self.start_done(cx, &name, &container, result),
            What::PostStart(name, container) => self.post_start_done(cx, &name, &container, result),
            What::PreStop(container) => self.pre_stop_done(cx, &container, unit(result)),
            What::Stop(container) => self.stop_done(cx, id, &container, unit(result)),
            What::Remove(container) => self.removed(cx, &container, unit(result)),
            What::StopSandbox(sandbox) => self.sandbox_stopped(cx, &sandbox, unit(result)),
            What::RemoveSandbox(sandbox) => self.sandbox_removed(cx, &sandbox, unit(result)),
            What::CleanUp { gone } => self.cleaned(cx, gone, result.err().map(|e| e.message)),
            What::Inspect(key) => self.inspected(cx, id, &key, result),
            What::Pull(key) => self.pulled(cx, id, &key, result),
            What::Probe(name, kind) => self.probed(cx, id, (name, kind), result),
            What::List | What::Observe | What::Sample | What::Leftovers | What::Ask(_) => {}
        }
    }
}

/// For tests and tools: pods that the node knows, in whatever state.
impl Node {
    /// UIDs of all pods known.
    pub fn pods(&self) -> impl Iterator<Item = &PodUid> {
        self.workers.keys()
    }
}
