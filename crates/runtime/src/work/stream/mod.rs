//! The event streams of known agents, read line by line into the same trace that the trace channel is read into (R27).
//! Pure: a line and what was read so far give what is reported. A line that is not understood reports nothing, because these
//! streams change with every version of an agent; one too deep to read (R3) counts as a tool call.

mod claude;
mod codex;

use std::borrow::Cow;

use crealeph_contracts::json::{Limits, Node, parse};
use crealeph_contracts::violation::Code;

use super::trace::{MAX_LINE_BYTES, TraceReport};

/// Whose stream it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Claude Code's `--output-format stream-json`.
    Claude,
    /// `codex exec --json`.
    Codex,
}

impl Format {
    /// Every format, by name.
    pub(super) const ALL: [(&'static str, Self); 2] = [("claude", Self::Claude), ("codex", Self::Codex)];
}

/// Reads one stream.
#[derive(Debug)]
pub(super) enum Reader {
    /// Of Claude Code.
    Claude(claude::Stream),
    /// Of Codex.
    Codex(codex::Stream),
}

impl Reader {
    /// A reader at the start of a stream.
    pub(super) fn new(format: Format) -> Self {
        match format {
            Format::Claude => Reader::Claude(claude::Stream::default()),
            Format::Codex => Reader::Codex(codex::Stream::default()),
        }
    }

    /// What one more line reports.
    pub(super) fn line(&mut self, line: &str) -> Vec<TraceReport> {
        let (document, faults) = parse(line.as_bytes(), &Limits::outside(MAX_LINE_BYTES));
        let Some(document) = document else {
            let is_too_deep = line.starts_with('{') && faults.iter().any(|fault| fault.code == Code::TooDeep);
            return is_too_deep.then(TraceReport::unknown).into_iter().collect();
        };
        let (event, is_sound) = (document.root(), faults.is_empty());
        match self {
            Reader::Claude(stream) => stream.event(event, is_sound),
            Reader::Codex(stream) => stream.event(event, is_sound),
        }
    }
}

/// What a line of an agent's output says to a person: itself, or the text in an event of a stream; nothing if the event has none.
pub(super) fn spoken(line: &str) -> Option<String> {
    let (document, _) = parse(line.as_bytes(), &Limits::outside(MAX_LINE_BYTES));
    let event =
        document.as_ref().map(|document| document.root()).filter(|event| event.member("type").is_some());
    let Some(event) = event else { return Some(line.to_owned()).filter(|line| !line.trim().is_empty()) };
    let said = match &*text(event, "type") {
        "result" => text(event, "result").into_owned(),
        "assistant" => {
            let content = event.member("message").and_then(|message| message.member("content"));
            let texts =
                content.into_iter().flat_map(Node::elements).map(|part| text(part, "text").into_owned());
            texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
        }
        "item.completed" => event.member("item").map_or_else(String::new, |item| {
            let key = if text(item, "type") == "error" { "message" } else { "text" };
            text(item, key).into_owned()
        }),
        "turn.failed" => {
            event.member("error").map_or_else(String::new, |error| text(error, "message").into_owned())
        }
        "error" => text(event, "message").into_owned(),
        _ => String::new(),
    };
    Some(said).filter(|said| !said.trim().is_empty())
}

/// A total that grows, reported as what it grew by.
#[derive(Clone, Copy, Debug, Default)]
struct Growing(f64);

impl Growing {
    /// What was added since the last time, if anything.
    fn to(&mut self, total: f64) -> Option<f64> {
        let more = total - self.0;
        (more.is_finite() && more > 0.0).then(|| {
            self.0 = total;
            more
        })
    }
}

/// The sum of the numbers under some keys.
fn sum(value: Node<'_>, keys: &[&str]) -> f64 {
    let numbers = keys.iter().filter_map(|key| value.member(key)?.number());
    numbers.filter(|number| number.is_finite() && *number >= 0.0).sum()
}

/// The text under a key, or an empty one: an event without it reports nothing.
fn text<'v>(value: Node<'v>, key: &str) -> Cow<'v, str> {
    value.member(key).map_or(Cow::Borrowed(""), Node::text_value)
}

#[cfg(test)]
mod tests {
    use super::super::trace::Trace;
    use super::*;

    /// A stream as the agent wrote it, shortened.
    fn trace(format: Format, lines: &[&str]) -> Trace {
        let (mut reader, mut trace) = (Reader::new(format), Trace::default());
        lines.iter().flat_map(|line| reader.line(line)).for_each(|reported| trace.add(reported));
        trace
    }

    /// The calls as a receipt has them.
    fn tools(trace: &Trace) -> Vec<(&str, String)> {
        let input = |call: &crealeph_contracts::receipt::ToolCall| {
            call.input.as_ref().map_or(String::new(), |input| input.canonical())
        };
        trace.calls.iter().map(|call| (call.tool.as_str(), input(call))).collect()
    }

    #[test]
    fn claude_reports_tools_tokens_as_they_come_and_the_cost_at_the_end() {
        let lines = [
            r#"{"type":"system","subtype":"init","tools":["Bash"],"model":"claude-one"}"#,
            r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"I will."},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}],"usage":{"input_tokens":100,"cache_read_input_tokens":50,"output_tokens":1}}}"#,
            r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t2","name":"Edit","input":{"file_path":"a"}}],"usage":{"input_tokens":100,"cache_read_input_tokens":50,"output_tokens":7}}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1"}]}}"#,
            r#"{"type":"assistant","message":{"id":"m2","model":"claude-two","content":[{"type":"text","text":"Done."}],"usage":{"input_tokens":200,"output_tokens":1}}}"#,
        ];
        let running = trace(Format::Claude, &lines);
        let expected = [("Bash", r#"{"command":"ls"}"#), ("Edit", r#"{"file_path":"a"}"#)];
        assert_eq!(tools(&running), expected.map(|(tool, input)| (tool, input.to_owned())));
        assert_eq!((running.tokens, running.cost_usd), (Some(358.0), None));
        let models: Vec<&str> = running.models.iter().map(|model| model.as_str()).collect();
        assert_eq!(models, ["claude-one", "claude-two"]);
        let end = r#"{"type":"result","total_cost_usd":0.5,"usage":{"input_tokens":300,"cache_read_input_tokens":50,"output_tokens":25},"modelUsage":{"a":{"inputTokens":300,"outputTokens":25,"cacheReadInputTokens":50},"b":{"inputTokens":9,"outputTokens":1}}}"#;
        let all: Vec<&str> = lines.into_iter().chain([end, "not json", "[]", r#"{"type":"new"}"#]).collect();
        let ended = trace(Format::Claude, &all);
        assert_eq!((ended.count, ended.tokens, ended.cost_usd), (2, Some(385.0), Some(0.5)));
    }

    #[test]
    fn codex_reports_each_item_once_and_tokens_by_turn() {
        let lines = [
            r#"{"type":"thread.started","thread_id":"x"}"#,
            r#"{"type":"item.completed","item":{"id":"i0","type":"error","message":"no metadata"}}"#,
            r#"{"type":"item.completed","item":{"id":"i1","type":"reasoning","text":"hm"}}"#,
            r#"{"type":"item.started","item":{"id":"i2","type":"command_execution","command":"ls","aggregated_output":"","exit_code":null,"status":"in_progress"}}"#,
            r#"{"type":"item.completed","item":{"id":"i2","type":"command_execution","command":"ls","aggregated_output":"a\n","exit_code":0,"status":"completed"}}"#,
            r#"{"type":"item.completed","item":{"id":"i3","type":"file_change","changes":[{"path":"a","kind":"add"}],"status":"completed"}}"#,
            r#"{"type":"item.started","item":{"id":"i4","type":"mcp_tool_call","server":"s","tool":"t","arguments":{"q":1},"status":"in_progress"}}"#,
            r#"{"type":"item.completed","item":{"id":"i5","type":"agent_message","text":"Done."}}"#,
            r#"{"type":"turn.completed","usage":{"input_tokens":200,"cached_input_tokens":20,"output_tokens":40,"reasoning_output_tokens":5}}"#,
        ];
        let trace = trace(Format::Codex, &lines);
        let expected = [
            ("command_execution", r#"{"command":"ls"}"#),
            ("file_change", r#"{"changes":[{"kind":"add","path":"a"}]}"#),
            ("s.t", r#"{"arguments":{"q":1}}"#),
        ];
        assert_eq!(tools(&trace), expected.map(|(tool, input)| (tool, input.to_owned())));
        assert_eq!((trace.tokens, trace.cost_usd), (Some(240.0), None));
    }
    #[test]
    fn a_line_as_deep_as_allowed_is_kept_whole_and_a_deeper_one_counts() {
        // How deep a line is without what is at `@`.
        let lines = [
            (
                Format::Claude,
                4,
                r#"{"type":"assistant","message":{"content":[{"type":"tool_use","name":"t","input":@}]}}"#,
            ),
            (Format::Codex, 2, r#"{"type":"item.started","item":{"id":"i","type":"t","arguments":@}}"#),
        ];
        for (format, around, line) in lines {
            for depth in [126, 127, 128] {
                let given = nested(depth - around);
                let trace = trace(format, &[&line.replace('@', &given)]);
                assert_eq!((trace.count, trace.calls[0].tool.as_str()), (1, "t"), "{depth}");
                assert!(trace.calls[0].input.as_ref().unwrap().as_str().contains(&given), "{depth}");
            }
            let trace = trace(format, &[&line.replace('@', &nested(129 - around))]);
            assert_eq!((trace.count, trace.calls[0].tool.as_str()), (1, "unknown"));
        }
    }

    fn nested(depth: usize) -> String {
        format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth))
    }
}
