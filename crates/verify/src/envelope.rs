//! DSSE envelopes around in-toto statements: canonical, signed by a key known beforehand, and by exactly the keys that the
//! statement itself names.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::attestation::{MAX_STATEMENT_BYTES, PAYLOAD_TYPE, PredicateType, Statement};
use crealeph_contracts::json::{Limits, Node, canonical, parse};
use crealeph_contracts::text::Shown;

use crate::finding::{Finding, FindingKind};
use crate::note::VerifierKey;

/// The largest envelope that is read.
const MAX_ENVELOPE_BYTES: usize = 128 << 20;
/// The most signatures that are read.
const MAX_SIGNATURES: usize = 100;
/// More brackets and commas than an envelope with the most signatures has.
const MAX_PARTS: usize = 10_000;
/// The prefix of the type of every statement of a work run.
const WORK_RUN: &str = "urn:crealeph:predicate:work-run:";
/// How many unknown signers are named.
const MAX_NAMED: usize = 10;
/// How many characters of a foreign text a finding quotes.
const MAX_QUOTED: usize = 200;

/// A foreign name in a finding.
pub(crate) fn quoted(text: &str) -> String {
    format!("`{}`", Shown::line(text).at_most(MAX_QUOTED))
}

/// A statement that a known key has signed.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) statement: Statement,
    /// The ids of the known keys that signed it.
    pub(crate) known_signers: Vec<String>,
    /// The ids of signers that are not known.
    pub(crate) other_signers: Vec<String>,
}

/// The content of an envelope, and who signed it.
struct Signed {
    payload: Vec<u8>,
    ids: Vec<String>,
    known_signers: Vec<String>,
    other_signers: Vec<String>,
}

/// Opens an envelope with keys that the user already has.
pub(crate) fn open(bytes: &[u8], keys: &[VerifierKey]) -> Result<Opened, Finding> {
    let signed = read(bytes, PAYLOAD_TYPE, keys)?;
    if signed.known_signers.is_empty() {
        return Err(unknown(&signed.other_signers));
    }
    statement_of(signed)
}

/// Reads the statement in an envelope without checking who signed it: it proves nothing.
pub(crate) fn open_unproven(bytes: &[u8]) -> Result<Statement, Finding> {
    Ok(statement_of(read(bytes, PAYLOAD_TYPE, &[])?)?.statement)
}

/// The text of another type that a known key has signed.
pub(crate) fn open_text(bytes: &[u8], kind: &str, keys: &[VerifierKey]) -> Result<String, Finding> {
    let signed = read(bytes, kind, keys)?;
    if signed.known_signers.is_empty() {
        return Err(unknown(&signed.other_signers));
    }
    String::from_utf8(signed.payload).map_err(|_| unreadable("the envelope's payload is not text"))
}

fn unknown(signers: &[String]) -> Finding {
    let names = signers.iter().take(MAX_NAMED).map(|id| quoted(id)).collect::<Vec<_>>().join(", ");
    let more = signers.len().saturating_sub(MAX_NAMED);
    let what = match (names.is_empty(), more) {
        (true, _) => "no known key has signed the statement; it is not signed".to_owned(),
        (false, 0) => format!("no known key has signed the statement; it is signed as {names}"),
        (false, _) => {
            format!("no known key has signed the statement; it is signed as {names} and {more} more")
        }
    };
    Finding::new(FindingKind::Forged, what)
}

/// Reads an envelope and checks the signatures of known keys; the caller judges whether there is one.
fn read(bytes: &[u8], kind: &str, keys: &[VerifierKey]) -> Result<Signed, Finding> {
    // An envelope is a few strings; a document with more parts is not one, and parsing it would waste memory.
    if bytes.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() > MAX_PARTS {
        return Err(unreadable(format!(
            "the envelope has more than {MAX_PARTS} parts; it is not an envelope"
        )));
    }
    let (document, faults) = parse(bytes, &Limits::own(MAX_ENVELOPE_BYTES));
    let document =
        document.filter(|_| faults.is_empty()).ok_or_else(|| unreadable("the envelope is not JSON"))?;
    let root = document.root();
    if canonical(root).as_bytes() != bytes {
        return Err(Finding::changed("the envelope is not in canonical form; it was changed"));
    }
    let text = |node: Node<'_>, key: &str| node.member(key).and_then(Node::string).map(|it| it.into_owned());
    if text(root, "payloadType").as_deref() != Some(kind) || root.members().count() != 3 {
        return Err(unreadable(match kind {
            PAYLOAD_TYPE => "the envelope does not hold an in-toto statement",
            _ => "the envelope does not hold a statement of this type",
        }));
    }
    let payload = text(root, "payload").and_then(|payload| STANDARD.decode(payload).ok());
    let payload =
        payload.ok_or_else(|| Finding::changed("the envelope's payload is not base64; it was changed"))?;
    let message = pre_authentication(kind.as_bytes(), &payload);
    let signatures = root.member("signatures").ok_or_else(|| unreadable("the envelope has no signatures"))?;
    let (mut ids, mut known_signers, mut other_signers) = (Vec::new(), Vec::new(), Vec::new());
    for entry in signatures.elements() {
        let id = text(entry, "keyid").filter(|_| entry.members().count() == 2);
        let signature = text(entry, "sig").and_then(|signature| STANDARD.decode(signature).ok());
        let (Some(id), Some(signature)) = (id, signature) else {
            return Err(Finding::changed("a signature of the envelope is broken; it was changed"));
        };
        if ids.len() >= MAX_SIGNATURES {
            return Err(unreadable(format!("the envelope has more than {MAX_SIGNATURES} signatures")));
        }
        ids.push(id.clone());
        match keys.iter().find(|key| key.id_text() == id) {
            None => other_signers.push(id),
            Some(key) if key.has_signed(&message, &signature) => known_signers.push(id),
            Some(_) => {
                let what =
                    format!("the signature of {} is forged, or the statement was changed", quoted(&id));
                return Err(Finding::new(FindingKind::Forged, what));
            }
        }
    }
    Ok(Signed { payload, ids, known_signers, other_signers })
}

fn statement_of(signed: Signed) -> Result<Opened, Finding> {
    let Signed { payload, ids, known_signers, other_signers } = signed;
    let statement = Statement::parse(&payload).map_err(|violations| {
        if let Some(kind) = unknown_version(&payload) {
            let what =
                format!("the signed statement is a {}, which this version does not know", quoted(&kind));
            return unreadable(format!("{what}; use a newer crealeph"));
        }
        let not_one = "the signed statement is not about a work run";
        match violations.first() {
            Some(first) => {
                unreadable(format!("{not_one}: {}", Shown::line(&first.message).at_most(MAX_QUOTED)))
            }
            None => unreadable(not_one),
        }
    })?;
    let stated = statement.predicate.signers.as_slice();
    if !stated.iter().map(|id| id.as_str()).eq(ids.iter().map(String::as_str)) {
        return Err(Finding::changed("the envelope is not signed by exactly the keys its statement names"));
    }
    let workspace = statement.predicate.workspace.as_str();
    if let Some(id) = known_signers.iter().find(|id| id.split('+').next() != Some(workspace)) {
        let (workspace, id) = (quoted(workspace), quoted(id));
        let what = format!("the statement is of {workspace}, and the key {id} is for another workspace");
        return Err(Finding::new(FindingKind::Forged, what));
    }
    Ok(Opened { statement, known_signers, other_signers })
}

/// The type of a statement of a work run in an unknown version.
fn unknown_version(payload: &[u8]) -> Option<String> {
    let (document, _) = parse(payload, &Limits::own(MAX_STATEMENT_BYTES));
    let kind = document?.root().member("predicateType").and_then(Node::string)?.into_owned();
    (kind.starts_with(WORK_RUN) && PredicateType::parse(&kind).is_none()).then_some(kind)
}

/// The bytes that DSSE signs.
fn pre_authentication(kind: &[u8], body: &[u8]) -> Vec<u8> {
    let mut message = format!("DSSEv1 {} ", kind.len()).into_bytes();
    message.extend_from_slice(kind);
    message.extend_from_slice(format!(" {} ", body.len()).as_bytes());
    message.extend_from_slice(body);
    message
}

fn unreadable(what: impl Into<String>) -> Finding {
    Finding::new(FindingKind::Unreadable, what)
}
