//! The policy directory, watched: what it shows is what is bound.

use std::path::PathBuf;
use std::time::Duration;

use inotify::{Inotify, WatchMask};
use polylet_core::event::Event;
use polylet_core::question::Hook;
use polylet_policy::{BindingError, PolicyHost, scan};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::StreamExt;

use crate::perform::chain;

/// The directory is looked at this often in any case.
const EVERY: Duration = Duration::from_secs(20);
/// A burst of changes counts as one.
const QUIET: Duration = Duration::from_millis(5);

/// The directory, as others see it.
#[derive(Clone)]
pub struct Watched {
    /// Asks for it to be read now; answered with what is wrong in it.
    pub reload: mpsc::Sender<oneshot::Sender<Vec<BindingError>>>,
    /// What was wrong in it when it was last read.
    pub errors: watch::Receiver<Vec<BindingError>>,
}

/// Binds what the directory shows, now and whenever it changes. The node answers natively until the default component is loaded.
pub fn spawn(host: PolicyHost, directory: PathBuf, inbox: mpsc::Sender<Event>) -> Watched {
    let (tell, errors) = watch::channel(Vec::new());
    let (reload, mut wanted) = mpsc::channel::<oneshot::Sender<Vec<BindingError>>>(4);
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
        let mut replies: Vec<oneshot::Sender<Vec<BindingError>>> = Vec::new();
        loop {
            if watcher.is_none() {
                watcher = open(&directory).ok();
            }
            let errors = bind(&host, &directory, &inbox).await;
            let told = tell.send_replace(errors.clone());
            for error in errors.iter().filter(|e| !told.contains(e)) {
                tracing::error!("a binding is in error: {error}");
            }
            for reply in replies.drain(..) {
                // Whoever asked may have gone.
                drop(reply.send(errors.clone()));
            }
            // Cancel-safe: a change that was taken leads to a look at everything.
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                reply = wanted.recv() => match reply {
                    Some(reply) => replies.push(reply),
                    None => return,
                },
                () = changed(&mut watcher) => tokio::time::sleep(QUIET).await,
            }
        }
    });
    Watched { reload, errors }
}

async fn bind(host: &PolicyHost, directory: &std::path::Path, inbox: &mpsc::Sender<Event>) -> Vec<BindingError> {
    let whole = |problem| vec![BindingError { file: directory.into(), field: String::new(), problem, hooks: Hook::ALL.into() }];
    let (host, scanned) = (host.clone(), directory.to_owned());
    let applied = tokio::task::spawn_blocking(move || scan(&scanned).map(|found| host.apply(&found))).await;
    match applied {
        Ok(Ok(applied)) => {
            if applied.changed {
                // A closed inbox: the agent is on its way out.
                drop(inbox.send(Event::Policies(applied.bindings)).await);
            }
            applied.errors
        }
        Ok(Err(error)) => whole(format!("the policy directory cannot be read: {error}")),
        Err(error) => whole(format!("binding policies ended: {error}")),
    }
}

type Changes = inotify::EventStream<[u8; 1024]>;

fn open(directory: &std::path::Path) -> std::io::Result<Changes> {
    let inotify = Inotify::init()?;
    inotify.watches().add(
        directory,
        WatchMask::CLOSE_WRITE | WatchMask::MOVED_TO | WatchMask::MOVED_FROM | WatchMask::DELETE | WatchMask::DELETE_SELF,
    )?;
    inotify.into_event_stream([0; 1024])
}

/// Resolves when something changed; never without a watch.
async fn changed(watcher: &mut Option<Changes>) {
    let Some(stream) = watcher else { return std::future::pending().await };
    if !matches!(stream.next().await, Some(Ok(_))) {
        *watcher = None;
    }
}
