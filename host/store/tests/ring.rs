//! The ring of decisions: bounded, in order, surviving, never in the way.

use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use common::{decision, decision_of};
use polylet_core::question::Hook;
use polylet_store::ring::{Follow, Limits};
use polylet_store::{Entry, Line, Ring};

mod common;

fn open(dir: &Path) -> Ring {
    Ring::open(dir, Limits::default())
}

fn parse(lines: &[Line]) -> Vec<Entry> {
    lines.iter().map(|line| Entry::parse(&line.text).unwrap()).collect()
}

fn numbers(ring: &Ring, limit: usize, hook: Option<Hook>) -> Vec<u64> {
    parse(&ring.newest(limit, hook).unwrap()).into_iter().map(|entry| entry.record.number).collect()
}

fn append(ring: &Ring, range: std::ops::RangeInclusive<u64>) {
    for n in range {
        ring.append(Arc::new(decision(n)));
        if n % 500 == 0 {
            ring.flush().unwrap();
        }
    }
}

fn size(dir: &Path) -> u64 {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn a_record_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let ring = open(&dir.path().join("decisions"));
    ring.append(Arc::new(decision(5)));
    let lines = ring.newest(9, None).unwrap();
    assert_eq!(parse(&lines), [Entry { seq: 1, lost: 0, record: decision(5) }]);
    assert!(lines[0].text.starts_with("{\"seq\":1,\"number\":5,") && !lines[0].text.contains('\n'), "{}", lines[0].text);
}

#[test]
fn the_newest_are_read_in_order_over_all_hooks() {
    let dir = tempfile::tempdir().unwrap();
    let ring = open(dir.path());
    for n in 1..=30 {
        ring.append(Arc::new(decision_of(Hook::ALL[n as usize % 3].as_str(), n)));
    }
    assert_eq!(numbers(&ring, 4, None), [27, 28, 29, 30]);
    assert_eq!(numbers(&ring, 3, Some(Hook::ALL[1])), [22, 25, 28]);
    assert_eq!(numbers(&ring, 100, None).len(), 30);
    assert_eq!(numbers(&ring, 100, Some(Hook::Eviction)), [] as [u64; 0]);
    assert_eq!(numbers(&ring, 0, None), [] as [u64; 0]);
}

#[test]
fn it_survives_the_agent_and_a_torn_line() {
    let dir = tempfile::tempdir().unwrap();
    append(&open(dir.path()), 1..=10);
    let segment = dir.path().join("eviction-00000001.jsonl");
    let text = fs::read_to_string(&segment).unwrap();
    // Killed within a write.
    fs::write(&segment, &text[..text.len() - 20]).unwrap();
    let ring = open(dir.path());
    append(&ring, 1..=2);
    let entries = parse(&ring.newest(99, None).unwrap());
    assert_eq!(entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    drop(ring);

    // A line damaged in the middle costs that line.
    let text = fs::read_to_string(&segment).unwrap().replacen("\"seq\":4,", "\"seq\":4;", 1);
    fs::write(&segment, text).unwrap();
    let ring = open(dir.path());
    append(&ring, 3..=3);
    assert_eq!(numbers(&ring, 99, None), [1, 2, 3, 5, 6, 7, 8, 9, 1, 2, 3]);
}

#[test]
fn bytes_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { bytes: 40_000, segments: 4, ..Limits::default() };
    let line = serde_json::to_string(&decision(1)).unwrap().len() as u64 + 20;
    let ring = Ring::open(dir.path(), limits);
    append(&ring, 1..=5000);
    ring.flush().unwrap();
    let kept = numbers(&ring, usize::MAX, None);
    assert!(size(dir.path()) <= limits.bytes, "{}", size(dir.path()));
    assert!(kept.len() as u64 * line > limits.bytes / 2, "{} of {line} bytes are few", kept.len());
    assert_eq!(*kept.last().unwrap(), 5000);
    assert!(kept.windows(2).all(|two| two[1] == two[0] + 1), "without a gap");
    drop(ring);
    // Smaller limits hold from the start.
    let ring = Ring::open(dir.path(), Limits { bytes: 20_000, segments: 2, ..limits });
    ring.flush().unwrap();
    assert!(size(dir.path()) <= 20_000, "{}", size(dir.path()));
    assert_eq!(numbers(&ring, 1, None), [5000]);
}

#[test]
fn records_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let ring = Ring::open(dir.path(), Limits { records: 100, segments: 4, ..Limits::default() });
    append(&ring, 1..=990);
    let kept = numbers(&ring, usize::MAX, None);
    assert!((75..=100).contains(&kept.len()), "{}", kept.len());
    assert_eq!(*kept.last().unwrap(), 990);
}

#[test]
fn many_probes_do_not_push_out_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let ring = Ring::open(dir.path(), Limits { bytes: 20_000, ..Limits::default() });
    ring.append(Arc::new(decision_of("restart", 1)));
    for n in 2..=3000 {
        ring.append(Arc::new(decision_of("probe", n)));
        if n % 500 == 0 {
            ring.flush().unwrap();
        }
    }
    assert_eq!(numbers(&ring, 9, Some(Hook::Restart)), [1]);
}

#[test]
fn a_record_that_is_too_large_is_lost_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let ring = Ring::open(dir.path(), Limits { record: 2000, ..Limits::default() });
    let mut large = decision(1);
    large.pod = "x".repeat(3000);
    ring.append(Arc::new(large.clone()));
    ring.append(Arc::new(large));
    ring.append(Arc::new(decision(3)));
    ring.append(Arc::new(decision(4)));
    let told: Vec<u64> = parse(&ring.newest(9, None).unwrap()).iter().map(|entry| entry.lost).collect();
    assert_eq!((told, ring.lost()), (vec![2, 0], 2));
}

#[test]
fn a_full_queue_never_makes_the_loop_wait() {
    let dir = tempfile::tempdir().unwrap();
    let ring = Ring::open(dir.path(), Limits { waiting: 8, ..Limits::default() });
    // A follower that holds the ring's thread, as a disk that hangs would.
    let gate = Arc::new(Barrier::new(2));
    let held = gate.clone();
    let mut first = true;
    let hold = move |_: &Line| {
        if std::mem::take(&mut first) {
            held.wait();
            held.wait();
        }
        Follow::On
    };
    ring.follow(0, None, hold).unwrap();
    ring.append(Arc::new(decision(1)));
    gate.wait();
    let start = Instant::now();
    append(&ring, 2..=101);
    let took = start.elapsed();
    assert!(took < Duration::from_millis(500), "100 appends took {took:?}");
    assert_eq!(ring.lost(), 92, "eight wait");
    gate.wait();
    ring.flush().unwrap();
    append(&ring, 102..=102);
    let entries = parse(&ring.newest(99, None).unwrap());
    assert_eq!(entries.len(), 10);
    assert_eq!(entries.iter().map(|entry| entry.lost).sum::<u64>(), 92, "told once");
}

#[test]
fn followers_see_every_record_once() {
    let dir = tempfile::tempdir().unwrap();
    let ring = Arc::new(open(dir.path()));
    let writer = {
        let ring = ring.clone();
        std::thread::spawn(move || append(&ring, 1..=2000))
    };
    let mut received = Vec::new();
    for _ in 0..5 {
        let (sender, lines) = channel();
        let backlog = ring.follow(
            usize::MAX,
            None,
            move |line: &Line| {
                if sender.send(line.clone()).is_ok() { Follow::On } else { Follow::Off }
            },
        );
        received.push((backlog.unwrap(), lines));
    }
    writer.join().unwrap();
    ring.flush().unwrap();
    for (mut seen, lines) in received {
        seen.extend(lines.try_iter());
        let seqs: Vec<u64> = seen.iter().map(|line| line.seq).collect();
        assert_eq!(seqs, (1..=2000).collect::<Vec<_>>());
    }
}

#[test]
fn a_follower_of_one_hook_and_one_that_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let ring = open(dir.path());
    let (sender, probes) = channel();
    ring.follow(0, Some(Hook::Probe), move |line: &Line| {
        sender.send(line.hook).unwrap();
        Follow::On
    })
    .unwrap();
    let (sender, one) = channel();
    ring.follow(0, None, move |line: &Line| {
        sender.send(line.seq).unwrap();
        Follow::Off
    })
    .unwrap();
    for hook in ["restart", "probe", "qos", "probe"] {
        ring.append(Arc::new(decision_of(hook, 1)));
    }
    ring.flush().unwrap();
    assert_eq!(probes.try_iter().count(), 2);
    assert_eq!(one.iter().collect::<Vec<_>>(), [1], "and its end of the channel is gone");
}

#[test]
fn without_a_disk_followers_are_served_and_losses_counted() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("decisions"), "a file").unwrap();
    let ring = open(&dir.path().join("decisions"));
    let (sender, lines) = channel();
    ring.follow(0, None, move |line: &Line| if sender.send(line.seq).is_ok() { Follow::On } else { Follow::Off }).unwrap();
    append(&ring, 1..=3);
    ring.flush().unwrap();
    assert_eq!((lines.try_iter().count(), ring.lost()), (3, 3));
    assert_eq!(ring.newest(9, None).unwrap(), []);
}
