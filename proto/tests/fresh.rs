//! The generated code is what the contracts say. Needs `protoc`, which `tests/lab/install.sh --test` installs; building does not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[path = "../examples/generate.rs"]
mod generate;

#[test]
fn generated_code_is_fresh() {
    if let Err(why) = std::process::Command::new("protoc").arg("--version").output() {
        panic!("protoc does not run here ({why}): tests/lab/install.sh --test installs it, out of Debian's protobuf-compiler");
    }
    // As cargo says now: this may have been built for another tree.
    let krate = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where its crate is"));
    let fresh = tempfile::tempdir().expect("a temporary directory can be made");
    generate::generate(&krate, fresh.path()).expect("the contracts compile");

    let (found, expected) = (files(&krate.join("src/generated")), files(fresh.path()));
    let stale: Vec<_> = found.keys().chain(expected.keys()).filter(|name| found.get(*name) != expected.get(*name)).collect();
    assert!(stale.is_empty(), "stale: {stale:?}; run `cargo run -p polylet-proto --example generate`");
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("the folder can be read");
    entries
        .map(|entry| entry.expect("the folder can be read").path())
        .map(|path| (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), std::fs::read(&path)))
        .map(|(name, bytes)| (name, bytes.expect("the file can be read")))
        .collect()
}
