//! The rules of the house that a compiler does not check: see CONTRIBUTING.md. One test for each, over the tree as it lies here.
//!
//! The rules themselves are functions of text (`tidy/rules.rs`), which are tried on bad samples in `tidy/samples.rs`: a check that
//! cannot fail is no check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rules::{Manifest, Rule};

#[path = "tidy/deny.rs"]
mod deny;
#[path = "tidy/rules.rs"]
mod rules;
#[path = "tidy/samples.rs"]
mod samples;
#[path = "tidy/tree.rs"]
mod tree;

/// Lines of a file with its tests; aim at 400.
const LONGEST_FILE: usize = 700;
/// Lines of a `lib.rs`.
const LONGEST_MAP: usize = 99;

/// What of ours each crate may use: the code map of ARCHITECTURE.md. Tests may use anything.
const OURS: &[(&str, &[&str])] = &[
    ("host/core", &["polylet-upstream"]),
    ("host/machine", &["polylet-core", "polylet-upstream"]),
    ("host/policy", &["polylet-core"]),
    ("host/probe", &["polylet-core", "polylet-proto"]),
    ("host/runtime", &["polylet-core", "polylet-proto"]),
    ("host/server", &["polylet-core"]),
    ("host/store", &["polylet-core"]),
    (
        "host/agent",
        &[
            "polylet-core",
            "polylet-machine",
            "polylet-policy",
            "polylet-probe",
            "polylet-runtime",
            "polylet-server",
            "polylet-store",
        ],
    ),
    ("policies/build", &[]),
    ("policies/default", &["polylet-sdk", "polylet-upstream"]),
    ("policies/gentle-restart", &["polylet-sdk"]),
    ("policies/hostile", &["polylet-sdk"]),
    ("policies/tenant-eviction", &["polylet-sdk"]),
    ("policies/upstream", &[]),
    ("proto", &[]),
    ("sdk/rust", &[]),
];

/// All that these may use of others'. `k8s-openapi` and `serde` give data types and their JSON form, nothing that acts.
const STRICT: &[(&str, &[&str])] =
    &[("host/core", &["k8s-openapi", "serde", "thiserror"]), ("policies/upstream", &[]), ("sdk/rust", &["wit-bindgen"])];

/// Crates that belong to one peer: whoever else needs them has the wrong job.
const OWNED: &[(&str, &[&str])] = &[
    ("anyhow", &["host/agent", "policies/build"]),
    ("axum", &["host/server"]),
    ("cgroups-rs", &["host/machine"]),
    ("clap", &["host/agent"]),
    ("inotify", &["host/agent", "host/policy"]),
    ("kube", &["host/cluster"]),
    ("prometheus-client", &["host/server"]),
    ("redb", &["host/store"]),
    ("serde-saphyr", &["host/agent", "host/policy"]),
    ("tokio", &["host/agent", "host/plugin", "host/policy", "host/probe", "host/runtime", "host/server"]),
    ("tonic", &["host/plugin", "host/probe", "host/runtime", "proto"]),
    ("tracing-subscriber", &["host/agent"]),
    ("wasmtime", &["host/policy"]),
    ("wit-component", &["host/policy", "policies/build"]),
];

#[test]
fn crates_depend_on_what_the_architecture_allows() {
    let mut wrong = Vec::new();
    for manifest in manifests() {
        if manifest.dir.starts_with("tests") {
            continue;
        }
        match OURS.iter().find(|(dir, _)| *dir == manifest.dir) {
            Some((_, allowed)) => wrong.extend(rules::not_allowed(&manifest, "polylet-", allowed)),
            None => wrong.push(format!("{}: not in the table of this test, nor of ARCHITECTURE.md", manifest.dir)),
        }
        if let Some((_, allowed)) = STRICT.iter().find(|(dir, _)| *dir == manifest.dir) {
            let foreign: Vec<&str> = allowed.iter().copied().chain(ours(&manifest)).collect();
            wrong.extend(rules::not_allowed(&manifest, "", &foreign));
        }
        for (owned, owners) in OWNED {
            if manifest.dependencies.contains(*owned) && !owners.contains(&manifest.dir.as_str()) {
                wrong.push(format!("{} depends on {owned}, which belongs to {owners:?}", manifest.dir));
            }
        }
    }
    none("dependencies", &wrong);
}

#[test]
fn the_code_map_of_the_architecture_names_every_crate() {
    let text = tree::read("ARCHITECTURE.md");
    let missing: Vec<String> = manifests()
        .into_iter()
        .map(|manifest| manifest.dir)
        .filter(|dir| !text.contains(&format!("`{dir}`")) && !dir.starts_with("policies/"))
        .collect();
    none("crates that the code map leaves out", &missing);
}

#[test]
fn every_third_party_crate_is_named_with_its_reason() {
    let text = tree::read("ARCHITECTURE.md");
    let used: BTreeSet<String> =
        manifests().into_iter().flat_map(|m| m.all).filter(|name| !name.starts_with("polylet")).collect();
    none("third-party crates without a reason in ARCHITECTURE.md", &rules::unnamed(text, &used));
    none("crates with a reason that nobody uses", &rules::unused(text, &used));
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let mut wrong: Vec<String> =
        manifests().into_iter().filter(|m| !m.takes_lints).map(|m| format!("{}: no `[lints] workspace = true`", m.dir)).collect();
    for workspace in ["Cargo.toml", "policies/Cargo.toml"] {
        wrong.extend(rules::missing_lints(tree::read(workspace)).into_iter().map(|lint| format!("{workspace}: {lint}")));
    }
    none("lints", &wrong);
}

#[test]
fn docs_are_only_excused_for_a_reason_or_where_code_is_generated() {
    // What tests and examples define is nobody's interface.
    let sources = tree::rust_files().into_iter().filter(|path| path.components().any(|part| part.as_os_str() == "src"));
    let found = sources.flat_map(|path| named(&path, rules::undocumented(tree::read(&path))));
    none("excuses from documentation", &found.collect::<Vec<_>>());
}

#[test]
fn a_lib_is_a_map() {
    // A policy is one file, to be read as one.
    let policy = |path: &Path| path.starts_with("policies") && !path.starts_with("policies/upstream");
    let libs = tree::rust_files().into_iter().filter(|path| path.ends_with("src/lib.rs") && !policy(path));
    let wrong = libs.filter_map(|path| {
        let lines = tree::read(&path).lines().count();
        (lines > LONGEST_MAP).then(|| format!("{}: {lines} lines, {LONGEST_MAP} are the most", path.display()))
    });
    none("lib.rs", &wrong.collect::<Vec<_>>());
}

#[test]
fn a_file_fits_in_the_head() {
    each_rust_file("files that are too long", &|text| rules::too_long(text, LONGEST_FILE));
}

#[test]
fn nothing_is_left_to_do() {
    each_rust_file("unfinished code", &rules::unfinished);
}

#[test]
fn no_test_is_ignored_without_a_reason() {
    each_rust_file("tests ignored without a reason", &rules::ignored);
}

#[test]
fn the_core_neither_waits_nor_is_unsafe() {
    let core = tree::rust_files().into_iter().filter(|path| path.starts_with("host/core/src"));
    let found = core.flat_map(|path| named(&path, rules::impure(tree::read(&path))));
    none("the core", &found.collect::<Vec<_>>());
    assert!(tree::read("host/core/src/lib.rs").contains("#![forbid(unsafe_code)]"));
}

#[test]
fn what_the_core_must_not_use_is_forbidden_to_it_with_reasons() {
    none("host/core/clippy.toml", &rules::core_lints(tree::read("host/core/clippy.toml")));
}

#[test]
fn no_path_of_somebodys_machine() {
    let texts = tree::text_files().into_iter().filter(|path| path.file_name().is_none_or(|name| name != "Cargo.lock"));
    let found = texts.flat_map(|path| named(&path, rules::machine_paths(tree::read(&path))));
    none("paths of a machine", &found.collect::<Vec<_>>());
}

#[test]
fn no_check_is_silenced() {
    let scripts: Vec<PathBuf> =
        tree::text_files().into_iter().filter(|path| path.starts_with(".ci") || path.ends_with("Makefile")).collect();
    assert!(scripts.iter().any(|path| path.starts_with(".ci")), "there is no .ci");
    assert!(scripts.iter().any(|path| path.ends_with("Makefile")), "there is no Makefile");
    let found = scripts.iter().flat_map(|path| named(path, rules::silenced(tree::read(path))));
    none("silenced checks", &found.collect::<Vec<_>>());
}

#[test]
fn every_fact_is_documented() {
    none("facts", &rules::facts(tree::read("wit/facts.tsv"), tree::read("wit/FACTS.md")));
}

#[test]
fn generated_code_says_so_and_is_compared_by_a_test() {
    // What is generated, the marker that it bears, and the test that makes it anew and compares.
    let generated =
        [("proto/src/generated", "@generated", "proto/tests/fresh.rs"), ("wit/FACTS.md", "Made from", "sdk/rust/tests/facts.rs")];
    for (path, marker, test) in generated {
        assert!(tree::root().join(test).is_file(), "{path}: {test} should compare it with what would be generated");
        let files =
            tree::text_files().into_iter().filter(|file| file.starts_with(path) && file.extension().is_none_or(|e| e != "bin"));
        for file in files {
            let text = tree::read(&file);
            assert!(text.lines().take(10).any(|line| line.contains(marker)), "{}: no {marker:?} at its head", file.display());
        }
    }
}

#[test]
fn the_lock_file_belongs_to_the_manifests_and_names_public_sources_only() {
    none("Cargo.lock", &rules::sources(tree::read("Cargo.lock")));
    let locked = std::process::Command::new(env!("CARGO"))
        // What other platforms need has not been fetched.
        .args(["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(tree::root())
        .output()
        .expect("run cargo");
    assert!(locked.status.success(), "{}", String::from_utf8_lossy(&locked.stderr));
}

#[test]
fn licences_and_bans_of_deny_toml_hold() {
    let mut command = std::process::Command::new(env!("CARGO"));
    command.args(["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = command.current_dir(tree::root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    none("against deny.toml", &deny::denied(tree::read("deny.toml"), &metadata));
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut dead = Vec::new();
    for path in tree::text_files().into_iter().filter(|path| path.extension().is_some_and(|e| e == "md")) {
        let dir = tree::root().join(&path).parent().map(Path::to_path_buf).unwrap_or_default();
        let links = rules::links(tree::read(&path));
        dead.extend(links.into_iter().filter(|link| !dir.join(link).exists()).map(|link| format!("{}: {link}", path.display())));
    }
    none("dead links", &dead);
}

#[test]
fn the_house_is_complete() {
    let documents = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"];
    let settings =
        ["Makefile", ".ci/run", "clippy.toml", "host/core/clippy.toml", "deny.toml", "rustfmt.toml", "rust-toolchain.toml"];
    let missing = documents.iter().chain(&settings).filter(|name| !tree::root().join(name).is_file());
    none("missing", &missing.map(|name| (*name).to_owned()).collect::<Vec<_>>());
}

/// Every crate of the tree.
fn manifests() -> Vec<Manifest> {
    let files = tree::text_files().into_iter().filter(|path| path.ends_with("Cargo.toml"));
    let manifests: Vec<Manifest> = files.filter_map(|path| rules::manifest(&path, tree::read(&path))).collect();
    assert!(manifests.len() > 10, "only {} crates found", manifests.len());
    manifests
}

fn ours(manifest: &Manifest) -> impl Iterator<Item = &str> {
    manifest.dependencies.iter().map(String::as_str).filter(|name| name.starts_with("polylet-"))
}

fn each_rust_file(what: &str, rule: &Rule) {
    let files = tree::rust_files();
    assert!(files.len() > 50, "only {} files found", files.len());
    none(what, &files.iter().flat_map(|path| named(path, rule(tree::read(path)))).collect::<Vec<_>>());
}

fn named(path: &Path, findings: Vec<String>) -> Vec<String> {
    findings.into_iter().map(|finding| format!("{}: {finding}", path.display())).collect()
}

#[track_caller]
fn none(what: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{what}:\n  {}", findings.join("\n  "));
}

#[test]
fn the_tables_of_this_test_are_in_order() {
    // A crate twice in a table would be checked by its first line only.
    for table in [OURS, STRICT, OWNED] {
        let names: BTreeMap<&str, usize> = table.iter().map(|(name, _)| (*name, 1)).collect();
        assert_eq!(names.len(), table.len());
    }
}
