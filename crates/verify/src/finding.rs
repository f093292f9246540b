//! The result of a failed check: the first problem, its stable code, and where it is.

/// The kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingKind {
    /// Not the document it should be, or not of the log the key is for.
    Unreadable,
    /// A content does not match its hash or its signed statement.
    Changed,
    /// An entry, a receipt, a file or a digest is missing.
    Missing,
    /// Entries are in another order.
    Reordered,
    /// An entry that breaks the rules of a log: no ledger would have accepted it.
    Invalid,
    /// A row that no tree has.
    Extra,
    /// A signature does not match.
    Forged,
    /// A checkpoint that none of the user's keys has signed.
    Unsigned,
    /// Triggers, indexes, policies or privileges of the ledger are not those that the program creates.
    Schema,
    /// Two signed histories that cannot both be true, or a history other than the signed one.
    Forked,
    /// The log or chain ends before a checkpoint or receipt that the user kept.
    Truncated,
}

impl FindingKind {
    /// The stable code.
    pub fn as_str(self) -> &'static str {
        match self {
            FindingKind::Unreadable => "unreadable",
            FindingKind::Changed => "changed",
            FindingKind::Missing => "missing",
            FindingKind::Reordered => "reordered",
            FindingKind::Invalid => "invalid",
            FindingKind::Extra => "extra",
            FindingKind::Forged => "forged",
            FindingKind::Unsigned => "unsigned",
            FindingKind::Schema => "schema",
            FindingKind::Forked => "forked",
            FindingKind::Truncated => "truncated",
        }
    }
}

/// The first problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", .kind.as_str())]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// The sequence number of the first entry, or the position of the receipt, that is or may be wrong.
    pub seq: Option<u64>,
    /// What is wrong, for a person.
    pub what: String,
}

impl Finding {
    /// A finding about no entry or position in particular.
    pub(crate) fn new(kind: FindingKind, what: impl Into<String>) -> Self {
        Finding { kind, seq: None, what: what.into() }
    }

    /// A content does not match its hash or its signed statement.
    pub(crate) fn changed(what: impl Into<String>) -> Self {
        Finding::new(FindingKind::Changed, what)
    }

    /// The same finding about this entry or position.
    pub(crate) fn at(self, seq: u64) -> Self {
        Finding { seq: Some(seq), ..self }
    }

    /// The same finding about a part that is named first.
    pub(crate) fn about(self, name: &str) -> Self {
        Finding { what: format!("{name}: {}", self.what), ..self }
    }
}
