//! What a container has printed, out of its log: lines of the CRI (`<time> <stream> <tags> <text>`), or Docker's in JSON.
//!
//! Only the current file is read; files that were rotated away are nobody's history any more, as for the kubelet.
//!
//! **Invariant:** memory grows neither with a line nor with the file: what is read is passed on in pieces.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{LogError, failed};

/// Bytes read at once.
const BLOCK: usize = 64 << 10;
/// Time, stream and tags of a line together: whatever is longer is no such line.
const HEAD_MAX: usize = 256;
/// The longest line of JSON: Docker cuts what it writes at 16 KiB, before characters are escaped.
const JSON_MAX: usize = 1 << 20;

/// A file that has been replaced is left when it has not grown for so long.
pub const SETTLE: Duration = Duration::from_secs(1);

/// Which part of a log, and how it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Begin so many lines of the file before its end; without `follow`, show so many at most.
    pub tail: Option<u64>,
    /// Leave out what is older.
    pub since: Option<Timestamp>,
    /// Put its time before each line: RFC 3339 with nine digits.
    pub timestamps: bool,
    /// Stop after so many bytes, in the middle of a line too.
    pub limit: Option<u64>,
    /// More may come: the file may grow, and another may take its place.
    pub follow: bool,
}

/// How far a log has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pumped {
    /// To the end of what is there.
    End,
    /// As far as was asked for: nothing more comes.
    Enough,
}

/// A log that cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file system refused.
    #[error(transparent)]
    File(#[from] LogError),
    /// Neither of the two formats.
    #[error("unsupported log format in {}: the first line begins with {line:?}", path.display())]
    Format {
        /// The log.
        path: PathBuf,
        /// The beginning of its first line.
        line: String,
    },
    /// Nobody takes the output any more.
    #[error("write what was read of a log")]
    Output(#[source] io::Error),
}

/// A log that is being read.
#[derive(Debug)]
pub struct LogReader {
    path: PathBuf,
    file: File,
    position: u64,
    block: Vec<u8>,
    follow: bool,
    /// Another file stands at the path: when the old one grew last, and to what.
    left: Option<(Instant, u64)>,
    settle: Duration,
    lines: Lines,
}

impl LogReader {
    /// Opens a log and goes to where reading begins.
    ///
    /// # Errors
    /// The file is not there, is no regular file, or cannot be read.
    pub fn open(path: &Path, wanted: &Wanted) -> Result<Self, LogError> {
        let mut file = open(path)?;
        let position = match wanted.tail {
            Some(lines) => tail_start(&file, lines).map_err(failed("read", path))?,
            None => 0,
        };
        file.seek(SeekFrom::Start(position)).map_err(failed("seek in", path))?;
        let lines = Lines {
            since: wanted.since,
            timestamps: wanted.timestamps,
            bytes_left: wanted.limit,
            entries_left: wanted.tail.filter(|_| !wanted.follow),
            state: State::Head(Vec::new()),
            begun: false,
            at_line_start: true,
        };
        let (path, block, follow) = (path.to_owned(), vec![0; BLOCK], wanted.follow);
        Ok(Self { path, file, position, block, follow, left: None, settle: SETTLE, lines })
    }

    /// Another file has taken the place of the one that is read, and is read next unless that one still grows.
    pub fn is_between_files(&self) -> bool {
        self.left.is_some()
    }

    /// Passes on whatever has not been passed on yet. When following, a file that has taken the place of the one that was read is read
    /// after it, once that one has not grown for a second.
    ///
    /// # Errors
    /// [`ReadError`]; nothing can be read on after one.
    pub fn pump(&mut self, out: &mut impl Write) -> Result<Pumped, ReadError> {
        loop {
            if self.read_on(out)? == Pumped::Enough {
                return Ok(Pumped::Enough);
            }
            if !self.follow {
                return self.lines.finish(out).map_err(|error| error.at(&self.path));
            }
            let Some(next) = self.successor()? else {
                self.left = None;
                return Ok(Pumped::End);
            };
            // The runtime writes out to the old file what it had taken over by then, beside the new one.
            let (since, length) = *self.left.get_or_insert((Instant::now(), self.position));
            if self.read_on(out)? == Pumped::Enough {
                return Ok(Pumped::Enough);
            }
            if self.position != length {
                self.left = Some((Instant::now(), self.position));
            }
            if self.position != length || since.elapsed() < self.settle {
                return Ok(Pumped::End);
            }
            (self.file, self.position, self.left) = (next, 0, None);
            self.lines.state = State::Head(Vec::new());
        }
    }

    fn read_on(&mut self, out: &mut impl Write) -> Result<Pumped, ReadError> {
        if self.lines.is_enough() {
            return Ok(Pumped::Enough);
        }
        loop {
            let read = match self.file.read(&mut self.block) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other.map_err(failed("read", &self.path))?,
            };
            if read == 0 {
                return Ok(Pumped::End);
            }
            self.position += read as u64;
            if self.lines.feed(&self.block[..read], out).map_err(|error| error.at(&self.path))?.is_break() {
                return Ok(Pumped::Enough);
            }
        }
    }

    /// The file that stands at the path now, where it is another one. One that was cut short is read from its beginning again.
    fn successor(&mut self) -> Result<Option<File>, LogError> {
        let own = self.file.metadata().map_err(failed("look at", &self.path))?;
        match fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) != (own.dev(), own.ino()) => match open(&self.path) {
                Ok(file) => Ok(Some(file)),
                Err(error) if error.cause.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            },
            Ok(_) if own.len() < self.position => {
                self.file.seek(SeekFrom::Start(0)).map_err(failed("seek in", &self.path))?;
                self.position = 0;
                self.lines.state = State::Head(Vec::new());
                Ok(None)
            }
            Ok(_) => Ok(None),
            // Moved away, and the next one is not there yet; or removed for good.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("look at", &self.path)(error)),
        }
    }
}

fn open(path: &Path) -> Result<File, LogError> {
    // A pipe would be waited for, and one may take the file's place at any moment: what was opened is what is looked at.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed("open", path))?;
    if !file.metadata().map_err(failed("look at", path))?.is_file() {
        return Err(failed("read", path)(io::Error::other("not a regular file")));
    }
    Ok(file)
}

/// Where the last so many lines begin. What follows the last end of a line is not counted.
fn tail_start(file: &File, lines: u64) -> io::Result<u64> {
    let mut right = file.metadata()?.len();
    let mut block = vec![0; BLOCK];
    let mut found = 0;
    while right > 0 {
        let length = usize::try_from(right).unwrap_or(BLOCK).min(BLOCK);
        let left = right - length as u64;
        match file.read_exact_at(&mut block[..length], left) {
            // It was cut short meanwhile.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
            other => other?,
        }
        for at in (0..length).rev().filter(|at| block[*at] == b'\n') {
            if found == lines {
                return Ok(left + at as u64 + 1);
            }
            found += 1;
        }
        right = left;
    }
    Ok(0)
}

/// From lines of a log to what was printed.
#[derive(Debug)]
struct Lines {
    since: Option<Timestamp>,
    timestamps: bool,
    bytes_left: Option<u64>,
    entries_left: Option<u64>,
    state: State,
    /// A line has been understood: others that cannot be are passed over.
    begun: bool,
    /// What comes next begins a line of the output.
    at_line_start: bool,
}

#[derive(Debug)]
enum State {
    /// Before the text of an entry.
    Head(Vec<u8>),
    /// Within the text.
    Text(Entry),
    /// Within one of Docker's lines.
    Json(Vec<u8>),
    /// Within a line that cannot be understood.
    Skip,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Goes on in the next line of the file.
    partial: bool,
    /// Is shown.
    shown: bool,
    /// Has text, up to here.
    any: bool,
}

/// As [`ReadError`], before the path is known.
enum Trouble {
    Format(Vec<u8>),
    Output(io::Error),
}

impl Trouble {
    fn at(self, path: &Path) -> ReadError {
        match self {
            Self::Format(line) => {
                let line = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
                ReadError::Format { path: path.to_owned(), line }
            }
            Self::Output(error) => ReadError::Output(error),
        }
    }
}

type Flow = Result<ControlFlow<()>, Trouble>;
const ON: ControlFlow<()> = ControlFlow::Continue(());

impl Lines {
    fn is_enough(&self) -> bool {
        self.entries_left == Some(0) || self.bytes_left == Some(0)
    }

    /// Takes the next bytes of the file.
    fn feed(&mut self, mut bytes: &[u8], out: &mut impl Write) -> Flow {
        while !bytes.is_empty() {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (flow, taken) = match std::mem::replace(&mut self.state, State::Skip) {
                State::Head(head) => self.head(head, bytes, out)?,
                State::Text(entry) => {
                    let text = &bytes[..end.unwrap_or(bytes.len())];
                    let entry = Entry { any: entry.any || !text.is_empty(), ..entry };
                    let mut flow = self.emit(entry.shown, text, out)?;
                    if end.is_some() {
                        if flow.is_continue() && !entry.partial {
                            flow = self.emit(entry.shown, b"\n", out)?;
                        }
                        if self.ended(!entry.partial || !entry.any).is_break() {
                            flow = ControlFlow::Break(());
                        }
                    } else {
                        self.state = State::Text(entry);
                    }
                    (flow, end.map_or(bytes.len(), |end| end + 1))
                }
                State::Json(mut line) => {
                    let part = &bytes[..end.unwrap_or(bytes.len())];
                    line.extend_from_slice(&part[..part.len().min(JSON_MAX + 1 - line.len())]);
                    let flow = match end {
                        Some(_) => self.json(&line, out)?,
                        None => {
                            if line.len() <= JSON_MAX {
                                self.state = State::Json(line);
                            }
                            ON
                        }
                    };
                    (flow, end.map_or(bytes.len(), |end| end + 1))
                }
                State::Skip => {
                    if end.is_some() {
                        self.state = State::Head(Vec::new());
                    }
                    (ON, end.map_or(bytes.len(), |end| end + 1))
                }
            };
            if flow.is_break() {
                return Ok(flow);
            }
            bytes = &bytes[taken..];
        }
        Ok(ON)
    }

    /// Takes bytes up to where the text of an entry begins; how many.
    fn head(&mut self, mut head: Vec<u8>, bytes: &[u8], out: &mut impl Write) -> Result<(ControlFlow<()>, usize), Trouble> {
        if head.is_empty() && bytes[0] == b'{' {
            self.state = State::Json(Vec::new());
            return Ok((ON, 0));
        }
        let mut blanks = head.iter().filter(|byte| **byte == b' ').count();
        for (at, byte) in bytes.iter().enumerate() {
            if *byte == b'\n' || head.len() == HEAD_MAX {
                self.not_understood(head)?;
                self.state = if *byte == b'\n' { State::Head(Vec::new()) } else { State::Skip };
                return Ok((ON, at + 1));
            }
            blanks += usize::from(*byte == b' ');
            if blanks == 3 {
                let Some((time, shown_time, partial)) = parse_head(&head) else {
                    self.not_understood(head)?;
                    self.state = State::Skip;
                    return Ok((ON, at + 1));
                };
                self.begun = true;
                let shown = self.since.is_none_or(|since| time >= since);
                self.state = State::Text(Entry { partial, shown, any: false });
                let flow = self.prefix(shown, &shown_time, out)?;
                return Ok((flow, at + 1));
            }
            head.push(*byte);
        }
        self.state = State::Head(head);
        Ok((ON, bytes.len()))
    }

    /// The first line must be understood; a bad one among good ones is passed over.
    fn not_understood(&self, line: Vec<u8>) -> Result<(), Trouble> {
        if self.begun { Ok(()) } else { Err(Trouble::Format(line)) }
    }

    /// A whole line of Docker's.
    fn json(&mut self, line: &[u8], out: &mut impl Write) -> Flow {
        self.state = State::Head(Vec::new());
        let parsed = serde_json::from_slice::<serde_json::Value>(line).ok();
        let entry = parsed.as_ref().and_then(|line| {
            let time = line["time"].as_str().and_then(|time| Some((time.parse::<Timestamp>().ok()?, nine_digits(time)?)))?;
            let _stream = line["stream"].as_str().filter(|stream| matches!(*stream, "stdout" | "stderr"))?;
            Some((time, line["log"].as_str()?))
        });
        let Some(((time, shown_time), text)) = entry else {
            self.not_understood(line.to_vec())?;
            return Ok(ON);
        };
        self.begun = true;
        let shown = self.since.is_none_or(|since| time >= since);
        let mut flow = self.prefix(shown, &shown_time, out)?;
        if flow.is_continue() {
            flow = self.emit(shown, text.as_bytes(), out)?;
        }
        let entries = self.ended(text.is_empty() || text.ends_with('\n'));
        Ok(if entries.is_break() { entries } else { flow })
    }

    /// The file ends here: a last line without an end counts all the same.
    fn finish(&mut self, out: &mut impl Write) -> Result<Pumped, Trouble> {
        match std::mem::replace(&mut self.state, State::Head(Vec::new())) {
            State::Head(head) if !head.is_empty() => self.not_understood(head)?,
            State::Json(line) if !line.is_empty() && self.json(&line, out)?.is_break() => return Ok(Pumped::Enough),
            _ => {}
        }
        Ok(Pumped::End)
    }

    fn prefix(&mut self, shown: bool, time: &str, out: &mut impl Write) -> Flow {
        if self.timestamps && self.at_line_start { self.emit(shown, format!("{time} ").as_bytes(), out) } else { Ok(ON) }
    }

    fn emit(&mut self, shown: bool, bytes: &[u8], out: &mut impl Write) -> Flow {
        if !shown || bytes.is_empty() {
            return Ok(ON);
        }
        let most = self.bytes_left.map_or(bytes.len(), |left| usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len()));
        out.write_all(&bytes[..most]).map_err(Trouble::Output)?;
        if let Some(left) = &mut self.bytes_left {
            *left -= most as u64;
        }
        Ok(if self.bytes_left == Some(0) { ControlFlow::Break(()) } else { ON })
    }

    fn ended(&mut self, line_is_whole: bool) -> ControlFlow<()> {
        self.state = State::Head(Vec::new());
        self.at_line_start = line_is_whole;
        if let Some(left) = &mut self.entries_left {
            *left = left.saturating_sub(1);
        }
        if self.entries_left == Some(0) { ControlFlow::Break(()) } else { ON }
    }
}

/// Time, the time as it is shown, and whether the entry is a part of a line.
fn parse_head(head: &[u8]) -> Option<(Timestamp, String, bool)> {
    let mut parts = std::str::from_utf8(head).ok()?.split(' ');
    let (time, stream, tags) = (parts.next()?, parts.next()?, parts.next()?);
    let known = matches!(stream, "stdout" | "stderr");
    let at = known.then(|| time.parse().ok()).flatten()?;
    Some((at, nine_digits(time)?, tags.split(':').next() == Some("P")))
}

/// A time of RFC 3339 with nine digits behind the seconds, in the zone that it was written in.
fn nine_digits(time: &str) -> Option<String> {
    let (seconds, rest) =
        time.split_at_checked("2006-01-02T15:04:05".len()).filter(|(s, _)| s.as_bytes().get(10) == Some(&b'T'))?;
    let fraction = rest.strip_prefix('.').unwrap_or_default();
    let digits: String = fraction.chars().take_while(char::is_ascii_digit).collect();
    let zone = if rest.starts_with('.') { &fraction[digits.len()..] } else { rest };
    let zone = if zone == "+00:00" { "Z" } else { zone };
    Some(format!("{seconds}.{digits:0<9.9}{zone}"))
}

#[cfg(test)]
mod tests;
