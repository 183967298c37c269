//! Rotates the logs of containers that run: one list of them each round, a look at each file, and work only where a log has grown
//! too large or is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use polylet_core::paths::Paths;
use polylet_machine::logs::LogError;
use polylet_machine::logs::rotate::ContainerLog;
use polylet_runtime::{Client, cri, key};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::perform::chain;
use crate::settings::LogRotation;

/// Looks at all logs now and each [`LogRotation::interval`] from then on, until it is told to stop. A rotation that is cut short loses
/// nothing: the next agent finds no file to write to, and has it opened.
pub async fn rotate(client: Client, paths: Paths, settings: LogRotation, stop: CancellationToken) {
    let mut told = BTreeMap::new();
    loop {
        round(&client, &paths, &settings, &mut told).await;
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(settings.interval) => {}
        }
    }
}

/// A running container whose log wants something.
struct Due {
    id: String,
    log: ContainerLog,
    /// There is no file to write to.
    missing: bool,
}

/// `told` is what was said of containers before, by their id: it is not said again.
async fn round(client: &Client, paths: &Paths, settings: &LogRotation, told: &mut BTreeMap<String, String>) {
    let running = cri::ContainerStateValue { state: cri::ContainerState::ContainerRunning as i32 };
    let filter = cri::ContainerFilter { state: Some(running), ..Default::default() };
    let listed = match client.list_containers(Some(filter)).await {
        Ok(listed) => listed,
        // That the runtime is away is told by whoever asks it for its status.
        Err(error) => return tracing::debug!(%error, "no rotation of logs this time"),
    };
    let ids: BTreeSet<String> = listed.iter().map(|container| container.id.clone()).collect();
    told.retain(|id, _| ids.contains(id));
    let (paths, max_size) = (paths.clone(), settings.max_size);
    let looked = tokio::task::spawn_blocking(move || look(&paths, max_size, &listed)).await;
    let (due, mut failed) = looked.unwrap_or_default();

    let workers = Arc::new(Semaphore::new(settings.workers.min(Semaphore::MAX_PERMITS)));
    let mut tasks = JoinSet::new();
    for due in due {
        // Never closed.
        let Ok(permit) = workers.clone().acquire_owned().await else { break };
        let (client, max_files) = (client.clone(), settings.max_files);
        tasks.spawn(async move {
            let _permit = permit;
            (due.id.clone(), due.done(&client, max_files).await)
        });
    }
    while let Some(ended) = tasks.join_next().await {
        if let Ok((id, Err(why))) = ended {
            failed.insert(id, why);
        }
    }
    told.retain(|id, _| failed.contains_key(id));
    for (id, why) in failed {
        if told.get(&id) != Some(&why) {
            tracing::warn!(container = id, error = why, "a container's log is not rotated");
            told.insert(id, why);
        }
    }
}

/// Which logs want something, and which could not be looked at.
fn look(paths: &Paths, max_size: u64, running: &[cri::Container]) -> (Vec<Due>, BTreeMap<String, String>) {
    let (mut due, mut failed) = (Vec::new(), BTreeMap::new());
    for container in running {
        let size = |log: ContainerLog| log.size().map(|size| (log, size));
        match log_of(paths, container).and_then(|log| log.map(size).transpose()) {
            Ok(Some((log, size))) if size.is_none_or(|size| size >= max_size) => {
                due.push(Due { id: container.id.clone(), log, missing: size.is_none() });
            }
            // Not a pod's, or of an agent with other directories.
            Ok(_) => {}
            Err(error) => drop(failed.insert(container.id.clone(), chain(&error))),
        }
    }
    (due, failed)
}

/// By what the container bears, whichever agent began it: the runtime need not be asked where each log lies.
fn log_of(paths: &Paths, container: &cri::Container) -> Result<Option<ContainerLog>, LogError> {
    let label = |key: &str| container.labels.get(key).map(String::as_str);
    let attempt = container.annotations.get(key::RESTART_COUNT).and_then(|count| count.parse().ok());
    let whose = (label(key::POD_NAMESPACE), label(key::POD_NAME), label(key::POD_UID), label(key::CONTAINER_NAME), attempt);
    let (Some(namespace), Some(pod), Some(uid), Some(name), Some(attempt)) = whose else { return Ok(None) };
    ContainerLog::open(paths, [namespace, pod, uid], name, attempt)
}

impl Due {
    async fn done(self, client: &Client, max_files: usize) -> Result<(), String> {
        let (id, log) = (self.id, self.log);
        if self.missing {
            return reopen(client, &id, log.path()).await;
        }
        let aside = tokio::task::spawn_blocking(move || {
            // What cannot be compressed is no reason to let the log grow.
            let room = log.make_room(max_files).map_err(|error| chain(&error));
            let aside = log.set_aside(jiff::ZonedDateTime::now().datetime());
            (log, room, aside)
        });
        let (log, room, aside) = aside.await.map_err(|error| error.to_string())?;
        let rotated = aside.map_err(|error| chain(&error))?;
        if let Err(why) = reopen(client, &id, log.path()).await {
            let back = tokio::task::spawn_blocking(move || log.put_back(&rotated)).await.map_err(|error| error.to_string())?;
            return Err(back.err().map_or(why.clone(), |error| format!("{why}; {}", chain(&error))));
        }
        tracing::debug!(container = id, log = %log.path().display(), rotated, "a container's log is rotated");
        room
    }
}

async fn reopen(client: &Client, id: &str, log: &Path) -> Result<(), String> {
    let reopened = client.reopen_container_log(id).await;
    reopened.map_err(|error| format!("open {} anew: {error}", log.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn container(id: &str, labels: &[(&str, &str)], attempt: &str) -> cri::Container {
        let label = |(key, value): &(&str, &str)| (format!("io.kubernetes.{key}"), (*value).to_owned());
        cri::Container {
            id: id.to_owned(),
            labels: labels.iter().map(label).collect(),
            annotations: [("io.kubernetes.container.restartCount".to_owned(), attempt.to_owned())].into(),
            ..Default::default()
        }
    }

    #[test]
    fn logs_that_are_large_or_missing_are_due() {
        let dir = tempfile::tempdir().unwrap();
        let paths =
            Paths { root: dir.path().into(), pod_logs: dir.path().join("pods"), container_logs: dir.path().join("containers") };
        for (name, bytes) in [("small", 9), ("just", 10), ("large", 11)] {
            let at = paths.logs_of_pod("ns", "web", "u").join(name);
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join("3.log"), vec![b'x'; bytes]).unwrap();
        }
        fs::create_dir_all(paths.logs_of_pod("ns", "web", "u").join("missing")).unwrap();
        fs::create_dir_all(paths.logs_of_pod("ns", "web", "u").join("odd/3.log")).unwrap();
        let of = |name: &str| {
            let whose = [("pod.namespace", "ns"), ("pod.name", "web"), ("pod.uid", "u"), ("container.name", name)];
            container(name, &whose, "3")
        };
        let mut all: Vec<cri::Container> = ["small", "just", "large", "missing", "odd", "nowhere", "../small"].map(of).into();
        all.push(container("nobodys", &[("pod.uid", "u")], "3"));
        all.push(container("countless", &[("pod.namespace", "ns"), ("pod.name", "web"), ("pod.uid", "u")], "many"));
        let (due, failed) = look(&paths, 10, &all);
        let due: Vec<(&str, bool)> = due.iter().map(|due| (due.id.as_str(), due.missing)).collect();
        assert_eq!(due, [("just", false), ("large", false), ("missing", true)]);
        let failed: Vec<(&str, bool)> =
            failed.iter().map(|(id, why)| (id.as_str(), why.ends_with(": not a regular file"))).collect();
        assert_eq!(failed, [("odd", true)]);
    }
}
