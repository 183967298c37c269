//! Rankings against upstream's vectors. A row number is that of the table in the behaviour notes.
#![allow(missing_docs)]

use polylet_upstream::eviction::{FileSystem, Layout, Parts, Row, Starved, rank, usage_of};

fn row(request: u64, usage: u64, priority: i32) -> Row {
    Row { usage: Some(usage), request, priority }
}

/// Pods are called A, B, C in their order. Where upstream leaves a tie, `expected` has the rows' order.
#[track_caller]
fn check(number: u32, starved: Starved, rows: &[Row], expected: &str) {
    let order: Vec<_> = rank(starved, rows).into_iter().map(|index| ["A", "B", "C"][index as usize]).collect();
    assert_eq!(order.join(" "), expected, "row {number}");
}

#[test]
fn memory() {
    let check = |number, rows: &[Row], expected| check(number, Starved::Memory, rows, expected);
    check(1, &[row(0, 100, 0), row(0, 300, 0), row(0, 200, 0)], "B C A");
    check(2, &[row(400, 300, 0), row(100, 150, 0), row(1000, 900, 0)], "B A C");
    check(3, &[row(100, 900, 1000), row(100, 110, 0), row(500, 100, -10)], "B A C");
    check(4, &[row(500, 400, -5), row(500, 499, 0), row(500, 501, 2000)], "C A B");
    check(5, &[row(256, 256, 0), row(256, 257, 0), row(0, 1, 0)], "B C A");
    check(6, &[Row { usage: None, ..row(0, 0, 0) }, row(0, 5000, -100), row(100, 100, 0)], "A B C");
    check(7, &[row(200, 700, 10), row(0, 500, 10), row(600, 1101, 10)], "C A B");
    check(8, &[row(1000, 200, 0), row(300, 100, 0), row(500, 500, 0)], "C B A");
    check(9, &[row(0, 50, 100), row(0, 50, 0), row(0, 50, 50)], "B C A");
    // 10: a static pod is ranked like any other; that it is spared is decided later, and not here.
    check(10, &[row(0, 900, 0), row(100, 50, 0)], "A B");
    // 18: with pod-level resources the request is the pod's own.
    check(18, &[row(300, 250, 0), row(0, 10, 0)], "B A");
}

#[test]
fn process_numbers() {
    let check = |number, rows: &[Row], expected| check(number, Starved::Pids, rows, expected);
    check(11, &[row(0, 10, 0), row(0, 900, 0), row(0, 20, 0)], "B C A");
    check(12, &[row(0, 5000, 100), row(0, 3, 0), row(0, 50, 0)], "C B A");
    // Priority comes before missing statistics, and these before any count.
    check(0, &[row(0, 9, 5), Row { usage: None, ..row(0, 0, 5) }, row(0, 1, 0)], "C B A");
}

/// Pods on disk: requests, priorities and parts of the usage.
fn on_disk(file_system: FileSystem, layout: Layout, pods: &[(u64, i32, Parts)]) -> Vec<Row> {
    pods.iter().map(|&(request, priority, parts)| row(request, usage_of(file_system, layout, parts), priority)).collect()
}

#[test]
fn disk() {
    let check = |number, file_system, layout, pods: &[(u64, i32, Parts)], expected| {
        check(number, Starved::Disk(file_system), &on_disk(file_system, layout, pods), expected);
    };
    let part = |rootfs, logs, volumes| Parts { rootfs, logs, volumes };
    let pods = [(0, 0, part(10, 0, 0)), (500, 0, part(300, 60, 40)), (0, 0, part(0, 0, 200))];
    check(13, FileSystem::Node, Layout::Single, &pods, "C A B");
    let pods = [(0, 0, part(900, 1, 0)), (0, 0, part(0, 5, 50))];
    check(14, FileSystem::Node, Layout::Dedicated, &pods, "B A");
    check(15, FileSystem::Image, Layout::Dedicated, &pods, "A B");
    check(15, FileSystem::Container, Layout::Dedicated, &pods, "A B");
    let pods = [(100, 0, part(7, 7, 7)), (0, 0, part(1, 1, 1)), (0, -5, part(0, 0, 0))];
    check(16, FileSystem::Image, Layout::Split, &pods, "C B A");
}

#[test]
fn parts_that_lie_on_the_short_file_system() {
    let parts = Parts { rootfs: 1, logs: 10, volumes: 100 };
    let table = [(Layout::Single, [111, 111, 111]), (Layout::Dedicated, [110, 1, 1]), (Layout::Split, [111, 0, 111])];
    for (layout, expected) in table {
        let usages = [FileSystem::Node, FileSystem::Image, FileSystem::Container].map(|fs| usage_of(fs, layout, parts));
        assert_eq!(usages, expected, "{layout:?}: nodefs, imagefs, containerfs");
    }
}

#[test]
fn inodes_less_bytes() {
    check(17, Starved::Inodes(FileSystem::Node), &[row(1 << 30, 1000, 0), row(0, 10, 0)], "B A");
}

#[test]
fn what_the_order_of_the_rows_decides() {
    let rows = [row(0, 5, 0); 3];
    for starved in [Starved::Memory, Starved::Disk(FileSystem::Node), Starved::Inodes(FileSystem::Node), Starved::Pids] {
        check(0, starved, &rows, "A B C");
    }
}

#[test]
fn extremes_are_ordered() {
    let rows = [row(u64::MAX, 0, i32::MAX), row(0, u64::MAX, i32::MAX), row(0, u64::MAX, i32::MIN)];
    check(0, Starved::Memory, &rows, "C B A");
    assert!(rank(Starved::Memory, &[]).is_empty());
}

/// The comparator chain as upstream has it, one test after another, against the keys.
#[test]
fn keys_order_as_the_chain_does() {
    use std::cmp::Ordering;
    let chain = |a: &Row, b: &Row| -> Ordering {
        let exceeds = |row: &Row| row.usage.map(|usage| usage > row.request);
        let rank_of = |row: &Row| match exceeds(row) {
            None => 0,
            Some(true) => 1,
            Some(false) => 2,
        };
        let excess = |row: &Row| row.usage.map(|usage| usage as i128 - row.request as i128);
        rank_of(a).cmp(&rank_of(b)).then(a.priority.cmp(&b.priority)).then_with(|| match (excess(a), excess(b)) {
            (None, None) => Ordering::Equal,
            (None, _) => Ordering::Less,
            (_, None) => Ordering::Greater,
            (Some(a), Some(b)) => b.cmp(&a),
        })
    };
    // A small linear congruential generator: the tests take no dependencies either.
    let mut state = 1u64;
    let mut next = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for _ in 0..300 {
        let rows: Vec<Row> = (0..30)
            .map(|_| {
                let usage = if next(6) == 0 { None } else { Some(next(8)) };
                Row { usage, request: next(8), priority: next(4) as i32 - 2 }
            })
            .collect();
        let mut expected: Vec<u32> = (0..30).collect();
        expected.sort_by(|&a, &b| chain(&rows[a as usize], &rows[b as usize]));
        assert_eq!(rank(Starved::Memory, &rows), expected);
    }
}
