//! Two runs side by side: task, agent, outcome, usage, and which files ended up the same or different. One value, built
//! from what a log or a workspace has of each; nothing here reads or writes.

mod outcomes;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crealeph_contracts::digest::Blake3;
use serde::Serialize;

use self::outcomes::{DiffParts, between};
use super::{BoundStory, RunRow, RunStory, TextPart};

/// How many files are listed.
const MAX_FILES: usize = 500;
/// How much of the diff of one file is kept, and of all of them.
const MAX_FILE_DIFF_BYTES: usize = 64 << 10;
const MAX_DIFF_BYTES: usize = 512 << 10;

/// A run that is compared: what is known of it.
#[derive(Clone, Debug)]
pub struct RunOutcome<'o> {
    /// What happened.
    pub story: &'o RunStory,
    /// Its diff, if it is known.
    pub diff: Option<&'o str>,
    /// The files that it left, by its receipt, each with the digest of its content; none for one that it removed.
    pub files: Option<BTreeMap<String, Option<Blake3>>>,
}

/// Two runs side by side.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunComparison {
    /// The one.
    pub a: ComparedRun,
    /// The other.
    pub b: ComparedRun,
    /// Every file that either changed, by path.
    pub files: Vec<ComparedFile>,
    /// How many more there are.
    pub files_left_out: u64,
    /// What cannot be known of them, in sentences.
    pub unknown: Vec<Cow<'static, str>>,
}

/// One of the two.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComparedRun {
    /// In one line.
    #[serde(flatten)]
    pub row: RunRow,
    /// When it was over.
    pub finished_at: Option<String>,
    /// The models that its agent reported.
    pub models: Vec<String>,
    /// Why it did not succeed.
    pub reason: Option<TextPart>,
    /// The command of its tests.
    pub test_command: Option<String>,
    /// How many tests passed, if that is known.
    pub tests_passed: Option<u64>,
    /// How many failed.
    pub tests_failed: Option<u64>,
    /// What it used of its bounds.
    pub bounds: Vec<BoundStory>,
    /// Lines that it added; absent without a diff.
    pub added: Option<u64>,
    /// Lines that it removed.
    pub removed: Option<u64>,
    /// Tokens, as the agent reported them.
    pub tokens: Option<f64>,
    /// US dollars, as the agent reported them.
    pub cost_usd: Option<f64>,
}

/// How a file came out of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FileStanding {
    /// Only the one changed it.
    OnlyA,
    /// Only the other did.
    OnlyB,
    /// Both did, and left the same.
    Alike,
    /// Both did, and left something else.
    Different,
    /// Both did; whether they left the same is not known.
    Unknown,
}

/// A file that at least one of them changed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComparedFile {
    /// Its path.
    pub path: String,
    /// How it came out.
    pub standing: FileStanding,
    /// What turns the one's outcome into the other's, in unified form.
    pub diff: Option<TextPart>,
    /// Why there is no diff of files that came out different.
    pub reason: Option<Cow<'static, str>>,
}

/// Compares two runs.
pub fn compare_runs(a: &RunOutcome<'_>, b: &RunOutcome<'_>) -> RunComparison {
    let (parts_a, parts_b) = (DiffParts::read(a.diff), DiffParts::read(b.diff));
    let paths: BTreeSet<&str> = paths(a, &parts_a).chain(paths(b, &parts_b)).collect();
    let mut left = MAX_DIFF_BYTES;
    let file = |path: &&str| {
        let mut file = compared((a, &parts_a), (b, &parts_b), path);
        let bytes = file.diff.as_ref().map_or(0, |diff| diff.text.len());
        match left.checked_sub(bytes) {
            Some(rest) => left = rest,
            None => {
                file.diff = None;
                file.reason = Some("the diffs above it are already too long".into());
            }
        }
        file
    };
    RunComparison {
        a: side(a),
        b: side(b),
        files: paths.iter().take(MAX_FILES).map(file).collect(),
        files_left_out: paths.len().saturating_sub(MAX_FILES) as u64,
        unknown: unknown(a, b),
    }
}

/// The files that a run changed, as far as anything says so.
fn paths<'p>(run: &'p RunOutcome<'_>, parts: &'p DiffParts<'_>) -> impl Iterator<Item = &'p str> {
    let left = run.files.iter().flat_map(|files| files.keys().map(String::as_str));
    let stated = run.story.change.files.iter().map(|file| file.path.as_str());
    left.chain(stated).chain(parts.paths())
}

fn side(run: &RunOutcome<'_>) -> ComparedRun {
    let story = run.story;
    ComparedRun {
        row: story.row.clone(),
        finished_at: story.finished_at.clone(),
        models: story.program.as_ref().map_or_else(Vec::new, |agent| agent.models.clone()),
        reason: story.reason.clone(),
        test_command: story.tests.as_ref().and_then(|tests| tests.command.clone()),
        tests_passed: story.tests.as_ref().and_then(|tests| tests.passed),
        tests_failed: story.tests.as_ref().and_then(|tests| tests.failed),
        bounds: story.admission.as_ref().map_or_else(Vec::new, |admission| admission.bounds.clone()),
        added: story.change.added,
        removed: story.change.removed,
        tokens: story.tokens,
        cost_usd: story.cost_usd,
    }
}

fn unknown(a: &RunOutcome<'_>, b: &RunOutcome<'_>) -> Vec<Cow<'static, str>> {
    let mut unknown = Vec::new();
    for (name, run) in [("a", a), ("b", b)] {
        if run.diff.is_none() {
            unknown.push(
                format!("The diff of {name} is not here, so only digests of its files are compared.").into(),
            );
        }
        if run.story.change.is_discarded {
            unknown.push(format!("The change of {name} did not land.").into());
        }
    }
    unknown
}

/// How one file came out of both.
fn compared(
    a: (&RunOutcome<'_>, &DiffParts<'_>),
    b: (&RunOutcome<'_>, &DiffParts<'_>),
    path: &str,
) -> ComparedFile {
    let is_in = |(run, parts): (&RunOutcome<'_>, &DiffParts<'_>)| paths(run, parts).any(|own| own == path);
    let digest = |run: &RunOutcome<'_>| run.files.as_ref().and_then(|files| files.get(path).copied());
    let (part_a, part_b) = (a.1.get(path), b.1.get(path));
    let standing = match (is_in(a), is_in(b)) {
        (true, false) => FileStanding::OnlyA,
        (false, _) => FileStanding::OnlyB,
        (true, true) => match (digest(a.0).zip(digest(b.0)), part_a.zip(part_b)) {
            (Some((one, other)), _) if one == other => FileStanding::Alike,
            (Some(_), _) => FileStanding::Different,
            (None, Some((one, other))) if one.is_same(other) => FileStanding::Alike,
            // The same outcome of different starts has different diffs.
            (None, Some(_)) => FileStanding::Different,
            (None, None) => FileStanding::Unknown,
        },
    };
    let found = match (standing, part_a.zip(part_b)) {
        (FileStanding::Different, Some((one, other))) => Some(between(one, other)),
        (FileStanding::Different, None) => Some(Err("the diff of at least one of them is not here")),
        _ => None,
    };
    let (diff, reason) = match found {
        Some(Ok(diff)) => (Some(TextPart::start(&diff, MAX_FILE_DIFF_BYTES)), None),
        Some(Err(why)) => (None, Some(why.into())),
        None => (None, None),
    };
    ComparedFile { path: path.to_owned(), standing, diff, reason }
}
