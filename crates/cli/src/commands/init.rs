//! `crealeph init`: a folder to start in, with a commented configuration, a first agent to change, and what is needed to run
//! it. Writes only files that are not there yet.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use crealeph_runtime::configuration::FILE;

use super::CommandOutcome;
use crate::failure::{Failure, OutputFailure};
use crate::output::{Output, note};
use crate::trusting;

const EXAMPLES: &str = "\
Examples:
  crealeph init
  crealeph init --agent node my-project

Writes crealeph.toml, agents/planner.*, entries.jsonl and request.json. If one of them exists, it is left alone, and
nothing is written.";

/// Create a commented configuration and a first agent
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Init {
    /// Folder
    #[arg(default_value = ".")]
    folder: PathBuf,

    /// Language of the first agent
    #[arg(long, value_enum, default_value_t)]
    agent: Language,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Language {
    #[default]
    Python,
    Node,
    /// A POSIX shell and awk, which every system has
    Shell,
}

impl Language {
    /// The interpreter, the agent's file and its text.
    fn agent(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Language::Python => {
                ("python3", "agents/planner.py", include_str!("../../../../examples/agents/planner.py"))
            }
            Language::Node => {
                ("node", "agents/planner.mjs", include_str!("../../../../examples/agents/planner.mjs"))
            }
            Language::Shell => {
                ("sh", "agents/planner.sh", include_str!("../../../../examples/agents/planner.sh"))
            }
        }
    }
}

const ENTRIES: &str = include_str!("init/entries.jsonl");
const REQUEST: &str = include_str!("init/request.json");
const TEMPLATE: &str = include_str!("init/crealeph.toml");

impl Init {
    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let (interpreter, path, agent) = self.agent.agent();
        let command = format!("[\"{interpreter}\", \"{path}\"]");
        let configuration = TEMPLATE.replace("{command}", &command);
        let files = [
            (FILE, configuration.as_str()),
            (path, agent),
            ("entries.jsonl", ENTRIES),
            ("request.json", REQUEST),
        ];
        if let Some((taken, _)) = files.iter().find(|(name, _)| self.folder.join(name).exists()) {
            return Err(OutputFailure::Taken(self.folder.join(taken)).into());
        }
        // A folder that is a link would have the agent written elsewhere.
        let agents = self.folder.join(path).parent().map(Path::to_owned).unwrap_or_default();
        if agents.is_symlink() {
            return Err(OutputFailure::Taken(agents).into());
        }
        for (name, text) in files {
            write_new(&self.folder.join(name), text)?;
            note!("wrote {}", self.folder.join(name).display());
        }
        trusting::accept_own(&self.folder.join(FILE))?;
        if self.folder != Path::new(".") {
            note!("");
            note!("Go there: cd {}", self.folder.display());
        }
        note!("");
        note!("Then, one after the other:");
        for step in [
            "crealeph agent check planner@1          # does it conform to its contract?",
            "crealeph ledger init",
            "crealeph ledger append entries.jsonl    # what is known so far",
            "crealeph snapshot shop-17               # is it consistent?",
            "crealeph build request.json             # decide, call the agent, record",
        ] {
            output.line(step)?;
        }
        note!("");
        note!("Each `build` is a new execution; give the request an `executionId`, and it is done once.");
        Ok(CommandOutcome::Good)
    }
}

fn write_new(path: &Path, text: &str) -> Result<(), OutputFailure> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let written = fs::create_dir_all(folder)
        .and_then(|()| fs::File::create_new(path))
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => OutputFailure::Taken(path.to_owned()),
        _ => OutputFailure::Unwritable { path: path.to_owned(), source },
    })
}
