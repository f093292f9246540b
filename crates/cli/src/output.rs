//! Standard output: data only, buffered, and a closed pipe is a clean end. A terminal is read by a person and gets text, a
//! pipe is read by a program and gets JSON; `CREALEPH_OUTPUT` says so where that guess is wrong (a pager, a CI log).

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use crealeph_contracts::json::{Limits, parse, pretty};

use crate::failure::Failure;

/// Names who reads standard output: `text` for a person, `json` for a program.
pub(crate) const READER: &str = "CREALEPH_OUTPUT";

/// Standard output, buffered.
pub(crate) struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    is_for_person: bool,
    outlives_reader: bool,
}

impl Output {
    /// Takes standard output.
    pub(crate) fn new() -> Result<Self, Failure> {
        let stdout = io::stdout().lock();
        let reader = std::env::var_os(READER).unwrap_or_default();
        let is_for_person = match reader.to_str() {
            Some("") => stdout.is_terminal(),
            Some("text") => true,
            Some("json") => false,
            _ => return Err(Failure::BadReader(reader.to_string_lossy().into_owned())),
        };
        Ok(Output {
            writer: BufWriter::with_capacity(64 << 10, stdout),
            is_for_person,
            outlives_reader: false,
        })
    }

    /// A person is looking.
    pub(crate) fn is_for_person(&self) -> bool {
        self.is_for_person
    }

    /// What is printed only tells of work that must be done to its end: go on when nobody reads it any more.
    pub(crate) fn outlive_reader(&mut self) {
        self.outlives_reader = true;
    }

    /// Writes text.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.writer.write_all(text.as_bytes());
        self.done(written)
    }

    fn done(&self, written: io::Result<()>) -> Result<(), Failure> {
        match written.map_err(Failure::Output) {
            Err(failure) if failure.is_closed_pipe() && self.outlives_reader => Ok(()),
            done => done,
        }
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.text(line)?;
        self.text("\n")
    }

    /// Writes a JSON document: indented for a person, on one line for a pipe.
    pub(crate) fn json(&mut self, json: &str) -> Result<(), Failure> {
        if self.is_for_person
            && let (Some(document), _) = parse(json.as_bytes(), &Limits { max_bytes: usize::MAX })
        {
            return self.line(&pretty(document.root()));
        }
        self.line(json)
    }

    /// Where data can be streamed to.
    pub(crate) fn writer(&mut self) -> &mut dyn Write {
        &mut self.writer
    }

    /// Sends what was written on its way.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let written = self.writer.flush();
        self.done(written)
    }
}
