//! The node's own credentials for registries: the configuration file of a Docker client, where the kubelet looks for one, and which of
//! its entries are for an image.
//!
//! **Invariant:** no secret is shown: not by `Debug`, not by a message about a file that cannot be read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use polylet_runtime::cri::AuthConfig;
use serde_json::{Map, Value};

/// The registry that upstream means where an image names none: the key of last resort for such images' credentials, whose hosts have the
/// same name without its first label.
const FALLBACK: &str = "index.docker.io";
/// A file is not larger than this.
const MAX_BYTES: u64 = 1 << 20;

/// Credentials by the places that they are for.
#[derive(Debug, Default)]
pub struct Keyring(BTreeMap<String, Vec<AuthConfig>>);

/// The credentials of the first file that there is: `config.json` below the root directory, in the working directory, in
/// `$HOME/.docker`, in `/.docker`; else `.dockercfg` in the first two, in `$HOME`, in `/`. They are read for each pull, so that a new
/// file counts at once. Files that are none are told, and passed over.
pub fn of_node(root: &Path) -> Keyring {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let [root, here, slash] = [root, Path::new(""), Path::new("/")];
    let new = [root.to_owned(), here.to_owned(), home.join(".docker"), slash.join(".docker")].map(|dir| dir.join("config.json"));
    let old = [root.to_owned(), here.to_owned(), home, slash.to_owned()].map(|dir| dir.join(".dockercfg"));
    first_of(&new, &old)
}

/// The first file of two kinds: with the entries below `auths`, and with nothing but entries.
fn first_of(new: &[PathBuf], old: &[PathBuf]) -> Keyring {
    for (path, below) in new.iter().map(|path| (path, Some("auths"))).chain(old.iter().map(|path| (path, None))) {
        match read(path).and_then(|bytes| parse(&bytes, below)) {
            Ok((keyring, wrong)) => {
                for why in wrong {
                    tracing::warn!(file = %path.display(), "credentials for a registry are passed over: {why}");
                }
                return keyring;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(file = %path.display(), %error, "credentials for registries cannot be read"),
        }
    }
    Keyring::default()
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Without blocking, so that a pipe holds nobody up.
    let file = File::options().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("larger than {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

/// A file's entries, and what is wrong with those that cannot be used.
fn parse(bytes: &[u8], below: Option<&str>) -> io::Result<(Keyring, Vec<String>)> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    // The parser's own text may hold what it has read, but for the place.
    let document: Value = serde_json::from_slice(bytes)
        .map_err(|error| wrong(&format!("not JSON at line {}, column {}", error.line(), error.column())))?;
    let Value::Object(mut entries) = document else { return Err(wrong("must be a JSON object")) };
    if let Some(name) = below {
        entries = match entries.remove(name) {
            Some(Value::Object(entries)) => entries,
            None | Some(Value::Null) => Map::new(),
            Some(_) => return Err(wrong(&format!("{name}: must be a JSON object"))),
        };
    }
    let mut keyring = Keyring::default();
    let mut unusable = Vec::new();
    for (place, entry) in &entries {
        match credentials(entry).and_then(|auth| Ok((key_of(place).ok_or("it is no name of a registry")?, auth))) {
            Ok((key, auth)) => keyring.0.entry(key).or_default().push(auth),
            Err(why) => unusable.push(format!("{place:?}: {why}")),
        }
    }
    Ok((keyring, unusable))
}

/// `username` and `password`, or both in `auth`, which wins.
fn credentials(entry: &Value) -> Result<AuthConfig, &'static str> {
    let Value::Object(entry) = entry else { return Err("must be a JSON object") };
    let text = |name: &str| match entry.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err("username, password and auth must be strings"),
    };
    let (mut username, mut password) = (text("username")?.to_owned(), text("password")?.to_owned());
    let auth = text("auth")?.trim();
    if !auth.is_empty() {
        let engine = if auth.ends_with('=') { STANDARD } else { STANDARD_NO_PAD };
        let decoded = engine.decode(auth).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let both = decoded.as_deref().and_then(|text| text.split_once(':'));
        let (user, secret) = both.ok_or("auth must be formatted as base64(username:password)")?;
        (username, password) = (user.to_owned(), secret.to_owned());
    }
    Ok(AuthConfig { username, password, ..AuthConfig::default() })
}

/// Host, port and path of a place, without scheme and without the version of the registry's interface.
fn key_of(place: &str) -> Option<String> {
    let rest = ["https://", "http://"].iter().find_map(|scheme| place.strip_prefix(scheme)).unwrap_or(place);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = ["/v1/", "/v2/"].iter().find_map(|version| path.starts_with(version).then(|| &path[3..])).unwrap_or(path);
    let good = !host.is_empty() && !host.contains('@') && !host.chars().any(|c| c.is_whitespace() || c.is_control());
    good.then(|| if path == "/" { host.to_owned() } else { format!("{host}{path}") })
}

impl Keyring {
    /// What opens the registry of an image, in the order in which it is tried: the longest place first.
    pub fn lookup(&self, image: &str) -> Vec<AuthConfig> {
        let repository = repository(image);
        let mut seen = BTreeSet::new();
        let matching = self.0.iter().rev().filter(|(key, _)| matches(key, &repository));
        let mut found: Vec<AuthConfig> = matching.flat_map(|(_, all)| all).cloned().collect();
        if found.is_empty() && is_of_fallback(&repository) {
            found.extend(self.0.get(FALLBACK).into_iter().flatten().cloned());
        }
        // The same secret at several places is tried once.
        found.retain(|auth| seen.insert((auth.username.clone(), auth.password.clone())));
        found
    }
}

/// Registry and path of an image, both written out: below the fallback's host, `library/busybox` of `busybox:1`.
fn repository(image: &str) -> String {
    let name = image.split('@').next().unwrap_or_default();
    let end = name.rfind(':').filter(|at| !name[*at..].contains('/')).unwrap_or(name.len());
    let name = &name[..end];
    let has_host =
        |host: &str| host == "localhost" || host.contains(['.', ':']) || host.bytes().any(|byte| byte.is_ascii_uppercase());
    let fallback = fallback_host();
    match name.split_once('/') {
        Some((FALLBACK, path)) => format!("{fallback}/{path}"),
        Some((host, _)) if has_host(host) => name.to_owned(),
        Some(_) => format!("{fallback}/{name}"),
        None => format!("{fallback}/library/{name}"),
    }
}

/// The host of images that name none.
fn fallback_host() -> &'static str {
    FALLBACK.split_once('.').map_or(FALLBACK, |(_, host)| host)
}

/// Images never have [`FALLBACK`] itself for a host: [`repository`] sees to that.
fn is_of_fallback(repository: &str) -> bool {
    repository.split('/').next() == Some(fallback_host())
}

/// Whether a place is for a repository: hosts label by label, with `*` and the like within a label; the same port; the path from its
/// beginning.
fn matches(key: &str, repository: &str) -> bool {
    let parts = |text: &str| {
        let (host, path) = text.split_at(text.find('/').unwrap_or(text.len()));
        let (host, port) = host.rsplit_once(':').unwrap_or((host, ""));
        (host.to_owned(), port.to_owned(), path.to_owned())
    };
    let ((key_host, key_port, key_path), (host, port, path)) = (parts(key), parts(repository));
    let (patterns, labels): (Vec<&str>, Vec<&str>) = (key_host.split('.').collect(), host.split('.').collect());
    key_port == port
        && path.starts_with(&key_path)
        && patterns.len() == labels.len()
        && patterns.iter().zip(&labels).all(|(pattern, label)| glob(pattern.as_bytes(), label.as_bytes()))
}

/// `*`, `?`, `[a-z]`, `[^a-z]` and `\` as in a shell; a pattern that is none matches nothing. Steps grow with the product of the lengths.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    // The places in the text that some way through the pattern so far leads to.
    let mut reached: Vec<bool> = std::iter::once(true).chain(text.iter().map(|_| false)).collect();
    let mut at = 0;
    while at < pattern.len() {
        let Some((one, after)) = element(pattern, at) else { return false };
        at = after;
        let mut next = vec![false; reached.len()];
        for place in 0..reached.len() {
            match &one {
                Element::Any => next[place] = reached[place] || place > 0 && next[place - 1],
                Element::One { ranges, negated } if place > 0 && reached[place - 1] => {
                    let byte = text[place - 1];
                    next[place] = ranges.iter().any(|(low, high)| (*low..=*high).contains(&byte)) != *negated;
                }
                Element::One { .. } => {}
            }
        }
        reached = next;
    }
    reached.last() == Some(&true)
}

enum Element {
    Any,
    One { ranges: Vec<(u8, u8)>, negated: bool },
}

/// The element that begins here, and where the next one does.
fn element(pattern: &[u8], at: usize) -> Option<(Element, usize)> {
    let literal = |at: usize| match pattern.get(at)? {
        b'\\' => Some((*pattern.get(at + 1)?, at + 2)),
        byte => Some((*byte, at + 1)),
    };
    match pattern.get(at)? {
        b'*' => Some((Element::Any, at + 1)),
        b'?' => Some((Element::One { ranges: vec![(0, u8::MAX)], negated: false }, at + 1)),
        b'[' => {
            let negated = pattern.get(at + 1) == Some(&b'^');
            let mut at = at + 1 + usize::from(negated);
            let mut ranges = Vec::new();
            while ranges.is_empty() || *pattern.get(at)? != b']' {
                let (low, after) = literal(at)?;
                let (high, after) = if pattern.get(after) == Some(&b'-') { literal(after + 1)? } else { (low, after) };
                ranges.push((low, high));
                at = after;
            }
            Some((Element::One { ranges, negated }, at + 1))
        }
        _ => literal(at).map(|(byte, after)| (Element::One { ranges: vec![(byte, byte)], negated: false }, after)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyring(places: &[&str]) -> Keyring {
        let auths: Map<String, Value> = places
            .iter()
            .map(|place| ((*place).to_owned(), serde_json::json!({"username": place, "password": "hush"})))
            .collect();
        let text = serde_json::json!({ "auths": auths }).to_string();
        let (keyring, wrong) = parse(text.as_bytes(), Some("auths")).unwrap();
        assert_eq!(wrong, Vec::<String>::new());
        keyring
    }

    /// Users for an image, in order.
    fn users(places: &[&str], image: &str) -> String {
        keyring(places).lookup(image).iter().map(|auth| auth.username.clone()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn places_are_for_images() {
        let (key, host) = (FALLBACK, fallback_host());
        let (versioned, below) = (format!("https://{key}/v1/"), format!("{key}/a/b"));
        for (place, image, is_for) in [
            ("registry.example", "registry.example/a:1", true),
            ("https://registry.example/v2/", "registry.example/a", true),
            ("http://registry.example/v1/", "registry.example/a", true),
            ("registry.example:5000", "registry.example:5000/a@sha256:0", true),
            ("registry.example:5000", "registry.example/a", false),
            ("registry.example", "registry.example:5000/a", false),
            ("registry.example/team", "registry.example/team/a", true),
            ("registry.example/team", "registry.example/teams/a", true),
            ("registry.example/team", "registry.example/other/a", false),
            ("*.registry.example", "a.registry.example/x", true),
            ("*.registry.example", "registry.example/x", false),
            ("*.registry.example", "a.b.registry.example/x", false),
            ("r*.ex*e", "registry.example/x", true),
            ("[a-r]egistry.example", "registry.example/x", true),
            ("[^a-r]egistry.example", "registry.example/x", false),
            ("[registry.example", "registry.example/x", false),
            ("127.0.0.1:5000", "127.0.0.1:5000/x:latest", true),
            (host, "busybox", true),
            (key, "busybox", true),
            (&versioned, "library/busybox:1", true),
            (key, &below, true),
            (key, "registry.example/busybox", false),
            ("other.example", "registry.example/x", false),
        ] {
            let found = users(&[place], image);
            assert_eq!(found, if is_for { place } else { "" }, "{place} {image}");
        }
    }

    #[test]
    fn the_longest_place_is_tried_first() {
        let places = ["registry.example", "registry.example/team", "registry.example/team/sub", "*.example"];
        let found = users(&places, "registry.example/team/sub/a");
        assert_eq!(found, "registry.example/team/sub registry.example/team registry.example *.example");
        let library = format!("{}/library", fallback_host());
        let with_fallback = [FALLBACK, &library];
        assert_eq!(users(&with_fallback, "busybox"), library);
        assert_eq!(users(&with_fallback, "me/busybox"), FALLBACK);
    }

    #[test]
    fn entries_are_read_as_they_are_written() {
        let text = r#"{"auths": {"a.example": {"auth": "YW5uOmh1c2g6aA=="}, "b.example": {"auth": " YW5uOmh1c2g6aA ", "username": "x"},
            "c.example": {"username": "ann", "password": "hush:h"}, "d.example": {}, "e.example": {"auth": "aHVzaA=="},
            "f.example": {"auth": 5}, "g.example": "hush", "https://": {}}, "credsStore": "desktop"}"#;
        let (keyring, wrong) = parse(text.as_bytes(), Some("auths")).unwrap();
        for host in ["a", "b", "c"] {
            let found = keyring.lookup(&format!("{host}.example/x"));
            assert_eq!((found[0].username.as_str(), found[0].password.as_str()), ("ann", "hush:h"), "{host}");
        }
        assert_eq!(keyring.lookup("d.example/x").len(), 1);
        assert_eq!(
            wrong,
            [
                "\"e.example\": auth must be formatted as base64(username:password)",
                "\"f.example\": username, password and auth must be strings",
                "\"g.example\": must be a JSON object",
                "\"https://\": it is no name of a registry",
            ]
        );
        assert!(!format!("{keyring:?}").contains("hush"));
    }

    #[test]
    fn the_first_file_that_is_one_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let absent = dir.path().join("absent");
        let auths = |user: &str| format!(r#"{{"auths": {{"a.example": {{"username": "{user}"}}}}}}"#);
        let (broken, second) = (file("broken", r#"{"auths": "hush"#), file("second", &auths("second")));
        let old = file("old", r#"{"a.example": {"username": "old"}}"#);
        let user = |new: &[PathBuf], old: &[PathBuf]| {
            first_of(new, old).lookup("a.example/x").into_iter().map(|auth| auth.username).next().unwrap_or_default()
        };
        assert_eq!(user(&[absent.clone(), broken.clone(), second.clone()], std::slice::from_ref(&old)), "second");
        assert_eq!(user(&[absent.clone(), dir.path().to_owned()], &[absent.clone(), old]), "old");
        assert_eq!(user(&[absent], &[]), "");
        let told = read(&broken).and_then(|bytes| parse(&bytes, Some("auths"))).unwrap_err().to_string();
        assert_eq!(told, "not JSON at line 1, column 15");
        let large = file("large", &" ".repeat(MAX_BYTES as usize + 1));
        assert_eq!(read(&large).unwrap_err().to_string(), "larger than 1048576 bytes");
    }
}
