//! CreAleph measured against peers: the documents, the contenders and the way they are timed. Nothing here is part
//! of the product; it answers only to the programs in `src/bin`.

pub mod ajv;
pub mod cedar;
pub mod documents;
pub mod policy;
pub mod program;
pub mod rego;
pub mod timing;
pub mod validation;

/// What a step of a benchmark gives, or why it could not.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The folder of this package, where its documents and policies are.
pub const FOLDER: &str = env!("CARGO_MANIFEST_DIR");
