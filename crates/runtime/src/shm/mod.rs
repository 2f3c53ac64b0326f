//! Memory that processes of one host share: the ground on which segments, queues and rings stand.

pub mod bell;
pub mod copy;
pub mod line_lock;
pub mod mapping;
pub mod queue;
pub mod ring;
pub mod segment;
pub mod sleep;
