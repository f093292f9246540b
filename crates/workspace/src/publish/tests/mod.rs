//! Publishing under fire: a process killed at every moment, and somebody saving files at every moment.

mod crash;
mod editor;
mod scene;
