//! Webhooks of the tenant: created, listed, enabled, deleted, tested.

use crealeph_contracts::scalar::{Name, Text};
use crealeph_contracts::webhook::WebhookRequest;
use crealeph_ledger::Seq;
use crealeph_runtime::webhook::{
    WebhookReport, create_webhook, delete_webhook, deliveries, enable_webhook, get_webhook, list_webhooks,
    test_webhook,
};
use serde_json::json;

use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;

const USUAL_PAGE: usize = 100;

pub(super) fn list(call: &Call) -> Result<Reply, Problem> {
    let (cursor, limit) = (call.cursor()?, call.limit(USUAL_PAGE)?);
    let (webhooks, next) = list_webhooks(call.ledger(), &call.who()?.tenant_id, cursor, limit)?;
    Ok(Reply::json_of(&match next {
        Some(next) => json!({ "webhooks": webhooks, "next": next.to_string() }),
        None => json!({ "webhooks": webhooks }),
    }))
}

pub(super) fn create(call: &Call) -> Result<Reply, Problem> {
    let request =
        WebhookRequest::parse(&call.body).map_err(|violations| Problem::invalid("invalid", violations))?;
    let after = call.number("after")?.map(|number| {
        Seq::new(number).ok_or_else(|| Problem::parameter("after", "is not a sequence number"))
    });
    let settings = &call.app.settings.webhooks;
    let tenant = &call.who()?.tenant_id;
    let created = create_webhook(&call.acting_ledger()?, tenant, request, after.transpose()?, settings)?;
    Ok(Reply::json_of(&created))
}

pub(super) fn show(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json_of(&get_webhook(call.ledger(), &call.who()?.tenant_id, &id(call)?)?))
}

pub(super) fn delete(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json_of(&deleted(call, call.text("reason"))?))
}

pub(super) fn enable(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json_of(&enabled(call, call.text("reason"))?))
}

/// Deletes the webhook that is named.
pub(crate) fn deleted(call: &Call, reason: Option<&str>) -> Result<WebhookReport, Problem> {
    let (ledger, reason) = (call.acting_ledger()?, reason.and_then(Text::new));
    Ok(delete_webhook(&ledger, &call.who()?.tenant_id, &id(call)?, reason)?)
}

/// Enables the webhook that is named.
pub(crate) fn enabled(call: &Call, reason: Option<&str>) -> Result<WebhookReport, Problem> {
    let (ledger, reason) = (call.acting_ledger()?, reason.and_then(Text::new));
    Ok(enable_webhook(&ledger, &call.who()?.tenant_id, &id(call)?, reason)?)
}

pub(super) fn test(call: &Call) -> Result<Reply, Problem> {
    let settings = &call.app.settings.webhooks;
    Ok(Reply::json_of(&test_webhook(call.ledger(), &call.who()?.tenant_id, &id(call)?, settings)?))
}

pub(super) fn state(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json_of(&deliveries(call.ledger(), &call.who()?.tenant_id, &id(call)?)?))
}

fn id(call: &Call) -> Result<Name, Problem> {
    Name::parse(call.in_path("id")?).map_err(|_| Problem::unknown_id("webhook"))
}
