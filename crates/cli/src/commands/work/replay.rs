//! `crealeph work replay` and `crealeph work export`: replays a success in a scratch folder, here or on another machine.

use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_contracts::shape::Set;
use crealeph_runtime::work::replay::{RecordedRun, ReplayOutcome};
use crealeph_runtime::work::{Destination, ItemOutcome, RunOptions};
use serde::Serialize;

use super::evidence::mismatch_in;
use super::key::control;
use super::named_run::named_folder;
use super::workspace_args::WorkspaceArgs;
use crate::commands::CommandOutcome;
use crate::failure::{Failure, OutputFailure, WorkFailure};
use crate::output::{Output, note, note_json};

const REPLAY_EXAMPLES: &str = "\
Examples:
  crealeph work replay 0190a6f0-7c2e
  crealeph work replay exported/runs/0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f --on ~/fresh-clone

The state before the run is restored in a scratch folder, the recorded change is applied to it, and the hash of the result
is compared with the receipt. With --rerun the agent is run again instead, which gives the same state only
if the agent does the same again. The workspace is not touched. To check the receipt itself, use
`crealeph work verify`.

Exit codes: 0 the same state, 1 another state; the files that differ are listed, 2 cannot be replayed.";

const EXPORT_EXAMPLES: &str = "\
Examples:
  crealeph work export @ exported
  tar -czf run.tar.gz exported

The folder holds what another machine needs to check and to replay the run, apart from the `crealeph` program itself: the run
with its replay script, the receipts of the whole chain, the states before and after with their contents.

Exit codes: 0 exported, 2 cannot be done.";

/// Which run.
#[derive(Debug, Args)]
struct Which {
    /// Run id or its start, `@` for the newest, or the folder of an exported run
    run: PathBuf,

    #[command(flatten)]
    workspace: WorkspaceArgs,
}

impl Which {
    fn recorded(&self) -> Result<RecordedRun, Failure> {
        let own = control(&self.workspace.folder()?).join("runs").join(&self.run);
        let folder = if own.is_dir() { own } else { named_folder(&self.workspace, &self.run)? };
        let recorded = RecordedRun::open(&folder)?;
        match mismatch_in(&self.workspace, &folder)? {
            Some(what) => Err(WorkFailure::Mismatch(what).into()),
            None => Ok(recorded),
        }
    }
}

/// Replay a successful run in a scratch folder and compare the state hash
#[derive(Debug, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub(super) struct Replay {
    #[command(flatten)]
    which: Which,

    /// Start from the files in this folder, a fresh clone for example, instead of the recorded contents
    #[arg(long, value_name = "DIR")]
    on: Option<PathBuf>,

    /// Run the agent again instead of applying its recorded changes
    #[arg(long)]
    rerun: bool,

    /// With --rerun: agent to use [default: the agent with the item's agent_id]
    #[arg(long, value_name = "NAME", requires = "rerun")]
    agent: Option<String>,

    /// Print only the hash of the resulting state, and leave the comparison to the caller
    #[arg(long)]
    print_hash: bool,
}

impl Replay {
    pub(super) fn wants_json(&self) -> bool {
        self.which.workspace.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let recorded = self.which.recorded()?;
        let scratch = Scratch::new()?;
        let tree = scratch.0.join("tree");
        recorded.restore(self.on.as_deref(), &tree)?;
        let replayed = match self.rerun {
            true => self.run_again(&recorded, &tree)?,
            false => recorded.replay(&tree)?,
        };
        if self.print_hash {
            output.line(&replayed.state.to_string())?;
            return Ok(CommandOutcome::Good);
        }
        self.print(&recorded, &replayed, output)
    }

    /// The same item once more, by an agent, in the scratch folder as a separate workspace.
    fn run_again(&self, recorded: &RecordedRun, tree: &Path) -> Result<ReplayOutcome, Failure> {
        let mut item = recorded.item()?;
        // What it depended on has been done: it is in the state it starts from.
        item.dependencies = Set::default();
        let work = self.which.workspace.open_scratch(tree)?;
        let agent = self.agent.clone();
        let options = RunOptions {
            jobs: 1,
            destination: Destination::Tree,
            is_held: false,
            agent,
            is_capped: true,
            only_failed: false,
        };
        for outcome in work.run(&[item], &options, &|_| (), &mut |_| ())? {
            if let ItemOutcome::Finished { result, .. } = &outcome {
                note_json(&result.to_json());
            }
        }
        drop(work);
        Ok(recorded.compare(tree)?)
    }

    fn print(
        &self,
        recorded: &RecordedRun,
        replayed: &ReplayOutcome,
        output: &mut Output,
    ) -> Result<CommandOutcome, Failure> {
        let is_same = replayed.state == replayed.expected;
        let id = recorded.receipt.id;
        if self.which.workspace.at.json || !output.is_for_person() {
            output.report_line(&ReplayLine {
                ok: is_same,
                run: id.to_string(),
                state_hash: replayed.state.to_string(),
                expected: replayed.expected.to_string(),
                differing: &replayed.differing.first,
                differing_left_off: replayed.differing.left_off,
                withheld: recorded.withheld()?,
            })?;
        } else if is_same {
            output
                .line(&format!("run {id} replayed: the state is {}, as the receipt says", replayed.state))?;
            for path in recorded.withheld()? {
                output.line(&format!("  not recorded, taken as it was: {path} (hidden from the agent)"))?;
            }
        } else {
            let (state, expected) = (replayed.state, replayed.expected);
            output.line(&format!("run {id} gives the state {state}, and the receipt says {expected}"))?;
            for path in &replayed.differing.first {
                output.line(&format!("  differs: {path}"))?;
            }
            if replayed.differing.left_off > 0 {
                output.line(&format!("  and {} more", replayed.differing.left_off))?;
            }
        }
        Ok(if is_same { CommandOutcome::Good } else { CommandOutcome::Bad })
    }
}

/// Export a run to a folder, with everything that verify and replay need
#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub(super) struct Export {
    #[command(flatten)]
    which: Which,

    /// New folder
    into: PathBuf,
}

impl Export {
    pub(super) fn run(self, _: &mut Output) -> Result<CommandOutcome, Failure> {
        self.which.recorded()?.export(&self.into)?;
        note!("exported to `{}`", self.into.display());
        Ok(CommandOutcome::Good)
    }
}

/// What a replay gave as a program gets it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplayLine<'r> {
    ok: bool,
    run: String,
    state_hash: String,
    expected: String,
    differing: &'r [String],
    differing_left_off: usize,
    withheld: Vec<String>,
}

/// A folder that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Failure> {
        let mut random = [0u8; 8];
        let unwritable = |source| OutputFailure::Unwritable { path: std::env::temp_dir(), source };
        getrandom::fill(&mut random).map_err(|error| unwritable(std::io::Error::other(error.to_string())))?;
        let name = format!("crealeph-replay-{:016x}", u64::from_le_bytes(random));
        let path = std::env::temp_dir().join(name);
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700).create(&path).map_err(unwritable)?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(Path::new(&self.0));
    }
}
