//! The registration of this process among those that use the ledger: it registers before it answers, renews its registration while it runs, and exits when others
//! replace it with another configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crealeph_contracts::scalar::Name;
use crealeph_ledger::{Ledger, LedgerError, Membership, ServerProcess};
use crealeph_runtime::shared::SharedConfiguration;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::serve::ServeError;

/// How long a process counts that no longer renews its entry.
const ALIVE: Duration = Duration::from_secs(15);
/// How often the entry is renewed.
const RENEW: Duration = Duration::from_secs(3);

/// The entry of this process.
#[derive(Clone, Debug)]
pub(crate) struct ProcessEntry {
    ledger: Ledger,
    process: ServerProcess,
    configuration: SharedConfiguration,
    is_replaced: Arc<AtomicBool>,
}

impl ProcessEntry {
    /// Enters, unless a process that is alive decides by another configuration.
    pub(crate) fn enter(
        ledger: &Ledger,
        configuration: SharedConfiguration,
        replaces: bool,
    ) -> Result<ProcessEntry, ServeError> {
        let name = ledger.new_id()?;
        let named = |text: &str| Name::parse(text).map_err(|_| LedgerError::Closed);
        let process = ServerProcess {
            name: named(name.as_id().as_str())?,
            holder: named(&format!("process {} on {}", std::process::id(), host()))?,
            digest: configuration.digest(),
            sections: configuration.sections_json(),
        };
        let entry =
            ProcessEntry { ledger: ledger.clone(), process, configuration, is_replaced: Arc::default() };
        match entry.ledger.enter_process(&entry.process, ALIVE, replaces)? {
            Membership::Member => Ok(entry),
            Membership::Other(other) => Err(entry.differs_from(&other)),
        }
    }

    fn differs_from(&self, other: &ServerProcess) -> ServeError {
        let sections = self.configuration.differences(&other.sections);
        let sections = match sections.is_empty() {
            true => String::new(),
            false => format!("; these sections differ: {}", sections.join(", ")),
        };
        ServeError::OtherConfiguration {
            own: self.process.digest.clone(),
            other: other.digest.clone(),
            holder: other.holder.to_string(),
            sections,
        }
    }

    /// Renews the entry until the server stops, and stops it when it was replaced.
    pub(crate) async fn renew(self, stop: watch::Sender<bool>) {
        let mut stopped = stop.subscribe();
        loop {
            let is_over =
                tokio::time::timeout(RENEW, stopped.wait_for(|is_stopped| *is_stopped)).await.is_ok();
            if is_over {
                return;
            }
            let own = self.clone();
            let renewed = spawn_blocking(move || own.ledger.enter_process(&own.process, ALIVE, false)).await;
            match renewed {
                Ok(Ok(Membership::Member)) => {}
                Ok(Ok(Membership::Other(other))) => {
                    tracing::error!("{}", self.differs_from(&other));
                    self.is_replaced.store(true, Ordering::SeqCst);
                    stop.send_replace(true);
                    return;
                }
                // A ledger that is away for a while ends no server.
                Ok(Err(error)) => tracing::warn!("the entry of this process was not renewed: {error}"),
                Err(error) => tracing::error!("the entry of this process was not renewed: {error}"),
            }
        }
    }

    /// Takes the entry out; the error if it was others that ended this process.
    pub(crate) fn leave(&self) -> Result<(), ServeError> {
        // If this fails, it expires soon.
        let _ = self.ledger.leave_processes(&self.process);
        match self.is_replaced.load(Ordering::SeqCst) {
            true => Err(ServeError::Replaced),
            false => Ok(()),
        }
    }
}

/// The machine's name, as far as it is known and can be shown.
fn host() -> String {
    let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") else {
        return "an unnamed machine".to_owned();
    };
    let name: String = name.trim().chars().filter(|letter| !letter.is_control()).take(64).collect();
    if name.is_empty() { "an unnamed machine".to_owned() } else { name }
}
