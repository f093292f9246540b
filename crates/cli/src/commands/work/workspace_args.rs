//! Where work is done: the workspace, its configuration and its ledger, as the flags of every `work` command name them.

use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_ledger::Location;
use crealeph_runtime::configuration::{Configuration, FILE};
use crealeph_runtime::work::{KeptFile, Recovery, Work, WorkConfig, WorkError, WorkSetup};

use crate::commands::ledger::{At, Settled};
use crate::commands::place::Place;
use crate::commands::sandbox::state_directory;
use crate::failure::{Failure, InputFailure, ServerFailure, TrustFailure};
use crate::output::note;
use crate::trusting::{self, Uses};
use crate::{own, user_state};

/// Which workspace.
#[derive(Clone, Debug, Args)]
pub(in crate::commands) struct WorkspaceArgs {
    /// Workspace folder
    #[arg(long = "workspace", value_name = "DIR", default_value = ".")]
    root: PathBuf,

    #[command(flatten)]
    pub(in crate::commands) at: At,
}

impl WorkspaceArgs {
    /// A folder, with what is said of its ledger.
    pub(in crate::commands) fn new(root: PathBuf, at: At) -> Self {
        WorkspaceArgs { root, at }
    }

    /// The workspace's folder, in full. Its `.crealeph` is the user's own, or absent.
    pub(in crate::commands) fn folder(&self) -> Result<PathBuf, Failure> {
        let folder = &self.root;
        let folder = folder.canonicalize().map_err(|_| InputFailure::NotFound(folder.clone()))?;
        own::check(&folder)?;
        Ok(folder)
    }

    /// The configuration: the one that is named, else the workspace's, else the one here.
    pub(super) fn configuration(&self) -> Result<Configuration, Failure> {
        let inside = self.folder()?.join(FILE);
        let named = self.at.config().or_else(|| inside.exists().then_some(inside.as_path()));
        Ok(Configuration::find(named)?)
    }

    /// A server, or the ledger, for a command that does not need a workspace.
    pub(in crate::commands) fn place_here(&self) -> Result<Place, Failure> {
        match self.root == Path::new(".") {
            true => self.at.clone().place(),
            false if self.at.server.is_named() => Err(ServerFailure::Excluded("--workspace").into()),
            false => Ok(Place::Here(Box::new(self.settle()?))),
        }
    }

    /// The ledger and the tenant.
    pub(in crate::commands) fn settle(&self) -> Result<Settled, Failure> {
        self.at.clone().settle_with(self.configuration()?, &self.folder()?)
    }

    /// Opens a scratch folder with the agents of this workspace and nothing else of it: with its own ledger and keys.
    pub(super) fn open_scratch(&self, folder: &Path) -> Result<Work, Failure> {
        self.require_trust()?;
        let settled = Settled {
            keys: folder.join(".crealeph/keys"),
            location: Location::File(folder.join(".crealeph/ledger.db")),
            ..self.settle()?
        };
        Ok(self.open_at(folder.to_owned(), settled, &[])?.0)
    }

    /// Opens everything.
    pub(in crate::commands) fn open(&self) -> Result<Work, Failure> {
        Ok(self.open_with_recovery()?.0)
    }

    /// The same for runs whose grants these files define, too.
    pub(super) fn open_with(&self, sources: &[PathBuf]) -> Result<Work, Failure> {
        let (folder, settled) = self.prepare()?;
        let opened = self.open_at(folder, settled, sources)?;
        note_recovery(&opened.0, &opened.1)?;
        Ok(opened.0)
    }

    /// The same, with what an earlier process had left.
    pub(super) fn open_with_recovery(&self) -> Result<(Work, Recovery), Failure> {
        let (folder, settled) = self.prepare()?;
        let opened = self.open_at(folder, settled, &[])?;
        note_recovery(&opened.0, &opened.1)?;
        Ok(opened)
    }

    /// The workspace and its settings, when everything is trusted and its `.crealeph` is there.
    fn prepare(&self) -> Result<(PathBuf, Settled), Failure> {
        self.check_state_directory()?;
        self.require_trust()?;
        let (folder, settled) = (self.folder()?, self.settle()?);
        own::claim(&folder)?;
        Ok((folder, settled))
    }

    /// What was trusted, and open views, must not be where an agent works.
    fn check_state_directory(&self) -> Result<(), Failure> {
        let workspace = self.root.canonicalize().map_err(|_| InputFailure::NotFound(self.root.clone()))?;
        match user_state::folder().filter(|state| user_state::real(state).starts_with(&workspace)) {
            Some(state) => Err(TrustFailure::StateInside { state, workspace }.into()),
            None => Ok(()),
        }
    }

    /// Agents of this configuration are about to run.
    fn require_trust(&self) -> Result<(), Failure> {
        trusting::require(&self.configuration()?, Uses::Everything)
    }

    fn open_at(
        &self,
        workspace: PathBuf,
        settled: Settled,
        sources: &[PathBuf],
    ) -> Result<(Work, Recovery), Failure> {
        let named = settled.configuration.named_files().into_iter().map(|file| file.path);
        let given = sources.iter().filter_map(|path| std::path::absolute(path).ok());
        let sources = named.chain(given).collect();
        let config = WorkConfig::read(&settled.configuration)?;
        config.warnings().for_each(|warning| note!("warning: {warning}"));
        // The ledger is in `.crealeph`, which the workspace makes with the right permissions.
        drop(crealeph_workspace::Workspace::open(&workspace).map_err(WorkError::from)?);
        let ledger = settled.open_or_init()?;
        let private = private_paths(&settled);
        let setup = WorkSetup {
            workspace,
            config,
            state_dir: state_directory(None),
            ledger,
            keys: settled.keys,
            private,
            sources,
            tenant: settled.tenant,
        };
        Ok(Work::open(setup)?)
    }
}

/// What no agent and no test may see, wherever it is.
pub(in crate::commands) fn private_paths(settled: &Settled) -> Vec<PathBuf> {
    let mut private = vec![settled.keys.clone()];
    private.extend(user_state::folder());
    if let Location::File(file) = &settled.location {
        // SQLite's own files next to it.
        private.extend(["", "-wal", "-shm", "-journal"].map(|end| {
            let mut name = file.clone().into_os_string();
            name.push(end);
            PathBuf::from(name)
        }));
    }
    private
}

/// Notes what an earlier process had left.
fn note_recovery(work: &Work, recovery: &Recovery) -> Result<(), Failure> {
    for run in &recovery.completed {
        let run = work.short_run(run)?;
        note!("run {run} had landed when its process ended; its receipt is written now");
    }
    for run in &recovery.interrupted {
        let run = work.short_run(run)?;
        note!("run {run} was interrupted and left nothing; its receipt says so");
    }
    if recovery.undone > 0 {
        note!("{} interrupted publish(es) undone", recovery.undone);
    }
    for KeptFile { path, beside } in &recovery.kept {
        match beside {
            None => note!("`{path}` was written by someone else meanwhile and stays as it is"),
            Some(beside) => {
                note!(
                    "`{path}` was written by someone else meanwhile; that is kept in `{}`",
                    beside.display()
                );
            }
        }
    }
    Ok(())
}
