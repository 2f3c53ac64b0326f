//! Short runs that together read all settings.

use std::path::Path;

use rackmem_sim::exec::{self, Job};
use rackmem_sim::machine::{Machine, Use};
use rackmem_sim::run::memory::{self, Access, Generator, Pattern};
use rackmem_sim::{recipe, run};

/// What is done with a machine.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Its own workload.
    Workload,
    /// A ready-made program on so many nodes, for so many cycles at most.
    Program(u16, u64, &'static [&'static str]),
    /// Traffic to the memory alone.
    Memory,
}

impl Work {
    pub fn reader(self) -> Use {
        match self {
            Work::Workload => Use::Workload,
            Work::Program(..) => Use::Program,
            Work::Memory => Use::Memory,
        }
    }
}

/// Paths and values.
type Settings = &'static [(&'static str, &'static str)];

/// A short run of a machine.
#[derive(Debug)]
pub struct One {
    pub machine: &'static str,
    pub settings: Settings,
    pub work: Work,
}

/// Most cycles of a program.
const CYCLES: u64 = 150_000;

/// Of one that takes a while to begin.
const MANY_CYCLES: u64 = 600_000;

/// Most cycles of a workload: some values make it endless.
const MOST_CYCLES: u64 = 10_000_000;

const fn workload(machine: &'static str, settings: Settings) -> One {
    One { machine, settings, work: Work::Workload }
}

const fn program(
    nodes: u16,
    argv: &'static [&'static str],
    machine: &'static str,
    settings: Settings,
) -> One {
    One { machine, settings, work: Work::Program(nodes, CYCLES, argv) }
}

const fn long(
    nodes: u16,
    argv: &'static [&'static str],
    machine: &'static str,
    settings: Settings,
) -> One {
    One { work: Work::Program(nodes, MANY_CYCLES, argv), ..program(nodes, argv, machine, settings) }
}

/// A small chip, and few reads.
macro_rules! small {
    ($($more:expr),*) => {
        &[
            ("tiles.columns", "4"),
            ("tiles.rows", "4"),
            ("memory.controllers", "4"),
            ("workload.footprint_bytes", "1M"),
            $($more),*
        ]
    };
}
const SYNC: (&str, &str) = ("workload.kind", "sync-read");
const READS: (&str, &str) = ("run.reads", "3");
const WARM_UP: (&str, &str) = ("workload.warmup_reads", "2");
const WINDOW: (&str, &str) = ("run.window_cycles", "3000");
const FIRST: (&str, &str) = ("run.min_windows", "1");
const SHORT: [(&str, &str); 2] = [("experiment.count", "60"), ("experiment.warm_up", "10")];
const LAST: (&str, &str) = ("run.max_windows", "3");

const fn memory(machine: &'static str, settings: Settings) -> One {
    One { machine, settings, work: Work::Memory }
}

pub const USES: &[One] = &[
    workload("manycore-ni", small!(SYNC, READS, WARM_UP)),
    workload("manycore-ni", small!(WINDOW, FIRST, LAST)),
    workload(
        "manycore-ni",
        small!(WINDOW, FIRST, LAST, ("ni.placement", "edge"), ("workload.rate", "1.0")),
    ),
    workload(
        "manycore-ni",
        small!(SYNC, READS, WARM_UP, ("ni.placement", "per-tile"), ("ni.cache", "separate")),
    ),
    workload("manycore-ni", small!(SYNC, READS, WARM_UP, ("ni.placement", "uncached"))),
    workload("manycore-ni", small!(SYNC, READS, WARM_UP, ("memory.model", "ddr3"))),
    workload("manycore-ni", small!(WINDOW, FIRST, LAST, ("network.remote", "nodes"))),
    workload("manycore-ni", small!(WINDOW, FIRST, LAST, ("run.precision_percent", "1000.0"))),
    workload("manycore-ni-numa", small!(READS, WARM_UP)),
    workload("manycore-ni-noc-out", small!(SYNC, READS, WARM_UP)),
    workload("rack-torus", &[("rack.topology", "torus:4x4"), ("run.window_cycles", "2000"), LAST]),
    workload(
        "rack-torus",
        &[
            ("rack.topology", "torus:4x4"),
            ("run.window_cycles", "2000"),
            LAST,
            ("traffic.pattern", "hot-spot"),
            ("traffic.loop", "open"),
        ],
    ),
    workload("deoi", &[("experiment.count", "200"), ("experiment.warm_up", "10")]),
    workload(
        "deoi",
        &[("experiment.count", "200"), ("experiment.warm_up", "10"), ("experiment.place", "local")],
    ),
    workload("deoi", &[("experiment.kind", "nic-send"), SHORT[0], SHORT[1]]),
    workload("deoi", &[("experiment.kind", "nic-receive"), SHORT[0], SHORT[1]]),
    workload("deoi", &[("experiment.kind", "nic-ping-pong"), SHORT[0], SHORT[1]]),
    workload("deoi", &[("experiment.kind", "rdma"), SHORT[0], SHORT[1]]),
    workload("thunder", &SHORT),
    workload("thunder", &[("qpair.buffers", "cached"), SHORT[0], SHORT[1]]),
    workload(
        "thunder",
        &[("qpair.buffers", "uncached"), ("qpair.translation", "call"), SHORT[0], SHORT[1]],
    ),
    workload("thunder", &[("experiment.kind", "qpair-stream"), SHORT[0], SHORT[1]]),
    program(2, &["rack_test"], "sonuma", &[]),
    program(
        2,
        &["many_reads", "--threads", "2", "--async", "--bytes", "4096"],
        "sonuma",
        &[("tiles.columns", "2"), ("rmc.tlb_entries", "1")],
    ),
    program(2, &["lan_test", "ping", "2", "6"], "sonuma", &[]),
    program(2, &["window_test"], "pcie-ntb", &[]),
    long(
        2,
        &["tsm_transfer", "--mechanism", "dma", "--block-bytes", "4K", "--bytes", "64K"],
        "pcie-ntb",
        &[],
    ),
    long(
        2,
        &["tsm_kernels", "--kernel", "b3", "--remote", "--llc-bytes", "64K"],
        "tsm-sim",
        &[("llc.size_bytes", "64K"), ("prefetch.remote_degree", "4")],
    ),
    program(2, &["tsm_share"], "tsm-sim", &[]),
    program(
        2,
        &["tsm_arenas", "--gets=400", "--own-bytes=2500K", "--borrowed-bytes=4K"],
        "deoi-cores",
        &[("memory.size_bytes", "4M"), ("window.lent_bytes", "1M"), ("window.plug_bytes", "512K")],
    ),
    long(
        2,
        &["tsm_kernels", "--kernel", "b3", "--remote", "--llc-bytes", "64K"],
        "deoi-cores",
        &[("llc.size_bytes", "64K"), ("extension.lost_per_million", "20000")],
    ),
    long(2, &["tsm_qpair", "--sizes=4K", "--rounds=2", "--messages=20"], "thunder-cores", &[]),
    long(2, &["tsm_rdma", "--block-bytes=16K", "--blocks=4"], "thunder-cores", &[]),
    long(2, &["deoi_nic", "--sizes=1024", "--frames=60"], "deoi-cores", &[]),
    program(
        2,
        &["tsm_kernels", "--kernel", "b4", "--remote", "--llc-bytes", "64K"],
        "thunder-cores",
        &[("llc.size_bytes", "64K"), ("window.coherent", "true"), ("window.heap", "true")],
    ),
    program(1, &["scr_test"], "cache-integrated", &[]),
    program(1, &["scr_test", "refused"], "cache-integrated", &[("scratchpad.nacks", "true")]),
    long(
        1,
        &["fft", "--n", "64", "--cores", "4", "--mechanism", "stores"],
        "cache-integrated",
        &[],
    ),
    long(1, &["fft", "--n", "64", "--cores", "2", "--mechanism", "dma"], "cache-integrated", &[]),
    long(1, &["sync_bench", "--lock", "lockbox", "--cores", "4"], "cache-integrated", &[]),
    program(
        2,
        &["rack_test"],
        "manycore-ni",
        &[
            ("tiles.columns", "2"),
            ("tiles.rows", "2"),
            ("memory.controllers", "2"),
            ("network.remote", "nodes"),
            ("ni.completion", "acknowledged"),
        ],
    ),
    memory("ddr4-2400", &[]),
    memory("ddr4-2400", &[("dram.scheduler", "fr-fcfs"), ("dram.write_high", "24")]),
];

impl One {
    /// All that a run gives but for its time; the complaint if it gives nothing.
    pub fn signature(&self, machine: &Machine) -> String {
        let options =
            run::Options { progress: Some(&|cycles| cycles < MOST_CYCLES), ..Default::default() };
        match self.work {
            Work::Workload => match run::run(machine, &options) {
                Err(error) => error.to_string(),
                Ok(mut report) => {
                    (report.recipe, report.machine, report.seconds) =
                        (recipe::Recipe::default(), String::new(), 0.0);
                    format!("{report:?}")
                }
            },
            Work::Memory => {
                let size = machine.memory.size_bytes;
                let each = [Pattern::RandomWriteThird, Pattern::Stream].map(|pattern| {
                    let traffic = Generator::new(pattern, 1, 5_000, size, 1);
                    memory::run(machine, traffic.map(Ok::<Access, String>), None, |_| Ok(()))
                });
                format!("{each:?}")
            }
            Work::Program(nodes, cycles, argv) => {
                let name = argv[0];
                let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join(format!("../../programs/prebuilt/{name}.rv64"));
                let program = std::fs::read(path).expect("a ready-made program");
                let args: Vec<String> = argv.iter().map(|&arg| arg.to_owned()).collect();
                let job = Job { program: &program, args: &args, env: &[], nodes };
                let options = exec::Options { max_cycles: Some(cycles), ..Default::default() };
                match exec::run(machine, &[job], options) {
                    Err(error) => error.to_string(),
                    Ok(outcome) => {
                        format!("{} {:?} {:?}", outcome.cycles, outcome.stats, outcome.nodes)
                    }
                }
            }
        }
    }
}
