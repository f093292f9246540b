//! Ids in a report: written as their texts, and read back from them.

use crealeph_contracts::scalar::{ExecutionId, LedgerId, RobotId};
use crealeph_contracts::uuid::Uuid;
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

/// An id that can be read from its text.
pub(super) trait ReadableId: Sized {
    fn read(text: &str) -> Option<Self>;
}

impl ReadableId for ExecutionId {
    fn read(text: &str) -> Option<Self> {
        ExecutionId::parse(text).ok()
    }
}

impl ReadableId for RobotId {
    fn read(text: &str) -> Option<Self> {
        RobotId::parse(text).ok()
    }
}

impl ReadableId for LedgerId {
    fn read(text: &str) -> Option<Self> {
        LedgerId::parse(text).ok()
    }
}

impl ReadableId for Uuid {
    fn read(text: &str) -> Option<Self> {
        Uuid::parse(text)
    }
}

pub(super) fn serialize<T: std::fmt::Display, S: Serializer>(id: &T, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(id)
}

pub(super) fn deserialize<'de, T: ReadableId, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    T::read(&text).ok_or_else(|| D::Error::custom("an id is not valid"))
}
