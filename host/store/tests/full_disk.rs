//! A disk that is really full: a small tmpfs in a mount namespace of its own, which takes root.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use polylet_core::record::PodRecord;
use polylet_store::ring::{Limits, Ring};
use polylet_store::{Opened, Store};

mod common;

const CHILD: &str = "POLYLET_STORE_TEST_FULL";

#[test]
fn a_full_disk_costs_nothing_but_the_file() {
    if let Some(dir) = std::env::var_os(CHILD) {
        store_on_a_full_disk(dir.as_ref());
        ring_on_a_full_disk(dir.as_ref());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=1m tmpfs \"$1\" || exit; exec \"$2\" --exact a_full_disk_costs_nothing_but_the_file";
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"])
        .arg(dir.path())
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, dir.path())
        .output()
        .expect("run unshare, of Debian's util-linux");
    let said = || format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match output.status.code() {
        Some(0) => {}
        // What a failed test of the child's ends with.
        Some(101) => panic!("{}", said()),
        _ => panic!("this test needs a tmpfs in a mount namespace of its own: run it as root\n{}", said()),
    }
}

fn record(n: u64) -> PodRecord {
    let uid = format!("uid-{n}");
    serde_json::from_value(serde_json::json!({
        "uid": uid, "namespace": "default", "name": "x".repeat(20_000), "started": n
    }))
    .unwrap()
}

fn fill(dir: &Path) {
    // The file system refuses once its last page is taken.
    for n in 0.. {
        if fs::write(dir.join(format!("ballast-{n}")), vec![1; 4096]).is_err() {
            return;
        }
    }
}

fn make_room(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("ballast") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

fn store_on_a_full_disk(dir: &Path) {
    // A store that cannot even be made.
    fill(dir);
    let (store, opened) = Store::open(dir);
    assert!(matches!(opened, Opened::MemoryOnly { .. }), "{opened}");
    store.remember(&record(0)).unwrap_err();
    make_room(dir);
    store.flush().unwrap();

    // One that fills up.
    fill(dir);
    let failed = (1..20).filter(|n| store.remember(&record(*n)).is_err()).count();
    assert!(failed > 5, "{failed} of 19 writes failed");
    assert_eq!(store.load_all().pods.len(), 20, "all of it is remembered");
    drop(store);

    // The next agent on the same full disk reads what could be written.
    let (store, opened) = Store::open(dir);
    let there = store.load_all().pods.len();
    assert!(there > 0, "{opened}");
    make_room(dir);
    for n in 0..20 {
        // The disk has room again, but the store may not have found out yet.
        let _ = store.remember(&record(n));
    }
    store.flush().unwrap();
    drop(store);
    let (store, opened) = Store::open(dir);
    assert!(matches!(opened, Opened::Loaded { .. }), "{opened}");
    assert_eq!(store.load_all().pods.len(), 20);
    drop(store);
    fs::remove_file(dir.join(polylet_store::store::FILE)).unwrap();
}

fn ring_on_a_full_disk(dir: &Path) {
    let ring = Ring::open(&dir.join("decisions"), Limits::default());
    ring.append(Arc::new(common::decision(1)));
    ring.flush().unwrap();
    fill(dir);
    for n in 2..100 {
        ring.append(Arc::new(common::decision(n)));
    }
    ring.flush().unwrap();
    let lost = ring.lost();
    assert!(lost > 50, "{lost} of 98 were lost");
    make_room(dir);
    ring.append(Arc::new(common::decision(100)));
    let lines = ring.newest(usize::MAX, None).unwrap();
    let entries: Vec<_> = lines.iter().map(|line| polylet_store::Entry::parse(&line.text).unwrap()).collect();
    assert_eq!(entries.first().unwrap().record.number, 1);
    assert_eq!(entries.last().unwrap().record.number, 100);
    // The next record that fits says what is missing; a file system that counts per processor may let one fit in between.
    assert_eq!(entries.iter().map(|entry| entry.lost).sum::<u64>(), lost, "the next record says what is missing");
    assert_eq!(entries.len() as u64, 100 - lost);
}
