//! API keys of the tenant: granted, listed, revoked.

use crealeph_contracts::api_key::KeyRequest;
use crealeph_contracts::scalar::{KeyId, Text};
use crealeph_runtime::access::{create_key, list_keys, revoke_key};
use serde_json::json;

use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;

const USUAL_PAGE: usize = 100;

pub(super) fn list(call: &Call) -> Result<Reply, Problem> {
    let (cursor, limit) = (call.cursor()?, call.limit(USUAL_PAGE)?);
    let (keys, next) = list_keys(call.ledger(), &call.who()?.tenant_id, cursor, limit)?;
    Ok(Reply::json_of(&match next {
        Some(next) => json!({ "keys": keys, "next": next.to_string() }),
        None => json!({ "keys": keys }),
    }))
}

pub(super) fn create(call: &Call) -> Result<Reply, Problem> {
    let request =
        KeyRequest::parse(&call.body).map_err(|violations| Problem::invalid("invalid", violations))?;
    Ok(Reply::json_of(&create_key(&call.acting_ledger()?, &call.who()?.tenant_id, request)?))
}

pub(super) fn revoke(call: &Call) -> Result<Reply, Problem> {
    let id = KeyId::parse(call.in_path("id")?).map_err(|_| Problem::unknown_id("key"))?;
    let reason = call.text("reason").and_then(Text::new);
    Ok(Reply::json_of(&revoke_key(&call.acting_ledger()?, &call.who()?.tenant_id, &id, reason)?))
}
