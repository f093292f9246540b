//! Standard output and standard error: the only place that writes to them. Standard output is data, buffered, and a closed
//! pipe is a clean end. A terminal is read by a person and gets text, a pipe is read by a program and gets JSON;
//! `CREALEPH_OUTPUT` overrides that guess if it is wrong (a pager, a CI log).
//!
//! What is printed for a person holds no control, bidirectional or invisible character but our own styling; JSON holds them as
//! escapes, which changes no value. Documents that are hashed or signed go exactly as they are, unless a person reads them.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write, stderr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crealeph_contracts::json::{Limits, parse, pretty};
use crealeph_contracts::text::{Shown, is_hidden, json_shown};
use serde::Serialize;
use serde_json::value::RawValue;
use tracing_subscriber::fmt::MakeWriter;

use crate::drawing::wiped;
use crate::failure::OutputFailure;
use crate::page::{MAX_LINE_CHARS, Page};
use crate::render::{COLUMNS, fitted};

/// Names who reads standard output: `text` for a person, `json` for a program.
pub(crate) const READER: &str = "CREALEPH_OUTPUT";

/// `--text` was given.
static TEXT: AtomicBool = AtomicBool::new(false);

/// Stands around the word for a state while a line is broken: a zero width space.
const MARK: char = '\u{200b}';

/// A narrower screen than this gets lines as they are.
const MIN_COLUMNS: usize = 40;

/// Standard output, buffered.
pub(crate) struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    is_for_person: bool,
    /// A terminal obeys what it is sent, whatever `CREALEPH_OUTPUT` says.
    is_terminal: bool,
    is_coloured: bool,
    outlives_reader: bool,
    /// The width of the reader's screen, if it is known.
    columns: Option<usize>,
}

impl Output {
    /// Takes standard output.
    pub(crate) fn new() -> Result<Self, OutputFailure> {
        let stdout = io::stdout().lock();
        let reader = std::env::var_os(READER).unwrap_or_default();
        let is_for_person = match reader.to_str() {
            _ if TEXT.load(Ordering::Relaxed) => true,
            Some("") => stdout.is_terminal(),
            Some("text") => true,
            Some("json") => false,
            _ => return Err(OutputFailure::BadReader(reader.to_string_lossy().into_owned())),
        };
        let is_terminal = stdout.is_terminal();
        let is_coloured = has_colour(&stdout);
        Ok(Output {
            writer: BufWriter::with_capacity(64 << 10, stdout),
            is_for_person,
            is_terminal,
            is_coloured,
            outlives_reader: false,
            columns: is_for_person.then(|| columns(io::stdout())).flatten(),
        })
    }

    /// A person is looking.
    pub(crate) fn is_for_person(&self) -> bool {
        self.is_for_person
    }

    /// `CREALEPH_OUTPUT` names JSON: what a program printed is not passed on as it is, but in records.
    pub(crate) fn is_json_named(&self) -> bool {
        !self.is_for_person && std::env::var_os(READER).is_some_and(|reader| reader == "json")
    }

    /// The output only reports on work that must be finished: a closed pipe does not stop the command.
    pub(crate) fn outlive_reader(&mut self) {
        self.outlives_reader = true;
    }

    /// Writes a line of text; a line break in it is escaped.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), OutputFailure> {
        let line = Shown::line(line).at_most(MAX_LINE_CHARS).to_string();
        self.write(fitted(&line, self.columns).as_bytes())?;
        self.write(b"\n")?;
        self.keep_order()
    }

    /// Writes lines of text.
    pub(crate) fn page(&mut self, page: &Page) -> Result<(), OutputFailure> {
        self.write(fitted(page.as_str(), self.columns).as_bytes())?;
        self.keep_order()
    }

    /// A person reads notes between the lines, and sees them in the order in which they were written.
    fn keep_order(&mut self) -> Result<(), OutputFailure> {
        match self.is_for_person {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Writes a line of text in bold, where that can be shown.
    pub(crate) fn bold(&mut self, line: &str) -> Result<(), OutputFailure> {
        let line = Shown::line(line);
        let styled = if self.is_coloured { format!("\x1b[1m{line}\x1b[0m\n") } else { format!("{line}\n") };
        self.write(styled.as_bytes())
    }

    /// Writes a line with a word of a state in its colour, where that can be shown.
    pub(crate) fn state_line(&mut self, before: &str, state: &str, after: &str) -> Result<(), OutputFailure> {
        let [before, shown, after] = [before, state, after].map(|part| Shown::line(part).to_string());
        // The marks take no column, and nothing that is shown has one.
        let line = format!("{before}{MARK}{shown}{MARK}{after}");
        let line = fitted(line.trim_end(), self.columns).into_owned();
        let (start, end) = match colour(state.trim()).filter(|_| self.is_coloured) {
            Some(colour) => (format!("\x1b[{colour}m"), "\x1b[0m"),
            None => (String::new(), ""),
        };
        self.write(line.replacen(MARK, &start, 1).replacen(MARK, end, 1).as_bytes())?;
        self.write(b"\n")
    }

    /// The width of the reader's screen.
    pub(crate) fn width(&self) -> usize {
        self.columns.unwrap_or(COLUMNS)
    }

    /// Writes a document that programs take byte by byte, such as a key or a diff. A person gets it with escapes.
    pub(crate) fn document(&mut self, document: &str) -> Result<(), OutputFailure> {
        match self.is_shown() {
            true => self.write(Shown::block(document).to_string().as_bytes()),
            false => self.exactly(document),
        }
    }

    fn is_shown(&self) -> bool {
        self.is_for_person || self.is_terminal
    }

    /// Writes a text byte by byte, even to a terminal: the user asked for the exact bytes.
    pub(crate) fn exactly(&mut self, text: &str) -> Result<(), OutputFailure> {
        self.write(text.as_bytes())
    }

    /// Writes a report of a command as JSON: indented for a person, on one line for a pipe.
    pub(crate) fn report(&mut self, report: &impl Serialize) -> Result<(), OutputFailure> {
        let json = serde_json::to_string(report).map_err(|error| OutputFailure::Stdout(error.into()))?;
        self.json(&json)
    }

    /// Writes a report as one line of JSON.
    pub(crate) fn report_line(&mut self, report: &impl Serialize) -> Result<(), OutputFailure> {
        let json = serde_json::to_string(report).map_err(|error| OutputFailure::Stdout(error.into()))?;
        self.json_line(&json)
    }

    /// Writes a document of a contract, which is JSON text already: indented for a person, on one line for a pipe.
    pub(crate) fn json(&mut self, json: &str) -> Result<(), OutputFailure> {
        if self.is_for_person
            && let (Some(document), _) = parse(json.as_bytes(), &Limits::own(usize::MAX))
        {
            return self.json_line(&pretty(document.root()));
        }
        self.json_line(json)
    }

    /// Writes a document of a contract as one line.
    pub(crate) fn json_line(&mut self, json: &str) -> Result<(), OutputFailure> {
        self.write(json_shown(json).as_bytes())?;
        self.write(b"\n")
    }

    /// Where JSON Lines can be streamed to that programs take byte by byte; a person gets them with escapes.
    pub(crate) fn json_lines(&mut self) -> JsonLines<'_> {
        JsonLines { pending: Vec::new(), output: self }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), OutputFailure> {
        let _screen = self.is_terminal.then(wiped);
        let written = self.writer.write_all(bytes);
        self.done(written)
    }

    fn done(&self, written: io::Result<()>) -> Result<(), OutputFailure> {
        match written.map_err(OutputFailure::Stdout) {
            Err(failure) if failure.is_closed_pipe() && self.outlives_reader => Ok(()),
            done => done,
        }
    }

    /// Sends what was written on its way.
    pub(crate) fn flush(&mut self) -> Result<(), OutputFailure> {
        let _screen = self.is_terminal.then(wiped);
        let written = self.writer.flush();
        self.done(written)
    }
}

/// Whether colours are shown where a stream goes.
fn has_colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The colour of the word for a state.
pub(crate) fn colour(state: &str) -> Option<u8> {
    Some(match state {
        "success" => 32,
        "failure" | "timeout" => 31,
        "denied" | "interrupted" | "unsettled" => 33,
        "held" => 36,
        "running" => 34,
        _ => return None,
    })
}

/// A document of a contract, to be a part of a report.
pub(crate) fn embedded(document: String) -> Result<Box<RawValue>, OutputFailure> {
    RawValue::from_string(document).map_err(|error| OutputFailure::Stdout(error.into()))
}

/// JSON Lines on their way to standard output.
pub(crate) struct JsonLines<'o> {
    /// The start of a line, which a person is shown once it is whole.
    pending: Vec<u8>,
    output: &'o mut Output,
}

impl Write for JsonLines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.output.is_shown() {
            return self.output.writer.write(bytes);
        }
        self.pending.extend_from_slice(bytes);
        if bytes.contains(&b'\n') {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        self.output.writer.write_all(json_shown(&text).as_bytes())
    }
}

/// Prints a line on standard error. A command must not depend on whether anyone reads it.
macro_rules! note {
    ($($words:tt)*) => { $crate::output::say(format_args!($($words)*)) };
}
pub(crate) use note;

/// What `note!` does.
pub(crate) fn say(words: fmt::Arguments<'_>) {
    let line = Shown::line(&words.to_string()).at_most(MAX_LINE_CHARS).to_string();
    let _screen = wiped();
    let _ = writeln!(stderr(), "{}", fitted(&line, columns(stderr())));
}

/// Prints a question on standard error; the answer is typed behind it.
pub(crate) fn prompt(question: &str) {
    let _screen = wiped();
    let _ = write!(stderr(), "{}", Shown::line(question));
}

/// Prints several lines on standard error.
pub(crate) fn note_page(page: &Page) {
    let _screen = wiped();
    let _ = stderr().write_all(fitted(page.as_str(), columns(stderr())).as_bytes());
}

/// Log lines on their way to standard error, each written whole and escaped.
#[derive(Clone, Copy)]
pub(crate) struct LogLines {
    pub(crate) is_json: bool,
}

impl MakeWriter<'_> for LogLines {
    type Writer = LogLines;

    fn make_writer(&self) -> LogLines {
        *self
    }
}

impl Write for LogLines {
    /// Takes a whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches('\n');
        match self.is_json {
            true => note_json(text),
            false => {
                let _screen = wiped();
                let _ = writeln!(stderr(), "{}", Shown::line(text).at_most(MAX_LINE_CHARS));
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a JSON document as one line to standard error.
pub(crate) fn note_json(json: &str) {
    let _screen = wiped();
    let _ = writeln!(stderr(), "{}", json_shown(json));
}

/// Prints a message of the argument parser, in its own colours; without colours if an argument has to be escaped.
pub(crate) fn arguments(error: &clap::Error) -> io::Result<()> {
    let is_plain = |word: OsString| word.to_str().is_some_and(|word| !word.chars().any(is_hidden));
    if error.use_stderr() && !std::env::args_os().all(is_plain) {
        let _ = write!(stderr(), "{}", Shown::block(&error.render().to_string()));
        return Ok(());
    }
    error.print().and_then(|()| io::stdout().flush())
}

/// Writes bytes to standard output as they are, for a program that asked for exactly them.
pub(crate) fn bytes(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(bytes).and_then(|()| stdout.flush())
}

/// A person reads standard output, whatever it is: `--text`.
pub(crate) fn read_by_person() {
    TEXT.store(true, Ordering::Relaxed);
}

/// Whether the user said that a person reads what goes into a pipe.
fn is_text() -> bool {
    TEXT.load(Ordering::Relaxed) || std::env::var_os(READER).is_some_and(|reader| reader == "text")
}

/// The width of the screen that a stream is read on: COLUMNS, else a terminal's own, which for a pager is that of standard
/// error. If no person reads it, lines are never broken.
fn columns(stream: impl AsFd + IsTerminal) -> Option<usize> {
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    let width = match stream.is_terminal() {
        true => named().or_else(|| width_of(&stream)),
        false if is_text() => named().or_else(|| width_of(stderr())),
        false => None,
    };
    width.filter(|columns| *columns >= MIN_COLUMNS)
}

fn width_of(stream: impl AsFd) -> Option<usize> {
    rustix::termios::tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_col))
}

/// Writes what a [`Drawing`](crate::drawing::Drawing) has escaped.
pub(crate) fn draw(drawn: &str) {
    let _ = stderr().write_all(drawn.as_bytes());
}

/// The columns and rows of the terminal that standard error is, if it is one and says so.
pub(crate) fn screen_size() -> (Option<usize>, Option<usize>) {
    let size = rustix::termios::tcgetwinsize(stderr()).ok();
    let known = |length: u16| Some(usize::from(length)).filter(|length| *length > 0);
    (size.and_then(|size| known(size.ws_col)), size.and_then(|size| known(size.ws_row)))
}

/// Whether colours are shown on standard error.
pub(crate) fn shows_colour() -> bool {
    has_colour(&stderr())
}

/// Whether a person looks at standard error.
pub(crate) fn is_watched() -> bool {
    stderr().is_terminal()
}

/// Passes on what a program prints: exactly to a pipe, with escapes where a person reads.
pub(crate) struct Passage {
    stdout: Mutex<Stream>,
    stderr: Mutex<Stream>,
}

struct Stream {
    is_for_person: bool,
    /// The start of a character whose end has not come yet.
    pending: Vec<u8>,
}

impl Passage {
    pub(crate) fn new(output: &Output) -> Self {
        let stream = |is_for_person| Mutex::new(Stream { is_for_person, pending: Vec::new() });
        Passage { stdout: stream(output.is_shown()), stderr: stream(is_text() || is_watched()) }
    }

    /// Passes on a part of its standard output.
    pub(crate) fn stdout(&self, bytes: &[u8]) -> io::Result<()> {
        let shown = self.stdout.lock().unwrap_or_else(PoisonError::into_inner).shown(bytes);
        let mut stdout = io::stdout();
        stdout.write_all(&shown).and_then(|()| stdout.flush())
    }

    /// Passes on a part of its standard error.
    pub(crate) fn stderr(&self, bytes: &[u8]) -> io::Result<()> {
        let shown = self.stderr.lock().unwrap_or_else(PoisonError::into_inner).shown(bytes);
        stderr().write_all(&shown)
    }

    /// Shows what is left of a character that never came to its end.
    pub(crate) fn end(&self) -> io::Result<()> {
        let left = |stream: &Mutex<Stream>| {
            let pending = std::mem::take(&mut stream.lock().unwrap_or_else(PoisonError::into_inner).pending);
            pending.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>()
        };
        let (stdout, stderr) = (left(&self.stdout), left(&self.stderr));
        self.stdout(stdout.as_bytes()).and_then(|()| self.stderr(stderr.as_bytes()))
    }
}

impl Stream {
    fn shown(&mut self, bytes: &[u8]) -> Vec<u8> {
        if !self.is_for_person {
            return bytes.to_vec();
        }
        let mut bytes = [std::mem::take(&mut self.pending), bytes.to_vec()].concat();
        if let Err(error) = std::str::from_utf8(&bytes)
            && error.error_len().is_none()
        {
            self.pending = bytes.split_off(error.valid_up_to());
        }
        let mut shown = String::new();
        for chunk in bytes.utf8_chunks() {
            shown.push_str(&Shown::block(chunk.valid()).to_string());
            chunk.invalid().iter().for_each(|byte| shown.push_str(&format!("\\x{byte:02x}")));
        }
        shown.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_shown_whole_however_it_is_cut() {
        let text = "ä\u{1b}]52;c;eA==\u{7}\nbig 日本\u{202e}";
        for at in 0..text.len() {
            let mut stream = Stream { is_for_person: true, pending: Vec::new() };
            let (first, rest) = text.as_bytes().split_at(at);
            let shown = [stream.shown(first), stream.shown(rest)].concat();
            assert_eq!(String::from_utf8(shown).unwrap(), Shown::block(text).to_string(), "{at}");
        }
        let mut stream = Stream { is_for_person: true, pending: Vec::new() };
        assert_eq!(stream.shown(b"a\xff\x9bb"), b"a\\xff\\x9bb");
        let mut exact = Stream { is_for_person: false, pending: Vec::new() };
        assert_eq!(exact.shown(b"a\xff\x1b"), b"a\xff\x1b");
    }
}
