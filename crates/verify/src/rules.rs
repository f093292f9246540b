//! The rules of a log, restated from the contracts: entries that an honest ledger would never have accepted. Hashes and signatures
//! show that nothing was changed since it was written; these show that it could have been written.
//!
//! It refuses what an import refuses. Memory grows with the log: about 100 bytes for each entry, because an id or
//! a key may be repeated, and a lineage may name, any number of entries later.

use std::collections::{HashMap, HashSet};

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::execution_event::{
    EntryRef, ExecutionEvent, ExecutionEventParts, ExecutionState, rests_on_ledger,
};
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::{Limits, Node, ObjectWriter};
use crealeph_contracts::log_rules::{RulesInForce, RulesVersion};
use crealeph_contracts::scalar::{LedgerId, RobotId};
use crealeph_contracts::violation::Report;
use crealeph_contracts::{Entry, Valid};

/// The type that the execution contract judges.
const EXECUTION_EVENT: &str = "execution_event";
/// How a producer names an entry by its key; a ledger stores the id instead.
const KEY_PREFIX: &str = "key:";

/// A name, by half of its BLAKE3 hash.
type NameHash = u128;

/// The state that the entries so far require the next ones to follow.
#[derive(Debug, Default)]
pub(crate) struct LogRules {
    ids: HashMap<NameHash, Known>,
    keys: HashSet<NameHash>,
    robots: HashMap<RobotId, u32>,
    robot_names: Vec<RobotId>,
    /// The state and attempt of each execution's newest event.
    executions: HashMap<NameHash, (ExecutionState, u64)>,
    /// The identities of events.
    events: HashSet<NameHash>,
    last_at: Option<Instant>,
    /// Which rules apply where in the log.
    in_force: RulesInForce,
    /// How many entries under the first rules the second would have refused.
    legacy: u64,
}

/// What later entries need to know about an entry.
#[derive(Clone, Copy, Debug)]
struct Known {
    created_at_ms: i64,
    robot: u32,
}

impl LogRules {
    /// The rules of a log, as far as its name says.
    pub(crate) fn of_origin(origin: &str) -> LogRules {
        LogRules { in_force: RulesInForce::of_origin(origin), ..LogRules::default() }
    }

    /// How many entries so far are legacy: only valid by the rules of their time.
    pub(crate) fn legacy(&self) -> u64 {
        self.legacy
    }

    /// Judges the next entry, `node` in its canonical form, and remembers it; the error says which rule it breaks.
    pub(crate) fn add(
        &mut self,
        entry: &Entry,
        node: Node<'_>,
        has_lost_payload: bool,
    ) -> Result<(), String> {
        is_complete(entry, node)?;
        let seq = entry.seq.map_or(0, |seq| seq.get());
        self.in_force.see(seq, entry.kind.as_str(), entry.key.as_ref().map(|key| key.as_str()));
        if has_lost_payload {
            if self.in_force.at(seq) == RulesVersion::Second {
                return Err("has no payload".to_owned());
            }
            self.legacy += 1;
        }
        let at = entry.created_at.instant();
        if self.last_at.is_some_and(|last| at < last) {
            return Err("is older than the entry before it".to_owned());
        }
        if let Some(observed_at) = &entry.observed_at
            && observed_at.instant() > at
        {
            return Err(format!("was observed at {}, after it was created", observed_at.as_str()));
        }
        let id = hash(&[entry.id.as_str()]);
        if self.ids.contains_key(&id) {
            return Err("has the id of an earlier entry".to_owned());
        }
        if let Some(unknown) = entry.depends_on().iter().find(|id| !self.holds(id)) {
            return Err(format!("depends on `{unknown}`, which is not an earlier entry"));
        }
        if entry.kind.as_str() == EXECUTION_EVENT {
            self.add_event(entry, node, self.in_force.at(seq))?;
        }
        if let Some(key) = &entry.key
            && !self.keys.insert(hash(&[key.as_str()]))
        {
            return Err(format!("has the key `{key}` of an earlier entry"));
        }
        let created_at_ms = i64::try_from(at.unix_nanos() / 1_000_000).unwrap_or(i64::MAX);
        let robot = self.robot(&entry.robot_id);
        self.ids.insert(id, Known { created_at_ms, robot });
        self.last_at = Some(at);
        Ok(())
    }

    fn holds(&self, id: &LedgerId) -> bool {
        !id.as_str().starts_with(KEY_PREFIX) && self.ids.contains_key(&hash(&[id.as_str()]))
    }

    fn robot(&mut self, robot: &RobotId) -> u32 {
        if let Some(number) = self.robots.get(robot) {
            return *number;
        }
        let number = u32::try_from(self.robot_names.len()).unwrap_or(u32::MAX);
        self.robots.insert(robot.clone(), number);
        self.robot_names.push(robot.clone());
        number
    }

    /// An event of an execution: its contract, its lineage (§7, R19), its identity (R10) and its place (R9).
    fn add_event(&mut self, entry: &Entry, node: Node<'_>, version: RulesVersion) -> Result<(), String> {
        let text = event_document(node);
        let rests = |parts: &ExecutionEventParts, report: &mut Report| {
            let find = |_: &_, id: &LedgerId| {
                let known = self.ids.get(&hash(&[id.as_str()]))?;
                let robot_id = self.robot_names.get(known.robot as usize).cloned();
                let created_at = Instant::from_unix_nanos(i128::from(known.created_at_ms) * 1_000_000);
                Some(EntryRef { robot_id, created_at })
            };
            rests_on_ledger(parts, find, report);
        };
        let limits = Limits::own(usize::MAX);
        let judged = match version {
            RulesVersion::First => ExecutionEvent::parse_under_first_rules(text.as_bytes(), &limits, rests),
            RulesVersion::Second => Valid::parse_in(text.as_bytes(), &limits, rests).map(Valid::into_inner),
        };
        let event = judged.map_err(|violations| match violations.as_slice().first() {
            Some(violation) => format!("is an event that its contract refuses: {violation}"),
            None => "is an event that its contract refuses".to_owned(),
        })?;
        if version == RulesVersion::First && Valid::check(event.clone()).is_err() {
            self.legacy += 1;
        }
        let (execution, attempt) = (event.payload.execution_id.as_str(), event.payload.attempt.get());
        let robot = entry.robot_id.as_str();
        if !self.events.insert(hash(&[robot, execution, &attempt.to_string(), event.state.as_str()])) {
            return Err(format!("repeats the event `{}` of attempt {attempt} of an execution", event.state));
        }
        let execution = hash(&[robot, execution]);
        if let Some((state, last)) = self.executions.insert(execution, (event.state, attempt)) {
            may_follow((state, last), (event.state, attempt))?;
        }
        Ok(())
    }
}

/// The members of every entry of a log, in the one form in which a ledger writes it.
fn is_complete(entry: &Entry, node: Node<'_>) -> Result<(), String> {
    let members = [
        ("module", entry.module.is_some()),
        ("source", entry.source.is_some()),
        ("state", entry.state.is_some()),
        ("payload", entry.payload.is_some()),
    ];
    if let Some((name, _)) = members.iter().find(|(_, is_there)| !is_there) {
        return Err(format!("has no `{name}`"));
    }
    let at = entry.created_at.as_str();
    if at.len() != "2026-01-01T00:00:00.000Z".len() || !at.ends_with('Z') {
        return Err(format!(
            "has the createdAt `{at}`, which no ledger writes: UTC with three digits and `Z`"
        ));
    }
    if let Some(lineage) = &entry.lineage {
        let ids = lineage.depends_on.as_ref().map(|ids| ids.as_slice());
        let is_empty = ids.is_none() && lineage.execution_id.is_none() && lineage.rerun_of.is_none();
        if is_empty || ids.is_some_and(<[LedgerId]>::is_empty) {
            return Err("has an empty lineage, which no ledger writes".to_owned());
        }
        let written = node.member("lineage").and_then(|lineage| lineage.member("dependsOnLedgerIds"));
        let written = written.into_iter().flat_map(Node::elements).filter_map(Node::string);
        if !ids.unwrap_or_default().iter().map(LedgerId::as_str).eq(written) {
            return Err("has a lineage that is not a sorted set, which no ledger writes".to_owned());
        }
    }
    Ok(())
}

/// The event as its contract knows it: the entry without its envelope (R4).
fn event_document(entry: Node<'_>) -> String {
    let mut text = String::with_capacity(entry.source().len());
    let mut object = ObjectWriter::new(&mut text);
    for (name, value) in entry.members() {
        let name = name.text_value();
        if !["actor", "id", "key", "seq"].contains(&name.as_ref()) {
            object.raw(&name, value.source());
        }
    }
    object.end();
    text
}

/// The state machine of an execution (R9).
fn may_follow(last: (ExecutionState, u64), next: (ExecutionState, u64)) -> Result<(), String> {
    use ExecutionState::{Cancelled, Failed, Planned, Running, Succeeded};
    let ((from, before), (to, attempt)) = (last, next);
    let is_step = matches!(
        (from, to),
        (Planned, Running) | (Running, Succeeded | Failed | Cancelled) | (Failed, Planned | Running)
    );
    if !is_step {
        return Err(format!("is an event `{to}` after `{from}`, which the state machine does not allow"));
    }
    let is_retry = from == Failed;
    match attempt > before || (attempt == before && !is_retry) {
        true => Ok(()),
        false => Err(format!("is an event of attempt {attempt} after `{from}` of attempt {before}")),
    }
}

/// A hash of names that differs for any two lists of names.
fn hash(names: &[&str]) -> NameHash {
    let digest = match names {
        [name] => Blake3::of(name.as_bytes()),
        names => {
            let mut bytes = Vec::new();
            for name in names {
                bytes.extend_from_slice(&(name.len() as u64).to_be_bytes());
                bytes.extend_from_slice(name.as_bytes());
            }
            Blake3::of(&bytes)
        }
    };
    let (half, _) = digest.as_bytes().split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
    u128::from_be_bytes(*half)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use ExecutionState::{Cancelled, Failed, Planned, Running, Succeeded};
    use crealeph_contracts::json::parse;

    #[test]
    fn the_state_machine_follows_the_contract() {
        let keeps = [(Planned, Running), (Running, Succeeded), (Running, Failed), (Running, Cancelled)];
        let raises = [(Failed, Planned), (Failed, Running)];
        for &from in ExecutionState::ALL {
            for &to in ExecutionState::ALL {
                for attempt in [1, 2, 3] {
                    let is_legal = attempt >= 2 && keeps.contains(&(from, to))
                        || attempt > 2 && raises.contains(&(from, to));
                    let step = may_follow((from, 2), (to, attempt));
                    assert_eq!(step.is_ok(), is_legal, "{from} 2 -> {to} {attempt}: {step:?}");
                }
            }
        }
    }

    /// Each entry follows a valid one; the message names the rule.
    #[test]
    fn entries_that_no_ledger_accepts_are_named() {
        let entry = |id: &str, more: &str| {
            format!(
                r#"{{"createdAt":"2026-01-02T00:00:00.000Z","id":"{id}","module":"m","payload":{{}},"robotId":"r","seq":1,"source":"s","state":"final","tenantId":"t","type":"signal"{more}}}"#
            )
        };
        let cases = [
            (entry("b", ""), ""),
            (entry("a", ""), "the id of an earlier"),
            (entry("b", r#","key":"k""#), "the key `k`"),
            (entry("b", r#","lineage":{"dependsOnLedgerIds":["a"]}"#), ""),
            (entry("b", r#","lineage":{"dependsOnLedgerIds":["b"]}"#), "depends on `b`"),
            (entry("b", r#","lineage":{"dependsOnLedgerIds":["key:k"]}"#), "depends on `key:k`"),
            (entry("b", r#","lineage":{}"#), "empty lineage"),
            (entry("b", r#","lineage":{"dependsOnLedgerIds":["a","a"]}"#), "not a sorted set"),
            (entry("b", r#","observedAt":"2026-01-02T00:00:00Z""#), ""),
            (entry("b", r#","observedAt":"2026-01-02T00:00:00.001Z""#), "after it was created"),
            (entry("b", "").replace("01-02T", "01-01T"), "older than"),
            (entry("b", "").replace(".000Z", "Z"), "which no ledger writes"),
            (entry("b", "").replace(r#""module":"m","#, ""), "no `module`"),
            (entry("b", "").replace(r#""signal""#, r#""execution_event""#), "its contract refuses"),
        ];
        for (text, expected) in cases {
            let mut rules = LogRules::default();
            for (text, expected) in [(&entry("a", r#","key":"k""#), ""), (&text, expected)] {
                let (document, _) = parse(text.as_bytes(), &Limits::default());
                let document = document.unwrap();
                let judged = rules.add(&Entry::read_from(document.root()).unwrap(), document.root(), false);
                match expected {
                    "" => assert_eq!(judged, Ok(()), "{text}"),
                    _ => assert!(
                        judged.as_ref().is_err_and(|why| why.contains(expected)),
                        "{text}: {judged:?}"
                    ),
                }
            }
        }
    }
}
