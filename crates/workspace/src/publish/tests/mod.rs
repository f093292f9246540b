//! Publishing under stress: a process killed at every moment, and someone saving files at every moment.

mod crash;
mod editor;
mod scene;
