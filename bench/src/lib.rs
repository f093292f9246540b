//! CreAleph measured against peers: the documents, the contenders and the way they are timed. Nothing here is part
//! of the product; only the programs in `src/bin` use it.

pub mod ajv;
pub mod cedar;
pub mod documents;
pub mod policy;
pub mod program;
pub mod rego;
pub mod timing;
pub mod validation;

/// The result of a benchmark step, or why it failed.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The folder of this package, where its documents and policies are.
pub const FOLDER: &str = env!("CARGO_MANIFEST_DIR");
