//! Admission (agent-run, R25, R27–R29): whether the actual change of a run stays within its limits. The first rule
//! that fails is the reason, in the contract's wording.

use std::collections::BTreeSet;
use std::fmt;

use crealeph_contracts::WorkItem;
use crealeph_contracts::contract::to_json;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::{Count, TimeoutMs};
use crealeph_contracts::work_item::{Bounds, Constraints};

use super::ending::{Ending, denied_path};
use super::exceeded::{ExceededLimit, RunLimit};
use super::paths::{DeltaClass, PathRules, led_to};

/// How many deltas of each class a run has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeltaCounts {
    /// O.
    pub others: u64,
    /// Π.
    pub projections: u64,
    /// Λ.
    pub laws: u64,
    /// Q.
    pub invariants: u64,
}

impl DeltaCounts {
    /// The delta size: their sum.
    pub fn size(&self) -> u64 {
        [self.others, self.projections, self.laws, self.invariants].into_iter().fold(0, u64::saturating_add)
    }

    /// Counts so many more of a class.
    pub fn add(&mut self, class: DeltaClass, count: u64) {
        let place = match class {
            DeltaClass::Laws => &mut self.laws,
            DeltaClass::Invariants => &mut self.invariants,
            DeltaClass::Projections => &mut self.projections,
            DeltaClass::Others => &mut self.others,
        };
        *place = place.saturating_add(count);
    }

    fn of(&self, class: DeltaClass) -> u64 {
        match class {
            DeltaClass::Laws => self.laws,
            DeltaClass::Invariants => self.invariants,
            DeltaClass::Projections => self.projections,
            DeltaClass::Others => self.others,
        }
    }
}

/// What a run did, as far as admission needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgedChange {
    /// The paths that changed; a path that is listed twice counts once.
    pub paths: Vec<String>,
    /// The new and changed links, with their targets as written.
    pub links: Vec<(String, String)>,
    /// How many tool operations were reported.
    pub tool_ops: u64,
    /// The deltas.
    pub deltas: DeltaCounts,
}

/// Why a run is denied: the contract's wording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    reason: String,
    is_duplicate: bool,
}

impl Denial {
    fn over_bound(reason: String) -> Self {
        Denial { reason, is_duplicate: false }
    }

    /// The reason.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// How the run ends. Other limits could admit it, unless it repeats a success.
    pub fn into_ending(self) -> Ending {
        match self.is_duplicate {
            true => Ending::Denied(self.reason),
            false => Ending::OverBound(self.reason),
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Denial {}

/// Admits a run, or says by which rule it is denied. `rules` are the configuration's; `earlier` is the receipt of a
/// successful run with the same run hash, if there is one.
pub fn admit(
    capsule: &JudgedChange,
    bounds: &Bounds,
    rules: Option<&PathRules>,
    earlier: Option<&str>,
) -> Result<(), Denial> {
    let within = |limit, counted, allowed| match ExceededLimit::check_count(limit, counted, allowed) {
        None => Ok(()),
        Some(exceeded) => Err(Denial::over_bound(exceeded.to_string())),
    };
    let touched: BTreeSet<&str> =
        capsule.paths.iter().map(String::as_str).filter(|path| !path.is_empty()).collect();
    within(RunLimit::Files, touched.len() as u64, bounds.max_files)?;
    within(RunLimit::ToolOps, capsule.tool_ops, bounds.max_tool_ops)?;
    within(RunLimit::DeltaSize, capsule.deltas.size(), bounds.max_delta_size)?;
    if let Some(rules) = rules {
        if let Some(denied) = touched.iter().find(|path| !rules.permits(path)) {
            return Err(Denial::over_bound(denied_path(denied)));
        }
        let led = |(link, target): &&(String, String)| {
            led_to(link, target).is_some_and(|led_to| rules.denies(&led_to))
        };
        if let Some((link, target)) = capsule.links.iter().find(led) {
            return Err(Denial::over_bound(denied_path(&format!("{link} (a link to {target})"))));
        }
        for (class, limit) in rules.limits() {
            within(RunLimit::ClassDeltas(class), capsule.deltas.of(class), limit)?;
        }
    }
    match earlier {
        Some(receipt) => Err(Denial { reason: format!("Duplicate run: {receipt}"), is_duplicate: true }),
        None => Ok(()),
    }
}

/// The run hash (R29): the BLAKE3 of the canonical `{after, before, workItem}`, defaults filled in.
pub fn run_hash(before: &Blake3, after: &Blake3, item: &WorkItem) -> Blake3 {
    let bounds = item.bounds();
    let mut item = item.clone();
    item.constraints = Some(Constraints {
        max_files: Count::new(bounds.max_files),
        max_tool_ops: Count::new(bounds.max_tool_ops),
        max_delta_size: Count::new(bounds.max_delta_size),
        timeout_ms: TimeoutMs::new(bounds.timeout_ms),
    });
    let run = JsonObject::compose("the run", |object| {
        object.text("after", &after.to_string()).text("before", &before.to_string());
        object.raw("workItem", &to_json(&item));
    });
    #[expect(
        clippy::expect_used,
        reason = "a work item is closed (R4): nothing in it can nest or repeat a key"
    )]
    Blake3::of(run.expect("a work item can be read back").canonical().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::PathRulesSource;
    use crealeph_contracts::Valid;
    use crealeph_contracts::json::Limits;

    const BOUNDS: Bounds = Bounds { max_files: 2, max_tool_ops: 3, max_delta_size: 4, timeout_ms: 1 };

    fn capsule(paths: &[&str], tool_ops: u64, deltas: DeltaCounts) -> JudgedChange {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        JudgedChange { paths, links: Vec::new(), tool_ops, deltas }
    }

    fn verdict(capsule: &JudgedChange, rules: Option<&PathRules>, earlier: Option<&str>) -> String {
        admit(capsule, &BOUNDS, rules, earlier)
            .map_or_else(|denial| denial.to_string(), |()| "admitted".to_owned())
    }

    #[test]
    fn the_contracts_rules_in_their_order_and_wording() {
        let one_of_each = DeltaCounts { others: 1, projections: 1, laws: 1, invariants: 1 };
        let at_the_limit = capsule(&["a", "a", "b", ""], 3, one_of_each);
        assert_eq!(verdict(&at_the_limit, None, None), "admitted");
        let too_large = DeltaCounts { invariants: 2, ..one_of_each };
        assert_eq!(
            verdict(&capsule(&["a", "b", "c"], 9, too_large), None, Some("r")),
            "Exceeded max files: 3 > 2"
        );
        assert_eq!(verdict(&capsule(&["a"], 4, too_large), None, Some("r")), "Exceeded max tool ops: 4 > 3");
        assert_eq!(
            verdict(&capsule(&["a"], 3, too_large), None, Some("r")),
            "Exceeded max delta size: 5 > 4"
        );
        assert_eq!(verdict(&at_the_limit, None, Some("r-1")), "Duplicate run: r-1");
    }

    #[test]
    fn the_configurations_rules_come_after() {
        let rules =
            PathRules::load(&PathRulesSource { max_others: Some(1), ..PathRulesSource::default() }).unwrap();
        let ci = capsule(&["src/a.rs", ".github/ci.yml"], 0, DeltaCounts::default());
        assert_eq!(verdict(&ci, Some(&rules), None), "Denied path: .github/ci.yml");
        let many = capsule(&["src/a.rs"], 0, DeltaCounts { others: 2, ..DeltaCounts::default() });
        assert_eq!(verdict(&many, Some(&rules), Some("r")), "Exceeded max delta size of O: 2 > 1");
        assert_eq!(
            verdict(&capsule(&["src/a.rs"], 0, DeltaCounts::default()), Some(&rules), None),
            "admitted"
        );
    }

    #[test]
    fn the_run_hash_knows_defaults_and_not_the_order_of_keys() {
        let hash = |text: &str, after: &str| {
            let item = Valid::<WorkItem>::parse(text.as_bytes(), &Limits::default()).unwrap();
            run_hash(&Blake3::of(b"before"), &Blake3::of(after.as_bytes()), &item)
        };
        let short = r#"{"id":"i","agent_id":"agent-1","description":"","dependencies":["b","a","b"],"budget":{"time_estimate_ms":1,"complexity":"low"}}"#;
        let long = r#"{"constraints":{"timeout_ms":300000,"max_files":10.0},"budget":{"complexity":"low","time_estimate_ms":1e0},"dependencies":["a","b"],"description":"","agent_id":"agent-1","id":"i"}"#;
        assert_eq!(hash(short, "after"), hash(long, "after"));
        assert_ne!(hash(short, "after"), hash(short, "before"));
        assert_ne!(hash(short, "after"), hash(&short.replace("agent-1", "agent-2"), "after"));
    }
}
