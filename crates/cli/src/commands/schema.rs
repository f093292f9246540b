//! `crealeph schema`: the contracts as JSON Schema 2020-12.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use crealeph_contracts::contract::ContractName;
use crealeph_runtime::validation::contract_name;

use super::CommandOutcome;
use crate::failure::{Failure, OutputFailure};
use crate::output::{Output, note};

const EXAMPLES: &str = "\
Examples:
  crealeph schema agent-output > agent-output.schema.json
  crealeph schema --all schemas
  crealeph schema --openapi .

A schema covers what a JSON Schema can express of a contract; `crealeph validate` checks the rest.";

/// Print the JSON Schema of a contract, or write all of them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Schema {
    /// Contract name
    #[arg(value_parser = contract_name, required_unless_present_any = ["all", "openapi"])]
    contract: Option<ContractName>,

    /// Write all schemas to this folder, as CONTRACT.schema.json
    #[arg(long, value_name = "DIR", conflicts_with = "contract")]
    all: Option<PathBuf>,

    /// Write the OpenAPI document of the server to this folder, as openapi.json
    #[arg(long, value_name = "DIR", conflicts_with_all = ["contract", "all"])]
    openapi: Option<PathBuf>,
}

impl Schema {
    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        if let Some(folder) = self.all {
            let failure = |path: PathBuf| move |source| OutputFailure::Unwritable { path, source };
            fs::create_dir_all(&folder).map_err(failure(folder.clone()))?;
            for contract in ContractName::ALL {
                let path = folder.join(format!("{contract}.schema.json"));
                fs::write(&path, contract.schema()).map_err(failure(path.clone()))?;
                note!("wrote {}", path.display());
            }
        }
        if let Some(folder) = self.openapi {
            let path = folder.join("openapi.json");
            let failure = |source| OutputFailure::Unwritable { path: path.clone(), source };
            fs::create_dir_all(&folder).map_err(failure)?;
            fs::write(&path, format!("{:#}\n", crealeph_server::openapi_document())).map_err(failure)?;
            note!("wrote {}", path.display());
        }
        if let Some(contract) = self.contract {
            output.exactly(&contract.schema())?;
        }
        Ok(CommandOutcome::Good)
    }
}
