//! Reading what a command is given: a file or standard input, within a bound, with a clear word when it cannot be.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::output::note;

/// The bound on one document.
pub(crate) const DEFAULT_MAX_BYTES: usize = 16 << 20;

/// What a source is read through.
pub(crate) type Reader = BufReader<Box<dyn Read>>;

/// A file, or standard input.
#[derive(Clone, Debug)]
pub(crate) struct Source(Option<PathBuf>);

impl Source {
    /// The file, or standard input where there is none or it is `-`.
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Source(path.filter(|path| path != Path::new("-")))
    }

    /// The name that messages use.
    pub(crate) fn name(&self) -> String {
        match &self.0 {
            Some(path) => path.display().to_string(),
            None => "standard input".to_owned(),
        }
    }

    /// Opens it for reading line by line.
    pub(crate) fn open(&self) -> Result<Reader, Failure> {
        let Some(path) = &self.0 else {
            if io::stdin().is_terminal() {
                note!("reading standard input; end with Ctrl-D");
            }
            return Ok(BufReader::new(Box::new(io::stdin())));
        };
        let file = File::open(path).map_err(|error| self.failure(error))?;
        let is_directory = file.metadata().is_ok_and(|metadata| metadata.is_dir());
        if is_directory {
            return Err(Failure::IsDirectory(path.clone()));
        }
        Ok(BufReader::new(Box::new(file)))
    }

    /// Reads it whole, but at most one byte more than the bound, so that the reader can tell.
    pub(crate) fn read(&self, max_bytes: usize) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        let bound = (max_bytes as u64).saturating_add(1);
        self.open()?.take(bound).read_to_end(&mut bytes).map_err(|error| self.failure(error))?;
        Ok(bytes)
    }

    /// Reads it whole, within the bound.
    pub(crate) fn read_bounded(&self, max_bytes: usize) -> Result<Vec<u8>, Failure> {
        let bytes = self.read(max_bytes)?;
        match bytes.len() <= max_bytes {
            true => Ok(bytes),
            false => Err(Failure::TooLarge { what: self.name(), limit: max_bytes }),
        }
    }

    /// What was read of it, as text.
    pub(crate) fn text(&self, bytes: Vec<u8>) -> Result<String, Failure> {
        String::from_utf8(bytes).map_err(|_| self.failure(io::ErrorKind::InvalidData.into()))
    }

    /// What an error in reading means.
    pub(crate) fn failure(&self, error: io::Error) -> Failure {
        let path = self.0.clone().unwrap_or_else(|| PathBuf::from("standard input"));
        match error.kind() {
            io::ErrorKind::NotFound => Failure::NotFound(path),
            io::ErrorKind::IsADirectory => Failure::IsDirectory(path),
            io::ErrorKind::InvalidData => Failure::NotText(path),
            _ => Failure::Unreadable { path, source: error },
        }
    }
}

/// One line of a stream.
pub(crate) enum Line {
    /// A line, without its end.
    Whole(Vec<u8>),
    /// A line longer than the bound; it was passed over.
    TooLong,
    /// There is no more.
    End,
}

/// Reads the next line, holding at most `max_bytes` of it.
pub(crate) fn next_line(reader: &mut Reader, max_bytes: usize) -> io::Result<Line> {
    let mut line = Vec::new();
    let bound = (max_bytes as u64).saturating_add(1);
    if reader.by_ref().take(bound).read_until(b'\n', &mut line)? == 0 {
        return Ok(Line::End);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Line::Whole(line));
    }
    if line.len() <= max_bytes {
        return Ok(Line::Whole(line));
    }
    loop {
        let buffer = reader.fill_buf()?;
        let Some(end) = buffer.iter().position(|byte| *byte == b'\n') else {
            let length = buffer.len();
            reader.consume(length);
            if length == 0 {
                return Ok(Line::TooLong);
            }
            continue;
        };
        reader.consume(end + 1);
        return Ok(Line::TooLong);
    }
}

/// Who gives an opinion: whoever a flag names, else whoever is logged in.
pub(crate) fn who(by: Option<String>) -> Result<String, Failure> {
    let who = by.or_else(|| std::env::var("USER").ok()).unwrap_or_default();
    if who.trim().is_empty() { Err(Failure::NoName) } else { Ok(who) }
}
