//! Standard output: data only, buffered, and a closed pipe is a clean end.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use crealeph_contracts::json::{Limits, parse, pretty};

use crate::failure::Failure;

/// Standard output, buffered.
pub(crate) struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    is_terminal: bool,
}

impl Output {
    /// Takes standard output.
    pub(crate) fn new() -> Self {
        let stdout = io::stdout().lock();
        let is_terminal = stdout.is_terminal();
        Output { writer: BufWriter::with_capacity(64 << 10, stdout), is_terminal }
    }

    /// A person is looking.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Writes text.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.writer.write_all(text.as_bytes()).map_err(Failure::Output)
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.text(line)?;
        self.text("\n")
    }

    /// Writes a JSON document: indented for a person, on one line for a pipe.
    pub(crate) fn json(&mut self, json: &str) -> Result<(), Failure> {
        if self.is_terminal
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
        self.writer.flush().map_err(Failure::Output)
    }
}
