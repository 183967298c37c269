//! The node's own resolver configuration, which pods inherit. It is read whenever a sandbox is made: DHCP and VPN clients rewrite it.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use polylet_runtime::ResolvConf;

use crate::document::MAX_BYTES;

/// The file could not be read.
#[derive(Debug, thiserror::Error)]
#[error("read resolvConf {}", path.display())]
pub struct ResolvConfError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub cause: io::Error,
}

/// What the file says now; None where no file is configured.
///
/// # Errors
/// It is not there, not a regular file, or of more than [`MAX_BYTES`].
pub fn read(path: &str) -> Result<Option<ResolvConf>, ResolvConfError> {
    if path.is_empty() {
        return Ok(None);
    }
    match bytes(path) {
        Ok(bytes) => Ok(Some(ResolvConf::parse(&String::from_utf8_lossy(&bytes)))),
        Err(cause) => Err(ResolvConfError { path: path.into(), cause }),
    }
}

fn bytes(path: &str) -> io::Result<Vec<u8>> {
    // Without blocking, so that a pipe holds nobody up.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 10 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perform::chain;

    #[test]
    fn what_is_no_such_file_is_named_with_its_cause_and_blocks_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(path("good"), b"nameserver 192.0.2.1\nsearch \xff\n").unwrap();
        assert_eq!(read(&path("good")).unwrap().unwrap().servers, ["192.0.2.1"]);
        assert_eq!(read("").unwrap(), None);
        std::fs::File::create(path("big")).unwrap().set_len(MAX_BYTES as u64 + 1).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        std::fs::create_dir(path("dir")).unwrap();
        for (name, why) in [
            ("gone", "No such file or directory (os error 2)"),
            ("dir", "not a regular file"),
            ("pipe", "not a regular file"),
            ("big", "larger than 10 MiB"),
        ] {
            assert_eq!(chain(&read(&path(name)).unwrap_err()), format!("read resolvConf {}: {why}", path(name)));
        }
    }
}
