//! The runs that claims are measured by: programs on racks of two nodes, one of which borrows memory.

use super::setting::{PROTOTYPE, SIMULATOR, THUNDER};
use super::thunder::Exchange;
use crate::reproduce::results::{Effort, Known};
use crate::reproduce::runtime::{Figures, kernels, messages, transfers, window};

/// A microbenchmark of section 2.1.2, or what stands for an application of figure 9: programs with like
/// access patterns, as SPEC CPU2000 may not be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kernel {
    /// Read-only, fits into the last-level cache.
    B1,
    /// Read and written, fits.
    B2,
    /// Read-only, does not fit, with good locality.
    B3,
    /// Random reads and writes, does not fit.
    B4,
    /// Loop of gzip: a window that slides over its input, and short matches in it.
    Gzip,
    /// Loop of gcc: lists of small structures that lie one after the other, with jumps.
    Gcc,
    /// Loop of mcf: arcs of a network in turn, and the nodes that they join.
    Mcf,
    /// Loop of gap: bags of words that are copied and gone through.
    Gap,
    /// A chain of loads, each of which waits for the one before.
    Chase,
}

impl Kernel {
    /// Name of the kernel in the program's arguments.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::B1 => "b1",
            Kernel::B2 => "b2",
            Kernel::B3 => "b3",
            Kernel::B4 => "b4",
            Kernel::Gzip => "gzip",
            Kernel::Gcc => "gcc",
            Kernel::Mcf => "mcf",
            Kernel::Gap => "gap",
            Kernel::Chase => "chase",
        }
    }
}

/// Treatment of stores to remote memory by the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Like stores to local memory.
    WriteBack,
    /// Through the caches, of which copies are dropped.
    Invalidate,
    /// Through the caches, of which a copy is updated.
    Update,
}

impl Policy {
    /// Name of the policy in machine files.
    pub fn name(self) -> &'static str {
        match self {
            Policy::WriteBack => "write-back",
            Policy::Invalidate => "write-through-invalidate",
            Policy::Update => "write-through-update",
        }
    }
}

/// Place of a program's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In the node's own memory.
    Local,
    /// In borrowed memory.
    Remote,
}

/// Mechanism that moves a block of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// Loads of the core.
    Load,
    /// Stores of the core.
    Store,
    /// Copies by the DMA engine.
    Dma,
}

impl Mechanism {
    /// Name of the mechanism in the program's arguments.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Load => "load",
            Mechanism::Store => "store",
            Mechanism::Dma => "dma",
        }
    }
}

/// Way in which two nodes share memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    /// A reads and writes 0, B writes 1, A reads again.
    Policy,
    /// Cores of one node count in borrowed memory, atomically.
    Atomics,
    /// A message that a core of one node stores and one of the other finds.
    Message,
}

impl Share {
    /// Name of the way in the program's arguments.
    pub fn name(self) -> &'static str {
        match self {
            Share::Policy => "policy",
            Share::Atomics => "atomics",
            Share::Message => "message",
        }
    }
}

/// Machine of a run: one of the model's, or this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Machine {
    /// The paper's simulator.
    Simulator,
    /// The PCIe prototype.
    Prototype,
    /// The FPGA prototype.
    Thunder,
    /// None: the runtime on this host.
    Host,
}

impl Machine {
    /// The built-in machine, or the host.
    pub fn name(self) -> &'static str {
        match self {
            Machine::Simulator => SIMULATOR,
            Machine::Prototype => PROTOTYPE,
            Machine::Thunder => THUNDER,
            Machine::Host => "host",
        }
    }
}

/// Work of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// A kernel of `tsm_kernels`, with its data in this place.
    Kernel(Kernel, Place),
    /// Blocks of so many bytes move between two nodes.
    Transfer(Mechanism, u32),
    /// Two nodes share memory.
    Share(Share),
    /// Two nodes exchange messages by the customised protocol, or by Ethernet.
    Exchange(Exchange),
    /// The runtime measures on this host.
    Runtime(Trial),
}

/// A measurement of the runtime on this host. All variants that are compared take turns in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trial {
    /// Random reads of the lender, by the number of outstanding ones.
    Outstanding,
    /// Sequential reads of borrowed memory, by the prefetch degree.
    Prefetching,
    /// The microbenchmarks in borrowed memory over those in local memory.
    Slowdowns,
    /// Blocks that move between this host and the lender, by their sizes.
    Transfers,
    /// Messages by queue pairs and by TCP, by their sizes.
    Messages,
}

impl Trial {
    /// Name of the trial in names of runs.
    pub fn name(self) -> &'static str {
        match self {
            Trial::Outstanding => "outstanding",
            Trial::Prefetching => "prefetching",
            Trial::Slowdowns => "slowdowns",
            Trial::Transfers => "transfers",
            Trial::Messages => "messages",
        }
    }

    /// Measures.
    ///
    /// # Errors
    /// This host does not let it, or bytes were not what they should have been.
    pub fn measure(self, effort: Effort) -> Known<Figures> {
        match self {
            Trial::Outstanding => window::measure(effort),
            Trial::Prefetching => kernels::prefetching(effort),
            Trial::Slowdowns => kernels::slowdowns(effort),
            Trial::Transfers => {
                transfers::measure(&BLOCKS.map(|(_, bytes)| bytes as usize), effort)
            }
            Trial::Messages => messages::measure(effort),
        }
    }
}

/// Changes of the machine that a run is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Changes {
    /// The write policy of borrowed memory.
    pub policy: Option<Policy>,
    /// Entries of the outstanding request queue.
    pub outstanding: Option<u32>,
    /// Lines that each trigger prefetches, wherever the data are.
    pub degree: Option<u32>,
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Experiment {
    /// On this machine.
    pub machine: Machine,
    /// Program and its parameters.
    pub work: Work,
    /// Changes of the machine.
    pub changes: Changes,
}

impl Experiment {
    /// A run on the PCIe prototype as it is.
    pub fn prototype(work: Work) -> Experiment {
        Experiment { machine: Machine::Prototype, work, changes: Changes::default() }
    }

    /// A run on the FPGA prototype.
    pub fn thunder(exchange: Exchange) -> Experiment {
        let work = Work::Exchange(exchange);
        Experiment { machine: Machine::Thunder, work, changes: Changes::default() }
    }

    /// A measurement on this host.
    pub fn on_host(trial: Trial) -> Experiment {
        let work = Work::Runtime(trial);
        Experiment { machine: Machine::Host, work, changes: Changes::default() }
    }

    /// A run on the simulator.
    pub fn simulator(work: Work, changes: Changes) -> Experiment {
        Experiment { machine: Machine::Simulator, work, changes }
    }

    /// Its name: `tsm-sim/b4/remote/write-back/orq16`.
    pub fn name(&self) -> String {
        let mut name = format!("{}/", self.machine.name());
        name += &match self.work {
            Work::Kernel(kernel, Place::Local) => format!("{}/local", kernel.name()),
            Work::Kernel(kernel, Place::Remote) => format!("{}/remote", kernel.name()),
            Work::Transfer(mechanism, bytes) => format!("{}/{bytes}", mechanism.name()),
            Work::Share(share) => share.name().to_owned(),
            Work::Exchange(exchange) => exchange.name(),
            Work::Runtime(trial) => trial.name().to_owned(),
        };
        let Changes { policy, outstanding, degree } = self.changes;
        name += &policy.map_or_else(String::new, |policy| format!("/{}", policy.name()));
        name += &outstanding.map_or_else(String::new, |entries| format!("/orq{entries}"));
        name += &degree.map_or_else(String::new, |degree| format!("/degree{degree}"));
        name
    }

    /// Name of the RISC-V program in `programs/prebuilt`, without `.rv64`.
    pub fn program(&self) -> &'static str {
        match self.work {
            Work::Kernel(..) => "tsm_kernels",
            Work::Transfer(..) => "tsm_transfer",
            Work::Share(_) => "tsm_share",
            // Nothing is executed there.
            Work::Exchange(_) | Work::Runtime(_) => "",
        }
    }

    /// Settings of the machine that it changes.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let Changes { policy, outstanding, degree } = self.changes;
        let mut all = match self.work {
            Work::Exchange(exchange) => exchange.settings(),
            _ => Vec::new(),
        };
        all.extend(policy.map(|policy| ("window.policy", format!("\"{}\"", policy.name()))));
        all.extend(outstanding.map(|entries| ("window.outstanding", entries.to_string())));
        if let Some(degree) = degree {
            all.push(("prefetch.local_degree", degree.to_string()));
            all.push(("prefetch.remote_degree", degree.to_string()));
        }
        all
    }

    /// Arguments of the program, without its name; `llc_bytes` is what its working sets are sized by.
    pub fn arguments(&self, effort: Effort, llc_bytes: u64) -> Vec<String> {
        let mut words = match self.work {
            Work::Kernel(kernel, place) => {
                let mut words =
                    vec![format!("--kernel={}", kernel.name()), format!("--llc-bytes={llc_bytes}")];
                if place == Place::Remote {
                    words.push("--remote".to_owned());
                }
                if self.machine == Machine::Prototype && kernel == Kernel::B3 {
                    words.push(format!("--reuse={REUSE}"));
                }
                words.push(format!("--scale={}", if effort == Effort::Quick { 1 } else { 4 }));
                words
            }
            Work::Transfer(mechanism, bytes) => vec![
                format!("--mechanism={}", mechanism.name()),
                format!("--block-bytes={bytes}"),
                format!("--bytes={}", moved_bytes(mechanism, bytes, effort)),
            ],
            Work::Share(share) => vec![format!("--share={}", share.name())],
            Work::Exchange(_) | Work::Runtime(_) => vec![],
        };
        words.push("--json".to_owned());
        words
    }

    /// Estimate of the host's time, relative to other runs.
    pub fn cost(&self) -> u64 {
        match self.work {
            Work::Kernel(_, Place::Remote) => 100,
            Work::Kernel(..) => 60,
            Work::Transfer(..) => 30,
            Work::Share(_) => 10,
            Work::Exchange(_) | Work::Runtime(_) => 5,
        }
    }
}

/// Reads of a block by benchmark 3 on the prototype before it goes on.
pub const REUSE: u32 = 12_000;

/// Bytes that a transfer moves: enough blocks for a steady state.
fn moved_bytes(mechanism: Mechanism, block_bytes: u32, effort: Effort) -> u64 {
    let most: u64 = match (mechanism, effort) {
        (Mechanism::Load, Effort::Quick) => 256 << 10,
        (Mechanism::Load, Effort::Full) => 1 << 20,
        (_, Effort::Quick) => 2 << 20,
        (_, Effort::Full) => 16 << 20,
    };
    let blocks = if effort == Effort::Quick { 4096 } else { 16384 };
    (u64::from(block_bytes) * blocks).min(most).max(2 * u64::from(block_bytes))
}

/// Blocks of Table 2: as the claims call them, and their bytes.
pub const BLOCKS: [(&str, u32); 9] = [
    ("64", 64),
    ("128", 128),
    ("512", 512),
    ("1k", 1 << 10),
    ("4k", 4 << 10),
    ("16k", 16 << 10),
    ("64k", 64 << 10),
    ("256k", 256 << 10),
    ("1m", 1 << 20),
];

/// Entries of the outstanding request queue in figure 8.
pub const OUTSTANDING: [u32; 3] = [1, 16, 1024];

/// The prefetch degree that the paper names.
pub const DEGREE: u32 = 5;

/// The applications of figure 9.
pub const APPLICATIONS: [Kernel; 4] = [Kernel::Gzip, Kernel::Gcc, Kernel::Mcf, Kernel::Gap];

/// Prefetch degrees of figure 9, besides none.
pub const DEGREES: [u32; 6] = [1, 2, 3, 4, DEGREE, 8];
