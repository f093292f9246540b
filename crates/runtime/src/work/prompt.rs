//! The prompt of an agent: a template with fields of the work item in braces. Owns the list of fields; refuses a template
//! with an unknown field when it is loaded.

use crealeph_contracts::WorkItem;
use crealeph_contracts::shape::nearest;

const FIELDS: &[&str] = &[
    "id",
    "agent_id",
    "description",
    "dependencies",
    "max_files",
    "max_tool_ops",
    "max_delta_size",
    "timeout_ms",
    "time_estimate_ms",
    "complexity",
    "input_files",
    "output_files",
    "test_command",
];

/// A checked template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prompt(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(&'static str),
}

impl Prompt {
    /// Reads a template; `{{` and `}}` stand for braces.
    pub(super) fn parse(template: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = template;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, after) = rest.split_at(at);
            text.push_str(before);
            if let Some(after) = after.strip_prefix("{{").or_else(|| after.strip_prefix("}}")) {
                text.push_str(after_brace(rest, at));
                rest = after;
                continue;
            }
            let named = after.strip_prefix('{').and_then(|after| after.split_once('}'));
            let Some((name, after)) = named else {
                return Err("`prompt` has a single brace; write `{{` or `}}` for one".to_owned());
            };
            let field =
                FIELDS.iter().find(|field| **field == name).ok_or_else(|| match nearest(name, FIELDS) {
                    Some(near) => format!(
                        "`prompt` names `{{{name}}}`, which no work item has; did you mean `{{{near}}}`?"
                    ),
                    None => format!(
                        "`prompt` names `{{{name}}}`, which no work item has; the fields are {}",
                        FIELDS.join(", ")
                    ),
                })?;
            parts.push(Part::Text(std::mem::take(&mut text)));
            parts.push(Part::Field(field));
            rest = after;
        }
        text.push_str(rest);
        parts.push(Part::Text(text));
        Ok(Prompt(parts))
    }

    /// The prompt for an item.
    pub(super) fn fill(&self, item: &WorkItem) -> String {
        let parts = self.0.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Field(name) => field(name, item),
        });
        parts.collect()
    }
}

fn after_brace(text: &str, at: usize) -> &str {
    text.get(at..at + 1).unwrap_or_default()
}

fn field(name: &str, item: &WorkItem) -> String {
    let bounds = item.bounds();
    let files =
        |files: &Option<crealeph_contracts::shape::List<crealeph_contracts::work_item::WorkspacePath>>| {
            let files = files.as_ref().map_or(&[][..], |files| files.as_slice());
            files.iter().map(|path| path.as_str()).collect::<Vec<_>>().join("\n")
        };
    match name {
        "id" => item.id.to_string(),
        "agent_id" => item.agent_id.to_string(),
        "description" => item.description.to_string(),
        "dependencies" => {
            item.dependencies.as_slice().iter().map(|id| id.as_str()).collect::<Vec<_>>().join("\n")
        }
        "max_files" => bounds.max_files.to_string(),
        "max_tool_ops" => bounds.max_tool_ops.to_string(),
        "max_delta_size" => bounds.max_delta_size.to_string(),
        "timeout_ms" => bounds.timeout_ms.to_string(),
        "time_estimate_ms" => item.budget.time_estimate_ms.get().to_string(),
        "complexity" => item.budget.complexity.to_string(),
        "input_files" => files(&item.input_files),
        "output_files" => files(&item.output_files),
        _ => item.test_command.as_deref().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crealeph_contracts::Valid;
    use crealeph_contracts::json::Limits;

    #[test]
    fn fields_are_filled_in_and_braces_can_be_written() {
        let item = r#"{"id":"i","agent_id":"agent-1","description":"fix {it}","dependencies":[],"budget":{"time_estimate_ms":1,"complexity":"low"},"output_files":["a","b"]}"#;
        let item = Valid::<WorkItem>::parse(item.as_bytes(), &Limits::default()).unwrap();
        let prompt =
            Prompt::parse("{{{id}}}: {description} within {max_files} files:\n{output_files}").unwrap();
        assert_eq!(prompt.fill(&item), "{i}: fix {it} within 10 files:\na\nb");
    }

    #[test]
    fn an_unknown_field_names_the_nearest() {
        assert!(Prompt::parse("{descripton}").unwrap_err().contains("`{description}`"));
        assert!(Prompt::parse("a { b").unwrap_err().contains("single brace"));
        assert!(Prompt::parse("a } b").unwrap_err().contains("single brace"));
    }
}
