//! The runs that claims are measured by: programs on a platform.

use crate::reproduce::results::Effort;

/// Platform of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Platform {
    /// The cycle-level model, for the paper's simulated hardware.
    Model,
    /// The runtime on this host, for the paper's development platform.
    Host,
}

impl Platform {
    /// Name of the platform in names of runs.
    pub fn name(self) -> &'static str {
        match self {
            Platform::Model => "model",
            Platform::Host => "host",
        }
    }
}

/// Size from which on a message is pulled by its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Threshold {
    /// Every size: 0.
    Pull,
    /// This number of bytes.
    From(u32),
    /// Never: infinity.
    Push,
}

impl Threshold {
    /// Value of `netpipe --threshold`.
    pub fn name(self) -> String {
        match self {
            Threshold::Pull => "0".to_owned(),
            Threshold::From(bytes) => bytes.to_string(),
            Threshold::Push => "inf".to_owned(),
        }
    }
}

/// A way to compute PageRank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// One thread, which speed-ups refer to.
    Serial,
    /// Threads of a node.
    Shm,
    /// Each node pulls its peers' results once per superstep.
    Bulk,
    /// A remote read per edge between nodes.
    Fine,
}

impl Variant {
    /// The variants that the paper compares.
    pub const PARALLEL: [Variant; 3] = [Variant::Shm, Variant::Bulk, Variant::Fine];

    /// Value of `pagerank --variant`.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Serial => "serial",
            Variant::Shm => "shm",
            Variant::Bulk => "bulk",
            Variant::Fine => "fine",
        }
    }

    /// Name of the variant in the paper.
    pub fn title(self) -> &'static str {
        match self {
            Variant::Serial => "serial",
            Variant::Shm => "SHM(pthreads)",
            Variant::Bulk => "soNUMA(bulk)",
            Variant::Fine => "soNUMA(fine-grain)",
        }
    }
}

/// Work of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Small synchronous reads and nothing else, so that counters are those of such a read.
    SmallReads,
    /// Reads of all sizes and fetch-and-add, from one node or from both.
    Reads {
        /// Whether both nodes read from each other.
        both: bool,
    },
    /// Messages of all sizes.
    Messages(Threshold),
    /// PageRank.
    PageRank {
        /// Way to compute it.
        variant: Variant,
        /// On so many nodes, or cores of one node.
        ways: u16,
    },
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Experiment {
    /// The model or this host.
    pub platform: Platform,
    /// Program and its parameters.
    pub work: Work,
}

impl Experiment {
    /// `work` on `platform`.
    pub fn new(platform: Platform, work: Work) -> Experiment {
        Experiment { platform, work }
    }

    /// Its name: `model/pagerank/bulk/8`.
    pub fn name(&self) -> String {
        let work = match self.work {
            Work::SmallReads => "remote_read/small".to_owned(),
            Work::Reads { both: false } => "remote_read/single-sided".to_owned(),
            Work::Reads { both: true } => "remote_read/double-sided".to_owned(),
            Work::Messages(threshold) => format!("netpipe/{}", threshold.name()),
            Work::PageRank { variant, ways } => format!("pagerank/{}/{ways}", variant.name()),
        };
        format!("{}/{work}", self.platform.name())
    }

    /// Name of the program in `programs/prebuilt`, without `.rv64`, and of the program on this host.
    pub fn program(&self) -> &'static str {
        match self.work {
            Work::SmallReads | Work::Reads { .. } => "remote_read",
            Work::Messages(_) => "netpipe",
            Work::PageRank { .. } => "pagerank",
        }
    }

    /// Nodes that it runs on.
    pub fn nodes(&self) -> u16 {
        match self.work {
            Work::SmallReads | Work::Reads { .. } | Work::Messages(_) => 2,
            Work::PageRank { variant: Variant::Bulk | Variant::Fine, ways } => ways,
            Work::PageRank { .. } => 1,
        }
    }

    /// Cores of each node.
    pub fn cores(&self) -> u16 {
        match self.work {
            Work::PageRank { variant: Variant::Shm, ways } => ways,
            _ => 1,
        }
    }

    /// Arguments of the program, without its name.
    pub fn arguments(&self, effort: Effort, graph: Option<&str>) -> Vec<String> {
        let mut arguments = match self.work {
            Work::SmallReads => {
                let mut arguments = self.reads(effort, &[SMALL], false);
                arguments.push("--sync-reads".to_owned());
                arguments
            }
            Work::Reads { both } => self.reads(effort, effort.read_sizes(), both),
            Work::Messages(threshold) => vec![
                format!("--threshold={}", threshold.name()),
                format!("--sizes={}", list(effort.message_sizes())),
                self.seconds(effort),
            ],
            Work::PageRank { variant, ways } => self.pagerank(effort, variant, ways, graph),
        };
        arguments.push("--json".to_owned());
        arguments
    }

    fn reads(&self, effort: Effort, sizes: &[u32], both: bool) -> Vec<String> {
        let sides = if both { 2 } else { 1 };
        let mut arguments = vec![
            format!("--sizes={}", list(sizes)),
            format!("--sides={sides}"),
            self.seconds(effort),
        ];
        if self.platform == Platform::Model {
            // Sixteen times the LLC: what small reads have brought into it, large ones hardly meet.
            // To fill it would take longer than all reads together, and leave a part in the cache.
            arguments.extend(["--region=64M", "--unfilled"].map(str::to_owned));
        }
        arguments
    }

    /// Time of a figure: programs make as many operations as they need at least, however short it
    /// is.
    fn seconds(&self, effort: Effort) -> String {
        let seconds = match (self.platform, effort) {
            (Platform::Model, Effort::Quick) => "0.00005",
            (Platform::Model, Effort::Full) => "0.0001",
            (Platform::Host, Effort::Quick) => "0.02",
            (Platform::Host, Effort::Full) => "0.2",
        };
        format!("--seconds={seconds}")
    }

    fn pagerank(
        &self,
        effort: Effort,
        variant: Variant,
        ways: u16,
        graph: Option<&str>,
    ) -> Vec<String> {
        let (supersteps, scale) = match (self.platform, effort) {
            (Platform::Model, Effort::Quick) => (SUPERSTEPS_ON_MODEL, 10),
            (Platform::Model, Effort::Full) => (SUPERSTEPS_ON_MODEL, 13),
            (Platform::Host, Effort::Quick) => (SUPERSTEPS_ON_HOST, 14),
            (Platform::Host, Effort::Full) => (SUPERSTEPS_ON_HOST, 18),
        };
        vec![
            format!("--variant={}", variant.name()),
            format!("--threads={ways}"),
            format!("--supersteps={supersteps}"),
            graph.map_or_else(|| format!("--kronecker={scale}"), str::to_owned),
        ]
    }

    /// Estimate of the host's time, relative to other runs on the same platform.
    pub fn cost(&self) -> u64 {
        match self.work {
            Work::SmallReads => 1,
            Work::Messages(_) => 10,
            Work::Reads { .. } => 20,
            Work::PageRank { ways, .. } => 10 * u64::from(ways),
        }
    }
}

/// The size of a small read: a line.
pub const SMALL: u32 = 64;

/// The largest size: the paper's page.
pub const LARGE: u32 = 8192;

/// Supersteps of PageRank on the simulated hardware (section 7.5).
const SUPERSTEPS_ON_MODEL: u32 = 1;

/// Supersteps of PageRank on the development platform (section 7.5).
const SUPERSTEPS_ON_HOST: u32 = 30;

/// Nodes of PageRank on the simulated hardware at most (section 7.5).
pub const MOST_NODES: u16 = 8;

fn list(sizes: &[u32]) -> String {
    sizes.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

impl Effort {
    /// Sizes of Figure 7: a line to a page.
    pub fn read_sizes(self) -> &'static [u32] {
        match self {
            Effort::Quick => &[64, 1024, 8192],
            Effort::Full => &[64, 128, 256, 512, 1024, 2048, 4096, 8192],
        }
    }

    /// Sizes of Figure 8: one word to a page.
    pub fn message_sizes(self) -> &'static [u32] {
        match self {
            Effort::Quick => &[8, 256, 1024, 4096, 8192],
            Effort::Full => &[8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
        }
    }

    /// Nodes, or cores, of Figure 9 on the model.
    pub fn model_nodes(self) -> &'static [u16] {
        match self {
            Effort::Quick => &[2, MOST_NODES],
            Effort::Full => &[2, 4, MOST_NODES],
        }
    }
}

/// Nodes of Figure 9 on a host with so many cores: those of the paper that get a core each.
pub fn host_nodes(cores: usize) -> impl Iterator<Item = u16> {
    [2, 4, 8, 16].into_iter().filter(move |&nodes| usize::from(nodes) <= cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(platform: Platform, work: Work, graph: Option<&str>) -> String {
        Experiment::new(platform, work).arguments(Effort::Quick, graph).join(" ")
    }

    #[test]
    fn experiments_become_command_lines() {
        use Platform::{Host, Model};
        assert_eq!(
            line(Model, Work::Reads { both: true }, None),
            "--sizes=64,1024,8192 --sides=2 --seconds=0.00005 --region=64M --unfilled --json"
        );
        assert_eq!(
            line(Host, Work::Messages(Threshold::From(512)), None),
            "--threshold=512 --sizes=8,256,1024,4096,8192 --seconds=0.02 --json"
        );
        let fine = Work::PageRank { variant: Variant::Fine, ways: 4 };
        assert_eq!(
            line(Model, fine, Some("/g.txt")),
            "--variant=fine --threads=4 --supersteps=1 /g.txt --json"
        );
        assert!(line(Host, fine, None).contains("--supersteps=30 --kronecker=14"));
        assert!(line(Model, Work::SmallReads, None).contains("--sizes=64 --sides=1 "));
    }

    #[test]
    fn threads_are_cores_of_one_node_and_nodes_have_one_core() {
        let run = |variant| Experiment::new(Platform::Model, Work::PageRank { variant, ways: 8 });
        let shape = |variant| (run(variant).nodes(), run(variant).cores());
        assert_eq!(shape(Variant::Shm), (1, 8));
        assert_eq!(shape(Variant::Bulk), (8, 1));
        assert_eq!(run(Variant::Fine).name(), "model/pagerank/fine/8");
        assert_eq!(host_nodes(5).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(host_nodes(1).count(), 0);
    }
}
