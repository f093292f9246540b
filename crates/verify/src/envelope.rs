//! DSSE envelopes around in-toto statements: canonical, signed by a key known beforehand, and by exactly the keys that the
//! statement itself names.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::attestation::{PAYLOAD_TYPE, Statement};
use crealeph_contracts::json::{Limits, Node, canonical, parse};

use crate::export::{Finding, Kind};
use crate::note::VerifierKey;

/// The largest envelope that is read.
const MAX_ENVELOPE_BYTES: usize = 128 << 20;
/// The most signatures that are read.
const MAX_SIGNATURES: usize = 100;

/// A statement that a known key has signed.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) statement: Statement,
    /// The ids of the known keys that signed it.
    pub(crate) known_signers: Vec<String>,
    /// The ids of signers that are not known.
    pub(crate) other_signers: Vec<String>,
}

/// Opens an envelope with keys the user already has.
pub(crate) fn open(bytes: &[u8], keys: &[VerifierKey]) -> Result<Opened, Finding> {
    let (document, faults) = parse(bytes, &Limits { max_bytes: MAX_ENVELOPE_BYTES });
    let document =
        document.filter(|_| faults.is_empty()).ok_or_else(|| unreadable("the envelope is not JSON"))?;
    let root = document.root();
    if canonical(root).as_bytes() != bytes {
        return Err(changed("the envelope is not in canonical form; it was changed"));
    }
    let text = |node: Node<'_>, key: &str| node.member(key).and_then(Node::string).map(|it| it.into_owned());
    if text(root, "payloadType").as_deref() != Some(PAYLOAD_TYPE) || root.members().count() != 3 {
        return Err(unreadable("the envelope does not hold an in-toto statement"));
    }
    let payload = text(root, "payload").and_then(|payload| STANDARD.decode(payload).ok());
    let payload = payload.ok_or_else(|| changed("the envelope's payload is not base64; it was changed"))?;
    let message = pre_authentication(PAYLOAD_TYPE.as_bytes(), &payload);
    let signatures = root.member("signatures").ok_or_else(|| unreadable("the envelope has no signatures"))?;
    let (mut ids, mut known_signers, mut other_signers) = (Vec::new(), Vec::new(), Vec::new());
    for entry in signatures.elements() {
        let id = text(entry, "keyid").filter(|_| entry.members().count() == 2);
        let signature = text(entry, "sig").and_then(|signature| STANDARD.decode(signature).ok());
        let (Some(id), Some(signature)) = (id, signature) else {
            return Err(changed("a signature of the envelope is broken; it was changed"));
        };
        if ids.len() >= MAX_SIGNATURES {
            return Err(unreadable("the envelope has too many signatures"));
        }
        ids.push(id.clone());
        match keys.iter().find(|key| key.id_text() == id) {
            None => other_signers.push(id),
            Some(key) if key.has_signed(&message, &signature) => known_signers.push(id),
            Some(_) => {
                let what = format!("the signature of `{id}` is forged, or the statement was changed");
                return Err(Finding { kind: Kind::Forged, seq: None, what });
            }
        }
    }
    if known_signers.is_empty() {
        let names = other_signers.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
        let what = format!("no known key has signed the statement; it is signed as {names}");
        return Err(Finding { kind: Kind::Forged, seq: None, what });
    }
    let statement = Statement::parse(&payload).map_err(|violations| {
        let first = violations.first().map(|violation| format!(": {}", violation.message));
        unreadable(&format!("the signed statement is not one of a work run{}", first.unwrap_or_default()))
    })?;
    let stated = statement.predicate.signers.as_slice();
    if !stated.iter().map(|id| id.as_str()).eq(ids.iter().map(String::as_str)) {
        return Err(changed("the envelope is not signed by exactly the keys its statement names"));
    }
    let workspace = statement.predicate.workspace.as_str();
    if let Some(id) = known_signers.iter().find(|id| id.split('+').next() != Some(workspace)) {
        return Err(Finding {
            kind: Kind::Forged,
            seq: None,
            what: format!("the statement is of `{workspace}`, and the key `{id}` is for another workspace"),
        });
    }
    Ok(Opened { statement, known_signers, other_signers })
}

/// What DSSE signs.
fn pre_authentication(kind: &[u8], body: &[u8]) -> Vec<u8> {
    let mut message = format!("DSSEv1 {} ", kind.len()).into_bytes();
    message.extend_from_slice(kind);
    message.extend_from_slice(format!(" {} ", body.len()).as_bytes());
    message.extend_from_slice(body);
    message
}

fn unreadable(what: &str) -> Finding {
    Finding { kind: Kind::Unreadable, seq: None, what: what.to_owned() }
}

fn changed(what: &str) -> Finding {
    Finding { kind: Kind::Changed, seq: None, what: what.to_owned() }
}
