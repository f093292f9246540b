//! `crealeph demo`: the whole idea, told on real parts. Every step is a command that a user could type; it is shown, run by
//! a shell in a folder of the demo's own, and must end as the story says, or the demo fails and says where.

mod decisions;
mod stage;

use std::path::PathBuf;

use clap::Args;

use self::stage::Stage;
use super::Verdict;
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
        let mut stage = Stage::open(self.folder, output)?;
        stage.title("Decisions on evidence")?;
        decisions::play(&mut stage.act("decisions")?)?;
        stage.end()?;
        Ok(Verdict::Good)
    }
}
