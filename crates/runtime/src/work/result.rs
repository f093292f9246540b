//! A RunResult with its item next to it: a value until it is printed or kept. Owns its one written form, the line that a pipe gets and
//! that `result.json` holds.

use std::borrow::Cow;

use crealeph_contracts::RunResult;
use crealeph_contracts::contract::Valid;
use crealeph_contracts::json::{Limits, parse, push_text};
use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::scalar::ItemId;
use crealeph_decision::work::ExceededLimit;

/// How the run of an item ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemResult {
    /// The item.
    pub item: ItemId,
    /// How its run ended.
    pub result: Valid<RunResult>,
}

impl ItemResult {
    /// Whether the change landed.
    pub fn is_success(&self) -> bool {
        self.result.status == RunStatus::Success
    }

    /// The RunResult as one line of JSON, with the item's id as its first member.
    pub fn to_json(&self) -> String {
        let mut text = "{\"id\":".to_owned();
        push_text(&mut text, self.item.as_str());
        text.push(',');
        text.push_str(self.result.to_json().trim_start_matches('{'));
        text
    }

    /// Reads what [`ItemResult::to_json`] wrote.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let limits = Limits::own(usize::MAX);
        let (document, faults) = parse(bytes, &limits);
        let document = document.filter(|_| faults.is_empty())?;
        let id = document.root().member("id")?;
        // The id comes first; what follows it is the RunResult.
        let (_, end) = id.span();
        let rest = document.text().get(end..)?.strip_prefix(',')?;
        let result = Valid::parse(format!("{{{rest}").as_bytes(), &limits).ok()?;
        Some(ItemResult { item: ItemId::parse(&id.string()?).ok()?, result })
    }
}

/// The reason of a recorded run as people read it: a class of changes by its name instead of the contract's letter, which records have.
pub fn reason_in_words(reason: &str) -> Cow<'_, str> {
    ExceededLimit::parse(reason).map_or(Cow::Borrowed(reason), |exceeded| Cow::Owned(exceeded.in_words()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_of_changes_is_named_for_people() {
        for (recorded, shown) in [
            (
                "Exceeded max delta size of \u{39b}: 2 > 1",
                "Exceeded max delta size of protected paths: 2 > 1",
            ),
            ("Exceeded max delta size of Q: 2 > 1", "Exceeded max delta size of tests: 2 > 1"),
            (
                "Exceeded max delta size of \u{3a0}: 2 > 1",
                "Exceeded max delta size of generated files: 2 > 1",
            ),
            ("Exceeded max delta size of O: 2 > 1", "Exceeded max delta size of other files: 2 > 1"),
            ("Exceeded max delta size: 2 > 1", "Exceeded max delta size: 2 > 1"),
            ("Denied path: O: 1", "Denied path: O: 1"),
        ] {
            assert_eq!(reason_in_words(recorded), shown);
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_nothing_else() {
        let hash = "0".repeat(64);
        let line = format!(
            r#"{{"id":"a \"b\"","status":"failure","receipt_id":"01a1e1a7-d5ea-7929-8f1d-8ea291f8a8d6","receipt_path":"/r","modified_files":[],"created_files":[],"deleted_files":[],"output_hash":"{hash}","artifact_hashes":{{}},"metrics":{{"execution_time_ms":1.5,"tool_ops_count":0,"delta_size":0,"files_touched":0}},"error":"no"}}"#
        );
        let read = ItemResult::parse(line.as_bytes()).unwrap();
        assert_eq!((read.item.as_str(), read.is_success()), ("a \"b\"", false));
        assert_eq!(read.to_json(), line);
        let other = [
            line.replace("\"error\":\"no\"", "\"other\":1"),
            line.replace("failure", "success"),
            line.replace("\"id\":", "\"item\":"),
            line.replace("{\"id\":\"a \\\"b\\\"\",", "{").replace("\"no\"", "\"no\",\"id\":\"a\""),
            line.replace('}', ""),
            String::new(),
        ];
        for text in other {
            assert_eq!(ItemResult::parse(text.as_bytes()), None, "{text}");
        }
    }
}
