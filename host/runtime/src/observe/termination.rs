//! What an ended container left: its termination message; and the preStop hook out of its annotations.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use polylet_core::pod::Handler;
use polylet_proto::cri;
use serde_json::Value;

const MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
const MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
const PRE_STOP: &str = "io.kubernetes.container.preStopHandler";
const PORTS: &str = "io.kubernetes.container.ports";

/// Most of a termination message that is kept, in bytes.
const MESSAGE_MAX: u64 = 4096;
/// Most of a log that stands in for one.
const LOG_MAX: u64 = 2048;
/// Likewise, in lines.
const LOG_LINES: usize = 80;

/// The runtime's message, with what the container wrote to its termination message path appended.
pub(super) async fn message(status: &cri::ContainerStatus) -> String {
    let file = status
        .annotations
        .get(MESSAGE_PATH)
        .filter(|path| !path.is_empty())
        .and_then(|path| status.mounts.iter().find(|m| m.container_path == *path))
        .map(|mount| PathBuf::from(&mount.host_path));
    let from_log = status.annotations.get(MESSAGE_POLICY).is_some_and(|p| p == "FallbackToLogsOnError")
        && status.exit_code != 0
        && status.reason != "ContainerCannotRun";
    let log = from_log.then(|| PathBuf::from(&status.log_path));
    let read = tokio::task::spawn_blocking(move || left_behind(file.as_deref(), log.as_deref())).await.unwrap_or_default();
    match (status.message.is_empty(), read.is_empty()) {
        (_, true) => status.message.clone(),
        (true, false) => read,
        (false, false) => format!("{}: {read}", status.message),
    }
}

fn left_behind(file: Option<&Path>, log: Option<&Path>) -> String {
    let written = match file.map(|path| (path, tail(path, MESSAGE_MAX))) {
        Some((_, Ok(text))) => text,
        Some((_, Err(error))) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Some((path, Err(error))) => format!("Error on reading termination log {}: {error}", path.display()),
        None => String::new(),
    };
    if !written.is_empty() {
        return written;
    }
    // CRI lines are longer than what the container wrote: twice as much is read.
    let raw = log.and_then(|path| tail(path, 2 * LOG_MAX).ok()).unwrap_or_default();
    let lines: Vec<&str> = raw.lines().filter_map(text_of).collect();
    let text: String = lines[lines.len().saturating_sub(LOG_LINES)..].iter().flat_map(|l| [l, "\n"]).collect();
    let from = text.len().saturating_sub(LOG_MAX as usize);
    let from = (from..=text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or(text.len());
    text[from..].to_owned()
}

/// A number, or the name of one of the container's ports, which an annotation keeps.
fn port(said: &Value, annotations: &BTreeMap<String, String>) -> Option<u16> {
    let number = |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok());
    let Some(name) = said.as_str() else { return number(said) };
    let ports: Value = serde_json::from_str(annotations.get(PORTS)?).ok()?;
    let named = ports.as_array()?.iter().find(|port| port.get("name").and_then(Value::as_str) == Some(name));
    named.and_then(|port| number(port.get("containerPort")?)).or_else(|| name.parse().ok())
}

/// The text of one CRI log line: `<time> <stream> <tags> <text>`.
fn text_of(line: &str) -> Option<&str> {
    line.splitn(4, ' ').nth(3)
}

fn tail(path: &Path, most: u64) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The preStop hook as the annotation keeps it: what a pod that no source declares any more is still owed.
pub(super) fn pre_stop(annotations: &BTreeMap<String, String>) -> Option<Handler> {
    let handler: Value = serde_json::from_str(annotations.get(PRE_STOP)?).ok()?;
    if let Some(command) = handler.pointer("/exec/command").and_then(Value::as_array) {
        let command = command.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        return Some(Handler::Exec { command });
    }
    if let Some(seconds) = handler.pointer("/sleep/seconds").and_then(Value::as_u64) {
        return Some(Handler::Sleep { duration: Duration::from_secs(seconds) });
    }
    let get = handler.get("httpGet")?;
    let text = |key: &str| get.get(key).and_then(Value::as_str).filter(|t| !t.is_empty()).map(str::to_owned);
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
        pre_stop(&BTreeMap::from([(PRE_STOP.to_owned(), json.to_owned())]))
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
        let kept = BTreeMap::from([(PRE_STOP.to_owned(), named.to_owned()), (PORTS.to_owned(), ports.to_owned())]);
        assert!(matches!(pre_stop(&kept), Some(Handler::HttpGet { port: 8080, .. })), "{:?}", pre_stop(&kept));
        assert_eq!(handler(named), None);
        assert_eq!(handler("not json"), None);
    }

    #[test]
    fn a_message_is_the_end_of_the_file_or_of_the_log() {
        let dir = std::env::temp_dir().join(format!("polylet-termination-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let (file, log) = (dir.join("message"), dir.join("0.log"));
        std::fs::write(&file, "x".repeat(5000) + "end").expect("written");
        std::fs::write(&log, "2026-01-01T00:00:00Z stderr F it broke\n2026-01-01T00:00:01Z stderr F for good\n")
            .expect("written");
        let text = left_behind(Some(&file), Some(&log));
        assert_eq!((text.len(), text.ends_with("xend")), (4096, true));
        std::fs::write(&file, "").expect("written");
        assert_eq!(left_behind(Some(&file), Some(&log)), "it broke\nfor good\n");
        assert_eq!(left_behind(Some(&file), None), "");
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
