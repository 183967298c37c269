//! The CNI configuration: what it shows, since the runtime reads it itself and says only whether the network is ready, and how a node
//! that is asked to writes one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
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
    /// What would be written is no configuration.
    #[error("{}: {why}", file.display())]
    Invalid {
        /// The file that was to be written.
        file: PathBuf,
        /// What is wrong with its text.
        why: String,
    },
    /// The file cannot be written.
    #[error("write the CNI configuration {}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

/// The configuration that a runtime takes: of the files ending in `.conf`, `.conflist` or `.json` the first valid one, by name.
pub fn configuration(dir: &Path) -> Result<CniNetwork, CniError> {
    let failed = |cause| CniError::Directory { path: dir.to_owned(), cause };
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if is_configuration(&path) {
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

/// Whether runtimes read a file of this name.
pub fn is_configuration(file: &Path) -> bool {
    matches!(file.extension().and_then(|ending| ending.to_str()), Some("conf" | "conflist" | "json"))
}

/// Whether the text can be the configuration of that file.
///
/// # Errors
/// [`CniError::Invalid`] where a runtime would refuse it.
pub fn check(file: &Path, text: &str) -> Result<(), CniError> {
    parse_text(file, text.as_bytes()).map(drop).map_err(|why| CniError::Invalid { file: file.to_owned(), why })
}

/// Writes a configuration, whole or not at all, for root alone to read: it may hold what plugins log in with. False: it stood there
/// already, and the file is not touched, which would have the runtime load it again.
///
/// # Errors
/// As [`check`], and [`CniError::Write`].
pub fn write(file: &Path, text: &str) -> Result<bool, CniError> {
    check(file, text)?;
    if fs::read(file).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(false);
    }
    let dir = file.parent().unwrap_or(Path::new("/"));
    // No runtime reads a file of such a name.
    let aside = file.with_extension("polylet-new");
    let written = || {
        fs::create_dir_all(dir)?;
        match fs::remove_file(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        fs::rename(&aside, file)?;
        File::open(dir)?.sync_all()
    };
    written().map_err(|cause| CniError::Write { file: file.to_owned(), cause })?;
    Ok(true)
}

fn parse(file: &Path) -> Result<CniNetwork, String> {
    let size = fs::metadata(file).map_err(|error| error.to_string())?.len();
    if size > MAX_BYTES {
        return Err(format!("larger than {MAX_BYTES} bytes"));
    }
    parse_text(file, &fs::read(file).map_err(|error| error.to_string())?)
}

fn parse_text(file: &Path, text: &[u8]) -> Result<CniNetwork, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
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
    let name = word(&value, "name").filter(|name| !name.is_empty());
    if is_list && name.is_none() {
        return Err("it has no name".to_owned());
    }
    Ok(CniNetwork { name: name.unwrap_or_default(), file: file.to_owned(), plugins })
}

/// Far more than any configuration; a bound all the same.
const MAX_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

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
            ("08-nameless.conflist", r#"{"plugins":[{"type":"bridge"}]}"#),
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

    #[test]
    fn a_configuration_is_written_whole_and_only_when_it_changes() {
        const TEXT: &str = r#"{"name":"pods","plugins":[{"type":"bridge"}]}"#;
        let dir = dir(&[]);
        let file = dir.path().join("net.d/10-pods.conflist");
        assert!(write(&file, TEXT).expect("write"));
        let inode = |file: &Path| fs::metadata(file).map(|meta| (meta.ino(), meta.mode() & 0o777)).expect("it is there");
        let before = inode(&file);
        assert_eq!(before.1, 0o600);
        assert!(!write(&file, TEXT).expect("nothing to do"));
        assert_eq!(inode(&file), before, "the runtime has nothing to load");
        // What an agent that was killed left behind is in nobody's way.
        fs::write(file.with_extension("polylet-new"), "half").expect("write");
        assert!(write(&file, &TEXT.replace("pods", "others")).expect("write"));
        assert_eq!(configuration(&dir.path().join("net.d")).expect("valid").name, "others");
        assert_eq!(fs::read_dir(dir.path().join("net.d")).expect("list").count(), 1);

        let error = write(&file, "{").expect_err("no JSON").to_string().replace(&dir.path().display().to_string(), "DIR");
        assert_eq!(error, "DIR/net.d/10-pods.conflist: EOF while parsing an object at line 1 column 1");
        assert_eq!(configuration(&dir.path().join("net.d")).expect("as it was").name, "others");
        fs::create_dir(dir.path().join("taken.conf")).expect("make a directory");
        let error = write(&dir.path().join("taken.conf"), r#"{"type":"bridge"}"#).expect_err("a directory");
        assert!(matches!(error, CniError::Write { .. }), "{error}");
    }
}
