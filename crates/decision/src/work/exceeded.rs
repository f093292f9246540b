//! The limit that a run has exceeded: which one, how much was counted, how much is allowed. Owns its one written form (R25), which
//! is what records hold, and reading it back.

use std::fmt;

use super::paths::DeltaClass;

/// A limit of a run that counts something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLimit {
    /// Files that the change touches.
    Files,
    /// Tool operations that the agent reports.
    ToolOps,
    /// Deltas of the change.
    DeltaSize,
    /// Deltas of a class of paths.
    ClassDeltas(DeltaClass),
    /// Tokens that the agent reports.
    Tokens,
    /// Cost that the agent reports.
    Cost,
}

impl RunLimit {
    const ALL: [RunLimit; 9] = [
        RunLimit::Files,
        RunLimit::ToolOps,
        RunLimit::DeltaSize,
        RunLimit::ClassDeltas(DeltaClass::Laws),
        RunLimit::ClassDeltas(DeltaClass::Invariants),
        RunLimit::ClassDeltas(DeltaClass::Projections),
        RunLimit::ClassDeltas(DeltaClass::Others),
        RunLimit::Tokens,
        RunLimit::Cost,
    ];
}

impl fmt::Display for RunLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunLimit::Files => f.write_str("files"),
            RunLimit::ToolOps => f.write_str("tool ops"),
            RunLimit::DeltaSize => f.write_str("delta size"),
            RunLimit::ClassDeltas(class) => write!(f, "delta size of {}", class.letter()),
            RunLimit::Tokens => f.write_str("tokens"),
            RunLimit::Cost => f.write_str("cost"),
        }
    }
}

/// A limit that a run has exceeded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExceededLimit {
    /// Which one.
    pub limit: RunLimit,
    /// How much there was.
    pub counted: f64,
    /// How much is allowed.
    pub allowed: f64,
}

impl ExceededLimit {
    /// The limit, if more was counted than is allowed.
    pub fn check(limit: RunLimit, counted: f64, allowed: f64) -> Option<Self> {
        (counted > allowed).then_some(ExceededLimit { limit, counted, allowed })
    }

    /// The same of two counts; they are compared exactly, and a record holds none that a double cannot hold (R6).
    pub fn check_count(limit: RunLimit, counted: u64, allowed: u64) -> Option<Self> {
        (counted > allowed).then_some(ExceededLimit {
            limit,
            counted: counted as f64,
            allowed: allowed as f64,
        })
    }

    /// Reads the reason of a recorded run; nothing if that is no limit that was exceeded.
    pub fn parse(reason: &str) -> Option<Self> {
        let rest = reason.strip_prefix("Exceeded max ")?;
        let (name, counts) = rest.split_once(": ")?;
        let limit = RunLimit::ALL.into_iter().find(|limit| limit.to_string() == name)?;
        let (counted, allowed) = counts.split_once(" > ")?;
        let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
        let exceeded = ExceededLimit { limit, counted: number(counted)?, allowed: number(allowed)? };
        // What is written otherwise was not written here.
        (exceeded.to_string() == reason).then_some(exceeded)
    }

    /// The reason as people read it: a class of paths by its name instead of the contract's letter.
    pub fn in_words(&self) -> String {
        match self.limit {
            RunLimit::ClassDeltas(class) => {
                let ExceededLimit { counted, allowed, .. } = self;
                format!("Exceeded max delta size of {}: {counted} > {allowed}", class.in_words())
            }
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for ExceededLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExceededLimit { limit, counted, allowed } = self;
        write!(f, "Exceeded max {limit}: {counted} > {allowed}")
    }
}

/// What an agent may report at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReportLimits {
    /// Tool operations.
    pub tool_ops: u64,
    /// Tokens, if they are limited.
    pub tokens: Option<f64>,
    /// Cost in US dollars, if it is limited.
    pub cost_usd: Option<f64>,
}

impl ReportLimits {
    /// The first limit that is exceeded by what an agent reported; what it did not report is nothing.
    pub fn exceeded_by(
        &self,
        tool_ops: u64,
        tokens: Option<f64>,
        cost_usd: Option<f64>,
    ) -> Option<ExceededLimit> {
        let over = |limit, counted: Option<f64>, allowed: Option<f64>| {
            ExceededLimit::check(limit, counted.unwrap_or(0.0), allowed?)
        };
        ExceededLimit::check_count(RunLimit::ToolOps, tool_ops, self.tool_ops)
            .or_else(|| over(RunLimit::Tokens, tokens, self.tokens))
            .or_else(|| over(RunLimit::Cost, cost_usd, self.cost_usd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exceeded_limit_is_read_back_as_it_was_written() {
        for limit in RunLimit::ALL {
            for (counted, allowed) in
                [(1.0, 0.0), (120.0, 100.0), (0.75, 0.5), (9_007_199_254_740_991.0, 1e6)]
            {
                let exceeded = ExceededLimit { limit, counted, allowed };
                assert_eq!(ExceededLimit::parse(&exceeded.to_string()), Some(exceeded));
            }
        }
        let of = |counted, allowed| ExceededLimit::check_count(RunLimit::Files, counted, allowed);
        assert_eq!(of(3, 2).unwrap().to_string(), "Exceeded max files: 3 > 2");
        assert_eq!(of(2, 2), None);
        for other in [
            "",
            "Denied path: a",
            "Exceeded max files: a > b",
            "Exceeded max files: 3.0 > 2",
            "Exceeded max files: 3 > 2; more",
            "Exceeded max files: inf > 2",
            "Exceeded max receipt bytes: 2 > 1",
            "Exceeded a limit of the sandbox: memory",
        ] {
            assert_eq!(ExceededLimit::parse(other).map(|read| read.to_string()), None, "{other}");
        }
    }

    #[test]
    fn a_class_of_changes_is_named_for_people() {
        let in_words = |text| ExceededLimit::parse(text).unwrap().in_words();
        for (recorded, class) in [
            ("Exceeded max delta size of \u{39b}: 2 > 1", "protected paths"),
            ("Exceeded max delta size of Q: 2 > 1", "tests"),
            ("Exceeded max delta size of \u{3a0}: 2 > 1", "generated files"),
            ("Exceeded max delta size of O: 2 > 1", "other files"),
        ] {
            assert_eq!(in_words(recorded), format!("Exceeded max delta size of {class}: 2 > 1"));
        }
        assert_eq!(in_words("Exceeded max delta size: 2 > 1"), "Exceeded max delta size: 2 > 1");
    }

    #[test]
    fn tool_operations_are_judged_before_tokens_and_tokens_before_cost() {
        let limits = ReportLimits { tool_ops: 2, tokens: Some(100.0), cost_usd: Some(0.5) };
        let reason = |tool_ops, tokens, cost_usd| {
            limits.exceeded_by(tool_ops, tokens, cost_usd).map_or_else(String::new, |over| over.to_string())
        };
        assert_eq!(reason(2, Some(100.0), Some(0.5)), "");
        assert_eq!(reason(9, None, None), "Exceeded max tool ops: 9 > 2");
        assert_eq!(reason(3, Some(101.0), Some(1.0)), "Exceeded max tool ops: 3 > 2");
        assert_eq!(reason(2, Some(101.0), Some(1.0)), "Exceeded max tokens: 101 > 100");
        assert_eq!(reason(2, None, Some(0.75)), "Exceeded max cost: 0.75 > 0.5");
        assert_eq!(ReportLimits::default().exceeded_by(0, Some(1e9), Some(1e9)), None);
    }
}
