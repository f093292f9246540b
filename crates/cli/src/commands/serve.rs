//! `crealeph serve`: the console and the HTTP API over a ledger, for a team.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_contracts::api_key::KeyRole;
use crealeph_ledger::Location;
use crealeph_runtime::access::{LinkRequest, create_link};
use crealeph_runtime::agents;
use crealeph_runtime::builder::{BuildError, Scopes};
use crealeph_runtime::configuration::{Configuration, FILE};
use crealeph_runtime::shared::SharedConfiguration;
use crealeph_runtime::work::ServedWorkspace;
use crealeph_server::{Server, ServerParts, ServerSettings, ServerWorkspace, TlsFiles};
use serde_json::json;

use super::CommandOutcome;
use super::key::sign_in_url;
use super::ledger::{At, configured_place};
use super::report::RENDERER;
use super::sandbox::state_directory;
use super::work::WorkspaceArgs;
use crate::failure::{Failure, OutputFailure};
use crate::interrupt::at_first;
use crate::output::{Output, is_watched, note};
use crate::own;
use crate::trusting::{self, Uses};

const EXAMPLES: &str = "\
Examples:
  crealeph serve
  crealeph key create --role writer
  crealeph serve --listen 127.0.0.1:0
  crealeph serve --listen 0.0.0.0:4114 --tls-cert cert.pem --tls-key key.pem --host crealeph.example.com
  crealeph serve --listen 10.0.0.5:4114 --behind-proxy --host crealeph.example.com
  crealeph serve --ledger postgres://crealeph@db.example.com/crealeph

The console is at the address that is printed; `crealeph key link` prints a link that signs in. Programs need a key for every request; `crealeph key create` creates one for a tenant. The API is described at /docs and
/openapi.json. Ctrl-C or SIGTERM stops taking requests and finishes those in flight; a second one exits immediately.

Exit codes: 0 stopped, 2 cannot run.";

/// Serve the console and the HTTP API
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Serve {
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4114")]
    listen: SocketAddr,

    /// A proxy in front terminates TLS: allow any address without a certificate, and expect HTTPS under the names of --host
    #[arg(long)]
    behind_proxy: bool,

    /// Certificate with its chain, as PEM: serve HTTPS. Read again when the file changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Private key of the certificate, as PEM; only its owner may be able to read it
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Serve metrics for Prometheus at /metrics of this loopback address, without authentication
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,

    /// Host name that clients use; can be repeated
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,

    /// Replace servers that use this ledger with another configuration: they exit
    #[arg(long)]
    replace_configuration: bool,

    #[command(flatten)]
    at: At,
}

impl Serve {
    pub(super) fn wants_json(&self) -> bool {
        self.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let words = self.at.clone();
        let at = self.at.settle()?;
        trusting::require(&at.configuration, Uses::Everything)?;
        let scopes = Scopes::load(&at.configuration, None)?;
        let agents = agents::load(&at.configuration, &state_directory(None))?;
        let mut settings = ServerSettings::load(&at.configuration)?;
        settings.hosts.extend(self.hosts.iter().map(|host| host.to_ascii_lowercase()));
        if let (Some(certificate), Some(key)) = (self.tls_cert, self.tls_key) {
            settings.tls = Some(TlsFiles { certificate, key });
        }
        settings.metrics = self.metrics.or(settings.metrics);
        Server::check(self.listen, self.behind_proxy, &settings)?;
        let is_new = matches!(&at.location, Location::File(file) if !file.exists());
        if let Location::File(file) = &at.location
            && is_new
        {
            at.claim()?;
            let folder = file.parent().map_or_else(PathBuf::new, PathBuf::from);
            std::fs::create_dir_all(&folder)
                .map_err(|source| OutputFailure::Unwritable { path: folder, source })?;
        }
        let ledger = at.open_or_init()?;
        if is_new {
            note!("created the ledger `{}`", ledger.place());
        }
        // A person at the terminal of a server for this machine alone has the ledger anyway; elsewhere a log could keep the link.
        let link = match is_watched() && self.listen.ip().is_loopback() && !self.behind_proxy {
            true => Some(create_link(
                &ledger,
                &at.tenant,
                LinkRequest { role: KeyRole::Operator, robot_id: None },
            )?),
            false => None,
        };
        let workspace = own_workspace(&words, &at.location)?;
        let shared = SharedConfiguration::of(&scopes, &agents).map_err(BuildError::from)?;
        let mut server = Server::bind(
            self.listen,
            self.behind_proxy,
            ServerParts { ledger, agents, scopes, settings, renderer: RENDERER, workspace },
        )?;
        server.enter(shared, self.replace_configuration)?;
        let stop = server.stop_handle();
        at_first(move || stop.stop())?;
        let url = server.url();
        match at.is_json(output) {
            true => output.report_line(&match server.metrics_url() {
                Some(metrics) => json!({ "url": url, "metrics": metrics }),
                None => json!({ "url": url }),
            })?,
            false => output.line(&format!("listening on {url}"))?,
        }
        if let Some(metrics) = server.metrics_url() {
            note!("metrics are at {metrics}");
        }
        output.flush()?;
        match link {
            Some(link) => note!(
                "open the console, signed in once within ten minutes: {}",
                sign_in_url(&url, &link.token)
            ),
            None => {
                note!("the console is at {url}; sign in with `crealeph key link --role ROLE --url {url}`")
            }
        }
        note!("the API is described at {url}/docs; create a key with `crealeph key create --role ROLE`");
        server.run()?;
        note!("stopped");
        Ok(CommandOutcome::Good)
    }
}

/// The workspace that the server is started in: the user's own, and recorded in the ledger that is served.
fn own_workspace(words: &At, served: &Location) -> Result<Option<ServerWorkspace>, Failure> {
    let Ok(folder) = Path::new(".").canonicalize() else { return Ok(None) };
    let inside = folder.join(FILE);
    let is_own = |named: &Path| named.canonicalize().ok() == inside.canonicalize().ok();
    if words.config().is_some_and(|named| !is_own(named)) || own::check(&folder).is_err() {
        return Ok(None);
    }
    let configuration = Configuration::find(inside.exists().then_some(inside.as_path()))?;
    let (location, tenant) = configured_place(&configuration, &folder)?;
    if !is_same_ledger(&location, served) {
        return Ok(None);
    }
    // Without a state directory no workspace is known to be the user's own.
    let Ok(registry) = own::registry() else { return Ok(None) };
    let open = WorkspaceArgs::new(folder.clone(), words.for_workspace(&location, &tenant));
    Ok(Some(ServerWorkspace::new(
        ServedWorkspace::new(folder, tenant, registry),
        Box::new(move || open.open().map_err(|failure| failure.message())),
    )))
}

fn is_same_ledger(one: &Location, other: &Location) -> bool {
    match (one, other) {
        (Location::File(one), Location::File(other)) => {
            one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
        }
        _ => one == other,
    }
}
