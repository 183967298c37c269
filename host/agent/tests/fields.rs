//! No field of the API is accepted and ignored. `fields.tsv` says of every field that a manifest can hold what becomes of it; here that
//! table is compared with the API's types, with the files that it names, and with what happens to a manifest.
//!
//! The types are read out of the source of `k8s-openapi`: a field that a newer version of it brings has no row, and is named here before
//! anybody writes it into a manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use jiff::Timestamp;
use polylet_agent::document::field::{FieldError, Problem};
use polylet_agent::source::{Origin, SourceError, load};
use polylet_core::pod::Source;
use serde_json::Value;

/// What can become of a field: see the head of the table.
const HOW: [&str; 6] = ["honoured", "checked", "refused", "moot", "scheduler", "server"];

/// The types that a manifest begins with, and where they stand in it. Its status is written by the node.
const ROOTS: [(&str, &str); 2] = [("ObjectMeta", "metadata"), ("PodSpec", "spec")];

/// Where the types stand, below the source of a version.
const TYPES: [&str; 2] = ["api/core/v1", "apimachinery/pkg/apis/meta/v1"];

/// Types that have no fields, each with a value as JSON.
const PLAIN: [(&str, &str); 8] = [
    ("FieldsV1", "{}"),
    ("IntOrString", "1"),
    ("Quantity", "\"1\""),
    ("String", "\"x\""),
    ("Time", "\"2026-01-02T03:04:05Z\""),
    ("bool", "true"),
    ("i32", "1"),
    ("i64", "1"),
];

/// Files below `host/` that see a field and do nothing with it but judge, default or show it.
const BYSTANDERS: [&str; 5] = [
    "agent/src/cli",
    "agent/src/source/decode.rs",
    "agent/src/source/defaults.rs",
    "agent/src/source/support.rs",
    "agent/src/source/validate",
];

/// What a row says of a field that is refused by the table of that name, and how its errors begin.
const UNSUPPORTED: &str = "UNSUPPORTED";
const NOT_YET: &str = "not supported by this node yet";

/// A field as the generated source has it.
#[derive(Debug, PartialEq)]
struct Field {
    json: String,
    rust: String,
    /// Its type, as written.
    of: String,
}

impl Field {
    /// The innermost type, without its path: of an optional list of containers `Container`.
    fn inner(&self) -> &str {
        self.of.trim_end_matches('>').rsplit("::").next().unwrap_or_default().rsplit('<').next().unwrap_or_default()
    }

    /// A value: of a list one entry, of one of the API's own types one that says nothing.
    fn sample(&self) -> String {
        let inner = PLAIN.iter().find(|(name, _)| *name == self.inner()).map_or("{}", |(_, value)| value);
        if self.is_list() {
            format!("[{inner}]")
        } else if self.of.contains("BTreeMap<") {
            format!("{{\"k\": {inner}}}")
        } else {
            inner.to_owned()
        }
    }

    fn is_list(&self) -> bool {
        self.of.contains("Vec<")
    }
}

/// Types by name, with their fields.
type Api = BTreeMap<String, Vec<Field>>;

/// A field at one of the places of a manifest where it can stand.
struct Place<'a> {
    /// As the table names it.
    row: String,
    /// As errors name it.
    path: String,
    field: &'a Field,
}

/// What the table says of a field.
struct Row {
    how: String,
    /// Where, or why.
    place: String,
}

fn krate() -> PathBuf {
    // As cargo says now: this may have been built for another tree.
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where its crate is"))
}

/// Text of a file below `host/`.
fn host_file(path: &str) -> Option<String> {
    fs::read_to_string(krate().join("..").join(path)).ok()
}

fn table() -> BTreeMap<String, Row> {
    let text = fs::read_to_string(krate().join("tests/fields.tsv")).unwrap();
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let [field, how, place] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("tests/fields.tsv: {line:?} must be a field, how and where or why, with a tab between them");
        };
        assert!(HOW.contains(&how) && !place.is_empty(), "tests/fields.tsv: {line:?} must say one of {HOW:?}, and where or why");
        let before = rows.insert(field.to_owned(), Row { how: how.to_owned(), place: place.to_owned() });
        assert!(before.is_none(), "tests/fields.tsv: {field} has two rows, and must have one");
    }
    rows
}

/// The API's types in the version that this workspace uses.
fn api() -> &'static Api {
    static API: OnceLock<Api> = OnceLock::new();
    API.get_or_init(|| {
        let source = source();
        let mut api = Api::new();
        for dir in TYPES.map(|dir| source.join(dir)) {
            let files = fs::read_dir(&dir).unwrap_or_else(|error| panic!("list {}: {error}", dir.display()));
            for file in files.map(|entry| entry.unwrap().path()) {
                let Some((name, fields)) = parse(&fs::read_to_string(&file).unwrap()) else { continue };
                assert!(!api.contains_key(&name), "two types are called {name}: rows must tell them apart");
                api.insert(name, fields);
            }
        }
        api
    })
}

/// The generated source, as cargo has it.
fn source() -> PathBuf {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = command.current_dir(krate()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let find = |list: &Value, key: &str, value: &Value| {
        let found = list.as_array().into_iter().flatten().find(|entry| entry[key] == *value);
        found.unwrap_or_else(|| panic!("cargo metadata knows nothing whose {key} is {value}")).clone()
    };
    let package = find(&metadata["packages"], "name", &"k8s-openapi".into());
    let features = find(&metadata["resolve"]["nodes"], "id", &package["id"])["features"].clone();
    let version = features.as_array().into_iter().flatten().filter_map(Value::as_str).find(|name| name.starts_with("v1_"));
    let manifest = package["manifest_path"].as_str().expect("a package has a manifest");
    Path::new(manifest).with_file_name("src").join(version.expect("k8s-openapi has a feature for the version of the API"))
}

/// The struct that a generated file defines; None: it has none with named fields.
fn parse(text: &str) -> Option<(String, Vec<Field>)> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("pub struct "));
    let name = lines.next()?.strip_prefix("pub struct ")?.strip_suffix(" {")?;
    // From how the type is read: `"hostIPC" => Field::Key_host_ipc,`
    let json: BTreeMap<&str, &str> = text.lines().filter_map(|line| json_name(line.trim())).collect();
    let fields = lines.take_while(|line| *line != "}").filter_map(|line| {
        let (rust, of) = line.trim().strip_prefix("pub ")?.strip_suffix(',')?.split_once(": ")?;
        let rust = rust.trim_start_matches("r#");
        let json =
            json.get(rust).unwrap_or_else(|| panic!("{name}: {rust} has no name in JSON: the source is written in another way"));
        Some(Field { json: (*json).to_owned(), rust: rust.to_owned(), of: of.to_owned() })
    });
    Some((name.to_owned(), fields.collect()))
}

fn json_name(line: &str) -> Option<(&str, &str)> {
    let (json, rust) = line.strip_prefix('"')?.strip_suffix(',')?.split_once("\" => Field::Key_")?;
    Some((rust, json))
}

/// Every place of a manifest, but for those below a field that is refused.
fn places<'a>(api: &'a Api, table: &BTreeMap<String, Row>) -> Vec<Place<'a>> {
    let mut todo = ROOTS.map(|(name, at)| (name, at.to_owned())).to_vec();
    let mut places = Vec::new();
    while let Some((name, at)) = todo.pop() {
        assert!(at.len() < 1000, "{at}: a type that holds itself: tests/fields.rs must stop there");
        for field in api.get(name).unwrap_or_else(|| panic!("there is no type {name}")) {
            let (row, path) = (format!("{name}.{}", field.json), format!("{at}.{}", field.json));
            let inner = field.inner();
            if api.contains_key(inner) {
                if table.get(&row).is_none_or(|row| row.how != "refused") {
                    todo.push((inner, if field.is_list() { format!("{path}[0]") } else { path.clone() }));
                }
            } else {
                let known = PLAIN.iter().any(|(name, _)| *name == inner);
                assert!(known, "{row} is of type {inner}, which has no fields: add a value of it to PLAIN in tests/fields.rs");
            }
            places.push(Place { row, path, field });
        }
    }
    places
}

/// What is wrong with a manifest that says nothing but this, and that it is a pod.
fn errors(path: &str, value: String) -> Vec<FieldError> {
    let tree = path.rsplit('.').fold(value, |inner, name| match name.strip_suffix("[0]") {
        Some(name) => format!("{{\"{name}\": [{inner}]}}"),
        None => format!("{{\"{name}\": {inner}}}"),
    });
    let manifest = tree.replacen('{', "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", ", 1);
    let origin = Origin { source: Source::File, place: "f", node_name: "n1", seen: Timestamp::UNIX_EPOCH, sysctls: &[] };
    match load(manifest.as_bytes(), &origin) {
        Ok(_) => Vec::new(),
        Err(SourceError::Fields { errors, .. }) => errors,
        Err(other) => panic!("{manifest}: {other}"),
    }
}

/// Whether code (comments and tests do not count) reads a field: `spec.host_pid`, or `Volume { empty_dir: … }`.
fn reads(text: &str, field: &str) -> bool {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.lines().filter(|line| !line.trim_start().starts_with("//")).any(|line| {
        line.match_indices(field).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + field.len()..]);
            let of_a_value = before.ends_with('.') && !after.starts_with(is_word);
            let of_a_pattern = !before.ends_with(is_word) && after.starts_with(':') && !after.starts_with("::");
            of_a_value || of_a_pattern
        })
    })
}

#[track_caller]
fn none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n  {}", wrong.join("\n  "));
}

#[test]
fn every_field_has_a_row_and_every_row_a_field() {
    let table = table();
    let fields: BTreeSet<String> = places(api(), &table).into_iter().map(|place| place.row).collect();
    assert!(fields.len() > 200, "only {} fields found", fields.len());
    let missing = fields.iter().filter(|field| !table.contains_key(*field)).map(|field| {
        format!(
            "{field}: nothing is known of this field: see what the kubelet does with it, do so or refuse it, and add a row to \
             tests/fields.tsv"
        )
    });
    let too_much = table.keys().filter(|field| !fields.contains(*field)).map(|field| {
        format!(
            "{field}: a manifest cannot hold this field, or only below one that is refused: remove its row from tests/fields.tsv"
        )
    });
    none(missing.chain(too_much).collect());
}

#[test]
fn what_is_honoured_or_checked_is_read_in_the_file_that_is_named() {
    let table = table();
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for Place { row: name, field, .. } in places(api(), &table) {
        let Some(row) = table.get(&name).filter(|row| matches!(row.how.as_str(), "honoured" | "checked")) else { continue };
        if !seen.insert(name.clone()) {
            continue;
        }
        let Row { how, place } = row;
        let bystander = BYSTANDERS.iter().any(|bystander| place.starts_with(bystander));
        match host_file(place) {
            None => wrong.push(format!("{name}: there is no file host/{place}: its row must name the one that reads the field")),
            Some(_) if how == "honoured" && bystander => {
                wrong.push(format!(
                    "{name}: host/{place} acts on nothing: its row must name the file that does, or say another thing"
                ));
            }
            Some(text) if !reads(&text, &field.rust) => {
                wrong.push(format!("{name}: host/{place} does not read `{}`: its row must name the file that does", field.rust));
            }
            Some(_) => {}
        }
    }
    none(wrong);
}

#[test]
fn what_is_refused_is_refused_wherever_it_can_stand() {
    let table = table();
    let mut wrong = Vec::new();
    for Place { row: name, path, field } in places(api(), &table) {
        let Some(row) = table.get(&name) else { continue };
        let errors = errors(&path, field.sample());
        let entry = format!("{path}[");
        // Of a list or a map, the entries may be refused.
        let refused = |how: &str, with_entries: bool| {
            let is_it = |error: &&FieldError| error.field == path || with_entries && error.field.starts_with(&entry);
            let says = |error: &FieldError| matches!(&error.problem, Problem::Forbidden(detail) if detail.starts_with(how));
            errors.iter().filter(is_it).any(says)
        };
        let names = |file: &str| host_file(file).is_some_and(|text| text.contains(&format!("{:?}", field.json)));
        match (row.how.as_str(), row.place.as_str()) {
            ("refused", UNSUPPORTED) if refused(NOT_YET, false) => {}
            ("refused", UNSUPPORTED) => {
                wrong.push(format!("{name}: {path} must stand in UNSUPPORTED; if it is honoured by now, its row must say where"))
            }
            ("refused", file) if !names(file) => {
                wrong.push(format!(
                    "{name}: host/{file} does not name {:?}: its row must name the file that refuses it",
                    field.json
                ));
            }
            ("refused", _) if refused("", true) => {}
            ("refused", _) => {
                wrong.push(format!("{name}: {path} must be refused; if it is honoured by now, its row must say where"))
            }
            _ if refused(NOT_YET, false) => wrong.push(format!("{name}: {path} stands in UNSUPPORTED: its row must say so")),
            _ => {}
        }
    }
    none(wrong);
}

#[test]
fn what_is_moot_only_says_more_of_fields_that_are_refused() {
    let table = table();
    let mut wrong = Vec::new();
    for (name, row) in table.iter().filter(|(_, row)| row.how == "moot") {
        for other in row.place.split(' ').filter(|other| table.get(*other).is_none_or(|other| other.how != "refused")) {
            wrong.push(format!("{name}: {other} is not refused: honour {name} with it, and let its row say where"));
        }
    }
    none(wrong);
}

#[test]
fn generated_source_and_code_are_read_as_they_are_written() {
    let source = "/// A type.\npub struct Kind {\n    /// pub x: i32,\n    pub host_ipc: Option<bool>,\n\n    \
                  pub r#type: std::vec::Vec<crate::api::core::v1::Part>,\n}\n\n    \
                  \"hostIPC\" => Field::Key_host_ipc,\n    \"type\" => Field::Key_type,\n    \"kind\",\n";
    let field = |json: &str, rust: &str, of: &str| Field { json: json.into(), rust: rust.into(), of: of.into() };
    let list = field("type", "type", "std::vec::Vec<crate::api::core::v1::Part>");
    let flag = field("hostIPC", "host_ipc", "Option<bool>");
    assert_eq!([flag.inner(), list.inner()], ["bool", "Part"]);
    assert_eq!([flag.sample(), list.sample()], ["true", "[{}]"]);
    let map = field("limits", "limits", "Option<std::collections::BTreeMap<std::string::String, crate::api::Quantity>>");
    assert_eq!((map.inner(), map.sample().as_str()), ("Quantity", "{\"k\": \"1\"}"));
    assert_eq!(parse(source), Some(("Kind".to_owned(), vec![flag, list])));
    assert_eq!(parse("pub struct Time(pub Timestamp);\n\nimpl Time {\n}\n"), None);

    for (code, expected) in [
        ("let on = spec.host_ipc;", true),
        ("v1::PodSpec { host_ipc: Some(on), .. } => on,", true),
        ("spec.host_ipc_too, own_host_ipc: 1, host_ipc::of()", false),
        ("// spec.host_ipc", false),
        ("#[cfg(test)]\nmod tests {\n    spec.host_ipc", false),
    ] {
        assert_eq!(reads(code, "host_ipc"), expected, "{code}");
    }
}
