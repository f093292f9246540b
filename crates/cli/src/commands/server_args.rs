//! `--server` and the key for it: the same for every command that talks to a server.

use std::path::PathBuf;

use clap::Args;
use crealeph_runtime::client::ServerClient;

use crate::failure::{Failure, ServerFailure};
use crate::input::Source;

/// The variable that names the server, and the one that holds the key for it.
const SERVER_VARIABLE: &str = "CREALEPH_SERVER";
const KEY_VARIABLE: &str = "CREALEPH_SERVER_KEY";
const MAX_KEY_BYTES: usize = 4_096;

/// Which server. The key is in a file or the environment, never among the arguments, which others can see.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Server")]
pub(super) struct ServerArgs {
    /// Use this server instead of a local ledger (https, or http on this machine)
    #[arg(long, global = true, value_name = "URL")]
    server: Option<String>,

    /// File that holds the key for the server [default: the variable CREALEPH_SERVER_KEY]
    #[arg(long, global = true, value_name = "FILE")]
    server_key: Option<PathBuf>,

    /// File of certificates to trust for the server, PEM [default: public authorities]
    #[arg(long, global = true, value_name = "FILE")]
    server_ca: Option<PathBuf>,
}

impl ServerArgs {
    /// Whether a flag names a server.
    pub(super) fn is_named(&self) -> bool {
        self.server.is_some()
    }

    /// The server that a flag names, else the environment.
    pub(super) fn chosen(&self) -> Result<Option<ServerClient>, Failure> {
        let variable = || std::env::var(SERVER_VARIABLE).ok().filter(|url| !url.is_empty());
        match self.server.clone().or_else(variable) {
            Some(url) => self.client(&url).map(Some),
            None => Ok(None),
        }
    }

    /// A server by its address, with the key for it.
    pub(super) fn client(&self, url: &str) -> Result<ServerClient, Failure> {
        let token = match &self.server_key {
            Some(file) => {
                let source = Source::new(Some(file.clone()));
                source.text(source.read_bounded(MAX_KEY_BYTES)?)?
            }
            None => std::env::var(KEY_VARIABLE).map_err(|_| ServerFailure::NoServerKey)?,
        };
        Ok(ServerClient::new(url, token.trim(), self.server_ca.as_deref())?)
    }
}
