//! The `crealeph` command.

fn main() {}
