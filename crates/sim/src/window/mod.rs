//! Borrowed memory: a window of a node's physical addresses whose lines are another node's memory
//! (time-shared memory, TSM §2.1). The parts are pure: no clock, no chip; `chip/window.rs`,
//! `chip/inbound.rs` and `chip/through.rs` say when. The address mapping table of an NTB, or of Thunder, is
//! [`rackmem_rmc::amt`].
//!
//! | file | part |
//! |---|---|
//! | `spec` | the sections of a machine file |
//! | [`orq`] | the outstanding request queue: reads of lines that are under way (TS-10) |
//! | [`combining`] | buffers that combine stores which go through the caches (TS-11) |
//! | [`wire`] | a link, and the time of a TLP on it |
//! | `packet` | packets between nodes |
//! | [`dma`] | the DMA engine and its descriptors (TS-05) |
//! | `prefetch` | a stride prefetcher with a degree for each kind of memory (TS-13) |
//!
//! Left out: configuration of bridges, message signalled interrupts, errors of the link. Lending is
//! exclusive, so nothing keeps caches of the two nodes coherent (TS-01).
//!
//! # One load from borrowed memory, followed through the code (`rackmem sim exec tsm-sim -n 2`)
//!
//! The page is mapped to a physical address beyond the node's own memory (`exec/borrow.rs`). The load misses the L1 and
//! the home as any other; the home asks `chip/window.rs` instead of a memory controller. There the read waits for an
//! entry of the outstanding request queue ([`orq`]: one entry, where a root complex is serial). The address
//! mapping table says which node's memory it is, and a TLP leaves over the link ([`wire`]). `run/rack.rs` carries it
//! over. At the lender `chip/inbound.rs` asks the block's home there, so that what its caches hold counts, and answers
//! in order. The line returns to the home, which keeps it as it would keep its own. Then stores differ. Written back,
//! they change a cached line. Going through (`chip/through.rs`), they join other stores to the same line in a buffer,
//! the home drops or changes its copy, and a posted TLP leaves.
//!
//! # Decisions
//!
//! - *Programs* get an address range (`window.h`); or, with `window.heap`, everything that they ask the
//!   operating system for, with text, data and first stack at home.
//! - *Contents.* Caches have rights only, so the words of a line of the window are in the borrower's memory while the
//!   line is cached there. They are those of the lender's memory when the line is fetched, and go there when it is
//!   written back. In between the copies of borrower and lender do differ.
//! - *Posted or not.* Over PCIe a store is done when it has left; in the simulator when the lender has answered, as in
//!   gem5's memory system (`window.posted`).
//! - *Links.* Each node has one. It carries bytes of TLPs with framing, and two DLLPs the other way for each TLP; chips
//!   on the way are latency, and cut through. What several nodes send to one shares the link to it.
//! - *What others write to a node* goes to its last-level cache, coherently.

pub mod combining;
pub mod dma;
pub mod orq;
pub(crate) mod packet;
pub(crate) mod prefetch;
mod spec;
pub mod wire;

pub use spec::{PrefetchSpec, WindowSpec, WritePolicy};
