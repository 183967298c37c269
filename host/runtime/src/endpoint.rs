//! Where a runtime listens.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A Unix socket, spelt `unix:///run/containerd/containerd.sock` or as the bare path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint(PathBuf);

impl Endpoint {
    /// The socket's path: absolute.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.0.display())
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let bad = |why| EndpointError { text: text.to_owned(), why };
        let path = match text.split_once("://") {
            Some(("unix", path)) => path,
            Some(_) => return Err(bad("only unix:// sockets are served")),
            None => text.strip_prefix("unix:").unwrap_or(text),
        };
        if path.is_empty() {
            return Err(bad("it names no socket"));
        }
        if !path.starts_with('/') {
            return Err(bad("the socket's path is not absolute"));
        }
        Ok(Self(path.into()))
    }
}

/// An endpoint that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("runtime endpoint {text:?}: {why}; right would be unix:///run/containerd/containerd.sock")]
pub struct EndpointError {
    text: String,
    why: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        let cases = [
            ("unix:///run/containerd/containerd.sock", Ok("/run/containerd/containerd.sock")),
            ("/run/crio/crio.sock", Ok("/run/crio/crio.sock")),
            ("unix:/run/crio/crio.sock", Ok("/run/crio/crio.sock")),
            ("unix://run/crio.sock", Err("not absolute")),
            ("run/crio.sock", Err("not absolute")),
            ("tcp://127.0.0.1:1", Err("only unix://")),
            ("npipe:////./pipe/x", Err("only unix://")),
            ("unix://", Err("names no socket")),
            ("", Err("names no socket")),
        ];
        for (text, expected) in cases {
            match (text.parse::<Endpoint>(), expected) {
                (Ok(endpoint), Ok(path)) => assert_eq!(endpoint.path(), Path::new(path), "{text}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{text}: {error}"),
                (got, expected) => panic!("{text}: {got:?}, expected {expected:?}"),
            }
        }
    }
}
