//! The runs that claims are measured by: programs on a chip.

use crate::reproduce::results::Effort;

/// A lock of `sync_bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lock {
    /// A multiple-reader queue with a token.
    Queue,
    /// A lock of the prototype's lock box.
    Box,
    /// Mellor-Crummey and Scott's, in coherent memory.
    Mcs,
}

/// A barrier of `sync_bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Barrier {
    /// Counters that notify.
    Counter,
    /// A number that a lock of the lock box guards.
    Mutex,
    /// Mellor-Crummey and Scott's tree, in coherent memory.
    Tree,
}

/// Mechanism by which data go from core to core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// Copies by the network interface.
    Dma,
    /// Remote stores.
    Stores,
}

impl Mechanism {
    /// Name of the mechanism in the programs' arguments.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Dma => "dma",
            Mechanism::Stores => "stores",
        }
    }
}

/// A program whose data stay on the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kernel {
    /// Bitonic sort.
    Bitonic,
    /// Fast Fourier transform.
    Fft,
}

impl Kernel {
    /// The program.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Bitonic => "bitonic",
            Kernel::Fft => "fft",
        }
    }
}

/// Buffers of a core that streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Buffers {
    /// Number of buffers, and bytes of each.
    Of(u32, u32),
    /// The largest there can be, and nothing is computed: the feasible maximum.
    Feasible,
}

/// Work of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Everything that the interface has to do, by a test of it.
    Test,
    /// Time from one core's store to the other's load that sees it.
    RemoteStore,
    /// A lock that all cores want.
    Lock(Lock),
    /// A barrier of all cores.
    Barrier(Barrier),
    /// STREAM triad.
    Stream {
        /// Cores in whose scratchpads the arrays are; none: they are off chip.
        servers: u16,
        /// Mechanism by which data go.
        mechanism: Mechanism,
        /// Buffers of each core that streams.
        buffers: Buffers,
    },
    /// A program whose data stay on the chip.
    Kernel {
        /// Program that runs.
        kernel: Kernel,
        /// Elements.
        n: u32,
        /// Mechanism by which data go.
        mechanism: Mechanism,
    },
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Experiment {
    /// On the simulated chip; else on the prototype.
    pub is_simulated: bool,
    /// Program and its parameters.
    pub work: Work,
    /// On so many cores.
    pub cores: u16,
}

impl Experiment {
    /// A program on the prototype.
    pub fn prototype(work: Work, cores: u16) -> Experiment {
        Experiment { is_simulated: false, work, cores }
    }

    /// A program on the simulated chip.
    pub fn simulated(work: Work, cores: u16) -> Experiment {
        Experiment { is_simulated: true, work, cores }
    }

    /// Its name: `prototype/lock/mrq/4`.
    pub fn name(&self) -> String {
        let chip = if self.is_simulated { "simulated" } else { "prototype" };
        let work = match self.work {
            Work::Test => "scr_test".to_owned(),
            Work::RemoteStore => "remote-store".to_owned(),
            Work::Lock(lock) => format!("lock/{}", lock_name(lock)),
            Work::Barrier(barrier) => format!("barrier/{}", barrier_name(barrier)),
            Work::Stream { servers, mechanism, buffers } => {
                let buffers = match buffers {
                    Buffers::Of(count, bytes) => format!("{count}x{bytes}"),
                    Buffers::Feasible => "feasible".to_owned(),
                };
                format!("stream/{servers}-servers/{}/{buffers}", mechanism.name())
            }
            Work::Kernel { kernel, n, mechanism } => {
                format!("{}/{n}/{}", kernel.name(), mechanism.name())
            }
        };
        format!("{chip}/{work}/{}", self.cores)
    }

    /// Name of the RISC-V program in `programs/prebuilt`, without `.rv64`.
    pub fn program(&self) -> &'static str {
        match self.work {
            Work::Test => "scr_test",
            Work::RemoteStore | Work::Lock(_) | Work::Barrier(_) => "sync_bench",
            Work::Stream { .. } => "stream",
            Work::Kernel { kernel, .. } => kernel.name(),
        }
    }

    /// Times that each core does the measured step, and before that.
    pub fn episodes(&self, effort: Effort) -> (u32, u32) {
        let cores = u32::from(self.cores);
        match (self.is_simulated, effort) {
            (false, _) => (1000, 20),
            (true, Effort::Quick) => (5 + 600 / cores, 3),
            (true, Effort::Full) => (10 + 3000 / cores, 3),
        }
    }

    /// Arguments of the program, without its name.
    pub fn arguments(&self, effort: Effort) -> Vec<String> {
        let mut words: Vec<String> = match self.work {
            Work::Test => return vec![],
            Work::RemoteStore => vec!["--remote-store".to_owned()],
            Work::Lock(lock) => vec![format!("--lock={}", lock_name(lock))],
            Work::Barrier(barrier) => vec![format!("--barrier={}", barrier_name(barrier))],
            Work::Stream { servers, mechanism, buffers } => {
                let mut words = vec![
                    format!("--servers={servers}"),
                    format!("--mechanism={}", mechanism.name()),
                ];
                match buffers {
                    Buffers::Of(count, bytes) => {
                        words.push(format!("--buffers={count}"));
                        words.push(format!("--buffer-bytes={bytes}"));
                    }
                    Buffers::Feasible => words.push("--feasible".to_owned()),
                }
                words
            }
            Work::Kernel { n, mechanism, .. } => {
                let (rounds, warm_up) = if n <= 128 { (10, 2) } else { (2, 1) };
                vec![
                    format!("--n={n}"),
                    format!("--mechanism={}", mechanism.name()),
                    format!("--rounds={rounds}"),
                    format!("--warm-up={warm_up}"),
                ]
            }
        };
        if self.program() == "sync_bench" {
            let (episodes, warm_up) = self.episodes(effort);
            words.extend([format!("--episodes={episodes}"), format!("--warm-up={warm_up}")]);
        }
        if self.is_simulated {
            // Global addresses as pairs are what the prototype's compiler needs (section 5.1).
            words.push("--inline".to_owned());
        }
        if self.work != Work::RemoteStore {
            words.push(format!("--cores={}", self.cores));
        }
        words.push("--json".to_owned());
        words
    }

    /// Estimate of the host's time, relative to other runs.
    pub fn cost(&self) -> u64 {
        let cores = u64::from(self.cores);
        match self.work {
            _ if self.is_simulated => 200 * cores,
            Work::Kernel { n, .. } => 20 + u64::from(n) * u64::from(n) / 64 / cores,
            Work::Test => 1000,
            Work::Lock(_) | Work::Barrier(_) => 50 * cores,
            Work::RemoteStore | Work::Stream { .. } => 100,
        }
    }
}

fn lock_name(lock: Lock) -> &'static str {
    match lock {
        Lock::Queue => "mrq",
        Lock::Box => "lockbox",
        Lock::Mcs => "mcs",
    }
}

fn barrier_name(barrier: Barrier) -> &'static str {
    match barrier {
        Barrier::Counter => "counter",
        Barrier::Mutex => "mutex",
        Barrier::Tree => "tree",
    }
}

/// The prototype's cores in Table 1.
pub const CORES: [u16; 3] = [1, 2, 4];

/// Cores of parallel programs on the prototype.
pub const PARALLEL: [u16; 2] = [2, 4];

/// A buffer of figure 8.
pub const BUFFER: u32 = 1024;

/// The largest input that remote stores are best for, in the paper's words of bitonic sort and, less
/// one, of FFT.
pub const SMALL: u32 = 64;

impl Effort {
    /// Inputs of figures 9 and 10, from the smallest that these cores can share to what fits.
    pub fn inputs(self, kernel: Kernel) -> &'static [u32] {
        match (kernel, self) {
            (Kernel::Bitonic, Effort::Quick) => &[4, 8, 16, 32, 64, 128, 256],
            (Kernel::Bitonic, Effort::Full) => &[4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
            (Kernel::Fft, Effort::Quick) => &[16, 32, 64, 128, 256],
            (Kernel::Fft, Effort::Full) => &[16, 32, 64, 128, 256, 512, 1024, 2048],
        }
    }

    /// Numbers of buffers of figure 8.
    pub fn buffers(self) -> &'static [u32] {
        match self {
            Effort::Quick => &[1, 2, 3, 4],
            Effort::Full => &[1, 2, 3, 4, 6, 8],
        }
    }

    /// Sizes of buffers of figure 8.
    pub fn buffer_sizes(self) -> &'static [u32] {
        match self {
            Effort::Quick => &[256, BUFFER],
            Effort::Full => &[256, 512, BUFFER, 2048],
        }
    }

    /// Cores of figure 11.
    pub fn many_cores(self) -> &'static [u16] {
        match self {
            Effort::Quick => &[16, 128],
            Effort::Full => &[16, 32, 64, 128],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_become_command_lines() {
        let line = |run: Experiment| run.arguments(Effort::Quick).join(" ");
        assert_eq!(
            line(Experiment::prototype(Work::Lock(Lock::Queue), 4)),
            "--lock=mrq --episodes=1000 --warm-up=20 --cores=4 --json"
        );
        assert_eq!(
            line(Experiment::simulated(Work::Barrier(Barrier::Tree), 128)),
            "--barrier=tree --episodes=9 --warm-up=3 --inline --cores=128 --json"
        );
        let stream = |buffers| Work::Stream { servers: 1, mechanism: Mechanism::Dma, buffers };
        assert_eq!(
            line(Experiment::prototype(stream(Buffers::Of(3, BUFFER)), 4)),
            "--servers=1 --mechanism=dma --buffers=3 --buffer-bytes=1024 --cores=4 --json"
        );
        assert!(line(Experiment::prototype(stream(Buffers::Feasible), 4)).contains("--feasible"));
        let sort = Work::Kernel { kernel: Kernel::Bitonic, n: 256, mechanism: Mechanism::Stores };
        let sort = Experiment::prototype(sort, 2);
        assert_eq!(
            line(sort),
            "--n=256 --mechanism=stores --rounds=2 --warm-up=1 --cores=2 --json"
        );
        assert_eq!(
            (sort.name().as_str(), sort.program()),
            ("prototype/bitonic/256/stores/2", "bitonic")
        );
        assert_eq!(line(Experiment::prototype(Work::Test, 4)), "");
    }
}
