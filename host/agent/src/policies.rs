//! The policy directory, watched: what it shows is what is bound.
//!
//! Components are compiled beside it, one at a time: however long one takes, all that needs no compiler is bound at once.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use inotify::{EventMask, Inotify, WatchMask};
use polylet_core::effect::Rung;
use polylet_core::event::Event;
use polylet_core::id::PolicyDigest;
use polylet_core::question::Hook;
use polylet_policy::{Applied, Binding, BindingError, LoadError, PolicyHost, scan};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::StreamExt;

use crate::perform::{chain, locked};

/// The directory is looked at this often in any case.
const EVERY: Duration = Duration::from_secs(20);
/// A burst of changes counts as one.
const QUIET: Duration = Duration::from_millis(5);
/// A component that the compiler refused is tried again after that: the machine may have been busy.
const TRY_AGAIN: Duration = Duration::from_secs(600);

/// The directory, as others see it.
#[derive(Clone)]
pub struct Watched {
    /// Asks for it to be read now.
    pub reload: mpsc::Sender<Reload>,
    /// What was wrong in it when it was last read.
    pub errors: watch::Receiver<Vec<BindingError>>,
    /// True once all of it that can be bound is bound for the first time.
    pub settled: watch::Receiver<bool>,
}

/// Somebody wants the directory to be read.
#[derive(Debug)]
pub struct Reload {
    /// The hook whose binding he waits for, compiled if need be; None: those of all.
    pub hook: Option<Hook>,
    /// Answered with what is wrong in the directory.
    pub reply: oneshot::Sender<Vec<BindingError>>,
}

/// Binds what the directory shows, now and whenever it changes. The node answers natively until the default component is loaded.
pub fn spawn(host: PolicyHost, directory: PathBuf, inbox: mpsc::Sender<Event>) -> Watched {
    let (tell, errors) = watch::channel(Vec::new());
    let (settle, settled) = watch::channel(false);
    let (reload, mut wanted) = mpsc::channel::<Reload>(4);
    tokio::spawn(async move {
        let loading = host.clone();
        match tokio::task::spawn_blocking(move || loading.load_default()).await {
            Ok(Ok(Some(bindings))) => drop(inbox.send(Event::Policies(bindings)).await),
            Ok(Ok(None)) => tracing::warn!("built without the default component: the native rung answers"),
            Ok(Err(error)) => {
                tracing::error!(error = chain(&error), "the default component cannot be loaded: the native rung answers")
            }
            Err(error) => tracing::error!(%error, "loading the default component"),
        }
        let mut watcher = None;
        let mut waiting: Vec<Reload> = Vec::new();
        let (compiled, mut compilations) = mpsc::channel(4);
        let compiler = Compilations { host: host.clone(), under_way: BTreeSet::new(), refused: HashMap::new(), done: compiled };
        let compiler = Arc::new(Mutex::new(compiler));
        loop {
            if watcher.is_none() {
                watcher = open(&directory).ok();
            }
            let (errors, unfinished) = bind(&host, &directory, &inbox, &compiler).await;
            let told = tell.send_replace(errors.clone());
            for error in errors.iter().filter(|e| !told.contains(e)) {
                tracing::error!("a binding is in error: {error}");
            }
            if unfinished.is_empty() {
                settle.send_replace(true);
            }
            let is_waiting = |reload: &Reload| reload.hook.map_or(!unfinished.is_empty(), |hook| unfinished.contains(&hook));
            for answered in waiting.extract_if(.., |reload| !is_waiting(reload)) {
                // Whoever asked may have gone.
                drop(answered.reply.send(errors.clone()));
            }
            // Cancel-safe: a change that was taken leads to a look at everything.
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                reload = wanted.recv() => match reload {
                    Some(reload) => waiting.push(reload),
                    None => return,
                },
                Some((digest, result)) = compilations.recv() => locked(&compiler).ended(digest, result),
                () = changed(&mut watcher) => tokio::time::sleep(QUIET).await,
            }
        }
    });
    Watched { reload, errors, settled }
}

/// Components that are being compiled, and those that could not be.
struct Compilations {
    host: PolicyHost,
    under_way: BTreeSet<PolicyDigest>,
    refused: HashMap<PolicyDigest, (Instant, String)>,
    done: mpsc::Sender<(PolicyDigest, Result<(), String>)>,
}

impl Compilations {
    /// Begins what has not been tried lately.
    fn begin(&mut self, binding: &Binding, component: &Arc<[u8]>) -> Result<(), LoadError> {
        self.refused.retain(|_, (since, _)| since.elapsed() < TRY_AGAIN);
        if let Some((_, why)) = self.refused.get(&binding.digest) {
            return Err(LoadError::Before(why.clone()));
        }
        if self.under_way.insert(binding.digest.clone()) {
            tracing::info!(binding = binding.name, digest = %binding.digest, "a policy is compiled");
            let (host, done) = (self.host.clone(), self.done.clone());
            let (digest, component) = (binding.digest.clone(), component.clone());
            tokio::spawn(async move {
                let compiled = match tokio::task::spawn_blocking(move || host.compile(&component)).await {
                    Ok(compiled) => compiled.map_err(|error| error.to_string()),
                    Err(error) => Err(format!("compiling it ended: {error}")),
                };
                // Nobody listens when the agent is on its way out.
                drop(done.send((digest, compiled)).await);
            });
        }
        Err(LoadError::Waiting)
    }

    fn ended(&mut self, digest: PolicyDigest, result: Result<(), String>) {
        self.under_way.remove(&digest);
        if let Err(why) = result {
            self.refused.insert(digest, (Instant::now(), why));
        }
    }
}

/// What is wrong in the directory, and which hooks wait for a compiler.
async fn bind(
    host: &PolicyHost,
    directory: &std::path::Path,
    inbox: &mpsc::Sender<Event>,
    compiler: &Arc<Mutex<Compilations>>,
) -> (Vec<BindingError>, BTreeSet<Hook>) {
    let whole = |problem| vec![BindingError { file: directory.into(), field: String::new(), problem, hooks: Hook::ALL.into() }];
    let (host, scanned, compiler) = (host.clone(), directory.to_owned(), compiler.clone());
    let apply = move || {
        // Whoever unbinds a hook removes its file. A directory that is gone as a whole is an accident.
        let has = host.bindings().rungs.values().flatten().any(|rung| matches!(rung, Rung::Bound { .. }));
        if has && !scanned.exists() {
            return Err(std::io::Error::other("it is gone; what was bound stays"));
        }
        let mut may = |binding: &Binding, component: &Arc<[u8]>| locked(&compiler).begin(binding, component);
        scan(&scanned).map(|found| host.apply_compiled(&found, &mut may))
    };
    match tokio::task::spawn_blocking(apply).await {
        Ok(Ok(Applied { bindings, changed, errors, waiting })) => {
            if changed {
                // A closed inbox: the agent is on its way out.
                drop(inbox.send(Event::Policies(bindings)).await);
            }
            (errors, waiting)
        }
        Ok(Err(error)) => (whole(format!("the policy directory cannot be read: {error}")), BTreeSet::new()),
        Err(error) => (whole(format!("binding policies ended: {error}")), BTreeSet::new()),
    }
}

type Changes = inotify::EventStream<[u8; 1024]>;

fn open(directory: &std::path::Path) -> std::io::Result<Changes> {
    let inotify = Inotify::init()?;
    inotify.watches().add(
        directory,
        // Attributes, too: who may write it decides whether it is taken.
        WatchMask::ATTRIB
            | WatchMask::CLOSE_WRITE
            | WatchMask::MOVED_TO
            | WatchMask::MOVED_FROM
            | WatchMask::DELETE
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF,
    )?;
    inotify.into_event_stream([0; 1024])
}

/// Resolves when something changed; never without a watch.
async fn changed(watcher: &mut Option<Changes>) {
    let Some(stream) = watcher else { return std::future::pending().await };
    let gone = EventMask::MOVE_SELF | EventMask::DELETE_SELF | EventMask::IGNORED;
    if !matches!(stream.next().await, Some(Ok(event)) if !event.mask.intersects(gone)) {
        *watcher = None;
    }
}
