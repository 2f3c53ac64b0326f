//! Nodes whose on-chip interconnect is extended to their neighbours (DEOI), and Thunder, which is made the
//! same way (TSM §4.2): a model layer by layer, of what packets meet on their way.
//!
//! ```text
//! core --- caches --+-- on-chip interconnect --+-- DDR3 (memory.rs)
//!                   |                          +-- card (nic.rs)
//!                   +-- transaction layer (transaction.rs): packets of AXI's channels, FIFOs
//!                         routing layer (routing.rs): AMT, IMT, switch, congestion
//!                           link layer   } (lane.rs), one virtual channel each for interrupts,
//!                           physical     } responses and requests
//! ```
//!
//! | file | content |
//! |---|---|
//! | `platform` | all nodes, and the handling of events |
//! | `node` | a node as its parts |
//! | `module` | its layers and links, without cores and memory |
//! | `packet` | packets, accesses, and the layers that their time is accounted to |
//! | `cores` | cores as software sees them: operations, each of which takes its time |
//! | `qpair`, `channel` | the connections of a node, as Thunder has them, and what serves them |
//! | `bursts` | the bursts of a bulk copy, as Thunder's RDMA channel has them |
//! | `workload` | the experiments: random reads, a card's bandwidth and latency, queue pairs |
//! | `time` | picoseconds, clocks |
//!
//! State machines are those of `rackmem_rmc`: [`rackmem_rmc::link`], [`rackmem_rmc::amt`],
//! [`rackmem_rmc::imt`], [`rackmem_rmc::two_sided`]. Latencies are sums: each access accounts every picosecond to
//! the layer that it is in, and no figure of the papers is written here.
//!
//! Left out here: programs, contents of caches (an access of a workload is a miss) and of memory. Chips have them, and
//! [`Module`] between them (`chip/bridge.rs`).
//!
//! # One read of a neighbour's memory, followed through the code (`rackmem sim run deoi`)
//!
//! An operation of `cores` is an access, which `platform` finds in the window of visible addresses; the AMT
//! ([`rackmem_rmc::amt`]) says whose memory it is. `transaction` makes a packet of the read address channel and takes
//! it across to the link's clock. `routing` gives it to the link when the virtual channel has credit, and `lane` puts
//! it into a frame of [`rackmem_rmc::link`] and on the wire. The neighbour's module unpacks it, its DDR3 channel
//! (`memory`) answers, and the data come back on the virtual channel of responses. The access accounts every picosecond
//! to the layer that it is in, so the latency is their sum.
//!
//! # Decisions
//!
//! - *Order within a virtual channel* is that of the transaction layer. Address and data of a write are packets of
//!   their own and meet by the access that they name.
//! - *One message at a time.* A connection's next descriptor begins when the one before was answered, so descriptors
//!   complete in order.
//! - *Without translation by the channel* (`qpair.translation`) a system call translates, and each page takes a
//!   descriptor, as pages are apart; or the library copies through a buffer in one piece that was translated
//!   beforehand, at both ends.

pub(crate) mod bursts;
pub(crate) mod card;
pub(crate) mod channel;
mod cores;
pub(crate) mod lane;
mod memory;
pub(crate) mod module;
pub(crate) mod nic;
mod node;
pub(crate) mod packet;
mod platform;
pub(crate) mod qpair;
pub(crate) mod report;
mod routing;
pub(crate) mod time;
mod transaction;
pub(crate) mod workload;

pub use card::Card;
pub use module::Module;
pub use node::Op;
pub use packet::{Access, Channel, Packet};
pub use platform::{Platform, Upcall};
pub use qpair::{EndPoint, QueuePairs, Refused};
pub use rackmem_rmc::imt::LINES as INTERRUPT_LINES;
