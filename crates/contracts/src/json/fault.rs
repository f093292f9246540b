//! What the parser can find wrong with the text itself, before any contract is asked (R3).

use crate::violation::Code;

/// One thing wrong with a text as I-JSON. The place is where the value stands in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The JSON Pointer of the value, or of the container that was being read.
    pub pointer: String,
    /// Where in the text, in bytes from start to end.
    pub span: (usize, usize),
    /// The stable code.
    pub code: Code,
    /// What is wrong and what to do.
    pub message: String,
}
