//! What `deny.toml` says, as far as it can be held without its tool: licences and banned crates of all that is built.

use serde_json::Value;

/// `text` is `deny.toml`, `metadata` what `cargo metadata` prints. Names what is linked and may not be.
pub(crate) fn denied(text: &str, metadata: &Value) -> Vec<String> {
    let deny: toml::Table = text.parse().expect("deny.toml");
    let list = |section: &str, key: &str| deny.get(section).and_then(|s| s.get(key)).and_then(toml::Value::as_array).cloned();
    let allowed: Vec<String> =
        list("licenses", "allow").into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    let mut wrong = Vec::new();
    // What has no source is ours.
    for package in packages().filter(|package| !package["source"].is_null()) {
        let (name, licence) = (&package["name"], package["license"].as_str().unwrap_or_default());
        if !allows(licence, &allowed) {
            wrong.push(format!("{name}: the licence {licence:?} is not among those of deny.toml"));
        }
    }
    let name_of = |id: &Value| packages().find(|package| package["id"] == *id).and_then(|package| package["name"].as_str());
    for entry in list("bans", "deny").into_iter().flatten() {
        let banned = entry.get("crate").and_then(toml::Value::as_str).unwrap_or_default();
        let through: Vec<&str> =
            entry.get("wrappers").and_then(toml::Value::as_array).into_iter().flatten().filter_map(toml::Value::as_str).collect();
        for node in metadata["resolve"]["nodes"].as_array().into_iter().flatten() {
            let user = name_of(&node["id"]).unwrap_or_default();
            let uses = node["dependencies"].as_array().into_iter().flatten().any(|id| name_of(id) == Some(banned));
            if uses && !through.contains(&user) {
                wrong.push(format!("{user} depends on {banned}, which deny.toml bans"));
            }
        }
    }
    wrong
}

/// Whether a licence expression can be met: `OR` gives a choice, `AND` asks for both, and binds closer. Some still write `/` for `OR`.
fn allows(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    any(&words, &mut at, allowed) && at == words.len()
}

fn any(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut met = all(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all(words, at, allowed);
    }
    met
}

fn all(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut met = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at, allowed);
    }
    met
}

fn one(words: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let met = any(words, at, allowed);
        let closed = words.get(*at) == Some(&")");
        *at += usize::from(closed);
        return met && closed;
    }
    let mut name = (*word).to_owned();
    if let (Some(&"WITH"), Some(exception)) = (words.get(*at), words.get(*at + 1)) {
        name = format!("{name} WITH {exception}");
        *at += 2;
    }
    allowed.contains(&name)
}

#[test]
fn licences_are_read_as_expressions() {
    let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
    let check = |expression, expected| assert_eq!(allows(expression, &allowed), expected, "{expression:?}");
    for good in
        ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "MIT AND ISC", "(GPL-3.0 OR MIT) AND ISC", "Apache-2.0 WITH LLVM-exception"]
    {
        check(good, true);
    }
    for bad in
        ["", "GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "MIT WITH LLVM-exception", "(MIT", "MIT ISC", "GPL-3.0 OR MIT AND BSD"]
    {
        check(bad, false);
    }
}

#[test]
fn what_is_denied_is_named() {
    let deny = r#"
        [licenses]
        allow = ["MIT"]
        [bans]
        deny = [{ crate = "bad", wrappers = ["wrapper"], reason = "r" }]"#;
    let package =
        |name: &str, licence: &str| serde_json::json!({"id": name, "name": name, "license": licence, "source": "registry"});
    let node = |name: &str| serde_json::json!({"id": name, "dependencies": ["bad"]});
    let metadata = serde_json::json!({
        "packages": [package("bad", "MIT"), package("user", "GPL-3.0"), package("wrapper", "MIT"), {"id": "ours", "name": "ours"}],
        "resolve": {"nodes": [node("user"), node("wrapper")]},
    });
    let expected =
        [r#""user": the licence "GPL-3.0" is not among those of deny.toml"#, "user depends on bad, which deny.toml bans"];
    assert_eq!(denied(deny, &metadata), expected);
}
