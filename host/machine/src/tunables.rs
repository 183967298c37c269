//! Settings of the kernel that a node needs, for pods to be given more memory than there is and for a machine whose kernel is lost to
//! begin anew. They are the machine's: whoever else runs on it has them too.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

/// Where the kernel has them.
pub const ROOT: &str = "/proc/sys";

/// By the names that `sysctl` has for them.
const NEEDED: [(&str, i64); 6] = [
    ("vm.overcommit_memory", 1),
    ("vm.panic_on_oom", 0),
    ("kernel.panic", 10),
    ("kernel.panic_on_oops", 1),
    ("kernel.keys.root_maxkeys", 1_000_000),
    ("kernel.keys.root_maxbytes", 25_000_000),
];

/// A setting that is not as a node needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// As `sysctl` names it.
    pub name: &'static str,
    /// What it is.
    pub found: i64,
    /// What it has to be.
    pub needed: i64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {} and has to be {}", self.name, self.found, self.needed)
    }
}

/// A setting that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{verb} the kernel's setting {name}")]
pub struct TunableError {
    /// `read` or `set`.
    pub verb: &'static str,
    /// As `sysctl` names it.
    pub name: &'static str,
    /// Why.
    #[source]
    pub cause: io::Error,
}

/// Those that are not as a node needs them; `root` is [`ROOT`] but for tests. Changes nothing.
///
/// # Errors
/// The first that cannot be read.
pub fn differing(root: &Path) -> Result<Vec<Difference>, TunableError> {
    let mut differing = Vec::new();
    for (name, needed) in NEEDED {
        let found = read(root, name).map_err(|cause| TunableError { verb: "read", name, cause })?;
        if found != needed {
            differing.push(Difference { name, found, needed });
        }
    }
    Ok(differing)
}

/// Makes one as a node needs it.
///
/// # Errors
/// The kernel does not take it.
pub fn set(root: &Path, difference: &Difference) -> Result<(), TunableError> {
    let Difference { name, needed, .. } = *difference;
    fs::write(root.join(path(name)), needed.to_string()).map_err(|cause| TunableError { verb: "set", name, cause })
}

fn read(root: &Path, name: &str) -> io::Result<i64> {
    let text = fs::read_to_string(root.join(path(name)))?;
    let text = text.trim();
    text.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("{text:?} is not a number")))
}

fn path(name: &str) -> String {
    name.replace('.', "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let file = root.join(file);
        fs::create_dir_all(file.parent().expect("below the root")).expect("make a directory");
        fs::write(file, text).expect("write a setting");
    }

    #[test]
    fn what_differs_is_named_and_set_and_nothing_else_is_touched() {
        let dir = tempfile::tempdir().expect("make a directory");
        let root = dir.path();
        for (file, text) in [
            ("vm/overcommit_memory", "0\n"),
            ("vm/panic_on_oom", "0\n"),
            ("kernel/panic", "-1\n"),
            ("kernel/panic_on_oops", "1\n"),
            ("kernel/keys/root_maxkeys", "1000000\n"),
            ("kernel/keys/root_maxbytes", "25000000\n"),
        ] {
            write(root, file, text);
        }
        let found = differing(root).expect("read all");
        let said: Vec<String> = found.iter().map(Difference::to_string).collect();
        assert_eq!(said, ["vm.overcommit_memory is 0 and has to be 1", "kernel.panic is -1 and has to be 10"]);
        found.iter().for_each(|difference| set(root, difference).expect("set it"));
        assert_eq!(fs::read_to_string(root.join("kernel/panic")).expect("read"), "10");
        assert_eq!(fs::read_to_string(root.join("kernel/panic_on_oops")).expect("read"), "1\n");
        assert!(differing(root).expect("read all").is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let dir = tempfile::tempdir().expect("make a directory");
        let error = differing(dir.path()).expect_err("there is nothing");
        assert_eq!(error.to_string(), "read the kernel's setting vm.overcommit_memory");
        write(dir.path(), "vm/overcommit_memory", "many\n");
        let error = differing(dir.path()).expect_err("not a number");
        assert_eq!(error.cause.to_string(), "\"many\" is not a number");
    }
}
