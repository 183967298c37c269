//! The cache of compiled policies: used when it is sound, mended when it is damaged, refused when others can write it.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::{answer, compiler, guest, load, questions, spec, whole};
use polylet_core::question::Answer;
use polylet_policy::{LoadError, PolicyHost, Settings};

fn open(cache: &Path) -> Result<PolicyHost, LoadError> {
    PolicyHost::new(Settings { compiler: compiler(), ..Settings::new(cache) })
}

/// A host that can only load what is compiled already.
fn without_compiler(cache: &Path) -> PolicyHost {
    let mut settings = Settings { compiler: compiler(), ..Settings::new(cache) };
    settings.compiler.command = "/nonexistent/compiler".into();
    PolicyHost::new(settings).unwrap()
}

fn files(cache: &Path, extension: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|e| e == extension)).collect()
}

#[track_caller]
fn answers(host: &PolicyHost, component: Vec<u8>) {
    let policy = load(host, component);
    assert!(matches!(answer(host.ask_policy(&policy, &questions::restart())), Some(Answer::Restart(_))));
}

#[test]
fn what_was_compiled_once_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("a/cache");
    answers(&open(&cache).unwrap(), guest::waits(1));
    assert_eq!(fs::metadata(&cache).unwrap().permissions().mode() & 0o7777, 0o700);
    assert_eq!((files(&cache, "cwasm").len(), files(&cache, "sum").len()), (1, 1));
    answers(&without_compiler(&cache), guest::waits(1));
}

#[test]
fn damaged_code_is_never_run_but_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    answers(&open(&cache).unwrap(), guest::waits(1));
    let code = files(&cache, "cwasm").remove(0);
    let sound = fs::read(&code).unwrap();
    let mut flipped = sound.clone();
    flipped[sound.len() / 2] ^= 1;
    for damaged in [flipped, sound[..sound.len() / 2].to_vec(), Vec::new()] {
        fs::write(&code, damaged).unwrap();
        let error = whole(&without_compiler(&cache).load(&spec(guest::waits(1))).err().unwrap());
        assert!(error.contains("start the compiler"), "{error}");
        assert!(files(&cache, "cwasm").is_empty() && files(&cache, "sum").is_empty());
        answers(&open(&cache).unwrap(), guest::waits(1));
    }
    // Sound by its sum, yet no code: what an older wasmtime left under our name.
    fs::write(&code, "not code").unwrap();
    let sum = files(&cache, "sum").remove(0);
    fs::write(&sum, polylet_policy::digest_of(b"not code").as_str().trim_start_matches("sha256:")).unwrap();
    answers(&open(&cache).unwrap(), guest::waits(1));
}

#[test]
fn what_others_can_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("open/cache");
    answers(&open(&cache).unwrap(), guest::waits(1));
    let check = |path: &Path, expected: &str| {
        let before = fs::metadata(path).unwrap().permissions();
        fs::set_permissions(path, Permissions::from_mode(before.mode() | 0o002)).unwrap();
        let refused = open(&cache).and_then(|host| host.load(&spec(guest::waits(1)))).expect_err("it is refused");
        fs::set_permissions(path, before).unwrap();
        let path = path.display();
        assert_eq!(
            whole(&refused),
            format!(
                "{path} {expected}: code that others can change is not run; make it the agent's own (chown root, chmod go-w)"
            )
        );
    };
    check(&cache, "can be written by others (mode 0702)");
    check(cache.parent().unwrap(), "can be written by others (mode 0702)");
    check(&files(&cache, "cwasm")[0], "can be written by others (mode 0602)");
    std::os::unix::fs::chown(&cache, Some(65534), None).unwrap();
    let refused = whole(&open(&cache).err().unwrap());
    assert!(refused.starts_with(&format!("{} belongs to user 65534: ", cache.display())), "{refused}");
}

#[test]
fn what_another_engine_compiled_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    answers(&open(&cache).unwrap(), guest::waits(1));
    let stale = cache.join("0123-4567.cwasm");
    fs::write(&stale, "").unwrap();
    fs::write(cache.join("readme"), "").unwrap();
    answers(&open(&cache).unwrap(), guest::waits(1));
    assert!(!stale.exists());
    assert!(cache.join("readme").exists());
}
