//! A server inside the test, over a ledger of its own.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use crealeph_contracts::api_key::{KeyRequest, KeyRole};
use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::Limits;
use crealeph_contracts::scalar::TenantId;
use crealeph_ledger::{Ledger, LedgerOptions, Location};
use crealeph_runtime::access::{LinkRequest, create_key, create_link};
use crealeph_runtime::agents::Agents;
use crealeph_runtime::builder::Scopes;
use crealeph_runtime::webhook::WebhookSettings;
use crealeph_server::{ReportRenderer, Server, ServerBounds, ServerParts, ServerSettings};

use serde_json::Value;

use crate::client::Client;

/// What people read is the command line's to write, and its tests'.
const RENDERER: ReportRenderer = ReportRenderer {
    markdown: |report| report.made_at.clone(),
    html: |report| report.made_at.clone(),
    content_security: "default-src 'none'",
};

/// A server over a new ledger, for as long as the test runs.
pub struct Running {
    _folder: tempfile::TempDir,
    ledger: Ledger,
    client: Client,
}

impl Running {
    pub fn start() -> Running {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("ledger.db"));
        let ledger = Ledger::init(&location, LedgerOptions::default()).unwrap();
        let settings = ServerSettings {
            hosts: Vec::new(),
            origins: Vec::new(),
            tls: None,
            metrics: None,
            bounds: ServerBounds::default(),
            webhooks: WebhookSettings::default(),
        };
        let (agents, scopes) = (Agents::default(), Scopes::default());
        let (ledger_served, renderer) = (ledger.clone(), RENDERER);
        let parts =
            ServerParts { ledger: ledger_served, agents, scopes, settings, renderer, workspace: None };
        let server = Server::bind("127.0.0.1:0".parse().unwrap(), false, parts).unwrap();
        let client = Client(server.address());
        std::thread::spawn(move || server.run());
        Running { _folder: folder, ledger, client }
    }

    pub fn key(&self, tenant: &str, role: &str) -> String {
        let role = KeyRole::parse(role).unwrap();
        let request = KeyRequest { role, robot_id: None, label: None, expires: None, client_key: None };
        create_key(&self.ledger, &TenantId::parse(tenant).unwrap(), request).unwrap().token.unwrap()
    }

    /// Appends entries as only the program itself may, such as receipts.
    pub fn append_as(&self, tenant: &str, entries: &[Value]) {
        let batch = entries.iter().map(|entry| {
            let text = entry.to_string();
            (None, Draft::parse(text.as_bytes(), &Limits::own(text.len())).unwrap())
        });
        self.ledger.append_as(&TenantId::parse(tenant).unwrap(), batch.collect()).unwrap();
    }

    /// The token of a link that signs in.
    pub fn link(&self, tenant: &str, role: &str) -> String {
        let request = LinkRequest { role: KeyRole::parse(role).unwrap(), robot_id: None };
        create_link(&self.ledger, &TenantId::parse(tenant).unwrap(), request).unwrap().token
    }
}

impl std::ops::Deref for Running {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
