//! Approvals by people (R33): who is enrolled, which rules apply, what awaits approval, and the verdicts that people sign with their own
//! keys. Every entry written here is first judged as an outsider would judge it, and appended only if the log has not grown
//! since, so an honest log holds nothing that `crealeph ledger verify` refuses.

mod approver;
mod case;
mod change;
mod draft;
mod error;
mod history;
mod inbox;
mod inbox_report;
mod kept_history;
mod likeness;
mod passkeys;
mod people;
mod report;
mod ruled;
mod rules_file;
mod verdict;

pub use crealeph_verify::EnrolledPerson;

pub use approver::Approver;
pub use case::{Moment, SubjectBasis, SubjectCase, SubjectReader, next_step};
pub use change::change_of;
pub(crate) use change::{
    ChangeLanding, append_outcome, decided_changes, held_change, held_change_draft, read_change,
};
pub use draft::{Evidence, draft_requester};
pub use error::ApprovalError;
pub use history::{
    ApprovalHistory, StatementSigner, UnsignedError, append_unsigned, is_unsigned_refused, record,
    record_once, rules_in_force,
};
pub use inbox::{InboxItem, InboxScan, RejectedSubjects, awaited_inbox, inbox, waiting_changes};
pub use inbox_report::{ChangeOutline, InboxPage, InboxRow, LapsedVerdict, VerdictOutline, rule_in_words};
pub use likeness::SubjectLikeness;
pub use passkeys::{
    EnrolledByLink, InvitationTerms, Invited, NewInvitation, invitation, sign_in_question, signed_in,
};
pub use people::{StatementPlace, enrolment, first_enrolment, revocation, rule_statement};
pub use report::{
    DecisionReport, EvidenceReport, ExplainedApproval, PasskeyReport, PersonKeyReport, PersonReport,
    PolicyOutline, VerdictReport, VerdictTerms, missing_approvals, rule_json, unsigned_json,
};
pub use ruled::{RuledSubject, ruled_subjects};
pub use rules_file::{MAX_RULES, RulesTextError, read_rules};
pub use verdict::{Landed, RecordedVerdict, verdict_statement};
