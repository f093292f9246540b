//! Receipts verified per second: signature, form, contract, hash and statement, as `crealeph work verify` does for each.

use std::path::Path;
use std::time::{Duration, Instant};

use crealeph_bench::Outcome;
use crealeph_contracts::Timestamp;
use crealeph_contracts::json::{JsonObject, Limits};
use crealeph_contracts::receipt::ToolCall;
use crealeph_contracts::scalar::{Name, RobotId};
use crealeph_contracts::uuid::Uuid;
use crealeph_contracts::work_item::AgentId;
use crealeph_contracts::{Valid, WorkItem};
use crealeph_runtime::work::receipt::{ENVELOPE_FILE, RECEIPT_FILE, ReceiptFacts, Signer, seal};
use crealeph_verify::{VerifierKey, verify_receipt};
use crealeph_workspace::{Workspace, changes_between};

const LONG: Duration = Duration::from_secs(3);

pub(crate) fn table(folder: &Path) -> Outcome<()> {
    println!(
        "## Receipts verified\n\n| files | tool calls | bytes of receipt | verified per second, one core |\n|---:|---:|---:|---:|"
    );
    for (files, calls) in [(1, 1), (10, 20), (100, 1_000)] {
        let (receipt, envelope, keys) = sealed(&folder.join(format!("{files}")), files, calls)?;
        let (start, mut count) = (Instant::now(), 0_u32);
        while start.elapsed() < LONG {
            verify_receipt(&receipt, &envelope, &keys).map_err(|finding| finding.to_string())?;
            count += 1;
        }
        let rate = f64::from(count) / start.elapsed().as_secs_f64();
        println!("| {files} | {calls} | {} | {rate:.0} |", receipt.len());
    }
    Ok(())
}

type Sealed = (Vec<u8>, Vec<u8>, Vec<VerifierKey>);

fn sealed(folder: &Path, files: usize, calls: usize) -> Outcome<Sealed> {
    std::fs::create_dir_all(folder)?;
    let workspace = Workspace::open(folder)?;
    let before = workspace.snapshot()?;
    for number in 0..files {
        std::fs::write(folder.join(format!("file-{number}.txt")), format!("{number}"))?;
    }
    let after = workspace.snapshot()?;
    workspace.keep(after.state())?;
    let control = folder.join(".crealeph");
    let signer = Signer::open(&control, &control.join("keys"))?;
    let item = r#"{"id":"i","agent_id":"agent-1","description":"d","dependencies":[],"budget":{"time_estimate_ms":1,"complexity":"low"}}"#;
    let item = Valid::<WorkItem>::parse(item.as_bytes(), &Limits::default())
        .map_err(|wrong| format!("{wrong:?}"))?;
    let tool = Name::parse("Edit")?;
    let call =
        ToolCall { at: None, tool, input: JsonObject::parse(r#"{"file_path":"file-0.txt","new":"0"}"#) };
    let nothing = ReceiptFacts::unchanged(
        Uuid::from_bytes([7; 16]),
        AgentId::Agent1,
        Timestamp::parse("2026-03-04T06:00:00.000Z")?,
        before.state().hash().digest(),
        RobotId::parse("workspace")?,
    );
    let facts = ReceiptFacts {
        item: Some(item.into_inner()),
        after: after.state().hash().digest(),
        changes: changes_between(before.state(), after.state()),
        tool_trace: vec![call; calls],
        ..nothing
    };
    let sealed = seal(&facts, &signer, workspace.store())?;
    let file = |name: &str| {
        let found = sealed.files.iter().find(|file| file.name == name);
        found.map(|file| file.bytes.clone()).ok_or_else(|| format!("no {name}"))
    };
    let keys =
        signer.verifier_keys().iter().map(|key| VerifierKey::parse(key)).collect::<Result<Vec<_>, _>>()?;
    Ok((file(RECEIPT_FILE)?, file(ENVELOPE_FILE)?, keys))
}
