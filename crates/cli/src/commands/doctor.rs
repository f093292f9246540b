//! `crealeph doctor`: what this machine offers, what it gives, how to get what is missing.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use crealeph_sandbox::{Config, Feature, Sandbox};

use super::Verdict;
use super::sandbox::state_directory;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  crealeph doctor
  crealeph doctor --json | jq '.[] | select(.present | not)'

Exit codes: 0 a sandbox runs at full strength here, 1 it does not, 2 cannot tell.";

/// Show what this machine offers a sandbox, and how to get what is missing
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Doctor {
    /// Where views are kept while they are open
    #[arg(long, value_name = "DIRECTORY")]
    state_dir: Option<PathBuf>,

    /// Print JSON, as a pipe gets it
    #[arg(long)]
    pub(super) json: bool,
}

impl Doctor {
    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let sandbox = Sandbox::new(Config::new(state_directory(self.state_dir)))?;
        let features = sandbox.features()?;
        if self.json || !output.is_for_person() {
            let json = serde_json::to_string(&features).map_err(|error| Failure::Output(error.into()))?;
            output.json(&json)?;
        } else {
            output.text(&told(&features))?;
        }
        let full = features.iter().all(|feature| feature.present || !feature.needed);
        Ok(if full { Verdict::Good } else { Verdict::Bad })
    }
}

fn told(features: &[Feature]) -> String {
    let mut text = String::new();
    for feature in features {
        let state = match (feature.present, feature.needed) {
            (true, _) => "yes",
            (false, true) => "MISSING",
            (false, false) => "no",
        };
        let _ = writeln!(text, "{:<17} {state:<8} {} ({})", feature.name, feature.gives, feature.detail);
        if let Some(advice) = &feature.advice {
            let _ = writeln!(text, "{:26} to get it: {advice}", "");
        }
    }
    text
}
