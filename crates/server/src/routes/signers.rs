//! The signers whose receipts the tenant accepts: enrolled, listed, revoked.

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::reported::SignerRequest;
use crealeph_contracts::scalar::Text;
use crealeph_decision::access::Permission;
use crealeph_runtime::receipts::{add_signer, list_signers, revoke_signer};
use serde_json::json;

use super::{CURSOR, LIMIT, answer, in_path, query};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Handler, ParameterKind, RequestBody, RobotScope, Route, Verb};
use crate::schemas::Schema;

const USUAL_PAGE: usize = 100;

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Verb::Get,
        path: "/v1/signers",
        name: "listSigners",
        summary: "List the signers whose receipts are accepted, revoked ones too",
        access: Access::Key(Permission::SeeGrants, RobotScope::Refused),
        parameters: &[LIMIT, CURSOR],
        body: None,
        answer: answer("a page of signers", "SignerPage"),
        problems: &[],
        handler: Handler::Blocking(list),
    },
    Route {
        method: Verb::Post,
        path: "/v1/signers",
        name: "enrolSigner",
        summary: "Enrol the key of a workspace elsewhere, so that its receipts are accepted",
        access: Access::Key(Permission::ManageKeys, RobotScope::Refused),
        parameters: &[],
        body: Some(RequestBody {
            about: "The public key, as `crealeph work key` prints it. Sending it again is safe.",
            schema: Schema::Named("SignerRequest"),
        }),
        answer: answer("the signer", "Signer"),
        problems: &[409],
        handler: Handler::Blocking(enrol),
    },
    Route {
        method: Verb::Delete,
        path: "/v1/signers/{id}",
        name: "revokeSigner",
        summary: "Revoke a signer: its receipts are no longer accepted",
        access: Access::Key(Permission::ManageKeys, RobotScope::Refused),
        parameters: &[
            in_path("id", ParameterKind::Identifier, "the signer's id"),
            query("reason", ParameterKind::Text, "why"),
        ],
        body: None,
        answer: answer("the signer", "Signer"),
        problems: &[],
        handler: Handler::Blocking(revoke),
    },
];

fn list(call: &Call) -> Result<Reply, Problem> {
    let (cursor, limit) = (call.cursor()?, call.limit(USUAL_PAGE)?);
    let (signers, next) = list_signers(call.ledger(), &call.who()?.tenant_id, cursor, limit)?;
    Ok(Reply::json_of(&match next {
        Some(next) => json!({ "signers": signers, "next": next.to_string() }),
        None => json!({ "signers": signers }),
    }))
}

fn enrol(call: &Call) -> Result<Reply, Problem> {
    let request =
        SignerRequest::parse(&call.body).map_err(|violations| Problem::invalid("invalid", violations))?;
    Ok(Reply::json_of(&add_signer(call.ledger(), &call.who()?.tenant_id, request)?))
}

fn revoke(call: &Call) -> Result<Reply, Problem> {
    let id = Blake3::parse(call.in_path("id")?).ok_or_else(|| Problem::unknown_id("signer"))?;
    let reason = call.text("reason").and_then(Text::new);
    Ok(Reply::json_of(&revoke_signer(call.ledger(), &call.who()?.tenant_id, &id, reason)?))
}
