//! The commands for the owner of a ledger: migrate, tenants.

use std::time::{Duration, Instant};

use crealeph_ledger::{Ledger, MigrationProgress, MigrationSummary};
use serde_json::json;

use super::{CommandOutcome, Settled};
use crate::failure::Failure;
use crate::output::{Output, note};

/// How often a migration reports its progress.
const EVERY: Duration = Duration::from_secs(2);

/// Upgrades a ledger to the current schema.
pub(super) fn migrate(at: &Settled, output: &mut Output) -> Result<CommandOutcome, Failure> {
    let mut next = Instant::now() + EVERY;
    let report = |progress: &MigrationProgress| {
        if Instant::now() >= next {
            next = Instant::now() + EVERY;
            let MigrationProgress { tenant_id, done, size } = progress;
            note!("tenant `{tenant_id}`: {done} of {size} entries");
        }
    };
    let MigrationSummary { from, to, entries } = Ledger::migrate(&at.location, &at.options(), report)?;
    if at.is_json(output) {
        output.report(&json!({ "from": from, "to": to, "entries": entries }))?;
    } else if from == to {
        output.line(&format!("the ledger already has schema version {to}; nothing was changed"))?;
    } else {
        let line = format!("migrated the ledger from schema version {from} to {to}, {entries} entries");
        output.line(&line)?;
    }
    Ok(CommandOutcome::Good)
}

/// Lists the tenants that have a log.
pub(super) fn tenants(at: &Settled, output: &mut Output) -> Result<CommandOutcome, Failure> {
    let tenants = at.open()?.tenants()?;
    let is_json = at.is_json(output);
    for log in &tenants {
        let last_at = log.last_at.map(|at| at.to_string());
        match is_json {
            true => {
                let line =
                    json!({ "tenantId": log.tenant_id.as_str(), "entries": log.entries, "lastAt": last_at });
                output.report_line(&line)?;
            }
            false => {
                let last = last_at.unwrap_or_else(|| "no entry yet".to_owned());
                output.line(&format!("{:<24} {:>10} entries  {last}", log.tenant_id, log.entries))?;
            }
        }
    }
    if tenants.is_empty() && !is_json {
        output.line("no tenant has a log yet")?;
    }
    Ok(CommandOutcome::Good)
}
