//! Machine files.
