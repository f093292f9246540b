//! The inbox as the command line and the server both show it.

use crealeph_contracts::approval::{ApprovalRule, ProofKind, SubjectKind};
use crealeph_contracts::held_change::HeldChangeRecord;
use crealeph_decision::approval::{JudgedVerdict, SubjectState};
use serde::{Deserialize, Serialize};

use super::inbox::InboxItem;
use super::report::missing_approvals;

/// Something that waits.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InboxRow {
    /// The draft, or the run of the change.
    pub subject: String,
    /// `draft` or `change`.
    pub kind: String,
    /// The type of its entry.
    #[serde(rename = "type")]
    pub entry_type: String,
    /// The robot.
    pub robot_id: String,
    /// Since when it waits.
    pub since: String,
    /// The objective of a draft.
    pub objective: Option<String>,
    /// Who asked for it; absent if that was not recorded.
    pub requester: Option<String>,
    /// What has overtaken it.
    pub outdated: Option<String>,
    /// The change, if it is one.
    pub change: Option<ChangeOutline>,
    /// The rule that holds; absent while no one is enrolled, as all that follows.
    pub rule: Option<String>,
    /// What that rule wants, in words.
    pub needs: Option<String>,
    /// How many approvals are missing.
    pub missing: Option<u64>,
    /// Who may decide.
    pub may_decide: Option<Vec<String>>,
    /// The verdicts so far.
    pub verdicts: Vec<VerdictOutline>,
    /// Those that lapsed, and how each is renewed.
    pub lapsed: Vec<LapsedVerdict>,
}

/// What distinguishes held changes.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeOutline {
    /// The item.
    pub item: String,
    /// The first line of its task.
    pub task: String,
    /// The workspace.
    pub workspace: String,
    /// Where it goes.
    pub target: String,
    /// How many files it touches.
    pub files: u64,
    /// It touches protected paths.
    pub protected: bool,
    /// It touches tests.
    pub tests: bool,
    /// What it cost, as its agent reported it.
    pub cost_usd: Option<f64>,
}

/// A verdict, and whether it counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct VerdictOutline {
    /// Who gave it.
    pub person: String,
    /// Whether it counts.
    pub counted: bool,
    /// Why not.
    pub why: Option<String>,
}

/// A verdict that lapsed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct LapsedVerdict {
    /// Its entry.
    pub verdict: String,
    /// Who gave it.
    pub person: String,
    /// The stable code of the reason.
    pub code: String,
    /// Why it lapsed.
    pub reason: String,
    /// How it is renewed.
    pub renewal: Option<String>,
}

/// A page of what waits, newest first.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct InboxPage {
    /// What waits.
    pub items: Vec<InboxRow>,
    /// Where the list continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl InboxRow {
    /// The row of an item.
    pub fn of(item: &InboxItem) -> Self {
        let InboxItem { entry, subject, change, state } = item;
        let verdicts = || state.iter().flat_map(|state| &state.verdicts);
        let people =
            |state: &SubjectState| state.may_decide.iter().map(ToString::to_string).collect::<Vec<_>>();
        let state = state.as_ref();
        InboxRow {
            subject: subject.id.to_string(),
            kind: subject.class.kind.as_str().to_owned(),
            entry_type: entry.content.kind.to_string(),
            robot_id: entry.content.robot_id.to_string(),
            since: entry.created_at.to_string(),
            objective: subject.class.objective.as_ref().map(ToString::to_string),
            requester: subject.requester.as_ref().map(ToString::to_string),
            outdated: subject.outdated.clone(),
            change: change.as_deref().map(ChangeOutline::of),
            rule: state.map(|state| state.rule.name.to_string()),
            needs: state.map(|state| rule_in_words(&state.rule)),
            missing: state.map(missing_approvals),
            may_decide: state.map(people),
            verdicts: verdicts().map(VerdictOutline::of).collect(),
            lapsed: verdicts().filter_map(LapsedVerdict::of).collect(),
        }
    }
}

impl ChangeOutline {
    /// The outline of a change.
    pub(super) fn of(change: &HeldChangeRecord) -> Self {
        ChangeOutline {
            item: change.item.to_string(),
            task: change.task.trim().lines().next().unwrap_or_default().to_owned(),
            workspace: change.workspace.to_string(),
            target: change.target.to_string(),
            files: change.files.get(),
            protected: change.protected,
            tests: change.tests,
            cost_usd: change.cost_usd.map(|cost| cost.get()),
        }
    }
}

impl VerdictOutline {
    fn of(verdict: &JudgedVerdict) -> Self {
        VerdictOutline {
            person: verdict.statement.person.to_string(),
            counted: verdict.uncounted.is_none(),
            why: verdict.uncounted.as_ref().map(|why| why.reason()),
        }
    }
}

impl LapsedVerdict {
    fn of(verdict: &JudgedVerdict) -> Option<Self> {
        let why = verdict.uncounted.as_ref().filter(|why| why.is_lapse())?;
        Some(LapsedVerdict {
            verdict: verdict.id.to_string(),
            person: verdict.statement.person.to_string(),
            code: why.as_str().to_owned(),
            reason: why.reason(),
            renewal: why.renewal().map(str::to_owned),
        })
    }
}

/// What a rule wants, in words.
pub fn rule_in_words(rule: &ApprovalRule) -> String {
    let approvals = rule.approvals.get();
    let group =
        rule.group.as_ref().map_or_else(|| "anyone enrolled".to_owned(), |group| format!("`{group}`"));
    let plural = if approvals == 1 { "" } else { "s" };
    let mut words = format!("{approvals} approval{plural} by {group}");
    if let Some(minutes) = rule.ttl_minutes {
        words.push_str(&format!(", each for {minutes} minutes"));
    }
    if rule.proofs.contains(&ProofKind::Passkey) {
        words.push_str(match rule.proofs.contains(&ProofKind::Ssh) {
            true => ", with an SSH key or a passkey",
            false => ", with a passkey",
        });
    }
    if rule.unattended {
        words.push_str(", also unattended");
    }
    match (&rule.objectives, rule.subject) {
        (Some(objectives), _) => {
            let names: Vec<&str> = objectives.as_slice().iter().map(|name| name.as_str()).collect();
            words.push_str(&format!("; for {}", names.join(", ")));
        }
        (None, SubjectKind::Change) => words.push_str(&format!("; for changes{}", conditions(rule))),
        (None, SubjectKind::Draft) => {}
    }
    words
}

/// Which changes a rule is for.
fn conditions(rule: &ApprovalRule) -> String {
    let named = [
        rule.protected.map(|_| "protected paths".to_owned()),
        rule.tests.map(|_| "tests".to_owned()),
        rule.more_files_than.map(|files| format!("more than {files} files")),
        rule.cost_above_usd.map(|cost| format!("a cost above {} US dollars", cost.get())),
    ];
    let named: Vec<String> = named.into_iter().flatten().collect();
    if named.is_empty() { String::new() } else { format!(" with {}", named.join(" or ")) }
}
