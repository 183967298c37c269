//! What is remembered, and how it is found again.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use polylet_store::store::{Change, FILE, PolicyWrite};
use polylet_store::{Opened, Store};
use record::record;

#[path = "common/record.rs"]
mod record;

fn names(store: &Store) -> Vec<String> {
    store.load_all().pods.into_iter().map(|record| record.name).collect()
}

fn write(bucket: &str, key: &str, value: Option<&[u8]>) -> PolicyWrite {
    PolicyWrite { bucket: bucket.to_owned(), key: key.to_owned(), value: value.map(<[u8]>::to_vec) }
}

fn remembered(store: &Store, policy: &str) -> Vec<String> {
    let all: BTreeMap<_, _> = store.policy_get_all(policy);
    all.into_iter().map(|((bucket, key), value)| format!("{bucket}/{key}={}", String::from_utf8_lossy(&value))).collect()
}

#[test]
fn records_survive() {
    let dir = tempfile::tempdir().unwrap();
    let (store, opened) = Store::open(&dir.path().join("deep/er"));
    assert!(matches!(opened, Opened::Fresh { .. }) && !opened.is_trouble(), "{opened}");
    store.remember(&record("b", "one")).unwrap();
    store.remember(&record("a", "two")).unwrap();
    store.remember(&record("b", "one again")).unwrap();
    store.remember(&record("c", "three")).unwrap();
    store.forget(&"c".into()).unwrap();
    assert_eq!(names(&store), ["two", "one again"]);
    drop(store);
    let (store, opened) = Store::open(&dir.path().join("deep/er"));
    assert!(matches!(opened, Opened::Loaded { values: 2, .. }), "{opened}");
    assert_eq!(store.load_all().pods, [record("a", "two"), record("b", "one again")]);
    let mode = std::fs::metadata(dir.path().join("deep/er").join(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_batch_is_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(dir.path());
    store.remember(&record("gone", "gone")).unwrap();
    let remember = |uid, name| Change::Remember(Arc::new(record(uid, name)));
    store
        .apply(&[
            remember("a", "a"),
            remember("b", "b"),
            Change::Forget("a".into()),
            Change::Forget("gone".into()),
            Change::Forget("c".into()),
            remember("c", "c"),
        ])
        .unwrap();
    assert_eq!(names(&store), ["b", "c"]);
    drop(store);
    assert_eq!(names(&Store::open(dir.path()).0), ["b", "c"]);
}

#[test]
fn policies_remember_by_bucket() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(dir.path());
    store.remember(&record("uid-1", "pod")).unwrap();
    store.policy_commit("gentle", vec![write("", "total", Some(b"7")), write("uid-1", "n", Some(b"1"))]).unwrap();
    store.policy_commit("gentle", vec![write("uid-2", "n", Some(b"2")), write("", "total", Some(b"8"))]).unwrap();
    store.policy_commit("gentler", vec![write("uid-1", "n", Some(b"x"))]).unwrap();
    assert_eq!(remembered(&store, "gentle"), ["/total=8", "uid-1/n=1", "uid-2/n=2"]);
    assert_eq!(store.policy_all().len(), 4, "of all policies, and no pod's record");
    store.policy_commit("gentle", vec![write("uid-2", "n", None)]).unwrap();
    store.forget(&"uid-1".into()).unwrap();
    assert_eq!((remembered(&store, "gentle"), remembered(&store, "gentler")), (vec!["/total=8".to_owned()], vec![]));
    drop(store);
    let (store, _) = Store::open(dir.path());
    assert_eq!(remembered(&store, "gentle"), ["/total=8"]);
}

#[test]
fn a_record_that_cannot_be_parsed_is_named_and_the_others_load() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(dir.path());
    store.remember(&record("a", "good")).unwrap();
    drop(store);
    let redb = redb::Database::create(dir.path().join(FILE)).unwrap();
    let pods = redb::TableDefinition::<&str, &[u8]>::new("pods");
    let transaction = redb.begin_write().unwrap();
    transaction.open_table(pods).unwrap().insert("b", b"{\"uid\":7}".as_slice()).unwrap();
    transaction.commit().unwrap();
    drop(redb);
    let (store, opened) = Store::open(dir.path());
    assert!(matches!(opened, Opened::Loaded { values: 2, .. }), "{opened}");
    let records = store.load_all();
    assert_eq!(records.pods, [record("a", "good")]);
    let [(uid, why)] = &records.unreadable[..] else { panic!("{records:?}") };
    assert_eq!((uid.as_str(), why.contains("invalid type: integer `7`")), ("b", true), "{why}");
    store.forget(uid).unwrap();
    assert!(store.load_all().unreadable.is_empty());
}

#[test]
fn one_store_is_open_once() {
    let dir = tempfile::tempdir().unwrap();
    let (first, _) = Store::open(dir.path());
    first.remember(&record("a", "first's")).unwrap();
    let (second, opened) = Store::open(dir.path());
    assert!(opened.to_string().contains("cannot be written (another process has it open)"), "{opened}");
    second.remember(&record("b", "second's")).unwrap_err();
    first.remember(&record("c", "first's too")).unwrap();
    drop(first);
    // Nothing was set aside, and the second writes now what it had kept.
    second.flush().unwrap();
    drop(second);
    assert_eq!(names(&Store::open(dir.path()).0), ["first's", "second's", "first's too"]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_path_that_cannot_be_a_store_costs_only_memory_of_the_past() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(FILE)).unwrap();
    let (store, opened) = Store::open(dir.path());
    assert!(matches!(opened, Opened::MemoryOnly { .. }), "{opened}");
    store.remember(&record("a", "kept")).unwrap_err();
    assert_eq!(names(&store), ["kept"]);
    std::fs::write(dir.path().join("file"), "").unwrap();
    let (store, opened) = Store::open(&dir.path().join("file/below"));
    assert!(matches!(opened, Opened::MemoryOnly { .. }), "{opened}");
    store.remember(&record("a", "kept")).unwrap_err();
}

#[test]
fn who_took_over_whom_survives_and_is_nobody_elses() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(dir.path());
    store.remember(&record("theirs", "web")).unwrap();
    store.policy_commit("gentle", vec![write("", "total", Some(b"7"))]).unwrap();
    assert_eq!(store.adopted(), BTreeMap::new());
    store.adopt(&"own".into(), Some(&"before".into())).unwrap();
    store.adopt(&"own".into(), Some(&"theirs".into())).unwrap();
    store.adopt(&"other".into(), Some(&"another".into())).unwrap();
    store.adopt(&"other".into(), None).unwrap();
    // The pod's end is not the end of its name.
    store.forget(&"theirs".into()).unwrap();
    drop(store);
    let (store, opened) = Store::open(dir.path());
    assert!(matches!(opened, Opened::Loaded { values: 2, .. }), "{opened}");
    assert_eq!(store.adopted(), BTreeMap::from([("own".into(), "theirs".into())]));
    assert_eq!((store.load_all().pods.len(), store.policy_all().len(), remembered(&store, "gentle").len()), (0, 1, 1));
}
