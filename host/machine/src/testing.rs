//! What the tests of this crate share.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use polylet_core::pod::{Pod, Source};
use polylet_core::time::Wall;

/// A pod `web` in namespace `default`, UID `uid-1`, with this spec in JSON.
#[track_caller]
pub(crate) fn pod(spec: &str) -> Arc<Pod> {
    let text = format!(r#"{{"metadata":{{"name":"web","namespace":"default","uid":"uid-1"}},"spec":{spec}}}"#);
    let object: k8s_openapi::api::core::v1::Pod = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    Arc::new(Pod::parse(Arc::new(object), Source::Api, Wall(0)).unwrap_or_else(|error| panic!("{error}: {text}")))
}

/// Permissions of a file, with the bits that are set for programs and directories.
pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode() & 0o7777
}

/// Runs a test in a mount namespace of its own, so that the machine's mounts stay as they are however it ends. Needs root.
pub(crate) fn own_mounts(test: fn()) {
    let thread = std::thread::spawn(move || {
        // Deprecated because a thread that leaves its process's table of files can confuse others; this one keeps it.
        #[allow(deprecated)]
        let alone = rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS);
        alone.unwrap_or_else(|error| panic!("this test needs a mount namespace of its own ({error}): run it as root"));
        let private = rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private).expect("make mounts private");
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}
