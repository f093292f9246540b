//! Reading what a command is given: a file or standard input, within a bound, with a clear message if it cannot be read.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FileType;

use crate::failure::{ArgumentFailure, InputFailure};
use crate::output::note;

/// The bound on one document.
pub(crate) const DEFAULT_MAX_BYTES: usize = 16 << 20;

/// What a source is read through.
pub(crate) type Reader = BufReader<Box<dyn Read>>;

/// A file, or standard input.
#[derive(Clone, Debug)]
pub(crate) struct Source(Option<PathBuf>);

impl Source {
    /// The file, or standard input if there is no path or it is `-`.
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
    pub(crate) fn open(&self) -> Result<Reader, InputFailure> {
        let Some(path) = &self.0 else {
            if io::stdin().is_terminal() {
                note!("reading standard input; end with Ctrl-D");
            }
            return Ok(BufReader::new(Box::new(io::stdin())));
        };
        // A pipe is opened without waiting for a writer, who may never come.
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = opened.map_err(|error| self.failure(error))?;
        let kind = file.metadata().map_err(|error| self.failure(error))?.file_type();
        if kind.is_dir() {
            return Err(InputFailure::IsDirectory(path.clone()));
        }
        let mut first = Vec::new();
        if kind.is_fifo() {
            let read = first_bytes(&file).map_err(|error| self.failure(error))?;
            first = read.ok_or_else(|| InputFailure::NoWriter(path.clone()))?;
        }
        let blocking = rustix::fs::fcntl_getfl(&file)
            .and_then(|flags| rustix::fs::fcntl_setfl(&file, flags - rustix::fs::OFlags::NONBLOCK));
        blocking.map_err(|error| self.failure(error.into()))?;
        Ok(BufReader::new(Box::new(io::Cursor::new(first).chain(file))))
    }

    /// How many bytes it has, if it is a file.
    pub(crate) fn size(&self) -> Option<u64> {
        let found = match &self.0 {
            Some(path) => rustix::fs::stat(path),
            None => rustix::fs::fstat(io::stdin()),
        };
        let found = found.ok().filter(|found| FileType::from_raw_mode(found.st_mode).is_file())?;
        u64::try_from(found.st_size).ok()
    }

    /// Reads it whole, but at most one byte more than the bound, so that the reader can tell.
    pub(crate) fn read(&self, max_bytes: usize) -> Result<Vec<u8>, InputFailure> {
        let mut bytes = Vec::new();
        let bound = (max_bytes as u64).saturating_add(1);
        self.open()?.take(bound).read_to_end(&mut bytes).map_err(|error| self.failure(error))?;
        Ok(bytes)
    }

    /// Reads it whole, within the bound.
    pub(crate) fn read_bounded(&self, max_bytes: usize) -> Result<Vec<u8>, InputFailure> {
        let bytes = self.read(max_bytes)?;
        match bytes.len() <= max_bytes {
            true => Ok(bytes),
            false => Err(InputFailure::TooLarge { what: self.name(), limit: max_bytes }),
        }
    }

    /// What was read of it, as text.
    pub(crate) fn text(&self, bytes: Vec<u8>) -> Result<String, InputFailure> {
        String::from_utf8(bytes).map_err(|_| self.failure(io::ErrorKind::InvalidData.into()))
    }

    /// What an error in reading means.
    pub(crate) fn failure(&self, error: io::Error) -> InputFailure {
        let path = self.0.clone().unwrap_or_else(|| PathBuf::from("standard input"));
        match error.kind() {
            io::ErrorKind::NotFound => InputFailure::NotFound(path),
            io::ErrorKind::IsADirectory => InputFailure::IsDirectory(path),
            io::ErrorKind::InvalidData => InputFailure::NotText(path),
            _ => InputFailure::Unreadable { path, source: error },
        }
    }
}

/// Waits a moment for someone to write to a pipe that was opened without waiting: what was read of it by then, or nothing
/// if no one came.
fn first_bytes(mut pipe: &File) -> io::Result<Option<Vec<u8>>> {
    for _ in 0..20 {
        let mut byte = [0];
        match pipe.read(&mut byte) {
            // The end of a pipe that no one has opened for writing yet, or any more.
            Ok(0) => std::thread::sleep(Duration::from_millis(50)),
            Ok(_) => return Ok(Some(byte.to_vec())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(Vec::new())),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// One line of a stream.
pub(crate) enum Line {
    /// A line, without its end.
    Whole(Vec<u8>),
    /// A line longer than the bound; the rest of it was not read.
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
    Ok(Line::TooLong)
}

/// Passes over the rest of a line that was too long; false if it does not end within the bound either.
pub(crate) fn skip_line(reader: &mut Reader, max_bytes: usize) -> io::Result<bool> {
    let mut left = max_bytes;
    loop {
        let buffer = reader.fill_buf()?;
        let (length, is_end) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(end) => (end + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        reader.consume(length);
        if is_end {
            return Ok(true);
        }
        let Some(less) = left.checked_sub(length) else { return Ok(false) };
        left = less;
    }
}

/// Who decides: the name from a flag, else the user's name.
pub(crate) fn who(by: Option<String>) -> Result<String, ArgumentFailure> {
    let who = by.or_else(|| std::env::var("USER").ok()).unwrap_or_default();
    if who.trim().is_empty() { Err(ArgumentFailure::NoName) } else { Ok(who) }
}
