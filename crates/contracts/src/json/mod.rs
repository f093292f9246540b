//! Strict JSON: the one parser every document goes through, the tree it yields, RFC 8785 canonical
//! text and the small writers used to print documents.
//!
//! Invariants: a [`Document`] is I-JSON (R3) unless its parse reported a fault; nothing here recurses
//! on the input, and every loop is bounded by the input's length.

mod canonical;
mod document;
mod fault;
mod object;
mod parse;
mod shallow;
mod write;

pub use canonical::{canonical, canonical_bytes, number_text};
pub(crate) use document::Trail;
pub use document::{Document, Node, NodeKind};
pub use fault::Fault;
pub use object::{ComposeError, JsonObject, canonical_of};
pub use parse::{Limits, MAX_DEPTH, MAX_OWN_DEPTH, parse};
pub use shallow::{ShallowError, ShallowMember, shallow_members};
pub use write::{ObjectWriter, PlainWriter, pretty, push_number, push_text};
