//! Borrowed memory behaves as memory does: against a shadow of what was written, in every mode.

mod support;

mod fork;
mod lost;
mod shadow;
mod space;
mod streams;
