//! Values that others derive from an open ledger and cache with it, one for each type. They end with the last handle of the ledger; the
//! code that caches a value decides how long it is valid.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::ledger::Ledger;

/// The values, by their type.
#[derive(Default)]
pub(crate) struct KeptValues(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Ledger {
    /// The value of a type that is cached with this open ledger; every handle of it has the same one.
    pub fn kept<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut values = self.inner().kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        // The entry under the id of a type is always a value of that type.
        Arc::clone(value).downcast().unwrap_or_else(|_| Arc::new(T::default()))
    }
}
