//! Asking policies: down the ladder until a rung answers, through the guard, into the record, to whoever wanted to know.
//!
//! **Invariant:** an answer is used only for the question it was given to; one from a rung that is no longer bound is dropped and the question asked again.

use std::sync::Arc;
use std::time::Duration;

use crate::ask;
use crate::decision::DecisionRecord;
use crate::effect::{Act, Effect, Rung};
use crate::event::{CallError, Outcome};
use crate::evict::Short;
use crate::guard::{self, Guarded};
use crate::id::{ContainerId, ContainerName, PodUid};
use crate::observed::Observed;
use crate::pod::{Container, Pod, ProbeKind};
use crate::question::restart::{Bounds, Cause, Termination};
use crate::question::{Answer, Body, FailureKind, PolicyFailure, Question, Verdict};
use crate::record::Backoff;
use crate::restart::{advance, backoff_key, default_delay, go_duration};
use crate::time::{Wall, millis};

use super::cx::{Cx, What};
use super::worker::{Life, Place, Restart, RestartState, Worker};

/// A question under way.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    question: Arc<Question>,
    target: Target,
    /// Place of the rung asked.
    place: usize,
    rung: Rung,
    /// Rungs that failed before.
    before: Vec<(Rung, Verdict)>,
    /// For the record.
    pod: String,
    container: String,
}

/// Who wanted to know.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Target {
    /// A container ended: the question of this number about it.
    Exit { pod: PodUid, container: ContainerName, of: ContainerId, question: u64 },
    /// Something failed before there was a container of this image.
    Failure { pod: PodUid, container: ContainerName, image: String, cause: Cause, question: u64 },
    /// A probe attempt returned.
    Probe {
        pod: PodUid,
        container: ContainerName,
        kind: ProbeKind,
        id: ContainerId,
        text: String,
        mercy: bool,
        longest_grace: u64,
    },
    /// A pod is admitted.
    Place { pod: PodUid },
    /// A sampling.
    Assess,
    /// This shortage.
    Rank(Box<Short>),
}

impl Target {
    pub(super) fn pod(&self) -> Option<&PodUid> {
        match self {
            Self::Exit { pod, .. } | Self::Failure { pod, .. } | Self::Probe { pod, .. } | Self::Place { pod } => Some(pod),
            Self::Assess | Self::Rank(_) => None,
        }
    }
}

/// A question answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Settled {
    pub(super) target: Target,
    pub(super) question: Arc<Question>,
    pub(super) answer: Answer,
}

/// Asks. `seen` is what the runtime has of the pod spoken of. The answer comes at once where the native rung gives it, else with the
/// effect's end.
pub(super) fn ask(
    cx: &mut Cx<'_>,
    mut question: Question,
    target: Target,
    seen: Option<&Observed>,
    pod: String,
    container: String,
) -> Option<Settled> {
    let usage = target.pod().and_then(|pod| cx.shared.sample.pods.get(pod));
    let id = |name: &str| seen.and_then(|seen| seen.newest(name)).map(|newest| &newest.id);
    ask::add_measured(&mut question, cx.now, &cx.shared.sample, usage, id);
    question.words.texts.insert("node.name".into(), cx.config().node_name.clone());
    question.facts.numbers.insert("node.agent.uptime".into(), millis(cx.now.mono.since(cx.shared.born.mono)) as i64);
    let asked = Asked { question: Arc::new(question), target, place: 0, rung: Rung::Native, before: Vec::new(), pod, container };
    put(cx, asked, 0)
}

/// A rung answered, or failed to.
pub(super) fn answered(cx: &mut Cx<'_>, asked: Asked, result: Result<Outcome, CallError>) -> Option<Settled> {
    let hook = asked.question.body.hook();
    if !cx.shared.ladder.is_bound(hook, &asked.rung) {
        return put(cx, Asked { before: Vec::new(), ..asked }, 0);
    }
    let verdict = match result {
        Ok(Outcome::Verdict(verdict)) => verdict,
        Ok(_) => failure(FailureKind::Host, "the host answered another question".into()),
        Err(error) => failure(FailureKind::Host, error.to_string()),
    };
    judge(cx, asked, verdict)
}

/// Puts the question to the first rung at or after a place that is not resting.
fn put(cx: &mut Cx<'_>, mut asked: Asked, from: usize) -> Option<Settled> {
    let hook = asked.question.body.hook();
    (asked.place, asked.rung) = cx.shared.ladder.rung(hook, from, cx.now.mono);
    if asked.rung == Rung::Native {
        let answer = Ok(Some(ask::native(&asked.question)));
        let verdict = Verdict { answer, fuel: 0, nanos: 0, store_reads: Vec::new(), log: Vec::new() };
        return judge(cx, asked, verdict);
    }
    let act = Act::Ask { rung: asked.rung.clone(), question: asked.question.clone() };
    let pod = asked.target.pod().cloned();
    cx.act(pod.as_ref(), What::Ask(Box::new(asked)), act);
    None
}

/// Uses a verdict, or takes one step down.
fn judge(cx: &mut Cx<'_>, mut asked: Asked, mut verdict: Verdict) -> Option<Settled> {
    let hook = asked.question.body.hook();
    let answer = match &verdict.answer {
        // An abstention: the default stands.
        Ok(None) => Ok(ask::native(&asked.question)),
        Ok(Some(answer)) => Ok(answer.clone()),
        Err(failure) => Err(failure.clone()),
    };
    let guarded = answer.and_then(|answer| {
        guarded(cx, &asked, answer).map_err(|message| PolicyFailure { kind: FailureKind::BadAnswer, message })
    });
    match guarded {
        Ok(Guarded { answer, clamped }) => {
            cx.shared.ladder.succeeded(hook, &asked.rung);
            asked.before.push((asked.rung.clone(), verdict));
            cx.shared.decisions += 1;
            let (question, withheld) = ask::redact(&asked.question);
            cx.out.push(Effect::Decided(Arc::new(DecisionRecord {
                number: cx.shared.decisions,
                at: cx.now.wall,
                hook,
                pod: asked.pod,
                container: asked.container,
                asked: asked.before,
                question: Arc::new(question),
                withheld,
                answer: answer.clone(),
                clamped,
            })));
            Some(Settled { target: asked.target, question: asked.question, answer })
        }
        Err(failure) => {
            cx.shared.ladder.failed(hook, &asked.rung, failure.kind, cx.now.mono);
            verdict.answer = Err(failure);
            asked.before.push((asked.rung.clone(), verdict));
            let next = asked.place + 1;
            put(cx, asked, next)
        }
    }
}

fn guarded(cx: &Cx<'_>, asked: &Asked, answer: Answer) -> Result<Guarded<Answer>, String> {
    let config = cx.config();
    let wrong = || Err("the answer is to another function than the question".to_owned());
    match (&asked.question.body, answer) {
        (Body::Restart(q), Answer::Restart(a)) => Ok(guard::restart(q, a, config).map(Answer::Restart)),
        (Body::Probe(q), Answer::Probe(a)) => {
            let (mercy, longest) = match asked.target {
                Target::Probe { mercy, longest_grace, .. } => (mercy, longest_grace),
                _ => return wrong(),
            };
            Ok(guard::probe(q, a, mercy, longest).map(Answer::Probe))
        }
        (Body::Qos(q), Answer::Qos(a)) => Ok(guard::qos(q, a, config)?.map(Answer::Qos)),
        (Body::Assess(q), Answer::Assess(a)) => Ok(guard::assess(q, a).map(Answer::Assess)),
        (Body::Rank(q), Answer::Rank(a)) => Ok(guard::rank(q, a, config.evict_static)?.map(Answer::Rank)),
        _ => wrong(),
    }
}

/// Under which key the backoff after a failure is kept, and its bounds.
fn failure_backoff(cx: &Cx<'_>, container: &Container, cause: Cause) -> (String, Bounds) {
    match cause {
        Cause::ImagePullFailed => (container.image.clone(), cx.config().image_backoff),
        _ => (format!("{cause:?}/{}", container.name), Bounds::POD_RETRY),
    }
}

fn failure(kind: FailureKind, message: String) -> Verdict {
    Verdict { answer: Err(PolicyFailure { kind, message }), fuel: 0, nanos: 0, store_reads: Vec::new(), log: Vec::new() }
}

impl Worker {
    fn put(&mut self, cx: &mut Cx<'_>, question: Question, target: Target, container: &str) {
        let settled = ask(cx, question, target, self.last_seen(), self.describe(), container.to_owned());
        if let Some(settled) = settled {
            self.settled(cx, settled);
        }
    }

    /// Asks when a container that ended is tried again.
    pub(super) fn ask_after_exit(&mut self, cx: &mut Cx<'_>, container: &Container, of: Option<&ContainerId>) {
        let Some((pod, of)) = self.pod.clone().zip(of.cloned()) else { return };
        let name = &container.name;
        let Some(last) = self.record.containers.get(name).and_then(|c| c.history.last()).cloned() else { return };
        let number = self.next_question();
        self.restarts.insert(name.clone(), Restart { of: Some(of.clone()), state: RestartState::Asking(number) });
        let key = backoff_key(container);
        let entry = self.record.containers.get(name).and_then(|c| c.backoff.clone()).filter(|b| b.key == key);
        let entry = entry.filter(|entry| self.waits_for(cx, container, &of, entry));
        let mut question = self.restart_question(cx, &pod, container, last, entry.as_ref(), cx.config().restart);
        if let Some(end) = self.record.containers.get(name).and_then(|c| c.last.as_ref()) {
            ask::add_failure(&mut question, &end.reason, &end.message);
        }
        let target = Target::Exit { pod: self.uid.clone(), container: name.clone(), of, question: number };
        self.put(cx, question, target, name.as_str());
    }

    /// Whether a backoff is to be waited out. What the node itself ended is begun anew in the same go, and judged, as upstream judges it, by
    /// the end before: only where that is still being waited out, the wait is its own.
    fn waits_for(&self, cx: &Cx<'_>, container: &Container, of: &ContainerId, entry: &Backoff) -> bool {
        let Some(record) = self.record.containers.get(&container.name).filter(|c| c.owes(of)) else {
            return true;
        };
        let Some((before, kill)) = record.end_before().zip(record.history.last()) else { return false };
        let wait = default_delay(Some(entry), &entry.key, Wall(before.at), &cx.config().restart);
        wait > Wall(kill.at).since(Wall(before.at))
    }

    /// Asks when something that must happen before a container can run is tried again.
    pub(super) fn ask_after_failure(&mut self, cx: &mut Cx<'_>, container: &Container, cause: Cause) {
        let now = cx.now.wall;
        let (key, bounds) = failure_backoff(cx, container, cause);
        // A failure moves the backoff on by itself: the wait after it is the new one.
        let entry = advance(self.pull_backoff.get(&key), &key, now, now, &bounds);
        self.pull_backoff.insert(key, entry);
        self.ask_about_failure(cx, container, cause);
    }

    /// Asks about the last failure of this kind, where there was one.
    fn ask_about_failure(&mut self, cx: &mut Cx<'_>, container: &Container, cause: Cause) {
        let (key, bounds) = failure_backoff(cx, container, cause);
        let Some((pod, entry)) = self.pod.clone().zip(self.pull_backoff.get(&key).cloned()) else { return };
        let name = &container.name;
        let number = self.next_question();
        if cause == Cause::StartFailed {
            self.restarts.insert(name.clone(), Restart { of: None, state: RestartState::Asking(number) });
        }
        let last = Termination { at: entry.updated.0, ran_for: 0, exit_code: 0, signal: None, out_of_memory: false, cause };
        let mut question = self.restart_question(cx, &pod, container, last, Some(&entry), bounds);
        if let Some(why) = self.waiting.get(name) {
            ask::add_failure(&mut question, &why.reason, &why.message);
        }
        let (pod, image) = (self.uid.clone(), container.image.clone());
        let target = Target::Failure { pod, container: name.clone(), image, cause, question: number };
        self.put(cx, question, target, name.as_str());
    }

    fn next_question(&mut self) -> u64 {
        self.questions += 1;
        self.questions
    }

    fn restart_question(
        &self,
        cx: &Cx<'_>,
        pod: &Pod,
        container: &Container,
        last: Termination,
        entry: Option<&Backoff>,
        bounds: Bounds,
    ) -> Question {
        let history = self.record.containers.get(&container.name).map(|c| c.history.as_slice()).unwrap_or_default();
        ask::restart_question(&ask::Restart {
            pod,
            container,
            record: &self.record,
            node: cx.node_facts(),
            last,
            history,
            backoff: entry,
            bounds,
        })
    }

    /// Asks where the pod stands.
    pub(super) fn ask_for_place(&mut self, cx: &mut Cx<'_>, pod: &Arc<Pod>) {
        self.place = Place::Asking;
        let question = ask::qos_question(pod, &self.record, cx.node_facts(), cx.config());
        self.put(cx, question, Target::Place { pod: self.uid.clone() }, "");
    }

    /// Asks what a probe attempt means.
    pub(super) fn ask_about_probe(&mut self, cx: &mut Cx<'_>, question: Question, target: Target, container: &str) {
        self.put(cx, question, target, container);
    }

    /// Policies of the restart hook changed: what waits is judged anew.
    pub(super) fn ask_again(&mut self, cx: &mut Cx<'_>) {
        let Some(pod) = self.pod.clone() else { return };
        let waiting: Vec<(ContainerName, Option<ContainerId>)> = self
            .restarts
            .iter()
            .filter(|(_, r)| !matches!(r.state, RestartState::Asking(_)))
            .map(|(name, r)| (name.clone(), r.of.clone()))
            .collect();
        for (name, of) in waiting {
            match (pod.container(name.as_str()), &of) {
                (Some(container), Some(_)) => self.ask_after_exit(cx, container, of.as_ref()),
                (Some(container), None) => self.ask_about_failure(cx, container, Cause::StartFailed),
                (None, _) => {}
            }
        }
        for container in self.ask_again_for_images() {
            self.ask_about_failure(cx, &container, Cause::ImagePullFailed);
        }
        if let Some(first) = pod.init_containers().chain(pod.app_containers()).next()
            && self.waits_for_a_sandbox(cx, first)
        {
            self.ask_about_failure(cx, first, Cause::SandboxFailed);
        }
    }

    /// Whether what is held is held for a sandbox that failed, rather than for what is made ready before it or put away after it.
    fn waits_for_a_sandbox(&self, cx: &Cx<'_>, first: &Container) -> bool {
        let (key, _) = failure_backoff(cx, first, Cause::SandboxFailed);
        let lasts = |entry: &Backoff| cx.now.wall.since(entry.updated) < Duration::from_millis(entry.delay);
        let held = self.life == Life::Running && self.hold.is_some_and(|until| until > cx.now.mono);
        held && self.pull_backoff.get(&key).is_some_and(lasts)
    }

    /// A sandbox is there: what was waited for before it is over.
    pub(super) fn sandbox_made(&mut self) {
        self.hold = None;
        let of_sandbox = format!("{:?}/", Cause::SandboxFailed);
        self.pull_backoff.retain(|key, _| !key.starts_with(&of_sandbox));
    }

    /// An answer arrived.
    pub(super) fn settled(&mut self, cx: &mut Cx<'_>, settled: Settled) {
        match (settled.target, settled.answer) {
            (Target::Exit { container, of, question, .. }, Answer::Restart(answer)) => {
                let Some(restart) = self.restarts.get(&container) else { return };
                if restart.of.as_ref() != Some(&of) || restart.state != RestartState::Asking(question) {
                    return;
                }
                let finished = Wall(match &settled.question.body {
                    Body::Restart(q) => q.last.at,
                    _ => cx.now.wall.0,
                });
                let state = if answer.give_up {
                    RestartState::GivenUp { reason: answer.reason }
                } else {
                    let delay = Duration::from_millis(answer.delay);
                    let wall = finished + delay;
                    // A clock that jumped makes nobody wait longer than the delay.
                    let left = wall.since(cx.now.wall).min(delay);
                    let at = cx.now.mono + left;
                    if left > Duration::ZERO {
                        cx.wake_at(at);
                        let text = format!("Back-off restarting failed container {container} in pod {}", self.describe());
                        self.say(cx, Some(&container), true, "BackOff", text);
                        let shown = go_duration(delay);
                        let text = format!("back-off {shown} restarting failed container={container} pod={}", self.describe());
                        self.wait(&container, "CrashLoopBackOff", text);
                    }
                    RestartState::Due { at, wall, delay, reason: answer.reason }
                };
                self.restarts.insert(container, Restart { of: Some(of), state });
                self.status_due = true;
            }
            (Target::Failure { container, image, cause, question, .. }, Answer::Restart(answer)) => {
                let delay = Duration::from_millis(answer.delay);
                let failed = match &settled.question.body {
                    Body::Restart(q) => Wall(q.last.at),
                    _ => cx.now.wall,
                };
                let left = delay.saturating_sub(cx.now.wall.since(failed));
                let at = cx.now.mono + left;
                match cause {
                    Cause::ImagePullFailed => self.pull_later(cx, &image, left),
                    Cause::SandboxFailed => {
                        if self.life == Life::Running {
                            self.hold = Some(at);
                            cx.wake_at(at);
                        }
                    }
                    _ => {
                        let state = if answer.give_up {
                            RestartState::GivenUp { reason: answer.reason }
                        } else {
                            cx.wake_at(at);
                            RestartState::Due { at, wall: cx.now.wall + left, delay, reason: answer.reason }
                        };
                        let asked = Restart { of: None, state: RestartState::Asking(question) };
                        if self.restarts.get(&container) == Some(&asked) {
                            self.restarts.insert(container, Restart { of: None, state });
                        }
                    }
                }
            }
            (Target::Place { .. }, Answer::Qos(answer)) => {
                if matches!(self.place, Place::Asking) {
                    self.record.placement = Some(answer.placement.clone());
                    self.place = Place::Given(Arc::new(answer.placement));
                }
            }
            (Target::Probe { container, kind, id, text, .. }, Answer::Probe(answer)) => {
                self.probe_judged(cx, (container, kind), &id, &settled.question, &answer, &text);
            }
            _ => {}
        }
    }
}
