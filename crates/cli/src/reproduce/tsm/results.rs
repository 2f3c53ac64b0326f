//! The quantities that claims of this paper speak of, out of what programs print and the model
//! counts.

use super::experiment::{
    BLOCKS, Changes, DEGREES, Experiment, Kernel, Machine, Mechanism, Place, Policy, Share, Trial,
    Work,
};
use super::setting::Setting;
use crate::reproduce::results;

pub use crate::reproduce::prebuilt::Report;
pub use crate::reproduce::results::Known;

/// The reports of all runs of this paper.
pub type Results = results::Results<Experiment>;

impl results::Experiment for Experiment {
    type Report = Report;
    type Setting = Setting;

    fn name(&self) -> String {
        Experiment::name(self)
    }
}

/// Counters of the borrowing node's window.
pub mod counter {
    /// TLPs on the link to the borrowing node, both ways; with `_ns`, the time from the first to the
    /// last.
    pub const TLPS: &str = "node[0].window.tlps";
    /// The same of those that the DMA engine has sent to that node's memory.
    pub const DMA_TLPS: &str = "node[0].window.dma_write_tlps";
    /// The most reads at the same time.
    pub const MOST_OUTSTANDING: &str = "node[0].window.most_outstanding";
    /// Mean time of a read, from the cache's request to its line.
    pub const READ_NS: &str = "node[0].window.read_mean_ns";
    /// Stores that went through the caches, combined.
    pub const WRITES: &str = "node[0].window.through_writes";
    /// Copies that they have dropped.
    pub const DROPPED: &str = "node[0].window.through_dropped";
}

impl Results {
    /// A figure that a run printed.
    fn figure(&self, run: Experiment, name: &str) -> Known<f64> {
        let found = self.report(run)?.output[name].as_f64();
        found.or(self.planned(1.0)).ok_or_else(|| format!("{} reports no {name}", run.name()))
    }

    /// A counter of a run.
    fn count(&self, run: Experiment, counter: &str) -> Known<f64> {
        let found = self.report(run)?.stats.get(counter).copied();
        found.or(self.planned(1.0)).ok_or_else(|| format!("{} counts no {counter}", run.name()))
    }

    /// Bandwidth of blocks of a size, in MB/s.
    ///
    /// # Errors
    /// The run is missing.
    pub fn bandwidth(&self, mechanism: Mechanism, bytes: u32) -> Known<f64> {
        self.figure(Experiment::prototype(Work::Transfer(mechanism, bytes)), "mb_per_s")
    }

    /// The most over all block sizes.
    ///
    /// # Errors
    /// A run is missing.
    pub fn most_bandwidth(&self, mechanism: Mechanism) -> Known<f64> {
        let all: Known<Vec<f64>> =
            BLOCKS.iter().map(|&(_, bytes)| self.bandwidth(mechanism, bytes)).collect();
        Ok(all?.into_iter().fold(0.0, f64::max))
    }

    /// TLPs in so many nanoseconds of moving large blocks, as the paper's analyser sees them: of DMA,
    /// those that bring data.
    ///
    /// # Errors
    /// The run is missing.
    pub fn tlps(&self, mechanism: Mechanism, window_ns: f64) -> Known<f64> {
        let run = Experiment::prototype(Work::Transfer(mechanism, 1 << 20));
        let counter = if mechanism == Mechanism::Dma { counter::DMA_TLPS } else { counter::TLPS };
        Ok(self.count(run, counter)? / self.count(run, &format!("{counter}_ns"))? * window_ns)
    }

    /// The most loads that are under way at the same time.
    ///
    /// # Errors
    /// The run is missing.
    pub fn most_loads(&self) -> Known<f64> {
        let run = Experiment::prototype(Work::Transfer(Mechanism::Load, 1 << 20));
        self.count(run, counter::MOST_OUTSTANDING)
    }

    /// Time of a kernel on the PCIe prototype, in ns.
    ///
    /// # Errors
    /// The run is missing.
    pub fn on_prototype(&self, kernel: Kernel, place: Place) -> Known<f64> {
        self.figure(Experiment::prototype(Work::Kernel(kernel, place)), "ns")
    }

    /// Time of a kernel on the simulator, in ns.
    ///
    /// # Errors
    /// The run is missing.
    pub fn on_simulator(&self, kernel: Kernel, place: Place, changes: Changes) -> Known<f64> {
        self.figure(Experiment::simulator(Work::Kernel(kernel, place), changes), "ns")
    }

    /// The same with borrowed memory, without prefetching: figure 8.
    ///
    /// # Errors
    /// The run is missing.
    pub fn borrowed(&self, kernel: Kernel, policy: Policy, outstanding: u32) -> Known<f64> {
        let changes =
            Changes { policy: Some(policy), outstanding: Some(outstanding), ..Changes::default() };
        self.on_simulator(kernel, Place::Remote, changes)
    }

    /// The same with prefetching of so many lines, 0 for none: figure 9.
    ///
    /// # Errors
    /// The run is missing.
    pub fn prefetched(&self, kernel: Kernel, place: Place, degree: u32) -> Known<f64> {
        let changes = Changes { degree: Some(degree), ..Changes::default() };
        self.on_simulator(kernel, place, changes)
    }

    /// Speed-up over the run without prefetching.
    ///
    /// # Errors
    /// A run is missing.
    pub fn speedup(&self, kernel: Kernel, place: Place, degree: u32) -> Known<f64> {
        Ok(self.prefetched(kernel, place, 0)? / self.prefetched(kernel, place, degree)?)
    }

    /// The smallest degree that is as good as the best, within 2 %.
    ///
    /// # Errors
    /// A run is missing.
    pub fn best_degree(&self, kernel: Kernel, place: Place) -> Known<f64> {
        let mut all = vec![];
        for degree in DEGREES {
            all.push((degree, self.prefetched(kernel, place, degree)?));
        }
        let best = all.iter().map(|&(_, ns)| ns).fold(f64::INFINITY, f64::min);
        let found = all.iter().find(|&&(_, ns)| ns <= best * 1.02).map(|&(degree, _)| degree);
        found.map(f64::from).ok_or_else(|| "no degree was run".to_owned())
    }

    /// Mean time from the last-level cache's request for a line of borrowed memory to the line, in ns.
    ///
    /// # Errors
    /// The run is missing.
    pub fn remote_latency(&self) -> Known<f64> {
        let run = Experiment::simulator(
            Work::Kernel(Kernel::Chase, Place::Remote),
            Changes { degree: Some(0), ..Changes::default() },
        );
        self.count(run, counter::READ_NS)
    }

    /// A figure of a program that shares memory.
    ///
    /// # Errors
    /// The run is missing.
    pub fn shared(&self, machine: Machine, share: Share, name: &str) -> Known<f64> {
        let run = Experiment { machine, work: Work::Share(share), changes: Changes::default() };
        self.figure(run, name)
    }

    /// Copies dropped for each write that went through the caches of the prototype to a line that was
    /// in them.
    ///
    /// # Errors
    /// The run is missing.
    pub fn dropped_per_write(&self) -> Known<f64> {
        let run = Experiment::prototype(Work::Share(Share::Policy));
        Ok(self.count(run, counter::DROPPED)? / self.count(run, counter::WRITES)?)
    }

    /// A figure that the runtime has measured on this host.
    ///
    /// # Errors
    /// This host does not let it, or the run is missing.
    pub fn on_host(&self, trial: Trial, name: &str) -> Known<f64> {
        self.setting.host.clone()?;
        self.figure(Experiment::on_host(trial), name)
    }

    /// A number of a machine.
    ///
    /// # Errors
    /// It has none of this name.
    pub fn number_of(&self, machine: Machine, path: &str) -> Known<f64> {
        let Setting { simulator, prototype, thunder, .. } = &self.setting;
        let table = match machine {
            Machine::Simulator => simulator,
            Machine::Prototype => prototype,
            Machine::Thunder => thunder,
            Machine::Host => return Err("the host has no machine file".to_owned()),
        };
        let table = table.as_ref().map_err(String::clone)?;
        let missing = || format!("the machine has no {path}");
        let mut keys = path.split('.');
        let first = keys.next().and_then(|key| table.get(key)).ok_or_else(missing)?;
        let value = keys.try_fold(first, |value, key| value.get(key).ok_or_else(missing))?;
        let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
        number.ok_or_else(|| format!("{path} of the machine is not a number"))
    }
}
