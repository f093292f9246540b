//! `crealeph work verify`: a receipt, checked as an outsider would. Finds and reads the files, and prints what
//! `crealeph-verify`, which makes all judgements, finds.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_contracts::attestation::WorkRun;
use crealeph_contracts::contract::to_json;
use crealeph_contracts::digest::{Blake3, ContentDigests, ContentHasher};
use crealeph_contracts::provenance::LocalUser;
use crealeph_contracts::text::Shown;
use crealeph_runtime::report::ProofStatus;
use crealeph_runtime::work::receipt::{RECEIPT_FILE, Signer};
use crealeph_verify::{
    ArtifactCheck, ChainPosition, Finding, FindingKind, ReadReceipt, ReceiptChain, RunFiles, VerifiedReceipt,
    VerifierKey, check_folder_artifacts, check_folder_name, check_stored_artifacts, read_unproven,
    verify_receipt,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::evidence::{ReceiptBytes, check_folder, read, read_receipt_bytes, verifier_keys};
use super::key::control;
use super::named_run::named_folder;
use super::remote_runs::{RecordedDocuments, RemoteRuns};
use super::workspace_args::WorkspaceArgs;
use crate::commands::ledger::read_keys;
use crate::commands::stop::Stop;
use crate::commands::{CommandOutcome, tell_finding};
use crate::failure::{ArgumentFailure, Failure, InputFailure, ServerFailure, WorkFailure};
use crate::output::{Output, embedded, note};

const MAX_MANIFEST_BYTES: usize = 1 << 30;
const MAX_RUNS: usize = 1_000_000;

const EXAMPLES: &str = "\
Examples:
  crealeph work verify 0190a6f0-7c2e --key saved.key
  crealeph work verify exported/runs/0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f --key saved.key
  crealeph work verify RECEIPT.json --key saved.key --alone --files ~/clone
  crealeph --server https://crealeph.example.com work verify 0190a6f0-7c2e --key saved.key

Checks the signature of the statement next to the receipt (RECEIPT.dsse.json), with a key that you already have; that
the receipt is the signed one, byte by byte; its contract and hash; the chain of all receipts of the workspace, from the
first one on; the files it names, against the states that were stored or, with --files, against a folder. With --server the receipt
that the server has is checked locally, without its chain and files; without --key the server's word is taken for who signed it.

Exit codes: 0 everything holds, 1 something is wrong and is named, 2 cannot be verified.";

/// Verify a receipt: signature, hash chain and files
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Verify {
    /// Receipt file, the folder of its run, or the run's id or its start
    receipt: PathBuf,

    /// File of public keys that you saved; can be repeated [default: the keys of the workspace]
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,

    /// Folder of the runs whose receipts form the chain [default: the folder that contains the receipt's run]
    #[arg(long, value_name = "FOLDER", conflicts_with = "alone")]
    chain: Option<PathBuf>,

    /// Hash of a receipt that must be in the chain; can be repeated
    #[arg(long, value_name = "HASH", conflicts_with = "alone")]
    head: Vec<String>,

    /// Verify this receipt alone, without the chain
    #[arg(long)]
    alone: bool,

    /// Verify the files in this folder instead of the stored states
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,

    #[command(flatten)]
    workspace: WorkspaceArgs,
}

/// What was checked of a receipt.
struct Checked {
    read: ReadReceipt,
    /// Who has signed it: as checked here, or as the server says.
    signers: Vec<String>,
    /// Whose signatures were not checked.
    other_signers: Vec<String>,
    chain: Option<ChainPosition>,
    artifacts: ArtifactCheck,
    /// What is next to the receipt.
    beside: RunFiles,
}

impl Verify {
    pub(super) fn wants_json(&self) -> bool {
        self.workspace.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let server = RemoteRuns::named(&self.workspace)?;
        let is_json = self.workspace.at.json || !output.is_for_person();
        let checked = match &server {
            Some(server) => self.check_remote(server),
            None => self.check(),
        };
        match checked {
            Ok(checked) => tell(&checked, is_json, output),
            Err(Stop::Finding(finding)) => tell_finding(&finding, "place", is_json, output),
            Err(Stop::Failure(failure)) => Err(failure),
        }
    }

    fn check(self) -> Result<Checked, Stop> {
        let named = named_folder(&self.workspace, &self.receipt)?;
        let file = if named.is_dir() { named.join(RECEIPT_FILE) } else { named };
        let asked_for =
            file.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let folder = fs::canonicalize(&file).ok().and_then(|file| file.parent().map(Path::to_owned));
        let folder = folder.ok_or_else(|| InputFailure::NotFound(file.clone()))?;
        let mut keys = read_keys(&self.key)?;
        if keys.is_empty() {
            let own = control(&self.workspace.folder()?);
            note!(
                "checking with the keys of the workspace itself; give --key to check with a key that you saved"
            );
            let keyring = self.workspace.settle()?.keys;
            keys = verifier_keys(&Signer::known(&own, &keyring).map_err(Failure::from)?)?;
        }
        let ReceiptBytes { receipt, envelope } = read_receipt_bytes(&file)?;
        let VerifiedReceipt { read, known_signers: signers, other_signers } =
            verify_receipt(&receipt, &envelope, &keys)?;
        // The folder may be a link to that of another run.
        if let Some(name) = &asked_for {
            check_folder_name(&read, name)?;
        }
        let beside = check_folder(&folder, &read, Some(&keys), self.alone)?;
        let runs = self.chain.as_deref().or(folder.parent()).unwrap_or(&folder);
        let chain = match self.alone {
            true => None,
            false => Some(check_chain(runs, &read, &self.head, &keys)?),
        };
        let artifacts = match &self.files {
            Some(files) => check_folder_artifacts(&read, |path| digests_at(&files.join(path)))?,
            None => check_stored(&read, &folder)?,
        };
        Ok(Checked { read, signers, other_signers, chain, artifacts, beside })
    }

    /// The receipt that a server has, checked here: with the keys that are given, else as the server says, which then is believed for
    /// the signature alone.
    fn check_remote(self, server: &RemoteRuns) -> Result<Checked, Stop> {
        let flags = [("--chain", self.chain.is_some()), ("--head", !self.head.is_empty())];
        if let Some((flag, _)) = flags.into_iter().find(|(_, is_given)| *is_given) {
            let why = "a server shows no chain of receipts; verify it in the workspace";
            return Err(Failure::from(ServerFailure::NotThere { flag, why }).into());
        }
        let word = self.receipt.to_str().ok_or_else(|| InputFailure::NotFound(self.receipt.clone()))?;
        let run = server.find(Some(word))?;
        let RecordedDocuments { receipt, envelope } = server.documents(&run)?;
        let (Some(receipt), Some(envelope)) = (receipt, envelope) else {
            return Err(WorkFailure::NotRecorded(run.to_string()).into());
        };
        let (receipt, envelope) = (receipt.get().as_bytes(), envelope.get().as_bytes());
        let keys = read_keys(&self.key)?;
        let (read, signers, other_signers) = if keys.is_empty() {
            let proof = server.proof(&run)?;
            let read = read_unproven(receipt, envelope)?;
            let detail = proof.detail.clone().unwrap_or_default();
            match proof.status {
                ProofStatus::Verified => {}
                ProofStatus::Refused => {
                    return Err(Finding { kind: FindingKind::Changed, seq: None, what: detail }.into());
                }
                ProofStatus::Unproven | ProofStatus::Absent => {
                    return Err(WorkFailure::Unproven { run: run.to_string(), detail }.into());
                }
            }
            note!("the server says who signed it; give --key to check with a key that you saved");
            let stated = read.statement.predicate.signers.as_slice().iter().map(ToString::to_string);
            let other_signers = stated.filter(|id| !proof.signers.contains(id)).collect();
            (read, proof.signers, other_signers)
        } else {
            let VerifiedReceipt { read, known_signers, other_signers } =
                verify_receipt(receipt, envelope, &keys)?;
            (read, known_signers, other_signers)
        };
        // The server could show another run's.
        check_folder_name(&read, &run.to_string())?;
        let artifacts = match &self.files {
            Some(files) => check_folder_artifacts(&read, |path| digests_at(&files.join(path)))?,
            None => check_stored_artifacts(&read, |_| Ok(None), |_| Ok::<_, Stop>(None))?,
        };
        let beside = RunFiles::default();
        Ok(Checked { read, signers, other_signers, chain: None, artifacts, beside })
    }
}

/// Every receipt of the workspace by itself, and all of them as one chain that has this receipt.
fn check_chain(
    runs: &Path,
    receipt: &ReadReceipt,
    heads: &[String],
    keys: &[VerifierKey],
) -> Result<ChainPosition, Stop> {
    let unreadable = |source| InputFailure::Unreadable { path: runs.to_owned(), source };
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(runs).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path().join(RECEIPT_FILE);
        if file.is_file() {
            files.push(file);
        }
        if files.len() > MAX_RUNS {
            let name = runs.display().to_string();
            return Err(InputFailure::TooMany { name, limit: MAX_RUNS, what: "runs" }.into());
        }
    }
    files.sort();
    let mut chain = ReceiptChain::new(receipt, keys);
    for file in &files {
        let ReceiptBytes { receipt, envelope } = read_receipt_bytes(file)?;
        let folder = file.parent().and_then(Path::file_name).map(|name| name.to_string_lossy());
        let folder = folder.as_deref().unwrap_or("");
        chain.add(&file.display().to_string(), folder, &receipt, &envelope)?;
    }
    let mut kept = Vec::new();
    for head in heads {
        let wanted = "a hash of 64 lower-case hex digits";
        kept.push(Blake3::parse(head).ok_or_else(|| ArgumentFailure::option(head, wanted))?);
    }
    Ok(chain.position_of(&receipt.receipt.receipt_hash, &kept)?)
}

/// The states before and after as they are stored next to the run or in its workspace, and the stored contents.
fn check_stored(receipt: &ReadReceipt, folder: &Path) -> Result<ArtifactCheck, Stop> {
    let places = [Some(folder), folder.parent().and_then(Path::parent)];
    let store = places.into_iter().flatten().find(|place| place.join("states").is_dir());
    let manifest = |hash: &Blake3| {
        let Some(store) = store else { return Ok(None) };
        let bytes = match read(&store.join("states").join(hash.to_string()), MAX_MANIFEST_BYTES) {
            Err(InputFailure::NotFound(_)) => return Ok(None),
            read => read?,
        };
        let what = format!("the manifest of the state {hash} is not valid");
        let changed = |_| Finding { kind: FindingKind::Changed, seq: None, what };
        Ok(Some(String::from_utf8(bytes).map_err(changed)?))
    };
    let content = |hash: &Blake3| {
        let name = hash.to_string();
        match (store, name.split_at_checked(2)) {
            (Some(store), Some((first, rest))) => digests_at(&store.join("objects").join(first).join(rest)),
            _ => Ok(None),
        }
    };
    check_stored_artifacts(receipt, manifest, content)
}

/// The digests of a file, or of a link's target; nothing if there is neither.
fn digests_at(path: &Path) -> Result<Option<ContentDigests>, Stop> {
    let unreadable = |source| InputFailure::Unreadable { path: path.to_owned(), source };
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(unreadable(error).into()),
    };
    if metadata.is_symlink() {
        let target = fs::read_link(path).map_err(unreadable)?;
        return Ok(Some(ContentDigests::of(target.as_os_str().as_encoded_bytes())));
    }
    if !metadata.is_file() {
        return Ok(None);
    }
    let mut file = File::open(path).map_err(unreadable)?;
    let mut hasher = ContentHasher::new(metadata.len());
    let mut buffer = vec![0; 128 << 10];
    loop {
        match file.read(&mut buffer).map_err(unreadable)? {
            0 => return Ok(Some(hasher.finish())),
            count => hasher.update(buffer.get(..count).unwrap_or_default()),
        }
    }
}

fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

fn tell(checked: &Checked, is_json: bool, output: &mut Output) -> Result<CommandOutcome, Failure> {
    let Checked { read, signers, chain, artifacts, beside, .. } = checked;
    let receipt = &read.receipt;
    let files = receipt.artifacts.as_slice().len();
    if is_json {
        output.report_line(&VerifiedLine::new(checked)?)?;
    } else {
        output.line(&format!("receipt {} by {}: {}", receipt.id, receipt.agent_id, receipt.status))?;
        output.line(&format!("  signed by  {}", signers.join(", ")))?;
        output.line(&format!("  hash       {}", receipt.receipt_hash))?;
        for line in provenance_lines(&read.statement.predicate) {
            output.line(&line)?;
        }
        output.line(&match chain {
            Some(ChainPosition { position, length }) => {
                format!("  chain      receipt {position} of {length}, whole from the first one on")
            }
            None => "  chain      not checked".to_owned(),
        })?;
        output.line(&match artifacts {
            ArtifactCheck::NoArtifacts => "  files      none were changed".to_owned(),
            ArtifactCheck::StoredStates => format!("  files      {files}, as in the stored states"),
            ArtifactCheck::Folder => format!("  files      {files}, as in that folder"),
            ArtifactCheck::Unchecked => {
                format!("  files      {files}, not checked: no state is stored here; give --files")
            }
        })?;
        if !beside.checked.is_empty() {
            output.line(&format!("  others     {}, as signed", beside.checked.join(", ")))?;
        }
        if !beside.absent.is_empty() {
            output.line(&format!("  missing    {}", beside.absent.join(", ")))?;
        }
        if !beside.uncovered.is_empty() {
            let names = beside.uncovered.join(", ");
            output.line(&format!("  unproved   {names}: an older version did not sign their digests"))?;
        }
    }
    Ok(CommandOutcome::Good)
}

/// Who and what is behind the run, as the statement says; nothing in statements of version 1.
fn provenance_lines(predicate: &WorkRun) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(agent) = &predicate.agent {
        let parts = [Some(&agent.name), agent.version.as_ref()].into_iter().flatten();
        let models = agent.models.iter().flat_map(|models| models.as_slice());
        let parts = parts.chain(models).map(|part| Shown::line(part.as_str()).to_string());
        lines.push(format!("  agent      {}", parts.collect::<Vec<_>>().join(", ")));
    }
    if let Some(LocalUser { user, host, key }) = &predicate.started_by {
        let key = key.as_ref().map_or_else(String::new, |key| format!(", key {}", Shown::line(key.as_str())));
        let (user, host) = (Shown::line(user.as_str()), Shown::line(host.as_str()));
        lines.push(format!("  started by {user} on {host}{key}"));
    }
    for verdict in predicate.verdicts.iter().flat_map(|verdicts| verdicts.as_slice()) {
        let (by, why) = (Shown::line(&verdict.by), Shown::line(&verdict.reason));
        lines.push(format!("  {:<10} by {by}: {why}", verdict.decision));
    }
    if let Some(hidden) = predicate.hidden.as_ref().filter(|hidden| !hidden.paths.as_slice().is_empty()) {
        let mut paths: Vec<String> =
            hidden.paths.as_slice().iter().map(|path| Shown::line(path.as_str()).to_string()).collect();
        paths.extend(hidden.left_off.map(|more| format!("{more} more")));
        lines.push(format!("  hidden     {}", paths.join(", ")));
    }
    lines
}

/// What was verified as a program gets it; who and what is behind the run in the statement's own words.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VerifiedLine<'c> {
    ok: bool,
    id: String,
    status: &'c str,
    receipt_hash: String,
    signers: &'c [String],
    other_signers: &'c [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chain_length: Option<usize>,
    files: usize,
    files_checked_against: &'c str,
    beside: &'c [String],
    not_there: &'c [String],
    not_covered: &'c [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_by: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdicts: Option<Box<RawValue>>,
}

impl<'c> VerifiedLine<'c> {
    fn new(checked: &'c Checked) -> Result<VerifiedLine<'c>, Failure> {
        let Checked { read, signers, other_signers, chain, artifacts, beside } = checked;
        let WorkRun { agent, started_by, hidden, verdicts, .. } = &read.statement.predicate;
        Ok(VerifiedLine {
            ok: true,
            id: read.receipt.id.to_string(),
            status: read.receipt.status.as_str(),
            receipt_hash: read.receipt.receipt_hash.to_string(),
            signers,
            other_signers,
            place: chain.as_ref().map(|chain| chain.position),
            chain_length: chain.as_ref().map(|chain| chain.length),
            files: read.receipt.artifacts.as_slice().len(),
            files_checked_against: artifacts.as_str(),
            beside: &beside.checked,
            not_there: &beside.absent,
            not_covered: &beside.uncovered,
            agent: agent.as_ref().map(|agent| embedded(to_json(agent))).transpose()?,
            started_by: started_by.as_ref().map(|user| embedded(to_json(user))).transpose()?,
            hidden: hidden.as_ref().map(|hidden| embedded(to_json(hidden))).transpose()?,
            verdicts: verdicts.as_ref().map(|verdicts| embedded(to_json(verdicts))).transpose()?,
        })
    }
}
