//! Broken manifests and configurations: each is a file in `bad/` whose first lines say which messages it must bring, in order; for a file
//! that can hold no comment, a sibling `.expect` does. A message may be given by its beginning.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command, FromArgMatches};
use jiff::Timestamp;
use polylet_agent::flags::{Flags, normalize};
use polylet_agent::source::directory::{Directory, Scope};
use polylet_agent::{config, source};
use polylet_core::pod::Source;

fn cases(kind: &str) -> Vec<PathBuf> {
    // As cargo says now: this may have been built for another tree.
    let krate = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where its crate is"));
    let dir = krate.join("tests/bad").join(kind);
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
    cases.sort();
    cases
}

/// What the lines of a header say after `# <word>: `.
fn header(path: &Path, word: &str) -> Vec<String> {
    let beside = path.with_extension("yaml.expect");
    if beside.exists() && word == "expect" {
        return fs::read_to_string(beside).unwrap().lines().map(str::to_owned).collect();
    }
    let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    text.lines().filter_map(|line| line.strip_prefix(&format!("# {word}: "))).map(str::to_owned).collect()
}

/// The file is named, and so is everything that was to be named, in this order and nothing else.
fn check(path: &Path, told: &[String], failures: &mut Vec<String>) {
    let expected = header(path, "expect");
    let name = path.file_name().unwrap().to_string_lossy();
    let same =
        told.len() == expected.len() && told.iter().zip(&expected).all(|(told, expected)| told.starts_with(expected.as_str()));
    if expected.is_empty() || !same {
        failures.push(format!("{name}\n  expected {expected:#?}\n  told     {told:#?}"));
    }
}

fn manifest_problems(path: &Path) -> Vec<String> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let origin =
        source::Origin { source: Source::File, place: &name, node_name: "n1", seen: Timestamp::UNIX_EPOCH, sysctls: &[] };
    let error = match source::load(&fs::read(path).unwrap(), &origin) {
        Ok(_) => return Vec::new(),
        Err(error) => error,
    };
    assert!(error.to_string().starts_with(&format!("manifest {name}: ")), "the file is named: {error}");
    match error {
        source::SourceError::Fields { errors, .. } => errors.iter().map(ToString::to_string).collect(),
        source::SourceError::Document { cause, .. } => {
            // Where in the file the parser stopped is part of the message, but not of what these cases fix for bombs.
            let text = cause.to_string();
            let bomb = ["aliases stand for", "nested deeper"].iter().find_map(|start| text.find(start));
            vec![text[bomb.unwrap_or(0)..].to_owned()]
        }
        other => vec![other.to_string()],
    }
}

#[test]
fn broken_manifests_name_file_field_and_what_would_be_right() {
    let cases = cases("manifests");
    assert!(cases.len() >= 280, "{}", cases.len());
    let mut failures = Vec::new();
    for path in &cases {
        check(path, &manifest_problems(path), &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn among_broken_manifests_the_good_one_runs() {
    let dir = tempfile::tempdir().unwrap();
    let cases = cases("manifests");
    for path in &cases {
        fs::copy(path, dir.path().join(path.file_name().unwrap())).unwrap();
    }
    let good = "{apiVersion: v1, kind: Pod, metadata: {name: good}, spec: {containers: [{name: c, image: i}]}}";
    fs::write(dir.path().join("good.json"), good).unwrap();
    let report = Directory::new(dir.path(), "n1").refresh(&Scope::All, Timestamp::UNIX_EPOCH).unwrap();
    let pods: Vec<String> = report.pods.unwrap().iter().map(|pod| pod.name.clone()).collect();
    assert_eq!(pods, ["good-n1"]);
    assert_eq!(report.problems.len(), cases.len());
    for path in &cases {
        let name = format!("/{}: ", path.file_name().unwrap().to_string_lossy());
        assert!(report.problems.iter().any(|problem| problem.to_string().contains(&name)), "{name}");
    }
}

fn config_problems(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let ours = text.contains("kind: PolyletConfiguration");
    let which = if ours { "--polylet-config" } else { "--config" };
    let mut args = vec!["polylet".to_owned(), which.to_owned(), path.display().to_string(), "--hostname-override=n1".to_owned()];
    args.extend(header(path, "flags").iter().flat_map(|line| line.split(' ')).map(str::to_owned));
    let command = Flags::augment_args(Command::new("polylet"));
    let matches = command.try_get_matches_from(normalize(args.into_iter().map(Into::into))).unwrap();
    let error = match config::load(&Flags::from_arg_matches(&matches).unwrap()) {
        Ok(_) => return Vec::new(),
        Err(error) => error,
    };
    let place = format!("{}: ", path.display());
    let told = error.problems.iter().map(ToString::to_string).map(|told| match told.strip_prefix(&place) {
        Some(rest) => rest.to_owned(),
        // A flag, or what several fields come to: named as such.
        None => told,
    });
    told.collect()
}

#[test]
fn broken_configurations_name_file_field_and_what_would_be_right() {
    let cases = cases("config");
    assert!(cases.len() >= 20, "{}", cases.len());
    let mut failures = Vec::new();
    for path in &cases {
        check(path, &config_problems(path), &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_configuration_that_is_not_there_is_named() {
    let flags = Flags { config: Some("/nonexistent/config.yaml".into()), root_dir: "/tmp".into(), ..Flags::default() };
    let error = config::load(&flags).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/config.yaml: No such file or directory"), "{error}");
}
