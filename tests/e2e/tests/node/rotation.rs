//! Logs that grow are rotated while their containers write to them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use polylet_e2e::Node;
use rustix::process::{Pid, Signal, kill_process};

/// So many lines are printed, in some 20 s.
const LINES: usize = 4000;
/// Files that are kept of one attempt.
const FILES: usize = 4;
/// Bytes of a log that is rotated.
const SIZE: u64 = 10 << 10;

pub(crate) fn no_line_is_lost() {
    let node = Node::without_agent();
    node.append("config.yaml", "containerLogMaxSize: 10Ki\ncontainerLogMaxFiles: 4\ncontainerLogMonitorInterval: 3s\n");
    node.start_agent();
    let script = format!(
        "trap \"exit 0\" TERM; i=0; while [ $i -lt {LINES} ]; do i=$((i + 1)); echo \"line $i of many\"; \
         [ $((i % 20)) -ne 0 ] || sleep 0.1; done; sleep 1000 & wait"
    );
    let pod = node.pod(
        "chatty",
        &format!(
            "\n  terminationGracePeriodSeconds: 1\n  containers:\n  - {{name: main, image: busybox, command: [sh, -c, '{script}']}}"
        ),
    );
    let view = pod.until_runs("main");
    let dir = node.dir().join(format!("logs/pods/default_chatty-e2e_{}/main", view.uid()));
    // Then nothing is written any more, and so nothing is rotated.
    node.until_true("the last line is there, and what is written to is small again", || {
        let small = || std::fs::metadata(dir.join("0.log")).is_ok_and(|meta| meta.len() < SIZE);
        numbers(&files(&dir, "0.log")).last() == Some(&LINES) && small()
    });
    let all = files(&dir, "0.log");
    assert!((3..=FILES).contains(&all.len()), "{:?}", all.keys());
    let printed = numbers(&all);
    assert!(printed[0] > 1, "the oldest lines have gone with their file");
    assert!(printed.is_sorted_by(|one, next| one + 1 == *next), "lines are lost between {:?}", all.keys());
    let old: Vec<&String> = all.keys().filter(|name| *name != "0.log").collect();
    let (newest, compressed) = old.split_last().expect("rotated files");
    assert!(!newest.ends_with(".gz") && compressed.iter().all(|name| name.ends_with(".gz")), "{old:?}");
    assert!(old.iter().all(|name| name.trim_end_matches(".gz").len() == "0.log.20260102-030405".len()), "{old:?}");
    let link = format!("/proc/{}/root/var/log/containers/chatty-e2e_default_main-{}.log", node.env("HOLDER"), view.id("main"));
    assert_eq!(std::fs::read_link(&link).unwrap_or_else(|error| panic!("{link}: {error}")), dir.join("0.log"));

    let kill = || {
        let pid = i32::try_from(pod.process("main").pid).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, Signal::KILL).expect("kill the container's process");
    };
    kill();
    pod.until("it runs again", |view| view.runs("main") && view.restarts("main") == 1);
    node.until_true("it prints into a file of its own", || dir.join("1.log").is_file());
    // Of dead attempts one is kept; with the older one all of its files go.
    kill();
    pod.until("it runs for the third time", |view| view.runs("main") && view.restarts("main") == 2);
    node.until_true("the first attempt's files are gone", || files(&dir, "0.log").is_empty());
    assert!(!files(&dir, "1.log").is_empty());

    // A log that somebody removed is opened anew.
    std::fs::remove_file(dir.join("2.log")).expect("remove the log");
    node.until_true("there is a log again", || dir.join("2.log").is_file());
}

/// Lines of an attempt's files, by name: in the order in which they were printed, but that the newest has the first name.
fn files(dir: &Path, log: &str) -> BTreeMap<String, Vec<String>> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mine = names.filter(|name| name == log || name.starts_with(&format!("{log}.")));
    mine.map(|name| {
        let path = dir.join(&name);
        let text = if name.ends_with(".gz") {
            let unpacked = Command::new("gzip").arg("-dc").arg(path).output().expect("run gzip");
            String::from_utf8_lossy(&unpacked.stdout).into_owned()
        } else {
            // It may have been renamed meanwhile.
            std::fs::read_to_string(path).unwrap_or_default()
        };
        (name, text.lines().map(str::to_owned).collect())
    })
    .collect()
}

/// Numbers of the lines, in the order of the files' ages.
fn numbers(files: &BTreeMap<String, Vec<String>>) -> Vec<usize> {
    let live = files.first_key_value().map(|(_, lines)| lines);
    let lines = files.values().skip(1).chain(live).flatten();
    lines.filter_map(|line| line.split(" line ").nth(1)?.split(' ').next()?.parse().ok()).collect()
}
