//! The whole log of a server, as the export that its auditors get. Nothing in it is trusted because a server sent it: it is
//! verified, and everything else derived from it, on this machine.

use std::io::{BufReader, Read as _};

use super::RemoteLog;
use crate::failure::Failure;
use crate::input::{Reader, Source};

/// The media type of an export.
const LINES_TYPE: &str = "application/x-ndjson";
/// How much of an export is read. What is beyond is missing, and anyone who reads the export notices.
const MAX_EXPORT_BYTES: u64 = 1 << 38;

impl RemoteLog {
    /// The export, line by line as it comes, and the name that messages about it use.
    pub(in crate::commands) fn export(&self) -> Result<(Source, Reader), Failure> {
        let stream = self.client.stream(&["export"], LINES_TYPE)?;
        let reader: Reader = BufReader::new(Box::new(stream.take(MAX_EXPORT_BYTES)));
        Ok((Source::new(Some(self.client.url().into())), reader))
    }
}
