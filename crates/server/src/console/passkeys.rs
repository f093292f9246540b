//! Passkeys in the console: the page of an invitation, signing in, and deciding. The page asks for a question, the browser's
//! authenticator answers it, and a form returns the answer. No state is kept in between.

use std::time::Instant;

use crealeph_console as view;
use crealeph_contracts::approval::{ApprovalDecision, SignedPayload, VerdictRequest, VerdictStatement};
use crealeph_contracts::passkey::{PasskeyOrigin, SignInStatement};
use crealeph_contracts::scalar::{KeyId, Name, TenantId, Text};
use crealeph_runtime::access::{PersonSession, SignInError, open_for_person};
use crealeph_runtime::approvals::{ApprovalHistory, sign_in_question, signed_in};

use super::sign_in::{self, own_path};
use super::{encoded, html, redirect};
use crate::call::Call;
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;
use crate::routes::approvals;

/// The page that an invitation's link opens. What the link has behind its `#` stays in the browser, which posts it.
pub(super) fn enrol(_: &Call) -> Result<Reply, Problem> {
    Ok(html(view::enrol()))
}

fn refused(detail: &'static str) -> Problem {
    let hint = "reload the page, and use the passkey again";
    Problem::new(ProblemKind::Forbidden, detail).with_hint(hint)
}

/// What a passkey proves that signs in to a tenant: the one that is named, or the only one. One that does not exist is answered alike.
pub(super) fn sign_in_asked(call: &Call) -> Result<Reply, Problem> {
    let only = || call.app.only_tenant.get(call.ledger());
    let tenant = match call.field("tenant").trim() {
        "" => only(),
        named => TenantId::parse(named).ok(),
    };
    let unnamed = || {
        let hint = "use the name that `crealeph key list` shows, or that an admin has given you";
        refused("a tenant name is required, and this is not one").with_hint(hint)
    };
    let tenant = tenant.ok_or_else(unnamed)?;
    let origin = call.origin.as_deref().and_then(|origin| PasskeyOrigin::parse(origin).ok());
    let unusable = || {
        let hint = "open the console by HTTPS, or on its own machine at `http://localhost`";
        refused("passkeys need HTTPS, or the address `localhost`").with_hint(hint)
    };
    let origin = origin.ok_or_else(unusable)?;
    Ok(Reply::json(sign_in_question(call.ledger(), &tenant, origin)?))
}

/// Opens a session for the person of the passkey.
pub(super) fn sign_in(call: &Call) -> Result<Reply, Problem> {
    let next = own_path(call.field("next"));
    let signed: SignedPayload = approvals::parsed(call.field("signed").as_bytes())?;
    let statement: SignInStatement = approvals::parsed(signed.statement.as_str().as_bytes())?;
    let tenant = statement.tenant_id;
    let name = KeyId::parse("passkey-sign-in").map_err(|_| refused("the sign-in has no name"))?;
    let _counted = call.app.keys.count((tenant.clone(), name), call.bounds(), Instant::now())?;
    let history = ApprovalHistory::load(call.ledger(), &tenant)?;
    let opened = match signed_in(history.as_ref(), &signed) {
        Ok(Some((found, nonce))) => {
            let nonce = KeyId::parse(&nonce.to_string()).map_err(|_| refused("the sign-in has no name"))?;
            let person = PersonSession { person: found.person, role: found.role, nonce };
            open_for_person(call.ledger(), &tenant, person).map_err(|error| match error {
                SignInError::Access(error) => Problem::from(error),
                error => Problem::new(ProblemKind::Forbidden, error.to_string()),
            })?
        }
        Ok(None) => return Ok(sign_in::refused(call, SignInError::Unknown.to_string(), next)),
        Err(error) => return Ok(sign_in::refused(call, error.to_string(), next)),
    };
    sign_in::entered(call, &opened, next)
}

/// What a passkey proves that decides about what waits.
pub(super) fn verdict_asked(call: &Call) -> Result<Reply, Problem> {
    let bad =
        |name: &str| Problem::new(ProblemKind::BadRequest, format!("the field `{name}` cannot be used"));
    let request = VerdictRequest {
        subject: approvals::named(call)?,
        decision: ApprovalDecision::parse(call.field("decision")).ok_or_else(|| bad("decision"))?,
        reason: Text::new(call.field("reason")),
        key_id: Name::parse(call.field("keyId")).map_err(|_| bad("keyId"))?,
        unattended: None,
    };
    approvals::prepared(call, request)
}

/// Records a verdict that a passkey has proved.
pub(super) fn verdict(call: &Call) -> Result<Reply, Problem> {
    let subject = approvals::named(call)?;
    let signed: SignedPayload = approvals::parsed(call.field("signed").as_bytes())?;
    let statement: VerdictStatement = approvals::parsed(signed.statement.as_str().as_bytes())?;
    if statement.subject_id != subject {
        return Err(refused("the verdict is about something else than this page"));
    }
    approvals::recorded(call, signed)?;
    redirect(&format!("/inbox/{}", encoded(subject.as_str())))
}
