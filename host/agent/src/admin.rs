//! Answers the administration socket: from the node's own values, from the policy host, from the ring.

use std::path::PathBuf;
use std::sync::Arc;

use polylet_core::node::{NodeView, PodView, RungView};
use polylet_core::sample::Sample;
use polylet_policy::PolicyHost;
use polylet_server::{Admin, AdminError, BoxFuture, DecisionQuery, Query};
use polylet_store::Ring;
use polylet_store::ring::Follow;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::policies::{Reload, Watched};

/// What the loop is asked for.
#[derive(Debug)]
pub enum Asked {
    /// Every pod.
    Pods(oneshot::Sender<Vec<PodView>>),
    /// The node.
    Node(oneshot::Sender<(NodeView, Option<Arc<Sample>>)>),
    /// The ladder of every hook.
    Ladder(oneshot::Sender<Vec<RungView>>),
}

/// The agent as the socket sees it.
pub struct NodeAdmin {
    /// To the loop.
    pub ask: mpsc::Sender<Asked>,
    /// Decisions.
    pub ring: Arc<Ring>,
    /// Policies.
    pub policies: PolicyHost,
    /// The policy directory.
    pub policy_dir: PathBuf,
    /// The policy directory, watched.
    pub watched: Watched,
    /// Name and version of the runtime.
    pub version: String,
}

impl Admin for NodeAdmin {
    fn get(&self, what: Query) -> BoxFuture<Result<Value, AdminError>> {
        let (ask, policies, watched, runtime) =
            (self.ask.clone(), self.policies.clone(), self.watched.clone(), self.version.clone());
        let directory = self.policy_dir.clone();
        Box::pin(async move {
            match what {
                Query::Version => Ok(json!({"polylet": env!("CARGO_PKG_VERSION"), "runtime": runtime})),
                Query::Node => {
                    let (view, sample) = query(&ask, Asked::Node).await?;
                    let mut value = to_value(view)?;
                    value["sample"] = to_value(sample.as_deref())?;
                    Ok(value)
                }
                Query::Pods => to_value(query(&ask, Asked::Pods).await?),
                Query::Pod { namespace, name } => {
                    let all = query(&ask, Asked::Pods).await?;
                    let found = all.into_iter().find(|p| p.namespace == namespace && p.name == name);
                    let found = found.ok_or_else(|| refuse(404, format!("no pod {name} in namespace {namespace}")))?;
                    to_value(found)
                }
                Query::Policies => {
                    let ladder = query(&ask, Asked::Ladder).await?;
                    let standing = policies.standing();
                    let rungs: Vec<Value> = ladder
                        .into_iter()
                        .map(|rung| {
                            let about = standing.iter().find(|s| s.hook == rung.hook && s.rung == rung.rung);
                            let mut value = to_value(&rung)?;
                            if let Some(policy) = about.map(|s| &s.policy) {
                                let said = policy.description();
                                value["policy"] = json!({"name": said.name, "version": said.version, "summary": said.summary});
                            }
                            Ok(value)
                        })
                        .collect::<Result<_, AdminError>>()?;
                    let generation = policies.bindings().generation;
                    let errors: Vec<String> = watched.errors.borrow().iter().map(ToString::to_string).collect();
                    Ok(json!({"directory": directory, "generation": generation, "rungs": rungs, "errors": errors}))
                }
                Query::Reload { hook } => {
                    let (reply, answer) = oneshot::channel();
                    watched.reload.send(Reload { hook, reply }).await.map_err(|_| refuse(503, "the agent is stopping"))?;
                    let errors = answer.await.map_err(|_| refuse(503, "the agent is stopping"))?;
                    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
                    let refused: Vec<Value> =
                        errors.iter().map(|error| json!({"binding": error.name(), "hooks": error.hooks})).collect();
                    Ok(json!({"generation": policies.bindings().generation, "errors": texts, "refused": refused}))
                }
            }
        })
    }

    fn decisions(&self, query: DecisionQuery) -> Result<mpsc::Receiver<String>, AdminError> {
        let (out, lines) = mpsc::channel(256);
        let ring = self.ring.clone();
        // Reading the ring waits for its thread.
        std::thread::Builder::new()
            .name("decisions-read".into())
            .spawn(move || {
                let later = out.clone();
                let newest = if query.follow {
                    ring.follow(query.limit, query.hook, move |line| match later.try_send(line.text.to_string()) {
                        Ok(()) => Follow::On,
                        Err(_) => Follow::Off,
                    })
                } else {
                    ring.newest(query.limit, query.hook)
                };
                for line in newest.into_iter().flatten() {
                    if out.blocking_send(line.text.to_string()).is_err() {
                        return;
                    }
                }
            })
            .map_err(|error| refuse(500, format!("read decisions: {error}")))?;
        Ok(lines)
    }
}

async fn query<T>(ask: &mpsc::Sender<Asked>, question: impl FnOnce(oneshot::Sender<T>) -> Asked) -> Result<T, AdminError> {
    let (reply, answer) = oneshot::channel();
    ask.send(question(reply)).await.map_err(|_| refuse(503, "the agent is stopping"))?;
    answer.await.map_err(|_| refuse(503, "the agent is stopping"))
}

fn to_value(value: impl serde::Serialize) -> Result<Value, AdminError> {
    serde_json::to_value(value).map_err(|error| refuse(500, error.to_string()))
}

fn refuse(status: u16, message: impl Into<String>) -> AdminError {
    AdminError { status, message: message.into() }
}
