//! Logs written, and what is shown of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// A log with these bytes.
struct Log(tempfile::TempDir);

impl Log {
    fn of(bytes: impl AsRef<[u8]>) -> Self {
        let log = Self(tempfile::tempdir().unwrap());
        fs::write(log.path(), bytes).unwrap();
        log
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("0.log")
    }

    fn append(&self, bytes: impl AsRef<[u8]>) {
        File::options().append(true).open(self.path()).unwrap().write_all(bytes.as_ref()).unwrap();
    }

    fn read(&self, wanted: &Wanted) -> Result<String, ReadError> {
        let mut out = Vec::new();
        LogReader::open(&self.path(), wanted)?.pump(&mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }
}

const LINES: &str = "\
2026-03-01T12:00:00.5Z stdout F one\n\
2026-03-01T12:00:01.123456789Z stderr F two\n\
2026-03-01T12:00:02Z stdout P thr\n\
2026-03-01T12:00:02.1Z stdout P e\n\
2026-03-01T12:00:02.2Z stdout F e\n\
2026-03-01T14:00:03+02:00 stdout F:x  blank\n\
2026-03-01T12:00:04Z stdout F \n";

fn at(text: &str) -> Option<Timestamp> {
    Some(text.parse().unwrap())
}

#[test]
fn what_is_shown_of_a_log() {
    let plain = Wanted::default();
    let cases = [
        ("all of it", plain.clone(), "one\ntwo\nthree\n blank\n\n"),
        (
            "with times, at the beginnings of lines only",
            Wanted { timestamps: true, ..plain.clone() },
            "2026-03-01T12:00:00.500000000Z one\n2026-03-01T12:00:01.123456789Z two\n2026-03-01T12:00:02.000000000Z three\n\
             2026-03-01T14:00:03.000000000+02:00  blank\n2026-03-01T12:00:04.000000000Z \n",
        ),
        // Lines of the file, not of what was printed.
        ("the last two", Wanted { tail: Some(2), ..plain.clone() }, " blank\n\n"),
        ("the last three", Wanted { tail: Some(3), ..plain.clone() }, "e\n blank\n\n"),
        ("the last none", Wanted { tail: Some(0), ..plain.clone() }, ""),
        ("more than there are", Wanted { tail: Some(99), ..plain.clone() }, "one\ntwo\nthree\n blank\n\n"),
        ("not older than", Wanted { since: at("2026-03-01T12:00:02.2Z"), ..plain.clone() }, "e\n blank\n\n"),
        ("the same instant counts", Wanted { since: at("2026-03-01T12:00:04Z"), ..plain.clone() }, "\n"),
        ("of the last two, not older than", Wanted { tail: Some(2), since: at("2026-03-01T12:00:04Z"), ..plain.clone() }, "\n"),
        ("some bytes", Wanted { limit: Some(5), ..plain.clone() }, "one\nt"),
        ("one byte", Wanted { limit: Some(1), ..plain.clone() }, "o"),
        ("bytes of times count", Wanted { limit: Some(10), timestamps: true, ..plain.clone() }, "2026-03-01"),
        ("more bytes than there are", Wanted { limit: Some(1 << 40), ..plain.clone() }, "one\ntwo\nthree\n blank\n\n"),
    ];
    let log = Log::of(LINES);
    for (what, wanted, expected) in cases {
        assert_eq!(log.read(&wanted).unwrap(), expected, "{what}");
    }
    assert_eq!(Log::of("").read(&plain).unwrap(), "");
}

#[test]
fn lines_of_docker_are_read_too() {
    let log = Log::of(
        "{\"log\":\"a\\n\",\"stream\":\"stdout\",\"time\":\"2026-03-01T12:00:00.1Z\"}\n\
         {\"log\":\"b\",\"stream\":\"stderr\",\"time\":\"2026-03-01T12:00:01Z\"}\n\
         {\"log\":\n\
         {\"log\":\"c\\n\",\"stream\":\"stdout\",\"time\":\"2026-03-01T12:00:02Z\"}",
    );
    assert_eq!(log.read(&Wanted::default()).unwrap(), "a\nbc\n");
    let timed = log.read(&Wanted { timestamps: true, tail: Some(2), ..Wanted::default() }).unwrap();
    assert_eq!(timed, "2026-03-01T12:00:01.000000000Z bc\n");
}

#[test]
fn bad_lines_among_good_ones_are_passed_over_and_a_bad_beginning_is_told() {
    let good = "2026-03-01T12:00:00Z stdout F good\n";
    for bad in [
        "nonsense\n".to_owned(),
        "2026-03-01T12:00:00Z stdin F no such stream\n".to_owned(),
        "yesterday stdout F no such time\n".to_owned(),
        "2026-03-01T12:00:00Z stdout F\n".to_owned(),
        "\n".to_owned(),
        "2026-03-01T12:00:00Z stdout \n".to_owned(),
        format!("{}\n", "x".repeat(3 * BLOCK)),
        "{\"log\": 7}\n".to_owned(),
        "\0\u{1}\u{2}  \n".to_owned(),
    ] {
        let log = Log::of(format!("{good}{bad}{good}"));
        assert_eq!(log.read(&Wanted::default()).unwrap(), "good\ngood\n", "{bad:.40?}");
        let error = Log::of(format!("{bad}{good}")).read(&Wanted::default()).unwrap_err();
        assert!(matches!(&error, ReadError::Format { line, .. } if line.len() <= 80), "{bad:.40?}: {error}");
    }
    // Bytes that are no text are passed on as they are.
    let mut log = good.as_bytes().to_vec();
    log.extend_from_slice(b"2026-03-01T12:00:00Z stdout F \xff\xfe\0\x1b\n");
    let log = Log::of(log);
    let mut out = Vec::new();
    LogReader::open(&log.path(), &Wanted::default()).unwrap().pump(&mut out).unwrap();
    assert_eq!(out, b"good\n\xff\xfe\0\x1b\n");
}

#[test]
fn a_last_line_without_an_end_counts() {
    let log = Log::of("2026-03-01T12:00:00Z stdout F whole\n2026-03-01T12:00:01Z stdout F hal");
    assert_eq!(log.read(&Wanted::default()).unwrap(), "whole\nhal");
    assert_eq!(log.read(&Wanted { tail: Some(1), ..Wanted::default() }).unwrap(), "whole\n");
    assert_eq!(log.read(&Wanted { tail: Some(0), ..Wanted::default() }).unwrap(), "");
    assert_eq!(Log::of("2026-03-01T12:00:00Z stdout F a\n2026-03-01T1").read(&Wanted::default()).unwrap(), "a\n");
}

/// Counts, and keeps nothing.
#[derive(Default)]
struct Count {
    bytes: usize,
    most_at_once: usize,
}

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        self.most_at_once = self.most_at_once.max(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_line_of_many_megabytes_passes_in_pieces() {
    let long = 40 << 20;
    let mut text = b"2026-03-01T12:00:00Z stdout F ".to_vec();
    text.resize(text.len() + long, b'x');
    text.extend_from_slice(b"\n2026-03-01T12:00:01Z stdout F last\n");
    let log = Log::of(&text);
    drop(text);
    let mut count = Count::default();
    let mut reader = LogReader::open(&log.path(), &Wanted::default()).unwrap();
    assert_eq!(reader.pump(&mut count).unwrap(), Pumped::End);
    assert_eq!(count.bytes, long + "\nlast\n".len());
    assert!(count.most_at_once <= BLOCK, "{}", count.most_at_once);
    assert_eq!(log.read(&Wanted { tail: Some(1), ..Wanted::default() }).unwrap(), "last\n");
    // What never becomes a line of Docker's is not kept either.
    let json = Log::of(
        [b"{\"log\":\"a\\n\",\"stream\":\"stdout\",\"time\":\"2026-03-01T12:00:00Z\"}\n{".as_slice(), &vec![b'"'; 5 << 20]]
            .concat(),
    );
    let mut reader = LogReader::open(&json.path(), &Wanted::default()).unwrap();
    let mut count = Count::default();
    reader.pump(&mut count).unwrap();
    assert_eq!(count.bytes, 2);
    assert!(matches!(&reader.lines.state, State::Skip | State::Head(_)), "{:?}", reader.lines.state);
}

#[test]
fn whatever_the_pieces_are_that_it_is_read_in_the_text_is_the_same() {
    for size in 1..LINES.len() {
        let mut lines = Lines {
            since: None,
            timestamps: true,
            bytes_left: None,
            entries_left: None,
            state: State::Head(Vec::new()),
            begun: false,
            at_line_start: true,
        };
        let mut out = Vec::new();
        for piece in LINES.as_bytes().chunks(size) {
            assert!(matches!(lines.feed(piece, &mut out), Ok(ControlFlow::Continue(()))), "{size}");
        }
        let expected = Log::of(LINES).read(&Wanted { timestamps: true, ..Wanted::default() }).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{size}");
    }
}

#[test]
fn a_log_is_followed_over_growth_rotation_and_cutting() {
    let line = |text: &str| format!("2026-03-01T12:00:00Z stdout F {text}\n");
    let log = Log::of(line("one"));
    let mut reader = LogReader::open(&log.path(), &Wanted { follow: true, tail: Some(5), ..Wanted::default() }).unwrap();
    reader.settle = Duration::ZERO;
    let mut more = |expected: &str| {
        let mut out = Vec::new();
        assert_eq!(reader.pump(&mut out).unwrap(), Pumped::End);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    };
    more("one\n");
    more("");
    log.append("2026-03-01T12:00:00Z std");
    more("");
    log.append("out F two\n");
    more("two\n");

    // The last words go to the old file, the next ones to the new one.
    log.append(line("three"));
    let rotated = log.path().with_extension("log.20260301-120000");
    fs::rename(log.path(), &rotated).unwrap();
    more("three\n");
    File::options().append(true).open(&rotated).unwrap().write_all(line("four").as_bytes()).unwrap();
    fs::write(log.path(), line("five")).unwrap();
    more("four\nfive\n");

    fs::write(log.path(), "").unwrap();
    more("");
    log.append(line("six"));
    more("six\n");
    fs::remove_file(log.path()).unwrap();
    more("");
}

#[test]
fn what_is_written_late_to_a_replaced_file_comes_before_the_next_file() {
    let line = |text: &str| format!("2026-03-01T12:00:00Z stdout F {text}\n");
    let log = Log::of(line("one"));
    let mut reader = LogReader::open(&log.path(), &Wanted { follow: true, ..Wanted::default() }).unwrap();
    let more = |reader: &mut LogReader| {
        let mut out = Vec::new();
        assert_eq!(reader.pump(&mut out).unwrap(), Pumped::End);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(more(&mut reader), "one\n");
    let rotated = log.path().with_extension("log.20260301-120000");
    fs::rename(log.path(), &rotated).unwrap();
    fs::write(log.path(), line("four")).unwrap();
    assert_eq!((more(&mut reader), reader.is_between_files()), (String::new(), true));
    for text in ["two", "three"] {
        File::options().append(true).open(&rotated).unwrap().write_all(line(text).as_bytes()).unwrap();
        reader.settle = Duration::ZERO;
        assert_eq!((more(&mut reader), reader.is_between_files()), (format!("{text}\n"), true), "it grew just now");
    }
    assert_eq!((more(&mut reader), reader.is_between_files()), ("four\n".to_owned(), false));
}

#[test]
fn following_ends_where_enough_has_been_shown() {
    let log = Log::of(LINES);
    let wanted = Wanted { follow: true, limit: Some(4), ..Wanted::default() };
    let mut reader = LogReader::open(&log.path(), &wanted).unwrap();
    let mut out = Vec::new();
    assert_eq!(reader.pump(&mut out).unwrap(), Pumped::Enough);
    assert_eq!(reader.pump(&mut out).unwrap(), Pumped::Enough);
    assert_eq!(out, b"one\n");
}

#[test]
fn what_is_no_file_is_refused() {
    let log = Log::of("");
    let error = LogReader::open(log.0.path(), &Wanted::default()).unwrap_err();
    assert!(error.to_string().starts_with("read "), "{error}");
    let error = LogReader::open(&log.path().join("x"), &Wanted::default()).unwrap_err();
    assert!(error.to_string().starts_with("open "), "{error}");
}

#[test]
fn a_pipe_that_takes_the_place_of_a_log_holds_nobody_up() {
    let log = Log::of(LINES);
    let (path, spare) = (log.path(), log.0.path().join("spare"));
    let pipe = log.0.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    fs::write(&spare, LINES).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let over = done.clone();
    let target = path.clone();
    let swapping = std::thread::spawn(move || {
        while !over.load(Ordering::SeqCst) {
            for other in [&pipe, &spare] {
                let link = target.with_extension("link");
                fs::hard_link(other, &link).unwrap();
                fs::rename(&link, &target).unwrap();
            }
        }
    });
    let (told, opened) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for _ in 0..20_000 {
            match LogReader::open(&path, &Wanted::default()) {
                Ok(_) => {}
                Err(error) => assert!(error.to_string().starts_with("read "), "{error}"),
            }
        }
        told.send(()).unwrap();
    });
    let opened = opened.recv_timeout(Duration::from_secs(60));
    done.store(true, Ordering::SeqCst);
    swapping.join().unwrap();
    opened.expect("an open waits for a writer");
}
