//! The segment files of one hook: `<hook>-<number>.jsonl`, the highest number being written.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use polylet_core::question::Hook;

use super::{Head, Limits, Line};

/// Buffered before a write: a burst of records costs a few system calls.
const BUFFER: usize = 64 << 10;

/// Bytes that the ring puts before a record, and the newline after it, at most.
const HEAD: u64 = 64;

/// A failing disk is spoken of once in this time.
const QUIET: Duration = Duration::from_secs(60);

/// The records kept of one hook, oldest segment first.
pub(super) struct Lane {
    dir: PathBuf,
    hook: Hook,
    limits: Limits,
    segments: VecDeque<Segment>,
    /// The file being written, opened with the first record.
    file: Option<File>,
    /// Whole lines that the kernel does not have yet.
    buffer: Vec<u8>,
    /// What is missing if these are lost.
    buffered: Missing,
    complained: Option<Instant>,
}

/// Records that could not be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// Records themselves.
    pub(super) records: u64,
    /// Records lost earlier, of which only these told.
    pub(super) told: u64,
}

/// What is known of one file, counting what the kernel has.
#[derive(Debug)]
struct Segment {
    number: u64,
    bytes: u64,
    records: u64,
    last_seq: Option<u64>,
}

impl Lane {
    /// Finds what earlier agents left. A line that was cut off by a crash is cut off the file.
    pub(super) fn open(dir: &Path, hook: Hook, limits: Limits) -> Self {
        let mut lane = Self {
            dir: dir.to_owned(),
            hook,
            limits,
            segments: VecDeque::new(),
            file: None,
            buffer: Vec::new(),
            buffered: Missing::default(),
            complained: None,
        };
        let mut numbers: Vec<u64> = fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| lane.number_of(&entry.file_name().to_string_lossy()))
            .collect();
        numbers.sort_unstable();
        for number in numbers {
            match recover(&lane.path(number), number, limits.record + HEAD) {
                Ok(segment) => lane.segments.push_back(segment),
                Err(error) => lane.tell("read", &error),
            }
        }
        lane.trim();
        lane
    }

    pub(super) fn hook(&self) -> Hook {
        self.hook
    }

    /// The newest record's place in the order of all.
    pub(super) fn last_seq(&self) -> Option<u64> {
        self.segments.iter().rev().find_map(|segment| segment.last_seq)
    }

    /// Takes a line that tells of `told` records lost earlier. Err: what is lost now, this line or those buffered before it.
    pub(super) fn append(&mut self, line: &Line, told: u64) -> Result<(), Missing> {
        let share = u64::from(self.limits.segments.max(1));
        let size = line.text.len() as u64 + 1;
        let full = self.segments.back().is_none_or(|last| {
            let (bytes, records) = (last.bytes + self.buffer.len() as u64, last.records + self.buffered.records);
            records > 0 && (bytes + size > self.limits.bytes / share || records + 1 > (self.limits.records / share).max(1))
        });
        let mut result = Ok(());
        if full {
            result = self.flush();
            self.begin();
        }
        self.buffer.extend_from_slice(line.text.as_bytes());
        self.buffer.push(b'\n');
        self.buffered.records += 1;
        self.buffered.told += told;
        if let Some(last) = self.segments.back_mut() {
            last.last_seq = Some(line.seq);
        }
        if self.buffer.len() < BUFFER { result } else { result.and(self.flush()) }
    }

    /// Hands what is buffered to the kernel. Err: what is lost; a line is written whole or not at all.
    pub(super) fn flush(&mut self) -> Result<(), Missing> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let (buffer, buffered) = (std::mem::take(&mut self.buffer), std::mem::take(&mut self.buffered));
        let Some(segment) = self.segments.back() else { return Err(buffered) };
        let end = segment.bytes;
        let result = self.writable().and_then(|file| {
            file.write_all(&buffer).inspect_err(|_| {
                // What was written of it goes; where that fails, readers skip the torn line.
                let _ = file.set_len(end).and_then(|()| file.seek(SeekFrom::End(0)));
            })
        });
        match result {
            Ok(()) => {
                if let Some(segment) = self.segments.back_mut() {
                    segment.bytes += buffer.len() as u64;
                    segment.records += buffered.records;
                }
                Ok(())
            }
            Err(error) => {
                self.file = None;
                self.tell("write", &error);
                Err(buffered)
            }
        }
    }

    /// The newest records, in no order; damaged lines are passed over.
    pub(super) fn newest(&self, limit: usize) -> Vec<Line> {
        let mut lines = Vec::new();
        for segment in self.segments.iter().rev() {
            if lines.len() >= limit {
                break;
            }
            // A segment that was removed under us holds nothing.
            let Ok(text) = fs::read(self.path(segment.number)) else { continue };
            let newest = text.split(|byte| *byte == b'\n').rev().filter_map(|line| self.line(line));
            lines.extend(newest.take(limit - lines.len()));
        }
        lines
    }

    fn line(&self, bytes: &[u8]) -> Option<Line> {
        let text = std::str::from_utf8(bytes).ok()?;
        let head: Head = serde_json::from_str(text).ok()?;
        Some(Line { seq: head.seq, hook: self.hook, text: text.into() })
    }

    /// Begins a new segment and removes what is beyond the limits.
    fn begin(&mut self) {
        let number = self.segments.back().map_or(1, |last| last.number + 1);
        let last_seq = self.last_seq();
        self.file = None;
        self.segments.push_back(Segment { number, bytes: 0, records: 0, last_seq });
        self.trim();
    }

    fn trim(&mut self) {
        let beyond = |lane: &Self| {
            let (mut bytes, mut records) = (0, 0);
            for segment in &lane.segments {
                bytes += segment.bytes;
                records += segment.records;
            }
            // The one being written may still grow to its share.
            lane.segments.len() > lane.limits.segments.max(1) as usize
                || bytes > lane.limits.bytes
                || records > lane.limits.records
        };
        while self.segments.len() > 1 && beyond(self) {
            let Some(oldest) = self.segments.pop_front() else { return };
            if let Err(error) = fs::remove_file(self.path(oldest.number)) {
                self.tell("remove", &error);
            }
        }
    }

    fn writable(&mut self) -> io::Result<&mut File> {
        let number = self.segments.back().map_or(1, |last| last.number);
        if self.file.is_some() && !self.path(number).exists() {
            // Somebody has removed it: what is written now must be found again.
            self.file = None;
        }
        if self.file.is_none() {
            fs::create_dir_all(&self.dir)?;
            self.file = Some(File::options().create(true).append(true).mode(0o600).open(self.path(number))?);
        }
        self.file.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{}-{number:08}.jsonl", self.hook.as_str()))
    }

    fn number_of(&self, name: &str) -> Option<u64> {
        name.strip_prefix(self.hook.as_str())?.strip_prefix('-')?.strip_suffix(".jsonl")?.parse().ok()
    }

    fn tell(&mut self, operation: &str, error: &io::Error) {
        if self.complained.is_none_or(|at| at.elapsed() > QUIET) {
            self.complained = Some(Instant::now());
            tracing::warn!(dir = %self.dir.display(), hook = self.hook.as_str(), %error, "{operation} decision records");
        }
    }
}

/// Counts the lines of a segment and cuts off a torn one, with whatever follows.
fn recover(path: &Path, number: u64, longest: u64) -> io::Result<Segment> {
    let file = File::options().read(true).write(true).open(path)?;
    let mut reader = BufReader::new(&file);
    let (mut line, mut last) = (Vec::new(), None);
    let mut segment = Segment { number, bytes: 0, records: 0, last_seq: None };
    while (&mut reader).take(longest).read_until(b'\n', &mut line)? > 0 {
        if line.last() != Some(&b'\n') {
            file.set_len(segment.bytes)?;
            break;
        }
        segment.bytes += line.len() as u64;
        segment.records += 1;
        if let Some(seq) = seq_of(&line) {
            last = Some(seq);
        }
        line.clear();
    }
    segment.last_seq = last;
    Ok(segment)
}

/// Reads no more of a line than its head.
fn seq_of(line: &[u8]) -> Option<u64> {
    let digits = line.strip_prefix(b"{\"seq\":")?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}
