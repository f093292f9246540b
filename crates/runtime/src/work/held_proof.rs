//! Proof that a held change is unaltered: a statement of its files, its plan and its line in the
//! journal, signed with the workspace's keys when the change is held, and rebuilt and compared before it lands. Owns the
//! statement's format, which cannot be confused with a receipt.

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::json::{Limits, Node, ObjectWriter, canonical, parse};
use crealeph_contracts::uuid::Uuid;
use crealeph_workspace::Prepared;

use super::engine::Work;
use super::error::WorkError;
use super::hold::HELD_FILE;
use super::journal::HeldChange;
use super::log::is_log;
use super::receipt::{ITEM_FILE, RunFile, Signer};
use super::record::{DIFF_FILE, STDERR_FILE, STDOUT_FILE};
use super::store::{RunStore, RunsError};
use super::subject::SUBJECT_FILE;

/// The signed statement next to a held change.
pub(super) const HELD_ENVELOPE: &str = "HELD.dsse.json";
const PAYLOAD_TYPE: &str = "application/vnd.crealeph.held-change+json";
/// What it covers, in this order.
const FILES: [&str; 5] = [ITEM_FILE, HELD_FILE, DIFF_FILE, STDOUT_FILE, STDERR_FILE];
/// The members that come from the publish itself.
const OF_PLAN: [&str; 3] = ["after", "before", "plan"];

/// Whether a file belongs to a held change. Tests that are run again at an approval may have printed more.
pub(super) fn is_of_held(name: &str) -> bool {
    FILES.contains(&name) || name == HELD_ENVELOPE || is_further(name)
}

/// What it covers besides: outputs of the run, and the record that people decide about, which earlier versions did not write.
fn is_further(name: &str) -> bool {
    is_log(name) || name == SUBJECT_FILE
}

/// The signed statement of a change that is held from now on.
pub(super) fn envelope(
    work: &Work,
    run: &Uuid,
    held: &HeldChange,
    files: &[RunFile],
) -> Result<RunFile, WorkError> {
    let prepared = work.workspace.resume(&held.publish)?;
    let digest = |name: &str| {
        files.iter().find(|file| file.name == name).map(|file| Blake3::of(&file.bytes).to_string())
    };
    let further = files.iter().map(|file| file.name.as_str()).filter(|name| is_further(name));
    let digests: Vec<_> = FILES.into_iter().chain(further).map(|name| (name, digest(name))).collect();
    let text = statement(&work.signer, run, held, &digests, Some(&prepared));
    Ok(RunFile::new(HELD_ENVELOPE, work.signer.envelope_of(PAYLOAD_TYPE, &text)))
}

/// Refuses a held change that is not, in every part, the one that was held.
pub(super) fn check(work: &Work, run: &Uuid, held: &HeldChange) -> Result<(), WorkError> {
    let altered = |what: String| WorkError::Altered { run: work.runs.short(run), what };
    let prepared = work.workspace.resume(&held.publish)?;
    if let Some(what) = fault(&work.runs, &work.signer, run, held, Some(&prepared))? {
        return Err(altered(what));
    }
    match prepared.altered()?.first() {
        Some(path) => Err(altered(format!("the content that was staged for `{path}`"))),
        None => Ok(()),
    }
}

/// The first part of a held change that is not as it was when it was held; without `prepared` its plan is not looked at.
pub(super) fn fault(
    runs: &RunStore,
    signer: &Signer,
    run: &Uuid,
    held: &HeldChange,
    prepared: Option<&Prepared<'_>>,
) -> Result<Option<String>, RunsError> {
    let Some(envelope) = runs.read(run, HELD_ENVELOPE)? else {
        return Ok(Some(format!("`{HELD_ENVELOPE}`, which is missing")));
    };
    let Some(signed) = signer.signed_text(PAYLOAD_TYPE, &envelope) else {
        return Ok(Some(format!("`{HELD_ENVELOPE}`, which no key of this workspace has signed")));
    };
    let limits = Limits::own(usize::MAX);
    let (signed, _) = parse(signed.as_bytes(), &limits);
    // What it printed then; tests that are run again at an approval print more.
    let files = signed.iter().filter_map(|signed| signed.root().member("files")).flat_map(Node::members);
    let further: Vec<String> =
        files.map(|(name, _)| name.text_value().into_owned()).filter(|name| is_further(name)).collect();
    let mut digests = Vec::new();
    for name in FILES.into_iter().chain(further.iter().map(String::as_str)) {
        digests.push((name, runs.read(run, name)?.map(|bytes| Blake3::of(&bytes).to_string())));
    }
    let found = statement(signer, run, held, &digests, prepared);
    let (Some(signed), (Some(found), _)) = (signed, parse(found.as_bytes(), &limits)) else {
        return Ok(Some(format!("`{HELD_ENVELOPE}`, which is not readable")));
    };
    let (signed, found) = (signed.root(), found.root());
    if let Some((files, own)) = signed.member("files").zip(found.member("files"))
        && let Some(name) = differing(files, own, &[])
    {
        return Ok(Some(format!("`{name}`")));
    }
    let left_out: &[&str] = if prepared.is_some() { &[] } else { &OF_PLAN };
    Ok(differing(signed, found, left_out).map(|member| match OF_PLAN.contains(&member.as_str()) {
        true => "the plan of its publish".to_owned(),
        false => format!("`{member}` in the journal"),
    }))
}

/// The first member that is not the same in both.
fn differing(signed: Node<'_>, found: Node<'_>, left_out: &[&str]) -> Option<String> {
    let keys = signed.members().chain(found.members()).map(|(key, _)| key.text_value().into_owned());
    let text = |node: Option<Node<'_>>| node.map(canonical);
    keys.filter(|key| !left_out.contains(&key.as_str()))
        .find(|key| text(signed.member(key)) != text(found.member(key)))
}

/// The statement: canonical, since its members are written in the order of their names.
fn statement(
    signer: &Signer,
    run: &Uuid,
    held: &HeldChange,
    digests: &[(&str, Option<String>)],
    prepared: Option<&Prepared<'_>>,
) -> String {
    let mut text = String::new();
    let mut object = ObjectWriter::new(&mut text);
    if let Some(prepared) = prepared {
        object.text("after", &prepared.after().to_string());
    }
    object.text("at", held.at.as_str()).text("batch", &held.batch.to_string());
    if let Some(prepared) = prepared {
        object.text("before", &prepared.before().to_string());
    }
    if let Some(branch) = &held.branch {
        object.texts("branch", [&branch.name, &branch.tip]);
    }
    let mut files = ObjectWriter::new(object.key("files"));
    for (name, digest) in digests {
        files.text(name, digest.as_deref().unwrap_or("missing"));
    }
    files.end();
    object.text("item", held.item.as_str());
    if let Some(prepared) = prepared {
        object.text("plan", &prepared.digest().to_string());
    }
    object
        .text("publish", held.publish.as_str())
        .text("run", &run.to_string())
        .text("workspace", signer.name().as_str());
    object.end();
    text
}
