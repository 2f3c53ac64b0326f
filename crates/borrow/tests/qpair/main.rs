//! Queue pairs: every order of steps, real processes, and processes that get killed.

mod carriers;
mod messages;
mod model;
mod processes;
