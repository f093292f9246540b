//! Reads a file of bounded size as a whole. Refuses a longer one: its start alone is another file.

use std::io::{self, Read};

/// The bytes of a file that holds at most this many.
///
/// # Errors
/// When it cannot be read, or is longer.
pub(crate) fn read_whole(file: impl Read, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 <= max_bytes {
        true => Ok(bytes),
        false => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is longer than the limit of {max_bytes} bytes"),
        )),
    }
}
