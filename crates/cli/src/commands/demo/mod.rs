//! `crealeph demo`: the whole idea, told on real parts. Every step is a command that a user could type; it is shown, run by
//! a shell in a folder of the demo's own, and must end as the story says, or the demo fails and says where.

mod bounds;
mod decisions;
mod stage;

use std::path::PathBuf;

use clap::Args;

use crealeph_sandbox::{Config, Sandbox};

use self::stage::Stage;
use super::Verdict;
use super::sandbox::state_directory;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  crealeph demo
  crealeph demo --folder try-it

Needs no network and no model; the agents are small scripts that you can read in the folder afterwards.

Exit codes: 0 everything went as told, 1 some step did not, 2 it could not be played.";

/// See the whole idea work on real parts, in a folder of its own
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Demo {
    /// Where to play it: a new or empty folder, which is kept [default: a new one for temporary files]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl Demo {
    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let features = Sandbox::new(Config::new(state_directory(None)))?.features()?;
        let missing: Vec<&str> =
            features.iter().filter(|it| it.needed && !it.present).map(|it| it.name).collect();
        let mut stage = Stage::open(self.folder, output)?;
        if !missing.is_empty() {
            stage.say(&format!(
                "This machine lacks {} for the full sandbox (`crealeph doctor` says how to get it). The demo accepts the \
                 weaker one openly, as `accept_reduced = true` does, and its receipts say so.",
                missing.join(", ")
            ))?;
        }
        stage.title("A coding agent under bounds")?;
        bounds::play(&mut stage.act("shop")?, !missing.is_empty())?;
        stage.title("Decisions on evidence")?;
        decisions::play(&mut stage.act("decisions")?)?;
        stage.end()?;
        Ok(Verdict::Good)
    }
}
