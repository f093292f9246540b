//! `crealeph doctor`: whether everything needed is present, and how to get what is missing. It checks the machine, the
//! configuration, the ledger, its keys, the clock and the disks; findings are independent, so that one fault hides no other.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_ledger::{Clock, Keyring, Ledger, LedgerError, Location, Millis, Order};
use crealeph_runtime::agents;
use crealeph_runtime::builder::Scopes;
use crealeph_runtime::configuration::{ConfigError, Configuration};
use crealeph_runtime::work::{AgentExam, AgentFinding, WorkConfig};
use crealeph_sandbox::{Config, Feature, Sandbox};
use crealeph_server::ServerSettings;
use serde::Serialize;

use super::CommandOutcome;
use super::ledger::{At, Settled};
use super::sandbox::state_directory;
use super::work::private_paths;
use crate::failure::{BuilderFailure, Failure, InputFailure, LedgerFailure};
use crate::output::{Output, note};
use crate::own;
use crate::page::Page;
use crate::render::{COLUMNS, counted};
use crate::trusting::{self, Uses};

const EXAMPLES: &str = "\
Examples:
  crealeph doctor
  crealeph doctor --json | jq '.[] | select(.needed and (.present | not))'
  crealeph doctor --agent claude --test \"cargo test\"

Checks what the sandbox needs, crealeph.toml, the ledger and its newest entries (`crealeph ledger verify` checks all), the
signing keys, the clock and the disks. With --agent also everything that a run of it needs except the model, and with --test that the
tests pass before any agent has changed something.

Exit codes: 0 everything needed is present, 1 something is missing or wrong, 2 cannot be checked.";

/// So many of the newest entries are compared with their hashes.
const NEWEST_ENTRIES: usize = 1000;
const MIN_FREE_BYTES: u64 = 256 << 20;
const MIN_FREE_FILES: u64 = 1000;
/// When this program was written, and a day by which it will not be in use: a clock beyond them is wrong.
const SANE_MS: std::ops::Range<i64> = 1_767_225_600_000..4_102_444_800_000;

/// Diagnose the machine, configuration and ledger, and suggest fixes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Doctor {
    /// Check what a run of this agent needs in the current folder: program, login, hosts, toolchains, sandbox
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,

    /// Run this test command on the tree as it is, in the sandbox that the agent's tests have
    #[arg(long, value_name = "COMMAND", requires = "agent")]
    test: Option<String>,

    /// Directory for open views
    #[arg(long, value_name = "DIRECTORY")]
    state_dir: Option<PathBuf>,

    #[command(flatten)]
    at: At,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    name: &'static str,
    /// Whether it is there, and as it should be.
    present: bool,
    /// Whether something does not work without it.
    needed: bool,
    gives: &'static str,
    detail: String,
    advice: Option<String>,
}

impl From<Feature> for Finding {
    fn from(feature: Feature) -> Self {
        let Feature { name, present, needed, gives, detail, advice } = feature;
        Finding { name, present, needed, gives, detail, advice }
    }
}

/// What is looked at, and what for.
#[derive(Clone, Copy)]
struct Subject {
    name: &'static str,
    gives: &'static str,
}

impl Subject {
    fn good(self, detail: impl Into<String>) -> Finding {
        self.finding(true, true, detail, None)
    }

    fn bad(self, detail: impl Into<String>, advice: impl Into<String>) -> Finding {
        self.finding(false, true, detail, Some(advice.into()))
    }

    /// Not present, and not needed.
    fn not_yet(self, detail: impl Into<String>, advice: impl Into<String>) -> Finding {
        self.finding(false, false, detail, Some(advice.into()))
    }

    fn failed(self, failure: &Failure) -> Finding {
        let advice = failure.hint().unwrap_or("fix this, then run `crealeph doctor` again".into());
        self.bad(failure.message(), advice)
    }

    fn finding(
        self,
        present: bool,
        needed: bool,
        detail: impl Into<String>,
        advice: Option<String>,
    ) -> Finding {
        Finding { name: self.name, present, needed, gives: self.gives, detail: detail.into(), advice }
    }
}

const CONFIGURATION: Subject =
    Subject { name: "configuration", gives: "location of the ledger, grants of agents" };
const LEDGER: Subject = Subject { name: "ledger", gives: "stores evidence and decisions" };
const KEYS: Subject = Subject { name: "keys", gives: "sign checkpoints and receipts" };
const CLOCK: Subject = Subject { name: "clock", gives: "dates entries" };
const LEDGER_DISK: Subject = Subject { name: "ledger_disk", gives: "free space for the ledger" };
const STATE_DISK: Subject = Subject { name: "state_disk", gives: "free space for open views" };

impl Doctor {
    pub(super) fn wants_json(&self) -> bool {
        self.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let is_json = self.wants_json() || !output.is_for_person();
        let state = state_directory(self.state_dir);
        let sandbox = Sandbox::new(Config::new(state.clone()))?;
        let mut findings: Vec<Finding> = sandbox.features()?.into_iter().map(Finding::from).collect();
        match self.at.settle() {
            Ok(at) => {
                findings.extend(looked_at(&at, &state));
                if let Some(agent) = &self.agent {
                    findings.extend(agent_found(&at, &state, agent, self.test.as_deref())?);
                }
            }
            Err(failure) => findings.push(CONFIGURATION.failed(&failure)),
        }
        findings.push(disk(STATE_DISK, &state));
        if is_json {
            output.report(&findings)?;
        } else {
            output.page(&as_page(&findings))?;
        }
        let is_well = findings.iter().all(|finding| finding.present || !finding.needed);
        Ok(if is_well { CommandOutcome::Good } else { CommandOutcome::Bad })
    }
}

fn looked_at(at: &Settled, state: &Path) -> Vec<Finding> {
    let mut findings = vec![configuration(&at.configuration, state)];
    let (ledger, newest) = match at.open() {
        Ok(ledger) => ledger_found(&ledger, at),
        Err(Failure::Ledger(LedgerFailure::Ledger(LedgerError::Missing { place }))) => {
            (LEDGER.not_yet(format!("no ledger at `{place}`"), "run `crealeph ledger init`"), None)
        }
        Err(Failure::Ledger(LedgerFailure::LedgerAbove { place, folder })) => {
            let (detail, there) = (format!("no ledger at `{place}`"), folder.display());
            (
                LEDGER
                    .not_yet(detail, format!("go to `{there}`, or create one here: `crealeph ledger init`")),
                None,
            )
        }
        Err(failure) => (LEDGER.failed(&failure), None),
    };
    let is_made = ledger.present || ledger.needed;
    findings.push(ledger);
    findings.push(keys(&at.keys, is_made));
    findings.push(clock(now(), newest, at.limits.clock_skew_ms));
    if let Location::File(file) = &at.location {
        findings.push(disk(LEDGER_DISK, file));
    }
    findings
}

/// What a run of an agent needs in the current folder.
fn agent_found(at: &Settled, state: &Path, name: &str, test: Option<&str>) -> Result<Vec<Finding>, Failure> {
    // Its program is started, and the tests are.
    trusting::require(&at.configuration, Uses::Everything)?;
    let here = PathBuf::from(".");
    let workspace = here.canonicalize().map_err(|_| InputFailure::NotFound(here))?;
    own::check(&workspace)?;
    if test.is_some() {
        own::claim(&workspace)?;
    }
    let config = WorkConfig::read(&at.configuration)?;
    let private = private_paths(at);
    let exam =
        AgentExam { config: &config, workspace: &workspace, state_dir: state, private: &private, test };
    let findings = exam.examine(name)?.ok_or_else(|| {
        let known = config.agents.keys().cloned().collect::<Vec<_>>().join(", ");
        let path = at.configuration.path().to_owned();
        BuilderFailure::NoAgent { name: name.to_owned(), path, known }
    })?;
    let finding = |found: AgentFinding| Finding {
        name: found.name,
        present: found.is_good,
        needed: found.is_needed,
        gives: found.gives,
        detail: found.detail,
        advice: found.advice,
    };
    Ok(findings.into_iter().map(finding).collect())
}

fn configuration(configuration: &Configuration, state: &Path) -> Finding {
    let path = configuration.path();
    if !path.exists() {
        return CONFIGURATION.not_yet(
            format!("there is no `{}` here, so the defaults apply", path.display()),
            "run `crealeph init`",
        );
    }
    let read = || {
        let agents = agents::load(configuration, state)?.versions().count();
        Scopes::load(configuration, None)?;
        ServerSettings::load(configuration)?;
        let work = WorkConfig::read(configuration)?;
        work.warnings().for_each(|warning| note!("warning: {warning}"));
        Ok((agents, work.agents.len()))
    };
    match read() {
        Ok((agents, workers)) => CONFIGURATION.good(format!(
            "{}, {}, {} for work",
            path.display(),
            counted(agents, "agent"),
            counted(workers, "agent")
        )),
        Err::<_, ConfigError>(error) => CONFIGURATION.failed(&error.into()),
    }
}

/// The ledger, and when its newest entry was taken.
fn ledger_found(ledger: &Ledger, at: &Settled) -> (Finding, Option<Millis>) {
    let place = ledger.place();
    let stats = match ledger.stats(&at.tenant) {
        Ok(Some(stats)) => stats,
        Ok(None) => return (LEDGER.good(format!("{place}, tenant `{}` has no entry yet", at.tenant)), None),
        Err(error) => return (LEDGER.failed(&error.into()), None),
    };
    let newest = ledger.list(&at.tenant, &Default::default(), Order::NewestFirst, None, NEWEST_ENTRIES);
    let finding = match newest {
        Ok(page) => {
            let looked_at = page.entries.len();
            let (entries, tenant) = (stats.entries, &at.tenant);
            LEDGER.good(format!(
                "{place}, entries of tenant `{tenant}`: {entries}, newest {looked_at} verified"
            ))
        }
        Err(error) => LEDGER.failed(&error.into()),
    };
    (finding, stats.last_at)
}

fn keys(folder: &Path, is_made: bool) -> Finding {
    let shown = folder.display();
    if !is_made && !folder.exists() {
        return KEYS.not_yet(format!("no keys in `{shown}`"), "run `crealeph ledger init`");
    }
    let mode = match std::fs::metadata(folder) {
        Ok(metadata) => metadata.permissions().mode() & 0o777,
        Err(error) => {
            let advice = "name the folder with --keys, or restore it; nothing can be signed without it";
            return KEYS.bad(format!("`{shown}`: {error}"), advice);
        }
    };
    if mode & 0o077 != 0 {
        return KEYS
            .bad(format!("`{shown}` is open to others (mode {mode:03o})"), format!("chmod 700 {shown}"));
    }
    match Keyring::load(folder) {
        Ok(ring) => KEYS.good(format!(
            "{} in {shown}, readable only by their owner",
            counted(ring.key_ids("").len(), "key")
        )),
        Err(error) => KEYS.failed(&LedgerError::from(error).into()),
    }
}

fn now() -> Millis {
    Clock::system().now()
}

fn clock(now: Millis, newest: Option<Millis>, skew_ms: i64) -> Finding {
    let advice = "set the clock, for example with `timedatectl set-ntp true`";
    match newest {
        _ if !SANE_MS.contains(&now.get()) => CLOCK.bad(format!("the clock says {now}"), advice),
        Some(newest) if newest.get().saturating_sub(now.get()) > skew_ms => {
            let detail = format!(
                "the clock says {now}, long before the newest entry of {newest}, so nothing can be appended"
            );
            let advice = format!(
                "{advice}; if the clock was wrong when that entry was recorded, use another tenant, or raise `max_clock_skew_seconds` under [ledger]: new entries are then dated like the newest, and evidence dated in the future is not fresh (`recency.future`)"
            );
            CLOCK.bad(detail, advice)
        }
        Some(newest) if now < newest => {
            let detail = format!("the clock says {now}, before the newest entry of {newest}");
            CLOCK.bad(detail, format!("{advice}; until then new entries are dated like the newest"))
        }
        _ => CLOCK.good(now.to_string()),
    }
}

/// Room where `path` is or will be.
fn disk(subject: Subject, path: &Path) -> Finding {
    let here = if path.is_absolute() { PathBuf::new() } else { PathBuf::from(".") };
    let path = here.join(path);
    let found = path.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
    let shown = found.display();
    let room = match rustix::fs::statvfs(found) {
        Ok(room) => room,
        Err(error) => return subject.bad(format!("`{shown}`: {error}"), "check that it can be read"),
    };
    let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
    let detail = format!("{} MiB free at {shown}", free_bytes >> 20);
    // A file system that counts no files says that it has none at all.
    if free_bytes < MIN_FREE_BYTES {
        subject.bad(detail, format!("free some: {} MiB or more", MIN_FREE_BYTES >> 20))
    } else if room.f_files > 0 && room.f_favail < MIN_FREE_FILES {
        subject.bad(format!("{detail}, but only {} more files fit", room.f_favail), "remove files")
    } else {
        subject.good(detail)
    }
}

fn as_page(findings: &[Finding]) -> Page {
    let mut text = Page::default();
    for finding in findings {
        let state = match (finding.present, finding.needed) {
            (true, _) => "yes",
            (false, true) => "FAULT",
            (false, false) => "no",
        };
        let (first, hanging) = (format!("{:<17} {state:<6} ", finding.name), " ".repeat(25));
        let found = format!("{} ({})", finding.gives, finding.detail);
        text.filled(&first, &hanging, &found, COLUMNS);
        let how = if finding.needed { "to fix it" } else { "to enable it" };
        if let Some(advice) = &finding.advice {
            text.filled(&hanging, &hanging, &format!("{how}: {advice}"), COLUMNS);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_cannot_be_right_is_found() {
        let skew_ms = 300_000;
        let (then, now) = (Millis::new(SANE_MS.start), Millis::new(SANE_MS.start + 1));
        for newest in [None, Some(then), Some(now)] {
            assert!(clock(now, newest, skew_ms).present, "{newest:?}");
        }
        let behind = clock(then, Some(now), skew_ms);
        assert!(!behind.present && behind.detail.contains("before the newest entry"), "{behind:?}");
        let ahead = clock(then, Some(Millis::new(then.get() + skew_ms + 1)), skew_ms);
        assert!(!ahead.present && ahead.detail.contains("nothing can be appended"), "{ahead:?}");
        for wrong in [0, SANE_MS.end] {
            assert!(!clock(Millis::new(wrong), None, skew_ms).present, "{wrong}");
        }
    }
}
