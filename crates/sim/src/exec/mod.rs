//! Programs on the model: a process on every node of a rack, executed instruction by instruction. All nodes execute
//! one program, or some of them others.
//!
//! | file | content |
//! |---|---|
//! | `session` | a run in pieces: the nodes, side by side for a fabric latency at a time |
//! | `checkpoint` | the state of a program, to go on from |
//! | [`part`] | the part of a program that is measured |
//! | `node` | a chip and its operating system |
//! | `system` | the operating system: threads, system calls, ends of processes |
//! | `turns` | threads that take turns on cores |
//! | [`tracks`] | what threads and cores do in a stretch of time, for people to look at |
//! | `pages` | physical memory, page tables, the program's address space |
//! | `device`, `controller` | the device driver of the network interface |
//! | `post` | what operating systems tell each other, segments of sockets included |
//! | `borrow` | the driver of borrowed memory and its DMA engine |
//! | `outcome`, [`report`] | the outcome of a run, and what is written of it |
//!
//! Instructions, accesses and packets take the time that the chip's parts take. The operating system takes
//! no time but [`call_cycles`](crate::machine::spec::SystemSpec::call_cycles) for every system call: it
//! runs outside of the chip, and readers of memory that it writes are notified as by coherence.
//!
//! A system call is [`rackmem_riscv::kernel`] on the node's memory or, for calls of `guest/driver.h`, the driver. Nodes
//! do not see each other for a fabric latency, an epoch, so threads simulate them side by side; the output of programs
//! waits for the end of the epoch, too.
//!
//! # Decisions
//!
//! - *Caches* hold rights to blocks; the contents of memory are in one place (`chip/image.rs`).
//! - *Writes by the operating system* change that one place, and every part that has read the block learns of it as
//!   by coherence: cores (loads without a value are made again, sleeping polls wake), the RMC, a home's transaction in
//!   flight.
//! - *The operating system* is one process for each node. Every system call takes `system.call_cycles`, and so does
//!   the begin of a thread's turn on a core that it shares. Threads do not move to other cores.
//! - *Pages.* Programs map pages of 4 KB, as on Linux; the node's pages are the paper's, 8 KB. A page of the node is
//!   there as long as a part of it is mapped, and the RMC may do to all of it what the program may do to a part. All
//!   pages are pinned when they are mapped.
//! - *Translation by cores* takes no time, because Table 1 of soNUMA gives no TLB. The RMC walks its tables in memory.
//! - *Queues* are on pages of the node that nothing else shares: the RMC knows queues by physical addresses and does
//!   not translate them.
//! - *Joining, leaving and the end of a process* are notices from driver to driver, which travel as long as packets.
//! - *Sockets* connect the nodes by an Ethernet that nothing else uses: whatever the papers' fabrics carry does not
//!   wait for it. A segment leaves a system call's time after the call, or the segment, that causes it.
//! - *Credits of the fabric* (soNUMA §6). A link has a count of free places for each other node and lane
//!   (`network.credits`) and one for its RMC's own queues (`rmc.lane_credits`). It returns a credit when the RMC takes
//!   the packet. The lanes share the wires in turn.
//! - *Programs on chips of Manycore NI* need `ni.completion = "acknowledged"`. An RCP whose stores are not acknowledged
//!   may write the CQ entry before the data arrive; microbenchmarks cannot see that, and programs can. A core has the
//!   one queue pair of its tile, and the node one context, whose segment has its place in physical memory.
//! - *Several of these chips* need `network.remote = "nodes"`; with a generator the only chip's peer is its own mirror
//!   image.
//! - *One process fails.* The run ends at the end of that epoch. The others are stopped where they are, and the first
//!   failure counts.
//! - *All processes wait for each other, or loop for ever.* That is found when no part of any node has anything left to
//!   do, which sleeping polls make visible. The error names core and function of each process.

mod borrow;
mod checkpoint;
mod controller;
mod device;
mod node;
mod outcome;
mod pages;
pub mod part;
mod post;
pub mod report;
mod session;
mod system;
pub mod tracks;
pub mod traffic;
mod turns;

use std::path::PathBuf;

pub use checkpoint::{Checkpoint, Taken};
use rackmem_riscv::elf::LoadError;
pub use rackmem_riscv::host::{Input, plain};
use rackmem_riscv::kernel::Stream;
pub use rackmem_riscv::{Mark, Stop};

use crate::cpu::Stretch;
use crate::engine::Cycle;
use crate::machine::Machine;
use crate::machine::spec::Remote;
use crate::run::{MIRROR_NODES, Progress};
pub use outcome::{Crash, End, NodeOutcome, Outcome};
pub use session::{Session, Until};

/// A program, its arguments and environment, and how many nodes have a process of it. A run has one or more: the nodes
/// of the first come first.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The bytes of an RV64GC program.
    pub program: &'a [u8],
    /// Its arguments, its name first.
    pub args: &'a [String],
    /// Its environment; each node's own variables are added.
    pub env: &'a [String],
    /// Nodes that execute it, each with a process of its own.
    pub nodes: u16,
}

impl Job<'_> {
    /// Its first argument.
    pub fn name(&self) -> &str {
        self.args.first().map_or("program", String::as_str)
    }
}

/// The nodes of all programs.
pub fn nodes_of(jobs: &[Job<'_>]) -> usize {
    jobs.iter().map(|job| usize::from(job.nodes)).sum()
}

/// The program of each node.
pub fn by_node<'a>(jobs: &[Job<'a>]) -> impl Iterator<Item = Job<'a>> {
    jobs.iter().flat_map(|&job| std::iter::repeat_n(job, job.nodes.into()))
}

/// The names of all programs, for messages.
pub fn names(jobs: &[Job<'_>]) -> String {
    jobs.iter().map(Job::name).collect::<Vec<_>>().join(", ")
}

/// The process of a node, before it begins.
#[derive(Clone, Copy)]
struct Process<'a> {
    nid: u16,
    /// Nodes that it sees: with a generator for the remote ends, the only one of a rack has a mirror image for a peer.
    nodes: u16,
    job: Job<'a>,
}

impl Process<'_> {
    /// Nodes that are there.
    fn others(&self, machine: &Machine) -> u16 {
        if is_mirrored(machine) { 1 } else { self.nodes }
    }
}

/// The process of every node.
fn processes<'a>(machine: &Machine, jobs: &[Job<'a>]) -> Vec<Process<'a>> {
    let nodes = if is_mirrored(machine) { MIRROR_NODES } else { nodes_of(jobs) as u16 };
    (0..).zip(by_node(jobs)).map(|(nid, job)| Process { nid, nodes, job }).collect()
}

/// Whether the only node's mirror image stands for the others (Manycore NI §5).
fn is_mirrored(machine: &Machine) -> bool {
    machine.ni.placement.can_be_mirrored() && machine.network.remote == Remote::Generator
}

/// Takes the output of the processes: node, stream, bytes. Returns whether somebody reads it: if not, the next write of
/// that node to the stream fails with `EPIPE`, and raises `SIGPIPE`.
pub type Sink<'a> = dyn FnMut(u16, Stream, &[u8]) -> bool + 'a;

/// Options of a run; none is needed.
#[derive(Default)]
pub struct Options<'a> {
    /// The run ends after this cycle.
    pub max_cycles: Option<Cycle>,
    /// The run ends when all cores together have retired so many instructions, at the end of that fabric latency.
    pub max_instructions: Option<u64>,
    /// Record messages that are sent in this stretch of time, and what threads and cores do then
    /// ([`NodeOutcome::tracks`]); nothing if it is empty.
    pub trace: (Cycle, Cycle),
    /// Record the lives of the instructions of every core in this stretch, for [`NodeOutcome::lives`].
    pub pipeline: Option<Stretch>,
    /// The folder in which relative names of files begin, and the only one that may be written to.
    pub folder: Option<PathBuf>,
    /// Files, and folders with all that is in them, that programs may read, too. So they may their arguments that are
    /// names of files.
    pub allowed: Vec<PathBuf>,
    /// The folder that stands for `/` where dynamically linked programs look for their libraries.
    pub libraries: Option<PathBuf>,
    /// The cycle with which the process of each node begins, by their numbers; the others begin at once.
    pub begins: Vec<Cycle>,
    /// Source of node 0's standard input; that of the other nodes is empty.
    pub input: Input,
    /// Takes the output as it comes, in an order that does not depend on the threads. Otherwise
    /// it is in the outcome.
    pub sink: Option<&'a mut Sink<'a>>,
    /// Follows the run and may end it; the outcome is then cut short.
    pub progress: Option<&'a Progress<'a>>,
    /// Ends the run at the end of a fabric latency; the outcome is then cut short.
    pub stop: Option<&'a Stop>,
}

/// Reasons why nothing was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecError {
    /// The machine cannot execute programs so: setting, problem and remedy.
    Machine(String),
    /// A program that cannot be executed: its name, and the reason.
    Program(String, LoadError),
    /// A checkpoint cannot be taken, or a program cannot go on from it: the reason.
    Checkpoint(String),
    /// A part of a program cannot be measured: the reason, and what to do instead.
    Part(String),
    /// A file that programs are to be allowed cannot be read.
    Allowed(PathBuf, String),
    /// The folder of libraries is none.
    Libraries(PathBuf, String),
}

impl std::fmt::Display for ExecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExecError::Machine(what) | ExecError::Checkpoint(what) | ExecError::Part(what) => {
                f.write_str(what)
            }
            ExecError::Program(name, error) => write!(f, "{name}: {error}"),
            ExecError::Allowed(path, error) | ExecError::Libraries(path, error) => {
                write!(f, "{}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for ExecError {}

/// Executes programs on the nodes of a rack until all processes have ended.
///
/// # Errors
/// [`ExecError`] if it does not come to that. The ends of processes are part of the outcome.
pub fn run(
    machine: &Machine,
    jobs: &[Job<'_>],
    options: Options<'_>,
) -> Result<Outcome, ExecError> {
    part::run(machine, jobs, part::Part::Whole, options)
}
