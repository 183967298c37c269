//! What was answered `Ok` survives `kill -9`: this test runs itself as a child and kills it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use polylet_core::record::PodRecord;
use polylet_store::{Opened, Store};

const CHILD: &str = "POLYLET_STORE_TEST_CHILD";

fn record(n: u64) -> PodRecord {
    let uid = format!("uid-{}", n % 20);
    serde_json::from_value(serde_json::json!({
        "uid": uid, "namespace": "default", "name": format!("n{n}-{}", "x".repeat(3000)), "started": n
    }))
    .unwrap()
}

/// In memory where that can be had: a store is synced when it is closed, which hundreds of them need not wait for.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

#[test]
fn what_was_acknowledged_survives() {
    if let Some(dir) = std::env::var_os(CHILD) {
        return write_until_killed(dir.as_ref());
    }
    let dir = scratch();
    let mut first = 0;
    for round in 0..25 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "what_was_acknowledged_survives", "--nocapture"])
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut acknowledged = None;
        let number = |line: &str| line.strip_prefix("ok ").map(|n| n.parse::<u64>().unwrap());
        while acknowledged.is_none() {
            acknowledged = number(&lines.next().expect("the child writes").unwrap());
        }
        std::thread::sleep(Duration::from_micros(700 * round));
        child.kill().unwrap();
        acknowledged = lines.map_while(Result::ok).filter_map(|line| number(&line)).last().or(acknowledged);
        child.wait().unwrap();

        let (store, opened) = Store::open(dir.path());
        assert!(matches!(opened, Opened::Loaded { .. }), "round {round}: {opened}");
        let newest = store.load_all().pods.iter().map(|record| record.started.0).max().unwrap();
        let acknowledged = acknowledged.unwrap();
        assert!(newest >= acknowledged, "round {round}: {acknowledged} was acknowledged, {newest} is there");
        assert!(acknowledged >= first);
        first = newest;
    }
}

fn write_until_killed(dir: &std::path::Path) {
    let (store, _) = Store::open(dir);
    let first = store.load_all().pods.iter().map(|record| record.started.0 + 1).max().unwrap_or(0);
    for n in first.. {
        store.remember(&record(n)).unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "ok {n}").unwrap();
        out.flush().unwrap();
    }
}
