//! Private parts that fuzz targets reach; compiled for fuzzing only.

pub use crate::frame::{Inbox, MAX_PACKET_BYTES, MIN_PACKET_BYTES, Outbox};
