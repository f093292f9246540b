//! Whether one verdict counts for a subject, and if not, why not and what would renew it.

use std::fmt;

use crealeph_contracts::actor::Actor;
use crealeph_contracts::approval::{ApprovalDecision, ApprovalRule, ProofKind, VerdictStatement};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::{KeyId, LedgerId, Literal, Name};

use super::people::People;
use super::rule::SubjectClass;

/// The name of a user who signed in by a link from the terminal.
const TERMINAL_LINK: Literal = Literal::new("a link from the terminal");
const NANOS_PER_MINUTE: i128 = 60_000_000_000;

/// Who asked for a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A person who proved who they are.
    Person(Name),
    /// A program, by the API key that an admin granted it.
    Program(KeyId),
    /// A name of the operating system, which proves nothing.
    OsName(Name),
}

impl Requester {
    /// The requester, by the name of the actor that appended a draft. A link is granted at the terminal, so it proves no more than an account.
    pub fn of_actor(actor: Actor) -> Requester {
        match actor {
            Actor::Person(person) => Requester::Person(person),
            Actor::Key(id) => Requester::Program(id),
            Actor::Account(name) => Requester::OsName(name),
            Actor::Link(_) => Requester::OsName(Name::from(TERMINAL_LINK)),
        }
    }
}

impl fmt::Display for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Requester::Person(name) => write!(f, "person {name}"),
            Requester::Program(id) => write!(f, "API key {id}"),
            Requester::OsName(name) => write!(f, "{name}"),
        }
    }
}

/// What waits for a person, as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalSubject {
    /// Its id.
    pub id: LedgerId,
    /// The facts that rules distinguish it by.
    pub class: SubjectClass,
    /// The digest of exactly what is shown and lands.
    pub digest: Blake3,
    /// Where it lands.
    pub target: Name,
    /// The state of the workspace that a change was made on.
    pub base_state: Option<Blake3>,
    /// Who asked for it; `None` if that was not recorded.
    pub requester: Option<Requester>,
    /// Evidence that is newer than what the subject rests on (R18), as a person reads it.
    pub outdated: Option<String>,
    /// Files that it touches and that have changed since it was made.
    pub moved_files: Vec<String>,
}

/// Why a verdict does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uncounted {
    /// An outsider would reject it: signature, key, tenant, log.
    Disbelieved(String),
    /// It is about another text of the subject, or another place to land.
    OtherSubject,
    /// The key was not enrolled for this person before.
    NotEnrolled,
    /// The key was revoked since.
    Revoked,
    /// The person is not, or was not, in the group.
    NotInGroup,
    /// The person asked for it.
    OwnRequest,
    /// The requester is known by an operating system name only.
    UnknownRequester,
    /// No one was asked at the moment of signing.
    Unattended,
    /// The rule does not take this kind of proof.
    ProofKind,
    /// Its nonce was used before.
    NonceReused,
    /// Another verdict of the same person already counts.
    Repeated,
    /// A landing used it.
    Used,
    /// The rule has changed.
    RuleChanged,
    /// It has expired.
    Expired,
    /// There is newer evidence than the subject is based on.
    Outdated(String),
    /// A file that it touches has changed.
    BaseMoved(Vec<String>),
}

impl Uncounted {
    /// The stable code.
    pub fn as_str(&self) -> &'static str {
        match self {
            Uncounted::Disbelieved(_) => "disbelieved",
            Uncounted::OtherSubject => "other_subject",
            Uncounted::NotEnrolled => "not_enrolled",
            Uncounted::Revoked => "revoked",
            Uncounted::NotInGroup => "not_in_group",
            Uncounted::OwnRequest => "own_request",
            Uncounted::UnknownRequester => "unknown_requester",
            Uncounted::Unattended => "unattended",
            Uncounted::ProofKind => "proof_kind",
            Uncounted::NonceReused => "nonce_reused",
            Uncounted::Repeated => "repeated",
            Uncounted::Used => "used",
            Uncounted::RuleChanged => "rule_changed",
            Uncounted::Expired => "expired",
            Uncounted::Outdated(_) => "outdated",
            Uncounted::BaseMoved(_) => "base_moved",
        }
    }

    /// Whether it counted once and lapsed since.
    pub fn is_lapse(&self) -> bool {
        use Uncounted::{BaseMoved, Expired, Outdated, RuleChanged};
        matches!(self, Outdated(_) | BaseMoved(_) | RuleChanged | Expired)
    }

    /// Why, for a person.
    pub fn reason(&self) -> String {
        let fixed = match self {
            Uncounted::Disbelieved(why) => return why.clone(),
            Uncounted::Outdated(why) => return format!("lapsed: {why}"),
            Uncounted::BaseMoved(files) => {
                return format!("lapsed: {} changed since", files.join(", "));
            }
            Uncounted::OtherSubject => "it is about another content or target",
            Uncounted::NotEnrolled => "the key was not enrolled for this person before",
            Uncounted::Revoked => "the key was revoked",
            Uncounted::NotInGroup => "the person is not in the group",
            Uncounted::OwnRequest => "the person is its requester",
            Uncounted::UnknownRequester => "the requester is known by an operating system name only",
            Uncounted::Unattended => "it was given unattended",
            Uncounted::ProofKind => "the rule does not accept this kind of proof",
            Uncounted::NonceReused => "its nonce was used before",
            Uncounted::Repeated => "another verdict of the same person already counts",
            Uncounted::Used => "a landing used it",
            Uncounted::RuleChanged => "lapsed: the rule was changed",
            Uncounted::Expired => "lapsed: it has expired",
        };
        fixed.to_owned()
    }

    /// What would make it, or a new one, count; `None` if nothing does.
    pub fn renewal(&self) -> Option<&'static str> {
        Some(match self {
            Uncounted::Outdated(_) => "build again on the newest evidence, and approve the new draft",
            Uncounted::BaseMoved(_) => {
                "restore those files; or run the work again on them, and approve the new change"
            }
            Uncounted::RuleChanged | Uncounted::Expired => "approve again",
            Uncounted::Unattended => "approve at a terminal, without --yes",
            Uncounted::Revoked => "approve with a key that is not revoked",
            Uncounted::OtherSubject => "approve what is shown now",
            Uncounted::ProofKind => {
                "decide with a key of a kind that the rule accepts; `proof` in the rule says which (`crealeph rule show`)"
            }
            Uncounted::UnknownRequester => {
                "ask an admin to allow it with `os_requester = true` in the rule (`crealeph rule set`)"
            }
            _ => return None,
        })
    }
}

/// Who gives a verdict, and how.
#[derive(Clone, Copy)]
pub(super) struct VerdictGiver<'a> {
    pub(super) person: &'a Name,
    pub(super) proof: ProofKind,
    /// They were in the rule's group then, and are now.
    pub(super) is_in_group: bool,
    pub(super) is_unattended: bool,
}

impl VerdictGiver<'_> {
    /// Why no approval of theirs counts under a rule, whatever its statement says.
    pub(super) fn uncounted(self, subject: &ApprovalSubject, rule: &ApprovalRule) -> Option<Uncounted> {
        let VerdictGiver { person, proof, is_in_group, is_unattended } = self;
        Some(match () {
            () if !is_in_group => Uncounted::NotInGroup,
            () if let Some(Requester::Person(asked)) = &subject.requester
                && asked == person
                && !rule.requester =>
            {
                Uncounted::OwnRequest
            }
            () if matches!(subject.requester, Some(Requester::OsName(_))) && !rule.os_requester => {
                Uncounted::UnknownRequester
            }
            () if is_unattended && !rule.unattended => Uncounted::Unattended,
            () if !rule.proofs.contains(&proof) => Uncounted::ProofKind,
            () if let Some(why) = &subject.outdated => Uncounted::Outdated(why.clone()),
            () if !subject.moved_files.is_empty() => Uncounted::BaseMoved(subject.moved_files.clone()),
            () => return None,
        })
    }
}

/// The context that a verdict is judged in.
#[derive(Clone, Copy)]
pub(super) struct VerdictContext<'a> {
    pub(super) people: &'a People,
    pub(super) subject: &'a ApprovalSubject,
    pub(super) rule: &'a ApprovalRule,
    pub(super) rule_digest: &'a Blake3,
    pub(super) now: Instant,
}

impl VerdictContext<'_> {
    /// Why an approval, accepted at a place and a time, does not count by itself.
    pub(super) fn uncounted(
        self,
        statement: &VerdictStatement,
        proof: ProofKind,
        seq: u64,
        at: Instant,
    ) -> Option<Uncounted> {
        let VerdictContext { people, subject, rule, rule_digest, now } = self;
        let person = &statement.person;
        let in_group = |at| people.is_member(person, rule.group.as_ref(), at);
        let is_over = |until: Instant| now >= until;
        let ttl_end = rule.ttl_minutes.map(|minutes| {
            Instant::from_unix_nanos(at.unix_nanos() + i128::from(minutes.get()) * NANOS_PER_MINUTE)
        });
        let expires = statement.expires.as_ref().map(|expires| expires.instant());
        let is_in_group = in_group(seq) && in_group(u64::MAX);
        let giver = VerdictGiver { person, proof, is_in_group, is_unattended: statement.unattended };
        Some(match () {
            () if !is_bound(statement, subject) => Uncounted::OtherSubject,
            () if !people.is_enrolled(person, &statement.key_id, seq) => Uncounted::NotEnrolled,
            () if people.revoked_at(&statement.key_id).is_some() => Uncounted::Revoked,
            () if statement.rule_digest != *rule_digest => Uncounted::RuleChanged,
            () if let Some(why) = giver.uncounted(subject, rule) => why,
            () if ttl_end.is_some_and(is_over) || expires.is_some_and(is_over) => Uncounted::Expired,
            () => return None,
        })
    }

    /// Whether a rejection ends the subject: by a member of the group at that time, with a key that was not revoked since.
    pub(super) fn is_final(self, statement: &VerdictStatement, group: Option<&Name>, seq: u64) -> bool {
        let VerdictContext { people, subject, .. } = self;
        statement.decision == ApprovalDecision::Reject
            && is_bound(statement, subject)
            && people.is_enrolled(&statement.person, &statement.key_id, seq)
            && people.revoked_at(&statement.key_id).is_none()
            && people.is_member(&statement.person, group, seq)
    }
}

/// Whether a verdict is about this content of this subject, for this target.
fn is_bound(statement: &VerdictStatement, subject: &ApprovalSubject) -> bool {
    statement.subject_kind == subject.class.kind
        && statement.subject_id == subject.id
        && statement.subject_digest == subject.digest
        && statement.target == subject.target
        && statement.base_state == subject.base_state
}
