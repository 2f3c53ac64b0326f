//! Borrowed memory behaves as memory does: against a shadow of all writes, in every mode.

mod support;

mod fork;
mod lost;
mod shadow;
mod space;
mod streams;
