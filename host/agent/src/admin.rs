//! Answers the administration socket: from the node's own values, from the policy host, from the ring, from the runtime.

use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1;
use polylet_core::id::PodUid;
use polylet_core::node::{Declared, NodeView, PodView, RungView};
use polylet_core::sample::Sample;
use polylet_core::say::About;
use polylet_policy::PolicyHost;
use polylet_server::{Admin, AdminError, BoxFuture, DecisionQuery, ExecQuery, LogQuery, Pieces, Query, Session};
use polylet_store::Ring;
use polylet_store::ring::Follow;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::events::Events;
use crate::find::{self, FindError};
use crate::policies::{Reload, Watched};
use crate::source::Faults;
use crate::stream::Streams;

/// What the loop is asked for.
#[derive(Debug)]
pub enum Asked {
    /// Every pod.
    Pods(oneshot::Sender<Vec<PodView>>),
    /// What a pod was declared as.
    Object(PodUid, oneshot::Sender<Option<Arc<v1::Pod>>>),
    /// Every declared pod.
    Declared(oneshot::Sender<Vec<Declared>>),
    /// The node.
    Node(oneshot::Sender<(NodeView, Option<Arc<Sample>>)>),
    /// The ladder of every hook.
    Ladder(oneshot::Sender<Vec<RungView>>),
}

/// The agent as the socket sees it.
#[derive(Clone)]
pub struct NodeAdmin {
    /// To the loop.
    pub ask: mpsc::Sender<Asked>,
    /// Name of the node.
    pub node_name: String,
    /// What has happened lately.
    pub events: Arc<Events>,
    /// What is wrong with the manifests.
    pub faults: Arc<Faults>,
    /// Logs, and commands in containers.
    pub streams: Streams,
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
        let this = self.clone();
        Box::pin(async move {
            let Self { ask, policies, watched, .. } = &this;
            match what {
                Query::Version => Ok(json!({"polylet": env!("CARGO_PKG_VERSION"), "runtime": this.version})),
                Query::Node => {
                    let (view, sample) = query(ask, Asked::Node).await?;
                    let mut value = to_value(view)?;
                    value["manifestErrors"] = json!(this.faults.list());
                    value["sample"] = to_value(sample.as_deref())?;
                    Ok(value)
                }
                Query::Pods => to_value(query(ask, Asked::Pods).await?),
                Query::Pod { namespace, name } => {
                    let view = this.pod(&namespace, &name).await?;
                    let object = query(ask, |reply| Asked::Object(view.uid.clone(), reply)).await?;
                    let events = this.events.list(&this.node_name, |about| is_of(about, &view.uid));
                    let mut value = to_value(view)?;
                    value["object"] = to_value(object.as_deref())?;
                    value["events"] = events.into();
                    value["node"] = this.node_name.clone().into();
                    Ok(value)
                }
                Query::Events(None) => Ok(this.events.list(&this.node_name, |_| true).into()),
                Query::Events(Some((namespace, name))) => match this.pod(&namespace, &name).await {
                    Ok(view) => Ok(this.events.list(&this.node_name, |about| is_of(about, &view.uid)).into()),
                    Err(error) => {
                        // The pod may be gone, and what happened to it is still known.
                        let full = format!("{name}-{}", this.node_name);
                        let named = |about: &About| match about {
                            About::Pod { namespace: of, name: found, .. } => {
                                *of == namespace && (*found == name || *found == full)
                            }
                            About::Node => false,
                        };
                        let events = this.events.list(&this.node_name, named);
                        if events.is_empty() { Err(error) } else { Ok(events.into()) }
                    }
                },
                Query::PodList => pod_list(query(ask, Asked::Declared).await?),
                Query::Policies => {
                    let ladder = query(ask, Asked::Ladder).await?;
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
                    Ok(json!({"directory": this.policy_dir, "generation": generation, "rungs": rungs, "errors": errors}))
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

    fn log(&self, query: LogQuery) -> BoxFuture<Result<Pieces, AdminError>> {
        let this = self.clone();
        Box::pin(async move { this.streams.log(&this.pod(&query.namespace, &query.name).await?, query.part).await })
    }

    fn exec(&self, query: ExecQuery) -> BoxFuture<Result<Session, AdminError>> {
        let this = self.clone();
        Box::pin(async move { this.streams.exec(&this.pod(&query.namespace, &query.name).await?, query).await })
    }
}

impl NodeAdmin {
    async fn pod(&self, namespace: &str, name: &str) -> Result<PodView, AdminError> {
        let all = query(&self.ask, Asked::Pods).await?;
        find::pod(all, namespace, name, &self.node_name).map_err(|error| match &error {
            FindError::Unknown(text) if self.faults.list().is_empty() => refuse(404, text),
            FindError::Unknown(text) => refuse(404, format!("{text}; not every manifest is used: polylet node says which")),
            FindError::Ambiguous(text) => refuse(409, text),
        })
    }
}

fn is_of(about: &About, pod: &PodUid) -> bool {
    matches!(about, About::Pod { uid, .. } if uid == pod)
}

/// As upstream's `/pods` shows them: what is declared, with the status that this node gives it.
fn pod_list(pods: Vec<Declared>) -> Result<Value, AdminError> {
    let item = |(object, status): Declared| {
        let status = status.map_or_else(|| object.status.clone(), |status| Some((*status).clone()));
        let mut item = to_value(v1::Pod { status, ..(*object).clone() })?;
        if let Some(fields) = item.as_object_mut() {
            // The list says what its items are.
            fields.shift_remove("kind");
            fields.shift_remove("apiVersion");
        }
        Ok(item)
    };
    let items: Vec<Value> = pods.into_iter().map(item).collect::<Result<_, AdminError>>()?;
    Ok(json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_pods_is_the_apis() {
        let pod = |name: &str| -> Arc<v1::Pod> {
            let value = json!({"metadata": {"name": name}, "spec": {"containers": []}, "status": {"phase": "Pending"}});
            Arc::new(serde_json::from_value(value).unwrap())
        };
        let running = v1::PodStatus { phase: Some("Running".into()), ..v1::PodStatus::default() };
        let list = pod_list(vec![(pod("a"), Some(Arc::new(running))), (pod("b"), None)]).unwrap();
        let item =
            |name: &str, phase: &str| json!({"metadata": {"name": name}, "spec": {"containers": []}, "status": {"phase": phase}});
        let expected =
            json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [item("a", "Running"), item("b", "Pending")]});
        assert_eq!(list, expected);
    }
}
