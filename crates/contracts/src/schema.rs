//! JSON Schema 2020-12, built from the shapes; the validators check what a schema cannot express.

use serde_json::{Map, Value, json};

/// The characters of Unicode White_Space, as written in a regular expression's class.
const WHITE_SPACE: &str =
    "\t-\r \u{85}\u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}";
/// Control characters (Cc), written the same way.
const CONTROL: &str = "\u{0}-\u{1f}\u{7f}-\u{9f}";

pub(crate) struct Field {
    pub(crate) key: &'static str,
    pub(crate) about: &'static str,
    pub(crate) is_optional: bool,
    pub(crate) schema: Value,
}

/// The schema of an object whose keys are listed and closed (R4).
pub(crate) fn closed_object<const N: usize>(about: &str, fields: [Field; N]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for Field { key, about, is_optional, schema } in fields {
        if !is_optional {
            required.push(Value::from(key));
        }
        properties.insert(key.to_owned(), described(schema, about));
    }
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        insert(&mut schema, "required", Value::from(required));
    }
    described(schema, about)
}

/// The schema of an object that takes any keys.
pub(crate) fn open_object() -> Value {
    json!({ "type": "object" })
}

/// The schema of a word of a list.
pub(crate) fn one_of_words(words: &[&str]) -> Value {
    match words {
        [word] => json!({ "const": word }),
        _ => json!({ "enum": words }),
    }
}

/// The schema of a non-empty string (R2): one character at least that is not white space.
pub(crate) fn non_empty_text() -> Value {
    json!({ "type": "string", "pattern": format!("[^{WHITE_SPACE}]") })
}

/// The schema of an identifier (R2): non-empty, at most 256 characters, none of them a control character.
pub(crate) fn identifier() -> Value {
    json!({
        "type": "string",
        "maxLength": 256,
        "pattern": format!("^[^{CONTROL}]*[^{CONTROL}{WHITE_SPACE}][^{CONTROL}]*$"),
    })
}

/// A whole schema document.
pub(crate) fn document(title: &str, schema: Value, rules: Vec<Value>) -> Value {
    let mut document = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": format!("urn:crealeph:contract:{title}"),
        "title": title,
    });
    if let Value::Object(members) = schema {
        for (key, value) in members {
            insert(&mut document, &key, value);
        }
    }
    if !rules.is_empty() {
        insert(&mut document, "allOf", Value::from(rules));
    }
    document
}

/// If these values are at these places, that must hold: `if … then …`.
pub(crate) fn when(condition: Value, consequence: Value) -> Value {
    json!({ "if": condition, "then": consequence })
}

/// A condition on one property that must be there.
pub(crate) fn has(key: &str, schema: Value) -> Value {
    json!({ "properties": { key: schema }, "required": [key] })
}

/// A condition on a property of a property, both of which must be there.
pub(crate) fn has_in(outer: &str, key: &str, schema: Value) -> Value {
    has(outer, has(key, schema))
}

fn described(mut schema: Value, about: &str) -> Value {
    let about = about.trim();
    if !about.is_empty() && schema.get("description").is_none() {
        insert(&mut schema, "description", Value::from(about.replace('`', "")));
    }
    schema
}

fn insert(schema: &mut Value, key: &str, value: Value) {
    if let Value::Object(members) = schema {
        members.insert(key.to_owned(), value);
    }
}
