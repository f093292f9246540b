//! What a verdict's statement that someone else wrote must say before it is signed: only what the person was shown and asked for. Which
//! log it names, and who it says has the key, is for the caller, who knows the log of before and shows the name.

use crealeph_contracts::approval::{SubjectKind, VerdictRequest, VerdictStatement};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::scalar::{LedgerId, Literal, Name, TenantId};

/// Where a draft lands.
pub const DRAFT_TARGET: Literal = Literal::new("ledger");

/// A subject as a person is shown it who is about to sign.
#[derive(Clone, Debug)]
pub struct SignableSubject {
    /// The tenant.
    pub tenant_id: TenantId,
    /// Draft or change.
    pub kind: SubjectKind,
    /// Its id.
    pub id: LedgerId,
    /// The digest of exactly what is shown.
    pub digest: Blake3,
    /// Where it lands.
    pub target: Name,
    /// The state that a change was made on.
    pub base_state: Option<Blake3>,
    /// The digest of the rule that is shown.
    pub rule_digest: Blake3,
    /// Whether that rule lets verdicts lapse.
    pub has_expiry: bool,
    /// The place of its entry in the log.
    pub seq: u64,
}

/// A statement that is not what was shown or asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the statement does not say what was shown: {what}")]
pub struct OtherStatement {
    /// What it says otherwise.
    pub what: &'static str,
}

/// Refuses a statement that says anything other than what was shown or requested.
///
/// # Errors
/// With the first thing that it says otherwise.
pub fn check_statement(
    shown: &SignableSubject,
    asked: &VerdictRequest,
    statement: &VerdictStatement,
) -> Result<(), OtherStatement> {
    let checks = [
        (statement.tenant_id == shown.tenant_id, "the tenant"),
        (statement.subject_kind == shown.kind, "the kind of the subject"),
        (statement.subject_id == shown.id, "the subject"),
        (statement.subject_digest == shown.digest, "the digest of the subject"),
        (statement.target == shown.target, "where it lands"),
        (statement.base_state == shown.base_state, "the state that it was made on"),
        (statement.decision == asked.decision, "the decision"),
        (statement.reason == asked.reason, "the reason"),
        (statement.key_id == asked.key_id, "the key"),
        (statement.unattended == asked.unattended.unwrap_or(false), "whether it was given unattended"),
        (statement.rule_digest == shown.rule_digest, "the rule"),
        (statement.expires.is_some() == shown.has_expiry, "whether it lapses, and when"),
        (statement.evidence_seq.get() >= shown.seq, "the state of the log"),
    ];
    match checks.into_iter().find(|(holds, _)| !holds) {
        Some((_, what)) => Err(OtherStatement { what }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use crealeph_contracts::approval::ApprovalDocument as _;

    use super::*;

    const DIGEST: &str = "0000000000000000000000000000000000000000000000000000000000000000";

    fn shown() -> SignableSubject {
        let digest = Blake3::parse(DIGEST).unwrap();
        SignableSubject {
            tenant_id: TenantId::parse("t").unwrap(),
            kind: SubjectKind::Change,
            id: LedgerId::parse("run-1").unwrap(),
            digest,
            target: Name::parse("workspace").unwrap(),
            base_state: Some(digest),
            rule_digest: digest,
            has_expiry: true,
            seq: 7,
        }
    }

    fn statement() -> String {
        format!(
            r#"{{"type":"verdict","tenantId":"t","logOrigin":"l","subjectKind":"change","subjectId":"run-1","subjectDigest":"{DIGEST}","target":"workspace","decision":"approve","reason":"tested","person":"ana","keyId":"SHA256:x","ruleDigest":"{DIGEST}","evidenceSeq":7,"evidenceRoot":"{DIGEST}","baseState":"{DIGEST}","nonce":"0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f","time":"2026-01-02T03:04:05.000Z","expires":"2026-01-02T04:04:05.000Z","unattended":false}}"#
        )
    }

    fn checked(text: &str) -> Result<(), OtherStatement> {
        let asked = r#"{"subject":"run-1","decision":"approve","reason":"tested","keyId":"SHA256:x"}"#;
        let asked: VerdictRequest = VerdictRequest::parse(asked.as_bytes()).unwrap();
        check_statement(&shown(), &asked, &VerdictStatement::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_statement_that_says_anything_else_is_refused_and_named() {
        assert_eq!(checked(&statement()), Ok(()));
        // Entries that were appended since are no reason.
        assert_eq!(checked(&statement().replace(r#""evidenceSeq":7"#, r#""evidenceSeq":8"#)), Ok(()));
        let digest = |member: &str| (format!(r#""{member}":"0"#), format!(r#""{member}":"1"#));
        let text = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        for ((from, to), what) in [
            (text(r#""tenantId":"t""#, r#""tenantId":"u""#), "the tenant"),
            (text(r#""subjectKind":"change""#, r#""subjectKind":"draft""#), "the kind of the subject"),
            (text("run-1", "run-2"), "the subject"),
            (digest("subjectDigest"), "the digest of the subject"),
            (text("workspace", "branch:main"), "where it lands"),
            (digest("baseState"), "the state that it was made on"),
            (text(&format!(r#""baseState":"{DIGEST}","#), ""), "the state that it was made on"),
            (text("approve", "reject"), "the decision"),
            (text("tested", "other"), "the reason"),
            (text(r#""reason":"tested","#, ""), "the reason"),
            (text("SHA256:x", "SHA256:y"), "the key"),
            (text("false", "true"), "whether it was given unattended"),
            (digest("ruleDigest"), "the rule"),
            (text(r#""expires":"2026-01-02T04:04:05.000Z","#, ""), "whether it lapses, and when"),
            (text(r#""evidenceSeq":7"#, r#""evidenceSeq":6"#), "the state of the log"),
        ] {
            let changed = statement().replace(&from, &to);
            assert_ne!(changed, statement(), "{from}");
            assert_eq!(checked(&changed), Err(OtherStatement { what }), "{to}");
        }
    }
}
