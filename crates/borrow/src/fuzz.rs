//! What fuzz targets reach of private parts; only there in their builds.

pub use crate::agent::lane::fuzz as lane;
pub use crate::blk::fuzz as blk;
pub use crate::nic::frame::{Inbox, MAX_PACKET_BYTES, MIN_PACKET_BYTES, Outbox};
pub use crate::qpair::wire::fuzz as wire;
