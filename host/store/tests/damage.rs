//! A store that cannot be used is set aside with a message, and never ends the agent.

use std::fs;
use std::path::Path;

use polylet_core::record::PodRecord;
use polylet_store::store::{FILE, Pace};
use polylet_store::{Opened, Store};

fn record(n: u64) -> PodRecord {
    let name = format!("pod-{n}-{}", "x".repeat(n as usize * 13 % 700));
    let uid = format!("uid-{n:04}");
    serde_json::from_value(serde_json::json!({ "uid": uid, "namespace": "default", "name": name, "started": n })).unwrap()
}

/// In memory where that can be had: a store is synced when it is closed, which hundreds of them need not wait for.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Bytes of a store with 60 records, as a closed one and as `kill -9` leaves it.
fn samples() -> [Vec<u8>; 2] {
    let dir = scratch();
    let (store, _) = Store::open(dir.path());
    for n in 0..60 {
        store.remember(&record(n)).unwrap();
    }
    let killed = fs::read(dir.path().join(FILE)).unwrap();
    drop(store);
    [fs::read(dir.path().join(FILE)).unwrap(), killed]
}

/// Opens a store over these bytes: it must work, and hold nothing but what was once stored.
fn check(bytes: &[u8], what: &str) -> Opened {
    let dir = scratch();
    fs::write(dir.path().join(FILE), bytes).unwrap();
    let (store, opened) = Store::open_with(dir.path(), Pace::default());
    let loaded = store.load_all();
    assert_eq!(loaded.unreadable, [], "{what}: {opened}");
    for pod in &loaded.pods {
        assert_eq!(*pod, record(pod.started.0), "{what}: {opened}");
    }
    match &opened {
        Opened::Loaded { values, .. } => assert_eq!(*values, loaded.pods.len(), "{what}"),
        Opened::SetAside { path, moved_to, .. } => {
            assert_eq!(fs::read(moved_to).unwrap().len(), bytes.len(), "{what}: kept as it was");
            let text = opened.to_string();
            for part in [path.to_str().unwrap(), moved_to.to_str().unwrap(), "supported", "a fresh one is started"] {
                assert!(text.contains(part), "{what}: {text}");
            }
        }
        Opened::Fresh { .. } => assert!(bytes.is_empty(), "{what}"),
        Opened::MemoryOnly { .. } => panic!("{what}: {opened}"),
    }
    store.remember(&record(99)).unwrap();
    drop(store);
    let (store, again) = Store::open(dir.path());
    assert!(matches!(again, Opened::Loaded { .. }), "{what}: {again}");
    assert_eq!(store.load_all().pods.len(), loaded.pods.len() + 1, "{what}");
    opened
}

fn set_aside(opened: &Opened) -> bool {
    matches!(opened, Opened::SetAside { .. })
}

/// A small generator, so that a failure names the seed that shows it again.
fn chance(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state >> 33
}

#[test]
fn undamaged_ones_load_whole() {
    for bytes in samples() {
        assert!(matches!(check(&bytes, "undamaged"), Opened::Loaded { values: 60, .. }));
    }
}

#[test]
fn what_is_no_store_is_set_aside() {
    for len in [0, 1, 8, 9, 100, 4096, 70_000] {
        assert!(set_aside(&check(&vec![0; len], &format!("{len} zeroes"))));
        assert!(set_aside(&check(&b"apiVersion: v1\n".repeat(len / 15 + 1), &format!("{len} bytes of YAML"))));
        for seed in 0..8 {
            let mut state = seed;
            let noise: Vec<u8> = (0..len).map(|_| chance(&mut state) as u8).collect();
            assert!(set_aside(&check(&noise, &format!("{len} bytes of noise, seed {seed}"))));
        }
    }
}

#[test]
fn truncated_ones_never_panic() {
    for (sample, bytes) in samples().iter().enumerate() {
        let step = bytes.len() / 60;
        for len in (1..bytes.len()).step_by(step).chain([4095, 4096, 4097, bytes.len() - 1]) {
            check(&bytes[..len], &format!("sample {sample} cut to {len} of {}", bytes.len()));
        }
    }
}

#[test]
fn zeroed_pages_never_panic() {
    for (sample, bytes) in samples().iter().enumerate() {
        for start in (0..bytes.len()).step_by(4096) {
            let mut damaged = bytes.clone();
            let end = (start + 4096).min(bytes.len());
            damaged[start..end].fill(0);
            check(&damaged, &format!("sample {sample} with zeroes at {start}"));
        }
    }
}

#[test]
fn flipped_bits_never_panic_and_never_alter_a_record() {
    let mut found = 0;
    for (sample, bytes) in samples().iter().enumerate() {
        for seed in 0..250 {
            let mut damaged = bytes.clone();
            let mut state = seed;
            // The first pages hold the header, where a flip matters most.
            let within = if seed % 3 == 0 { 600 } else { bytes.len() as u64 };
            for _ in 0..1 + seed % 4 {
                damaged[(chance(&mut state) % within) as usize] ^= 1 << (chance(&mut state) % 8);
            }
            found += u32::from(set_aside(&check(&damaged, &format!("sample {sample}, flips of seed {seed}"))));
        }
    }
    assert!(found > 50, "only {found} of 500 damaged stores were noticed");
}

#[test]
fn a_newer_one_is_kept_for_the_newer_agent() {
    let dir = scratch();
    make(dir.path(), "meta", 7);
    let (store, opened) = Store::open(dir.path());
    let Opened::SetAside { path, moved_to, .. } = &opened else { panic!("{opened}") };
    assert!(moved_to.file_name().unwrap().to_str().unwrap().starts_with("polylet.redb.newer-2"), "{}", moved_to.display());
    assert_eq!(
        opened.to_string(),
        format!(
            "store {}: it has schema version 7, written by a newer agent; supported: up to 1; moved to {}, a fresh one is \
             started: backoff and restart counts begin anew",
            path.display(),
            moved_to.display()
        )
    );
    store.remember(&record(1)).unwrap();
    let redb = redb::Database::open(moved_to).unwrap();
    let meta = redb::TableDefinition::<&str, u64>::new("meta");
    let transaction = redb::ReadableDatabase::begin_read(&redb).unwrap();
    assert_eq!(transaction.open_table(meta).unwrap().get("schema").unwrap().unwrap().value(), 7);
}

#[test]
fn another_programs_database_is_set_aside() {
    let dir = scratch();
    make(dir.path(), "customers", 1);
    let (_store, opened) = Store::open(dir.path());
    assert!(opened.to_string().contains("not a store of this agent (it has no table \"meta\", but [\"customers\"]"), "{opened}");
    let dir = scratch();
    make(dir.path(), "meta", 0);
    let (_store, opened) = Store::open(dir.path());
    assert!(opened.to_string().contains("schema version 0, which never was one"), "{opened}");
}

/// A database with one table of numbers.
fn make(dir: &Path, table: &str, schema: u64) {
    let redb = redb::Database::create(dir.join(FILE)).unwrap();
    let transaction = redb.begin_write().unwrap();
    transaction.open_table(redb::TableDefinition::<&str, u64>::new(table)).unwrap().insert("schema", schema).unwrap();
    transaction.commit().unwrap();
}
