//! One table of the configuration, read key by key. Owns the checks that every key goes through: its type, its bounds,
//! and that no key is there which no one reads; the nearest known one is named.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crealeph_contracts::shape::nearest;
use toml::Value;

/// What is wrong with a table, for a person.
pub type Wrong = String;

/// A table and which of its keys were asked for.
#[derive(Debug)]
pub struct Table<'t> {
    values: &'t toml::Table,
    known: RefCell<Vec<&'static str>>,
}

impl<'t> Table<'t> {
    /// No key was read yet.
    pub fn new(values: &'t toml::Table) -> Self {
        Table { values, known: RefCell::default() }
    }

    fn value(&self, key: &'static str) -> Option<&'t Value> {
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            known.push(key);
        }
        self.values.get(key)
    }

    /// A text that is not empty.
    pub fn text(&self, key: &'static str) -> Result<Option<&'t str>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let text = value.as_str().filter(|text| !text.trim().is_empty());
        text.map(Some).ok_or_else(|| format!("`{key}` must be a non-empty string"))
    }

    /// True or false; false when absent.
    pub fn flag(&self, key: &'static str) -> Result<bool, Wrong> {
        match self.value(key) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| format!("`{key}` is not `true` or `false`")),
        }
    }

    /// A whole number within its bounds.
    pub fn number(&self, key: &'static str, usual: u64, low: u64, high: u64) -> Result<u64, Wrong> {
        let Some(value) = self.value(key) else { return Ok(usual) };
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
        number
            .filter(|number| (low..=high).contains(number))
            .ok_or_else(|| format!("`{key}` is not a whole number from {low} to {high}"))
    }

    /// A number within its bounds; `None` when absent.
    pub fn decimal(&self, key: &'static str, low: f64, high: f64) -> Result<Option<f64>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let number = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
        let bound = if high.is_finite() { format!(" to {high}") } else { String::new() };
        number
            .filter(|number| number.is_finite() && (low..=high).contains(number))
            .map(Some)
            .ok_or_else(|| format!("`{key}` is not a number from {low}{bound}"))
    }

    /// Whether the key is there; it counts as asked for.
    pub fn has(&self, key: &'static str) -> bool {
        self.value(key).is_some()
    }

    /// A table below this one.
    pub fn table(&self, key: &'static str) -> Result<Option<Table<'t>>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let table = value.as_table().ok_or_else(|| format!("`{key}` is not a table"))?;
        Ok(Some(Table::new(table)))
    }

    /// A list of texts; empty when absent.
    pub fn texts(&self, key: &'static str, most: usize) -> Result<Vec<&'t str>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let list = value.as_array().ok_or_else(|| format!("`{key}` is not a list of strings"))?;
        if list.len() > most {
            return Err(format!("`{key}` lists more than {most}; list fewer"));
        }
        let texts =
            list.iter().map(|text| text.as_str().ok_or_else(|| format!("`{key}` is not a list of strings")));
        texts.collect()
    }

    /// A table of values; empty when absent.
    pub fn entries<T>(
        &self,
        key: &'static str,
        most: usize,
        read: impl Fn(&'t str, &'t Value) -> Result<T, Wrong>,
    ) -> Result<BTreeMap<String, T>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(BTreeMap::new()) };
        let table = value.as_table().ok_or_else(|| format!("`{key}` is not a table"))?;
        if table.len() > most {
            return Err(format!("`{key}` has more than {most}; remove some"));
        }
        table.iter().map(|(name, value)| Ok((name.clone(), read(name, value)?))).collect()
    }

    /// Whether a key holds a text.
    pub fn is_text(&self, key: &'static str) -> bool {
        self.value(key).is_some_and(Value::is_str)
    }

    /// What to say of a key that must be there and is not: that it is misspelt, if it seems to be, else the advice.
    pub fn missing(&self, key: &'static str, advice: &str) -> Wrong {
        let known = self.known.borrow();
        let mut others = self.values.keys().filter(|other| !known.contains(&other.as_str()));
        match others.find(|other| nearest(other, &[key]).is_some()) {
            Some(misspelt) => unknown_name("key", misspelt, &[key]),
            None => advice.to_owned(),
        }
    }

    /// Refuses every key that was not read.
    pub fn finish(self) -> Result<(), Wrong> {
        let known = self.known.into_inner();
        match self.values.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(unknown) => Err(unknown_name("key", unknown, &known)),
        }
    }
}

/// The message about an unknown name; it suggests the nearest known one.
pub fn unknown_name(what: &str, unknown: &str, known: &[&str]) -> Wrong {
    match nearest(unknown, known) {
        Some(near) => format!("the {what} `{unknown}` is not known here; did you mean `{near}`?"),
        None => format!("the {what} `{unknown}` is not known here; known are {}", known.join(", ")),
    }
}

/// A path made absolute from `base`, without `.` and `..`.
pub fn absolute(base: &Path, path: &str) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in base.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                whole.pop();
            }
            other => whole.push(other),
        }
    }
    whole
}
