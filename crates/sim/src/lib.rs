//! The cycle-level model: the chips and racks of the papers, part by part.
//!
//! The ownership tree is the block diagram. A [`chip::Chip`] owns its tiles (core, L1, LLC bank,
//! directory slice, network interface), its memory controllers and its network on chip; a rack
//! owns chips and the fabric between them. Parts exchange messages with a latency of at least one
//! cycle, so the order in which they are visited within a cycle is not part of the model, and
//! stretches in which nothing happens are skipped.
//!
//! A machine is a file. This runs one of the built-in ones, with one setting changed:
//!
//! ```
//! use rackmem_sim::machine::{self, Override};
//! use rackmem_sim::run::{self, Options};
//!
//! let machine = machine::load("manycore-ni", &[Override::new("workload.kind", "sync-read")])?;
//! let report = run::run(&machine, &Options::default())?;
//! let latency = report.latency.expect("reads were measured");
//! assert!(latency.mean_cycles > 200.0, "two hops of 70 cycles, and a memory at the other end");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`engine`] | cycles, events, random numbers |
//! | [`noc`] | routers, links, topologies, routing; synthetic traffic |
//! | [`coherence`] | the protocol as pure state machines |
//! | [`block`] | blocks of memory: their numbers, bytes and contents |
//! | [`chip`] | caches, homes, memory, cores, network interfaces, put together |
//! | [`cpu`] | cores that execute programs, out of order |
//! | [`sonuma`] | the remote memory controller of Scale-Out NUMA, stage by stage |
//! | [`window`] | memory that is borrowed of other nodes: address map, outstanding requests, DMA |
//! | [`dram`] | DDR3 channels, command by command |
//! | [`interconnect`] | nodes whose on-chip interconnect reaches their neighbours, layer by layer |
//! | [`scratchpad`] | network interfaces in private caches, as pure state machines |
//! | [`run`] | a machine from start to report: one chip and its mirror image, or a rack of chips |
//! | [`exec`] | programs on machines: operating system, drivers, a rack of nodes |
//! | [`litmus`] | RVWMO: tests in the form of herd, their allowed outcomes, and what cores do |
//! | [`machine`] | machine files |
//! | `measure` | warm-up, confidence intervals, histograms of what runs show |
//! | [`figures`] | counters by path, read now and then |
//! | [`rack`] | hundreds of simplified nodes on a torus, driven by traffic |
//! | [`recipe`] | what is needed to make a run again |
//! | [`mod@reference`] | networks and memories beside the curves of other simulators |
//! | [`report`] | the results of a run |
//! | [`statistics`] | what statistics of reports mean |
//!
//! `sonuma` and `cpu` see an L1 and a clock as traits, so that tests give them others.

pub mod block;
pub mod chip;
pub mod coherence;
pub mod cpu;
pub mod dram;
pub mod engine;
pub mod exec;
pub mod figures;
pub mod interconnect;
pub mod litmus;
pub mod machine;
pub(crate) mod measure;
pub mod noc;
pub mod rack;
pub mod recipe;
pub mod reference;
pub mod report;
pub mod run;
pub mod scratchpad;
mod section;
pub mod sonuma;
pub mod statistics;
pub mod window;
