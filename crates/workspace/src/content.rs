//! Reading a file's content into its digest. Owns the reading in bounded memory; large files are hashed on all cores.

use std::fs::File;
use std::io::{self, Read};

use crealeph_contracts::digest::Blake3;

use crate::deadline::Deadline;

/// How much of a file is in memory at once.
const BUFFER_BYTES: usize = 128 << 10;
/// From this size on, one file is hashed on all cores.
const LARGE_BYTES: u64 = 16 << 20;
const LARGE_BUFFER_BYTES: usize = 4 << 20;

/// The digest of what a reader yields, and how many bytes it was. `size_bytes` is a guess that only guides the reading.
pub(crate) fn digest(reader: &mut impl Read, size_bytes: u64) -> io::Result<(Blake3, u64)> {
    each_chunk(reader, size_bytes, |_| Ok(()))
}

/// The same, unless it has to end before.
pub(crate) fn digest_until(
    reader: &mut impl Read,
    size_bytes: u64,
    deadline: Deadline<'_>,
) -> io::Result<(Blake3, u64)> {
    deadline.check()?;
    each_chunk(reader, size_bytes, |_| deadline.check())
}

/// The same, passing on every chunk.
pub(crate) fn each_chunk(
    reader: &mut impl Read,
    size_bytes: u64,
    mut chunk: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<(Blake3, u64)> {
    let is_large = size_bytes >= LARGE_BYTES;
    let room = usize::try_from(size_bytes).unwrap_or(usize::MAX).saturating_add(1);
    let mut buffer = vec![0; room.clamp(1024, if is_large { LARGE_BUFFER_BYTES } else { BUFFER_BYTES })];
    let mut hasher = blake3::Hasher::new();
    let mut total_bytes = 0_u64;
    loop {
        let filled = fill(reader, &mut buffer)?;
        let read = buffer.get(..filled).unwrap_or_default();
        if is_large {
            hasher.update_rayon(read);
        } else {
            hasher.update(read);
        }
        chunk(read)?;
        total_bytes += filled as u64;
        if filled < buffer.len() {
            return Ok((Blake3::from_bytes(*hasher.finalize().as_bytes()), total_bytes));
        }
    }
}

/// Reads until the buffer is full or there is no more.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(free) = buffer.get_mut(filled..).filter(|free| !free.is_empty()) {
        match reader.read(free) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Copies a file's content and returns its digest. The copy shares its blocks with the original if the file system can.
pub(crate) fn copy(from: &File, to: &File, size_bytes: u64) -> io::Result<(Blake3, u64)> {
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return digest(&mut &*to, size_bytes);
    }
    each_chunk(&mut &*from, size_bytes, |read| io::Write::write_all(&mut &*to, read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_right_for_any_size_and_any_guess() {
        for size in [0, 1, 1023, 1024, 1025, BUFFER_BYTES, BUFFER_BYTES + 1, LARGE_BUFFER_BYTES * 2 + 7] {
            let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            for guess in [0, size as u64, LARGE_BYTES] {
                let mut copied = Vec::new();
                let digested = each_chunk(&mut &bytes[..], guess, |chunk| {
                    copied.extend_from_slice(chunk);
                    Ok(())
                });
                assert_eq!(digested.unwrap(), (Blake3::of(&bytes), size as u64));
                assert_eq!(copied, bytes);
            }
        }
    }
}
