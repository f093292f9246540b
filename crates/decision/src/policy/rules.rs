//! The rules of the policy: which timestamps each action needs, which actions refresh them, default thresholds.
//! Read from configuration, checked when loaded, with examples that must give their stated result.

use std::collections::BTreeMap;

use crealeph_contracts::agent_input::Coherence;
use crealeph_contracts::contract::Valid;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::{Limits, ObjectWriter};
use crealeph_contracts::policy_input::{PolicyInput, Thresholds};
use crealeph_contracts::policy_output::Decision;
use crealeph_contracts::scalar::{ActionName, Amount, Ratio};
use crealeph_contracts::shape::{Shape, nearest};

use super::evaluate::evaluate;
use crate::coherence::CoherenceRules;
use crate::snapshot::SnapshotType;

/// How many actions rules may know.
const MAX_ACTIONS: usize = 256;
/// How many timestamps an action may need, and how many alternatives one of them may have.
const MAX_NEEDS: usize = 16;

/// One thing an action needs: a fresh timestamp, or any one of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Need(Vec<String>);

impl Need {
    /// Reads `signalsAt`, or `signalsAt|fusionAt` for either.
    pub(super) fn parse(text: &str) -> Option<Need> {
        let names: Vec<String> = text.split('|').map(|name| name.trim().to_owned()).collect();
        let is_good = names.len() <= MAX_NEEDS && names.iter().all(|name| ActionName::parse(name).is_ok());
        is_good.then_some(Need(names))
    }

    pub(super) fn alternatives(&self) -> &[String] {
        &self.0
    }
}

/// Rules as a configuration file has them.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulesSource {
    /// Which types are judged for coherence, and by which evidence.
    #[serde(default)]
    pub coherence: CoherenceRules,
    /// The thresholds for requests that have none.
    #[serde(default)]
    pub thresholds: ThresholdsSource,
    /// What each action needs; the defaults of R23 if absent.
    pub actions: Option<BTreeMap<String, ActionSource>>,
    /// Which actions refresh a timestamp; the defaults if absent.
    pub refresh: Option<BTreeMap<String, Vec<String>>>,
    /// The expected decisions; checked when the rules are loaded.
    #[serde(default)]
    pub examples: Vec<RuleExample>,
}

/// Default thresholds as a configuration file has them.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ThresholdsSource {
    /// The least confidence that allows.
    pub min_confidence: f64,
    /// How old evidence may be, in minutes.
    pub max_staleness_minutes: f64,
    /// How many distinct lineage ids the snapshot must hold.
    pub min_lineage_count: f64,
}

impl Default for ThresholdsSource {
    fn default() -> Self {
        ThresholdsSource { min_confidence: 0.5, max_staleness_minutes: 1440.0, min_lineage_count: 1.0 }
    }
}

/// What one action needs.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionSource {
    /// Timestamps that must be present and fresh; `a|b` for either.
    pub needs: Vec<String>,
}

/// A case that the rules must decide as stated.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleExample {
    /// What it shows.
    pub name: String,
    /// The action requested.
    pub action: Option<String>,
    /// The coherence of the snapshot.
    #[serde(default = "coherent")]
    pub coherence: String,
    /// How old each timestamp is, in minutes.
    #[serde(default)]
    pub ages_minutes: BTreeMap<String, f64>,
    /// How many lineage ids the snapshot holds.
    #[serde(default = "one")]
    pub lineage: usize,
    /// Drafts are allowed.
    #[serde(default)]
    pub allow_draft_only: bool,
    /// The decision that the rules must give.
    pub expect: String,
    /// A rule that must be among the reasons.
    pub rule: Option<String>,
}

fn coherent() -> String {
    "coherent".to_owned()
}

fn one() -> usize {
    1
}

/// Why rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// An invalid name.
    #[error("`{0}` is not a valid name; write 1 to 256 bytes without control characters")]
    BadName(String),
    /// More than rules may hold.
    #[error("{what}: {count} given, at most {limit} are allowed")]
    TooMany {
        /// Of what.
        what: String,
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A threshold out of its range.
    #[error("threshold `{name}` is {value}; {expected}")]
    BadThreshold {
        /// Which.
        name: &'static str,
        /// Its value.
        value: String,
        /// The values that it may have.
        expected: &'static str,
    },
    /// A need that is not a timestamp.
    #[error(
        "`{action}` needs `{name}`, which is not a timestamp; did you mean `{near}`? declare your own timestamps under `refresh`"
    )]
    MisspeltTimestamp {
        /// The action.
        action: String,
        /// What it says.
        name: String,
        /// The timestamp nearest to it.
        near: &'static str,
    },
    /// A refreshing action that has no rule.
    #[error(
        "`{timestamp}` is refreshed by `{action}`, which is not among the actions; add it or correct the name"
    )]
    UnknownRefresher {
        /// The timestamp.
        timestamp: String,
        /// The action.
        action: String,
    },
    /// An example that is not a valid question.
    #[error("example `{name}` is not a valid policy input: {why}")]
    BadExample {
        /// Which.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// An example with another result.
    #[error(
        "example `{name}` expects {expected}, but the rules decide {decided}; fix the rules or the example"
    )]
    ExampleFailed {
        /// Which.
        name: String,
        /// The expected result.
        expected: String,
        /// The actual result.
        decided: String,
    },
}

/// Rules that were checked. [`Rules::default`] is R23; [`Rules::none`] decides nothing and so refuses everything.
#[derive(Clone, Debug)]
pub struct Rules {
    thresholds: Thresholds,
    actions: Vec<(ActionName, Vec<Need>)>,
    refresh: Vec<(String, Vec<ActionName>)>,
}

impl Default for Rules {
    fn default() -> Self {
        #[expect(clippy::expect_used, reason = "the defaults are constants, and a test loads them")]
        Self::build(&RulesSource::default()).expect("the default rules can be used")
    }
}

impl Rules {
    /// No rules at all: every question is answered with `engine.error`.
    pub fn none() -> Self {
        let thresholds = Thresholds {
            min_confidence: Ratio::ONE,
            max_staleness_minutes: Amount::ZERO,
            min_lineage_count: Amount::ZERO,
            further: Vec::new(),
        };
        Rules { thresholds, actions: Vec::new(), refresh: Vec::new() }
    }

    /// The rules of a record, which were checked when they were loaded, by the checks of that time.
    pub(crate) fn recorded(source: &RulesSource) -> Result<Self, RulesError> {
        Self::build(source)
    }

    /// Checks rules and every example in them.
    pub fn load(source: &RulesSource) -> Result<Self, RulesError> {
        let rules = Self::build(source)?;
        rules.check_spelling()?;
        source.examples.iter().try_for_each(|example| rules.check(example))?;
        Ok(rules)
    }

    /// The same rules with other thresholds.
    ///
    /// # Errors
    /// If a threshold is not a valid number.
    pub fn with_thresholds(&self, source: &ThresholdsSource) -> Result<Self, RulesError> {
        Ok(Rules { thresholds: thresholds(source)?, ..self.clone() })
    }

    fn build(source: &RulesSource) -> Result<Self, RulesError> {
        let thresholds = thresholds(&source.thresholds)?;
        let default_actions = default_actions();
        let actions = source.actions.as_ref().unwrap_or(&default_actions);
        let bounded = |what: &str, count: usize, limit: usize| match count <= limit {
            true => Ok(()),
            false => Err(RulesError::TooMany { what: what.to_owned(), count, limit }),
        };
        bounded("actions", actions.len(), MAX_ACTIONS)?;
        let mut checked = Vec::with_capacity(actions.len());
        for (name, ActionSource { needs }) in actions {
            bounded(&format!("needs of `{name}`"), needs.len(), MAX_NEEDS)?;
            let bad_name = |name: &String| RulesError::BadName(name.clone());
            let needs: Result<Vec<Need>, RulesError> =
                needs.iter().map(|need| Need::parse(need).ok_or_else(|| bad_name(need))).collect();
            checked.push((ActionName::parse(name).map_err(|_| bad_name(name))?, needs?));
        }
        let default_refresh = default_refresh();
        let mut refresh = Vec::new();
        for (timestamp, refreshers) in source.refresh.as_ref().unwrap_or(&default_refresh) {
            let known = |action: &String| checked.iter().find(|(name, _)| name.as_str() == action);
            let mut names = Vec::new();
            for action in refreshers {
                match known(action) {
                    Some((name, _)) => names.push(name.clone()),
                    // The default refreshers do not apply if configuration names other actions.
                    None if source.refresh.is_none() => {}
                    None => {
                        let (timestamp, action) = (timestamp.clone(), action.clone());
                        return Err(RulesError::UnknownRefresher { timestamp, action });
                    }
                }
            }
            refresh.push((timestamp.clone(), names));
        }
        Ok(Rules { thresholds, actions: checked, refresh })
    }

    /// A need that is close to an existing timestamp is a misspelling: it would never be met. Others may be further
    /// timestamps of a client (R4).
    fn check_spelling(&self) -> Result<(), RulesError> {
        let known = SnapshotType::ALL.map(SnapshotType::timestamp);
        let declared: Vec<&str> = self.refresh.iter().map(|(timestamp, _)| timestamp.as_str()).collect();
        for (action, needs) in &self.actions {
            for name in needs.iter().flat_map(Need::alternatives) {
                let is_known = known.contains(&name.as_str()) || declared.contains(&name.as_str());
                if let Some(near) = nearest(name, &known).filter(|_| !is_known) {
                    let (action, name) = (action.to_string(), name.clone());
                    return Err(RulesError::MisspeltTimestamp { action, name, near });
                }
            }
        }
        Ok(())
    }

    /// The thresholds for requests that have none.
    pub fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    /// Every action the rules know, sorted.
    pub fn actions(&self) -> impl Iterator<Item = &ActionName> {
        self.actions.iter().map(|(name, _)| name)
    }

    pub(super) fn needs(&self, action: &str) -> Option<&[Need]> {
        self.actions.iter().find(|(name, _)| name.as_str() == action).map(|(_, needs)| needs.as_slice())
    }

    /// The actions that make a timestamp newer.
    pub fn refreshers(&self, timestamp: &str) -> &[ActionName] {
        let found = self.refresh.iter().find(|(name, _)| name == timestamp);
        found.map_or(&[], |(_, actions)| actions.as_slice())
    }

    /// The digest that a record names these rules by.
    pub fn digest(&self) -> Blake3 {
        Blake3::of(self.to_json().as_bytes())
    }

    /// The rules as JSON: thresholds, what each action needs, what refreshes each timestamp.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        let mut object = ObjectWriter::new(&mut out);
        let mut actions = ObjectWriter::new(object.key("actions"));
        for (name, needs) in &self.actions {
            actions.texts(name.as_str(), needs.iter().map(|need| need.alternatives().join("|")));
        }
        actions.end();
        let mut refresh = ObjectWriter::new(object.key("refresh"));
        for (timestamp, refreshers) in &self.refresh {
            refresh.texts(timestamp, refreshers);
        }
        refresh.end();
        self.thresholds.write(object.key("thresholds"));
        object.end();
        out
    }

    fn check(&self, example: &RuleExample) -> Result<(), RulesError> {
        let bad = |why: String| RulesError::BadExample { name: example.name.clone(), why };
        let expected = Decision::parse(&example.expect)
            .ok_or_else(|| bad(format!("`expect` is `{}`; write ALLOW, BLOCK or DEFER", example.expect)))?;
        if Coherence::parse(&example.coherence).is_none() {
            return Err(bad(format!(
                "`coherence` is `{}`; write coherent, partial or stale",
                example.coherence
            )));
        }
        let question = self.question(example);
        let input = Valid::<PolicyInput>::parse(question.as_bytes(), &Limits::default())
            .map_err(|violations| bad(violations.to_string()))?;
        let output = evaluate(&input, self);
        let names: Vec<&str> =
            output.reasons.as_slice().iter().map(|reason| reason.rule_id.as_str()).collect();
        let is_met =
            output.decision == expected && example.rule.as_deref().is_none_or(|rule| names.contains(&rule));
        if is_met {
            return Ok(());
        }
        Err(RulesError::ExampleFailed {
            name: example.name.clone(),
            expected: match &example.rule {
                Some(rule) => format!("{expected} by `{rule}`"),
                None => expected.to_string(),
            },
            decided: format!("{} by `{}`", output.decision, names.join("`, `")),
        })
    }

    /// The example as a PolicyInput, at its own instant.
    fn question(&self, example: &RuleExample) -> String {
        const NOON: i128 = 1_735_732_800_000_000_000;
        let instant = |age_minutes: f64| {
            Instant::from_unix_nanos(NOON.saturating_sub((age_minutes * 60e9) as i128)).to_string()
        };
        let mut out = String::new();
        let mut object = ObjectWriter::new(&mut out);
        object.text("tenantId", "example").text("robotId", "example").text("policyContractVersion", "v1");
        object.text("evaluatedAt", &instant(0.0)).text("snapshotAt", &instant(0.0));
        object.text("coherenceStatus", &example.coherence);
        let ids = (0..example.lineage.min(10_000)).map(|number| format!("entry-{number}"));
        let mut lineage = String::new();
        let mut ids_object = ObjectWriter::new(&mut lineage);
        ids_object.texts("dependsOnLedgerIds", ids);
        ids_object.end();
        object.raw("intelligenceSnapshot", &format!("{{\"lineage\":{lineage}}}"));
        let mut recency = ObjectWriter::new(object.key("ledgerRecency"));
        for (name, age) in &example.ages_minutes {
            recency.text(name, &instant(*age));
        }
        recency.end();
        if let Some(action) = &example.action {
            object.text("requestedAction", action);
        }
        let mut thresholds = ObjectWriter::new(object.key("thresholds"));
        thresholds.number("minConfidence", self.thresholds.min_confidence.get());
        thresholds.number("maxStalenessMinutes", self.thresholds.max_staleness_minutes.get());
        thresholds.number("minLineageCount", self.thresholds.min_lineage_count.get());
        if example.allow_draft_only {
            thresholds.number("allowDraftOnly", 1.0);
        }
        thresholds.end();
        object.end();
        out
    }
}

fn thresholds(source: &ThresholdsSource) -> Result<Thresholds, RulesError> {
    let bad =
        |name, value: f64, expected| RulesError::BadThreshold { name, value: value.to_string(), expected };
    let amount = |name, value| Amount::new(value).ok_or_else(|| bad(name, value, "write a number from 0"));
    let ThresholdsSource { min_confidence, max_staleness_minutes, min_lineage_count } = *source;
    Ok(Thresholds {
        min_confidence: Ratio::new(min_confidence)
            .ok_or_else(|| bad("min_confidence", min_confidence, "write a number from 0 to 1"))?,
        max_staleness_minutes: amount("max_staleness_minutes", max_staleness_minutes)?,
        min_lineage_count: amount("min_lineage_count", min_lineage_count)?,
        further: Vec::new(),
    })
}

/// R23's table.
fn default_actions() -> BTreeMap<String, ActionSource> {
    let table: [(&str, &[&str]); 10] = [
        ("builder.run", &["signalsAt", "fusionAt"]),
        ("robots.run", &[]),
        ("fusion.run", &[]),
        ("competitors.run_insights", &[]),
        ("work.run", &[]),
        ("ideator.run", &["signalsAt|fusionAt"]),
        ("copywriter.run", &["ideaAt", "signalsAt|fusionAt"]),
        ("market_twin.run", &["signalsAt"]),
        ("playbooks.v1.run", &["fusionAt", "ideaAt", "benchmarkAt"]),
        ("playbooks.v2.run", &["fusionAt", "ideaAt", "benchmarkAt"]),
    ];
    let owned = |needs: &[&str]| needs.iter().map(|need| (*need).to_owned()).collect();
    table.into_iter().map(|(name, needs)| (name.to_owned(), ActionSource { needs: owned(needs) })).collect()
}

/// Which action makes which timestamp newer. Signals come from outside: no action makes them.
fn default_refresh() -> BTreeMap<String, Vec<String>> {
    let table: [(&str, &[&str]); 6] = [
        ("signalsAt", &[]),
        ("fusionAt", &["fusion.run"]),
        ("ideaAt", &["ideator.run"]),
        ("copyAt", &["copywriter.run"]),
        ("benchmarkAt", &["competitors.run_insights"]),
        ("playbookAt", &["playbooks.v1.run", "playbooks.v2.run"]),
    ];
    let owned = |actions: &[&str]| actions.iter().map(|action| (*action).to_owned()).collect();
    table.into_iter().map(|(name, actions)| (name.to_owned(), owned(actions))).collect()
}
