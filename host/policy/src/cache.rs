//! Compiled policies in a directory that only root can write, keyed on the digest of the component and on that of the engine, which
//! holds wasmtime's version and configuration.
//!
//! **Invariant:** machine code is run only if we compiled it: directory and file belong to us, nobody else can write them, and the
//! code is what its own digest says.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use polylet_core::id::PolicyDigest;
use sha2::{Digest as _, Sha256};
use wasmtime::component::Component;

use crate::digest::{hex, hex_of};
use crate::engine::Engine;
use crate::file;

/// Artifacts kept; the ones used least recently go first.
const KEPT: usize = 64;
/// A file that was not finished in this time never will be.
const ABANDONED: Duration = Duration::from_secs(3600);
const CODE: &str = "cwasm";
const SUM: &str = "sum";

/// The directory of compiled policies.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    directory: PathBuf,
}

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The directory or a file in it is not ours alone.
    #[error("{} {why}: code that others can change is not run; make it the agent's own (chown root, chmod go-w)", path.display())]
    Unsafe {
        /// Directory or file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file system failed.
    #[error("{operation} {}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
    /// The artifact does not fit the engine.
    #[error("load the compiled policy {}: {reason}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// What wasmtime says.
        reason: String,
    },
}

impl Cache {
    /// Makes the directory where it is missing, and drops what no engine of this version can use.
    pub(crate) fn open(directory: &Path, engine: &Engine) -> Result<Self, CacheError> {
        let failed = |operation, cause| CacheError::Io { operation, path: directory.into(), cause };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|cause| failed("make the directory", cause))?;
        let directory = directory.canonicalize().map_err(|cause| failed("find the directory", cause))?;
        if let Some((path, why)) = file::others_can_change(&directory).map_err(|cause| failed("look at", cause))? {
            return Err(CacheError::Unsafe { path, why });
        }
        let cache = Self { directory };
        cache.prune(engine);
        Ok(cache)
    }

    /// Whether the compiled component is there, sound or not.
    pub(crate) fn holds(&self, engine: &Engine, digest: &PolicyDigest) -> bool {
        let (code, sum) = self.paths(engine, digest);
        code.exists() && sum.exists()
    }

    /// The compiled component, where it is there and sound. One that is damaged is removed.
    pub(crate) fn find(&self, engine: &Engine, digest: &PolicyDigest) -> Result<Option<Component>, CacheError> {
        let (code, sum) = self.paths(engine, digest);
        let Ok(wanted) = fs::read_to_string(&sum) else { return Ok(None) };
        let failed = |cause| CacheError::Io { operation: "read the compiled policy", path: code.clone(), cause };
        let mut file = match File::open(&code) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let opened = file.metadata().map_err(failed)?;
        file::ours_alone(&opened, false).map_err(|why| CacheError::Unsafe { path: code.clone(), why })?;
        let sound = sum_of(&mut file).map_err(failed)? == wanted.trim();
        // The time of last use, for `prune`: it does not matter if it cannot be set.
        let _ = file.set_modified(SystemTime::now());
        if sound && let Ok(component) = load(engine, &code) {
            return Ok(Some(component));
        }
        tracing::warn!(policy = %digest, file = %code.display(), "compiled policy is damaged: removed, to be compiled again");
        let _ = fs::remove_file(&sum);
        let _ = fs::remove_file(&code);
        Ok(None)
    }

    /// Keeps an artifact and loads it.
    pub(crate) fn put(&self, engine: &Engine, digest: &PolicyDigest, artifact: &[u8]) -> Result<Component, CacheError> {
        let (code, sum) = self.paths(engine, digest);
        // In this order: code without its sum is not there.
        write(&code, artifact)?;
        write(&sum, format!("{}\n", hex(&Sha256::digest(artifact))).as_bytes())?;
        self.prune(engine);
        load(engine, &code)
    }

    fn paths(&self, engine: &Engine, digest: &PolicyDigest) -> (PathBuf, PathBuf) {
        let name = format!("{}-{}", hex_of(digest), engine.digest());
        (self.directory.join(format!("{name}.{CODE}")), self.directory.join(format!("{name}.{SUM}")))
    }

    /// Drops what another engine compiled, what a crash left half written, and what has not been used for longest.
    fn prune(&self, engine: &Engine) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(CODE) if stem.ends_with(engine.digest()) => {
                    let used = entry.metadata().and_then(|found| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
                    files.push((used, path));
                }
                Some(SUM) if stem.ends_with(engine.digest()) => {}
                Some("tmp") if is_being_written(&entry) => {}
                Some(CODE | SUM | "tmp") => drop(fs::remove_file(&path)),
                _ => {}
            }
        }
        files.sort();
        for (_, path) in files.iter().rev().skip(KEPT) {
            let _ = fs::remove_file(path.with_extension(SUM));
            let _ = fs::remove_file(path);
        }
    }
}

/// Another process may be at it.
fn is_being_written(entry: &fs::DirEntry) -> bool {
    let age = entry.metadata().and_then(|found| found.modified()).map(|changed| changed.elapsed().unwrap_or_default());
    age.is_ok_and(|age| age < ABANDONED)
}

fn sum_of(file: &mut File) -> io::Result<String> {
    let (mut sum, mut block) = (Sha256::new(), vec![0; 128 << 10]);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hex(&sum.finalize())),
            read => sum.update(&block[..read]),
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CacheError> {
    let failed = |cause| CacheError::Io { operation: "keep the compiled policy", path: path.into(), cause };
    if let Some(dir) = path.parent() {
        // Made when the cache was opened; somebody may have removed it since.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    }
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)
}

/// The component of an artifact that cannot be kept.
///
/// # Errors
/// What wasmtime says.
#[expect(unsafe_code, reason = "machine code from memory")]
pub(crate) fn from_bytes(engine: &Engine, artifact: &[u8]) -> Result<Component, String> {
    // SAFETY: our own compiler has just made it.
    unsafe { Component::deserialize(engine.wasmtime(), artifact) }.map_err(|error| format!("{error:#}"))
}

#[expect(unsafe_code, reason = "machine code from a file")]
fn load(engine: &Engine, path: &Path) -> Result<Component, CacheError> {
    // SAFETY: the file was written by `put` from what our own compiler made, or its digest has just been found to be the one that
    // `put` wrote; the directory and all above it were found to be writable by nobody else.
    let loaded = unsafe { Component::deserialize_file(engine.wasmtime(), path) };
    loaded.map_err(|error| CacheError::Load { path: path.into(), reason: format!("{error:#}") })
}
