//! The chip.
