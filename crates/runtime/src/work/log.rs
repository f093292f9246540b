//! The output of a run's agent and tests, written to the run's folder as it arrives: redacted, bounded, and there after a crash. Owns the format
//! of these files and their limit: the start and the end of the output are kept, and the bytes in between are counted.
//!
//! A file is named by its offset in the whole output (`output.0.log`), and contains whole records, one per line:
//!
//! ```text
//! agent> a line of the agent's standard output
//! tests! a line of the tests' standard error
//! agent>+a line whose end has not come yet, or that is very long; its next record continues
//! ```

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crealeph_sandbox::{RedactedStream, Redactor, Stream};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tracing::warn;

use super::store::{RunsError, failed, own_file};
use super::stream::spoken;

/// When a file is full, the next one begins.
const FILE_BYTES: u64 = 256 << 10;
/// How many files stay of the start of the output, and how many of its end.
const FIRST_FILES: usize = 2;
const LAST_FILES: usize = 3;
/// A longer line is kept as several records.
const MAX_RECORD_BYTES: usize = 8 << 10;
/// How much of a line is shown with a failure.
const MAX_SHOWN_CHARS: usize = 400;
/// What is before the text of a record: whose it is, the stream, and whether its line continues.
const HEADER_BYTES: usize = 7;

/// Whose output it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogSource {
    /// The agent's.
    Agent,
    /// The tests'.
    Tests,
}

impl LogSource {
    /// One word.
    pub fn as_str(self) -> &'static str {
        match self {
            LogSource::Agent => "agent",
            LogSource::Tests => "tests",
        }
    }
}

/// A part of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRecord {
    /// A line, or a part of one.
    Text {
        /// Whose it is.
        source: LogSource,
        /// Whether it was written to standard error.
        is_error: bool,
        /// The text, without the line's end.
        text: String,
        /// Whether the line continues in the next record of the same stream.
        goes_on: bool,
    },
    /// So many bytes were left out.
    Gap(u64),
}

/// A record as it is written.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum WrittenRecord<'r> {
    Gap { left_out_bytes: u64 },
    Text { source: LogSource, stream: StreamName, text: Cow<'r, str>, goes_on: bool },
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum StreamName {
    Stdout,
    Stderr,
}

impl Serialize for LogRecord {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let written = match self {
            LogRecord::Gap(bytes) => WrittenRecord::Gap { left_out_bytes: *bytes },
            LogRecord::Text { source, is_error, text, goes_on } => WrittenRecord::Text {
                source: *source,
                stream: if *is_error { StreamName::Stderr } else { StreamName::Stdout },
                text: text.into(),
                goes_on: *goes_on,
            },
        };
        written.serialize(to)
    }
}

impl<'de> Deserialize<'de> for LogRecord {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(match WrittenRecord::deserialize(from)? {
            WrittenRecord::Gap { left_out_bytes } => LogRecord::Gap(left_out_bytes),
            WrittenRecord::Text { source, stream, text, goes_on } => {
                let is_error = matches!(stream, StreamName::Stderr);
                LogRecord::Text { source, is_error, text: text.into_owned(), goes_on }
            }
        })
    }
}

/// Writes the output of one run.
pub(super) struct RunLog {
    folder: PathBuf,
    redactor: Redactor,
    state: Mutex<LogState>,
}

#[derive(Default)]
struct LogState {
    streams: BTreeMap<(LogSource, bool), LogStream>,
    file: Option<File>,
    /// Where the current file begins, and how much it has.
    start: u64,
    bytes: u64,
    /// How many files were begun, and where the last of them that stay begin.
    count: usize,
    last: VecDeque<u64>,
    has_failed: bool,
}

struct LogStream {
    redacted: RedactedStream,
    line: Vec<u8>,
}

impl RunLog {
    /// The log of a run in its folder; continues after what is there.
    pub(super) fn new(folder: PathBuf, redactor: Redactor) -> Self {
        RunLog { folder, redactor, state: Mutex::default() }
    }

    /// Takes what was printed. What cannot be written is lost, and the run continues.
    pub(super) fn take(&self, source: LogSource, stream: Stream, bytes: &[u8]) {
        let is_error = match stream {
            Stream::Stdout => false,
            Stream::Stderr => true,
            Stream::Trace => return,
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let LogStream { redacted, line } = state.streams.entry((source, is_error)).or_insert_with(|| {
            LogStream { redacted: RedactedStream::new(self.redactor.clone()), line: Vec::new() }
        });
        redacted.push(bytes, line);
        let records = records(source, is_error, line, false);
        self.write(&mut state, &records);
    }

    /// Takes the end of the outputs of a process.
    pub(super) fn finish(&self, source: LogSource) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for is_error in [false, true] {
            let Some(mut stream) = state.streams.remove(&(source, is_error)) else { continue };
            stream.redacted.finish(&mut stream.line);
            let records = records(source, is_error, &mut stream.line, true);
            self.write(&mut state, &records);
        }
    }

    fn write(&self, state: &mut LogState, records: &[u8]) {
        for record in records.split_inclusive(|byte| *byte == b'\n') {
            if state.has_failed {
                return;
            }
            if let Err(error) = self.add(state, record) {
                warn!(folder = %self.folder.display(), %error, "the rest of the output of a run is not kept");
                state.has_failed = true;
            }
        }
    }

    fn add(&self, state: &mut LogState, record: &[u8]) -> io::Result<()> {
        let is_full = state.bytes + record.len() as u64 > FILE_BYTES;
        if state.file.is_none() || is_full {
            self.begin(state)?;
        }
        if let Some(file) = &mut state.file {
            file.write_all(record)?;
            state.bytes += record.len() as u64;
        }
        Ok(())
    }

    /// Begins the next file, and removes the one that is neither among the first nor among the last.
    fn begin(&self, state: &mut LogState) -> io::Result<()> {
        let start = match state.file {
            Some(_) => state.start + state.bytes,
            None => {
                let there = files(&self.folder)?;
                state.count = there.len();
                state.last = there.iter().skip(FIRST_FILES).map(|file| file.start).collect();
                there.last().map_or(0, |file| file.start + file.bytes)
            }
        };
        let path = self.folder.join(name(start));
        state.file = Some(own_file().create_new(true).append(true).mode(0o600).open(path)?);
        (state.start, state.bytes) = (start, 0);
        state.count += 1;
        if state.count > FIRST_FILES {
            state.last.push_back(start);
        }
        while state.last.len() > LAST_FILES
            && let Some(old) = state.last.pop_front()
        {
            fs::remove_file(self.folder.join(name(old)))?;
        }
        Ok(())
    }
}

/// The records of what was printed so far; a line without its end is taken too, and continues.
fn records(source: LogSource, is_error: bool, printed: &mut Vec<u8>, is_end: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mark = if is_error { '!' } else { '>' };
    for line in printed.split_inclusive(|byte| *byte == b'\n') {
        let (text, is_whole) = line.strip_suffix(b"\n").map_or((line, is_end), |text| (text, true));
        let mut parts = text.chunks(MAX_RECORD_BYTES).peekable();
        if parts.peek().is_none() {
            out.extend_from_slice(format!("{}{mark} \n", source.as_str()).as_bytes());
        }
        while let Some(part) = parts.next() {
            let flag = if is_whole && parts.peek().is_none() { ' ' } else { '+' };
            out.extend_from_slice(format!("{}{mark}{flag}", source.as_str()).as_bytes());
            out.extend_from_slice(part);
            out.push(b'\n');
        }
    }
    printed.clear();
    out
}

/// A file of a log.
struct LogFile {
    start: u64,
    bytes: u64,
}

fn name(start: u64) -> String {
    format!("output.{start}.log")
}

fn start_of(name: &str) -> Option<u64> {
    let start = name.strip_prefix("output.")?.strip_suffix(".log")?.parse().ok()?;
    (self::name(start) == name).then_some(start)
}

/// Whether a file of a run's folder has a part of its output.
pub(super) fn is_log(name: &str) -> bool {
    start_of(name).is_some()
}

/// The files of a log in their order.
fn files(folder: &Path) -> io::Result<Vec<LogFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Some(start) = entry.file_name().to_str().and_then(start_of) else { continue };
        match entry.metadata() {
            Ok(metadata) if metadata.is_file() => files.push(LogFile { start, bytes: metadata.len() }),
            // It was removed meanwhile.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    files.sort_by_key(|file| file.start);
    Ok(files)
}

/// The names of the files of a log, in the order of the output.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, RunsError> {
    match files(folder) {
        Ok(files) => Ok(files.iter().map(|file| name(file.start)).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed("read", folder)(error)),
    }
}

/// Reads a log from its start, and on as it grows.
#[derive(Debug)]
pub struct LogReader {
    folder: PathBuf,
    place: u64,
}

impl LogReader {
    pub(super) fn new(folder: PathBuf) -> Self {
        LogReader { folder, place: 0 }
    }

    /// The same from a place on, which an earlier reading ended at.
    pub(super) fn after(self, place: u64) -> Self {
        LogReader { place, ..self }
    }

    /// Where the next reading begins.
    pub(super) fn place(&self) -> u64 {
        self.place
    }

    /// The whole records that have come since the last time.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(&mut self) -> Result<Vec<LogRecord>, RunsError> {
        let (records, _) = self.read_within(u64::MAX)?;
        Ok(records.into_iter().map(|(_, record)| record).collect())
    }

    /// The same until a bound of bytes is reached, each with its place; and whether there are more.
    pub(super) fn read_within(
        &mut self,
        most_bytes: u64,
    ) -> Result<(Vec<(u64, LogRecord)>, bool), RunsError> {
        let mut records = Vec::new();
        let there = match files(&self.folder) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((records, false)),
            Err(error) => return Err(failed("read", &self.folder)(error)),
        };
        let mut bytes_read = 0;
        for LogFile { start, bytes } in there {
            if start + bytes <= self.place {
                continue;
            }
            let path = self.folder.join(name(start));
            let from = self.place.saturating_sub(start);
            let Some(text) = read_part(&path, from).map_err(failed("read", &path))? else { continue };
            if start > self.place {
                records.push((self.place, LogRecord::Gap(start - self.place)));
                self.place = start;
            }
            for line in text.split_inclusive(|byte| *byte == b'\n') {
                let Some(line) = line.strip_suffix(b"\n") else { break };
                if bytes_read >= most_bytes {
                    return Ok((records, true));
                }
                let (place, length) = (self.place, line.len() as u64 + 1);
                self.place += length;
                bytes_read += length;
                records.extend(read_record(line).map(|record| (place, record)));
            }
        }
        Ok((records, false))
    }
}

/// The records of a log whose files were handed out whole, each by its name.
pub fn log_records<'f>(files: impl IntoIterator<Item = (&'f str, &'f str)>) -> Vec<LogRecord> {
    let started = |(name, text): (&'f str, &'f str)| Some((start_of(name)?, text));
    let mut files: Vec<(u64, &str)> = files.into_iter().filter_map(started).collect();
    files.sort_by_key(|(start, _)| *start);
    let (mut records, mut place) = (Vec::new(), 0);
    for (start, text) in files {
        if start > place {
            records.push(LogRecord::Gap(start - place));
        }
        place = start + text.len() as u64;
        let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        records.extend(lines.filter_map(|line| read_record(line.as_bytes())));
    }
    records
}

/// The last lines that say something, of the tests if there were any, else of the agent; events of known streams as their text.
///
/// # Errors
/// When the log cannot be read.
pub fn last_lines(log: &mut LogReader, count: usize) -> Result<Vec<String>, RunsError> {
    let mut lines: BTreeMap<(LogSource, bool), String> = BTreeMap::new();
    let mut said: Vec<(LogSource, String)> = Vec::new();
    for record in log.read()? {
        let LogRecord::Text { source, is_error, text, goes_on } = record else { continue };
        let line = lines.entry((source, is_error)).or_default();
        line.push_str(&text);
        if !goes_on {
            said.push((source, std::mem::take(line)));
        }
    }
    said.extend(lines.into_iter().map(|((source, _), line)| (source, line)));
    let last = said.iter().map(|(source, _)| *source).max();
    let relevant =
        said.iter().filter(|(source, _)| Some(*source) == last).filter_map(|(_, line)| spoken(line));
    let relevant: Vec<String> = relevant
        .flat_map(|text| text.lines().map(shortened).collect::<Vec<_>>())
        .filter(|line| !line.trim().is_empty())
        .collect();
    Ok(relevant.get(relevant.len().saturating_sub(count)..).unwrap_or_default().to_vec())
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(MAX_SHOWN_CHARS) {
        None => line.to_owned(),
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
    }
}

/// What a file has from a place on; absent if it was removed meanwhile. A file is never longer than its bound.
fn read_part(path: &Path, from: u64) -> io::Result<Option<Vec<u8>>> {
    let mut file = match own_file().read(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

fn read_record(line: &[u8]) -> Option<LogRecord> {
    let (header, text) = line.split_at_checked(HEADER_BYTES)?;
    let (source, marks) = header.split_at_checked(HEADER_BYTES - 2)?;
    let source = match source {
        b"agent" => LogSource::Agent,
        b"tests" => LogSource::Tests,
        _ => return None,
    };
    let (is_error, goes_on) = match marks {
        b"> " => (false, false),
        b">+" => (false, true),
        b"! " => (true, false),
        b"!+" => (true, true),
        _ => return None,
    };
    Some(LogRecord::Text { source, is_error, text: String::from_utf8_lossy(text).into_owned(), goes_on })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(folder: &Path, secrets: &[&[u8]]) -> RunLog {
        RunLog::new(folder.to_owned(), Redactor::new(secrets.iter().copied()).unwrap())
    }

    fn read(folder: &Path) -> Vec<LogRecord> {
        LogReader::new(folder.to_owned()).read().unwrap()
    }

    fn line(source: LogSource, is_error: bool, text: &str, goes_on: bool) -> LogRecord {
        LogRecord::Text { source, is_error, text: text.to_owned(), goes_on }
    }

    #[test]
    fn what_was_printed_is_there_at_once_and_read_back_in_its_order() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path(), &[]);
        assert_eq!(read(folder.path()), []);
        log.take(LogSource::Agent, Stream::Stdout, b"one\n\ntw");
        let mut follower = LogReader::new(folder.path().to_owned());
        let first = [
            line(LogSource::Agent, false, "one", false),
            line(LogSource::Agent, false, "", false),
            line(LogSource::Agent, false, "tw", true),
        ];
        assert_eq!(follower.read().unwrap(), first);
        log.take(LogSource::Agent, Stream::Stderr, b"bad\xff\n");
        log.take(LogSource::Agent, Stream::Trace, b"no output\n");
        log.take(LogSource::Agent, Stream::Stdout, b"o");
        log.finish(LogSource::Agent);
        log.take(LogSource::Tests, Stream::Stdout, b"ok");
        log.finish(LogSource::Tests);
        let rest = [
            line(LogSource::Agent, true, "bad\u{fffd}", false),
            line(LogSource::Agent, false, "o", true),
            line(LogSource::Tests, false, "ok", true),
        ];
        assert_eq!(follower.read().unwrap(), rest);
        assert_eq!(follower.read().unwrap(), []);
        assert_eq!(read(folder.path()).len(), 6);
        // A second process of the same run continues after what is there.
        let again = super::tests::log(folder.path(), &[]);
        again.take(LogSource::Tests, Stream::Stdout, b"again\n");
        assert_eq!(follower.read().unwrap(), [line(LogSource::Tests, false, "again", false)]);
        assert_eq!(names(folder.path()).unwrap().len(), 2);
    }

    #[test]
    fn a_secret_is_redacted_however_it_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path(), &[b"correct horse"]);
        for piece in ["a correct", " ho", "rse b\n"] {
            log.take(LogSource::Tests, Stream::Stdout, piece.as_bytes());
        }
        log.finish(LogSource::Tests);
        let all: String = fs::read_to_string(folder.path().join("output.0.log")).unwrap();
        assert!(!all.contains("horse") && all.contains("a ") && all.contains(" b"), "{all}");
    }

    #[test]
    fn the_start_and_the_end_stay_and_the_gap_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path(), &[]);
        let count = 40_000;
        for number in 0..count {
            log.take(LogSource::Agent, Stream::Stdout, format!("line {number:060}\n").as_bytes());
        }
        let record = 7 + 65 + 1;
        let files = files(folder.path()).unwrap();
        assert_eq!(files.len(), FIRST_FILES + LAST_FILES);
        assert!(files.iter().map(|file| file.bytes).sum::<u64>() <= 5 * FILE_BYTES);
        let records = read(folder.path());
        assert_eq!(
            records.first().unwrap(),
            &line(LogSource::Agent, false, &format!("line {:060}", 0), false)
        );
        let last = format!("line {:060}", count - 1);
        assert_eq!(records.last().unwrap(), &line(LogSource::Agent, false, &last, false));
        let gaps: Vec<u64> = records
            .iter()
            .filter_map(|record| match record {
                LogRecord::Gap(bytes) => Some(*bytes),
                LogRecord::Text { .. } => None,
            })
            .collect();
        let lost = count - (records.len() as u64 - 1);
        assert_eq!(gaps, [lost * record]);
    }

    #[test]
    fn a_line_at_its_bound_is_one_record_and_one_byte_more_is_two() {
        for (length, count) in [(MAX_RECORD_BYTES, 1), (MAX_RECORD_BYTES + 1, 2)] {
            let folder = tempfile::tempdir().unwrap();
            let log = log(folder.path(), &[]);
            log.take(LogSource::Agent, Stream::Stdout, format!("{}\n", "x".repeat(length)).as_bytes());
            let records = read(folder.path());
            assert_eq!(records.len(), count);
            assert!(matches!(records.last(), Some(LogRecord::Text { goes_on: false, .. })));
        }
    }
}
