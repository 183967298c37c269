//! The policy directory: what it shows is bound, what is wrong in it is named, and what was bound stays until something better is there.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{answer, built, guest, host, host_with, questions};
use polylet_core::effect::Rung;
use polylet_core::question::{Answer, Hook};
use polylet_policy::{Install, LimitSpec, LoadError, PolicyHost, digest_of, install, revert, scan, unbind};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A file that begins well, with so much of a spec.
fn binding(name: &str, spec: &str) -> String {
    format!("apiVersion: policy.polylet.io/v1alpha1\nkind: PolicyBinding\nmetadata: {{name: {name}}}\nspec:\n{spec}")
}

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn good_spec() -> String {
    format!("  hook: restart\n  component: a.wasm\n  digest: {DIGEST}\n")
}

/// One file in a directory, and everything that is said about it: the place, then the message behind the file's name.
#[track_caller]
fn check(file: &str, text: &str, expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(file), text).unwrap();
    let scan = scan(folder.path()).unwrap();
    let prefix = format!("{}: ", folder.path().join(file).display());
    let errors: Vec<String> =
        scan.errors.iter().map(|e| e.to_string().strip_prefix(&prefix).expect("names the file").to_owned()).collect();
    assert_eq!(errors, expected);
    assert_eq!(scan.bindings.is_empty(), !expected.is_empty());
}

#[test]
fn a_binding_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let limits = "  limits: {fuel: 1000000, timeout: 250ms, memory: 8Mi, storeBytes: 1Ki, logBytes: 0}\n";
    fs::write(folder.path().join("gentle.yaml"), binding("gentle", &format!("{}  config: {{delay: 5}}\n{limits}", good_spec())))
        .unwrap();
    fs::write(folder.path().join("notes.txt"), "not a binding").unwrap();
    fs::write(folder.path().join(".hidden.yaml"), "not a binding").unwrap();
    let scan = scan(folder.path()).unwrap();
    assert_eq!(scan.errors, []);
    let [found] = &scan.bindings[..] else { panic!("{:?}", scan.bindings) };
    assert_eq!((found.name.as_str(), found.hook, &found.config), ("gentle", Hook::Restart, &json!({"delay": 5})));
    assert_eq!(found.limits.timeout, Some(std::time::Duration::from_millis(250)));
    assert_eq!((found.limits.memory, found.limits.store_bytes, found.limits.log_bytes), (Some(8 << 20), Some(1024), Some(0)));
}

#[test]
fn a_directory_that_is_not_there_shows_nothing() {
    let scan = scan(Path::new("/nonexistent/policies")).unwrap();
    assert!(scan.bindings.is_empty() && scan.errors.is_empty());
    assert_eq!(scan.names, None, "what it would name is not known");
}

#[test]
fn what_others_can_change_is_not_bound() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gentle.yaml");
    fs::write(&file, binding("gentle", &good_spec())).unwrap();
    let said = |path: &Path, mode: u32, back: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let scan = scan(folder.path()).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(back)).unwrap();
        assert!(scan.bindings.is_empty());
        scan.errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let why = "whoever can change bindings decides about every pod; make it the agent's own (chown root, chmod go-w)";
    assert_eq!(said(&file, 0o664, 0o644), [format!("{}: can be written by others (mode 0664): {why}", file.display())]);
    let real = folder.path().canonicalize().unwrap();
    assert_eq!(said(folder.path(), 0o1777, 0o700), [format!("{}: can be written by others (mode 1777): {why}", real.display())]);
    assert_eq!(scan(folder.path()).unwrap().bindings.len(), 1);
}

#[test]
fn names_are_those_that_are_bound_or_could_be_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let bind = |name: &str| {
        let component = name.as_bytes();
        install(path, &Install { name, hook: Hook::Restart, component, config: json!({}), limits: LimitSpec::default() }).unwrap()
    };
    let names = || scan(path).unwrap().names.map(|names| names.into_iter().collect::<Vec<_>>().join(" "));
    bind("first");
    bind("second");
    assert_eq!(names().as_deref(), Some("first second"));
    bind("third");
    assert_eq!(names().as_deref(), Some("second third"));
    unbind(path, Hook::Restart).unwrap();
    assert_eq!(names().as_deref(), Some("third"));
    fs::write(path.join("odd.yaml"), "no binding").unwrap();
    assert_eq!(names().as_deref(), Some("odd third"), "it may be what is bound");
    fs::write(path.join(".previous/restart.yaml"), "no binding").unwrap();
    assert_eq!(names(), None);
}

#[test]
fn what_is_wrong_is_named_with_its_field_its_value_and_what_would_be_right() {
    let whole = |text: &str| text.to_owned();
    let at = |place: &str, spec: &str| (whole(place), binding("a", spec));
    let good = good_spec();
    check("a.yaml", &binding("a", &good), &[]);
    check(
        "a.json",
        &json!({"apiVersion": "policy.polylet.io/v1alpha1", "kind": "PolicyBinding", "metadata": {"name": "a"},
        "spec": {"hook": "qos", "component": "a.wasm", "digest": DIGEST}})
        .to_string(),
        &[],
    );
    check("a.yaml", "", &["is empty: it must hold a PolicyBinding"]);
    check("a.yaml", "- a", &["must be a mapping with apiVersion: policy.polylet.io/v1alpha1 and kind: PolicyBinding"]);
    check(
        "a.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
        &[
            r#"apiVersion: Invalid value: "v1": must be "policy.polylet.io/v1alpha1""#,
            r#"kind: Invalid value: "Pod": must be "PolicyBinding""#,
            "spec: Required value: a mapping",
        ],
    );
    check(
        "b.yaml",
        &binding("a", &good),
        &[r#"metadata.name: Invalid value: "a": must be the name of the file without its extension: "b""#],
    );
    check(
        "A.yaml",
        &binding("A", &good),
        &[
            r#"metadata.name: Invalid value: "A": must be a DNS label: up to 63 of a-z, 0-9 and '-', a letter or digit at each end"#,
        ],
    );
    check(
        "a.yaml",
        &binding("a", &good.replace("restart", "restarts")),
        &[r#"spec.hook: Unsupported value: "restarts": supported values: "restart", "probe", "qos", "eviction""#],
    );
    check(
        "a.yaml",
        &binding("a", "  hook: qos\n"),
        &[
            "spec.component: Required value: the component's file, a path below this directory",
            "spec.digest: Required value: the component's digest: \"sha256:\" and what `sha256sum` prints",
        ],
    );
    check(
        "a.yaml",
        &binding("a", &good.replace("sha256:e3", "sha256:E3")),
        &[&format!(
            r#"spec.digest: Invalid value: "{}": must be "sha256:" and 64 hexadecimal digits in lower case"#,
            DIGEST.replace(":e3", ":E3"),
        )],
    );
    check("a.yaml", &binding("a", &format!("{good}  limit: {{}}\n")), &[r#"spec.limit: Unknown field: did you mean "limits"?"#]);
    check(
        "a.yaml",
        &binding("a", &format!("{good}  scope: node\n")),
        &["spec.scope: Unknown field: known here are hook, component, digest, config, limits"],
    );
    check("a.yaml", &binding("a", &format!("{good}  limits: 5\n")), &["spec.limits: Invalid value: 5: must be a mapping"]);
    let limits = [
        ("fuel: 1", "spec.limits.fuel: Invalid value: 1: must be a whole number from 1000 to 1000000000 for restart"),
        ("fuel: lots", r#"spec.limits.fuel: Invalid value: "lots": must be a whole number from 1000 to 1000000000 for restart"#),
        (
            "timeout: 5",
            r#"spec.limits.timeout: Invalid value: 5: must be a duration like "250ms" or "1s", from 1ms to 1s for restart"#,
        ),
        (
            "timeout: 2s",
            r#"spec.limits.timeout: Invalid value: "2s": must be a duration like "250ms" or "1s", from 1ms to 1s for restart"#,
        ),
        (
            "memory: 1Gi",
            r#"spec.limits.memory: Invalid value: "1Gi": must be a number of bytes, or one with Ki or Mi, from 65536 to 67108864"#,
        ),
        (
            "memory: 128Mi",
            r#"spec.limits.memory: Invalid value: "128Mi": must be a number of bytes, or one with Ki or Mi, from 65536 to 67108864"#,
        ),
        (
            "storeBytes: -1",
            "spec.limits.storeBytes: Invalid value: -1: must be a number of bytes, or one with Ki or Mi, from 0 to 1048576",
        ),
        (
            "logBytes: true",
            "spec.limits.logBytes: Invalid value: true: must be a number of bytes, or one with Ki or Mi, from 0 to 262144",
        ),
        ("time: 5s", "spec.limits.time: Unknown field: known here are fuel, timeout, memory, storeBytes, logBytes"),
    ];
    for (limit, expected) in limits {
        let (_, text) = at("", &format!("{good}  limits: {{{limit}}}\n"));
        check("a.yaml", &text, &[expected]);
    }
    let eviction = good.replace("restart", "eviction");
    check("a.yaml", &binding("a", &format!("{eviction}  limits: {{timeout: 10s, fuel: 10000000000}}\n")), &[]);
    check(
        "a.yaml",
        &binding("a", &format!("{eviction}  limits: {{timeout: 11s, fuel: 10000000001}}\n")),
        &[
            "spec.limits.fuel: Invalid value: 10000000001: must be a whole number from 1000 to 10000000000 for eviction",
            r#"spec.limits.timeout: Invalid value: "11s": must be a duration like "250ms" or "1s", from 1ms to 10s for eviction"#,
        ],
    );
    for component in ["/etc/passwd", "../a.wasm", "components/../../a.wasm"] {
        let right = "must be a path below this directory, relative to it and without \"..\"";
        check(
            "a.yaml",
            &binding("a", &good.replace("a.wasm", component)),
            &[&format!("spec.component: Invalid value: {component:?}: {right}")],
        );
    }
}

/// Puts what is no regular file in the place of `file`; what is said of it.
fn odd_files(folder: &Path, file: &str) -> Vec<String> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let path = folder.join(file);
    let mut said = Vec::new();
    let mut look = |make: &dyn Fn()| {
        make();
        said.extend(scan(folder).unwrap().errors.iter().map(ToString::to_string));
        fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).unwrap();
    };
    look(&|| mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap());
    look(&|| fs::create_dir(&path).unwrap());
    look(&|| drop(std::os::unix::net::UnixListener::bind(&path).unwrap()));
    look(&|| std::os::unix::fs::symlink("/dev/zero", &path).unwrap());
    look(&|| std::os::unix::fs::symlink(file, &path).unwrap());
    said
}

#[test]
fn what_is_no_regular_file_is_refused_by_name_and_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.yaml");
    let what = |kind| format!("{}: cannot be read: it is {kind}, not a regular file", path.display());
    let expected = [
        what("a named pipe"),
        what("a directory"),
        what("a socket"),
        what("a device"),
        format!("{}: cannot be read: Too many levels of symbolic links (os error 40)", path.display()),
    ];
    assert_eq!(odd_files(folder.path(), "a.yaml"), expected);
}

#[test]
fn a_component_that_is_no_regular_file_is_refused_by_name() {
    let node = Node::new();
    let fifo = node.folder.path().join("a.wasm");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    node.write("a.yaml", &binding("a", &good_spec()));
    assert_eq!(node.apply(), ["a.yaml: spec.component: read a.wasm: it is a named pipe, not a regular file"]);
}

#[test]
fn what_is_neither_yaml_nor_json_is_named_with_its_place() {
    for text in ["a: [1", "a: 1\na: 2", "a: &a [*a]", "\u{0}", "a: 1\n---\nb: 2"] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.yaml"), text).unwrap();
        let scan = scan(folder.path()).unwrap();
        let error = scan.errors[0].to_string();
        assert!(error.contains("a.yaml: is neither YAML nor JSON: "), "{error}");
    }
    let deep = "{a: ".repeat(65) + &"}".repeat(65);
    let laughs: String = (1..6).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 15].join(","))).collect();
    let laughs = format!("a0: &a0 x\n{laughs}");
    for (text, expected) in [
        ("a: 1\n: x\n", "a key is empty: it must be a text at line 2, column 1"),
        ("a: &a [*a]", "an alias stands within its own anchor: it would never end at line 1, column 8"),
        (deep.as_str(), "nested deeper than 64 levels at line 1, column 257"),
        (laughs.as_str(), "aliases stand for too much: at most 50000 values, written out at line 5, column 54"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.yaml"), text).unwrap();
        let error = scan(folder.path()).unwrap().errors[0].to_string();
        assert!(error.ends_with(&format!("a.yaml: is neither YAML nor JSON: {expected}")), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), [0xff]).unwrap();
    assert!(scan(folder.path()).unwrap().errors[0].to_string().ends_with("a.yaml: is not UTF-8 text: byte 0"));
    fs::write(folder.path().join("a.yaml"), vec![b' '; 2 << 20]).unwrap();
    assert!(scan(folder.path()).unwrap().errors[0].to_string().ends_with("a.yaml: cannot be read: is longer than 1048576 bytes"));
}

/// A directory with a host that applies it.
struct Node {
    folder: TempDir,
    host: PolicyHost,
}

impl Node {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), host: host() }
    }

    fn install(&self, name: &str, component: &[u8]) {
        let hook = Hook::Restart;
        install(self.folder.path(), &Install { name, hook, component, config: json!({}), limits: LimitSpec::default() }).unwrap();
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.path().join(file), text).unwrap();
    }

    /// Applies the directory; the errors.
    fn apply(&self) -> Vec<String> {
        let applied = self.host.apply(&scan(self.folder.path()).unwrap());
        assert_eq!(applied.bindings, self.host.bindings());
        let folder = format!("{}/", self.folder.path().display());
        applied.errors.iter().map(|error| error.to_string().replace(&folder, "")).collect()
    }

    fn rungs(&self) -> Vec<Rung> {
        self.host.bindings().rungs.get(&Hook::Restart).cloned().unwrap_or_default()
    }

    /// The names on the ladder.
    fn ladder(&self) -> String {
        let name = |rung: &Rung| match rung {
            Rung::Bound { name, .. } => name.clone(),
            other => format!("{other:?}").to_lowercase(),
        };
        self.rungs().iter().map(name).collect::<Vec<_>>().join(" ")
    }

    /// What the active policy answers.
    fn delay(&self) -> Option<u64> {
        let rung = self.rungs().first()?.clone();
        match answer(self.host.ask(&rung, &questions::restart())) {
            Some(Answer::Restart(answer)) => Some(answer.delay),
            other => panic!("{other:?}"),
        }
    }
}

/// Whoever may not wait for a compiler binds all that needs none, and keeps what the others had bound.
#[test]
fn what_must_be_compiled_holds_up_nobody() {
    let slow = guest::waits(4_001);
    let cache = tempfile::tempdir().unwrap();
    let node = Node { folder: tempfile::tempdir().unwrap(), host: host_with(|settings| settings.cache = cache.path().into()) };
    node.install("one", &guest::waits(1));
    assert!(node.apply().is_empty());
    node.install("one", &slow);
    let bytes = slow.clone();
    let answers: [(LoadError, usize, usize); 2] =
        [(LoadError::Waiting, 0, 1), (LoadError::Before("the component is too costly".into()), 1, 0)];
    for (answer, errors, waiting) in answers {
        let mut answer = Some(answer);
        let applied = node.host.apply_compiled(&scan(node.folder.path()).unwrap(), &mut |binding, component| {
            assert_eq!((binding.name.as_str(), &component[..]), ("one", &bytes[..]));
            answer.take().map_or(Ok(()), Err)
        });
        assert_eq!((applied.errors.len(), applied.waiting.len(), applied.changed), (errors, waiting, false), "{applied:?}");
        assert_eq!((node.delay(), node.ladder().as_str()), (Some(1), "one"));
    }
    node.host.compile(&slow).unwrap();
    let mut compiles = 0;
    let applied = node.host.apply_compiled(&scan(node.folder.path()).unwrap(), &mut |_, _| {
        compiles += 1;
        Ok(())
    });
    assert_eq!((applied.errors.len(), applied.waiting.len(), applied.changed, compiles), (0, 0, true, 0));
    assert_eq!(node.delay(), Some(4_001));
}

/// A cache may be lost: what cannot be written there is kept in memory.
#[test]
fn a_cache_that_cannot_be_written_costs_only_time() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let node = Node { folder: tempfile::tempdir().unwrap(), host: host_with(|settings| settings.cache.clone_from(&cache)) };
    fs::remove_dir_all(&cache).unwrap();
    fs::write(&cache, "in the way").unwrap();
    node.install("one", &guest::waits(7));
    assert!(node.apply().is_empty());
    assert_eq!(node.delay(), Some(7));
    node.host.compile(&guest::waits(8)).unwrap();
    node.install("one", &guest::waits(8));
    let applied = node.host.apply_compiled(&scan(node.folder.path()).unwrap(), &mut |_, _| panic!("it is compiled"));
    assert!(applied.errors.is_empty(), "{applied:?}");
    assert_eq!(node.delay(), Some(8));
}

#[test]
fn install_replace_revert_unbind() {
    let node = Node::new();
    assert!(node.apply().is_empty());
    assert_eq!(node.ladder(), "");
    node.install("one", &guest::waits(1));
    assert!(node.apply().is_empty());
    assert_eq!((node.ladder().as_str(), node.delay()), ("one", Some(1)));
    node.install("two", &guest::waits(2));
    assert!(node.apply().is_empty());
    assert_eq!((node.ladder().as_str(), node.delay()), ("two one", Some(2)));
    // Once more the same changes nothing.
    node.install("two", &guest::waits(2));
    assert!(node.apply().is_empty());
    assert_eq!(node.ladder(), "two one");
    // Back, and forth again.
    let path = node.folder.path();
    assert_eq!(revert(path, Hook::Restart).unwrap().unwrap().name, "one");
    assert!(node.apply().is_empty());
    assert_eq!((node.ladder().as_str(), node.delay()), ("one two", Some(1)));
    assert_eq!(revert(path, Hook::Restart).unwrap().unwrap().name, "two");
    assert!(node.apply().is_empty());
    assert_eq!(node.delay(), Some(2));
    assert_eq!(unbind(path, Hook::Restart).unwrap().name, "two");
    assert!(node.apply().is_empty());
    assert_eq!(node.ladder(), "");
    assert_eq!(
        unbind(path, Hook::Restart).unwrap_err().to_string(),
        format!("nothing is bound to restart in {}", path.display())
    );
    assert_eq!(revert(path, Hook::Restart).unwrap().unwrap().name, "two");
    assert!(node.apply().is_empty());
    assert_eq!(node.delay(), Some(2));
}

#[test]
fn the_first_install_reverts_to_nothing_bound() {
    let node = Node::new();
    let path = node.folder.path();
    assert_eq!(
        revert(path, Hook::Restart).unwrap_err().to_string(),
        format!("there is nothing to revert restart to: no generation before this one is kept in {}", path.display())
    );
    node.install("one", &guest::waits(1));
    assert_eq!(revert(path, Hook::Restart).unwrap(), None);
    assert!(node.apply().is_empty());
    assert_eq!(node.ladder(), "");
    assert_eq!(revert(path, Hook::Restart).unwrap().unwrap().name, "one");
}

#[test]
fn a_bad_edit_leaves_what_was_bound_and_says_why() {
    let node = Node::new();
    node.install("one", &guest::waits(1));
    node.apply();
    let text = fs::read_to_string(node.folder.path().join("one.yaml")).unwrap();
    let check = |edit: &str, expected: &str| {
        node.write("one.yaml", edit);
        let errors = node.apply();
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{errors:?} does not begin with {expected:?}");
        assert_eq!((node.ladder().as_str(), node.delay()), ("one", Some(1)));
    };
    check("nonsense: [", "one.yaml: is neither YAML nor JSON: ");
    check(&text.replace("hook: restart", "hook: restrat"), "one.yaml: spec.hook: Unsupported value: \"restrat\"");
    check(&text.replace("hook: restart", "hook: qos"), "one.yaml: spec.hook: the component does not export polylet:policy/qos;");
    check(&text.replace("components/", "lost/"), "one.yaml: spec.component: read ");
    check(&text.replace(&digest_of(&guest::waits(1)).to_string(), DIGEST), "one.yaml: spec.digest: the component is sha256:");
    let hostile = built("hostile/forbidden-import");
    fs::write(node.folder.path().join("bad.wasm"), &hostile).unwrap();
    let bad = binding("one", &format!("  hook: restart\n  component: bad.wasm\n  digest: {}\n", digest_of(&hostile)));
    check(&bad, "one.yaml: spec.component: the component imports wasi:clocks/wall-clock@");
    node.write("one.yaml", &text);
    assert!(node.apply().is_empty());
}

#[test]
fn a_component_that_is_damaged_or_gone_is_told_while_what_was_loaded_answers() {
    let node = Node::new();
    node.install("one", &guest::waits(1));
    assert!(node.apply().is_empty());
    let component = node.folder.path().join(&scan(node.folder.path()).unwrap().bindings[0].component);
    let check = |expected: &str| {
        let errors = node.apply();
        let start = "one.yaml: spec.";
        assert!(errors.len() == 1 && errors[0].starts_with(start) && errors[0].contains(expected), "{errors:?}");
        assert_eq!((node.ladder().as_str(), node.delay()), ("one", Some(1)));
    };
    fs::write(&component, guest::waits(2)).unwrap();
    check("digest: bound as it was loaded, but the agent's next start will refuse it: the component is sha256:");
    fs::remove_file(&component).unwrap();
    check("component: bound as it was loaded, but the agent's next start will refuse it: read ");
    fs::write(&component, guest::waits(1)).unwrap();
    assert!(node.apply().is_empty());
}

#[test]
fn a_bad_edit_is_not_taken_for_nothing_bound() {
    let node = Node::new();
    let path = node.folder.path();
    node.install("one", &guest::waits(1));
    node.install("two", &guest::waits(2));
    let file = path.join("two.yaml");
    let good = fs::read_to_string(&file).unwrap();
    let unclear = |problem: &str| {
        format!("it is not clear what is bound to restart: {}: {problem}; mend this file or remove it", file.display())
    };
    // What hook it is for cannot be known, or can.
    node.write("two.yaml", "- nonsense");
    let mapping = "must be a mapping with apiVersion: policy.polylet.io/v1alpha1 and kind: PolicyBinding";
    assert_eq!(unbind(path, Hook::Restart).unwrap_err().to_string(), unclear(mapping));
    assert!(unbind(path, Hook::Qos).unwrap_err().to_string().starts_with("it is not clear what is bound to qos: "));
    node.write("two.yaml", &good.replace("spec:", "spek: 1\nspec:"));
    let unknown = unbind(path, Hook::Restart).unwrap_err().to_string();
    assert!(
        unknown.starts_with("it is not clear what is bound to restart: ") && unknown.contains("two.yaml: spek: "),
        "{unknown}"
    );
    let other = format!("nothing is bound to qos in {}", path.display());
    assert_eq!(unbind(path, Hook::Qos).unwrap_err().to_string(), other);
    // To bind under the same name mends it, and what came before it is still there to revert to.
    node.install("two", &guest::waits(3));
    assert!(node.apply().is_empty());
    assert_eq!((node.ladder().as_str(), node.delay()), ("two", Some(3)));
    assert_eq!(revert(path, Hook::Restart).unwrap().unwrap().name, "one");
}

#[test]
fn limits_stay_where_a_binding_of_the_same_name_takes_its_place() {
    let node = Node::new();
    let put = |name, limits| {
        let what = Install { name, hook: Hook::Restart, component: &guest::waits(1), config: json!({}), limits };
        install(node.folder.path(), &what)
    };
    let limits = LimitSpec { fuel: Some(1_000_000), memory: Some(1 << 20), ..LimitSpec::default() };
    assert_eq!(put("one", limits).unwrap().limits, limits);
    let more = LimitSpec { fuel: Some(2_000_000), ..LimitSpec::default() };
    assert_eq!(put("one", more).unwrap().limits, LimitSpec { fuel: Some(2_000_000), ..limits });
    assert_eq!(put("other", LimitSpec::default()).unwrap().limits, LimitSpec::default());
    let too_much = LimitSpec { timeout: Some(std::time::Duration::from_secs(60)), ..LimitSpec::default() };
    assert_eq!(
        put("other", too_much).unwrap_err().to_string(),
        "this cannot be bound: spec.limits.timeout: Invalid value: \"60000ms\": must be a duration like \"250ms\" or \"1s\", \
         from 1ms to 1s for restart"
    );
    assert_eq!(scan(node.folder.path()).unwrap().bindings[0].limits, LimitSpec::default());
}

#[test]
fn a_directory_is_tried_out_without_binding_anything() {
    let node = Node::new();
    node.install("one", &guest::waits(1));
    fs::write(node.folder.path().join("text.wasm"), "text").unwrap();
    let digest = digest_of(b"text");
    node.write("two.yaml", &binding("two", &format!("  hook: qos\n  component: text.wasm\n  digest: {digest}\n")));
    let scan = scan(node.folder.path()).unwrap();
    let tried = node.host.try_out(&scan);
    assert_eq!(tried[0].as_ref().unwrap().name(), "one");
    let error = tried[1].as_ref().unwrap_err().to_string();
    assert!(error.contains("two.yaml: spec.component: the component is not a WebAssembly component: "), "{error}");
    assert_eq!(node.ladder(), "");
}

#[test]
fn two_bindings_for_one_hook_are_both_named_and_change_nothing() {
    let node = Node::new();
    node.install("one", &guest::waits(1));
    node.apply();
    let text = fs::read_to_string(node.folder.path().join("one.yaml")).unwrap();
    node.write("two.yaml", &text.replace("name: one", "name: two"));
    let message = "spec.hook: Duplicate value: \"restart\": the bindings one, two are all for this hook, and a node has one for each; \
                   remove all but one";
    assert_eq!(node.apply(), [format!("one.yaml: {message}"), format!("two.yaml: {message}")]);
    assert_eq!(node.delay(), Some(1));
    let problem = install(
        node.folder.path(),
        &Install { name: "three", hook: Hook::Restart, component: b"", config: Value::Null, limits: LimitSpec::default() },
    );
    let problem = problem.unwrap_err().to_string();
    assert!(problem.starts_with("it is not clear what is bound to restart: ") && problem.contains("two.yaml"), "{problem}");
}

#[test]
fn names_are_checked_before_anything_is_written() {
    let node = Node::new();
    let try_install = |name, hook| {
        let install_it = Install { name, hook, component: b"", config: Value::Null, limits: LimitSpec::default() };
        install(node.folder.path(), &install_it).unwrap_err().to_string()
    };
    node.install("one", &guest::waits(1));
    assert_eq!(
        try_install("../one", Hook::Restart),
        "\"../one\" cannot be the name of a binding: it must be a DNS label, up to 63 of a-z, 0-9 and '-'"
    );
    assert_eq!(
        try_install("one", Hook::Qos),
        "the name one is taken by the binding for restart; choose another (policy load --name), or unbind that first"
    );
}

#[test]
fn only_a_policy_that_has_answered_becomes_the_last_good_one() {
    let node = Node::new();
    node.install("good", &guest::waits(1));
    node.apply();
    assert_eq!(node.delay(), Some(1));
    // Nobody asks this one.
    node.install("unproven", &guest::waits(2));
    node.apply();
    assert_eq!(node.ladder(), "unproven good");
    node.install("newest", &guest::waits(3));
    node.apply();
    assert_eq!(node.ladder(), "newest good");
    // The agent restarts: the directory remembers.
    let again = Node { folder: node.folder, host: host() };
    again.apply();
    assert_eq!(again.ladder(), "newest good");
}

/// Whoever takes a binding away, by hand or by the command line, does not meet it again below the next one.
#[test]
fn what_was_removed_does_not_come_back_as_the_last_good_one() {
    let node = Node::new();
    node.install("good", &guest::waits(1));
    node.apply();
    assert_eq!(node.delay(), Some(1));
    node.install("better", &guest::waits(2));
    node.apply();
    assert_eq!((node.delay(), node.ladder().as_str()), (Some(2), "better good"));
    fs::remove_file(node.folder.path().join("better.yaml")).unwrap();
    node.apply();
    assert_eq!(node.ladder(), "");
    node.install("next", &guest::waits(3));
    node.apply();
    assert_eq!(node.ladder(), "next");
}

#[test]
fn components_that_no_generation_names_are_dropped() {
    let node = Node::new();
    for delay in 1..=4 {
        node.install("one", &guest::waits(delay));
    }
    let components = fs::read_dir(node.folder.path().join("components")).unwrap().count();
    assert_eq!(components, 2, "this generation's and the one before");
}

#[test]
fn changed_limits_are_bound_without_another_generation_of_rungs() {
    let node = Node::new();
    node.install("one", &guest::waits(1));
    node.apply();
    let text = fs::read_to_string(node.folder.path().join("one.yaml")).unwrap();
    node.write("one.yaml", &format!("{text}  limits: {{fuel: 1000}}\n"));
    assert!(node.apply().is_empty());
    assert_eq!(node.host.standing()[0].policy.limits(Hook::Restart).fuel, 1000);
}

#[test]
fn the_default_stands_on_every_ladder_below_what_is_bound() {
    let node = Node::new();
    node.install("one", &guest::waits(1));
    node.apply();
    node.host.load_default().unwrap().expect("the default component is embedded");
    assert_eq!(node.ladder(), "one default");
    for hook in Hook::ALL {
        assert_eq!(node.host.bindings().rungs[&hook].last(), Some(&Rung::Default));
    }
    for question in questions::all() {
        assert!(answer(node.host.ask(&Rung::Default, &question)).is_some());
    }
}
