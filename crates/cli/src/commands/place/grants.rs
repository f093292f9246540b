//! Keys, sessions, signers and webhooks of the tenant, on the ledger or through a server.

use crealeph_contracts::api_key::KeyRequest;
use crealeph_contracts::contract::to_json;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::reported::SignerRequest;
use crealeph_contracts::scalar::{KeyId, Name, Text};
use crealeph_contracts::webhook::WebhookRequest;
use crealeph_ledger::{Cursor, Seq};
use crealeph_runtime::access::{
    CreatedKey, KeyReport, SessionReport, create_key, end_session, list_keys, list_sessions, revoke_key,
};
use crealeph_runtime::receipts::{SignerReport, add_signer, list_signers, revoke_signer};
use crealeph_runtime::webhook::{
    CreatedWebhook, DeliveryReport, TestReport, WebhookReport, WebhookSettings, create_webhook,
    delete_webhook, deliveries, enable_webhook, list_webhooks, test_webhook,
};
use crealeph_server::ServerSettings;

use super::remote::text;
use super::{Place, RemoteLog};
use crate::commands::ledger::Settled;
use crate::failure::Failure;

/// Some items of a list, and where it continues.
pub(in crate::commands) type Listed<T> = (Vec<T>, Option<Cursor>);

fn settings(at: &Settled) -> Result<WebhookSettings, Failure> {
    Ok(ServerSettings::load(&at.configuration)?.webhooks)
}

fn because(reason: Option<Text>) -> [(&'static str, Option<String>); 1] {
    [("reason", reason.map(|reason| reason.as_str().to_owned()))]
}

impl Place {
    pub(in crate::commands) fn keys(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Listed<KeyReport>, Failure> {
        match self {
            Place::Here(at) => Ok(list_keys(&at.open()?, &at.tenant, cursor, limit)?),
            Place::Server(remote) => remote.page((&["keys"], "keys"), &[], cursor, limit),
        }
    }

    pub(in crate::commands) fn create_key(&self, request: KeyRequest) -> Result<CreatedKey, Failure> {
        match self {
            Place::Here(at) => Ok(create_key(&at.open()?, &at.tenant, request)?),
            Place::Server(RemoteLog { client, .. }) => {
                Ok(client.post(&["keys"], &[], to_json(&request).as_bytes())?.read()?)
            }
        }
    }

    pub(in crate::commands) fn revoke_key(
        &self,
        id: &KeyId,
        reason: Option<Text>,
    ) -> Result<KeyReport, Failure> {
        match self {
            Place::Here(at) => Ok(revoke_key(&at.open()?, &at.tenant, id, reason)?),
            Place::Server(RemoteLog { client, .. }) => {
                Ok(client.delete(&["keys", id.as_str()], &because(reason))?.read()?)
            }
        }
    }

    pub(in crate::commands) fn sessions(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Listed<SessionReport>, Failure> {
        match self {
            Place::Here(at) => Ok(list_sessions(&at.open()?, &at.tenant, cursor, limit)?),
            Place::Server(remote) => remote.page((&["sessions"], "sessions"), &[], cursor, limit),
        }
    }

    pub(in crate::commands) fn end_session(&self, id: &KeyId) -> Result<SessionReport, Failure> {
        match self {
            Place::Here(at) => Ok(end_session(&at.open()?, &at.tenant, id)?),
            Place::Server(RemoteLog { client, .. }) => {
                Ok(client.delete(&["sessions", id.as_str()], &[])?.read()?)
            }
        }
    }

    pub(in crate::commands) fn signers(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Listed<SignerReport>, Failure> {
        match self {
            Place::Here(at) => Ok(list_signers(&at.open()?, &at.tenant, cursor, limit)?),
            Place::Server(remote) => remote.page((&["signers"], "signers"), &[], cursor, limit),
        }
    }

    pub(in crate::commands) fn add_signer(&self, request: SignerRequest) -> Result<SignerReport, Failure> {
        match self {
            Place::Here(at) => Ok(add_signer(&at.open()?, &at.tenant, request)?),
            Place::Server(RemoteLog { client, .. }) => {
                Ok(client.ask(&["signers"], &[], to_json(&request).as_bytes())?.read()?)
            }
        }
    }

    pub(in crate::commands) fn revoke_signer(
        &self,
        id: &Blake3,
        reason: Option<Text>,
    ) -> Result<SignerReport, Failure> {
        match self {
            Place::Here(at) => Ok(revoke_signer(&at.open()?, &at.tenant, id, reason)?),
            Place::Server(RemoteLog { client, .. }) => {
                Ok(client.delete(&["signers", &id.to_string()], &because(reason))?.read()?)
            }
        }
    }

    pub(in crate::commands) fn webhooks(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Listed<WebhookReport>, Failure> {
        match self {
            Place::Here(at) => Ok(list_webhooks(&at.open()?, &at.tenant, cursor, limit)?),
            Place::Server(remote) => remote.page((&["webhooks"], "webhooks"), &[], cursor, limit),
        }
    }

    pub(in crate::commands) fn create_webhook(
        &self,
        request: WebhookRequest,
        after: Option<Seq>,
    ) -> Result<CreatedWebhook, Failure> {
        match self {
            Place::Here(at) => Ok(create_webhook(&at.open()?, &at.tenant, request, after, &settings(at)?)?),
            Place::Server(RemoteLog { client, .. }) => {
                let query = [("after", text(after))];
                Ok(client.post(&["webhooks"], &query, to_json(&request).as_bytes())?.read()?)
            }
        }
    }

    pub(in crate::commands) fn delete_webhook(
        &self,
        id: &Name,
        reason: Option<Text>,
    ) -> Result<WebhookReport, Failure> {
        match self {
            Place::Here(at) => Ok(delete_webhook(&at.open()?, &at.tenant, id, reason)?),
            Place::Server(RemoteLog { client, .. }) => {
                Ok(client.delete(&["webhooks", id.as_str()], &because(reason))?.read()?)
            }
        }
    }

    pub(in crate::commands) fn enable_webhook(
        &self,
        id: &Name,
        reason: Option<Text>,
    ) -> Result<WebhookReport, Failure> {
        match self {
            Place::Here(at) => Ok(enable_webhook(&at.open()?, &at.tenant, id, reason)?),
            Place::Server(RemoteLog { client, .. }) => {
                Ok(client.ask(&["webhooks", id.as_str(), "enable"], &because(reason), b"")?.read()?)
            }
        }
    }

    pub(in crate::commands) fn webhook_deliveries(&self, id: &Name) -> Result<DeliveryReport, Failure> {
        match self {
            Place::Here(at) => Ok(deliveries(&at.open()?, &at.tenant, id)?),
            Place::Server(RemoteLog { client, .. }) => {
                Ok(client.get(&["webhooks", id.as_str(), "deliveries"], &[])?.read()?)
            }
        }
    }

    /// Sends a test event: from here, or from the server, which is what will deliver.
    pub(in crate::commands) fn test_webhook(&self, id: &Name) -> Result<TestReport, Failure> {
        match self {
            Place::Here(at) => Ok(test_webhook(&at.open()?, &at.tenant, id, &settings(at)?)?),
            Place::Server(RemoteLog { client, .. }) => {
                Ok(client.run(&["webhooks", id.as_str(), "test"], &[], b"")?.read()?)
            }
        }
    }
}
