//! The files that a run changed, checked against a folder or against the stored states before and after it. Every digest
//! of a file in a statement must be that of the content; a missing digest is a finding.

use std::collections::BTreeSet;

use crealeph_contracts::Receipt;
use crealeph_contracts::attestation::Subject;
use crealeph_contracts::digest::{Blake3, ContentDigests};
use crealeph_contracts::receipt::{ArtifactChange, ReceiptArtifact};

use crate::envelope::quoted;
use crate::finding::{Finding, FindingKind};
use crate::receipt::ReadReceipt;
use crate::state::{StateEntries, read_state};

const IGNORE_FILE: &str = ".gitignore";

/// The basis for checking a receipt's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtifactCheck {
    /// The run changed no file.
    NoArtifacts,
    /// The stored states before and after, and the stored contents.
    StoredStates,
    /// The files of a folder.
    Folder,
    /// Nothing: the states are not stored.
    Unchecked,
}

impl ArtifactCheck {
    /// The stable code.
    pub fn as_str(self) -> &'static str {
        match self {
            ArtifactCheck::NoArtifacts => "nothing",
            ArtifactCheck::StoredStates => "states",
            ArtifactCheck::Folder => "files",
            ArtifactCheck::Unchecked => "unchecked",
        }
    }
}

/// Checks the files of a folder: each file that the run left is there with that content, and each that it deleted is not.
/// `digests_at` gives the digests of the file at a path.
///
/// # Errors
/// Every file that differs from the receipt, named; or why a file cannot be read.
pub fn check_folder_artifacts<E: From<Finding>>(
    read: &ReadReceipt,
    mut digests_at: impl FnMut(&str) -> Result<Option<ContentDigests>, E>,
) -> Result<ArtifactCheck, E> {
    let artifacts = read.receipt.artifacts.as_slice();
    if artifacts.is_empty() {
        return Ok(ArtifactCheck::NoArtifacts);
    }
    let mut faults = Vec::new();
    for artifact in artifacts {
        let found = digests_at(artifact.path.as_str())?;
        let is_same = match (&found, artifact.hash) {
            (Some(found), Some(_)) => Some(*found == stated_digests(subject_of(read, artifact)?)?),
            (found, _) => found.as_ref().map(|_| false),
        };
        faults.extend(fault(artifact, is_same));
    }
    all_clear(&faults)?;
    Ok(ArtifactCheck::Folder)
}

/// Checks the stored states before and after, and the stored contents. `load` gives the manifest that is stored under a
/// hash, `digests_of` the digests of the content that is.
///
/// # Errors
/// The first problem; or why a content cannot be read.
pub fn check_stored_artifacts<E: From<Finding>>(
    read: &ReadReceipt,
    mut load: impl FnMut(&Blake3) -> Result<Option<String>, E>,
    mut digests_of: impl FnMut(&Blake3) -> Result<Option<ContentDigests>, E>,
) -> Result<ArtifactCheck, E> {
    let receipt = &read.receipt;
    if receipt.artifacts.as_slice().is_empty() {
        return Ok(ArtifactCheck::NoArtifacts);
    }
    // One of them may have been cleaned away while the other also belongs to a newer run.
    let mut stored = |hash: &Blake3| {
        let mut stopped = None;
        let state = read_state(hash, |hash| {
            load(hash).unwrap_or_else(|stop| {
                stopped = Some(stop);
                None
            })
        });
        match (stopped, state) {
            (Some(stop), _) => Err(stop),
            (None, Err(finding)) if finding.kind == FindingKind::Missing => Ok(None),
            (None, state) => Ok(Some(state?)),
        }
    };
    let (Some(before), Some(after)) = (stored(&receipt.before_hash)?, stored(&receipt.after_hash)?) else {
        return Ok(ArtifactCheck::Unchecked);
    };
    check_states(receipt, &before, &after)?;
    for artifact in receipt.artifacts.as_slice() {
        // The target of a link is in the manifest, not among the contents.
        let is_link = after.get(artifact.path.as_str()).is_some_and(|entry| &*entry.kind == "link");
        let Some(hash) = artifact.hash.filter(|_| !is_link) else { continue };
        if digests_of(&hash)? != Some(stated_digests(subject_of(read, artifact)?)?) {
            let path = quoted(artifact.path.as_str());
            let what = format!("the stored content of {path} is not what the receipt says, or is gone");
            return Err(Finding::changed(what).into());
        }
    }
    Ok(ArtifactCheck::StoredStates)
}

/// The digests of a content in a statement: all of them must be there.
pub(crate) fn stated_digests(subject: &Subject) -> Result<ContentDigests, Finding> {
    let name = subject.name.as_str();
    let digest = &subject.digest;
    let missing = |kind| {
        let what = format!("the statement has no {kind} digest of {}", quoted(name));
        Finding::new(FindingKind::Missing, what)
    };
    if digest.git_commit.is_some() {
        return Err(Finding::changed(format!("the statement names a commit for the file {}", quoted(name))));
    }
    Ok(ContentDigests {
        blake3: digest.blake3.ok_or_else(|| missing("BLAKE3"))?,
        sha256: digest.sha256.ok_or_else(|| missing("SHA-256"))?,
        git_blob: digest.git_blob.clone().ok_or_else(|| missing("git"))?,
    })
}

fn subject_of<'v>(read: &'v ReadReceipt, artifact: &ReceiptArtifact) -> Result<&'v Subject, Finding> {
    let path = artifact.path.as_str();
    let mut files = read.statement.subject.as_slice().iter().skip(1);
    files.find(|subject| subject.name.as_str() == path).ok_or_else(|| {
        Finding::new(FindingKind::Missing, format!("the statement has no digest of {}", quoted(path)))
    })
}

/// What is wrong with an artifact. `is_same`: whether its content is the one that the run left; `None` if there is no file.
fn fault(artifact: &ReceiptArtifact, is_same: Option<bool>) -> Option<String> {
    let path = quoted(artifact.path.as_str());
    match (artifact.change, is_same) {
        (ArtifactChange::Deleted, None)
        | (ArtifactChange::Created | ArtifactChange::Modified, Some(true)) => None,
        (ArtifactChange::Deleted, Some(_)) => Some(format!("{path} was deleted by the run, but exists")),
        (ArtifactChange::Created | ArtifactChange::Modified, None) => Some(format!("{path} is not there")),
        (ArtifactChange::Created | ArtifactChange::Modified, Some(false)) => {
            Some(format!("{path} is not what the run left"))
        }
    }
}

fn all_clear(faults: &[String]) -> Result<(), Finding> {
    match faults {
        [] => Ok(()),
        faults => Err(Finding::changed(faults.join("; "))),
    }
}

/// Checks a receipt against the two states it names: they differ in exactly the files that the receipt lists. If the run
/// changed ignore rules (R26), unchanged files may also have entered or left the state.
fn check_states(receipt: &Receipt, before: &StateEntries, after: &StateEntries) -> Result<(), Finding> {
    let artifacts = receipt.artifacts.as_slice();
    let changes_rules = artifacts.iter().any(|it| it.path.as_str().rsplit('/').next() == Some(IGNORE_FILE));
    let faults = artifacts.iter().filter_map(|artifact| {
        let is_same = match after.get(artifact.path.as_str()) {
            None if changes_rules => artifact.hash.map(|_| true),
            entry => entry.map(|entry| Some(entry.digest) == artifact.hash),
        };
        fault(artifact, is_same)
    });
    all_clear(&faults.collect::<Vec<_>>())?;
    let listed: BTreeSet<&str> = artifacts.iter().map(|it| it.path.as_str()).collect();
    let paths = before.keys().chain(after.keys().filter(|path| !before.contains_key(*path)));
    let is_unexplained = |path: &&String| match (before.get(*path), after.get(*path)) {
        (one, other) if one == other => false,
        (None, _) | (_, None) if changes_rules => false,
        _ => !listed.contains(path.as_str()),
    };
    let unlisted: Vec<String> = paths.filter(is_unexplained).map(|path| quoted(path)).collect();
    match unlisted.is_empty() {
        true => Ok(()),
        false => {
            let paths = unlisted.join(", ");
            Err(Finding::changed(format!("the states differ in {paths}, which the receipt does not list")))
        }
    }
}
