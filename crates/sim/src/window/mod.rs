//! Borrowed memory: a window of a node's physical addresses whose lines are another node's memory
//! (time-shared memory, TSM §2.1). The parts are pure: no clock, no chip; `chip/window.rs`,
//! `chip/inbound.rs` and `chip/through.rs` say when.
//!
//! | file | part |
//! |---|---|
//! | [`map`] | the address mapping table of an NTB, AMT or Thunder's: addresses to nodes |
//! | [`orq`] | the outstanding request queue: reads of lines that are under way (TS-10) |
//! | [`combining`] | buffers that combine stores which go through the caches (TS-11) |
//! | [`wire`] | a link: when the bytes of a TLP have left |
//! | [`packet`] | what travels between nodes |
//! | [`dma`] | the DMA engine and its descriptors (TS-05) |
//! | [`prefetch`] | a stride prefetcher with a degree for each kind of memory (TS-13) |
//!
//! Left out: configuration of bridges, message signalled interrupts, errors of the link. Lending is
//! exclusive, so nothing keeps caches of the two nodes coherent (TS-01).

pub mod combining;
pub mod dma;
pub mod map;
pub mod orq;
pub mod packet;
pub mod prefetch;
pub mod wire;
