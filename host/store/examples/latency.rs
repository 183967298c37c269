//! What a commit costs: the figures in `src/store/backend.rs` and `ARCHITECTURE.md`.
//!
//! `cargo run --release -p polylet-store --example latency [DIR]`; DIR should be on the disk that the agent will use.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polylet_core::decision::DecisionRecord;
use polylet_core::record::PodRecord;
use polylet_store::ring::{Limits, Ring};
use polylet_store::store::Store;
use redb::{Durability, TableDefinition};

const PODS: u64 = 110;
const TABLE: TableDefinition<&str, &[u8]> = TableDefinition::new("pods");

fn main() {
    let base = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let dir = tempfile::tempdir_in(base).expect("a directory to write in");
    println!("record of {} bytes, {PODS} pods; p50, p99 and maximum, five rounds", record(0).1.len());
    for (name, durability, times) in
        [("redb, waiting for the disk", Durability::Immediate, 200), ("redb, lost with the process", Durability::None, 2000)]
    {
        report(name, || redb(dir.path(), durability, times));
    }
    let (store, _) = Store::open(&dir.path().join("store"));
    report("Store::remember", || remember(&store));
    report("Store::remember at 20 a second", || remember_slowly(&store));
    let start = Instant::now();
    drop(store);
    let closed = start.elapsed();
    let start = Instant::now();
    let (store, opened) = Store::open(&dir.path().join("store"));
    println!("close {closed:?}, open {:?} ({opened})", start.elapsed());
    drop(store);
    let ring = Ring::open(&dir.path().join("decisions"), Limits::default());
    report("Ring::append", || append(&ring));
    println!("lost by the ring: {}", ring.lost());
}

fn report(name: &str, mut round: impl FnMut() -> Vec<Duration>) {
    let mut line = String::new();
    for _ in 0..5 {
        let mut times = round();
        times.sort();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        let _ = write!(line, "  {:.1?} {:.1?} {:.1?};", at(50), at(99), at(100));
    }
    println!("{name:32}{line}");
}

fn redb(dir: &Path, durability: Durability, times: u64) -> Vec<Duration> {
    let path = dir.join("plain.redb");
    let database = redb::Database::builder().set_cache_size(1 << 20).create(&path).expect("a database");
    let result = timed(times, record, |(record, json)| {
        let mut transaction = database.begin_write().expect("a transaction");
        transaction.set_durability(durability).expect("durability");
        transaction.open_table(TABLE).expect("a table").insert(record.uid.as_str(), json.as_bytes()).expect("an insert");
        transaction.commit().expect("a commit");
    });
    drop(database);
    std::fs::remove_file(path).expect("remove");
    result
}

fn remember(store: &Store) -> Vec<Duration> {
    timed(2000, record, |(record, _)| store.remember(&record).expect("a write"))
}

fn remember_slowly(store: &Store) -> Vec<Duration> {
    let pause = |n| {
        std::thread::sleep(Duration::from_millis(50));
        record(n)
    };
    timed(60, pause, |(record, _)| store.remember(&record).expect("a write"))
}

fn append(ring: &Ring) -> Vec<Duration> {
    let decision: DecisionRecord = serde_json::from_value(serde_json::json!({
        "number": 1, "at": 1, "hook": "probe", "asked": [],
        "question": { "body": { "assess": { "node": {}, "signals": [] } } }, "answer": { "assess": [] }
    }))
    .expect("a decision");
    let decision = Arc::new(decision);
    let times = timed(500, |_| decision.clone(), |decision| ring.append(decision));
    ring.flush().expect("a keeper");
    times
}

/// Times `f` alone, on what `prepare` makes.
fn timed<T>(times: u64, mut prepare: impl FnMut(u64) -> T, mut f: impl FnMut(T)) -> Vec<Duration> {
    let mut each = |n| {
        let prepared = prepare(n);
        let start = Instant::now();
        f(prepared);
        start.elapsed()
    };
    (0..times).map(&mut each).collect()
}

/// Differs from run to run, so that no write is one that changes nothing.
fn nanos() -> u64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64)
}

/// A pod that has crashed often: its history is full.
fn record(n: u64) -> (PodRecord, String) {
    let ended = |i: u64| {
        serde_json::json!({ "at": 1_700_000_000_000 + i + nanos() % 1000, "ranFor": 60_000, "exitCode": 137, "signal": 9,
            "outOfMemory": true, "cause": "exited" })
    };
    let history: Vec<_> = (0..32).map(ended).collect();
    let value = serde_json::json!({
        "uid": format!("uid-{:03}", n % PODS), "namespace": "default", "name": format!("web-{n}"), "started": n,
        "containers": { "web": { "history": history } }
    });
    let record: PodRecord = serde_json::from_value(value).expect("a record");
    let json = serde_json::to_string(&record).expect("its JSON");
    (record, json)
}
