//! What is wrong with a document: every violation with its place, clause, stable code and advice (R8).

use std::fmt;

use crate::json::{Fault, Node, ObjectWriter, Trail};

/// How many violations of one document are listed; the rest are counted.
pub const MAX_VIOLATIONS: usize = 1000;

/// A stable code. Lower-case codes are this validator's own; upper-case ones are the contracts' error codes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// The text is not UTF-8.
    NotUtf8,
    /// The text starts with a byte order mark.
    Bom,
    /// The text is not JSON.
    Syntax,
    /// The text is longer than the limit.
    TooLarge,
    /// Arrays and objects nest too deep.
    TooDeep,
    /// A key appears twice in one object.
    DuplicateKey,
    /// An escape names half of a surrogate pair.
    LoneSurrogate,
    /// An integer would change its digits as a double.
    InexactInteger,
    /// A number is beyond the largest double.
    NotFinite,
    /// A field that must be there is not.
    Missing,
    /// A key that the contract does not list.
    UnknownKey,
    /// A value of another kind than the contract requires.
    WrongType,
    /// Null where a field may only be absent.
    Null,
    /// A string, array or set that must not be empty is empty.
    Empty,
    /// Longer than its bound.
    TooLong,
    /// A control character in an identifier.
    ControlCharacter,
    /// A word that is not one of the contract's.
    NotAllowed,
    /// A number outside its range.
    OutOfRange,
    /// Not an RFC 3339 instant (R1).
    BadTimestamp,
    /// Not the text form that its type requires (a digest, a UUID, a path).
    BadForm,
    /// A path that leaves the workspace.
    OutsideWorkspace,
    /// Present although another field forbids it.
    Forbidden,
    /// Absent although another field requires it.
    Required,
    /// Against the value of another field.
    Mismatch,
    /// Against the value of the document it answers.
    ContextMismatch,
    /// A document that names itself where it must name another.
    SelfReference,
    /// An id that the context does not hold.
    UnknownId,
    /// Later than it may be.
    TooLate,
    /// An action or list entry that a rule requires is not there.
    NotListed,
    /// A decision that the rules do not permit.
    DecisionNotPermitted,
    /// A state that may not follow the one before.
    IllegalTransition,
    /// An attempt that is lower than, or does not exceed, the one before.
    AttemptNotIncreased,
    /// An outcome that the gate does not permit.
    GateRefused,
    /// Two work items of one id.
    DuplicateId,
    /// Dependencies that lead back to where they started.
    Cycle,
    /// More violations than are listed.
    TooMany,
    /// `INVALID_REQUEST` of builder-v1.
    InvalidRequest,
    /// `COHERENCE_BLOCKED` of builder-v1.
    CoherenceBlocked,
    /// `IDEMPOTENCY_CONFLICT` of builder-v1.
    IdempotencyConflict,
    /// A work run's denial: the reason itself, in the contract's wording, is its code (R25).
    Denied(Box<str>),
}

impl Code {
    /// The code as it is printed.
    pub fn as_str(&self) -> &str {
        match self {
            Code::NotUtf8 => "not_utf8",
            Code::Bom => "bom",
            Code::Syntax => "syntax",
            Code::TooLarge => "too_large",
            Code::TooDeep => "too_deep",
            Code::DuplicateKey => "duplicate_key",
            Code::LoneSurrogate => "lone_surrogate",
            Code::InexactInteger => "inexact_integer",
            Code::NotFinite => "not_finite",
            Code::Missing => "missing",
            Code::UnknownKey => "unknown_key",
            Code::WrongType => "wrong_type",
            Code::Null => "null",
            Code::Empty => "empty",
            Code::TooLong => "too_long",
            Code::ControlCharacter => "control_character",
            Code::NotAllowed => "not_allowed",
            Code::OutOfRange => "out_of_range",
            Code::BadTimestamp => "bad_timestamp",
            Code::BadForm => "bad_form",
            Code::OutsideWorkspace => "outside_workspace",
            Code::Forbidden => "forbidden",
            Code::Required => "required",
            Code::Mismatch => "mismatch",
            Code::ContextMismatch => "context_mismatch",
            Code::SelfReference => "self_reference",
            Code::UnknownId => "unknown_id",
            Code::TooLate => "too_late",
            Code::NotListed => "not_listed",
            Code::DecisionNotPermitted => "decision_not_permitted",
            Code::IllegalTransition => "illegal_transition",
            Code::AttemptNotIncreased => "attempt_not_increased",
            Code::GateRefused => "gate_refused",
            Code::DuplicateId => "duplicate_id",
            Code::Cycle => "cycle",
            Code::TooMany => "too_many",
            Code::InvalidRequest => "INVALID_REQUEST",
            Code::CoherenceBlocked => "COHERENCE_BLOCKED",
            Code::IdempotencyConflict => "IDEMPOTENCY_CONFLICT",
            Code::Denied(reason) => reason,
        }
    }

    /// Whether a JSON Schema can say it of a document alone, so that schema and validator must agree.
    pub fn is_schema_rule(&self) -> bool {
        matches!(
            self,
            Code::Missing
                | Code::UnknownKey
                | Code::WrongType
                | Code::Null
                | Code::Empty
                | Code::ControlCharacter
                | Code::NotAllowed
                | Code::OutOfRange
                | Code::BadForm
                | Code::Forbidden
                | Code::Required
                | Code::Mismatch
        )
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where: a JSON Pointer into the document; for a missing field, where it should be.
    pub pointer: String,
    /// The clause it breaks, `execution/7`, or the reading, `R3`.
    pub clause: &'static str,
    /// What kind of violation.
    pub code: Code,
    /// What is wrong and what to do, for a person.
    pub message: String,
    /// Where in the text, in bytes from start to end, if that is more precise than the pointer.
    pub span: Option<(usize, usize)>,
}

impl Violation {
    /// Adds the violation to `out` as a JSON object.
    pub fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::new(out);
        object.text("pointer", &self.pointer).text("clause", self.clause);
        object.text("code", self.code.as_str()).text("message", &self.message);
        object.end();
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "the document" } else { &self.pointer };
        write!(f, "{place}: {} [{} {}]", self.message, self.clause, self.code)
    }
}

/// Why a document was refused: at least one violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// Every violation, in the order found.
    pub fn as_slice(&self) -> &[Violation] {
        &self.0
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, violation) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str("; ")?;
            }
            violation.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Violations {}

/// Collects the violations of one document, within [`MAX_VIOLATIONS`].
#[derive(Debug, Default)]
pub struct Report {
    found: Vec<Violation>,
    omitted: usize,
    refusal: Option<Code>,
    trail: Trail,
}

impl Report {
    /// An empty report. With a `refusal`, every violation carries that code: the contract's own error code.
    pub fn new(refusal: Option<Code>) -> Self {
        Report { refusal, ..Report::default() }
    }

    /// Nothing was found wrong.
    pub fn is_clean(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether a violation of this code was found.
    pub fn has(&self, code: &Code) -> bool {
        self.found.iter().any(|violation| violation.code == *code)
    }

    /// Adds a violation at a node of the document.
    pub fn at(&mut self, node: Node<'_>, clause: &'static str, code: Code, message: impl FnOnce() -> String) {
        self.push(clause, code, |trail| (trail.pointer(node).to_owned(), message(), Some(node.span())));
    }

    /// Adds a violation at the place where a member of the object should be.
    pub(crate) fn at_member(
        &mut self,
        object: Node<'_>,
        key: &str,
        clause: &'static str,
        code: Code,
        message: impl FnOnce() -> String,
    ) {
        self.push(clause, code, |trail| (format!("{}/{key}", trail.pointer(object)), message(), None));
    }

    /// Adds a violation at a place known by its pointer.
    pub fn add(
        &mut self,
        pointer: impl Into<String>,
        clause: &'static str,
        code: Code,
        message: impl Into<String>,
    ) {
        self.push(clause, code, |_| (pointer.into(), message.into(), None));
    }

    /// Adds what the parser found.
    pub fn add_fault(&mut self, fault: Fault) {
        let Fault { pointer, span, code, message } = fault;
        self.push("R3", code, |_| (pointer, message, Some(span)));
    }

    /// A document that is about to be read may be at the address of an earlier one.
    pub(crate) fn start_document(&mut self) {
        self.trail = Trail::default();
    }

    fn push(
        &mut self,
        clause: &'static str,
        code: Code,
        rest: impl FnOnce(&mut Trail) -> (String, String, Option<(usize, usize)>),
    ) {
        if self.found.len() >= MAX_VIOLATIONS {
            self.omitted += 1;
            return;
        }
        let code = self.refusal.clone().unwrap_or(code);
        let (pointer, message, span) = rest(&mut self.trail);
        self.found.push(Violation { pointer, clause, code, message, span });
    }

    /// Everything found, oldest first; empty when the document is valid.
    pub fn into_violations(mut self) -> Vec<Violation> {
        if self.omitted > 0 {
            self.found.push(Violation {
                pointer: String::new(),
                clause: "R8",
                code: self.refusal.unwrap_or(Code::TooMany),
                message: format!("{} more violations are not listed; fix these first", self.omitted),
                span: None,
            });
        }
        self.found
    }

    /// Everything found, as the error a parse ends with.
    pub(crate) fn into_violations_error(self) -> Violations {
        Violations(self.into_violations())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(count: usize) -> Report {
        let mut report = Report::default();
        (0..count).for_each(|at| report.add(format!("/{at}"), "R2", Code::Empty, "is empty"));
        report
    }

    #[test]
    fn a_violation_says_where_what_and_which_clause() {
        let mut report = Report::default();
        assert!(report.is_clean() && !report.has(&Code::Empty));
        report.add("", "R3", Code::Syntax, "cut off");
        report.add("/a/0", "R2", Code::Empty, "name \"it\"");
        assert!(!report.is_clean() && report.has(&Code::Empty) && !report.has(&Code::Missing));
        let violations = report.into_violations_error();
        assert_eq!(violations.as_slice().len(), 2);
        assert_eq!(violations.to_string(), "the document: cut off [R3 syntax]; /a/0: name \"it\" [R2 empty]");
        let mut out = String::new();
        violations.as_slice()[1].write(&mut out);
        assert_eq!(out, r#"{"pointer":"/a/0","clause":"R2","code":"empty","message":"name \"it\""}"#);
    }

    #[test]
    fn a_missing_field_is_a_schema_rule_and_a_late_time_is_not() {
        assert!(Code::Missing.is_schema_rule() && !Code::TooLate.is_schema_rule());
    }

    #[test]
    fn a_report_lists_up_to_its_limit_and_counts_the_rest() {
        assert_eq!(report(MAX_VIOLATIONS).into_violations().len(), MAX_VIOLATIONS);
        for more in [1, 3] {
            let violations = report(MAX_VIOLATIONS + more).into_violations();
            let last = violations.last().unwrap();
            assert_eq!((violations.len(), &last.code), (MAX_VIOLATIONS + 1, &Code::TooMany));
            assert!(last.message.starts_with(&format!("{more} more violations")), "{}", last.message);
        }
    }
}
