//! One log as an honest ledger exports it, with fixed keys: entries, leaves, checkpoints, proofs. The tree is built by the
//! definition of RFC 6962, without the code under test.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::digest::{Blake3, Sha256};
use crealeph_contracts::json::{Limits, canonical, parse};
use crealeph_verify::VerifierKey;
use ed25519_dalek::{Signer as _, SigningKey};
use serde_json::{Value, json};

pub(crate) const ORIGIN: &str = "crealeph-log/2-one";

/// Four signals, the second with a key and the third depending on the first, and the start and end of an execution.
pub(crate) fn entries() -> Value {
    let entry = |number: u64, kind: &str| {
        json!({
            "createdAt": format!("2026-01-02T00:00:0{number}.000Z"),
            "id": format!("id-{number}"),
            "module": "m",
            "payload": {},
            "robotId": "r",
            "seq": number,
            "source": "s",
            "state": "final",
            "tenantId": "t",
            "type": kind,
        })
    };
    let event = |number: u64, state: &str| {
        let mut event = entry(number, "execution_event");
        for (name, value) in [
            ("module", json!("agent-builder")),
            ("source", json!("agent-builder")),
            ("state", json!(state)),
            ("lineage", json!({ "dependsOnLedgerIds": ["id-1"] })),
            (
                "payload",
                json!({
                    "executionId": "x-1", "workflowVersion": "wf-3", "agentVersion": "ag-12",
                    "executionContractVersion": "v1", "attempt": 1, "target": "seo", "action": "plan_seo_cluster",
                    "snapshotAt": "2026-01-02T00:00:02.000Z", "coherenceStatus": "coherent", "dryRun": true,
                }),
            ),
        ] {
            event[name] = value;
        }
        if state == "succeeded" {
            event["payload"]["result"] = json!({ "artifactCount": 0, "artifactIds": [] });
        }
        event
    };
    let (mut second, mut third) = (entry(2, "signal"), entry(3, "fusion"));
    second["key"] = json!("k");
    second["observedAt"] = json!("2026-01-02T00:00:01Z");
    third["lineage"] = json!({ "dependsOnLedgerIds": ["id-1"] });
    json!([entry(1, "signal"), second, third, entry(4, "note"), event(5, "running"), event(6, "succeeded")])
}

pub(crate) fn canonical_text(value: &Value) -> String {
    let text = value.to_string();
    let (document, faults) = parse(text.as_bytes(), &Limits::own(usize::MAX));
    assert!(faults.is_empty(), "{text}");
    canonical(document.unwrap().root())
}

pub(crate) fn leaf(entry: &Value) -> Sha256 {
    let record = json!({
        "blake3": Blake3::of(canonical_text(entry).as_bytes()).to_string(),
        "id": entry["id"],
        "seq": entry["seq"],
    });
    Sha256::of(&[&[0], canonical_text(&record).as_bytes()].concat())
}

/// The greatest power of two that is less than the count.
fn split(count: usize) -> usize {
    count.next_power_of_two() / 2
}

pub(crate) fn root(leaves: &[Sha256]) -> Sha256 {
    match leaves {
        [] => Sha256::of(b""),
        [one] => *one,
        _ => {
            let (left, right) = leaves.split_at(split(leaves.len()));
            Sha256::of(&[&[1], root(left).as_bytes().as_slice(), root(right).as_bytes()].concat())
        }
    }
}

/// The hashes next to the path from a leaf to the root.
pub(crate) fn path(index: usize, leaves: &[Sha256]) -> Vec<Sha256> {
    if leaves.len() <= 1 {
        return Vec::new();
    }
    let middle = split(leaves.len());
    let (left, right) = leaves.split_at(middle);
    let (mut hashes, beside) = match index < middle {
        true => (path(index, left), root(right)),
        false => (path(index - middle, right), root(left)),
    };
    hashes.push(beside);
    hashes
}

pub(crate) struct Key {
    secret: SigningKey,
    name: String,
    id: [u8; 4],
    /// As `crealeph ledger key` prints it.
    pub(crate) text: String,
    pub(crate) verifier: VerifierKey,
}

impl Key {
    /// `own` and `second` sign for the log, `foreign` for another.
    pub(crate) fn named(name: &str) -> Key {
        let (log, seed) = match name {
            "own" => (ORIGIN, 1),
            "second" => (ORIGIN, 2),
            "foreign" => ("crealeph-log/2-two", 3),
            _ => panic!("no key is called `{name}`"),
        };
        let secret = SigningKey::from_bytes(&[seed; 32]);
        let typed = [&[1], secret.verifying_key().as_bytes().as_slice()].concat();
        let [a, b, c, d, ..] = *Sha256::of(&[log.as_bytes(), b"\n", &typed].concat()).as_bytes();
        let hex = format!("{a:02x}{b:02x}{c:02x}{d:02x}");
        let text = format!("{log}+{hex}+{}", STANDARD.encode(&typed));
        let verifier = VerifierKey::parse(&text).unwrap();
        Key { secret, name: log.to_owned(), id: [a, b, c, d], text, verifier }
    }

    fn signature(&self, text: &str) -> String {
        let signature = self.secret.sign(text.as_bytes()).to_bytes();
        format!("\u{2014} {} {}\n", self.name, STANDARD.encode([self.id.as_slice(), &signature].concat()))
    }
}

/// A text as a signed note.
pub(crate) fn note(text: &str, keys: &[Key]) -> String {
    format!("{text}\n{}", keys.iter().map(|key| key.signature(text)).collect::<String>())
}

/// The checkpoint of these leaves.
pub(crate) fn checkpoint(origin: &str, leaves: &[Sha256], keys: &[Key]) -> String {
    let text = format!("{origin}\n{}\n{}\n", leaves.len(), STANDARD.encode(root(leaves).as_bytes()));
    note(&text, keys)
}

/// The tlog-proof of the leaf at an index.
pub(crate) fn proof(index: usize, leaves: &[Sha256], keys: &[Key]) -> String {
    let hashes: String =
        path(index, leaves).iter().map(|hash| format!("{}\n", STANDARD.encode(hash.as_bytes()))).collect();
    format!("c2sp.org/tlog-proof@v1\nindex {index}\n{hashes}\n{}", checkpoint(ORIGIN, leaves, keys))
}
