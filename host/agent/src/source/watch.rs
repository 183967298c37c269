//! When to look at the manifests again: inotify says at once, polling says in any case.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::Duration;

use inotify::{Event, EventMask, EventStream, Inotify, WatchMask};
use jiff::Timestamp;
use polylet_core::time::LONGEST;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::StreamExt;

use super::Report;
use super::directory::{Directory, Scope};
use crate::tell;

/// A burst of events counts as one: looked at once it has been quiet this long, at the latest after [`BURST`].
const QUIET: Duration = Duration::from_millis(2);
const BURST: Duration = Duration::from_millis(8);
/// How soon a watch is tried again after it failed, doubling up to [`RETRY_MAX`].
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(20);

/// Sends what the manifests declare: a first report at once, then one whenever something changed, until nobody listens any more. Every
/// `every`, and whenever an event cannot tell which file it is about, all of them are looked at.
pub async fn watch(mut directory: Directory, every: Duration, out: mpsc::Sender<Report>) {
    let every = every.min(LONGEST);
    let mut events = None;
    let mut retry = RETRY;
    let mut retry_at = Instant::now();
    let mut poll_at = Instant::now() + every;
    let mut scope = Some(Scope::All);
    loop {
        if events.is_none() && Instant::now() >= retry_at {
            // First the watch, then the look: whatever changes in between is told by an event.
            match open(directory.path()) {
                Ok(stream) => {
                    events = Some(stream);
                    retry = RETRY;
                    scope = Some(Scope::All);
                }
                Err(error) => {
                    tracing::debug!(path = %directory.path().display(), %error, "no watch on the manifests yet: polling");
                    retry_at = Instant::now() + retry;
                    retry = (retry * 2).min(RETRY_MAX);
                }
            }
        }
        if let Some(scope) = scope.take() {
            let (back, report) = look(directory, move |directory| directory.refresh(&scope, Timestamp::now())).await;
            directory = back;
            if let Some(report) = report
                && out.send(report).await.is_err()
            {
                return;
            }
        }
        // Cancel-safe: an event that was taken is handled in its own arm; the sleeps are made anew from fixed instants.
        tokio::select! {
            first = next(&mut events) => {
                scope = match burst(first, &mut events, directory.path()).await {
                    Some(scope) => scope,
                    None => {
                        events = None;
                        retry_at = Instant::now();
                        Some(Scope::All)
                    }
                };
            }
            () = sleep(poll_at.saturating_duration_since(Instant::now())) => {
                poll_at = Instant::now() + every;
                scope = Some(Scope::All);
            }
            () = sleep(retry_at.saturating_duration_since(Instant::now())), if events.is_none() => {}
            () = out.closed() => return,
        }
    }
}

/// Reading files may block: not on a thread that serves others. A look that panics brings no news: what was declared stays, and the next
/// round looks at all of it again.
async fn look(
    mut directory: Directory,
    refresh: impl FnOnce(&mut Directory) -> Option<Report> + Send + 'static,
) -> (Directory, Option<Report>) {
    let task = tokio::task::spawn_blocking(move || {
        // The directory's entries are whole between two statements; only the last of a look tells what they come to.
        let report = std::panic::catch_unwind(AssertUnwindSafe(|| refresh(&mut directory))).unwrap_or_else(|payload| {
            let why = tell::panicked(&*payload);
            tracing::error!(path = %directory.path().display(), "a look at the manifests came to nothing: {why}");
            None
        });
        (directory, report)
    });
    match task.await {
        Ok(result) => result,
        // It is never cancelled, and its panics are caught.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

type Events = EventStream<[u8; 4096]>;

/// Watches the directory, or the one around a single file, so that a file which is replaced by renaming is not lost.
fn open(path: &Path) -> io::Result<Events> {
    let inotify = Inotify::init()?;
    let around = if std::fs::metadata(path)?.is_dir() { path } else { path.parent().unwrap_or(Path::new("/")) };
    let mask = WatchMask::CLOSE_WRITE
        | WatchMask::MOVED_TO
        | WatchMask::MOVED_FROM
        | WatchMask::CREATE
        | WatchMask::DELETE
        | WatchMask::ATTRIB
        | WatchMask::DELETE_SELF
        | WatchMask::MOVE_SELF
        | WatchMask::ONLYDIR;
    inotify.watches().add(around, mask)?;
    inotify.into_event_stream([0; 4096])
}

/// The next event; waits forever where there is no watch.
async fn next(events: &mut Option<Events>) -> Option<io::Result<Event<OsString>>> {
    match events {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

/// Which files a burst of events is about: `Some(None)` of none that matters. None: the watch is lost.
async fn burst(first: Option<io::Result<Event<OsString>>>, events: &mut Option<Events>, path: &Path) -> Option<Option<Scope>> {
    let deadline = Instant::now() + BURST;
    let mut names = BTreeSet::new();
    let mut all = false;
    let mut event = first;
    loop {
        let Some(Ok(Event { mask, name, .. })) = event else { return None };
        if mask.intersects(EventMask::IGNORED | EventMask::DELETE_SELF | EventMask::MOVE_SELF | EventMask::UNMOUNT) {
            return None;
        }
        all |= mask.contains(EventMask::Q_OVERFLOW);
        names.extend(name.filter(|name| matters(mask, name, path)));
        if Instant::now() >= deadline {
            break;
        }
        match timeout(QUIET, next(events)).await {
            Ok(following) => event = following,
            Err(_) => break,
        }
    }
    Some(if all { Some(Scope::All) } else { (!names.is_empty()).then_some(Scope::Names(names)) })
}

/// Whether an event about this name can change what is declared. A file that was only created is still being written.
fn matters(mask: EventMask, name: &OsString, path: &Path) -> bool {
    let hidden = name.as_encoded_bytes().starts_with(b".");
    let single = path.file_name() == Some(name.as_os_str());
    let file = path.join(name);
    let path = if single && !file.exists() { path } else { file.as_path() };
    let whole = || {
        use std::os::unix::fs::MetadataExt;
        std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink() || meta.nlink() > 1)
    };
    !hidden && !mask.contains(EventMask::ISDIR) && (!mask.contains(EventMask::CREATE) || whole())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::source::SourceError;

    fn pod(name: &str) -> String {
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: i}}]}}\n")
    }

    struct World {
        dir: tempfile::TempDir,
        reports: mpsc::Receiver<Report>,
    }

    impl World {
        fn new(sub: &str, every: Duration) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let (out, reports) = mpsc::channel(8);
            tokio::spawn(watch(Directory::new(&dir.path().join(sub), "n"), every, out));
            Self { dir, reports }
        }

        /// Names of the next report's pods, and how long it took to come.
        async fn next(&mut self) -> (String, Duration) {
            let asked = Instant::now();
            let report = timeout(Duration::from_secs(10), self.reports.recv()).await.expect("a report in time").unwrap();
            assert!(report.problems.iter().all(|told| matches!(told, SourceError::Absent { .. })), "{:?}", report.problems);
            (report.pods.unwrap().iter().map(|p| p.name.clone()).collect::<Vec<_>>().join(" "), asked.elapsed())
        }

        async fn quiet(&mut self, long: Duration) {
            assert!(timeout(long, self.reports.recv()).await.is_err(), "no report was expected");
        }
    }

    const NEVER: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn events_are_prompt_and_half_written_files_wait() {
        use std::io::Write;
        let mut world = World::new("", NEVER);
        assert_eq!(world.next().await.0, "");
        let mut file = fs::File::create(world.dir.path().join("a.yaml")).unwrap();
        file.write_all(&pod("a").as_bytes()[..20]).unwrap();
        world.quiet(Duration::from_millis(100)).await;
        file.write_all(&pod("a").as_bytes()[20..]).unwrap();
        drop(file);
        let (pods, took) = world.next().await;
        assert_eq!(pods, "a-n");
        // Some 4 ms on a quiet machine; the bound only tells an event from a poll.
        assert!(took < Duration::from_secs(2), "{took:?}");

        fs::write(world.dir.path().join(".b"), pod("b")).unwrap();
        world.quiet(Duration::from_millis(50)).await;
        fs::rename(world.dir.path().join(".b"), world.dir.path().join("b.yaml")).unwrap();
        assert_eq!(world.next().await.0, "a-n b-n");
        fs::remove_file(world.dir.path().join("a.yaml")).unwrap();
        assert_eq!(world.next().await.0, "b-n");
        std::os::unix::fs::symlink(world.dir.path().join("b.yaml"), world.dir.path().join("c.yaml")).unwrap();
        let report = world.reports.recv().await.unwrap();
        assert_eq!(report.problems.len(), 1, "the same pod twice");
    }

    #[tokio::test]
    async fn a_directory_may_come_later_and_come_again() {
        let mut world = World::new("manifests", NEVER);
        assert_eq!(world.next().await.0, "");
        let manifests = world.dir.path().join("manifests");
        fs::create_dir(&manifests).unwrap();
        fs::write(manifests.join("a.yaml"), pod("a")).unwrap();
        assert_eq!(world.next().await.0, "a-n");
        fs::rename(&manifests, world.dir.path().join("away")).unwrap();
        let report = timeout(Duration::from_secs(10), world.reports.recv()).await.expect("a report in time").unwrap();
        assert!(report.pods.is_none(), "what was declared there stays");
        assert_eq!(report.problems.len(), 1);
        fs::create_dir(&manifests).unwrap();
        fs::write(manifests.join("b.yaml"), pod("b")).unwrap();
        assert_eq!(world.next().await.0, "b-n");
    }

    #[tokio::test]
    async fn an_interval_may_be_longer_than_clocks_have() {
        let mut world = World::new("", Duration::MAX);
        assert_eq!(world.next().await.0, "");
        fs::write(world.dir.path().join("a.yaml"), pod("a")).unwrap();
        assert_eq!(world.next().await.0, "a-n");
    }

    #[tokio::test]
    async fn a_single_file_may_be_replaced() {
        let mut world = World::new("web.yaml", NEVER);
        assert_eq!(world.next().await.0, "");
        fs::write(world.dir.path().join("web.yaml"), pod("a")).unwrap();
        assert_eq!(world.next().await.0, "a-n");
        fs::write(world.dir.path().join("new"), pod("b")).unwrap();
        world.quiet(Duration::from_millis(50)).await;
        fs::rename(world.dir.path().join("new"), world.dir.path().join("web.yaml")).unwrap();
        assert_eq!(world.next().await.0, "b-n");
    }

    #[tokio::test]
    async fn a_look_that_panics_ends_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.yaml"), pod("a")).unwrap();
        let all = |directory: &mut Directory| directory.refresh(&Scope::All, Timestamp::UNIX_EPOCH);
        let (directory, report) = look(Directory::new(dir.path(), "n"), all).await;
        assert_eq!(report.unwrap().pods.unwrap().len(), 1);
        let (directory, report) = look(directory, |_| panic!("of its own making")).await;
        assert!(report.is_none());
        let (directory, report) = look(directory, all).await;
        assert!(report.is_none(), "the pod is as it was");
        fs::write(dir.path().join("b.yaml"), pod("b")).unwrap();
        let (_, report) = look(directory, all).await;
        assert_eq!(report.unwrap().pods.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn polling_finds_what_no_event_told_and_ends_with_its_listener() {
        let dir = tempfile::tempdir().unwrap();
        let (out, mut reports) = mpsc::channel(8);
        let task = tokio::spawn(watch(Directory::new(dir.path(), "n"), Duration::from_millis(30), out));
        assert!(reports.recv().await.unwrap().pods.unwrap().is_empty());
        // Written through a directory that is then bound away would be the real case; a created, never closed file is like it.
        let file = fs::File::create(dir.path().join("a.yaml")).unwrap();
        std::io::Write::write_all(&mut &file, pod("a").as_bytes()).unwrap();
        let pods = loop {
            if let Some(pods) = reports.recv().await.unwrap().pods {
                break pods;
            }
        };
        assert_eq!(pods.len(), 1);
        drop(reports);
        timeout(Duration::from_secs(10), task).await.expect("it ends").unwrap();
    }
}
