//! The clock of leases in a file: the time since this machine started, which no one can set, and the id of that boot.
//! All processes that share a file run on one machine, so they agree on it whatever their wall clocks say.

use std::sync::OnceLock;

use rustix::time::{ClockId, clock_gettime};

use super::failure::LedgerFile;
use crate::error::LedgerError;
use crate::position::Millis;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Milliseconds since the machine started, sleep included.
pub(super) fn now() -> Millis {
    let time = clock_gettime(ClockId::Boottime);
    Millis::new(time.tv_sec.saturating_mul(1_000).saturating_add(time.tv_nsec / 1_000_000))
}

/// The id of the machine's current boot. A lease of another boot has ended, as its holder has.
pub(super) fn id(place: &LedgerFile) -> Result<&'static str, LedgerError> {
    static ID: OnceLock<String> = OnceLock::new();
    if let Some(id) = ID.get() {
        return Ok(id);
    }
    let id = std::fs::read_to_string(BOOT_ID).map_err(|error| LedgerError::Failed {
        place: place.to_string(),
        reason: format!("leases need `{BOOT_ID}`: {error}"),
    })?;
    Ok(ID.get_or_init(|| id.trim().to_owned()))
}
