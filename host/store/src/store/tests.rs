//! What happens when the disk does not do its part, by faults injected below redb.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::*;

use record::record;

#[path = "../../tests/common/record.rs"]
mod record;

const QUICK: Pace = Pace { sync_after: Duration::from_millis(1), retry_after: Duration::from_millis(10) };
/// The keeper sleeps through the test.
const NEVER: Pace = Pace { sync_after: Duration::from_secs(600), retry_after: Duration::from_secs(600) };

fn names(store: &Store) -> Vec<String> {
    store.load_all().pods.into_iter().map(|record| record.name).collect()
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}: not within ten seconds");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_full_disk_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let (store, opened) = Store::open_faulty(dir.path(), NEVER, faults.clone());
    assert!(matches!(opened, Opened::Fresh { .. }), "{opened}");
    store.remember(&record("a", "before")).unwrap();

    faults.full.store(true, Ordering::Relaxed);
    let error = store.remember(&record("b", "while full")).unwrap_err();
    assert!(matches!(error, StoreError::Write { changes: 1, .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!("write 1 changes to the store {}: kept in memory, tried again", dir.path().join(FILE).display())
    );
    let error = store.forget(&"a".into()).unwrap_err();
    assert!(matches!(error, StoreError::Waiting { changes: 2, .. }), "{error:?}");
    assert_eq!(names(&store), ["while full"]);
    store.flush().unwrap_err();

    faults.full.store(false, Ordering::Relaxed);
    store.flush().unwrap();
    store.remember(&record("c", "after")).unwrap();
    drop(store);
    let (store, opened) = Store::open(dir.path());
    assert!(matches!(opened, Opened::Loaded { values: 2, .. }), "{opened}");
    assert_eq!(names(&store), ["while full", "after"]);
}

#[test]
fn a_store_that_is_removed_while_running_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let (store, _) = Store::open_faulty(&state, NEVER, Faults::default());
    store.remember(&record("a", "before")).unwrap();
    std::fs::remove_dir_all(&state).unwrap();
    store.remember(&record("b", "after")).unwrap();
    drop(store);
    let (store, opened) = Store::open(&state);
    assert!(matches!(opened, Opened::Loaded { values: 2, .. }), "{opened}");
    assert_eq!(names(&store), ["before", "after"]);
}

#[test]
fn the_keeper_tries_again_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let (store, _) = Store::open_faulty(dir.path(), QUICK, faults.clone());
    faults.full.store(true, Ordering::Relaxed);
    store.remember(&record("a", "kept")).unwrap_err();
    std::thread::sleep(Duration::from_millis(50));
    assert!(store.shared.lock().database.is_none());
    faults.full.store(false, Ordering::Relaxed);
    wait_for("the store is written", || store.shared.lock().unwritten.is_empty());
    store.remember(&record("b", "and goes on")).unwrap();
}

#[test]
fn what_cannot_be_written_is_read_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = Store::open_faulty(dir.path(), NEVER, Faults::default());
    store.remember(&record("a", "of an earlier life")).unwrap();
    // As `kill -9` leaves it: not closed, so that it must be repaired before it can be read.
    let left = std::fs::read(dir.path().join(FILE)).unwrap();
    drop(store);
    std::fs::write(dir.path().join(FILE), &left).unwrap();

    let faults = Faults::default();
    faults.closed.store(true, Ordering::Relaxed);
    let (store, opened) = Store::open_faulty(dir.path(), NEVER, faults.clone());
    assert!(matches!(opened, Opened::MemoryOnly { values: 1, .. }) && opened.is_trouble(), "{opened}");
    assert_eq!(names(&store), ["of an earlier life"]);
    assert_eq!(std::fs::read(dir.path().join(FILE)).unwrap(), left, "looked at, not touched");
    store.remember(&record("b", "of this one")).unwrap_err();

    faults.closed.store(false, Ordering::Relaxed);
    store.flush().unwrap();
    drop(store);
    assert_eq!(names(&Store::open(dir.path()).0), ["of an earlier life", "of this one"]);
}

#[test]
fn a_file_destroyed_under_a_running_store_is_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let (store, _) = Store::open_faulty(dir.path(), NEVER, faults.clone());
    store.remember(&record("a", "first")).unwrap();
    store.policy_commit("gentle", vec![PolicyWrite { bucket: String::new(), key: "k".into(), value: Some(vec![1]) }]).unwrap();
    faults.full.store(true, Ordering::Relaxed);
    store.remember(&record("b", "second")).unwrap_err();
    std::fs::write(dir.path().join(FILE), vec![0xA5; 70_000]).unwrap();
    faults.full.store(false, Ordering::Relaxed);
    store.flush().unwrap();
    drop(store);
    let (store, opened) = Store::open(dir.path());
    assert!(matches!(opened, Opened::Loaded { values: 3, .. }), "{opened}");
    assert_eq!(names(&store), ["first", "second"]);
    assert_eq!(store.policy_get_all("gentle").len(), 1);
}

#[test]
fn the_keeper_syncs_what_was_committed() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = Store::open_with(dir.path(), QUICK);
    for n in 0..20 {
        store.remember(&record("a", &format!("n{n}"))).unwrap();
        let synced = || !store.shared.lock().database.as_ref().unwrap().syncer.is_due();
        wait_for("the commit is synced", synced);
    }
}

#[test]
fn a_write_that_changes_nothing_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let (store, _) = Store::open_faulty(dir.path(), NEVER, faults.clone());
    store.remember(&record("a", "same")).unwrap();
    faults.full.store(true, Ordering::Relaxed);
    store.remember(&record("a", "same")).unwrap();
    store.forget(&"unknown".into()).unwrap();
}
