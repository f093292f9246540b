//! What others derive from an open ledger and keep with it, one value for each type. It ends with the last handle of the ledger; who
//! keeps something here says until when it holds.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::ledger::Ledger;

/// The values, by their type.
#[derive(Default)]
pub(crate) struct KeptValues(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Ledger {
    /// The value of a type that is kept with this open ledger; every handle of it has the same one.
    pub fn kept<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut values = self.inner().kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        // Under the id of a type there is only ever a value of it.
        Arc::clone(value).downcast().unwrap_or_else(|_| Arc::new(T::default()))
    }
}
