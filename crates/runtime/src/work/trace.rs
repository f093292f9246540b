//! What an agent reports while it works (R27): tool calls, tokens and cost, as JSON lines. Owns the meaning of a line and
//! the limits on what is kept; a line that cannot be read still counts as a tool operation.
//!
//! A line is an object with `tool` (or `name`), and if it has them `input`, `at`, `tokens_used`, `cost_usd` and `model`. One with
//! only `tokens_used`, `cost_usd` or `model` says what was used since the last such line.

use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::json::{JsonObject, Limits, Node, NodeKind, parse};
use crealeph_contracts::receipt::ToolCall;
use crealeph_contracts::scalar::{Literal, Name};
use crealeph_decision::work::{ExceededLimit, ReportLimits};

const UNKNOWN: Literal = Literal::new("unknown");
/// What a line may say that is not a tool call.
const USAGE: [&str; 3] = ["tokens_used", "cost_usd", "model"];
/// The longest line that is kept; the rest of a longer one is left out.
pub(super) const MAX_LINE_BYTES: usize = 1 << 20;
/// The largest input of a tool call that is kept.
const MAX_INPUT_BYTES: usize = 16 << 10;
/// How much of all inputs together is kept.
const MAX_INPUTS_BYTES: usize = 256 << 10;
/// How many models are kept.
const MAX_MODELS: usize = 8;
/// How many tool calls are kept; all are counted.
const MAX_CALLS: usize = 10_000;

/// One thing that was reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TraceReport {
    /// A tool call, if it is one.
    pub(super) call: Option<ToolCall>,
    /// How many tokens more were used.
    pub(super) tokens: Option<f64>,
    /// How many dollars more were spent.
    pub(super) cost_usd: Option<f64>,
    /// The model that is used.
    pub(super) model: Option<Name>,
}

/// What was reported so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    /// The calls, the first ten thousand.
    pub(super) calls: Vec<ToolCall>,
    /// How many there were.
    pub(super) count: u64,
    /// Tokens, if any were reported.
    pub(super) tokens: Option<f64>,
    /// Dollars, if any were reported.
    pub(super) cost_usd: Option<f64>,
    /// The models, the first few, in the order of their first use.
    pub(super) models: Vec<Name>,
    /// How much the kept inputs are together.
    pub(super) kept_bytes: usize,
}

impl TraceReport {
    /// A call of a tool; one whose name cannot be read is `unknown`.
    pub(super) fn call(tool: &str, input: Option<JsonObject>) -> Self {
        let tool = Name::parse(tool).unwrap_or_else(|_| UNKNOWN.into());
        let call = Some(ToolCall { at: None, tool, input });
        TraceReport { call, ..TraceReport::default() }
    }

    /// Something that was done and cannot be read.
    pub(super) fn unknown() -> Self {
        TraceReport::call(UNKNOWN.as_str(), None)
    }

    /// What was used, if anything.
    pub(super) fn usage(tokens: Option<f64>, cost_usd: Option<f64>) -> Option<Self> {
        let report = TraceReport { tokens, cost_usd, ..TraceReport::default() };
        (tokens.is_some() || cost_usd.is_some()).then_some(report)
    }

    /// The model that is used; nothing if its name cannot be one.
    pub(super) fn model(name: &str) -> Option<Self> {
        let model = Some(Name::parse(name).ok()?);
        Some(TraceReport { model, ..TraceReport::default() })
    }
}

impl Trace {
    /// The first limit that these reports exceed.
    pub(super) fn exceeded(&self, limits: &ReportLimits) -> Option<ExceededLimit> {
        limits.exceeded_by(self.count, self.tokens, self.cost_usd)
    }

    /// Takes one more report.
    pub(super) fn add(&mut self, reported: TraceReport) {
        if let Some(mut call) = reported.call {
            self.count += 1;
            let bytes = call.input.as_ref().map_or(0, |input| input.as_str().len());
            match self.kept_bytes + bytes <= MAX_INPUTS_BYTES {
                true => self.kept_bytes += bytes,
                false => call.input = Some(left_out(bytes)),
            }
            if self.calls.len() < MAX_CALLS {
                self.calls.push(call);
            }
        }
        let add = |sum: &mut Option<f64>, more: Option<f64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0.0) + more);
            }
        };
        add(&mut self.tokens, reported.tokens);
        add(&mut self.cost_usd, reported.cost_usd);
        let model = reported.model.filter(|model| !self.models.contains(model));
        self.models.extend(model.filter(|_| self.models.len() < MAX_MODELS));
    }
}

/// Bytes on their way to lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pending: Vec<u8>,
}

impl Lines {
    /// Takes bytes as they come, and hands on every line that is complete.
    pub(super) fn push(&mut self, bytes: &[u8], mut line: impl FnMut(&str)) {
        for chunk in bytes.split_inclusive(|byte| *byte == b'\n') {
            let free = MAX_LINE_BYTES.saturating_sub(self.pending.len());
            self.pending.extend_from_slice(chunk.get(..chunk.len().min(free)).unwrap_or_default());
            if chunk.ends_with(b"\n") {
                self.end(&mut line);
            }
        }
    }

    /// Hands on what is left when there is no more.
    pub(super) fn end(&mut self, mut line: impl FnMut(&str)) {
        let bytes = std::mem::take(&mut self.pending);
        let text = String::from_utf8_lossy(&bytes);
        if !text.trim().is_empty() {
            line(text.trim());
        }
    }
}

/// Reads a line of the trace channel.
pub(super) fn read_line(line: &str) -> TraceReport {
    let (document, faults) = parse(line.as_bytes(), &Limits::outside(MAX_LINE_BYTES));
    let Some(document) = document.filter(|document| document.root().kind() == NodeKind::Object) else {
        return TraceReport::unknown();
    };
    let root = document.root();
    let amount = |key: &str| {
        root.member(key).and_then(Node::number).filter(|value| value.is_finite() && *value >= 0.0)
    };
    let (tokens, cost_usd) = (amount("tokens_used"), amount("cost_usd"));
    let mut keys = root.members().map(|(key, _)| key.text_value()).peekable();
    let is_empty = keys.peek().is_none();
    let is_usage_alone = keys.all(|key| USAGE.contains(&&*key));
    let call = (!is_usage_alone || is_empty).then(|| call(root, faults.is_empty()));
    let model = root.member("model").and_then(Node::string).and_then(|name| Name::parse(&name).ok());
    TraceReport { call, tokens, cost_usd, model }
}

/// The call that a line reports.
fn call(line: Node<'_>, is_sound: bool) -> ToolCall {
    let text = |key: &str| line.member(key).and_then(Node::string);
    let tool = text("tool").or_else(|| text("name")).and_then(|name| Name::parse(&name).ok());
    ToolCall {
        at: text("at").and_then(|at| Timestamp::parse(&at).ok()),
        tool: tool.unwrap_or_else(|| UNKNOWN.into()),
        input: line.member("input").map(|value| input(value, is_sound)),
    }
}

/// The input of a call as a receipt can hold it: an object, within a bound. If the line is not I-JSON, only its size is kept.
pub(super) fn input(value: Node<'_>, is_sound: bool) -> JsonObject {
    match (value.kind(), is_sound) {
        (NodeKind::Object, true) => kept(value.source()),
        (_, true) => kept(&format!("{{\"value\":{}}}", value.source())),
        (_, false) => left_out(value.source().len()),
    }
}

/// The same for an input that is put together from members of a line.
pub(super) fn input_of<'n>(
    members: impl Iterator<Item = (Node<'n>, Node<'n>)>,
    is_sound: bool,
) -> JsonObject {
    let members: Vec<String> =
        members.map(|(key, value)| format!("{}:{}", key.source(), value.source())).collect();
    let text = format!("{{{}}}", members.join(","));
    if is_sound { kept(&text) } else { left_out(text.len()) }
}

fn kept(text: &str) -> JsonObject {
    let kept = Some(text).filter(|text| text.len() <= MAX_INPUT_BYTES).and_then(JsonObject::parse);
    kept.unwrap_or_else(|| left_out(text.len()))
}

/// What stands for an input that is too large to be kept.
fn left_out(bytes: usize) -> JsonObject {
    JsonObject::build(|object| {
        object.integer("leftOutBytes", bytes as u64);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(text: &str) -> Trace {
        let (mut trace, mut lines) = (Trace::default(), Lines::default());
        // In small pieces, as a pipe may deliver them.
        for piece in text.as_bytes().chunks(7) {
            lines.push(piece, |line| trace.add(read_line(line)));
        }
        lines.end(|line| trace.add(read_line(line)));
        trace
    }

    #[test]
    fn tool_calls_tokens_and_cost_are_distinguished() {
        let trace = trace(
            "{\"tool\":\"Edit\",\"input\":{\"path\":\"a\"}}\n\n{\"name\":\"Bash\",\"input\":\"ls\",\"tokens_used\":5}\n\
             {\"tokens_used\":7,\"cost_usd\":0.5}\n{\"cost_usd\":0.25}\nnot json\n{\"tool\":\"Last\"}\n\
             {\"model\":\"one\"}\n{\"model\":\"two\",\"tokens_used\":0}\n{\"model\":\"one\"}\n{\"model\":\" \"}",
        );
        assert_eq!(trace.models.iter().map(Name::as_str).collect::<Vec<_>>(), ["one", "two"]);
        let tools: Vec<&str> = trace.calls.iter().map(|call| call.tool.as_str()).collect();
        assert_eq!(tools, ["Edit", "Bash", "unknown", "Last"]);
        assert_eq!((trace.count, trace.tokens, trace.cost_usd), (4, Some(12.0), Some(0.75)));
        assert_eq!(trace.calls[1].input.as_ref().unwrap().as_str(), r#"{"value":"ls"}"#);
    }

    #[test]
    fn what_is_too_large_is_left_out_and_still_counts() {
        let long =
            format!("{{\"tool\":\"Write\",\"input\":{{\"text\":\"{}\"}}}}\n", "x".repeat(MAX_INPUT_BYTES));
        let huge = format!("{{\"tool\":\"Write\",\"input\":\"{}\"}}\n", "x".repeat(MAX_LINE_BYTES));
        let trace = trace(&(long + &huge));
        assert_eq!(trace.count, 2);
        assert!(trace.calls[0].input.as_ref().unwrap().as_str().contains("leftOutBytes"));
        assert_eq!(trace.calls[1].tool.as_str(), "unknown");
    }
}
