//! The rules as functions of text: each answers what is wrong, with the line where that helps.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What is wrong with the text of a file.
pub(crate) type Rule = dyn Fn(&str) -> Vec<String>;

/// A crate's manifest.
pub(crate) struct Manifest {
    /// Its folder, from the top.
    pub(crate) dir: String,
    /// What it is built with.
    pub(crate) dependencies: BTreeSet<String>,
    /// That, and what its tests and build scripts need.
    pub(crate) all: BTreeSet<String>,
    /// `[lints] workspace = true`
    pub(crate) takes_lints: bool,
}

/// Reads a `Cargo.toml`; None for one of a workspace without a crate.
pub(crate) fn manifest(path: &Path, text: &str) -> Option<Manifest> {
    let toml: toml::Table = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    toml.get("package")?;
    let mut dependencies = BTreeSet::new();
    let mut all = BTreeSet::new();
    let targets = toml.get("target").and_then(toml::Value::as_table).into_iter().flatten().filter_map(|(_, t)| t.as_table());
    for table in std::iter::once(&toml).chain(targets) {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (name, value) in table.get(kind).and_then(toml::Value::as_table).into_iter().flatten() {
                // A renamed crate is meant by its real name.
                let name = value.get("package").and_then(toml::Value::as_str).unwrap_or(name);
                all.insert(name.to_owned());
                if kind == "dependencies" {
                    dependencies.insert(name.to_owned());
                }
            }
        }
    }
    let takes_lints = toml.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool) == Some(true);
    let dir = path.parent().unwrap_or(Path::new("")).to_string_lossy().into_owned();
    Some(Manifest { dir, dependencies, all, takes_lints })
}

/// Dependencies with this prefix that are not in the list.
pub(crate) fn not_allowed(manifest: &Manifest, prefix: &str, allowed: &[&str]) -> Vec<String> {
    let wrong = manifest.dependencies.iter().filter(|name| name.starts_with(prefix) && !allowed.contains(&name.as_str()));
    wrong.map(|name| format!("{} depends on {name}; allowed are {allowed:?}", manifest.dir)).collect()
}

/// Crates that a document does not name in backticks.
pub(crate) fn unnamed(document: &str, used: &BTreeSet<String>) -> Vec<String> {
    used.iter().filter(|name| !document.contains(&format!("`{name}`"))).cloned().collect()
}

/// Crates in the first column of the table under `## Third-party crates` that are not used.
pub(crate) fn unused(document: &str, used: &BTreeSet<String>) -> Vec<String> {
    let section = document.split("## Third-party crates").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap_or("");
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")).filter_map(|line| line.split('|').next());
    let names = cells.flat_map(|cell| cell.split(',').map(|name| name.trim().trim_matches('`').to_owned()));
    names.filter(|name| !used.contains(name)).collect()
}

/// Lints that every workspace of ours denies, and this one does not.
pub(crate) fn missing_lints(manifest: &str) -> Vec<String> {
    let toml: toml::Table = manifest.parse().expect("a manifest");
    let lints = toml.get("workspace").and_then(|workspace| workspace.get("lints"));
    let level = |tool: &str, lint: &str| lints?.get(tool)?.get(lint)?.as_str().map(str::to_owned);
    let wanted = [
        ("rust", "missing_docs"),
        ("rust", "unsafe_code"),
        ("clippy", "todo"),
        ("clippy", "unimplemented"),
        ("clippy", "dbg_macro"),
    ];
    let missing = wanted.into_iter().filter(|(tool, lint)| !matches!(level(tool, lint).as_deref(), Some("deny" | "forbid")));
    missing.map(|(tool, lint)| format!("{tool}.{lint} is not denied")).collect()
}

/// `allow(missing_docs)` without a reason, in a file that generates no code.
pub(crate) fn undocumented(text: &str) -> Vec<String> {
    let code = code_of(text);
    let generates = ["include!(", "bindgen!(", "generate!("].iter().any(|generator| code.contains(generator));
    if generates || is_generated(text) {
        return Vec::new();
    }
    lines_with(&code, &["allow(missing_docs"]).into_iter().filter(|line| !line.contains("reason =")).collect()
}

/// A file that is too long to be read at once. Generated ones are not read.
pub(crate) fn too_long(text: &str, limit: usize) -> Vec<String> {
    let lines = text.lines().count();
    if lines <= limit || is_generated(text) { Vec::new() } else { vec![format!("{lines} lines, {limit} are the most")] }
}

/// Says `@generated` within its first five lines.
fn is_generated(text: &str) -> bool {
    text.lines().take(5).any(|line| line.contains("@generated"))
}

/// Macros that stand for code to be written, or were left from debugging.
pub(crate) fn unfinished(text: &str) -> Vec<String> {
    lines_with(&code_of(text), &["todo!(", "todo![", "todo!{", "unimplemented!(", "dbg!("])
}

/// `#[ignore]` without a text; of an empty one, blanking leaves two spaces.
pub(crate) fn ignored(text: &str) -> Vec<String> {
    lines_with(&code_of(text), &["#[ignore]", "#[ignore =   ]", ", ignore)]"])
}

/// What the core has no use for, beyond what clippy sees.
pub(crate) fn impure(text: &str) -> Vec<String> {
    lines_with(
        &code_of(text),
        &["async fn", "async move", "async {", ".await", "unsafe ", "static mut", "thread_local!", "tracing::"],
    )
}

/// What `host/core/clippy.toml` must forbid, each entry with its reason.
pub(crate) fn core_lints(text: &str) -> Vec<String> {
    let toml: toml::Table = text.parse().expect("a clippy.toml");
    let mut wrong = Vec::new();
    let mut forbidden = BTreeMap::new();
    for list in ["disallowed-methods", "disallowed-types", "disallowed-macros"] {
        for entry in toml.get(list).and_then(toml::Value::as_array).into_iter().flatten() {
            let field = |name: &str| entry.get(name).and_then(toml::Value::as_str).unwrap_or_default();
            if field("reason").is_empty() {
                wrong.push(format!("{list}: {entry} gives no reason"));
            }
            forbidden.insert(field("path").to_owned(), list);
        }
    }
    let wanted = [
        "std::time::Instant::now",
        "std::time::SystemTime::now",
        "std::fs::File",
        "std::fs::read",
        "std::fs::write",
        "std::net::TcpStream",
        "std::os::unix::net::UnixStream",
        "std::env::var",
        "std::process::Command",
        "std::process::exit",
        "std::thread::spawn",
        "std::thread::sleep",
        "std::sync::Mutex",
        "std::collections::HashMap",
        "std::println",
    ];
    wrong.extend(wanted.iter().filter(|path| !forbidden.contains_key(**path)).map(|path| format!("{path} is not forbidden")));
    wrong
}

/// Paths that exist on one developer's machine only.
pub(crate) fn machine_paths(text: &str) -> Vec<String> {
    let paths = [concat!("/wor", "k/"), concat!("/root/", ".")];
    let begins = |line: &str, at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}~*".contains(c));
    let found = |line: &str| paths.iter().any(|path| line.match_indices(path).any(|(at, _)| begins(line, at)));
    text.lines().enumerate().filter(|(_, line)| found(line)).map(|(n, line)| format!("line {}: {}", n + 1, line.trim())).collect()
}

/// Ways to go on when a check has failed.
pub(crate) fn silenced(text: &str) -> Vec<String> {
    let mut found =
        lines_with(text, &["|| true", "||true", "|| :", "||:", "|| exit 0", "set +e", "--no-fail-fast || ", "continue-on-error"]);
    // A recipe's `-` tells make to go on.
    let recipe = |line: &str| line.strip_prefix('\t').is_some_and(|recipe| recipe.trim_start_matches('@').starts_with('-'));
    found.extend(
        text.lines().enumerate().filter(|(_, line)| recipe(line)).map(|(n, line)| format!("line {}: {}", n + 1, line.trim())),
    );
    found
}

/// The table of facts: every row complete, no name twice in a scope of a hook, every row in the document as it is in the table.
pub(crate) fn facts(table: &str, document: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut rows = table.lines();
    let header = "name\tscope\tunit\thooks\tmeaning";
    if rows.next() != Some(header) {
        wrong.push(format!("the first line is not {header:?}"));
    }
    let units: BTreeSet<&str> = document
        .split("## Units")
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next())
        .into_iter()
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next())
        .collect();
    let mut names = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.split('\t').collect();
        let &[name, scope, unit, hooks, meaning] = &cells[..] else {
            wrong.push(format!("not five cells: {row:?}"));
            continue;
        };
        if cells.iter().any(|cell| cell.trim().is_empty()) {
            wrong.push(format!("{name}: an empty cell"));
        }
        if !names.insert((scope, hooks, name)) {
            wrong.push(format!("{name}: twice in the scope {scope} of {hooks}"));
        }
        if !units.contains(unit) {
            wrong.push(format!("{name}: the unit {unit:?} is not explained"));
        }
        let mut lines = document.lines().filter(|line| line.starts_with(&format!("| `{name}` |")));
        if !lines.any(|line| line.contains(&format!("| {unit} |")) && line.contains(meaning)) {
            wrong.push(format!("{name}: not in FACTS.md as in the table"));
        }
    }
    wrong
}

/// Packages of a lock file that come from elsewhere than the public registry.
pub(crate) fn sources(lock: &str) -> Vec<String> {
    let public = concat!("registry+https://github.com/rust-lang/", "crates.io-index");
    let toml: toml::Table = lock.parse().expect("a lock file");
    let packages = toml.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let elsewhere = packages.filter(|package| package.get("source").is_some_and(|source| source.as_str() != Some(public)));
    elsewhere.map(|package| format!("{} from {}", package["name"], package["source"])).collect()
}

/// Targets of links to files, without their anchors.
pub(crate) fn links(markdown: &str) -> Vec<String> {
    let targets = markdown.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with(['#', '<']));
    files.filter_map(|target| target.split('#').next()).filter(|target| !target.is_empty()).map(str::to_owned).collect()
}

fn lines_with(text: &str, words: &[&str]) -> Vec<String> {
    let found = text.lines().enumerate().filter(|(_, line)| words.iter().any(|word| line.contains(word)));
    found.map(|(n, line)| format!("line {}: {}", n + 1, line.trim())).collect()
}

/// The text of a source file with comments and the insides of literals blanked, line by line.
pub(crate) fn code_of(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, hide) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), true)
        } else if rest.starts_with("/*") {
            (block_comment(rest), true)
        } else if let Some(length) = string(rest, &out) {
            (length, true)
        } else if first == '\'' {
            let length = character(rest);
            (length, length > 1)
        } else {
            (first.len_utf8(), false)
        };
        let (piece, after) = rest.split_at(length);
        if hide {
            out.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        } else {
            out.push_str(piece);
        }
        rest = after;
    }
    out
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Length of the string literal that begins here, if one does.
fn string(text: &str, before: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", ""].into_iter().find(|prefix| {
        let rest = text.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.starts_with('"') || (!prefix.is_empty() && rest.trim_start_matches('#').starts_with('"')))
    })?;
    // `r` may also be the end of a name.
    if !prefix.is_empty() && before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let raw = &text[prefix.len()..];
    if prefix.is_empty() {
        let mut escaped = false;
        let end = raw[1..].find(|c: char| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        return Some(end.map_or(text.len(), |end| end + 2));
    }
    let hashes = raw.len() - raw.trim_start_matches('#').len();
    let close = format!("\"{}", "#".repeat(hashes));
    let end = raw[hashes + 1..].find(&close);
    Some(end.map_or(text.len(), |end| prefix.len() + hashes + 1 + end + close.len()))
}

/// Length of a character literal, or of the quote of a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text[1..].char_indices();
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), _) => text[2..].char_indices().skip(1).find(|(_, c)| *c == '\'').map_or(1, |(at, _)| at + 3),
        (Some(_), Some((at, '\''))) => at + 2,
        _ => 1,
    }
}
