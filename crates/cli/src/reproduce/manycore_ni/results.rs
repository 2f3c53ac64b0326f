//! The quantities that claims of this paper speak of.

use std::sync::LazyLock;

use rackmem_sim::machine::{self, Machine};
use rackmem_sim::report::{Latency, LinkLoad, Report};

use super::experiment::{Chip, Cores, Design, Experiment, LARGE, Routing};
use crate::reproduce::results;

pub use crate::reproduce::results::Known;

/// The reports of all runs of this paper.
pub type Results = results::Results<Experiment>;

impl results::Experiment for Experiment {
    type Report = Report;
    /// Whether cores that execute a program are held against the synthetic ones.
    type Setting = Cores;

    fn name(&self) -> String {
        Experiment::name(self)
    }

    fn blank() -> Report {
        blank()
    }
}

/// The parts of the latency of the NUMA machine, as the paper projects it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Projection {
    /// Execution of the load.
    pub load: f64,
    /// Way to the chip's edge.
    pub to_edge: f64,
    /// Way to the other chip.
    pub network_out: f64,
    /// There.
    pub rrpp: f64,
    /// Back.
    pub network_back: f64,
    /// Way from the edge to the core.
    pub to_core: f64,
}

impl Projection {
    /// The sum.
    pub fn total(&self) -> f64 {
        self.load + self.to_edge + self.network_out + self.rrpp + self.network_back + self.to_core
    }
}

impl Results {
    /// Mean time of a stage.
    ///
    /// # Errors
    /// The run is missing or has no such stage.
    pub fn stage(&self, experiment: Experiment, stage: &str) -> Known<f64> {
        let found = self.report(experiment)?.stage(stage);
        found
            .or(self.planned(1.0))
            .ok_or_else(|| format!("{} reports no stage {stage}", experiment.name()))
    }

    /// Sum of stages.
    ///
    /// # Errors
    /// As [`Results::stage`].
    pub fn stages(&self, experiment: Experiment, stages: &[&str]) -> Known<f64> {
        stages.iter().map(|stage| self.stage(experiment, stage)).sum()
    }

    /// A counter.
    ///
    /// # Errors
    /// The run is missing or has no such counter.
    pub fn stat(&self, experiment: Experiment, path: &str) -> Known<f64> {
        let found = self.report(experiment)?.stat(path);
        found
            .or(self.planned(1.0))
            .ok_or_else(|| format!("{} reports no counter {path}", experiment.name()))
    }

    /// Mean latency.
    ///
    /// # Errors
    /// The run is missing or measured none.
    pub fn total(&self, experiment: Experiment) -> Known<f64> {
        let latency = self.report(experiment)?.latency;
        let none = || format!("{} reports no latency", experiment.name());
        latency.map(|latency| latency.mean_cycles).ok_or_else(none)
    }

    /// Application bandwidth.
    ///
    /// # Errors
    /// The run is missing.
    pub fn app(&self, experiment: Experiment) -> Known<f64> {
        Ok(self.report(experiment)?.app_gbps)
    }

    /// The largest bandwidth of these runs, and the run that gave it.
    fn best(&self, runs: impl IntoIterator<Item = Experiment>) -> Known<(f64, Experiment)> {
        let mut best: Option<(f64, Experiment)> = None;
        for run in runs {
            let gbps = self.app(run)?;
            if best.is_none_or(|(most, _)| gbps > most) {
                best = Some((gbps, run));
            }
        }
        best.ok_or_else(|| "no runs to look for a peak".to_owned())
    }

    /// The peak of a design over all sizes.
    ///
    /// # Errors
    /// A run is missing.
    pub fn peak(&self, design: Design, chip: Chip) -> Known<(f64, Experiment)> {
        let run = |&bytes| Experiment::bandwidth(design, bytes).on(chip);
        self.best(self.effort.bandwidth_sizes().iter().map(run))
    }

    /// The largest bandwidth that any design reaches with this routing for large objects, and the
    /// run.
    ///
    /// # Errors
    /// A run is missing.
    pub fn routed_peak(&self, routing: Routing) -> Known<(f64, Experiment)> {
        let run = |design| Experiment::bandwidth(design, LARGE).routed(routing);
        self.best(Design::MESSAGING.map(run))
    }

    /// The NUMA machine at one hop, projected as the paper does (section 6.1.1): a load of one
    /// cycle, and all else as the split design has it.
    ///
    /// # Errors
    /// A run is missing.
    pub fn numa(&self) -> Known<Projection> {
        let split = Experiment::latency(Design::Split, 64);
        Ok(Projection {
            load: 1.0,
            to_edge: self.stage(split, "to_backend")?,
            network_out: self.stage(split, "network_out")?,
            rrpp: self.stage(split, "rrpp")?,
            network_back: self.stage(split, "network_back")?,
            to_core: self.stage(split, "to_rcp_frontend")?,
        })
    }

    /// The same at other sizes (section 6.1.3): the split design without its interactions with
    /// queue pairs.
    ///
    /// # Errors
    /// A run is missing.
    pub fn numa_at(&self, bytes: u32) -> Known<f64> {
        let split = |bytes| self.total(Experiment::latency(Design::Split, bytes));
        Ok(split(bytes)? - (split(64)? - self.numa()?.total()))
    }

    /// Cycles that a hop more between the chips adds to a round trip.
    ///
    /// # Errors
    /// The machine file is damaged.
    pub fn round_trip_hop(&self) -> Known<f64> {
        let machine = self.mesh()?;
        Ok(2.0 * machine.cycles(machine.network.hop_latency_ns) as f64)
    }

    /// Latency of a block over so many hops, projected from one hop as in Figure 5.
    ///
    /// # Errors
    /// A run is missing.
    pub fn projected(&self, design: Design, hops: u32) -> Known<f64> {
        let one = match design {
            Design::Numa => self.numa()?.total(),
            design => self.total(Experiment::latency(design, 64))?,
        };
        Ok(one + self.round_trip_hop()? * f64::from(hops - 1))
    }

    /// Overhead over the projected NUMA machine, in per cent.
    ///
    /// # Errors
    /// A run is missing.
    pub fn overhead(&self, design: Design, hops: u32) -> Known<f64> {
        Ok(100.0 * (self.projected(design, hops)? / self.projected(Design::Numa, hops)? - 1.0))
    }

    /// The machine of the paper.
    ///
    /// # Errors
    /// Its file is damaged.
    pub fn mesh(&self) -> Known<Machine> {
        // Nearly every check asks for it, and reading the file takes milliseconds.
        static MACHINE: LazyLock<Known<Machine>> = LazyLock::new(|| built_in("manycore-ni"));
        MACHINE.clone()
    }

    /// The one with NOC-Out.
    ///
    /// # Errors
    /// Its file is damaged.
    pub fn noc_out(&self) -> Known<Machine> {
        static MACHINE: LazyLock<Known<Machine>> =
            LazyLock::new(|| built_in("manycore-ni-noc-out"));
        MACHINE.clone()
    }
}

fn built_in(name: &str) -> Known<Machine> {
    machine::load(name, &[]).map_err(|error| error.to_string())
}

/// A report that answers every question with something.
fn blank() -> Report {
    let latency = Latency {
        count: 1,
        mean_cycles: 1.0,
        min_cycles: 1,
        p50_cycles: 1,
        p99_cycles: 1,
        max_cycles: 1,
    };
    let link = |from, to| LinkLoad { from, to, utilisation: 0.5 };
    Report {
        latency: Some(latency),
        rcp_gbps: 1.0,
        rrpp_gbps: 1.0,
        app_gbps: 2.0,
        noc_gbps: 3.0,
        links: vec![link((0, 0), (0, 1)), link((4, 0), (5, 0)), link((9, 0), (9, 1))],
        ..Report::default()
    }
}
