//! What a run must not leave behind: the secrets that its agent or its tests were granted, and changes to what was hidden from it. Owns
//! the messages with which such a run is denied. A secret shorter than eight bytes is redacted when it is captured, but denies nothing:
//! it would be found in ordinary files.

use crealeph_contracts::WorkItem;
use crealeph_contracts::contract::to_json;
use crealeph_decision::work::led_to;
use crealeph_sandbox::{Exposure, Grants, HOME, REDACTED, Redactor, Secret, Seed};
use crealeph_workspace::{Arrival, Arrived};

use super::config::{Granted, Hide, WorkAgent};
use super::hidden::HiddenPaths;
use super::trace::Trace;

/// The shortest secret that denies a run.
const MIN_DENIED_BYTES: usize = 8;
const CHUNK_BYTES: usize = 64 << 10;
/// How every denial for a secret begins.
const SECRET: &str = "Secret in";

/// The secrets of an agent and its tests, as they are now.
#[derive(Debug)]
pub(super) struct RunSecrets {
    /// All of them, to be redacted.
    all: Redactor,
    /// Those that deny a run.
    denied: Redactor,
}

impl RunSecrets {
    pub(super) fn new(agent: &WorkAgent) -> Self {
        let values: Vec<Vec<u8>> = [&agent.granted, &agent.test].into_iter().flat_map(values).collect();
        let long = values.iter().filter(|value| value.len() >= MIN_DENIED_BYTES);
        RunSecrets {
            denied: Redactor::new(long.map(Vec::as_slice)),
            all: Redactor::new(values.iter().map(Vec::as_slice)),
        }
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
            return Some(format!("{SECRET} report: a tool call holds it"));
        }
        models
            .any(|model| is_held(model.as_str()))
            .then(|| format!("{SECRET} report: a model's name holds it"))
    }

    /// Why something that is about to be kept denies the run.
    pub(super) fn inspect(
        &self,
        hide: &Hide,
        hidden: &HiddenPaths,
        arrival: Arrival<'_>,
    ) -> Result<(), String> {
        let Arrival { path, what } = arrival;
        let is_written = !matches!(what, Arrived::Discarded);
        if is_written && let Some(glob) = hidden.covering(hide, path) {
            let path = self.redacted(path);
            return Err(format!("Hidden path: {path} (hidden from the agent by `{glob}` in `hide`)"));
        }
        if let Arrived::Link(target) = &what
            && let Some(glob) = led_to(path, target).and_then(|led_to| hidden.covering(hide, &led_to))
        {
            let path = self.redacted(path);
            return Err(format!(
                "Hidden path: {path} (a link to what `{glob}` in `hide` hides from the agent)"
            ));
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
                        format!("{SECRET} change: {} could not be searched: {error}", self.redacted(path))
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
            true => Err(format!("{SECRET} change: {}", self.redacted(path))),
            false => Ok(()),
        }
    }

    fn has_denied(&self) -> bool {
        !self.denied.is_empty()
    }
}

/// Whether a run was denied for a secret: nothing is kept of it but its receipt (R34).
pub(super) fn is_for_secret(reason: &str) -> bool {
    reason.starts_with(SECRET)
}

/// What a table grants that must not show. What cannot be read now cannot be granted either.
fn values(granted: &Granted) -> Vec<Vec<u8>> {
    let mut grants = Grants::default();
    let variables = granted.secrets.iter().map(|name| Secret::from_env(name, Exposure::Variable));
    let files = granted.secret_files.iter().map(|(name, path)| Secret::from_file(name, path, Exposure::File));
    grants.secrets.extend(variables.chain(files).filter_map(Result::ok));
    let seeds = granted
        .home
        .iter()
        .map(|(from, inside)| Seed::from_file(from, std::path::Path::new(HOME).join(inside)));
    grants.seeds.extend(seeds.filter_map(Result::ok));
    grants.secret_values()
}
