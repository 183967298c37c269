//! The agent: configuration → build → run. One task owns the node; everything else sends it events and carries out its effects.
//!
//! ```text
//! manifests ─┐
//! runtime ───┤                        ┌──► store · log · ring           (at once, in order)
//! hints ─────┼──► inbox ──► Node::step┼──► policies: a thread a hook ──┐
//! timer ─────┘                ▲       └──► one task for each act ──────┤
//!                             └────────────────────────────────────────┘
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use polylet_core::decision::DecisionRecord;
use polylet_core::effect::{Act, Effect, Rung};
use polylet_core::event::{CallError, CallErrorKind, Event, Hint, RuntimeState};
use polylet_core::id::EffectId;
use polylet_core::node::Node;
use polylet_core::observed::{ContainerState, Listing, SandboxState, Summary};
use polylet_core::pod::Source;
use polylet_core::say::{About, Say};
use polylet_core::time::{LONGEST, Mono};
use polylet_machine::facts;
use polylet_policy::{PolicyHost, Writes};
use polylet_server::{Metrics, Pulse};
use polylet_store::{Ring, Store};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::admin::{Asked, NodeAdmin};
use crate::askers::{Answered, Askers};
use crate::boot::{Booted, boot};
use crate::events::Events;
use crate::network::why_not_ready;
use crate::perform::{Performer, UnderWay, chain};
use crate::settings::Settings;
use crate::source::adoption::Adoption;
use crate::source::directory::Directory;
use crate::source::fetch::Fetcher;
use crate::source::limits::{Notes, StorageLimits};
use crate::source::url::{self, Url};
use crate::source::{Faults, Report, SourceError, watch};
use crate::stream::Streams;
use crate::{allocatable, policies, rotation, tell};

/// Events that may wait. Whoever sends more waits.
const INBOX: usize = 1024;
/// The loop beats at least this often.
const PULSE: Duration = Duration::from_secs(5);

/// Runs the agent until it is asked to stop. Pods keep running.
///
/// # Errors
/// Whatever keeps it from starting; a running agent does not give up.
pub async fn run(settings: Settings) -> anyhow::Result<()> {
    let metrics = Arc::new(Metrics::new(&settings.node_name));
    let booted = boot(&settings, &metrics).await?;
    let Booted { lock, performer, store, ring, policies, node, adoptions, runtime_version, hints, unlimited, .. } = booted;
    let (askers, answered) = booted.askers;
    let (inbox, events) = mpsc::channel(INBOX);
    let (ask, asked) = mpsc::channel(16);
    let stop = CancellationToken::new();

    let watched = policies::spawn(policies.clone(), settings.policy_dir.clone(), inbox.clone());
    let settled = watched.settled.clone();
    let faults = Arc::new(Faults::default());
    let admin = Arc::new(NodeAdmin {
        ask,
        node_name: settings.node_name.clone(),
        events: performer.events.clone(),
        faults: faults.clone(),
        streams: Streams::new(performer.client.clone()),
        ring: ring.clone(),
        policies: policies.clone(),
        policy_dir: settings.policy_dir.clone(),
        watched,
        version: runtime_version,
    });
    tokio::spawn(polylet_server::serve_admin(booted.admin, settings.admin_socket.clone(), admin.clone(), stop.clone()));
    let pulse = Arc::new(Pulse::new(PULSE * 12));
    if let Some(listener) = booted.read_only {
        tokio::spawn(polylet_server::serve_read_only(listener, admin, metrics.clone(), pulse.clone(), stop.clone()));
    }
    if let Some(address) = settings.health {
        tokio::spawn(polylet_server::serve_health(address, metrics.clone(), pulse.clone(), stop.clone()));
    }
    spawn_manifests(&settings, adoptions, &settled, (&performer.events, &faults), &inbox);
    spawn_runtime(&performer, hints, inbox.clone());
    if let Some((cgroups, limits)) = performer.cgroups.clone().zip(unlimited) {
        tokio::spawn(allocatable::enforce_later(cgroups, limits, performer.events.clone(), stop.clone()));
    }
    if let Some(rotation) = settings.log_rotation {
        let (client, paths) = (performer.client.clone(), settings.paths.clone());
        tokio::spawn(rotation::rotate(client, paths, rotation, stop.clone()));
    }

    let agent = Agent {
        node,
        performer,
        store,
        ring,
        policies,
        askers,
        metrics,
        pulse,
        inbox,
        under_way: UnderWay::default(),
        local: VecDeque::new(),
        list_began: None,
    };
    tracing::info!(
        node = settings.node_name,
        root = %settings.paths.root.display(),
        socket = %settings.admin_socket.display(),
        "the agent runs"
    );
    let starting = Say { about: About::Node, warning: false, reason: "Starting", message: "Starting kubelet.".into() };
    tell::event(&starting, &agent.performer.events, facts::now().wall);
    agent.turn(events, asked, answered).await;
    stop.cancel();
    // It goes with the process: something of this one may still be on its way out.
    std::mem::forget(lock);
    tracing::info!("the agent stops; pods keep running");
    Ok(())
}

/// Time for calls of the runtime to end when the agent is told to stop.
const LAST_CALLS: Duration = Duration::from_secs(5);

/// The task that owns the node.
struct Agent {
    node: Node,
    performer: Arc<Performer>,
    store: Arc<Store>,
    ring: Arc<Ring>,
    policies: PolicyHost,
    askers: Askers,
    metrics: Arc<Metrics>,
    pulse: Arc<Pulse>,
    inbox: mpsc::Sender<Event>,
    under_way: UnderWay,
    /// Answers that came at once.
    local: VecDeque<Event>,
    list_began: Option<std::time::Instant>,
}

impl Agent {
    async fn turn(
        mut self,
        mut events: mpsc::Receiver<Event>,
        mut asked: mpsc::Receiver<Asked>,
        mut answered: mpsc::Receiver<Answered>,
    ) {
        let mut terminate = match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(signal) => signal,
            Err(error) => return tracing::error!(%error, "cannot listen for SIGTERM"),
        };
        loop {
            while let Some(event) = self.local.pop_front() {
                self.step(event, None);
            }
            self.pulse.beat();
            self.metrics.inbox_depth(events.len());
            let wait = self.until_wakeup();
            // Nobody is kept waiting for ever by a queue that does not run dry: of those that have something, any may be next.
            // Cancel-safe: receivers and signals lose nothing when another arm wins; the sleep is made anew each time.
            tokio::select! {
                _ = terminate.recv() => break,
                _ = tokio::signal::ctrl_c() => break,
                Some(Answered { event, writes }) = answered.recv() => self.step(event, writes),
                event = events.recv() => match event {
                    Some(event) => self.step(event, None),
                    None => break,
                },
                Some(question) = asked.recv() => self.answer(question),
                () = tokio::time::sleep(wait) => self.step(Event::Tick, None),
            }
        }
        self.let_calls_end(&mut events).await;
    }

    /// A runtime that is making or starting something when its caller goes away gives it up, for good: what is under way may end first.
    /// Nothing new is begun, and what came of it is seen by the next agent.
    async fn let_calls_end(&mut self, events: &mut mpsc::Receiver<Event>) {
        let all = async {
            while self.under_way.changes_something() {
                match events.recv().await {
                    Some(event) => self.note(&event),
                    None => return,
                }
            }
        };
        if tokio::time::timeout(LAST_CALLS, all).await.is_err() {
            tracing::warn!("calls of the runtime do not end within {} s, and are given up", LAST_CALLS.as_secs());
        }
    }

    fn until_wakeup(&self) -> Duration {
        let now = facts::now().mono;
        self.node.next_wakeup().map_or(PULSE, |at: Mono| at.since(now)).min(PULSE)
    }

    fn step(&mut self, event: Event, writes: Option<(Rung, Writes)>) {
        self.note(&event);
        let began = std::time::Instant::now();
        let effects = self.node.step(facts::now(), event);
        self.metrics.step(began.elapsed());
        // A policy's memory changes only with its own answer that was accepted: where the guard refuses that, the native rung decides
        // in this very step.
        let decided = |by: &Rung| {
            let last = |record: &DecisionRecord| record.asked.last().is_some_and(|(rung, v)| rung == by && v.answer.is_ok());
            effects.iter().any(|effect| matches!(effect, Effect::Decided(record) if last(record)))
        };
        if let Some((rung, writes)) = writes
            && decided(&rung)
            && let Err(error) = self.policies.commit(writes)
        {
            tell::not_kept("what a policy wanted to remember is lost", &error);
        }
        for effect in effects {
            self.perform(effect);
        }
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Done { id, result } => {
                self.under_way.ended(*id);
                tell::failed(result.as_ref().err());
            }
            Event::Observed { id, result, .. } => {
                self.under_way.ended(*id);
                tell::failed(result.as_ref().err());
            }
            Event::Sampled { id, result } => {
                self.under_way.ended(*id);
                tell::failed(result.as_ref().err());
            }
            Event::Listed { id, result } => {
                self.under_way.ended(*id);
                if let Ok(listing) = result {
                    self.count(listing);
                }
                if let Some(began) = self.list_began.take() {
                    self.metrics.relisted(began.elapsed());
                }
            }
            Event::Runtime(RuntimeState::Down(error)) => tracing::warn!(%error, "the runtime does not answer"),
            Event::Policies(bindings) => {
                self.metrics.policies_swapped();
                let bound = bindings.rungs.iter().filter_map(|(hook, rungs)| match rungs.first() {
                    Some(Rung::Bound { name, .. }) => Some(format!("{}={name}", hook.as_str())),
                    _ => None,
                });
                let bound: Vec<String> = bound.collect();
                tracing::info!(generation = bindings.generation, bound = bound.join(" "), "policies bound");
            }
            _ => {}
        }
    }

    /// Pods and containers as the runtime lists them.
    fn count(&self, listing: &Listing) {
        let ready = |pod: &&Summary| pod.sandboxes.values().any(|state| *state == SandboxState::Ready);
        let states = [
            ("created", ContainerState::Created),
            ("running", ContainerState::Running),
            ("exited", ContainerState::Exited),
            ("unknown", ContainerState::Unknown),
        ];
        let all = || listing.pods.values().flat_map(|pod| pod.containers.values());
        let counts = states.map(|(name, state)| (name, all().filter(|c| **c == state).count()));
        self.metrics.running(listing.pods.values().filter(ready).count(), &counts);
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Remember(record) => self.stored(self.store.remember(&record)),
            Effect::Forget(uid) => {
                self.policies.store().forget_pod(&uid);
                self.stored(self.store.forget(&uid));
            }
            Effect::Say(say) => tell::say(&say, &self.metrics, &self.performer.events, facts::now().wall),
            Effect::Count(count) => tell::count(&count, &self.metrics),
            Effect::Publish { pod, status } => tell::status(&pod, &status),
            Effect::Decided(record) => {
                tell::decision(&record, &self.metrics);
                self.ring.append(record);
                self.metrics.decisions_lost(self.ring.lost());
            }
            Effect::Cancel(id) => {
                if let Some(event) = self.under_way.cancel(id) {
                    self.local.push_back(event);
                }
            }
            Effect::Do { id, act: Act::Ask { rung, question } } => {
                if let Some(answered) = self.askers.ask(id, rung, question) {
                    self.local.push_back(answered.event);
                }
            }
            Effect::Do { id, act } => self.begin(id, act),
        }
    }

    fn begin(&mut self, id: EffectId, act: Act) {
        match &act {
            Act::List => self.list_began = Some(std::time::Instant::now()),
            Act::StopContainer { id, timeout, cause } => {
                tracing::info!(container = %id, ?cause, seconds = timeout.min(&LONGEST).as_secs(), "stop");
            }
            _ => {}
        }
        self.under_way.begin(&self.performer, &self.inbox, id, act);
    }

    fn stored(&self, result: Result<(), polylet_store::StoreError>) {
        if let Err(error) = result {
            self.metrics.store_failed();
            tell::not_kept("not stored", &error);
        }
    }

    fn answer(&self, question: Asked) {
        let now = facts::now().mono;
        // Whoever asked may have gone; then nobody misses the answer.
        match question {
            Asked::Pods(reply) => drop(reply.send(self.node.views(now))),
            Asked::Object(uid, reply) => drop(reply.send(self.node.object(&uid))),
            Asked::Declared(reply) => drop(reply.send(self.node.declared())),
            Asked::Node(reply) => drop(reply.send((self.node.node_view(now), self.node.last_sample().cloned()))),
            Asked::Ladder(reply) => drop(reply.send(self.node.ladder_view(now))),
        }
    }
}

/// How long pods that are declared when the agent starts wait for the policies that shall judge them.
const POLICIES_MAY_TAKE: Duration = Duration::from_secs(5);

fn spawn_manifests(
    settings: &Settings,
    [of_files, of_url]: [Adoption; 2],
    settled: &tokio::sync::watch::Receiver<bool>,
    (events, faults): (&Arc<Events>, &Arc<Faults>),
    inbox: &mpsc::Sender<Event>,
) {
    let limits = StorageLimits::of(settings);
    let reports = |source| reports(source, limits, (events.clone(), faults.clone()), inbox.clone());
    match &settings.static_pod_path {
        Some(path) => {
            let directory = Directory::new(path, &settings.node_name).adopting(of_files).allowing(&settings.unsafe_sysctls);
            let (every, out) = (settings.file_check, reports(Source::File));
            let bound = policies_bound(settled.clone());
            tokio::spawn(async move {
                bound.await;
                watch::watch(directory, every, out).await;
            });
        }
        None => {
            let inbox = inbox.clone();
            tokio::spawn(async move { inbox.send(Event::Desired { source: Source::File, pods: Vec::new() }).await });
        }
    }
    if let Some(found) = &settings.static_pod_url {
        let url = Url::new(found.clone(), &settings.node_name, &settings.unsafe_sysctls).adopting(of_url);
        let (every, out) = (settings.http_check, reports(Source::Http));
        let (fetcher, bound) = (Fetcher::new(found.clone()), policies_bound(settled.clone()));
        tokio::spawn(async move {
            bound.await;
            url::watch(url, fetcher, every, out).await;
        });
    }
}

async fn policies_bound(mut settled: tokio::sync::watch::Receiver<bool>) {
    if tokio::time::timeout(POLICIES_MAY_TAKE, settled.wait_for(|settled| *settled)).await.is_err() {
        tracing::warn!("policies are still being compiled: pods begin without them");
    }
}

/// Takes what is found at a source: its pods go to the node, what is wrong is told.
fn reports(
    source: Source,
    limits: StorageLimits,
    (events, faults): (Arc<Events>, Arc<Faults>),
    inbox: mpsc::Sender<Event>,
) -> mpsc::Sender<Report> {
    let (out, mut reports) = mpsc::channel::<Report>(4);
    let mut notes = Notes::new(limits);
    tokio::spawn(async move {
        while let Some(report) = reports.recv().await {
            for problem in &report.problems {
                match problem {
                    SourceError::Absent { .. } => tracing::warn!("{problem}"),
                    _ => tracing::error!(error = chain(problem), "a manifest is not used"),
                }
                if let Some(say) = problem.event() {
                    tell::event(&say, &events, facts::now().wall);
                }
            }
            faults.set(source, report.standing);
            let Some(pods) = report.pods else { continue };
            for (pod, note) in notes.news(&pods) {
                tracing::warn!(namespace = pod.namespace, name = pod.name, uid = %pod.uid, "{note}");
            }
            if inbox.send(Event::Desired { source, pods }).await.is_err() {
                return;
            }
        }
    });
    out
}

/// Hints, and what the runtime says of itself: at once when something hints at its return, else every few seconds.
fn spawn_runtime(performer: &Arc<Performer>, hints: polylet_runtime::Hints, inbox: mpsc::Sender<Event>) {
    const EVERY: Duration = Duration::from_secs(5);
    const WHILE_DOWN: Duration = Duration::from_millis(500);
    /// A runtime that says nothing for so long is down, as upstream has it.
    const SILENT: Duration = Duration::from_secs(30);
    let (performer, client) = (performer.clone(), performer.client.clone());
    // The subscription ends with these.
    let polylet_runtime::Hints { mut hints, mut way } = hints;
    tokio::spawn(async move {
        let mut last = None;
        // Whatever comes back may be another one than went.
        let mut was_away = false;
        loop {
            let asked = tokio::time::timeout(SILENT, client.status(false)).await;
            let answer = asked
                .map_err(|_| format!("Status: no answer within {} s", SILENT.as_secs()))
                .and_then(|answer| answer.map_err(|error| error.to_string()));
            let mut state = match &answer {
                Ok(status) => polylet_runtime::runtime_state(status),
                Err(error) => RuntimeState::Down(CallError {
                    operation: "Status".into(),
                    object: client.endpoint().to_string(),
                    kind: CallErrorKind::Unavailable,
                    message: error.clone(),
                }),
            };
            // Before the node hears of its return, and begins something.
            was_away = match &answer {
                Ok(status) => !performer.node.renew(&client, status, &mut way, was_away).await && was_away,
                Err(_) => true,
            };
            let down = answer.is_err();
            // The runtime says only that its network is not ready: the CNI configuration shows more.
            if let RuntimeState::Up { network: Err(said), .. } = &mut state
                && let Some(shown) = why_not_ready(&client).await
            {
                said.push_str(&format!(" (CNI configuration: {shown})"));
            }
            if last.as_ref() != Some(&state) {
                if let RuntimeState::Up { network: Err(said), .. } = &state {
                    tracing::warn!("{said}");
                }
                if inbox.send(Event::Runtime(state.clone())).await.is_err() {
                    return;
                }
                last = Some(state);
            }
            let next = tokio::time::Instant::now() + if down { WHILE_DOWN } else { EVERY };
            loop {
                tokio::select! {
                    () = tokio::time::sleep_until(next) => break,
                    // Nobody hints any more: what is left is to ask from time to time.
                    Some(hint) = hints.recv() => {
                        let everything = hint == Hint::Everything;
                        // After a gap in the hints, too short for a look to fall into it.
                        was_away |= everything;
                        if inbox.send(Event::Hint(hint)).await.is_err() {
                            return;
                        }
                        if everything {
                            break;
                        }
                    }
                }
            }
        }
    });
}
