//! A person's verdict on a draft (R14): an entry of type `review`, and on approval the artifact again, as `planned`,
//! depending on the draft and the review. One verdict per draft: both entries have keys made from its id.

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::entry::{Draft, Entry, Lineage};
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::{ClientKey, IdentifierError, LedgerId, Literal, Name, Text};
use crealeph_contracts::shape::Set;

use super::conclude::BUILDER;

/// The type of a verdict's entry.
pub const REVIEW: Literal = Literal::new("review");
/// The state of a draft's entry.
pub(super) const DRAFT: Literal = Literal::new("draft");

/// The verdict on a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewOpinion {
    /// It may be used.
    Approved,
    /// It may not.
    Rejected,
}

impl ReviewOpinion {
    /// The state of the review's entry.
    pub fn as_str(self) -> &'static str {
        match self {
            ReviewOpinion::Approved => "approved",
            ReviewOpinion::Rejected => "rejected",
        }
    }
}

/// Why an entry cannot be reviewed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// It was not written for review.
    #[error(
        "entry `{id}` is a {kind} in state `{state}` by `{module}`; only drafts of the Builder are reviewed"
    )]
    NotADraft {
        /// The entry.
        id: String,
        /// Its type.
        kind: String,
        /// Its state.
        state: String,
        /// Its module.
        module: String,
    },
    /// An invalid name.
    #[error("internal error: the review of `{0}` cannot be written; please report it")]
    Unwritable(String),
}

impl From<IdentifierError> for ReviewError {
    fn from(error: IdentifierError) -> Self {
        ReviewError::Unwritable(error.to_string())
    }
}

/// The key of a draft's review.
pub fn review_key(draft: &LedgerId) -> Result<ClientKey, IdentifierError> {
    ClientKey::parse(&format!("review:{}", Blake3::of(draft.as_str().as_bytes())))
}

/// The key of an approved draft's planned artifact.
pub fn approved_key(draft: &LedgerId) -> Result<ClientKey, IdentifierError> {
    ClientKey::parse(&format!("approved:{}", Blake3::of(draft.as_str().as_bytes())))
}

/// The entries that a verdict adds to the ledger, in one transaction.
pub fn review(
    draft: &Entry,
    opinion: ReviewOpinion,
    who: &Text,
    why: &Text,
) -> Result<Vec<Draft>, ReviewError> {
    check_draft(draft)?;
    let key = review_key(&draft.id)?;
    let by_key = LedgerId::parse(&format!("key:{key}"))?;
    let verdict = Draft {
        robot_id: draft.robot_id.clone(),
        module: Name::from(REVIEW),
        source: Name::from(REVIEW),
        kind: Name::from(REVIEW),
        state: Name::parse(opinion.as_str())?,
        payload: JsonObject::build(|object| {
            object.text("artifactId", draft.id.as_str()).text("artifactType", draft.kind.as_str());
            object.text("verdict", opinion.as_str()).text("by", who.as_str()).text("reason", why.as_str());
        }),
        lineage: lineage(draft, vec![draft.id.clone()]),
        observed_at: None,
        key: Some(key),
    };
    if opinion == ReviewOpinion::Rejected {
        return Ok(vec![verdict]);
    }
    let planned = planned(draft, vec![draft.id.clone(), by_key])?;
    Ok(vec![verdict, planned])
}

/// The artifact of an approved draft, depending on these entries: the draft itself and what approved it.
pub fn planned(draft: &Entry, because: Vec<LedgerId>) -> Result<Draft, ReviewError> {
    Ok(Draft {
        robot_id: draft.robot_id.clone(),
        module: Name::from(BUILDER),
        source: Name::from(BUILDER),
        kind: draft.kind.clone(),
        state: Name::parse("planned")?,
        payload: check_draft(draft)?,
        lineage: lineage(draft, because),
        observed_at: draft.observed_at.clone(),
        key: Some(approved_key(&draft.id)?),
    })
}

/// Whether an entry of this module and state is a draft of the Builder.
pub fn is_draft(module: &str, state: &str) -> bool {
    module == BUILDER.as_str() && state == DRAFT.as_str()
}

/// The content of a draft of the Builder; refuses anything else.
pub fn check_draft(draft: &Entry) -> Result<JsonObject, ReviewError> {
    let word = |name: &Option<Name>| name.as_ref().map_or(String::new(), |name| name.as_str().to_owned());
    let (state, module) = (word(&draft.state), word(&draft.module));
    draft.payload.clone().filter(|_| is_draft(&module, &state)).ok_or_else(|| {
        let (id, kind) = (draft.id.as_str().to_owned(), draft.kind.as_str().to_owned());
        ReviewError::NotADraft { id, kind, state, module }
    })
}

fn lineage(draft: &Entry, ids: Vec<LedgerId>) -> Option<Lineage> {
    let execution_id = draft.lineage.as_ref().and_then(|lineage| lineage.execution_id.clone());
    Some(Lineage { depends_on: Set::new(ids), execution_id, rerun_of: None })
}
