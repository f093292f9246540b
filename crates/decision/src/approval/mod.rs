//! Approvals (R33): which rule applies to a subject, which verdicts count and why the others do not, and what is missing. A
//! pure function of the log's entries, the subject and the time, so that anyone can derive it again.

mod entries;
mod outlook;
mod people;
mod rule;
mod state;
mod statement;
mod verdicts;

pub use entries::ApprovalEntries;
pub use outlook::VerdictOutlook;
pub use people::People;
pub use rule::{SubjectClass, needs_approval, rule_for};
pub use state::{JudgedVerdict, SubjectOutcome, SubjectState, derive};
pub use statement::{DRAFT_TARGET, OtherStatement, SignableSubject, check_statement};
pub use verdicts::{ApprovalSubject, Requester, Uncounted};
