//! Makes `src/generated/` out of the `.proto` files. Needs `protoc` (Debian: `protobuf-compiler`).

use std::error::Error;
use std::path::Path;

use prost_types::FileDescriptorSet;
use tonic_prost_build::{Config, configure};

/// The contracts, relative to the crate.
const CONTRACTS: &[&str] =
    &["cri/runtime/v1/api.proto", "containerd/events.proto", "containerd/task.proto", "grpc/health/v1/health.proto"];

/// Messages that hold secrets: the crate writes their `Debug` by hand.
const SECRET: &[&str] = &["runtime.v1.AuthConfig", "runtime.v1.KeyValue"];

#[allow(dead_code)] // Unused where a test includes this file.
fn main() -> Result<(), Box<dyn Error>> {
    let krate = Path::new(env!("CARGO_MANIFEST_DIR"));
    generate(krate, &krate.join("src/generated"))
}

/// Writes one Rust file for each package, and `descriptors.bin`, into `out`.
pub(crate) fn generate(krate: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(out)?;
    let contracts: Vec<_> = CONTRACTS.iter().map(|c| krate.join(c)).collect();
    let mut set = Config::new().load_fds(&contracts, &[krate])?;

    configure()
        .btree_map(".")
        .generate_default_stubs(true)
        .skip_debug(SECRET.iter().copied())
        .out_dir(out)
        .compile_fds(set.clone())?;

    strip(&mut set);
    std::fs::write(out.join("descriptors.bin"), prost::Message::encode_to_vec(&set))?;
    Ok(())
}

/// Leaves what is ours and matters on the wire: comments go, and so do Google's files, which differ from one `protoc` to
/// the next.
fn strip(set: &mut FileDescriptorSet) {
    set.file.retain(|file| !file.name().starts_with("google/"));
    for file in &mut set.file {
        file.source_code_info = None;
    }
}
