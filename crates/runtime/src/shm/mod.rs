//! Memory that processes of one host share: mappings, and segments, queues, rings and locks in them.

pub mod bell;
pub mod copy;
pub mod line_lock;
pub mod mapping;
pub mod queue;
pub mod ring;
pub mod segment;
pub mod sleep;
