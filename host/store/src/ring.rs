//! The newest policy decisions, on disk, for people and for asking another policy the same questions.
//!
//! ```text
//! loop ── append ──► bounded channel ──► ring thread ──► <dir>/restart-00000007.jsonl, probe-…, qos-…, eviction-…
//!         never waits; full: lost,            │
//!         and the next record says so         └────────► followers, as lines
//! ```
//!
//! One record is one line of JSON: the fields of [`DecisionRecord`], before them `seq`, which grows by one with each record over
//! all lives of the agent, and `lost`, where records before this one are missing.
//!
//! **Capacity.** Each hook has its own [`Limits`], so that probes, which are many, do not push out the few restarts and
//! evictions. Nothing is deduplicated or compressed. With the defaults (8 MiB and 50,000 records a hook, 32 MiB in all) and
//! some 4 kB for a question with all facts of the contract, a hook holds about 2,000 decisions: of probes the last 3 minutes on a
//! node that makes ten attempts a second (50 pods, two probes each, every ten seconds), of restarts 16 hours at two a minute,
//! of eviction rankings of 100 pods (100 kB each) the last 80.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;

use polylet_core::decision::DecisionRecord;
use polylet_core::question::Hook;
use serde::Deserialize;

use lane::{Lane, Missing};

mod lane;

/// Bounds of what is kept of one hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes on disk. A single record may overstep this by as much as its own size, [`Limits::record`] at most.
    pub bytes: u64,
    /// Records.
    pub records: u64,
    /// Files that these are spread over; the oldest is removed whole.
    pub segments: u32,
    /// Bytes of the largest record; a larger one is lost, and counted so.
    pub record: u64,
    /// Records that wait for the disk, of all hooks together; more are lost.
    pub waiting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 8 << 20, records: 50_000, segments: 4, record: 4 << 20, waiting: 1024 }
    }
}

/// The ring. Shared by reference; every method may be called from any thread.
pub struct Ring {
    dir: PathBuf,
    /// None only while the ring is being dropped.
    commands: Option<SyncSender<Command>>,
    lost: Arc<Lost>,
    thread: Option<JoinHandle<()>>,
}

/// One record as it is stored and shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Place in the order of all records.
    pub seq: u64,
    /// Which judgement.
    pub hook: Hook,
    /// JSON without a newline; [`Entry::parse`] reads it.
    pub text: Arc<str>,
}

/// One record, read back.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Place in the order of all records.
    pub seq: u64,
    /// Records missing before this one: the disk was too slow or full.
    pub lost: u64,
    /// The decision.
    pub record: DecisionRecord,
}

/// What a follower says after each line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// More, please.
    On,
    /// It is gone, or too slow.
    Off,
}

/// The ring's thread is not there any more, or could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("read the decisions in {dir}: their keeper has ended")]
pub struct RingGone {
    /// Where they lie.
    pub dir: PathBuf,
}

impl Ring {
    /// Opens the ring in `dir`, making it where it is missing. Where the disk refuses, followers are served all the same and
    /// what is not written counts as lost.
    pub fn open(dir: &Path, limits: Limits) -> Self {
        let (commands, inbox) = sync_channel(limits.waiting.max(1));
        let lost = Arc::new(Lost::default());
        let keeper =
            Keeper { dir: dir.to_owned(), limits, lost: lost.clone(), lanes: Vec::new(), next: 0, followers: Vec::new() };
        let thread = std::thread::Builder::new().name("decisions".to_owned()).spawn(move || keeper.run(&inbox));
        let thread = thread.map_err(|error| tracing::error!(%error, "start the keeper of decisions")).ok();
        Self { dir: dir.to_owned(), commands: Some(commands), lost, thread }
    }

    /// Adds a record: returns at once, whatever the disk does. One that finds the queue full is lost, and the next one says so.
    pub fn append(&self, record: Arc<DecisionRecord>) {
        let Some(commands) = &self.commands else { return };
        match commands.try_send(Command::Append(record)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.lost.add(Missing { records: 1, told: 0 }),
        }
    }

    /// Records lost since the ring was opened.
    pub fn lost(&self) -> u64 {
        self.lost.total.load(Ordering::Relaxed)
    }

    /// The newest `limit` records, oldest first, of one hook or of all; including every one appended before. Reads the disk:
    /// not for the loop.
    pub fn newest(&self, limit: usize, hook: Option<Hook>) -> Result<Vec<Line>, RingGone> {
        self.ask(|answer| Command::Read { limit, hook, answer, follower: None })
    }

    /// As [`Ring::newest`]; every later record goes to `follower`, with no gap and no overlap. It is called on the ring's thread
    /// and must not wait: one that cannot keep up answers [`Follow::Off`].
    pub fn follow(
        &self,
        limit: usize,
        hook: Option<Hook>,
        follower: impl FnMut(&Line) -> Follow + Send + 'static,
    ) -> Result<Vec<Line>, RingGone> {
        self.ask(|answer| Command::Read { limit, hook, answer, follower: Some(Box::new(follower)) })
    }

    /// Waits until every record appended before has been handed to the kernel.
    pub fn flush(&self) -> Result<(), RingGone> {
        self.ask(|answer| Command::Flush { answer })
    }

    fn ask<T>(&self, command: impl FnOnce(SyncSender<T>) -> Command) -> Result<T, RingGone> {
        let gone = || RingGone { dir: self.dir.clone() };
        let (answer, answered) = sync_channel(1);
        let commands = self.commands.as_ref().ok_or_else(gone)?;
        commands.send(command(answer)).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())
    }
}

impl Drop for Ring {
    /// Writes what waits.
    fn drop(&mut self) {
        drop(self.commands.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Entry {
    /// Reads one line.
    pub fn parse(line: &str) -> Result<Self, serde_json::Error> {
        let head: Head = serde_json::from_str(line)?;
        let record = serde_json::from_str(line)?;
        Ok(Self { seq: head.seq, lost: head.lost, record })
    }
}

/// What the ring puts before the fields of a record.
#[derive(Deserialize)]
struct Head {
    seq: u64,
    #[serde(default)]
    lost: u64,
}

type Follower = Box<dyn FnMut(&Line) -> Follow + Send>;

enum Command {
    Append(Arc<DecisionRecord>),
    Read { limit: usize, hook: Option<Hook>, answer: SyncSender<Vec<Line>>, follower: Option<Follower> },
    Flush { answer: SyncSender<()> },
}

/// How many records are missing: in all, and since a record last said so.
#[derive(Default)]
struct Lost {
    total: AtomicU64,
    untold: AtomicU64,
}

impl Lost {
    fn add(&self, missing: Missing) {
        self.total.fetch_add(missing.records, Ordering::Relaxed);
        self.untold.fetch_add(missing.records + missing.told, Ordering::Relaxed);
    }
}

/// What the ring's thread owns.
struct Keeper {
    dir: PathBuf,
    limits: Limits,
    lost: Arc<Lost>,
    lanes: Vec<Lane>,
    next: u64,
    followers: Vec<(Option<Hook>, Follower)>,
}

impl Keeper {
    fn run(mut self, inbox: &Receiver<Command>) {
        if let Err(error) = std::fs::create_dir_all(&self.dir) {
            tracing::warn!(dir = %self.dir.display(), %error, "make the directory of decisions");
        }
        self.lanes = Hook::ALL.map(|hook| Lane::open(&self.dir, hook, self.limits)).into();
        self.next = self.lanes.iter().filter_map(Lane::last_seq).max().map_or(1, |seq| seq + 1);
        loop {
            let command = match inbox.try_recv() {
                Ok(command) => command,
                Err(TryRecvError::Disconnected) => break,
                // Nothing waits: a good moment to hand what is buffered to the kernel, where it survives us.
                Err(TryRecvError::Empty) => {
                    self.flush();
                    match inbox.recv() {
                        Ok(command) => command,
                        Err(_) => break,
                    }
                }
            };
            self.perform(command);
        }
        self.flush();
    }

    fn perform(&mut self, command: Command) {
        match command {
            Command::Append(record) => self.append(&record),
            Command::Read { limit, hook, answer, follower } => {
                self.flush();
                // Whoever asked may have gone meanwhile.
                if answer.send(self.read(limit, hook)).is_ok() {
                    self.followers.extend(follower.map(|follower| (hook, follower)));
                }
            }
            Command::Flush { answer } => {
                self.flush();
                let _ = answer.send(());
            }
        }
    }

    fn append(&mut self, record: &DecisionRecord) {
        let untold = self.lost.untold.swap(0, Ordering::Relaxed);
        let Some(text) = line(self.next, untold, record).filter(|text| text.len() as u64 <= self.limits.record) else {
            self.lost.add(Missing { records: 1, told: untold });
            return;
        };
        let line = Line { seq: self.next, hook: record.hook, text: text.into() };
        self.next += 1;
        self.followers.retain_mut(|(hook, follower)| hook.is_some_and(|hook| hook != line.hook) || follower(&line) == Follow::On);
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.hook() == line.hook) else { return };
        if let Err(missing) = lane.append(&line, untold) {
            self.lost.add(missing);
        }
    }

    fn flush(&mut self) {
        for lane in &mut self.lanes {
            if let Err(missing) = lane.flush() {
                self.lost.add(missing);
            }
        }
    }

    fn read(&self, limit: usize, hook: Option<Hook>) -> Vec<Line> {
        let lanes = self.lanes.iter().filter(|lane| hook.is_none_or(|hook| hook == lane.hook()));
        let mut lines: Vec<Line> = lanes.flat_map(|lane| lane.newest(limit)).collect();
        lines.sort_by_key(|line| line.seq);
        lines.drain(..lines.len().saturating_sub(limit));
        lines
    }
}

/// `{"seq":…,"lost":…,<the record's fields>}`. None for a record without a JSON form.
fn line(seq: u64, lost: u64, record: &DecisionRecord) -> Option<String> {
    let record = serde_json::to_string(record).map_err(|error| tracing::error!(%error, "encode a decision record")).ok()?;
    let lost = if lost == 0 { String::new() } else { format!("\"lost\":{lost},") };
    Some(format!("{{\"seq\":{seq},{lost}{}", record.strip_prefix('{')?))
}
