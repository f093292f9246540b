//! The limits of the ledger; each can be lowered or raised when it is opened, but not removed.

/// The limits of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerLimits {
    /// Entries in one batch.
    pub batch_entries: usize,
    /// Bytes of one entry's payload, in canonical form; at most 48 MiB.
    pub payload_bytes: usize,
    /// Bytes of all payloads of one batch.
    pub batch_bytes: usize,
    /// Ids in one entry's lineage.
    pub lineage_ids: usize,
    /// Entries on one page.
    pub page_entries: usize,
    /// Entries read for one page, whether they match or not.
    pub page_scan: usize,
    /// Types and states of one robot that a list of its entries is merged from; a robot with more is searched like a filter
    /// without an index.
    pub list_classes: usize,
    /// Steps a lineage is followed.
    pub lineage_depth: usize,
    /// Entries that one lineage query returns.
    pub lineage_entries: usize,
    /// Batches that may wait for the writer.
    pub waiting_batches: usize,
    /// Milliseconds to wait for another process's write or a connection.
    pub wait_ms: u64,
    /// Milliseconds by which clocks may differ: a log's newest entry and the clock, the database's clock and the machine's.
    pub clock_skew_ms: i64,
}

/// The largest payload that any limit can allow: with everything around it, it fits into a line of an export.
const MAX_PAYLOAD_BYTES: usize = 48 << 20;

impl LedgerLimits {
    /// The same, with no payload too large for a readable export.
    pub(crate) fn bounded(self) -> LedgerLimits {
        LedgerLimits { payload_bytes: self.payload_bytes.min(MAX_PAYLOAD_BYTES), ..self }
    }
}

impl Default for LedgerLimits {
    fn default() -> Self {
        LedgerLimits {
            batch_entries: 1_000,
            payload_bytes: 4 << 20,
            batch_bytes: 16 << 20,
            lineage_ids: 1_000,
            page_entries: 1_000,
            page_scan: 100_000,
            list_classes: 1_000,
            lineage_depth: 64,
            lineage_entries: 10_000,
            waiting_batches: 1_024,
            wait_ms: 10_000,
            clock_skew_ms: 300_000,
        }
    }
}
