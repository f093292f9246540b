//! One table of the configuration, read key by key. Owns the checks that every key goes through: its type, its bounds,
//! and that no key is there which nobody reads; the nearest known one is named.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crealeph_contracts::shape::nearest;
use toml::Value;

/// What is wrong with a table, for a person.
pub(crate) type Wrong = String;

/// A table and which of its keys were asked for.
pub(crate) struct Table<'t> {
    values: &'t toml::Table,
    known: RefCell<Vec<&'static str>>,
}

impl<'t> Table<'t> {
    pub(crate) fn new(values: &'t toml::Table) -> Self {
        Table { values, known: RefCell::default() }
    }

    fn value(&self, key: &'static str) -> Option<&'t Value> {
        self.known.borrow_mut().push(key);
        self.values.get(key)
    }

    /// A text that is not empty.
    pub(crate) fn text(&self, key: &'static str) -> Result<Option<&'t str>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let text = value.as_str().filter(|text| !text.trim().is_empty());
        text.map(Some).ok_or_else(|| format!("`{key}` is not a text with something in it"))
    }

    /// True or false; false when absent.
    pub(crate) fn flag(&self, key: &'static str) -> Result<bool, Wrong> {
        match self.value(key) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| format!("`{key}` is not `true` or `false`")),
        }
    }

    /// A whole number within its bounds.
    pub(crate) fn number(&self, key: &'static str, usual: u64, low: u64, high: u64) -> Result<u64, Wrong> {
        let Some(value) = self.value(key) else { return Ok(usual) };
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
        number
            .filter(|number| (low..=high).contains(number))
            .ok_or_else(|| format!("`{key}` is not a whole number from {low} to {high}"))
    }

    /// A list of texts; empty when absent.
    pub(crate) fn texts(&self, key: &'static str, most: usize) -> Result<Vec<&'t str>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let list = value.as_array().ok_or_else(|| format!("`{key}` is not a list of texts"))?;
        if list.len() > most {
            return Err(format!("`{key}` lists more than {most}; list fewer"));
        }
        let texts =
            list.iter().map(|text| text.as_str().ok_or_else(|| format!("`{key}` is not a list of texts")));
        texts.collect()
    }

    /// A table of values; empty when absent.
    pub(crate) fn entries<T>(
        &self,
        key: &'static str,
        most: usize,
        read: impl Fn(&'t str, &'t Value) -> Result<T, Wrong>,
    ) -> Result<BTreeMap<String, T>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(BTreeMap::new()) };
        let table = value.as_table().ok_or_else(|| format!("`{key}` is not a table"))?;
        if table.len() > most {
            return Err(format!("`{key}` holds more than {most}; leave some out"));
        }
        table.iter().map(|(name, value)| Ok((name.clone(), read(name, value)?))).collect()
    }

    /// Whether a key is there, whatever its value.
    pub(crate) fn has(&self, key: &'static str) -> bool {
        self.value(key).is_some()
    }

    /// Whether a key holds a text.
    pub(crate) fn is_text(&self, key: &'static str) -> bool {
        self.value(key).is_some_and(Value::is_str)
    }

    /// A number from 0, with or without a fraction; nothing when absent.
    pub(crate) fn amount(&self, key: &'static str) -> Result<Option<f64>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
        let number = number.filter(|number| number.is_finite() && *number >= 0.0);
        number.map(Some).ok_or_else(|| format!("`{key}` is not a number from 0"))
    }

    /// A table of its own; nothing when absent.
    pub(crate) fn subtable(&self, key: &'static str) -> Result<Option<toml::Table>, Wrong> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.as_table().cloned().map(Some).ok_or_else(|| format!("`{key}` is not a table"))
    }

    /// Refuses every key that was not asked for.
    pub(crate) fn finish(self) -> Result<(), Wrong> {
        let known = self.known.into_inner();
        let Some(unknown) = self.values.keys().find(|key| !known.contains(&key.as_str())) else {
            return Ok(());
        };
        Err(match nearest(unknown, &known) {
            Some(near) => format!("the key `{unknown}` is not known here; did you mean `{near}`?"),
            None => format!("the key `{unknown}` is not known here; known are {}", known.join(", ")),
        })
    }
}

/// A path made absolute from `base`, without `.` and `..`.
pub(crate) fn absolute(base: &Path, path: &str) -> PathBuf {
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
