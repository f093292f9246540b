//! `crealeph demo`: a guided tour with real commands. Every step is a command that a user could type; it is shown and run
//! by a shell in a folder of the demo's own. If a step does not end as expected, the demo fails and reports it.

mod bounds;
mod decisions;
mod people;
mod stage;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crealeph_sandbox::{Config, Sandbox};

use self::stage::Stage;
use super::CommandOutcome;
use super::sandbox::state_directory;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  crealeph demo
  crealeph demo --folder try-it
  crealeph demo --serve

Needs no network and no model; the agents are small scripts that you can read in the folder afterwards.

Exit codes: 0 every step succeeded, 1 a step failed, 2 the demo could not be run.";

/// Run a guided demo in a new folder
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Demo {
    /// New or empty folder, which is kept [default: a new temporary folder]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// Then leave a draft and a change awaiting approval, and serve the console, until Ctrl-C
    #[arg(long)]
    serve: bool,

    /// Address and port of the console; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4114", requires = "serve")]
    listen: SocketAddr,
}

impl Demo {
    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let features = Sandbox::new(Config::new(state_directory(None)))?.features()?;
        let missing: Vec<&str> =
            features.iter().filter(|it| it.needed && !it.present).map(|it| it.name).collect();
        let mut stage = Stage::open(self.folder, output)?;
        if !missing.is_empty() {
            stage.say(&format!(
                "This machine lacks {} for the full sandbox (`crealeph doctor` explains how to get it). The demo accepts the \
                 weaker one openly, as `accept_reduced = true` does, and its receipts say so.",
                missing.join(", ")
            ))?;
        }
        stage.title("A coding agent within limits")?;
        bounds::play(&mut stage.act("shop")?, !missing.is_empty())?;
        stage.title("Decisions on evidence")?;
        decisions::play(&mut stage.act("decisions")?)?;
        if self.serve {
            stage.title("What awaits approval")?;
            people::draft(&mut stage.back_in("decisions"))?;
            people::change(&mut stage.back_in("shop"), !missing.is_empty())?;
        }
        stage.end()?;
        if self.serve {
            stage.title("The console")?;
            // It shows the diffs and output of the workspace that it is started in.
            return Err(stage.back_in("shop").serve(self.listen));
        }
        Ok(CommandOutcome::Good)
    }
}
