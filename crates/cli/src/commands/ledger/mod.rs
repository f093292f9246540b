//! `crealeph ledger`: the ledger from the command line. This file has its arguments and finds the ledger;
//! the commands that write, read and prove have a file each.

mod maintaining;
mod proving;
mod reading;
mod writing;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use crealeph_contracts::scalar::TenantId;
use crealeph_ledger::{Ledger, LedgerError, LedgerLimits, LedgerOptions, Location};
use crealeph_runtime::configuration::{ConfigError, Configuration, Table, absolute};

pub(super) use proving::{parse_key, read_keys};

use super::CommandOutcome;
use super::place::{Place, RemoteLog};
use super::server_args::ServerArgs;
use crate::failure::{ArgumentFailure, Failure, LedgerFailure, ServerFailure, TrustFailure};
use crate::output::Output;
use crate::own;
use crate::trusting::{self, Uses};

/// The default ledger.
const DEFAULT_LEDGER: &str = ".crealeph/ledger.db";

/// The largest `max_clock_skew_seconds`: a thousand years.
const MAX_SKEW_SECONDS: u64 = 31_536_000_000;

const EXAMPLES: &str = "\
Examples:
  crealeph ledger init
  crealeph ledger append entries.jsonl
  crealeph ledger list --type signal --newest
  crealeph ledger checkpoint > saved.checkpoint
  crealeph ledger key > saved.key
  crealeph ledger verify --key saved.key --checkpoint saved.checkpoint
  crealeph ledger prove 0190a6f0-7c2e > proof.json
  crealeph ledger verify-proof proof.json --key saved.key
  crealeph ledger backup before.db && crealeph ledger migrate

A line for `append`: {\"robotId\",\"module\",\"source\",\"type\",\"state\",\"payload\"} and optionally `lineage`
{\"dependsOnLedgerIds\": [\"<id>\" or \"key:<key>\"]}, `observedAt` and `key`. With keys, running it again is safe.

The ledger is chosen by --ledger, else CREALEPH_LEDGER, else `location` under [ledger] in crealeph.toml, else
.crealeph/ledger.db; the same for --tenant and --keys (CREALEPH_TENANT, CREALEPH_KEYS; `tenant`, `keys`).

With --server or CREALEPH_SERVER these use a server: append, checkpoint, get, list, tail, lineage, stats, prove, export, verify. The last two
need an auditor's key; verification runs here, with keys and checkpoints that you saved.

An entry is named by its id or the start of it; `@` is the newest, `@-` the one before.

Exit codes: 0 done, 1 refused or a fault was found, 2 cannot be done.";

/// Append-only log with tamper evidence
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct LedgerCommand {
    #[command(flatten)]
    at: At,

    #[command(subcommand)]
    action: Action,
}

/// Which ledger, and which tenant.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct At {
    /// Ledger file, or database URL `postgres://…`
    #[arg(long, global = true, value_name = "LEDGER")]
    ledger: Option<String>,

    /// Tenant [default: local]
    #[arg(long, global = true)]
    tenant: Option<String>,

    /// Folder of the signing keys [default: next to the ledger]
    #[arg(long, global = true, value_name = "FOLDER")]
    keys: Option<PathBuf>,

    /// Configuration file [default: crealeph.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print JSON
    #[arg(long, global = true)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a ledger and its first signing key
    Init,
    /// Upgrade a ledger to the current schema; resumes if interrupted
    Migrate,
    /// List tenants; on PostgreSQL this needs the audit role
    Tenants,
    Append(writing::Append),
    Import(writing::Import),
    Backup(writing::Backup),
    /// Sign the current state of the log and print the checkpoint
    Checkpoint,
    Key(writing::Key),
    Get(reading::Get),
    List(reading::List),
    Tail(reading::Tail),
    Lineage(reading::LineageOf),
    /// Print the size, root hash and checkpoints of the log
    Stats,
    Export(proving::Export),
    Verify(proving::Verify),
    Prove(proving::Prove),
    VerifyProof(proving::VerifyProof),
}

impl LedgerCommand {
    pub(super) fn wants_json(&self) -> bool {
        self.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        // Checking a proof needs no ledger, and so nothing of the configuration.
        let action = match self.action {
            Action::VerifyProof(command) => return command.run(output, self.at.json),
            Action::Verify(command) => return command.run(self.at, output),
            action => action,
        };
        let at = self.at.place()?;
        match action {
            Action::Init => writing::init(at.here()?),
            Action::Migrate => maintaining::migrate(at.here()?, output),
            Action::Tenants => maintaining::tenants(at.here()?, output),
            Action::Append(command) => command.run(&at, output),
            Action::Import(command) => command.run(at.here()?, output),
            Action::Backup(command) => command.run(at.here()?, output),
            Action::Checkpoint => writing::checkpoint(&at, output),
            Action::Key(command) => command.run(at.here()?, output),
            Action::Get(command) => command.run(&at, output),
            Action::List(command) => command.run(&at, output),
            Action::Tail(command) => command.run(&at, output),
            Action::Lineage(command) => command.run(&at, output),
            Action::Stats => reading::stats(&at, output),
            Action::Export(command) => command.run(&at, output),
            Action::Prove(command) => command.run(&at, output),
            Action::Verify(_) | Action::VerifyProof(_) => Ok(CommandOutcome::Unjudged),
        }
    }
}

/// [`At`] resolved with environment and configuration.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) location: Location,
    pub(super) tenant: TenantId,
    pub(super) keys: PathBuf,
    pub(super) limits: LedgerLimits,
    pub(super) configuration: Configuration,
    pub(super) is_json: bool,
}

/// The settings of `[ledger]`.
#[derive(Debug, Default)]
struct LedgerTable {
    location: Option<Location>,
    tenant: Option<String>,
    keys: Option<PathBuf>,
    limits: LedgerLimits,
}

impl At {
    /// What a command line says of the ledger that is not parsed yet.
    pub(super) fn of_line(ledger: Option<String>, tenant: Option<String>) -> Self {
        At { ledger, tenant, ..At::default() }
    }

    /// The tenant, where a flag names it.
    pub(super) fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// A server, if one is named, else the ledger. What names a part of a ledger has no meaning for a server: the tenant comes from
    /// the key.
    pub(super) fn place(self) -> Result<Place, Failure> {
        let flags = [
            ("--ledger", self.ledger.is_some()),
            ("--tenant", self.tenant.is_some()),
            ("--keys", self.keys.is_some()),
            ("--config", self.config.is_some()),
        ];
        let flag = flags.iter().find_map(|(name, is_given)| is_given.then_some(*name));
        if let (true, Some(flag)) = (self.server.is_named(), flag) {
            return Err(ServerFailure::Excluded(flag).into());
        }
        // A flag goes before the environment.
        let server = if flag.is_some() { None } else { self.server.chosen()? };
        match server {
            None => Ok(Place::Here(Box::new(self.settle()?))),
            Some(client) => {
                let tenant = client.tenant()?;
                Ok(Place::Server(RemoteLog { client, tenant, is_json: self.json }))
            }
        }
    }

    /// Flag, else environment, else configuration, else the default.
    pub(super) fn settle(self) -> Result<Settled, Failure> {
        let configuration = Configuration::find(self.config.as_deref())?;
        self.settle_with(configuration, Path::new(""))
    }

    /// These words for a workspace whose configuration names this ledger and tenant, whatever flags and the environment say.
    pub(super) fn for_workspace(&self, location: &Location, tenant: &TenantId) -> Self {
        let ledger = match location {
            Location::File(file) => file.display().to_string(),
            Location::Postgres(url) => url.clone(),
        };
        At { ledger: Some(ledger), tenant: Some(tenant.to_string()), ..self.clone() }
    }

    /// The configuration that a flag names.
    pub(super) fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The same for a folder, with its configuration.
    pub(super) fn settle_with(self, configuration: Configuration, folder: &Path) -> Result<Settled, Failure> {
        let LedgerTable { location, tenant, keys, limits } = configured(&configuration)?;
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let ledger_named = self.ledger.or_else(|| variable("CREALEPH_LEDGER"));
        let keys_named = self.keys.or_else(|| variable("CREALEPH_KEYS").map(PathBuf::from));
        let is_configured =
            (ledger_named.is_none() && location.is_some()) || (keys_named.is_none() && keys.is_some());
        if is_configured {
            trusting::require(&configuration, Uses::Ledger)?;
        }
        let location = ledger_named.map(|text| Location::parse(&text)).or(location);
        let location = location.unwrap_or_else(|| Location::File(folder.join(DEFAULT_LEDGER)));
        let tenant = self.tenant.or_else(|| variable("CREALEPH_TENANT")).or(tenant);
        let tenant = tenant.as_deref().unwrap_or("local");
        let tenant = named("tenant", tenant, TenantId::parse)?;
        let keys = keys_named.or(keys).unwrap_or_else(|| location.default_keys());
        let file = match &location {
            Location::File(file) => Some(file.as_path()),
            _ => None,
        };
        for workspace in file.into_iter().chain([keys.as_path()]).flat_map(own::workspaces_of) {
            own::check(&workspace)?;
        }
        Ok(Settled { location, tenant, keys, limits, configuration, is_json: self.json })
    }
}

/// The ledger and the tenant that the configuration of a folder names, else the defaults; neither flags nor the environment count.
pub(super) fn configured_place(
    configuration: &Configuration,
    folder: &Path,
) -> Result<(Location, TenantId), Failure> {
    let LedgerTable { location, tenant, .. } = configured(configuration)?;
    let location = location.unwrap_or_else(|| Location::File(folder.join(DEFAULT_LEDGER)));
    Ok((location, named("tenant", tenant.as_deref().unwrap_or("local"), TenantId::parse)?))
}

fn configured(configuration: &Configuration) -> Result<LedgerTable, ConfigError> {
    let Some(section) = configuration.section("ledger")? else { return Ok(LedgerTable::default()) };
    let read = || {
        let table = Table::new(section);
        let beside = |path: &str| absolute(configuration.folder(), path);
        let location = table.text("location")?.map(|text| match Location::parse(text) {
            Location::File(_) => Location::File(beside(text)),
            database => database,
        });
        let tenant = table.text("tenant")?.map(str::to_owned);
        let keys = table.text("keys")?.map(beside);
        let mut limits = LedgerLimits::default();
        let skew_seconds = limits.clock_skew_ms.unsigned_abs() / 1_000;
        let skew_seconds = table.number("max_clock_skew_seconds", skew_seconds, 1, MAX_SKEW_SECONDS)?;
        limits.clock_skew_ms = i64::try_from(skew_seconds).map_or(i64::MAX, |seconds| seconds * 1_000);
        table.finish()?;
        Ok(LedgerTable { location, tenant, keys, limits })
    };
    read().map_err(|why| configuration.wrong("ledger", why))
}

impl Settled {
    fn options(&self) -> LedgerOptions {
        LedgerOptions { keys: Some(self.keys.clone()), limits: self.limits, ..LedgerOptions::default() }
    }

    pub(super) fn open(&self) -> Result<Ledger, Failure> {
        Ledger::open(&self.location, self.options()).map_err(|error| match (&error, self.folder_above()) {
            (LedgerError::Missing { place }, Some(folder)) => {
                LedgerFailure::LedgerAbove { place: place.clone(), folder }.into()
            }
            _ => error.into(),
        })
    }

    /// The nearest folder above that has a ledger, if the default one is used.
    fn folder_above(&self) -> Option<PathBuf> {
        let here = std::env::current_dir().ok()?;
        let is_default = matches!(&self.location, Location::File(file) if file == Path::new(DEFAULT_LEDGER));
        let mut above = here.ancestors().skip(1).filter(|_| is_default);
        above.find(|folder| folder.join(DEFAULT_LEDGER).is_file()).map(Path::to_owned)
    }

    /// Creates the `.crealeph` that the ledger goes into, if it does.
    pub(super) fn claim(&self) -> Result<(), TrustFailure> {
        match &self.location {
            Location::File(file) => own::workspaces_of(file).iter().try_for_each(|folder| own::claim(folder)),
            _ => Ok(()),
        }
    }

    /// Opens the ledger; creates a missing file with its first signing key.
    pub(super) fn open_or_init(&self) -> Result<Ledger, Failure> {
        match &self.location {
            Location::File(file) if !file.exists() => {
                match Ledger::init(&self.location, self.options()) {
                    // Another process created it first.
                    Err(_) if file.exists() => self.open(),
                    created => Ok(created?),
                }
            }
            _ => self.open(),
        }
    }

    pub(super) fn is_json(&self, output: &Output) -> bool {
        self.is_json || !output.is_for_person()
    }
}

/// Reads an identifier that was given as an argument.
pub(super) fn named<T>(
    what: &'static str,
    name: &str,
    parse: impl Fn(&str) -> Result<T, crealeph_contracts::scalar::IdentifierError>,
) -> Result<T, ArgumentFailure> {
    parse(name).map_err(|error| ArgumentFailure::BadName {
        what,
        name: name.to_owned(),
        reason: error.to_string(),
    })
}
