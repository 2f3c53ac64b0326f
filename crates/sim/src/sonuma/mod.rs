//! The remote memory controller of Scale-Out NUMA (ASPLOS 2014, §4.2, §4.3, Fig. 3, Table 1) as a
//! timed microarchitecture.
//!
//! [`Rmc`] is one node's. It has three pipelines, [`rgp`], [`rrpp`] and [`rcp`], whose decisions are
//! those of the stages in [`rackmem_rmc`]; here they take time, and everything that they know of is
//! in simulated memory: queues, page tables, the context table, the inflight transaction table.
//!
//! ```text
//!   RGP   RRPP   RCP   page walker        states L: a cycle; states T: the TLB ([`mmu`], [`tlb`])
//!    |      |     |         |
//!   arbiter, one each                     [`arbiter`]: one access a cycle, first come, first served
//!    '------'--+--'---------'
//!             MAQ                         [`maq`]: out of order, store-to-load forwarding
//!              |
//!           private L1                    [`memory::L1`]: whoever owns the RMC brings it
//! ```
//!
//! How long a state takes:
//! - in combinational logic (L) or with the TLB (T): one cycle. Each such state of a pipeline serves
//!   one transaction a cycle, the oldest first;
//! - with memory: one cycle from the stage through its arbiter and the MAQ to a port of the L1, then
//!   the L1's latency, plus a cycle for each word but the first on the word-wide interface. What
//!   misses is there when its block comes. A store that must only be in order is done when the MAQ
//!   has it, after one cycle.
//!
//! What it leaves out: the queue part of the CT$ never misses, as there are registers for all queue
//! pairs that the RMC polls ([`queues`]), and the driver writes them.
//!
//! The simulated time between two ticks may be left out: [`Rmc::next`] says when there is something
//! to do.

pub mod arbiter;
pub mod common;
pub mod ct;
pub mod driver;
pub mod maq;
pub mod memory;
pub mod mmu;
pub mod page;
pub mod queues;
pub mod rcp;
pub mod rgp;
mod rmc;
pub mod rrpp;
pub mod slots;
pub mod spec;
pub mod tlb;

pub use common::{Fabric, Lane, Registers, RmcStats};
pub use memory::{Image, L1};
pub use rmc::Rmc;
pub use spec::RmcSpec;
