//! Makes components of the guests' modules, and checks what they import.
//!
//! ```text
//! polylet-policy-build --out DIR [--unchecked] MODULE.wasm...
//! polylet-policy-build --out DIR --costly COMPONENT.wasm
//! ```
//!
//! A module `polylet_gentle_restart.wasm` becomes `DIR/gentle-restart.wasm`. What has not changed is not written again, so that
//! whoever embeds it is not built again. `--unchecked` lets a component import what it likes, for tests of the node;
//! `--costly` makes of a good component one that takes a compiler long and much memory.

mod component;
mod costly;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

fn main() -> Result<()> {
    let job = Job::parse(std::env::args().skip(1))?;
    fs::create_dir_all(&job.out).with_context(|| format!("cannot make {}", job.out.display()))?;
    for input in &job.inputs {
        let bytes = fs::read(input).with_context(|| format!("cannot read {}", input.display()))?;
        let (name, component) = match job.costly {
            true => ("costly".to_owned(), costly::extend(bytes)),
            false => (name_of(input)?, component::encode(&bytes).with_context(|| format!("{}", input.display()))?),
        };
        let path = job.out.join(format!("{name}.wasm"));
        let shape = component::shape(&component).with_context(|| format!("{}", path.display()))?;
        if !job.unchecked {
            shape.check().with_context(|| format!("{}", path.display()))?;
        }
        if write_if_changed(&path, &component)? {
            println!("{name}: {} bytes, exports {}", component.len(), shape.exports.join(", "));
        }
    }
    Ok(())
}

/// What the arguments ask for.
struct Job {
    out: PathBuf,
    unchecked: bool,
    costly: bool,
    inputs: Vec<PathBuf>,
}

impl Job {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let (mut out, mut unchecked, mut costly, mut inputs) = (None, false, false, Vec::new());
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--out" => out = arguments.next().map(PathBuf::from),
                "--unchecked" => unchecked = true,
                "--costly" => costly = true,
                flag if flag.starts_with('-') => bail!("unknown flag {flag}; there are --out DIR, --unchecked and --costly"),
                input => inputs.push(PathBuf::from(input)),
            }
        }
        let Some(out) = out else { bail!("--out DIR is missing") };
        Ok(Self { out, unchecked, costly, inputs })
    }
}

/// The policy's name: the file's, as cargo makes it of the package's.
fn name_of(module: &Path) -> Result<String> {
    let stem = module.file_stem().and_then(|stem| stem.to_str());
    let stem = stem.with_context(|| format!("{} has no name", module.display()))?;
    Ok(stem.strip_prefix("polylet_").unwrap_or(stem).replace('_', "-"))
}

/// Says whether it has written.
fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<bool> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    // In one move, since a build of the node may be reading.
    let unfinished = path.with_extension("wasm.new");
    fs::write(&unfinished, bytes).with_context(|| format!("cannot write {}", unfinished.display()))?;
    fs::rename(&unfinished, path).with_context(|| format!("cannot move {} into place", unfinished.display()))?;
    Ok(true)
}
