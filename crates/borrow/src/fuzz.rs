//! Private parts that fuzz targets reach; compiled for fuzzing only.

pub use crate::agent::lane::fuzz as lane;
pub use crate::blk::fuzz as blk;
pub use crate::nic::frame::{Inbox, MAX_PACKET_BYTES, MIN_PACKET_BYTES, Outbox};
pub use crate::qpair::wire::fuzz as wire;
