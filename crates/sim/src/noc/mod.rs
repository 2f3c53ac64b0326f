//! Network on chip.
