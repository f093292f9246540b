//! The form of an export of a log: a first line about the log, then a line for each entry and checkpoint.

/// The format that the first line names.
pub const EXPORT_FORMAT: &str = "crealeph-ledger-export-v1";
/// The longest first line: an endless one is refused at once.
pub const MAX_EXPORT_HEADER_BYTES: usize = 64 << 10;
/// The longest line.
pub const MAX_EXPORT_LINE_BYTES: usize = 64 << 20;
