//! The remote memory controller of Scale-Out NUMA (ASPLOS 2014, §4.2, §4.3, Fig. 3, Table 1) as a
//! timed microarchitecture.
//!
//! [`Rmc`] is one node's. It has three pipelines, `rgp`, `rrpp` and `rcp`, whose decisions are
//! those of the stages in [`rackmem_rmc`]; here they take time, and everything that they know of is
//! in simulated memory: queues, page tables, the context table, the inflight transaction table.
//!
//! ```text
//!   RGP   RRPP   RCP   page walker        states L: a cycle; states T: the TLB ([`mmu`], `tlb`)
//!    |      |     |         |
//!   arbiter, one each                     [`arbiter`]: one access a cycle, first come, first served
//!    '------'--+--'---------'
//!             MAQ                         [`maq`]: out of order, store-to-load forwarding
//!              |
//!           private L1                    [`memory::L1`]: whoever owns the RMC brings it
//! ```
//!
//! The time of a state:
//! - in combinational logic (L) or with the TLB (T): one cycle. Each such state of a pipeline serves
//!   one transaction a cycle, the oldest first;
//! - with memory: one cycle from the stage through its arbiter and the MAQ to a port of the L1, then
//!   the L1's latency, plus a cycle for each word but the first on the word-wide interface. What
//!   misses is there when its block comes. A store that must only be in order is done when the MAQ
//!   has it, after one cycle.
//!
//! Not in the model: misses of the queue part of the CT$. There are registers for all queue
//! pairs that the RMC polls (`queues`), and the driver writes them.
//!
//! The simulated time between two ticks may be left out: [`Rmc::next`] says when there is something
//! to do.
//!
//! # One remote read, followed through the code (`rackmem sim exec sonuma`)
//!
//! The program stores a WQ entry as it does on a host (`include/rackmem/access.h`). The store takes the block from the
//! RMC's own L1 (`chip/node_rmc.rs`), so the RMC polls it. `rgp` gets the entry through the MAQ and the context
//! through the CT$, and sends a packet for each line. `chip/link.rs` puts the packet on the request lane if the other
//! node has room, and `run/rack.rs` carries it over. There `rrpp` translates ([`mmu`]), reads the line through that
//! node's MAQ and L1, and replies. `rcp` stores the line into the local buffer, counts in the ITT entry, and after
//! the last line writes the CQ entry, which takes that block from the core's L1: the loop that waits for it goes on
//! (`cpu/sleep.rs`).
//!
//! # Decisions
//!
//! Sizes and times stand in [`RmcSpec`], each with its reason.
//!
//! - *CT$.* 8 contexts with least-recently-used replacement; a miss loads the CT entry. The ITT has 128 entries of 32
//!   bytes in memory (`rmc::itt::Entry::words`), and the list of free tids is in the RMC.
//! - *A full ITT.* The entry waits in the RGP, polling pauses when four entries wait, nothing is dropped, and no other
//!   pipeline notices.
//! - *Polling.* One work queue every 3 cycles, in turn. The poll comes before other accesses, and takes one L1 port and
//!   one MAQ entry of its own. Queues are named by physical addresses within a pinned page, so polls translate nothing.
//! - *Sleep.* A poll whose block has not changed is left out, and its port is taken all the same, so the result is that
//!   of polling, cycle by cycle. A poll does not keep its block in the L1.
//! - *Page size.* 8 KB (Table 1) with entries of RISC-V's Sv48 ([`page`]). Accessed and dirty bits count as rights,
//!   because pages are pinned.
//! - *Walks.* Four at a time; lookups of one page share one. Each level is a load through the MAQ.
//! - *Page faults.* At a local buffer: `bad local buffer`. At the destination: `out of segment`.
//! - *When a line counts.* After its data are stored, so the CQ entry comes last. Replies of one transfer change its
//!   ITT entry one after the other, over store-to-load forwarding in the MAQ.
//! - *Errors at the source.* The RGP hands them to the RCP, which alone changes ITT entries and writes CQ entries.
//! - *Unrolling.* One line a cycle, up to four work queue entries in turn.
//! - *Loss of a node.* The driver tells the RMC (the paper has it reset). The RCP looks through the ITT, an entry a
//!   cycle, and completes what waits for that node.

pub mod arbiter;
pub mod common;
pub mod ct;
pub mod driver;
pub mod maq;
pub mod memory;
pub mod mmu;
pub mod page;
mod queues;
mod rcp;
mod rgp;
mod rmc;
mod rrpp;
mod slots;
mod spec;
mod tlb;

pub use common::{Fabric, Lane, Registers, RmcStats};
pub use memory::{Image, L1};
pub use rmc::Rmc;
pub use spec::RmcSpec;
