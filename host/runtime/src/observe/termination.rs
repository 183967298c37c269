//! What an ended container left: its termination message; and the preStop hook out of its annotations.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use polylet_core::pod::Handler;
use polylet_proto::cri;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde_json::Value;

use crate::key;

/// Most of a termination message that is kept, in bytes.
const MESSAGE_MAX: u64 = 4096;
/// Most of what a container wrote to its log that stands in for one, in bytes.
const LOG_MAX: usize = 2048;
/// Likewise, in lines of the log.
const LOG_LINES: usize = 80;
/// What is read of a log for that: the texts, what stands before each of them (some 50 bytes), and one more line of the length at
/// which runtimes break them.
const LOG_WINDOW: u64 = LOG_MAX as u64 + (LOG_LINES as u64 + 1) * 128 + (16 << 10);

/// The runtime's message, with what the container wrote to its termination message path appended.
pub(super) async fn message(status: &cri::ContainerStatus) -> String {
    let file = status
        .annotations
        .get(key::MESSAGE_PATH)
        .filter(|path| !path.is_empty())
        .and_then(|path| status.mounts.iter().find(|m| m.container_path == *path))
        .map(|mount| PathBuf::from(&mount.host_path));
    let from_log = status.annotations.get(key::MESSAGE_POLICY).is_some_and(|p| p == "FallbackToLogsOnError")
        && status.exit_code != 0
        && status.reason != "ContainerCannotRun";
    let log = from_log.then(|| PathBuf::from(&status.log_path));
    let uid = status.labels.get(key::POD_UID).cloned().unwrap_or_default();
    let read = tokio::task::spawn_blocking(move || left_behind(file.as_deref(), &uid, log.as_deref())).await.unwrap_or_default();
    match (status.message.is_empty(), read.is_empty()) {
        (_, true) => status.message.clone(),
        (true, false) => read,
        (false, false) => format!("{}: {read}", status.message),
    }
}

/// `uid`: the pod's.
fn left_behind(file: Option<&Path>, uid: &str, log: Option<&Path>) -> String {
    let written = match file.map(|path| (path, written(path, uid))) {
        Some((_, Ok(bytes))) => String::from_utf8_lossy(&bytes).into_owned(),
        Some((_, Err(error))) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Some((path, Err(error))) => format!("Error on reading termination log {}: {error}", path.display()),
        None => String::new(),
    };
    if !written.is_empty() {
        return written;
    }
    let (raw, whole) = log.and_then(|path| log_tail(path).ok()).unwrap_or_default();
    end_of_log(&raw, whole)
}

/// The end of what a container wrote, out of the end of its log. `whole`: nothing of the log is missing.
fn end_of_log(raw: &[u8], whole: bool) -> String {
    let lines: Vec<&[u8]> = raw.split_inclusive(|byte| *byte == b'\n').collect();
    let first = lines.len().saturating_sub(LOG_LINES);
    let mut text: Vec<u8> = Vec::new();
    for (number, line) in lines.iter().enumerate().skip(first) {
        match text_of(line) {
            Some(written) => text.extend_from_slice(written),
            // The end of a line so long that its beginning was not read: it gives its last bytes, which are text for sure.
            None if number == 0 && !whole => text.extend_from_slice(line),
            None => {}
        }
    }
    let mut end = &text[text.len().saturating_sub(LOG_MAX)..];
    if end.len() < text.len() {
        // Not the rest of a character.
        let rest = end.iter().take(3).take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count();
        end = &end[rest..];
    }
    String::from_utf8_lossy(end).into_owned()
}

/// A number, or the name of one of the container's ports, which an annotation keeps.
fn port(said: &Value, annotations: &BTreeMap<String, String>) -> Option<u16> {
    let number = |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok());
    let Some(name) = said.as_str() else { return number(said) };
    let ports: Value = serde_json::from_str(annotations.get(key::PORTS)?).ok()?;
    let named = ports.as_array()?.iter().find(|port| port.get("name").and_then(Value::as_str) == Some(name));
    named.and_then(|port| number(port.get("containerPort")?)).or_else(|| name.parse().ok())
}

/// The text of one CRI log line, `<time> <stream> <tags> <text>`, with its end of line; without it where the tag `P` says that the
/// next line goes on with it. None where it is no such line.
fn text_of(line: &[u8]) -> Option<&[u8]> {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let (_time, stream, tags, text) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let partial = match tags.split(|byte| *byte == b':').next()? {
        b"P" => true,
        b"F" => false,
        _ => return None,
    };
    let text = if partial { text.strip_suffix(b"\n").unwrap_or(text) } else { text };
    matches!(stream, b"stdout" | b"stderr").then_some(text)
}

/// The end of what a container wrote to its termination message path; empty where no plain file stands there.
///
/// Where the spec puts a volume at that path, containers can make what they like of it: a pipe that nobody writes to, a device that
/// does something when it is opened, a link to a file of the node. So it is looked at before it is opened, and no link is followed.
fn written(path: &Path, uid: &str) -> io::Result<Vec<u8>> {
    let (base, rest) = reachable(path, uid);
    let base: OwnedFd = rustix::fs::openat(CWD, base, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut found = base;
    // Step by step: a link on the way is no directory, and one at its end no regular file.
    for part in rest {
        if part == ".." {
            return Ok(Vec::new());
        }
        found = match rustix::fs::openat(&found, part, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOTDIR) => return Ok(Vec::new()),
            next => next?,
        };
    }
    match FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(Errno::ISDIR.into()),
        _ => return Ok(Vec::new()),
    }
    let same = format!("/proc/self/fd/{}", found.as_raw_fd());
    Ok(tail(open(Path::new(&same))?, MESSAGE_MAX)?.0)
}

/// A path in two parts, of which containers can make links only in the second: what stands in the pod's own directory, or anywhere.
/// The directory may well be reached by a link of the administrator's. Only who writes a static pod's manifest, and may name any path of
/// the node there, knows a UID before the volumes are: nobody else's can pretend to be it.
fn reachable<'a>(path: &'a Path, uid: &str) -> (&'a Path, &'a Path) {
    let of_pod = Path::new("pods").join(uid);
    let base = path.ancestors().skip(1).filter(|_| !uid.is_empty()).filter(|base| base.ends_with(&of_pod)).last();
    let base = base.unwrap_or(Path::new("/"));
    (base, path.strip_prefix(base).unwrap_or(path))
}

/// The end of a log, and whether it is all of it. Logs are the runtime's to write; with some they are links.
fn log_tail(path: &Path) -> io::Result<(Vec<u8>, bool)> {
    let file = open(path)?;
    if file.metadata()?.is_file() { tail(file, LOG_WINDOW) } else { Err(io::Error::other("not a regular file")) }
}

/// Without blocking, so that neither a pipe nor a lease holds anybody up.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
}

/// The last bytes of a file, and whether they are all of it.
fn tail(mut file: File, most: u64) -> io::Result<(Vec<u8>, bool)> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok((bytes, length <= most))
}

/// The preStop hook as the annotation keeps it: what a pod that no source declares any more is still owed.
pub(super) fn pre_stop(annotations: &BTreeMap<String, String>) -> Option<Handler> {
    let handler: Value = serde_json::from_str(annotations.get(key::PRE_STOP)?).ok()?;
    if let Some(command) = handler.pointer("/exec/command").and_then(Value::as_array) {
        let command = command.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        return Some(Handler::Exec { command });
    }
    if let Some(seconds) = handler.pointer("/sleep/seconds").and_then(Value::as_u64) {
        return Some(Handler::Sleep { duration: Duration::from_secs(seconds) });
    }
    let get = handler.get("httpGet")?;
    let text = |field: &str| get.get(field).and_then(Value::as_str).filter(|t| !t.is_empty()).map(str::to_owned);
    let headers = get.get("httpHeaders").and_then(Value::as_array).into_iter().flatten();
    Some(Handler::HttpGet {
        host: text("host"),
        port: port(get.get("port")?, annotations)?,
        path: text("path").unwrap_or_else(|| "/".into()),
        tls: text("scheme").as_deref() == Some("HTTPS"),
        headers: headers
            .filter_map(|h| Some((h.get("name")?.as_str()?.to_owned(), h.get("value")?.as_str()?.to_owned())))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handler(json: &str) -> Option<Handler> {
        pre_stop(&BTreeMap::from([(key::PRE_STOP.to_owned(), json.to_owned())]))
    }

    #[test]
    fn hooks_come_back_out_of_their_annotation() {
        assert_eq!(
            handler(r#"{"exec":{"command":["sh","-c","true"]}}"#),
            Some(Handler::Exec { command: vec!["sh".into(), "-c".into(), "true".into()] })
        );
        assert_eq!(handler(r#"{"sleep":{"seconds":3}}"#), Some(Handler::Sleep { duration: Duration::from_secs(3) }));
        let get = handler(r#"{"httpGet":{"port":80,"path":"/bye","scheme":"HTTP"}}"#);
        assert!(matches!(get, Some(Handler::HttpGet { port: 80, .. })), "{get:?}");
        let named = r#"{"httpGet":{"port":"web","path":"/bye"}}"#;
        let ports = r#"[{"name":"web","containerPort":8080,"protocol":"TCP"}]"#;
        let kept = BTreeMap::from([(key::PRE_STOP.to_owned(), named.to_owned()), (key::PORTS.to_owned(), ports.to_owned())]);
        assert!(matches!(pre_stop(&kept), Some(Handler::HttpGet { port: 8080, .. })), "{:?}", pre_stop(&kept));
        assert_eq!(handler(named), None);
        assert_eq!(handler("not json"), None);
    }

    const UID: &str = "6e0f4d5e";

    /// A directory that no link leads to.
    fn directory() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().canonicalize().expect("its path");
        (dir, path)
    }

    /// What a container planted at the path is no message, and holds nobody up.
    #[test]
    fn only_a_plain_file_that_no_link_leads_to_has_a_message() {
        let (_kept, dir) = directory();
        let own = dir.join("kubelet/pods").join(UID);
        std::fs::create_dir_all(own.join("containers/app")).expect("a directory");
        std::fs::write(own.join("containers/app/0a"), "its own").expect("written");
        std::fs::write(dir.join("secret"), "the node's").expect("written");
        let link = |to: &Path, at: &Path| std::os::unix::fs::symlink(to, at).expect("a link");
        link(&dir.join("kubelet"), &dir.join("var"));
        link(&dir.join("secret"), &dir.join("link"));
        link(&dir, &dir.join("up"));
        link(&dir.join("secret"), &own.join("containers/app/link"));
        link(&dir, &own.join("up"));
        let pipe = |at: &Path| rustix::fs::mknodat(CWD, at, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        pipe(&dir.join("pipe"));
        pipe(&own.join("containers/app/pipe"));
        let _listener = std::os::unix::net::UnixListener::bind(dir.join("socket")).expect("a socket");
        let check = |path: &str, expected: &str| {
            let path = dir.join(path);
            let (out, said) = std::sync::mpsc::channel();
            let of = path.clone();
            std::thread::spawn(move || out.send((left_behind(Some(&of), UID, None), left_behind(None, UID, Some(&of)))));
            let (message, _) = said.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|_| panic!("{} blocks", path.display()));
            assert_eq!(message, expected, "{}", path.display());
        };
        check("secret", "the node's");
        for planted in ["pipe", "socket", "link", "up/secret", "none"] {
            check(planted, "");
        }
        // The root directory itself may be a link, and what is in it may not.
        for root in ["kubelet", "var"] {
            let at = |name: &str| format!("{root}/pods/{UID}/{name}");
            check(&at("containers/app/0a"), "its own");
            for planted in ["containers/app/link", "containers/app/pipe", "up/secret"] {
                check(&at(planted), "");
            }
        }
        let directory = dir.join("kubelet");
        let text = format!("Error on reading termination log {}: Is a directory (os error 21)", directory.display());
        check("kubelet", &text);
    }

    #[test]
    fn a_message_is_the_end_of_the_file_or_of_the_log() {
        let (_kept, dir) = directory();
        let (file, log) = (dir.join("message"), dir.join("0.log"));
        std::fs::write(&file, "x".repeat(5000) + "end").expect("written");
        std::fs::write(&log, "2026-01-01T00:00:00Z stderr F it broke\n2026-01-01T00:00:01Z stderr F for good\n")
            .expect("written");
        let text = left_behind(Some(&file), UID, Some(&log));
        assert_eq!((text.len(), text.ends_with("xend")), (4096, true));
        std::fs::write(&file, "").expect("written");
        assert_eq!(left_behind(Some(&file), UID, Some(&log)), "it broke\nfor good\n");
        assert_eq!(left_behind(Some(&file), UID, None), "");
        // Bounds are those of the text: what the runtime writes before each line does not count.
        let long: String = (0..120).map(|n| line("F", &format!("line {n:03} {}\n", "x".repeat(15)))).collect();
        std::fs::write(&log, long).expect("written");
        let text = left_behind(None, UID, Some(&log));
        assert_eq!((text.len(), text.lines().count()), (80 * 25, 80));
        assert!(text.starts_with("line 040 ") && text.ends_with("x\n"), "{text}");
    }

    fn line(tag: &str, text: &str) -> String {
        format!("2026-01-01T00:00:00.123456789+01:00 stderr {tag} {text}")
    }

    #[test]
    fn the_end_of_a_log_is_at_most_2048_bytes_and_80_lines_of_it() {
        let log = |lines: &[(&str, &str)]| -> String { lines.iter().map(|(tag, text)| line(tag, text)).collect() };
        let check = |log: &str, expected: &str| assert_eq!(end_of_log(log.as_bytes(), true), expected);
        check("", "");
        check(&log(&[("P", "one \n"), ("P:x", "and\n"), ("F", " the same\n"), ("F", "\n")]), "one and the same\n\n");
        check(&log(&[("F", "whole\n"), ("F", "still being writ")]), "whole\nstill being writ");
        check(&format!("no such line\n{}{}", log(&[("F", "a b  c\n")]), "t nowhere F x\nt stdout Q x\n"), "a b  c\n");
        // 81 lines of the log, of which the first is beyond; 3003 bytes, of which the first 955 are; a character is not cut.
        let many: Vec<(&str, &str)> = std::iter::once(("P", "beyond\n")).chain([("P", "x\n"); 80]).collect();
        check(&log(&many), &"x".repeat(80));
        let wide = format!("{}\n", "ä".repeat(750));
        let odd = format!("{}x\n", "ä".repeat(750));
        let end = end_of_log(log(&[("F", &wide), ("F", &odd)]).as_bytes(), true);
        assert_eq!((end.len(), end.chars().next()), (2047, Some('ä')));
        // Longer than any runtime breaks lines at, so that its beginning is not there: its end is.
        let endless = format!("{}\n", "z".repeat(40_000));
        assert_eq!(end_of_log(endless.as_bytes(), false), format!("{}\n", "z".repeat(2047)));
    }

    /// What is read is enough for any log whose lines are at most as long as runtimes make them.
    #[test]
    fn the_window_holds_all_that_counts() {
        for length in [0, 1, 25, 26, 100, 2000, 2047, 2048, 5000, 16 << 10] {
            let one = line("F", &format!("{}\n", "y".repeat(length)));
            let all = one.repeat(200);
            let from = all.len().saturating_sub(LOG_WINDOW as usize);
            assert_eq!(end_of_log(&all.as_bytes()[from..], from == 0), end_of_log(all.as_bytes(), true), "{length}");
        }
    }
}
