//! The runs that claims are measured by.

use rackmem_sim::machine::{self, Machine, Override};

use crate::reproduce::results::{Effort, Known};

/// Network on chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Chip {
    /// Mesh of 8 by 8 tiles.
    Mesh,
    /// Trees along the columns and a flattened butterfly between LLC tiles (section 6.3).
    NocOut,
}

/// Placement of the network interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Design {
    /// At the edge.
    Edge,
    /// In every tile.
    PerTile,
    /// Both.
    Split,
    /// Loads instead of queue pairs.
    Numa,
}

impl Design {
    /// The three with queue pairs.
    pub const MESSAGING: [Design; 3] = [Design::Edge, Design::PerTile, Design::Split];

    /// Value of `ni.placement` in machine files.
    pub fn name(self) -> &'static str {
        match self {
            Design::Edge => "edge",
            Design::PerTile => "per-tile",
            Design::Split => "split",
            Design::Numa => "numa",
        }
    }

    /// Name of the design in the paper.
    pub fn title(self) -> &'static str {
        match self {
            Design::Edge => "NI_edge",
            Design::PerTile => "NI_per-tile",
            Design::Split => "NI_split",
            Design::Numa => "NUMA",
        }
    }
}

/// Route of packets through the mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Routing {
    /// The paper's own.
    CdrDirectory,
    /// The original class-based one.
    Cdr,
    /// Rows first or columns first, for all.
    Xy,
    /// The other one.
    Yx,
    /// Either, by chance.
    O1turn,
}

impl Routing {
    /// Every routing, for comparisons.
    pub const ALL: [Routing; 5] =
        [Routing::Xy, Routing::Yx, Routing::O1turn, Routing::Cdr, Routing::CdrDirectory];
    /// Routings that do not look at the class of a packet.
    pub const WITHOUT_CLASSES: [Routing; 3] = [Routing::Xy, Routing::Yx, Routing::O1turn];

    /// Value of `noc.routing` in machine files.
    pub fn name(self) -> &'static str {
        match self {
            Routing::CdrDirectory => "cdr-directory",
            Routing::Cdr => "cdr",
            Routing::Xy => "xy",
            Routing::Yx => "yx",
            Routing::O1turn => "o1turn",
        }
    }
}

/// Change of the machine for an ablation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Twist {
    /// Nothing.
    None,
    /// Plain MESI in the NI cache.
    NoOwnedState,
    /// An NI cache of its own in every tile.
    SeparateCache,
    /// Links of twice the width.
    WideNoc,
    /// Limit on lines under way per interface.
    FlowControl(u32),
}

/// Source of the reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cores {
    /// The instructions that the paper counts, in place of cores.
    #[default]
    Synthetic,
    /// Cores that execute a program.
    Executed,
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Experiment {
    /// Network on chip.
    pub chip: Chip,
    /// Placement of the interfaces.
    pub design: Design,
    /// Whether all cores issue as fast as they can, or one after the other waits for its reads.
    pub loaded: bool,
    /// Size of a read.
    pub bytes: u32,
    /// Hops between the chips.
    pub hops: u32,
    /// Route of packets.
    pub routing: Routing,
    /// Change of the machine.
    pub twist: Twist,
    /// Source of the reads.
    pub cores: Cores,
}

impl Experiment {
    /// Synchronous reads on an unloaded mesh.
    pub fn latency(design: Design, bytes: u32) -> Experiment {
        Experiment {
            chip: Chip::Mesh,
            design,
            loaded: false,
            bytes,
            hops: 1,
            routing: Routing::CdrDirectory,
            twist: Twist::None,
            cores: Cores::Synthetic,
        }
    }

    /// The same with cores that execute a program.
    #[must_use]
    pub fn executed(self) -> Experiment {
        Experiment { cores: Cores::Executed, ..self }
    }

    /// Asynchronous reads by all cores of a mesh.
    pub fn bandwidth(design: Design, bytes: u32) -> Experiment {
        Experiment { loaded: true, ..Experiment::latency(design, bytes) }
    }

    /// The same on another network.
    #[must_use]
    pub fn on(self, chip: Chip) -> Experiment {
        Experiment { chip, ..self }
    }

    /// The same with other routing.
    #[must_use]
    pub fn routed(self, routing: Routing) -> Experiment {
        Experiment { routing, ..self }
    }

    /// The same with the chips further apart.
    #[must_use]
    pub fn hops(self, hops: u32) -> Experiment {
        Experiment { hops, ..self }
    }

    /// The same with a change.
    #[must_use]
    pub fn with(self, twist: Twist) -> Experiment {
        Experiment { twist, ..self }
    }

    /// Its name: `mesh/split/async/8192`, and its further settings that are not as usual.
    pub fn name(&self) -> String {
        let chip = if self.chip == Chip::Mesh { "mesh" } else { "noc-out" };
        let work = if self.loaded { "async" } else { "sync" };
        let mut name = format!("{chip}/{}/{work}/{}", self.design.name(), self.bytes);
        if self.hops != 1 {
            name += &format!("/{}-hops", self.hops);
        }
        if self.routing != Routing::CdrDirectory {
            name += &format!("/{}", self.routing.name());
        }
        match self.twist {
            Twist::None => {}
            Twist::NoOwnedState => name += "/no-owned-state",
            Twist::SeparateCache => name += "/separate-cache",
            Twist::WideNoc => name += "/wide-noc",
            Twist::FlowControl(lines) => name += &format!("/{lines}-lines"),
        }
        if self.cores == Cores::Executed {
            name += "/executed";
        }
        name
    }

    /// The built-in machine that it starts from.
    fn base(&self) -> &'static str {
        match (self.design, self.chip) {
            (Design::Numa, _) => "manycore-ni-numa",
            (_, Chip::NocOut) => "manycore-ni-noc-out",
            (_, Chip::Mesh) => "manycore-ni",
        }
    }

    /// The machine that is run.
    ///
    /// # Errors
    /// A machine file and this table have parted.
    pub fn machine(&self, effort: Effort) -> Known<Machine> {
        let mut settings = vec![
            Override::new("name", format!("\"{}\"", self.name())),
            Override::new("ni.placement", self.design.name()),
            Override::new("workload.kind", if self.loaded { "async-read" } else { "sync-read" }),
            Override::new("workload.transfer_bytes", self.bytes),
            Override::new("workload.cores", 0),
            Override::new("network.hops", self.hops),
        ];
        if self.chip == Chip::Mesh {
            settings.push(Override::new("noc.routing", self.routing.name()));
        }
        settings.extend(self.twist.settings());
        settings.extend(effort.settings(self));
        machine::load(self.base(), &settings).map_err(|error| format!("{}: {error}", self.name()))
    }

    /// Length of a short window. Large reads march in step for some 300 000 cycles from the start,
    /// before bandwidth is at its height: where the peak itself is measured they get that long.
    fn quick_window_cycles(&self) -> u64 {
        let usual = Experiment::bandwidth(self.design, LARGE);
        if *self == usual { 150_000 } else { 60_000 }
    }

    /// Estimate of the host's time, relative to other runs.
    pub fn cost(&self) -> u64 {
        let lines = u64::from(self.bytes.div_ceil(64));
        if self.loaded { 10_000 + lines } else { 1_000 + 20 * lines }
    }
}

impl Twist {
    fn settings(self) -> Vec<Override> {
        match self {
            Twist::None => vec![],
            Twist::NoOwnedState => vec![Override::new("ni.owned_state", false)],
            Twist::SeparateCache => vec![Override::new("ni.cache", "separate")],
            Twist::WideNoc => vec![Override::new("noc.link_bytes", 32)],
            Twist::FlowControl(lines) => vec![Override::new("ni.max_outstanding_lines", lines)],
        }
    }
}

/// Size of the paper's large objects (section 1): bandwidth is at its height there, and routings are compared.
pub const LARGE: u32 = 8192;

/// Sizes of the paper: 64 B to 16 KB; the steps between are not in its text.
const ALL_SIZES: [u32; 9] = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];

impl Effort {
    /// Sizes of latency curves.
    pub fn latency_sizes(self) -> &'static [u32] {
        match self {
            Effort::Quick => &[64, 1024, 16384],
            Effort::Full => &ALL_SIZES,
        }
    }

    /// Sizes of bandwidth curves.
    pub fn bandwidth_sizes(self) -> &'static [u32] {
        match self {
            Effort::Quick => &[64, 512, 8192],
            Effort::Full => &ALL_SIZES,
        }
    }

    /// Sizes at which curves with and without classes are compared.
    pub fn shape_sizes(self) -> &'static [u32] {
        match self {
            Effort::Quick => &[64, 8192],
            Effort::Full => &[64, 512, 8192],
        }
    }

    /// Hops at which the projection is held against a simulation.
    pub fn simulated_hops(self) -> &'static [u32] {
        match self {
            Effort::Quick => &[12],
            Effort::Full => &[1, 6, 12],
        }
    }

    /// Limits of lines under way that are tried for source-based flow control.
    pub fn flow_limits(self) -> &'static [u32] {
        match self {
            Effort::Quick => &[32],
            Effort::Full => &[8, 32, 128],
        }
    }

    fn settings(self, experiment: &Experiment) -> Vec<Override> {
        match (self, experiment.loaded) {
            // Large reads one after the other hardly differ: fewer of them have the same mean.
            (Effort::Full, false) if experiment.bytes > 512 => {
                vec![Override::new("run.reads", 20), Override::new("workload.warmup_reads", 20)]
            }
            (Effort::Full, _) => vec![],
            (Effort::Quick, true) => vec![
                Override::new("run.window_cycles", experiment.quick_window_cycles()),
                Override::new("run.min_windows", 2),
                Override::new("run.max_windows", 3),
            ],
            // A block depends on where its queue entries are: a whole lap of the queues counts.
            (Effort::Quick, false) if experiment.bytes == 64 => vec![],
            (Effort::Quick, false) => {
                vec![Override::new("run.reads", 4), Override::new("workload.warmup_reads", 4)]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rackmem_sim::machine::spec::{NocRouting, NocTopology, Placement, WorkloadKind};

    use super::*;

    #[test]
    fn experiments_become_machines() {
        let run = Experiment::bandwidth(Design::PerTile, 8192)
            .routed(Routing::Xy)
            .with(Twist::FlowControl(32));
        assert_eq!(run.name(), "mesh/per-tile/async/8192/xy/32-lines");
        let machine = run.machine(Effort::Quick).unwrap();
        assert_eq!(
            (machine.ni.placement, machine.noc.routing),
            (Placement::PerTile, NocRouting::Xy)
        );
        assert_eq!((machine.ni.max_outstanding_lines, machine.run.max_windows), (32, 3));
        let machine = run.machine(Effort::Full).unwrap();
        assert_eq!((machine.run.window_cycles, machine.run.stable_percent), (500_000, 1.0));
        let run = Experiment::latency(Design::Split, 64).on(Chip::NocOut).hops(6);
        assert_eq!(run.name(), "noc-out/split/sync/64/6-hops");
        let machine = run.machine(Effort::Quick).unwrap();
        assert_eq!((machine.noc.topology, machine.network.hops), (NocTopology::NocOut, 6));
        assert_eq!((machine.workload.kind, machine.run.reads), (WorkloadKind::SyncRead, 128));
        let numa = Experiment::latency(Design::Numa, 64).machine(Effort::Full).unwrap();
        assert_eq!(numa.ni.placement, Placement::Numa);
    }

    #[test]
    fn every_twist_is_a_setting_that_exists() {
        for twist in
            [Twist::NoOwnedState, Twist::SeparateCache, Twist::WideNoc, Twist::FlowControl(8)]
        {
            let plain = Experiment::bandwidth(Design::Split, 64);
            let machine = plain.with(twist).machine(Effort::Quick).unwrap();
            assert_ne!(machine, plain.machine(Effort::Quick).unwrap(), "{twist:?}");
        }
    }
}
