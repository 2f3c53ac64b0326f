//! Queue pairs: real processes, and processes that get killed.

mod carriers;
mod messages;
mod processes;
