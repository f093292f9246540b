//! The log as a whole: its size, checkpoints and consistency proofs.

use crealeph_runtime::entries;

use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;

/// A signed note is text.
pub(super) const NOTE_TYPE: &str = "text/plain; charset=utf-8";

pub(super) fn checkpoint(call: &Call) -> Result<Reply, Problem> {
    let note = call.app.checkpoints.note(call.ledger(), &call.who()?.tenant_id)?;
    Ok(Reply::text(NOTE_TYPE, note))
}

pub(super) fn size(call: &Call) -> Result<Reply, Problem> {
    let size = entries::log_size(call.ledger(), &call.who()?.tenant_id)?;
    Ok(Reply::json_of(&size.ok_or_else(|| Problem::unknown_id("log"))?))
}

pub(super) fn consistency(call: &Call) -> Result<Reply, Problem> {
    let size = |name| call.number(name).map(Option::unwrap_or_default);
    let report = entries::consistency(call.ledger(), &call.who()?.tenant_id, size("older")?, size("newer")?)?;
    Ok(Reply::json_of(&report))
}
