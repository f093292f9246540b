//! Who may do what through the server: what a role permits, and whether a key still counts.

use crealeph_contracts::api_key::{KeyGrant, KeyRole};
use crealeph_contracts::instant::Instant;
use crealeph_contracts::session::SessionGrant;

/// An action that a role may permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Read contracts and validate documents, which needs no evidence.
    Validate,
    /// Read evidence.
    Read,
    /// Append entries.
    Append,
    /// Run the Builder.
    Run,
    /// Report receipts that were made elsewhere; their signatures say who made them.
    Report,
    /// Export the whole log.
    Export,
    /// See who may do what.
    SeeGrants,
    /// Grant and revoke keys.
    ManageKeys,
    /// Submit verdicts; their signatures say whose they are.
    Decide,
    /// See who may approve, and by which rules.
    SeePeople,
    /// Submit enrolments, revocations and rules that an enrolled admin has signed.
    ManagePeople,
    /// Create, try and delete webhooks.
    ManageWebhooks,
}

/// Whether a role permits it. An admin reads no evidence.
pub fn permits(role: KeyRole, permission: Permission) -> bool {
    use KeyRole::{Admin, Auditor, Operator, Reader, Writer};
    match permission {
        Permission::Validate | Permission::SeePeople => true,
        Permission::Read => matches!(role, Reader | Writer | Operator | Auditor),
        Permission::Append | Permission::Decide => matches!(role, Writer | Operator),
        Permission::Run | Permission::Report => matches!(role, Operator),
        Permission::Export => matches!(role, Auditor),
        Permission::SeeGrants => matches!(role, Auditor | Admin),
        Permission::ManageKeys | Permission::ManagePeople | Permission::ManageWebhooks => {
            matches!(role, Admin)
        }
    }
}

/// Whether a key counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStanding {
    /// It does.
    Active,
    /// It has expired.
    Expired,
    /// It was revoked.
    Revoked,
}

impl KeyStanding {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            KeyStanding::Active => "active",
            KeyStanding::Expired => "expired",
            KeyStanding::Revoked => "revoked",
        }
    }
}

/// The status of a granted key at an instant. The instant at which it expires is the first at which it does not count.
pub fn key_standing(grant: &KeyGrant, is_revoked: bool, now: Instant) -> KeyStanding {
    match &grant.expires {
        _ if is_revoked => KeyStanding::Revoked,
        Some(expires) if expires.instant() <= now => KeyStanding::Expired,
        _ => KeyStanding::Active,
    }
}

/// What the log says about a session since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionHistory {
    /// It was ended.
    pub is_ended: bool,
    /// The API key that opened it was revoked, or does not exist.
    pub is_key_revoked: bool,
    /// A key of the person who opened it was revoked; any of them, so that a stolen one leaves nothing open.
    pub is_person_revoked: bool,
}

/// Whether a session counts at an instant. Its own expiry already includes that of the key that opened it.
pub fn session_counts(grant: &SessionGrant, history: SessionHistory, now: Instant) -> bool {
    let SessionHistory { is_ended, is_key_revoked, is_person_revoked } = history;
    now < grant.expires.instant() && !is_ended && !is_key_revoked && !is_person_revoked
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use crealeph_contracts::digest::Blake3;
    use crealeph_contracts::instant::Timestamp;
    use crealeph_contracts::scalar::KeyId;

    use super::*;

    #[test]
    fn an_admin_reads_no_evidence_and_a_reader_changes_nothing() {
        assert!(!permits(KeyRole::Admin, Permission::Read));
        let changing = [Permission::Append, Permission::Run, Permission::Report, Permission::Decide];
        let managing = [Permission::ManageKeys, Permission::ManagePeople];
        for permission in changing.into_iter().chain(managing).chain([Permission::SeeGrants]) {
            assert!(!permits(KeyRole::Reader, permission), "{permission:?}");
        }
        for permission in managing {
            let roles = KeyRole::ALL.iter().filter(|role| permits(**role, permission));
            assert_eq!(roles.collect::<Vec<_>>(), [&KeyRole::Admin], "{permission:?}");
        }
    }

    #[test]
    fn a_key_ends_at_its_instant_and_a_revocation_comes_first() {
        let expires = Timestamp::parse("2026-01-02T00:00:00Z").unwrap();
        let grant = KeyGrant {
            key_id: KeyId::parse("k").unwrap(),
            role: KeyRole::Reader,
            robot_id: None,
            label: None,
            expires: Some(expires.clone()),
            token_digest: Blake3::of(b""),
        };
        let before = Instant::from_unix_nanos(expires.instant().unix_nanos() - 1);
        assert_eq!(key_standing(&grant, false, before), KeyStanding::Active);
        assert_eq!(key_standing(&grant, false, expires.instant()), KeyStanding::Expired);
        assert_eq!(key_standing(&grant, true, expires.instant()), KeyStanding::Revoked);
    }

    #[test]
    fn a_session_counts_until_anything_ends_it() {
        let expires = Timestamp::parse("2026-01-02T00:00:00Z").unwrap();
        let grant = SessionGrant {
            session_id: KeyId::parse("s").unwrap(),
            key_id: None,
            person: None,
            role: KeyRole::Reader,
            robot_id: None,
            expires: expires.clone(),
            token_digest: Blake3::of(b""),
        };
        let before = Instant::from_unix_nanos(expires.instant().unix_nanos() - 1);
        let untouched = SessionHistory::default();
        assert!(session_counts(&grant, untouched, before));
        assert!(!session_counts(&grant, untouched, expires.instant()));
        for ended in [
            SessionHistory { is_ended: true, ..untouched },
            SessionHistory { is_key_revoked: true, ..untouched },
            SessionHistory { is_person_revoked: true, ..untouched },
        ] {
            assert!(!session_counts(&grant, ended, before), "{ended:?}");
        }
    }
}
