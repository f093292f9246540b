//! What a run must not leave behind: the secrets that its agent or its tests were granted, and changes to what was hidden from it. Owns
//! the messages with which such a run is denied. A secret shorter than eight bytes is redacted when it is captured, but denies nothing:
//! it would be found in ordinary files.

use std::path::Path;
use std::sync::Arc;

use crealeph_contracts::WorkItem;
use crealeph_contracts::contract::to_json;
use crealeph_decision::work::led_to;
use crealeph_sandbox::{Grants, HOME, REDACTED, Redactor, SandboxError, Secret, Seed};
use crealeph_workspace::{Arrival, Arrived, UnwantedChange};

use super::config::{Granted, Hide, WorkAgent};
use super::hidden::HiddenPaths;
use super::trace::Trace;
use crate::agents::process::secrets;

/// The shortest secret that denies a run.
const MIN_DENIED_BYTES: usize = 8;
const CHUNK_BYTES: usize = 64 << 10;

/// The secrets that a table of the configuration grants, as they were when they were read: what is granted is what is redacted, although
/// a file is replaced meanwhile.
#[derive(Debug, Default)]
pub(super) struct GrantedSecrets {
    secrets: Vec<Secret>,
    seeds: Vec<Seed>,
    /// Why one of them could not be read.
    unreadable: Option<Arc<SandboxError>>,
}

impl GrantedSecrets {
    /// Reads them. One that cannot be read matters when it is to be granted.
    fn read(granted: &Granted) -> Self {
        let mut read = GrantedSecrets::default();
        let seeds =
            granted.home.iter().map(|(from, inside)| Seed::from_file(from, Path::new(HOME).join(inside)));
        for seed in seeds {
            match seed {
                Ok(seed) => read.seeds.push(seed),
                Err(error) => read.note(error),
            }
        }
        for secret in secrets(&granted.secrets, &granted.secret_files) {
            match secret {
                Ok(secret) => read.secrets.push(secret),
                Err(error) => read.note(error),
            }
        }
        read
    }

    fn note(&mut self, error: SandboxError) {
        self.unreadable.get_or_insert_with(|| Arc::new(error));
    }

    /// Grants all of them.
    ///
    /// # Errors
    /// When one of them could not be read.
    pub(super) fn add_to(&self, grants: &mut Grants) -> Result<(), Arc<SandboxError>> {
        if let Some(error) = &self.unreadable {
            return Err(error.clone());
        }
        self.seeds.iter().for_each(|seed| grants.seed(seed.clone()));
        grants.secrets.extend(self.secrets.iter().cloned());
        Ok(())
    }

    /// The values that must not show.
    fn values(&self) -> Vec<Vec<u8>> {
        let (secrets, seeds) = (self.secrets.clone(), self.seeds.clone());
        Grants { secrets, seeds, ..Grants::default() }.secret_values()
    }
}

/// The secrets of an agent and its tests, as they were when they were read.
#[derive(Debug)]
pub(super) struct RunSecrets {
    pub(super) agent: GrantedSecrets,
    pub(super) tests: GrantedSecrets,
    /// All of them, to be redacted.
    all: Redactor,
    /// Those that deny a run.
    denied: Redactor,
}

impl RunSecrets {
    /// Reads them.
    ///
    /// # Errors
    /// When they cannot be redacted.
    pub(super) fn read(agent: &WorkAgent) -> Result<Self, SandboxError> {
        let (tests, agent) = (GrantedSecrets::read(&agent.test), GrantedSecrets::read(&agent.granted));
        let values = [agent.values(), tests.values()].concat();
        let long = values.iter().filter(|value| value.len() >= MIN_DENIED_BYTES);
        Ok(RunSecrets {
            denied: Redactor::new(long.map(Vec::as_slice))?,
            all: Redactor::new(values.iter().map(Vec::as_slice))?,
            agent,
            tests,
        })
    }

    /// A text without the secrets.
    pub(super) fn redacted(&self, text: &str) -> String {
        self.all.text(text)
    }

    /// What finds all of them in a stream.
    pub(super) fn redactor(&self) -> &Redactor {
        &self.all
    }

    /// Where a secret is in what would be recorded before the agent runs, if anywhere.
    pub(super) fn place_in_request(&self, item: &WorkItem, agent: &WorkAgent) -> Option<&'static str> {
        if self.denied.finds(to_json(item).as_bytes()) {
            return Some("work item");
        }
        agent.command.iter().any(|word| self.denied.finds(word.as_bytes())).then_some("command")
    }

    /// Why an agent's reports deny the run. They were redacted as they came.
    pub(super) fn in_reports(&self, trace: &Trace, redactions: u64) -> Option<String> {
        // In the form that the receipt has: numbers are written out there.
        let texts = trace.calls.iter().flat_map(|call| {
            let input = call.input.as_ref().map(|input| input.canonical());
            [Some(call.tool.as_str().to_owned()), input].into_iter().flatten()
        });
        let was_redacted = redactions > 0 && self.has_denied();
        let is_held =
            |text: &str| (was_redacted && text.contains(REDACTED)) || self.denied.finds(text.as_bytes());
        let (mut texts, mut models) = (texts, trace.models.iter());
        if texts.any(|text| is_held(&text)) {
            return Some("Secret in report: a tool call holds it".to_owned());
        }
        models
            .any(|model| is_held(model.as_str()))
            .then(|| "Secret in report: a model's name holds it".to_owned())
    }

    /// Why something that is about to be kept denies the run.
    pub(super) fn inspect(
        &self,
        hide: &Hide,
        hidden: &HiddenPaths,
        arrival: Arrival<'_>,
    ) -> Result<(), UnwantedChange> {
        let Arrival { path, what } = arrival;
        let is_written = !matches!(what, Arrived::Discarded);
        if is_written && let Some(glob) = hidden.covering(hide, path) {
            let path = self.redacted(path);
            let why = format!("Hidden path: {path} (hidden from the agent by `{glob}` in `hide`)");
            return Err(UnwantedChange::Hidden(why));
        }
        if let Arrived::Link(target) = &what
            && let Some(glob) = led_to(path, target).and_then(|led_to| hidden.covering(hide, &led_to))
        {
            let path = self.redacted(path);
            let why = format!("Hidden path: {path} (a link to what `{glob}` in `hide` hides from the agent)");
            return Err(UnwantedChange::Hidden(why));
        }
        if !self.has_denied() {
            return Ok(());
        }
        let is_found = match what {
            _ if self.denied.finds(path.as_bytes()) => true,
            Arrived::Gone | Arrived::Discarded => false,
            Arrived::Link(target) => self.denied.finds(target.as_bytes()),
            Arrived::File(file) => {
                let mut search = self.denied.search();
                let mut chunk = vec![0; CHUNK_BYTES];
                loop {
                    let read = file.read(&mut chunk).map_err(|error| {
                        let path = self.redacted(path);
                        UnwantedChange::Secret(format!(
                            "Secret in change: {path} could not be searched: {error}"
                        ))
                    })?;
                    if read == 0 {
                        break search.finish();
                    }
                    if search.push(chunk.get(..read).unwrap_or_default()) {
                        break true;
                    }
                }
            }
        };
        match is_found {
            true => Err(UnwantedChange::Secret(format!("Secret in change: {}", self.redacted(path)))),
            false => Ok(()),
        }
    }

    fn has_denied(&self) -> bool {
        !self.denied.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(folder: &Path, names: &[&str]) -> Granted {
        let file = |name: &&str| ((*name).to_owned(), folder.join(name));
        Granted { secret_files: names.iter().map(file).collect(), ..Granted::default() }
    }

    #[test]
    fn a_secret_that_is_replaced_after_it_was_read_is_granted_as_it_is_redacted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("TOKEN"), "first-value-of-it").unwrap();
        let read = GrantedSecrets::read(&granted(folder.path(), &["TOKEN"]));
        std::fs::write(folder.path().join("TOKEN"), "second-value-of-it").unwrap();
        let mut grants = Grants::default();
        read.add_to(&mut grants).unwrap();
        assert_eq!(grants.secret_values(), read.values());
        assert!(read.values().contains(&b"first-value-of-it".to_vec()));
    }

    #[test]
    fn nothing_is_granted_if_a_secret_cannot_be_read_and_the_others_are_still_redacted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("TOKEN"), "a-value-that-is-read").unwrap();
        let read = GrantedSecrets::read(&granted(folder.path(), &["MISSING", "TOKEN"]));
        let mut grants = Grants::default();
        let refused = read.add_to(&mut grants).unwrap_err().to_string();
        assert!(refused.contains("cannot read the secret in") && refused.contains("MISSING"), "{refused}");
        assert!(grants.secrets.is_empty());
        assert_eq!(read.values(), [b"a-value-that-is-read".to_vec()]);
    }
}
