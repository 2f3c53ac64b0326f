//! The quantities that claims of this paper speak of, out of what programs print and the model
//! counts.

use super::experiment::{
    Barrier, Buffers, Experiment, Kernel, Lock, Mechanism, PARALLEL, SMALL, Work,
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

/// Counters of the model that claims need; of each, all whose path ends so.
pub mod counter {
    /// Lines that homes were asked for and had.
    pub const HOME_HITS: &str = ".llc_hits";
    /// Lines that homes were asked for and did not have.
    pub const HOME_MISSES: &str = ".llc_misses";
    /// Remote stores of cores.
    pub const REMOTE_STORES: &str = ".remote_stores";
}

/// A step of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Taking it.
    Acquire,
    /// Freeing it.
    Release,
    /// Taking and freeing it.
    Total,
}

/// A part of a program's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// All of it.
    Total,
    /// Computation of a core, on average.
    Computation,
    /// Communication of a core, on average.
    Communication,
}

fn stream_run(cores: u16, servers: u16, mechanism: Mechanism, buffers: Buffers) -> Experiment {
    Experiment::prototype(Work::Stream { servers, mechanism, buffers }, cores)
}

impl Results {
    /// A figure that a run printed.
    fn figure(&self, run: Experiment, name: &str) -> Known<f64> {
        let found = self.report(run)?.output[name].as_f64();
        found.or(self.planned(1.0)).ok_or_else(|| format!("{} reports no {name}", run.name()))
    }

    /// Cycles of a lock that all cores want.
    ///
    /// # Errors
    /// The run is missing.
    pub fn lock(&self, is_simulated: bool, lock: Lock, cores: u16, step: Step) -> Known<f64> {
        let run = Experiment { is_simulated, work: Work::Lock(lock), cores };
        self.figure(
            run,
            match step {
                Step::Acquire => "acquire_cycles",
                Step::Release => "release_cycles",
                Step::Total => "total_cycles",
            },
        )
    }

    /// Cycles of a barrier of all cores.
    ///
    /// # Errors
    /// The run is missing.
    pub fn barrier(&self, is_simulated: bool, barrier: Barrier, cores: u16) -> Known<f64> {
        let run = Experiment { is_simulated, work: Work::Barrier(barrier), cores };
        self.figure(run, "episode_cycles")
    }

    /// Cycles from a store to the load that sees it, at another core.
    ///
    /// # Errors
    /// The run is missing.
    pub fn one_way(&self) -> Known<f64> {
        self.figure(Experiment::prototype(Work::RemoteStore, 2), "one_way_cycles")
    }

    /// Bytes per cycle of STREAM: of `streaming` cores, besides those that serve.
    ///
    /// # Errors
    /// The run is missing.
    pub fn stream(
        &self,
        streaming: u16,
        servers: u16,
        mechanism: Mechanism,
        buffers: Buffers,
    ) -> Known<f64> {
        let run = stream_run(streaming + servers, servers, mechanism, buffers);
        self.figure(run, "bytes_per_cycle")
    }

    /// Bytes per cycle at most: with all four cores and the largest buffers, and nothing computed.
    ///
    /// # Errors
    /// The run is missing.
    pub fn feasible(&self, servers: u16, mechanism: Mechanism) -> Known<f64> {
        self.stream(4 - servers, servers, mechanism, Buffers::Feasible)
    }

    /// Remote stores for each word of the arrays, if these go by stores on the chip.
    ///
    /// # Errors
    /// The run is missing.
    pub fn stores_per_word(&self) -> Known<f64> {
        let run = stream_run(4, 1, Mechanism::Stores, Buffers::Feasible);
        Ok(self.count(run, counter::REMOTE_STORES)? / (self.figure(run, "bytes")? / 8.0))
    }

    /// Cycles of a program.
    ///
    /// # Errors
    /// The run is missing.
    pub fn kernel(
        &self,
        kernel: Kernel,
        n: u32,
        cores: u16,
        mechanism: Mechanism,
        time: Time,
    ) -> Known<f64> {
        let run = Experiment::prototype(Work::Kernel { kernel, n, mechanism }, cores);
        self.figure(
            run,
            match time {
                Time::Total => "total_cycles",
                Time::Computation => "computation_cycles",
                Time::Communication => "communication_cycles",
            },
        )
    }

    /// Speed-up over one core.
    ///
    /// # Errors
    /// A run is missing.
    pub fn speedup(&self, kernel: Kernel, n: u32, cores: u16, mechanism: Mechanism) -> Known<f64> {
        let alone = self.kernel(kernel, n, 1, Mechanism::Dma, Time::Total)?;
        Ok(alone / self.kernel(kernel, n, cores, mechanism, Time::Total)?)
    }

    /// The best over all inputs of speed-up per core, in per cent.
    ///
    /// # Errors
    /// A run is missing.
    pub fn efficiency(&self, kernel: Kernel, cores: u16, mechanism: Mechanism) -> Known<f64> {
        let of = |&n: &u32| self.speedup(kernel, n, cores, mechanism);
        let all: Known<Vec<f64>> = self.effort.inputs(kernel).iter().map(of).collect();
        Ok(100.0 * all?.into_iter().fold(0.0, f64::max) / f64::from(cores))
    }

    /// Inputs up to 64, or above.
    pub fn inputs(&self, kernel: Kernel, is_small: bool) -> Vec<u32> {
        let all = self.effort.inputs(kernel).iter().copied();
        all.filter(|&n| (n <= SMALL) == is_small).collect()
    }

    /// A time with remote stores over that with copies, of all these inputs on two and on four cores:
    /// the least and the most.
    ///
    /// # Errors
    /// A run is missing.
    pub fn stores_over_copies(
        &self,
        kernel: Kernel,
        is_small: bool,
        time: Time,
    ) -> Known<(f64, f64)> {
        let mut range = (f64::INFINITY, 0.0_f64);
        for n in self.inputs(kernel, is_small) {
            for cores in PARALLEL {
                let of = |mechanism| self.kernel(kernel, n, cores, mechanism, time);
                let ratio = of(Mechanism::Stores)? / of(Mechanism::Dma)?;
                range = (range.0.min(ratio), range.1.max(ratio));
            }
        }
        Ok(range)
    }

    /// The smallest input that gains by more than one core, and the cycles that it takes one.
    ///
    /// # Errors
    /// A run is missing, or none gains.
    pub fn finest(&self, kernel: Kernel, mechanisms: &[Mechanism]) -> Known<(f64, f64)> {
        let mut found = None;
        for &n in self.effort.inputs(kernel).iter().rev() {
            let alone = self.kernel(kernel, n, 1, Mechanism::Dma, Time::Total)?;
            for cores in PARALLEL {
                for &mechanism in mechanisms {
                    if self.speedup(kernel, n, cores, mechanism)? > 1.0 {
                        found = Some((f64::from(n), alone));
                    }
                }
            }
        }
        found.or(self.planned((1.0, 1.0))).ok_or_else(|| "no input gains".to_owned())
    }

    /// Tests of the interface that have to be passed.
    ///
    /// # Errors
    /// One is not, or the run is missing.
    pub fn passed(&self, tests: &[&str]) -> Known<()> {
        let report = self.report(Experiment::prototype(Work::Test, 4))?;
        let passed = report.output["passed"].as_array();
        let has = |test: &&&str| passed.is_some_and(|all| all.iter().any(|one| one == **test));
        match tests.iter().find(|test| !has(test)) {
            Some(test) if self.planned(()).is_none() => {
                Err(format!("scr_test: {test} is not passed"))
            }
            _ => Ok(()),
        }
    }

    /// Sum of a counter over all parts.
    fn count(&self, run: Experiment, counter: &str) -> Known<f64> {
        let stats = &self.report(run)?.stats;
        let all = stats.iter().filter(|(path, _)| path.ends_with(counter));
        let sum = all.map(|(_, value)| value).copied().reduce(|sum, value| sum + value);
        sum.or(self.planned(1.0)).ok_or_else(|| format!("{} counts no {counter}", run.name()))
    }

    /// Requests to directories, for each time that a core of the simulated chip does what is measured.
    ///
    /// # Errors
    /// The run is missing.
    pub fn requests(&self, work: Work, cores: u16) -> Known<f64> {
        let run = Experiment::simulated(work, cores);
        let (episodes, warm_up) = run.episodes(self.effort);
        let all = self.count(run, counter::HOME_HITS)? + self.count(run, counter::HOME_MISSES)?;
        Ok(all / f64::from(episodes + warm_up) / f64::from(cores))
    }

    /// Remote stores of the core that does not have the primitive, each time.
    ///
    /// # Errors
    /// The run is missing.
    pub fn remote_stores(&self, work: Work) -> Known<f64> {
        let run = Experiment::prototype(work, 2);
        let (episodes, warm_up) = run.episodes(self.effort);
        Ok(self.count(run, &format!("[1]{}", counter::REMOTE_STORES))?
            / f64::from(episodes + warm_up))
    }

    /// A number of a machine.
    ///
    /// # Errors
    /// It has none of this name.
    pub fn machine_number(&self, is_simulated: bool, path: &str) -> Known<f64> {
        let value = self.setting_at(is_simulated, path)?;
        let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
        number.ok_or_else(|| format!("{path} of the machine is not a number"))
    }

    /// A word of the prototype.
    ///
    /// # Errors
    /// It has none of this name.
    pub fn machine_word(&self, path: &str) -> Known<&str> {
        let word = self.setting_at(false, path)?.as_str();
        word.ok_or_else(|| format!("{path} of the machine is not a word"))
    }

    fn setting_at(&self, is_simulated: bool, path: &str) -> Known<&toml::Value> {
        let Setting { prototype, simulated } = &self.setting;
        let machine = if is_simulated { simulated } else { prototype };
        let machine = machine.as_ref().map_err(String::clone)?;
        let missing = || format!("the machine has no {path}");
        let mut keys = path.split('.');
        let first = keys.next().and_then(|key| machine.get(key)).ok_or_else(missing)?;
        keys.try_fold(first, |value, key| value.get(key).ok_or_else(missing))
    }
}
