//! What is made of `wit/facts.tsv`: the typed accessors, and `wit/FACTS.md`. Both are kept in the tree and must be fresh; run
//! with `POLYLET_BLESS=1` to write them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

/// A row of the table.
struct Fact<'a> {
    name: &'a str,
    scope: &'a str,
    unit: &'a str,
    hooks: &'a str,
    meaning: &'a str,
}

const UNITS: [(&str, &str); 11] = [
    ("ms", "milliseconds"),
    ("instant", "milliseconds since the Unix epoch"),
    ("bytes", "bytes"),
    ("bytes/s", "bytes per second"),
    ("millicores", "thousandths of a CPU, mean of the last sampling window"),
    ("1/100 %", "hundredths of a percent"),
    ("1/100", "hundredths"),
    ("count", "a plain number"),
    ("code", "a number that stands for what the meaning says"),
    ("flag", "0 or 1"),
    ("text", "a text; by `words.text`"),
];

/// Scope, the accessors' type, and the heading in the documentation.
const SCOPES: [(&str, &str, &str); 7] = [
    ("node", "Facts", "The node"),
    ("pod", "Facts", "The pod that is asked about"),
    ("container", "Facts", "The container that is asked about"),
    ("table history, restart", "RestartHistory", "Table \"history\" of `restart`"),
    ("table history, probe", "ProbeHistory", "Table \"history\" of `probe`"),
    ("table containers, qos", "Containers", "Table \"containers\" of `qos`"),
    ("table candidates, eviction", "Candidates", "Table \"candidates\" of `eviction`"),
];

#[test]
fn accessors_and_documentation_are_fresh() {
    let table = fs::read_to_string(wit().join("facts.tsv")).unwrap();
    let facts = read(&table);
    let accessors = krate().join("src/facts/named.rs");
    for (path, text) in [(accessors, accessors_of(&facts)), (wit().join("FACTS.md"), documentation_of(&facts))] {
        if env::var_os("POLYLET_BLESS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == text, "{} is stale: run this test with POLYLET_BLESS=1", path.display());
    }
}

#[test]
fn every_row_is_well_formed() {
    let table = fs::read_to_string(wit().join("facts.tsv")).unwrap();
    let mut seen = BTreeSet::new();
    for fact in read(&table) {
        let name = fact.name;
        assert!(seen.insert((fact.table(), name)), "{name} is there twice");
        let well_formed =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        assert!(name.split('.').all(well_formed), "{name}: parts are lower case, joined by dots");
        assert!(UNITS.iter().any(|(unit, _)| *unit == fact.unit), "{name}: unknown unit {}", fact.unit);
        let hooks = ["all", "restart", "probe", "qos", "eviction"];
        assert!(fact.hooks.split(' ').all(|hook| hooks.contains(&hook)), "{name}: unknown hook in {}", fact.hooks);
        assert!(SCOPES.iter().any(|(scope, ..)| *scope == fact.table()), "{name}: unknown scope {}", fact.scope);
        assert!(!fact.scope.starts_with("table") || fact.unit != "text", "{name}: columns are numbers");
    }
}

impl Fact<'_> {
    /// A table belongs to one hook, so that its name and the hook's tell it apart.
    fn table(&self) -> String {
        if self.scope.starts_with("table") { format!("{}, {}", self.scope, self.hooks) } else { self.scope.to_owned() }
    }
}

/// As cargo says now: a binary that was built for another tree must not write into that.
fn krate() -> PathBuf {
    env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from)
}

fn wit() -> PathBuf {
    krate().join("../../wit")
}

fn read(table: &str) -> Vec<Fact<'_>> {
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("name\tscope\tunit\thooks\tmeaning"));
    lines.map(fact).collect()
}

fn fact(line: &str) -> Fact<'_> {
    match line.split('\t').collect::<Vec<_>>()[..] {
        [name, scope, unit, hooks, meaning] => Fact { name, scope, unit, hooks, meaning },
        _ => panic!("five fields are expected in: {line}"),
    }
}

fn accessors_of(facts: &[Fact]) -> String {
    let mut text = String::from(
        "// Made from wit/facts.tsv by the test `facts` of this crate, run with POLYLET_BLESS=1. Do not edit.\n\n\
         use super::{Candidates, Column, Containers, Facts, ProbeHistory, RestartHistory};\n",
    );
    for kind in ["Facts", "RestartHistory", "ProbeHistory", "Containers", "Candidates"] {
        write!(text, "\naccessors! {{ {kind} {{\n").unwrap();
        let of_kind = |fact: &&Fact| SCOPES.iter().any(|(scope, of, _)| *of == kind && *scope == fact.table());
        for fact in facts.iter().filter(of_kind) {
            let Fact { name, unit, meaning, .. } = fact;
            let unit = UNITS.iter().find(|(known, _)| known == unit).map_or("", |(_, meaning)| meaning);
            let method = name.replace(['.', '-'], "_");
            let (kind, read) = match (fact.scope.strip_prefix("table "), fact.unit) {
                (Some(table), _) => ("Column", format!("column({table:?}, {name:?})")),
                (None, "text") => ("String", format!("text({name:?})")),
                (None, "flag") => ("bool", format!("flag({name:?})")),
                (None, "code") => ("i64", format!("code({name:?})")),
                (None, _) => ("u64", format!("unsigned({name:?})")),
            };
            writeln!(text, "    /// `{name}`: {meaning}. Unit: {unit}.\n    {method}: {kind} = {read};").unwrap();
        }
        text.push_str("} }\n");
    }
    text
}

fn documentation_of(facts: &[Fact]) -> String {
    let mut text = String::from(
        "# Facts by name\n\n\
         What a policy can ask the node beyond the question itself, by `facts.number`, `facts.column` and `words.text`. A name that\n\
         this node does not know is answered with none, and so is a fact that it could not measure. A row of a column that is not\n\
         known is the smallest s64.\n\n\
         Made from `facts.tsv` by the test `facts` of `sdk/rust`, run with `POLYLET_BLESS=1`.\n\n## Units\n\n| unit | meaning |\n|---|---|\n",
    );
    for (unit, meaning) in UNITS {
        writeln!(text, "| {unit} | {meaning} |").unwrap();
    }
    for (scope, _, heading) in SCOPES {
        let table = scope.starts_with("table");
        write!(text, "\n## {heading}\n\n").unwrap();
        text.push_str(if table {
            "| name | unit | meaning |\n|---|---|---|\n"
        } else {
            "| name | unit | hooks | meaning |\n|---|---|---|---|\n"
        });
        for fact in facts.iter().filter(|fact| fact.table() == scope) {
            let Fact { name, unit, hooks, meaning, .. } = fact;
            let hooks = if table { String::new() } else { format!("{hooks} | ") };
            writeln!(text, "| `{name}` | {unit} | {hooks}{meaning} |").unwrap();
        }
    }
    text
}
