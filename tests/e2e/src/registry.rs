//! A registry of images on the node's loopback: it gives out what the lab has made, under any name, as the test wants it.
//!
//! Names that begin with `private/` want `ann` and her password, those that begin with `failing/` are answered with an error until they
//! are mended, those that begin with `slow/` wait until they are let go.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::net::{Listening, Network};
use crate::node::{both, lab_script, locked};

/// `ann:open-sesame`, in base64.
pub const ANN: &str = "YW5uOm9wZW4tc2VzYW1l";

/// The registry, while it is listening.
#[derive(Clone, Debug)]
pub struct Registry {
    images: Arc<Images>,
    state: Arc<Mutex<State>>,
    /// What is slow may go on.
    open: watch::Sender<bool>,
}

#[derive(Debug)]
struct Images {
    /// By digest.
    blobs: BTreeMap<String, Vec<u8>>,
    /// Digests of manifests, by tag.
    tags: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
struct State {
    mended: bool,
    /// Requests for manifests, by name.
    asked: BTreeMap<String, usize>,
    /// Names whose requests wait.
    waiting: Vec<String>,
}

/// What is answered.
struct Answer {
    status: &'static str,
    headers: String,
    body: Vec<u8>,
}

impl Network {
    /// Serves busybox at a port, tagged as in the lab.
    ///
    /// # Panics
    /// When the lab has no images.
    pub fn serve_registry(&self, port: u16) -> (Registry, Listening) {
        let (open, _) = watch::channel(false);
        let registry = Registry { images: Arc::new(Images::of_the_lab()), state: Arc::default(), open };
        let served = registry.clone();
        let listening = self.serve(port, move |listener| async move {
            while let Ok((stream, _)) = listener.accept().await {
                let registry = served.clone();
                // Whoever asked may have gone.
                tokio::spawn(async move { drop(registry.speak(stream).await) });
            }
        });
        (registry, listening)
    }
}

impl Registry {
    /// The digest of a tag's manifest.
    ///
    /// # Panics
    /// Where there is no such tag.
    pub fn digest(&self, tag: &str) -> &str {
        &self.images.tags[tag]
    }

    /// How often a manifest of this name was asked for.
    pub fn asked(&self, name: &str) -> usize {
        locked(&self.state).asked.get(name).copied().unwrap_or(0)
    }

    /// Slow names whose manifests are being waited for now.
    pub fn waiting(&self) -> Vec<String> {
        locked(&self.state).waiting.clone()
    }

    /// What fails works from now on.
    pub fn mend(&self) {
        locked(&self.state).mended = true;
    }

    /// Whether what is slow goes on, from now on.
    pub fn let_go(&self, open: bool) {
        self.open.send_replace(open);
    }

    async fn speak(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let authorization = format!("\r\nauthorization: basic {}\r\n", ANN.to_lowercase());
        let is_ann = head.to_lowercase().contains(&authorization);
        let Answer { status, headers, body } = self.answer(path, is_ann).await;
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n", body.len());
        stream.write_all(head.as_bytes()).await?;
        if method != "HEAD" {
            stream.write_all(&body).await?;
        }
        stream.shutdown().await
    }

    async fn answer(&self, path: &str, is_ann: bool) -> Answer {
        let error = |status, headers: &str| Answer { status, headers: headers.to_owned(), body: Vec::new() };
        let path = path.split('?').next().unwrap_or_default();
        let Some(rest) = path.strip_prefix("/v2/").filter(|rest| !rest.is_empty()) else { return error("200 OK", "") };
        let parts: Vec<&str> = rest.rsplitn(3, '/').collect();
        let &[reference, kind, name] = &parts[..] else { return error("404 Not Found", "") };
        if name.starts_with("private/") && !is_ann {
            return error("401 Unauthorized", "www-authenticate: Basic realm=\"e2e\"\r\n");
        }
        let manifest = kind == "manifests";
        if manifest {
            *locked(&self.state).asked.entry(name.to_owned()).or_default() += 1;
        }
        if name.starts_with("failing/") && !locked(&self.state).mended {
            return error("500 Internal Server Error", "");
        }
        if name.starts_with("slow/") && manifest {
            locked(&self.state).waiting.push(name.to_owned());
            let mut open = self.open.subscribe();
            // Only the registry itself could end it.
            drop(open.wait_for(|open| *open).await);
            locked(&self.state).waiting.retain(|waiting| waiting != name);
        }
        let digest = if manifest { self.images.tags.get(reference).map_or(reference, String::as_str) } else { reference };
        let Some(body) = self.images.blobs.get(digest) else { return error("404 Not Found", "") };
        let kind = if manifest { "application/vnd.oci.image.manifest.v1+json" } else { "application/octet-stream" };
        let headers = format!("content-type: {kind}\r\ndocker-content-digest: {digest}\r\n");
        Answer { status: "200 OK", headers, body: body.clone() }
    }
}

impl Images {
    fn of_the_lab() -> Self {
        let made = Command::new(lab_script().with_file_name("images.sh")).output().expect("run tests/lab/images.sh");
        assert!(made.status.success(), "tests/lab/images.sh: {}", both(&made));
        let files = String::from_utf8_lossy(&made.stdout).into_owned();
        let archive = files.lines().find(|file| file.ends_with("/busybox.tar")).expect("the archive of busybox");
        let files = unpacked(&std::fs::read(archive).expect("read the archive of busybox"));
        let index: Value = serde_json::from_slice(&files["index.json"]).expect("the archive's index");
        let tag = |manifest: &Value| {
            let tag = manifest["annotations"]["org.opencontainers.image.ref.name"].as_str().expect("a tag").to_owned();
            (tag, manifest["digest"].as_str().expect("a digest").to_owned())
        };
        let tags = index["manifests"].as_array().into_iter().flatten().map(tag).collect();
        let blob = |(name, bytes): (String, Vec<u8>)| Some((format!("sha256:{}", name.strip_prefix("blobs/sha256/")?), bytes));
        Self { blobs: files.into_iter().filter_map(blob).collect(), tags }
    }
}

/// The regular files of a `ustar` archive, by name.
fn unpacked(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    const BLOCK: usize = 512;
    let mut files = BTreeMap::new();
    let mut at = 0;
    while let Some(header) = archive.get(at..at + BLOCK).filter(|header| header[0] != 0) {
        let text = |from: usize, to: usize| {
            let end = header[from..to].iter().position(|byte| *byte == 0).map_or(to, |zero| from + zero);
            String::from_utf8_lossy(&header[from..end]).into_owned()
        };
        let size = usize::from_str_radix(text(124, 136).trim(), 8).expect("a size in octal digits");
        let begin = at + BLOCK;
        if matches!(header[156], b'0' | 0) {
            files.insert(text(0, 100).trim_start_matches("./").to_owned(), archive[begin..begin + size].to_vec());
        }
        at = begin + size.div_ceil(BLOCK) * BLOCK;
    }
    files
}
