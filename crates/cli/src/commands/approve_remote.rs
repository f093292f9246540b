//! A verdict that is submitted to a server. The server writes the statement, and this machine signs it, so everything in it that is
//! known here is compared with what the person was shown: a malicious server gets no signature over anything else.

use crealeph_contracts::approval::{
    ApprovalDocument as _, ApprovalRule, SignedPayload, SubjectKind, VerdictRequest, VerdictStatement,
};
use crealeph_contracts::contract::to_json;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::held_change::HeldChangeRecord;
use crealeph_contracts::scalar::{LedgerId, Name};
use crealeph_contracts::short_id::{IdWord, NamedKind};
use crealeph_decision::approval::{DRAFT_TARGET, SignableSubject, check_statement};
use crealeph_ledger::{Cursor, StoredEntry};
use crealeph_runtime::approvals::{
    DecisionReport, EvidenceReport, PersonReport, PolicyOutline, VerdictReport, change_of, draft_requester,
};
use crealeph_runtime::client::ClientError;
use crealeph_runtime::entries::read_entry;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::CommandOutcome;
use super::admin_log::check_log;
use super::approve::{AskedVerdict, VerdictSource, print_recorded};
use super::ids::nth_waiting;
use super::ledger::named;
use super::place::{LogSource, RemoteLog};
use super::verdict_page::{ShownSubject, shown};
use crate::failure::{ApprovalFailure, Failure, LedgerFailure, ServerFailure};
use crate::output::{Output, note};
use crate::page::Page;

#[derive(Deserialize)]
struct UnsignedDocument {
    statement: Box<RawValue>,
}

/// The outcome of a verdict, and what is left to be done.
#[derive(Deserialize)]
struct RecordedDocument {
    #[serde(flatten)]
    report: VerdictReport,
    next: Option<String>,
}

/// A subject as a server shows it: its entry read strictly, its digest computed here.
struct RemoteSubject<'r> {
    remote: &'r RemoteLog,
    id: LedgerId,
    entry: StoredEntry,
    change: Option<HeldChangeRecord>,
    digest: Blake3,
    rule: ApprovalRule,
    evidence: Vec<EvidenceReport>,
    policy: Option<PolicyOutline>,
}

impl AskedVerdict {
    pub(super) fn run_remote(
        self,
        remote: &RemoteLog,
        subject: &str,
        output: &mut Output,
    ) -> Result<CommandOutcome, Failure> {
        if self.by.is_some() {
            return Err(ApprovalFailure::ByRefused.into());
        }
        let log = LogSource::Server(remote.clone());
        let id = subject_id(remote, &log, subject)?;
        let signed = match &self.signed {
            Some((statement, signature)) => Some(self.read_signed(&id, statement, signature)?),
            None => self.sign(&RemoteSubject::read(remote, &id)?, None)?,
        };
        let Some(signed) = signed else { return Ok(self.unsigned_verdict()) };
        let RecordedDocument { report, next } = record(remote, &signed)?;
        print_recorded(&report, &log, remote.is_json, output)?;
        output.flush()?;
        if let Some(next) = next.filter(|_| report.missing == 0) {
            note!("{next}");
        }
        Ok(CommandOutcome::Good)
    }
}

/// Hands a verdict in. Sending it again is safe.
fn record(remote: &RemoteLog, signed: &SignedPayload) -> Result<RecordedDocument, Failure> {
    Ok(remote.client.ask(&["verdicts"], &[], to_json(signed).as_bytes())?.read()?)
}

/// The subject that a word means: `@` is the newest that waits, else a draft or the run of a held change, or the start of one.
fn subject_id(remote: &RemoteLog, log: &LogSource, word: &str) -> Result<LedgerId, Failure> {
    let missing = || LedgerFailure::NoEntry { name: word.to_owned(), tenant: remote.tenant.to_string() };
    let id = match IdWord::read(word) {
        IdWord::Recent(newer) => {
            let page = |cursor, limit| {
                let page = remote.inbox(cursor, limit)?;
                Ok((page.items, page.next.as_deref().map(Cursor::parse).transpose()?))
            };
            nth_waiting(newer, page)?.ok_or_else(missing)?.subject
        }
        IdWord::Start(start) => match log.id_of(NamedKind::Run, start)? {
            Some(run) => run,
            None => log.id_of(NamedKind::Entry, start)?.ok_or_else(missing)?,
        },
    };
    Ok(named("id", &id, LedgerId::parse)?)
}

impl<'r> RemoteSubject<'r> {
    /// Reads what the server shows, which must be the requested subject.
    fn read(remote: &'r RemoteLog, id: &LedgerId) -> Result<Self, Failure> {
        let answer = remote.client.get(&["inbox", id.as_str()], &[])?;
        let DecisionReport { entry, rule, evidence, policy, .. } = answer.read()?;
        let entry = answer.read_with(|_| read_entry(entry.get()))?;
        let rule = answer.read_with(|_| {
            ApprovalRule::parse(rule.get().as_bytes()).map_err(|violations| {
                violations.first().map_or("its rule cannot be read".to_owned(), ToString::to_string)
            })
        })?;
        let change = change_of(&entry);
        let digest = match &change {
            Some(record) => record.digest()?,
            None => Blake3::of(entry.canonical().as_bytes()),
        };
        let own = change.as_ref().map_or_else(|| entry.id.to_string(), |record| record.run.to_string());
        if own != id.as_str() || entry.tenant_id != remote.tenant {
            return Err(
                ServerFailure::NotShown { what: "it shows another subject than the one asked for" }.into()
            );
        }
        Ok(RemoteSubject { remote, id: id.clone(), entry, change, digest, rule, evidence, policy })
    }

    /// Refuses a statement that says anything other than what was shown or requested.
    fn check(&self, statement: &VerdictStatement, asked: &VerdictRequest) -> Result<(), Failure> {
        let (kind, target, base_state) = match &self.change {
            Some(record) => (SubjectKind::Change, record.target.clone(), Some(record.base_state)),
            None => (SubjectKind::Draft, Name::from(DRAFT_TARGET), None),
        };
        let shown = SignableSubject {
            tenant_id: self.remote.tenant.clone(),
            kind,
            id: self.id.clone(),
            digest: self.digest,
            target,
            base_state,
            rule_digest: self.rule.digest()?,
            has_expiry: self.rule.ttl_minutes.is_some(),
            seq: self.entry.seq.get(),
        };
        let checked = check_statement(&shown, asked, statement);
        Ok(checked.map_err(|other| ServerFailure::NotShown { what: other.what })?)
    }
}

impl VerdictSource for RemoteSubject<'_> {
    /// Whether someone's key is enrolled and not revoked, as the server says; it must be so when the verdict is recorded.
    fn known_keys(&self) -> Result<Vec<String>, Failure> {
        let mut known = Vec::new();
        for person in self.remote.people()?.people {
            let unread = |error: serde_json::Error| ClientError::Answer {
                url: self.remote.client.url().to_owned(),
                why: error.to_string(),
            };
            let person: PersonReport = serde_json::from_value(person).map_err(unread)?;
            known.extend(person.keys.into_iter().filter(|key| !key.revoked).map(|key| key.key_id));
        }
        Ok(known)
    }

    fn statement(&self, asked: &AskedVerdict, fingerprint: &str) -> Result<VerdictStatement, Failure> {
        let request = VerdictRequest {
            subject: self.id.clone(),
            decision: asked.decision,
            reason: asked.reason_text()?,
            key_id: named("key", fingerprint, Name::parse)?,
            unattended: Some(asked.is_sure),
        };
        let answer = self.remote.client.ask(&["verdicts", "statement"], &[], to_json(&request).as_bytes())?;
        let document: UnsignedDocument = answer.read()?;
        let statement = answer.read_with(|_| {
            VerdictStatement::parse(document.statement.get().as_bytes()).map_err(|violations| {
                violations.first().map_or("its statement cannot be read".to_owned(), ToString::to_string)
            })
        })?;
        self.check(&statement, &request)?;
        check_log(self.remote, &statement.log_origin)?;
        Ok(statement)
    }

    fn page(&self, statement: &VerdictStatement, diff: Option<&str>) -> Page {
        let requester = match &self.change {
            Some(change) => change.requester.as_ref().map(|asked| format!("{}@{}", asked.user, asked.host)),
            None => draft_requester(&self.entry).map(|asked| asked.to_string()),
        };
        let subject = ShownSubject {
            entry: &self.entry,
            id: &self.id,
            digest: self.digest,
            rule: &self.rule,
            change: self.change.as_ref(),
            evidence: self.evidence.clone(),
            policy: self.policy.clone(),
            requester,
            server: Some(self.remote.client.url()),
        };
        shown(&subject, statement, diff)
    }
}
