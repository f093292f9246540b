//! A server inside the test, over a ledger of its own.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use crealeph_contracts::api_key::{KeyRequest, KeyRole};
use crealeph_contracts::approval::{APPROVALS, TENANT_ROBOT};
use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::{JsonObject, Limits};
use crealeph_contracts::scalar::{ClientKey, KeyId, Name, RobotId, TenantId};
use crealeph_ledger::{Ledger, LedgerOptions, Location};
use crealeph_runtime::access::{LinkRequest, PersonSession, create_key, create_link, open_for_person};
use crealeph_runtime::agents::load;
use crealeph_runtime::builder::Scopes;
use crealeph_runtime::configuration::Configuration;
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
    folder: tempfile::TempDir,
    ledger: Ledger,
    client: Client,
}

impl Running {
    pub fn start() -> Running {
        Running::of(Vec::new(), false)
    }

    /// One that answers to these names too, maybe behind a proxy with TLS.
    pub fn of(hosts: Vec<String>, is_behind_proxy: bool) -> Running {
        Running::serve(hosts, is_behind_proxy, "")
    }

    /// One with the agents and the rules of a configuration.
    pub fn configured(configuration: &str) -> Running {
        Running::serve(Vec::new(), false, configuration)
    }

    fn serve(hosts: Vec<String>, is_behind_proxy: bool, configuration: &str) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("crealeph.toml");
        std::fs::write(&file, configuration).unwrap();
        let configuration = Configuration::find(Some(&file)).unwrap();
        let location = Location::File(folder.path().join("ledger.db"));
        let ledger = Ledger::init(&location, LedgerOptions::default()).unwrap();
        let settings = ServerSettings {
            hosts,
            origins: Vec::new(),
            tls: None,
            metrics: None,
            bounds: ServerBounds::default(),
            webhooks: WebhookSettings::default(),
        };
        let agents = load(&configuration, folder.path()).unwrap();
        let scopes = Scopes::load(&configuration, None).unwrap();
        let (ledger_served, renderer) = (ledger.clone(), RENDERER);
        let parts =
            ServerParts { ledger: ledger_served, agents, scopes, settings, renderer, workspace: None };
        let server = Server::bind("127.0.0.1:0".parse().unwrap(), is_behind_proxy, parts).unwrap();
        let client = Client(server.address());
        std::thread::spawn(move || server.run());
        Running { folder, ledger, client }
    }

    /// Makes its ledger refuse every entry of a type from now on.
    pub fn refuse_entries(&self, kind: &str) {
        let file = rusqlite::Connection::open(self.folder.path().join("ledger.db")).unwrap();
        // Triggers are off for the writer; the name of a type is no JSON, so the index cannot be kept for it.
        let refuse = format!(
            "CREATE INDEX refused ON entries (CASE WHEN kind = '{kind}' THEN json_extract(kind, '$') END)"
        );
        file.execute_batch(&refuse).unwrap();
    }

    pub fn key(&self, tenant: &str, role: &str) -> String {
        self.key_for(tenant, role, None)
    }

    /// A key, restricted to a robot if one is named.
    pub fn key_for(&self, tenant: &str, role: &str, robot: Option<&str>) -> String {
        let role = KeyRole::parse(role).unwrap();
        let robot_id = robot.map(|robot| RobotId::parse(robot).unwrap());
        let request = KeyRequest { role, robot_id, label: None, expires: None, client_key: None };
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

    /// Appends one, and says its id and when it was recorded.
    pub fn append_reported(&self, tenant: &str, entry: &Value) -> (String, String) {
        let text = entry.to_string();
        let draft = Draft::parse(text.as_bytes(), &Limits::own(text.len())).unwrap();
        let appended = self.ledger.append_as(&TenantId::parse(tenant).unwrap(), vec![(None, draft)]).unwrap();
        (appended[0].id.to_string(), appended[0].created_at.to_string())
    }

    /// The token of a session that a person has opened with a passkey.
    pub fn session_of(&self, person: &str) -> String {
        let nonce = format!("nonce-of-{person}");
        let session = PersonSession {
            person: Name::parse(person).unwrap(),
            role: KeyRole::Reader,
            nonce: KeyId::parse(&nonce).unwrap(),
        };
        open_for_person(&self.ledger, &TenantId::parse("own").unwrap(), session).unwrap().token
    }

    /// Revokes a key of a person, as the ledger has it once the signature was checked.
    pub fn revoke_person(&self, person: &str) {
        let payload = format!(
            r#"{{"statement":{{"type":"person_revocation","tenantId":"own","logOrigin":"l","person":"{person}","keyId":"k","signedBy":"root","signerKeyId":"SHA256:x","nonce":"0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f","time":"2026-01-02T03:04:05.000Z"}},"proof":"ssh","signature":"x"}}"#
        );
        let name = |name: &str| Name::parse(name).unwrap();
        let draft = Draft {
            robot_id: RobotId::from(TENANT_ROBOT),
            module: Name::from(APPROVALS),
            source: name("operator"),
            kind: name("person_revocation"),
            state: name("revoked"),
            payload: JsonObject::parse(&payload).unwrap(),
            lineage: None,
            observed_at: None,
            key: Some(ClientKey::parse(&format!("crealeph:test:{person}")).unwrap()),
        };
        self.ledger.append_as(&TenantId::parse("own").unwrap(), vec![(None, draft)]).unwrap();
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
