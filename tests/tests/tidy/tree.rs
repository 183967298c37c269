//! The files of the tree.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The top of the tree.
pub(crate) fn root() -> PathBuf {
    // As cargo says now: this may have been built for another tree.
    let krate = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where its crate is"));
    krate.parent().expect("tests/ has a parent").to_owned()
}

/// Text of a file named from the top.
pub(crate) fn read(path: impl AsRef<Path>) -> &'static str {
    let path = path.as_ref();
    texts().get(path).unwrap_or_else(|| panic!("there is no {}, or it is no text", path.display()))
}

/// Every source file of ours, from the top.
pub(crate) fn rust_files() -> Vec<PathBuf> {
    text_files().into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// Every file that is text, from the top, sorted. What is built lies in folders named `target`.
pub(crate) fn text_files() -> Vec<PathBuf> {
    texts().keys().cloned().collect()
}

/// Read once for all tests.
fn texts() -> &'static BTreeMap<PathBuf, String> {
    static TEXTS: OnceLock<BTreeMap<PathBuf, String>> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let mut texts = BTreeMap::new();
        walk(&root(), &mut texts);
        texts
    })
}

fn walk(dir: &Path, texts: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(dir).unwrap_or_else(|error| panic!("list {}: {error}", dir.display())).flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && name != "target" && name != ".git" {
            walk(&path, texts);
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(&path)
            && let Ok(from_top) = path.strip_prefix(root())
        {
            texts.insert(from_top.to_owned(), text);
        }
    }
}
