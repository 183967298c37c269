//! Plays a script against the core and writes down what it does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1;
use polylet_core::ask;
use polylet_core::config::{Config, DeadLimits, Rate};
use polylet_core::effect::{Act, Count, Effect, Rung};
use polylet_core::event::{CallError, CallErrorKind, Event, Hint, Outcome, RuntimeState};
use polylet_core::id::{ContainerId, EffectId, PodUid};
use polylet_core::ladder::Bindings;
use polylet_core::node::Node;
use polylet_core::observed::{ContainerState, SandboxState};
use polylet_core::pod::{Pod, ProbeKind, Source};
use polylet_core::question::{Answer, FailureKind, Hook, PolicyFailure, Verdict, probe};
use polylet_core::record::PodRecord;
use polylet_core::sample::{PodUsage, Reading, Sample};
use polylet_core::say::About;
use polylet_core::time::{Mono, Now, Wall};

use super::{Part, parse};
use crate::sim::{calls::failure, config, runtime::Runtime};

/// 2026-01-01T00:00:00Z in milliseconds.
const EPOCH: u64 = 1_767_225_600_000;

/// Plays a script; returns it with its outputs written anew.
///
/// # Panics
/// On a script that does not parse: the message names the line.
pub fn play(text: &str) -> String {
    let script = parse(text);
    let mut stage = Stage::new(&script.pods);
    let mut out = String::new();
    for part in &script.parts {
        match part {
            Part::Text(line) => {
                let _ = writeln!(out, "{line}");
            }
            Part::Command(line) => {
                let _ = writeln!(out, "{line}");
                stage.command(line.trim_start_matches("> "));
                out.push_str(&std::mem::take(&mut stage.out));
                out.push('\n');
            }
        }
    }
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

struct Stage {
    now: u64,
    booted: u64,
    node: Node,
    rt: Runtime,
    store: BTreeMap<PodUid, PodRecord>,
    pods: BTreeMap<String, Arc<Pod>>,
    names: BTreeMap<PodUid, String>,
    declared: BTreeMap<Source, Vec<String>>,
    /// Nothing is heard of the API.
    silent: bool,
    config: Config,
    /// Bytes of memory that the node has left, and that pods use where a script says so.
    memory: u64,
    uses: BTreeMap<String, u64>,
    queue: BTreeMap<(u64, u64), Todo>,
    turn: u64,
    failures: BTreeMap<String, (u32, String)>,
    sick: BTreeMap<(String, ProbeKind), bool>,
    term: BTreeMap<String, u64>,
    /// How long calls take, by name, where a script says so.
    takes: BTreeMap<String, u64>,
    /// How long hooks take, by container.
    hooks: BTreeMap<String, u64>,
    /// Termination messages of next exits, by container.
    messages: BTreeMap<String, String>,
    /// Those of exits that have been: a status shows them.
    said: BTreeSet<String>,
    policy: BTreeMap<Hook, String>,
    statuses: BTreeMap<PodUid, Arc<v1::PodStatus>>,
    generation: u64,
    out: String,
}

enum Todo {
    Event(Event),
    Apply(EffectId, Act),
    Exit { id: ContainerId, code: i32, reply: Option<EffectId> },
}

impl Stage {
    fn new(pods: &[(String, String)]) -> Self {
        let mut stage = Self {
            now: 0,
            booted: 0,
            node: Node::new(config(), Vec::new(), 1, Now::default()),
            rt: Runtime::default(),
            store: BTreeMap::new(),
            pods: BTreeMap::new(),
            names: BTreeMap::new(),
            declared: BTreeMap::from([(Source::File, vec![]), (Source::Api, vec![])]),
            silent: false,
            config: config(),
            memory: config().memory_capacity,
            uses: BTreeMap::new(),
            queue: BTreeMap::new(),
            turn: 0,
            failures: BTreeMap::new(),
            sick: BTreeMap::new(),
            term: BTreeMap::new(),
            takes: BTreeMap::new(),
            hooks: BTreeMap::new(),
            messages: BTreeMap::new(),
            said: BTreeSet::new(),
            policy: BTreeMap::new(),
            statuses: BTreeMap::new(),
            generation: 0,
            out: String::new(),
        };
        for (name, manifest) in pods {
            let value: serde_json::Value = serde_saphyr::from_str(manifest).unwrap_or_else(|e| panic!("pod {name}: {e}"));
            let mut object: v1::Pod = serde_json::from_value(value).unwrap_or_else(|e| panic!("pod {name}: {e}"));
            defaults(&mut object, name);
            let source =
                if object.metadata.labels.as_ref().is_some_and(|l| l.contains_key("api")) { Source::Api } else { Source::File };
            let pod = Pod::parse(Arc::new(object), source, Wall(EPOCH)).unwrap_or_else(|e| panic!("pod {name}: {e}"));
            for container in &pod.containers {
                stage.rt.images.insert(container.image.clone(), 0);
            }
            stage.names.insert(pod.uid.clone(), name.clone());
            stage.pods.insert(name.clone(), Arc::new(pod));
        }
        stage.begin();
        stage
    }

    fn begin(&mut self) {
        self.queue.clear();
        let records = self.store.values().cloned().collect();
        self.node = Node::new(self.config.clone(), records, 1, self.clock());
        self.step(Event::Runtime(RuntimeState::Up { runtime: Ok(()), network: Ok(()) }));
        self.bind();
        self.declare();
    }

    fn clock(&self) -> Now {
        Now { wall: Wall(EPOCH + self.now), mono: Mono(self.now - self.booted) }
    }

    fn command(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap_or_default();
        let rest: Vec<&str> = words.collect();
        match (verb, rest.as_slice()) {
            ("declare", names) => {
                self.declared.insert(Source::File, names.iter().map(|n| (*n).to_owned()).collect());
                self.declare();
            }
            ("declare-api", names) => {
                self.declared.insert(Source::Api, names.iter().map(|n| (*n).to_owned()).collect());
                self.declare();
            }
            ("pulls", [per_second, burst]) => {
                let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{line}: {text} is no number"));
                self.config.pull_rate = Some(Rate { per_second: number(per_second), burst: number(burst) });
                self.begin();
            }
            ("memory", [amount]) => self.memory = mebibytes(amount),
            ("uses", [pod, amount]) => drop(self.uses.insert((*pod).to_owned(), mebibytes(amount))),
            ("dead", [per_container, total, least_age]) => {
                let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{line}: {text} is no number"));
                let total = Some(*total).filter(|text| *text != "-1").map(number);
                let least_age = Duration::from_millis(millis(least_age));
                self.config.dead = DeadLimits { per_container: number(per_container), total, least_age };
                self.begin();
            }
            ("api", [state]) => {
                self.silent = *state == "silent";
                self.declare();
            }
            ("run", [duration]) => self.run(millis(duration)),
            ("exit", [place, code, how @ ..]) => {
                let id = self.running(place);
                let code = code.parse().unwrap_or_else(|_| panic!("{line}: the code is a number"));
                self.exit(&id, code, None);
                if how.first() == Some(&"oom")
                    && let Some(live) = self.rt.find(&id)
                {
                    live.seen.reason = "OOMKilled".into();
                }
            }
            ("sandbox-dies", [pod]) => {
                let uid = self.pods[*pod].uid.clone();
                if let Some((_, _, s)) = self.rt.sandboxes.iter_mut().rfind(|(u, _, _)| *u == uid) {
                    s.state = SandboxState::NotReady;
                }
                let wall = self.clock().wall;
                for live in self.rt.containers.iter_mut().filter(|c| c.uid == uid) {
                    live.end(wall, 137);
                }
                self.step(Event::Hint(Hint::Pod(uid)));
            }
            ("agent", ["restarts", how @ ..]) => {
                if how.first() == Some(&"forgetting") {
                    self.store.clear();
                }
                self.begin();
            }
            ("machine", ["reboots"]) => {
                let wall = self.clock().wall;
                self.rt.reboot(wall);
                self.booted = self.now;
                self.begin();
            }
            ("runtime", [state]) => {
                let error = || call_error("Status", "runtime", "connection refused", CallErrorKind::Unavailable);
                let state = match *state {
                    "up" => RuntimeState::Up { runtime: Ok(()), network: Ok(()) },
                    _ => RuntimeState::Down(error()),
                };
                self.step(Event::Runtime(state));
            }
            ("network", [state]) => {
                let network = match *state {
                    "up" => Ok(()),
                    _ => Err(
                        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:no plugin"
                            .into(),
                    ),
                };
                self.step(Event::Runtime(RuntimeState::Up { runtime: Ok(()), network }));
            }
            ("fail", [call, how @ ..]) => {
                let times = how.first().and_then(|n| n.parse().ok());
                let message = how[usize::from(times.is_some()).min(how.len())..].join(" ");
                let message = if message.is_empty() { "it is broken".to_owned() } else { message };
                self.failures.insert((*call).to_owned(), (times.unwrap_or(1), message));
            }
            ("takes", [call, duration]) => {
                self.takes.insert((*call).to_owned(), millis(duration));
            }
            ("hook", [place, duration]) => {
                self.hooks.insert((*place).to_owned(), millis(duration));
            }
            ("message", [place, text @ ..]) => {
                self.messages.insert((*place).to_owned(), text.join(" "));
            }
            ("unknown" | "known", [place]) => {
                let all = self.rt.containers.iter().filter(|c| self.place(&c.seen.id) == **place);
                let newest = all.max_by_key(|c| c.seen.attempt).unwrap_or_else(|| panic!("{line}: there is no such container"));
                let id = newest.seen.id.clone();
                match verb {
                    "unknown" => self.rt.unknown.insert(id.clone()),
                    _ => self.rt.unknown.remove(&id),
                };
                self.step(Event::Hint(Hint::Id(id.as_str().to_owned())));
            }
            ("sandbox-unknown" | "sandbox-known", [pod]) => {
                let uid = self.pods[*pod].uid.clone();
                let newest = self.rt.sandboxes.iter().filter(|(u, _, _)| *u == uid).max_by_key(|(_, _, s)| s.attempt);
                let id = newest.map(|(_, _, s)| s.id.clone()).unwrap_or_else(|| panic!("{line}: it has no sandbox"));
                match verb {
                    "sandbox-unknown" => self.rt.hidden.insert(id, "no such task".into()),
                    _ => self.rt.hidden.remove(&id),
                };
                self.step(Event::Hint(Hint::Pod(uid)));
            }
            ("probe", [place, kind, state]) => {
                self.sick.insert(((*place).to_owned(), probe_kind(kind)), *state != "ok");
            }
            ("term", [place, duration]) => {
                self.term.insert((*place).to_owned(), millis(duration));
            }
            ("image", [image, "absent"]) => {
                self.rt.images.remove(*image);
            }
            ("image", [image, "present"]) => {
                self.rt.images.insert((*image).to_owned(), 0);
            }
            ("policy", [hook, answer @ ..]) => {
                let hook = Hook::ALL.into_iter().find(|h| h.as_str() == *hook).unwrap_or_else(|| panic!("{line}: no such hook"));
                let answer = answer.join(" ");
                if answer == "none" {
                    self.policy.remove(&hook);
                } else {
                    self.policy.insert(hook, answer);
                }
                self.bind();
            }
            ("status", [pod]) => self.status(pod),
            _ => panic!("{line}: not a command of scenarios"),
        }
    }

    fn declare(&mut self) {
        let heard: &[Source] = if self.silent { &[Source::File] } else { &[Source::File, Source::Api] };
        for &source in heard {
            let pods =
                self.declared[&source].iter().map(|n| self.pods.get(n).unwrap_or_else(|| panic!("no pod {n}")).clone()).collect();
            self.step(Event::Desired { source, pods });
        }
    }

    fn bind(&mut self) {
        self.generation += 1;
        let rungs = self
            .policy
            .iter()
            .map(|(hook, text)| {
                let digest = format!("sha256:{}", self.generation).as_str().into();
                (*hook, vec![Rung::Bound { name: text.clone(), digest, config: "none".into() }])
            })
            .collect();
        self.step(Event::Policies(Arc::new(Bindings { generation: self.generation, rungs })));
    }

    fn run(&mut self, ms: u64) {
        let end = self.now + ms;
        loop {
            let wake = self.node.next_wakeup().map(|m| (m.0 + self.booted).max(self.now + 1));
            let queued = self.queue.first_key_value().map(|((at, _), _)| *at);
            let next = [wake, queued].into_iter().flatten().min().filter(|at| *at <= end);
            let Some(at) = next else { break };
            self.now = at.max(self.now);
            if queued == Some(at) {
                if let Some((_, todo)) = self.queue.pop_first() {
                    self.happen(todo);
                }
            } else {
                self.step(Event::Tick);
            }
        }
        self.now = end;
    }

    fn happen(&mut self, todo: Todo) {
        match todo {
            Todo::Event(event) => self.step(event),
            Todo::Apply(id, act) => self.apply(id, act),
            Todo::Exit { id, code, reply } => self.exit(&id, code, reply),
        }
    }

    fn after(&mut self, ms: u64, todo: Todo) {
        self.turn += 1;
        self.queue.insert((self.now + ms, self.turn), todo);
    }

    fn step(&mut self, event: Event) {
        let effects = self.node.step(self.clock(), event);
        for effect in effects {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Remember(record) => {
                self.store.insert(record.uid.clone(), (*record).clone());
            }
            Effect::Forget(uid) => {
                self.store.remove(&uid);
                let name = self.name(&uid);
                self.say(&format!("forgotten {name}"));
            }
            Effect::Say(say) => {
                let about = match &say.about {
                    About::Node => "node".to_owned(),
                    About::Pod { uid, container, .. } => {
                        let name = self.name(uid);
                        container.as_ref().map_or(name.clone(), |(_, c)| format!("{name}/{c}"))
                    }
                };
                let kind = if say.warning { "Warning" } else { "Normal" };
                self.say(&format!("{kind} {} {about}: {}", say.reason, say.message));
            }
            Effect::Count(Count::NotStarted { kind, code }) => self.say(&format!("counted: {kind:?} not started, {code}")),
            Effect::Count(Count::Evicted { signal }) => self.say(&format!("counted: eviction for {signal}")),
            Effect::Publish { pod, status } => {
                let phase = |s: &v1::PodStatus| s.phase.clone().unwrap_or_default();
                let ready = |s: &v1::PodStatus| s.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
                let name = self.name(&pod);
                let old = self.statuses.insert(pod, status.clone());
                let (was, is) = (old.as_deref().map(|s| (phase(s), ready(s))), (phase(&status), ready(&status)));
                if was.as_ref() != Some(&is) {
                    self.say(&format!("{name} is {}{}", is.0, if is.1 { ", ready" } else { "" }));
                }
            }
            Effect::Decided(record) => {
                if let Some((Rung::Bound { .. }, _)) = record.asked.last()
                    && !record.clamped.is_empty()
                {
                    self.say(&format!("guard: {}", record.clamped.join("; ")));
                }
            }
            Effect::Cancel(id) => {
                let error = call_error("call", "it", "cancelled", CallErrorKind::Cancelled);
                self.after(1, Todo::Event(Event::Done { id, result: Err(error) }));
            }
            Effect::Do { id, act } => {
                if let Some(text) = self.describe(&act) {
                    self.say(&text);
                }
                let hook = match &act {
                    Act::Hook { container, .. } => self.hooks.get(&self.place(container)),
                    _ => None,
                };
                let said = hook.or_else(|| self.takes.get(call_name(&act))).copied();
                let takes = said.unwrap_or(match &act {
                    Act::RunSandbox { .. } => 100,
                    Act::StartContainer { .. } => 50,
                    Act::CreateContainer { .. } => 10,
                    Act::PullImage { .. } => 500,
                    Act::StopSandbox { .. } => 20,
                    _ => 1,
                });
                match &act {
                    Act::Hook { budget: Some(most), .. } if most.as_millis() < takes.into() => {
                        let result = Err(call_error("hook", "it", "deadline exceeded", CallErrorKind::Other));
                        self.after(most.as_millis() as u64, Todo::Event(Event::Done { id, result }));
                    }
                    _ => self.after(takes, Todo::Apply(id, act)),
                }
            }
        }
    }

    fn apply(&mut self, id: EffectId, act: Act) {
        let wall = self.clock().wall;
        let call = call_name(&act);
        if let Some((times, message)) = self.failures.get_mut(call) {
            let error = call_error(call, "it", &message.clone(), CallErrorKind::Other);
            *times -= 1;
            if *times == 0 {
                self.failures.remove(call);
            }
            return self.step(failure(id, &act, error));
        }
        let event = match &act {
            Act::List => Event::Listed { id, result: Ok(self.rt.listing()) },
            Act::Observe(uid) => Event::Observed { id, pod: uid.clone(), result: Ok(self.rt.observe(uid)) },
            Act::Sample => Event::Sampled { id, result: Ok(Arc::new(self.sample())) },
            Act::Ask { rung, question } => {
                let answer = match rung {
                    Rung::Bound { name, .. } if name == "traps" => {
                        Err(PolicyFailure { kind: FailureKind::Trap, message: "it traps".into() })
                    }
                    Rung::Bound { name, .. } => {
                        let answer: Answer = serde_json::from_str(name).unwrap_or_else(|e| panic!("answer {name}: {e}"));
                        Ok(Some(answer))
                    }
                    _ => Ok(Some(ask::native(question))),
                };
                let verdict = Verdict { answer, fuel: 0, nanos: 0, store_reads: vec![], log: vec![] };
                Event::Done { id, result: Ok(Outcome::Verdict(verdict)) }
            }
            Act::Probe { pod, container, kind, .. } => {
                let place = format!("{}/{container}", self.name(&pod.uid));
                let sick = self.sick.get(&(place, *kind)).copied().unwrap_or(false);
                let outcome = if sick { probe::Outcome::Failed(probe::Failure::Refused) } else { probe::Outcome::TcpOpen };
                let text = if sick { "dial tcp: connect: connection refused".to_owned() } else { String::new() };
                Event::Done { id, result: Ok(Outcome::Probed { outcome, text, latency: Duration::from_millis(1) }) }
            }
            Act::StartContainer { id: container, .. } => {
                let found = self.rt.find(container).filter(|c| c.seen.state == ContainerState::Created);
                let result = match found {
                    Some(live) => {
                        live.seen.state = ContainerState::Running;
                        live.seen.started = Some(wall);
                        Ok(Outcome::Unit)
                    }
                    None => Err(call_error("StartContainer", container.as_str(), "not found", CallErrorKind::NotFound)),
                };
                Event::Done { id, result }
            }
            Act::StopContainer { id: container, timeout, .. } => {
                let most = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
                let place = self.place(container);
                let takes = self.term.get(&place).copied().unwrap_or(10);
                let (code, after) = if takes <= most { (0, takes) } else { (137, most) };
                if self.rt.find(container).is_some_and(|c| c.seen.state == ContainerState::Running) {
                    return self.after(after, Todo::Exit { id: container.clone(), code, reply: Some(id) });
                }
                self.rt.unknown.remove(container);
                Event::Done { id, result: Ok(Outcome::Unit) }
            }
            _ => Event::Done { id, result: self.rt.carry_out(&act, wall) },
        };
        self.step(event);
    }

    fn exit(&mut self, id: &ContainerId, code: i32, reply: Option<EffectId>) {
        let wall = self.clock().wall;
        let message = self.messages.remove(&self.place(id));
        self.said.extend(message.clone());
        if let Some(live) = self.rt.find(id) {
            live.end(wall, code);
            live.seen.message = message.unwrap_or_default();
        }
        if let Some(effect) = reply {
            // What it has stopped, it knows.
            self.rt.unknown.remove(id);
            self.step(Event::Done { id: effect, result: Ok(Outcome::Unit) });
        } else {
            self.step(Event::Hint(Hint::Id(id.as_str().to_owned())));
        }
    }

    fn status(&mut self, pod: &str) {
        let Some(status) = self.statuses.get(&self.pods[pod].uid).cloned() else {
            return self.line("no status");
        };
        let text = |s: &Option<String>| s.clone().unwrap_or_default();
        self.line(&format!("phase {} {} {}", text(&status.phase), text(&status.reason), text(&status.message)));
        for c in status.conditions.iter().flatten() {
            self.line(&format!("{} {} {} {}", c.type_, c.status, text(&c.reason), text(&c.message)));
        }
        for c in status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten()) {
            let state = |s: &Option<v1::ContainerState>| {
                let Some(s) = s else { return "-".to_owned() };
                if let Some(w) = &s.waiting {
                    return format!("waiting {} {}", text(&w.reason), text(&w.message));
                }
                if let Some(t) = &s.terminated {
                    let message =
                        t.message.as_ref().filter(|m| self.said.contains(*m)).map_or(String::new(), |m| format!(": {m}"));
                    return format!("terminated {} {}{message}", t.exit_code, text(&t.reason));
                }
                if s.running.is_some() { "running".to_owned() } else { "-".to_owned() }
            };
            self.line(&format!(
                "{} ready={} started={} restarts={} {} (before: {})",
                c.name,
                c.ready,
                c.started.unwrap_or(false),
                c.restart_count,
                state(&c.state),
                state(&c.last_state)
            ));
        }
    }

    fn sample(&self) -> Sample {
        let reading = Reading { available: self.memory, capacity: self.config.memory_capacity };
        let usage = |name: &String| PodUsage { memory_working_set: self.uses.get(name).copied(), ..PodUsage::default() };
        Sample {
            at: self.clock().wall,
            signals: [("memory.available".to_owned(), reading)].into(),
            pods: self.names.iter().map(|(uid, name)| (uid.clone(), usage(name))).collect(),
            ..Sample::default()
        }
    }

    fn describe(&self, act: &Act) -> Option<String> {
        Some(match act {
            Act::List
            | Act::Observe(_)
            | Act::Sample
            | Act::FindLeftovers
            | Act::Ask { .. }
            | Act::InspectImage { .. }
            | Act::Probe { .. } => {
                return None;
            }
            Act::PullImage { image, .. } => format!("PullImage {image}"),
            Act::Prepare { pod, .. } => format!("prepare {}", self.name(&pod.uid)),
            Act::RunSandbox { pod, attempt, .. } => format!("RunPodSandbox {} attempt {attempt}", self.name(&pod.uid)),
            Act::CreateContainer { pod, container, attempt, target, .. } => {
                let beside = target.as_ref().map(|id| format!(" beside {}", self.place(id))).unwrap_or_default();
                format!("CreateContainer {}/{container} attempt {attempt}{beside}", self.name(&pod.uid))
            }
            Act::StartContainer { pod, container, .. } => format!("StartContainer {}/{container}", self.name(&pod.uid)),
            Act::Hook { container, budget, .. } => {
                let which = if budget.is_some() { "preStop" } else { "postStart" };
                format!("hook {which} {}", self.place(container))
            }
            Act::StopContainer { id, timeout, cause } => {
                format!("StopContainer {} within {} s: {cause:?}", self.place(id), timeout.as_secs())
            }
            Act::RemoveContainer { id, .. } => format!("RemoveContainer {}", self.place(id)),
            Act::StopSandbox { id } => format!("StopPodSandbox {id}"),
            Act::RemoveSandbox { id } => format!("RemovePodSandbox {id}"),
            Act::CleanUp { pod, gone, .. } => {
                format!("clean up {}{}", self.name(pod), if *gone { ", logs too" } else { "" })
            }
        })
    }

    fn running(&self, place: &str) -> ContainerId {
        self.rt
            .containers
            .iter()
            .find(|c| self.place(&c.seen.id) == place && c.seen.state == ContainerState::Running)
            .map(|c| c.seen.id.clone())
            .unwrap_or_else(|| panic!("{place} does not run at {} ms", self.now))
    }

    fn place(&self, id: &ContainerId) -> String {
        let found = self.rt.containers.iter().find(|c| c.seen.id == *id);
        found.map_or_else(|| id.to_string(), |c| format!("{}/{}", self.name(&c.uid), c.seen.name))
    }

    fn name(&self, uid: &PodUid) -> String {
        self.names.get(uid).cloned().unwrap_or_else(|| uid.to_string())
    }

    fn say(&mut self, text: &str) {
        let _ = writeln!(self.out, "  {:>9.3} {text}", self.now as f64 / 1000.0);
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "  | {}", text.trim_end());
    }
}

fn mebibytes(text: &str) -> u64 {
    let number = text.strip_suffix("Mi").and_then(|number| number.parse::<u64>().ok());
    number.unwrap_or_else(|| panic!("{text} is no amount such as 100Mi")) << 20
}

fn call_name(act: &Act) -> &'static str {
    match act {
        Act::List => "List",
        Act::Observe(_) => "Observe",
        Act::InspectImage { .. } => "ImageStatus",
        Act::PullImage { .. } => "PullImage",
        Act::Prepare { .. } => "prepare",
        Act::RunSandbox { .. } => "RunPodSandbox",
        Act::CreateContainer { .. } => "CreateContainer",
        Act::StartContainer { .. } => "StartContainer",
        Act::Hook { .. } => "hook",
        Act::StopContainer { .. } => "StopContainer",
        Act::RemoveContainer { .. } => "RemoveContainer",
        Act::StopSandbox { .. } => "StopPodSandbox",
        Act::RemoveSandbox { .. } => "RemovePodSandbox",
        Act::CleanUp { .. } => "clean-up",
        Act::Probe { .. } => "probe",
        Act::Ask { .. } => "ask",
        Act::Sample => "sample",
        Act::FindLeftovers => "find-leftovers",
    }
}

fn call_error(operation: &str, object: &str, message: &str, kind: CallErrorKind) -> CallError {
    CallError { operation: operation.into(), object: object.into(), kind, message: message.into() }
}

fn probe_kind(text: &str) -> ProbeKind {
    ProbeKind::ALL
        .into_iter()
        .find(|k| k.as_str().eq_ignore_ascii_case(text))
        .unwrap_or_else(|| panic!("{text} is not a kind of probe"))
}

fn millis(text: &str) -> u64 {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len()));
    let number: u64 = number.parse().unwrap_or_else(|_| panic!("{text} is not a duration"));
    match unit {
        "ms" => number,
        "s" => number * 1000,
        "m" => number * 60_000,
        "h" => number * 3_600_000,
        _ => panic!("{text} is not a duration: ms, s, m or h"),
    }
}

/// The few defaults that a scenario's manifest leaves out.
fn defaults(object: &mut v1::Pod, name: &str) {
    object.metadata.name.get_or_insert_with(|| name.to_owned());
    object.metadata.namespace.get_or_insert_with(|| "default".to_owned());
    object.metadata.uid.get_or_insert_with(|| format!("uid-{name}"));
    let Some(spec) = &mut object.spec else { return };
    spec.restart_policy.get_or_insert_with(|| "Always".to_owned());
    spec.termination_grace_period_seconds.get_or_insert(30);
    for c in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        c.image.get_or_insert_with(|| "img:1".to_owned());
        c.image_pull_policy.get_or_insert_with(|| "IfNotPresent".to_owned());
        c.termination_message_path.get_or_insert_with(|| "/dev/termination-log".to_owned());
        c.termination_message_policy.get_or_insert_with(|| "File".to_owned());
        for p in [&mut c.liveness_probe, &mut c.readiness_probe, &mut c.startup_probe].into_iter().flatten() {
            p.period_seconds.get_or_insert(10);
            p.timeout_seconds.get_or_insert(1);
            p.success_threshold.get_or_insert(1);
            p.failure_threshold.get_or_insert(3);
        }
    }
}
