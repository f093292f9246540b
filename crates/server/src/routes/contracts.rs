//! Contracts: their schemas, and validation of documents.

use axum::http::StatusCode;
use crealeph_contracts::contract::ContractName;
use crealeph_contracts::json::Limits;
use crealeph_decision::judge::judge;
use crealeph_runtime::validation::{ValidationReport, judge_line};

use crate::call::Call;
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;

pub(super) const SCHEMA_TYPE: &str = "application/schema+json";

pub(super) fn schema(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::text(SCHEMA_TYPE, named(call)?.schema()))
}

pub(super) fn validate_now(call: &Call) -> Option<Result<Reply, Problem>> {
    call.is_small().then(|| validate(call))
}

pub(super) fn validate(call: &Call) -> Result<Reply, Problem> {
    let contract = named(call)?;
    let limits = Limits::outside(call.body.len());
    let unjudged = |code, why: String| Problem::new(ProblemKind::Other(StatusCode::BAD_REQUEST, code), why);
    let judgement = match call.text("form") {
        Some("line") => {
            judge_line(&call.body, Some(contract), &limits).map_err(|why| unjudged("bad_line", why))?
        }
        // Without a context, nothing in it can be wrong.
        _ => judge(contract, &call.body, None, &limits)
            .map_err(|error| unjudged("bad_context", error.to_string()))?,
    };
    Ok(Reply::json_of(&ValidationReport::of(&judgement)))
}

fn named(call: &Call) -> Result<ContractName, Problem> {
    let name = call.in_path("contract")?;
    ContractName::parse(name).ok_or_else(|| {
        let known: Vec<&str> = ContractName::ALL.iter().map(|contract| contract.as_str()).collect();
        Problem::unknown_id("contract").with_hint(format!("the contracts are {}", known.join(", ")))
    })
}
