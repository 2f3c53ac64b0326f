//! The coherence protocol (Manycore NI §3.1, §3.4).

pub mod message;

pub use message::{Forward, Grant, MAX_CACHES, Message, Party, Request, Response, Update};
