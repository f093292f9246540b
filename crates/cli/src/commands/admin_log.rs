//! A log whose people and rules an admin changes: of a local ledger, or of a server. The statement is built and signed on this machine
//! either way; the server only provides the log's name, which must be the one that it named before, and the owner of the admin's key.

use std::path::Path;

use crealeph_contracts::approval::{ADMINS, SignedKind, SignedPayload, SignedStatement};
use crealeph_contracts::contract::to_json;
use crealeph_contracts::scalar::{Name, TenantId};
use crealeph_contracts::shape::Set;
use crealeph_ledger::{Clock, Ledger};
use crealeph_runtime::approvals::{
    ApprovalError, ApprovalHistory, PersonKeyReport, PersonReport, StatementPlace, StatementSigner, record,
};
use crealeph_runtime::entries::AppendedReport;
use crealeph_runtime::known_logs::check_known_log;
use serde::Deserialize as _;

use super::ledger::named;
use super::place::{Place, RemoteLog, RemotePeople};
use crate::failure::{Failure, ServerFailure};
use crate::output::note;
use crate::signing::SigningKey;
use crate::user_state;

/// A log, as an admin meets it.
pub(super) enum AdminLog<'p> {
    Here { ledger: Ledger, tenant: &'p TenantId, history: Box<ApprovalHistory> },
    Server { remote: &'p RemoteLog, place: StatementPlace, root: Option<String>, people: Vec<PersonReport> },
}

/// Refuses a log of a server that is not the one that it named before.
pub(super) fn check_log(remote: &RemoteLog, origin: &Name) -> Result<(), Failure> {
    match user_state::folder() {
        Some(state) => {
            let checked = check_known_log(&state, remote.client.url(), &remote.tenant, origin);
            Ok(checked.map_err(ServerFailure::from)?)
        }
        None => {
            note!("warning: there is no state directory, so another log of this server would not be noticed");
            Ok(())
        }
    }
}

impl<'p> AdminLog<'p> {
    /// The log, in which someone is enrolled.
    pub(super) fn open(at: &'p Place) -> Result<Self, Failure> {
        let log = match at {
            Place::Here(at) => {
                let ledger = at.open()?;
                let history = ApprovalHistory::load(&ledger, &at.tenant)?.ok_or(ApprovalError::NoPeople)?;
                AdminLog::Here { ledger, tenant: &at.tenant, history: Box::new(history) }
            }
            Place::Server(_) => AdminLog::open_or_start(at)?,
        };
        match log.root().is_some() {
            true => Ok(log),
            false => Err(ApprovalError::NoPeople.into()),
        }
    }

    /// The same where no one needs to be enrolled yet.
    pub(super) fn open_or_start(at: &'p Place) -> Result<Self, Failure> {
        let remote = match at {
            Place::Here(at) => {
                let ledger = at.open()?;
                let history = ApprovalHistory::load_or_start(&ledger, &at.tenant)?;
                return Ok(AdminLog::Here { ledger, tenant: &at.tenant, history: Box::new(history) });
            }
            Place::Server(remote) => remote,
        };
        let RemotePeople { log_origin, root, people } = remote.people()?;
        let origin = log_origin.ok_or_else(|| at.unreadable(&"it names no log"))?;
        let log_origin = named("log", &origin, Name::parse)?;
        check_log(remote, &log_origin)?;
        let read = |document| PersonReport::deserialize(document).map_err(|error| at.unreadable(&error));
        let people = people.iter().map(read).collect::<Result<_, _>>()?;
        let time = Clock::system().now().timestamp();
        let place = StatementPlace { tenant_id: remote.tenant.clone(), log_origin, time };
        Ok(AdminLog::Server { remote, place, root, people })
    }

    /// What a statement is bound to.
    pub(super) fn place(&self) -> Result<StatementPlace, Failure> {
        match self {
            AdminLog::Here { history, .. } => Ok(history.statement_place()?),
            AdminLog::Server { place, .. } => Ok(place.clone()),
        }
    }

    /// The key of the first admin, if there ever was one.
    pub(super) fn root(&self) -> Option<&str> {
        match self {
            AdminLog::Here { history, .. } => history.judge.root(),
            AdminLog::Server { root, .. } => root.as_deref(),
        }
    }

    /// The groups that a person is in.
    pub(super) fn groups_of(&self, person: &Name) -> Result<Set<Name>, Failure> {
        match self {
            AdminLog::Here { history, .. } => {
                Ok(history.judge.groups_of(person).cloned().unwrap_or_default())
            }
            AdminLog::Server { people, .. } => {
                let person = people.iter().find(|listed| listed.person == person.as_str());
                let groups = person.into_iter().flat_map(|person| &person.groups);
                Ok(groups.map(|group| named("group", group, Name::parse)).collect::<Result<_, _>>()?)
            }
        }
    }

    /// The key of an admin, or any that is named, and whose it is.
    pub(super) fn signer(&self, sign_with: Option<&Path>) -> Result<(SigningKey, StatementSigner), Failure> {
        let signing = SigningKey::find(sign_with, |fingerprint| self.admin(fingerprint).is_ok())?;
        let signer = self.admin(signing.public().fingerprint())?;
        Ok((signing, signer))
    }

    fn admin(&self, fingerprint: &str) -> Result<StatementSigner, Failure> {
        let people = match self {
            AdminLog::Here { history, .. } => return Ok(history.admin(fingerprint)?),
            AdminLog::Server { people, .. } => people,
        };
        let is_own =
            |key: &PersonKeyReport| !key.revoked && key.passkey.is_none() && key.key_id == fingerprint;
        let person = people.iter().find(|person| person.keys.iter().any(is_own));
        let person = person.ok_or_else(|| ApprovalError::UnknownKey(fingerprint.to_owned()))?;
        if !person.groups.iter().any(|group| group == ADMINS.as_str()) {
            return Err(ApprovalError::NotAdmin(person.person.clone()).into());
        }
        Ok(StatementSigner {
            person: named("name", &person.person, Name::parse)?,
            key_id: named("fingerprint", fingerprint, Name::parse)?,
        })
    }

    /// Signs a statement and has it recorded; returns the id of its entry.
    pub(super) fn record<T: SignedStatement>(
        &self,
        signing: &SigningKey,
        statement: &T,
    ) -> Result<String, Failure> {
        let (remote, place) = match self {
            AdminLog::Here { ledger, tenant, .. } => {
                let signed = signing.sign(statement)?;
                return Ok(record(ledger, tenant, T::KIND, &signed)?.id.to_string());
            }
            AdminLog::Server { remote, place, .. } => (remote, place),
        };
        let path: &[&str] = match T::KIND {
            SignedKind::Enrolment => &["people"],
            SignedKind::Invitation => &["people", "invitations"],
            SignedKind::Revocation => &["people", "revocations"],
            SignedKind::Rules => &["rules"],
            // `approve` submits verdicts.
            SignedKind::Verdict => &["verdicts"],
        };
        note!("signing for tenant `{}`, log {}", place.tenant_id, place.log_origin);
        let signed: SignedPayload = signing.sign(statement)?;
        // Sending it again is safe.
        let written: AppendedReport = remote.client.ask(path, &[], to_json(&signed).as_bytes())?.read()?;
        Ok(written.id)
    }
}
