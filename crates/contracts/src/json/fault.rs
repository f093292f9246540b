//! Faults that the parser finds in the text itself, before any contract applies (R3).

use crate::violation::Code;

/// A fault in a text as I-JSON. The position is that of the value in the source.
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
