//! What goes on with one container for as long as somebody looks: its log, and commands in it.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inotify::{Inotify, WatchMask};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1;
use polylet_core::node::PodView;
use polylet_machine::logs::read::{LogReader, Pumped, ReadError, SETTLE, Wanted};
use polylet_runtime::{Client, Kind, cri};
use polylet_server::{AdminError, ExecQuery, LogPart, Pieces, Session};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::find;
use crate::perform::chain;

/// Logs that are read at once, each by a thread.
const READERS: usize = 64;
/// Pieces that wait for whoever reads: of at most 64 KiB each.
const QUEUE: usize = 8;
/// Bytes that are gathered before they are handed on.
const PIECE: usize = 16 << 10;
/// Whether a container still runs is asked this often, and its log looked at, whatever inotify says.
const EVERY: Duration = Duration::from_secs(1);

/// What streams need.
#[derive(Clone)]
pub struct Streams {
    client: Client,
    readers: Arc<Semaphore>,
}

impl Streams {
    /// Over this connection to the runtime.
    pub fn new(client: Client) -> Self {
        Self { client, readers: Arc::new(Semaphore::new(READERS)) }
    }

    /// What a container of the pod has printed.
    ///
    /// # Errors
    /// Upstream's texts, under its HTTP statuses.
    pub async fn log(&self, pod: &PodView, part: LogPart) -> Result<Pieces, AdminError> {
        let wanted = wanted(&part, Timestamp::now()).map_err(|text| refuse(422, text))?;
        if part.container.is_empty() {
            return Err(refuse(400, format!("a container name must be specified for pod {}", pod.name)));
        }
        if !pod.containers.contains_key(&part.container) && status_of(pod, &part.container).is_none() {
            return Err(refuse(404, unknown_container(pod, &part.container)));
        }
        let full_id =
            choose(pod.status.as_deref(), &pod.name, &part.container, part.previous).map_err(|text| refuse(400, text))?;
        let id = bare(&full_id).to_owned();
        let status = match self.client.container_status(&id, false).await {
            Ok(answer) => answer.status.unwrap_or_default(),
            Err(error) if error.kind == Kind::NotFound => {
                return Err(refuse(400, format!("unable to retrieve container logs for {full_id}")));
            }
            Err(error) => return Err(refuse(500, chain(&error))),
        };
        if status.log_path.is_empty() {
            return Err(refuse(400, format!("container {:?} in pod {:?} has no log", part.container, pod.name)));
        }
        let Ok(permit) = self.readers.clone().try_acquire_owned() else {
            return Err(refuse(503, format!("{READERS} logs are being read: try again when one has ended")));
        };
        self.read(PathBuf::from(status.log_path), wanted, id, permit).await
    }

    async fn read(&self, path: PathBuf, wanted: Wanted, id: String, permit: OwnedSemaphorePermit) -> Result<Pieces, AdminError> {
        let (out, pieces) = mpsc::channel(QUEUE);
        let (opened, is_open) = oneshot::channel();
        let (client, handle) = (self.client.clone(), Handle::current());
        let work = move || {
            let _permit = permit;
            let mut reader = match LogReader::open(&path, &wanted) {
                Ok(reader) => reader,
                // Whoever asked may have gone.
                Err(error) => return drop(opened.send(Err(chain(&error)))),
            };
            if opened.send(Ok(())).is_err() {
                return;
            }
            let runs = || handle.block_on(is_running(&client, &id));
            let watch = wanted.follow.then(|| watch(&path)).flatten();
            let mut to = BufWriter::with_capacity(PIECE, Out(out.clone()));
            let done = if wanted.follow { follow(&mut reader, &mut to, runs, watch) } else { reader.pump(&mut to).map(drop) };
            let flushed = to.flush().map_err(ReadError::Output);
            let done = done.and(flushed);
            if let Err(error) = done
                && !matches!(error, ReadError::Output(_))
            {
                tracing::warn!(log = %path.display(), error = chain(&error), "a log is not read on");
                // The answer has begun: what it ends with is all that can be said to whoever asked.
                drop(out.blocking_send(Err(io::Error::other(format!("the log is not read on: {}", chain(&error))))));
            }
        };
        std::thread::Builder::new()
            .name("log-read".into())
            .spawn(work)
            .map_err(|error| refuse(500, format!("read a log: {error}")))?;
        match is_open.await {
            Ok(Ok(())) => Ok(pieces),
            Ok(Err(text)) => Err(refuse(400, text)),
            Err(_) => Err(refuse(500, "the log is not read")),
        }
    }

    /// Runs a command in a container of the pod that runs.
    ///
    /// # Errors
    /// There is no such container, it does not run, or the runtime refuses.
    pub async fn exec(&self, pod: &PodView, query: ExecQuery) -> Result<Session, AdminError> {
        let ExecQuery { container, command, stdin, tty, .. } = query;
        if command.is_empty() {
            return Err(refuse(400, "no command is given"));
        }
        let Some(status) = status_of(pod, &container) else { return Err(refuse(404, unknown_container(pod, &container))) };
        let id = match &status.state {
            Some(v1::ContainerState { running: Some(_), .. }) => status.container_id.as_deref().map(bare),
            _ => None,
        };
        let id = id.ok_or_else(|| {
            refuse(400, format!("container {container:?} in pod {:?} does not run: it is {}", pod.name, stands(status)))
        })?;
        let running = polylet_runtime::exec(&self.client, id, command, stdin, tty).await;
        let polylet_runtime::Command { input, output } = running.map_err(|error| refuse(500, chain(&error)))?;
        Ok(Session { input, output })
    }
}

fn refuse(status: u16, message: impl Into<String>) -> AdminError {
    AdminError { status, message: message.into() }
}

fn status_of<'a>(pod: &'a PodView, container: &str) -> Option<&'a v1::ContainerStatus> {
    find::container(pod.status.as_deref()?, container)
}

fn unknown_container(pod: &PodView, container: &str) -> String {
    let names: Vec<&str> = pod.containers.keys().map(String::as_str).collect();
    format!("container {container:?} not found in pod {:?}: it has {}", pod.name, names.join(", "))
}

/// What is shown of a container that does not run.
fn stands(status: &v1::ContainerStatus) -> String {
    let reason = |kind: &str, reason: &Option<String>| match reason.as_deref() {
        None | Some("") => kind.to_owned(),
        Some(reason) => format!("{kind} ({reason})"),
    };
    match &status.state {
        Some(v1::ContainerState { terminated: Some(end), .. }) => reason("terminated", &end.reason),
        Some(v1::ContainerState { waiting: Some(wait), .. }) => reason("waiting", &wait.reason),
        _ => "waiting".to_owned(),
    }
}

/// Without the runtime's name before it.
fn bare(id: &str) -> &str {
    id.split_once("://").map_or(id, |(_, id)| id)
}

/// Upstream's bounds of the options.
fn wanted(part: &LogPart, now: Timestamp) -> Result<Wanted, String> {
    let since = match (part.since_seconds, &part.since_time) {
        (Some(_), Some(_)) => return Err("at most one of `sinceTime` or `sinceSeconds` may be specified".to_owned()),
        (Some(0), None) => return Err("sinceSeconds: Invalid value: 0: must be greater than or equal to 1".to_owned()),
        (Some(seconds), None) => {
            let before = i64::try_from(seconds).ok().and_then(|s| now.checked_sub(SignedDuration::from_secs(s)).ok());
            Some(before.unwrap_or(Timestamp::MIN))
        }
        (None, Some(text)) => {
            let wrong = |_| format!("sinceTime: Invalid value: {text:?}: must be a time such as 2026-03-01T12:00:00Z");
            Some(text.parse().map_err(wrong)?)
        }
        (None, None) => None,
    };
    if part.limit_bytes == Some(0) {
        return Err("limitBytes: Invalid value: 0: must be greater than or equal to 1".to_owned());
    }
    Ok(Wanted { tail: part.tail_lines, since, timestamps: part.timestamps, limit: part.limit_bytes, follow: part.follow })
}

/// The attempt whose log is shown, with the runtime's name before its id: upstream's rules and texts.
fn choose(status: Option<&v1::PodStatus>, pod: &str, container: &str, previous: bool) -> Result<String, String> {
    let who = format!("container {container:?} in pod {pod:?}");
    let status = status.and_then(|status| find::container(status, container));
    let status = status.ok_or_else(|| format!("{who} is not available"))?;
    let state = status.state.clone().unwrap_or_default();
    let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let last_id = last.and_then(|last| last.container_id.clone()).filter(|id| !id.is_empty());
    let own_id = status.container_id.clone().filter(|id| !id.is_empty());
    if previous {
        return last_id.ok_or_else(|| format!("previous terminated {who} not found"));
    }
    if state.running.is_some() {
        return own_id.ok_or_else(|| format!("{who} is not available"));
    }
    if let Some(end) = state.terminated {
        let id = end.container_id.filter(|id| !id.is_empty()).or(last_id);
        return id.ok_or_else(|| format!("{who} is terminated"));
    }
    if let Some(id) = last_id {
        return Ok(id);
    }
    Err(match state.waiting.map(|waiting| waiting.reason.unwrap_or_default()).as_deref() {
        Some("ErrImagePull") => format!("{who} is waiting to start: image can't be pulled"),
        Some("ImagePullBackOff") => format!("{who} is waiting to start: trying and failing to pull image"),
        Some(reason) if !reason.is_empty() => format!("{who} is waiting to start: {reason}"),
        Some(_) | None => format!("{who} is waiting to start - no logs yet"),
    })
}

/// Whether more may be written. A runtime that does not answer may be writing.
async fn is_running(client: &Client, id: &str) -> bool {
    match client.container_status(id, false).await {
        Ok(answer) => answer.status.is_some_and(|status| status.state() == cri::ContainerState::ContainerRunning),
        Err(error) => error.kind != Kind::NotFound,
    }
}

/// Tells of changes in the directory of a log; None where it cannot: then it is looked at every second.
fn watch(log: &std::path::Path) -> Option<Inotify> {
    let directory = log.parent()?;
    let watched = Inotify::init().and_then(|inotify| {
        inotify.watches().add(directory, WatchMask::MODIFY | WatchMask::CREATE | WatchMask::MOVED_TO)?;
        Ok(inotify)
    });
    watched.inspect_err(|error| tracing::debug!(directory = %directory.display(), %error, "a log is polled")).ok()
}

/// Hands on what a container prints until it has ended and all of that is read.
fn follow(
    reader: &mut LogReader,
    to: &mut BufWriter<Out>,
    mut runs: impl FnMut() -> bool,
    mut watch: Option<Inotify>,
) -> Result<(), ReadError> {
    let mut asked: Option<Instant> = None;
    let mut running = true;
    while !to.get_ref().0.is_closed() {
        // First whether it runs, then what it wrote: after its end nothing is missed.
        if asked.is_none_or(|at| at.elapsed() >= EVERY) {
            running = runs();
            asked = Some(Instant::now());
        }
        let pumped = reader.pump(to)?;
        to.flush().map_err(ReadError::Output)?;
        let between = reader.is_between_files();
        if pumped == Pumped::Enough || !running && !between {
            break;
        }
        let wait = asked.map_or(EVERY, |at| EVERY.saturating_sub(at.elapsed()));
        wait_for(&mut watch, if between { wait.min(SETTLE) } else { wait });
    }
    Ok(())
}

/// Waits for a change, and no longer than this.
fn wait_for(watch: &mut Option<Inotify>, most: Duration) {
    let Some(inotify) = watch else { return std::thread::sleep(most) };
    let timeout = Timespec { tv_sec: i64::try_from(most.as_secs()).unwrap_or(1), tv_nsec: most.subsec_nanos().into() };
    let changed = poll(&mut [PollFd::new(&*inotify, PollFlags::IN)], Some(&timeout));
    let mut events = [0; 4096];
    // What changed is seen in the file itself.
    if changed.is_ok_and(|count| count > 0) && inotify.read_events(&mut events).is_err() {
        *watch = None;
    }
}

/// To whoever asked.
struct Out(mpsc::Sender<io::Result<Vec<u8>>>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.blocking_send(Ok(bytes.to_vec())).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
