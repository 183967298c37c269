//! Finds the default component that is embedded: `default.wasm` in `$POLYLET_POLICIES_DIR`, or else in `target/policies`.
//! `POLYLET_WITHOUT_DEFAULT=1` builds without one: the native rung answers in its place.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo:rustc-check-cfg=cfg(default_component)");
    println!("cargo:rerun-if-env-changed=POLYLET_POLICIES_DIR");
    println!("cargo:rerun-if-env-changed=POLYLET_WITHOUT_DEFAULT");
    if env::var_os("POLYLET_WITHOUT_DEFAULT").is_some_and(|value| value == "1") {
        return;
    }
    let repository = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../..");
    let folder = env::var_os("POLYLET_POLICIES_DIR").map_or_else(|| repository.join("target/policies"), PathBuf::from);
    let component = folder.join("default.wasm");
    println!("cargo:rerun-if-changed={}", component.display());
    let Ok(folder) = folder.canonicalize().and_then(|folder| folder.join("default.wasm").canonicalize().map(|_| folder)) else {
        println!(
            "cargo::error={} is missing: run policies/build.sh first (or set POLYLET_WITHOUT_DEFAULT=1 to build without it)",
            component.display()
        );
        return;
    };
    println!("cargo:rustc-cfg=default_component");
    println!("cargo:rustc-env=POLYLET_POLICIES_DIR={}", folder.display());
}
