//! What the CNI configuration shows: the runtime reads it itself, and says only whether the network is ready.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The network configuration that a runtime would use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CniNetwork {
    /// Its name.
    pub name: String,
    /// The file it stands in.
    pub file: PathBuf,
    /// Types of its plugins, in their order.
    pub plugins: Vec<String>,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum CniError {
    /// The directory cannot be read.
    #[error("read CNI configuration directory {path}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// No file in it looks like a configuration.
    #[error("no networks found in {path}")]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// There are files, and none is valid.
    #[error("no valid networks found in {path}: {}", .refused.join("; "))]
    NoneValid {
        /// The directory.
        path: PathBuf,
        /// File and what is wrong with it.
        refused: Vec<String>,
    },
}

/// The configuration that a runtime takes: of the files ending in `.conf`, `.conflist` or `.json` the first valid one, by name.
pub fn configuration(dir: &Path) -> Result<CniNetwork, CniError> {
    let failed = |cause| CniError::Directory { path: dir.to_owned(), cause };
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if matches!(ending, Some("conf" | "conflist" | "json")) {
            files.push(path);
        }
    }
    files.sort();
    let mut refused = Vec::new();
    for file in files {
        match parse(&file) {
            Ok(network) => return Ok(network),
            Err(why) => refused.push(format!("{}: {why}", file.display())),
        }
    }
    let path = dir.to_owned();
    Err(if refused.is_empty() { CniError::Empty { path } } else { CniError::NoneValid { path, refused } })
}

fn parse(file: &Path) -> Result<CniNetwork, String> {
    let size = fs::metadata(file).map_err(|error| error.to_string())?.len();
    if size > MAX_BYTES {
        return Err(format!("larger than {MAX_BYTES} bytes"));
    }
    let text = fs::read(file).map_err(|error| error.to_string())?;
    let value: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let word = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let kind = |plugin: &Value| word(plugin, "type").filter(|kind| !kind.is_empty()).ok_or("a plugin has no type");
    let is_list = file.extension().is_some_and(|ending| ending == "conflist");
    let plugins: Vec<String> = if is_list {
        let list = value.get("plugins").and_then(Value::as_array).ok_or("no list of plugins")?;
        list.iter().map(kind).collect::<Result<_, _>>()?
    } else {
        vec![kind(&value)?]
    };
    if plugins.is_empty() {
        return Err("the list of plugins is empty".to_owned());
    }
    Ok(CniNetwork { name: word(&value, "name").unwrap_or_default(), file: file.to_owned(), plugins })
}

/// Far more than any configuration; a bound all the same.
const MAX_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("make a directory");
        for (name, text) in files {
            fs::write(dir.path().join(name), text).expect("write");
        }
        dir
    }

    #[test]
    fn the_first_valid_file_by_name_is_taken() {
        let dir = dir(&[
            ("00-readme.txt", "not looked at"),
            ("05-broken.conf", "{"),
            ("07-empty.conflist", r#"{"name":"e","plugins":[]}"#),
            ("10-bridge.conflist", r#"{"cniVersion":"0.4.0","name":"pods","plugins":[{"type":"bridge"},{"type":"portmap"}]}"#),
            ("99-loopback.conf", r#"{"name":"lo","type":"loopback"}"#),
        ]);
        let network = configuration(dir.path()).expect("a valid one");
        assert_eq!((network.name.as_str(), network.plugins), ("pods", vec!["bridge".to_owned(), "portmap".to_owned()]));
        fs::remove_file(dir.path().join("10-bridge.conflist")).expect("remove");
        assert_eq!(configuration(dir.path()).expect("the next").name, "lo");
    }

    #[test]
    fn why_there_is_none() {
        let text = |files: &[(&str, &str)]| {
            let dir = dir(files);
            let text = configuration(dir.path()).expect_err("none").to_string();
            text.replace(&dir.path().display().to_string(), "DIR")
        };
        assert_eq!(text(&[]), "no networks found in DIR");
        let bad = [("a.conf", r#"{"name":"x"}"#), ("b.conflist", r#"{"type":"bridge"}"#), ("c.json", r#"{"type":"br"#)];
        assert_eq!(
            text(&bad),
            "no valid networks found in DIR: DIR/a.conf: a plugin has no type; DIR/b.conflist: no list of plugins; \
             DIR/c.json: EOF while parsing a string at line 1 column 11"
        );
        let error = configuration(Path::new("/no/such/directory")).expect_err("absent");
        assert_eq!(error.to_string(), "read CNI configuration directory /no/such/directory");
    }
}
