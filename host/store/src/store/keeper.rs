//! The thread that does what callers must not wait for: syncing the file, and trying again after a failure.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Shared, State};

/// Starts the keeper; it ends when the store is dropped. Without it (the machine refuses a thread) the store works: nothing is
/// synced before the kernel does it by itself, and what failed is tried again only by [`super::Store::flush`].
pub(super) fn spawn(shared: Arc<Shared>) -> Option<JoinHandle<()>> {
    let keep = move || keep(&shared);
    thread::Builder::new()
        .name("store".to_owned())
        .spawn(keep)
        .map_err(|error| tracing::error!(%error, "start the store's keeper"))
        .ok()
}

fn keep(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        let idle = |state: &mut State| !state.stop && state.database.as_ref().is_some_and(|db| !db.syncer.is_due());
        state = shared.changed.wait_while(state, idle).unwrap_or_else(|poisoned| poisoned.into_inner());
        let (stop, healthy) = (state.stop, state.database.is_some());
        if !stop {
            state = rest(shared, state, if healthy { shared.pace.sync_after } else { shared.pace.retry_after });
        }
        if state.database.is_none() {
            let before = state.trouble.clone();
            match shared.flush(&mut state) {
                Ok(()) => {
                    tracing::info!(store = %shared.path.display(), trouble = before, "store written again: nothing was lost")
                }
                Err(error) => tracing::debug!(%error, "store still out of reach"),
            }
        }
        let syncer = state.database.as_ref().map(|database| database.syncer.clone());
        if stop || state.stop {
            // Closing marks the file as complete, so that the next agent need not repair it.
            drop(state.database.take());
            sync(shared, syncer.as_ref());
            return;
        }
        // A sync takes milliseconds or, on a bad day, seconds: writers go on meanwhile.
        drop(state);
        sync(shared, syncer.as_ref());
        state = shared.lock();
    }
}

/// Waits, but not longer than the store lives.
fn rest<'a>(shared: &'a Shared, state: std::sync::MutexGuard<'a, State>, time: Duration) -> std::sync::MutexGuard<'a, State> {
    let waited = shared.changed.wait_timeout_while(state, time, |state| !state.stop);
    waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
}

fn sync(shared: &Shared, syncer: Option<&super::backend::Syncer>) {
    if let Some(Err(error)) = syncer.map(super::backend::Syncer::sync) {
        // The kernel still has it: it is lost only if the machine fails before the next commit is synced.
        tracing::warn!(store = %shared.path.display(), %error, "sync the store");
    }
}
