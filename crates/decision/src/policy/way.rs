//! The way to a Builder run: what must be regenerated, by which actions, in which order. An entry is regenerated after the
//! entries it depends on.

use crealeph_contracts::instant::Instant;
use crealeph_contracts::policy_input::LedgerRecency;
use crealeph_contracts::scalar::ActionName;
use crealeph_contracts::staleness::MaxAge;

use super::BUILDER_RUN;
use super::confidence::Freshness;
use super::rules::{Need, Rules};
use crate::coherence::CoherenceRules;
use crate::snapshot::{Snapshot, SnapshotType};

/// One entry to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextStep {
    /// Its type.
    pub kind: SnapshotType,
    /// The actions that make it, any one of them; none: it comes from outside.
    pub by: Vec<ActionName>,
    /// Why.
    pub because: String,
}

/// What must be made before `builder.run` is allowed, in order; empty if nothing has to. Without any evidence all of
/// it.
pub fn way_to_run(
    snapshot: Option<&Snapshot>,
    rules: &Rules,
    coherence: &CoherenceRules,
    now: Instant,
) -> Vec<NextStep> {
    let recency = snapshot.map_or_else(|| LedgerRecency::new(Vec::new()), Snapshot::recency);
    let limit = MaxAge::from_minutes(rules.thresholds().max_staleness_minutes);
    let mut way = Way { rules, coherence, recency, limit, now, wanted: Vec::new() };
    way.want_flawless(snapshot);
    way.want_fresh(BUILDER_RUN.as_str());
    way.want_confident();
    way.close();
    way.in_order()
}

struct Way<'a> {
    rules: &'a Rules,
    coherence: &'a CoherenceRules,
    recency: LedgerRecency,
    limit: MaxAge,
    now: Instant,
    wanted: Vec<(SnapshotType, String)>,
}

impl Way<'_> {
    fn wants(&self, kind: SnapshotType) -> bool {
        self.wanted.iter().any(|(wanted, _)| *wanted == kind)
    }

    fn want(&mut self, kind: SnapshotType, because: String) {
        if !self.wants(kind) {
            self.wanted.push((kind, because));
        }
    }

    fn want_flawless(&mut self, snapshot: Option<&Snapshot>) {
        match snapshot {
            Some(snapshot) => {
                for (kind, flaw) in &snapshot.coherence.flaws {
                    self.want(*kind, flaw.sentence(&[*kind]));
                }
            }
            None => {
                for &kind in self.coherence.upstream.iter().chain(&self.coherence.judged) {
                    self.want(kind, format!("there is no {}", kind.as_str()));
                }
            }
        }
    }

    /// Adds the types that an action needs and that are not fresh; of alternatives the first.
    fn want_fresh(&mut self, action: &str) {
        let rules = self.rules;
        for need in rules.needs(action).unwrap_or_default() {
            let is_fresh = |name: &String| {
                self.recency.get(name).is_some_and(|at| self.limit.is_fresh(at.instant(), self.now))
            };
            if need.alternatives().iter().any(is_fresh) {
                continue;
            }
            let Some(kind) = types_of(need).next() else { continue };
            let because = match self.recency.get(kind.timestamp()) {
                None => format!("{action} needs {}, and there is none", need.alternatives().join(" or ")),
                Some(_) => format!(
                    "{action} needs {} not older than {} minutes",
                    need.alternatives().join(" or "),
                    rules.thresholds().max_staleness_minutes.get()
                ),
            };
            self.want(kind, because);
        }
    }

    /// Adds all that `builder.run` needs if it is fresh and yet too old as a whole.
    fn want_confident(&mut self) {
        let needs = self.rules.needs(BUILDER_RUN.as_str()).unwrap_or_default();
        let freshness = Freshness::of(needs, &self.recency, self.now, self.limit).and_then(Freshness::ratio);
        let least = self.rules.thresholds().min_confidence.get();
        if freshness.is_some_and(|freshness| freshness.get() < least) {
            for kind in needs.iter().filter_map(|need| types_of(need).next()) {
                self.want(kind, format!("the evidence is to be fresh to {least} on the whole"));
            }
        }
    }

    /// Adds what is needed to make the wanted types, and what depends on regenerated evidence.
    fn close(&mut self) {
        let mut done = 0;
        while let Some((kind, _)) = self.wanted.get(done).cloned() {
            done += 1;
            if let Some(action) = self.rules.refreshers(kind.timestamp()).first() {
                self.want_fresh(action.as_str());
            }
            if self.coherence.upstream.contains(&kind) {
                for &judged in &self.coherence.judged {
                    self.want(judged, format!("it has to rest on the new {}", kind.as_str()));
                }
            }
        }
    }

    fn in_order(mut self) -> Vec<NextStep> {
        let mut steps = Vec::with_capacity(self.wanted.len());
        self.wanted.sort_by_key(|(kind, _)| *kind);
        while !self.wanted.is_empty() {
            // Rules with a cycle have no order; then the first is as good as any.
            let next = self.wanted.iter().position(|(kind, _)| !self.waits(*kind)).unwrap_or(0);
            let (kind, because) = self.wanted.remove(next);
            steps.push(NextStep { kind, by: self.rules.refreshers(kind.timestamp()).to_vec(), because });
        }
        steps
    }

    /// Whether another wanted type comes before.
    fn waits(&self, kind: SnapshotType) -> bool {
        let upstream = &self.coherence.upstream;
        let evidence = upstream.iter().take_while(|evidence| **evidence != kind);
        let is_judged = self.coherence.judged.contains(&kind) || upstream.contains(&kind);
        let rests_on_wanted = is_judged && evidence.into_iter().any(|evidence| self.wants(*evidence));
        let action = self.rules.refreshers(kind.timestamp()).first();
        let needs = action.and_then(|action| self.rules.needs(action.as_str())).unwrap_or_default();
        let needs_wanted =
            needs.iter().any(|need| types_of(need).any(|needed| needed != kind && self.wants(needed)));
        rests_on_wanted || needs_wanted
    }
}

/// The types whose timestamps a need names.
fn types_of(need: &Need) -> impl Iterator<Item = SnapshotType> {
    let names = need.alternatives().iter();
    names.filter_map(|name| SnapshotType::ALL.into_iter().find(|kind| kind.timestamp() == name))
}
